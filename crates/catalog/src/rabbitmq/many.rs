//! Making many: those of whom nothing has to be taken away by imports of definitions, all others one by
//! one over a few connections (`docs/decisions/0124-rabbitmq-definitions.md`).

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use mesh_sdk::adapter::Sink;
use mesh_sdk::{Class, Cx, Error, MarkSeen};

use super::adapter::Rabbit;
use super::api::{Api, Shown, User};
use super::compare::{Wish, diff};
use super::draft::{Draft, Part, draft};
use super::look::{FEW, Index};

/// How many connections make logins one by one; more gain nothing (`docs/decisions/0061-rabbitmq-bulk.md`).
const CONNECTIONS: usize = 8;

/// One that is made by itself.
#[derive(Clone, Copy)]
struct Single {
    at: usize,
    /// It was not there before this call: what is there now is what an import of ours left.
    new: bool,
}

impl Rabbit {
    /// Looks, and writes only what differs. One that fails stops no other.
    pub(super) async fn create_many(
        &self,
        cx: &Cx,
        wishes: &[Wish<'_>],
        outcomes: &Sink<()>,
    ) -> Result<(), Error> {
        let mut api = self.api()?;
        if wishes.len() <= FEW {
            for (index, wish) in wishes.iter().enumerate() {
                let outcome = self.create_with(cx, &mut api, wish).await;
                settle(index, outcome, outcomes)?;
            }
            return Ok(());
        }
        let logins: HashSet<&str> = wishes.iter().map(|w| w.login().as_str()).collect();
        let before = api.look_for(cx, |login| logins.contains(login)).await?;
        let index = Index::of(&before);
        let (drafts, singles) = self
            .sort_out(cx, &mut api, wishes, (&index, outcomes))
            .await?;
        // They make the virtual hosts that others wait for.
        self.create_each(cx, wishes, &singles, (&index, outcomes))
            .await?;
        let left = import(cx, &mut api, drafts, outcomes).await?;
        if left.is_empty() {
            return Ok(());
        }
        // An import that is refused was done in part, and goes on for a moment.
        let after = self.look_at_everything(cx).await?;
        self.create_each(cx, wishes, &left, (&Index::of(&after), outcomes))
            .await
    }

    /// Who can be made by an import, and who cannot. Whoever is in order, or is never touched, has an
    /// outcome.
    async fn sort_out(
        &self,
        cx: &Cx,
        api: &mut Api<'_>,
        wishes: &[Wish<'_>],
        (index, outcomes): (&Index<'_>, &Sink<()>),
    ) -> Result<(Vec<(Single, Draft)>, Vec<Single>), Error> {
        let (mut drafts, mut singles) = (Vec::new(), Vec::new());
        let mut settled = Vec::new();
        {
            let _computing = cx.computing();
            for (at, wish) in wishes.iter().enumerate() {
                let login = wish.login().as_str();
                if let Err(error) = self.may_touch(login) {
                    settled.push((at, Err(error)));
                    continue;
                }
                let shown = index.find(login);
                if is_in_order(wish, shown.as_ref()) {
                    settled.push((at, Ok(())));
                    continue;
                }
                let new = shown.is_none();
                let single = Single { at, new };
                match draft(wish, shown.as_ref()) {
                    Some(draft) => drafts.push((single, draft)),
                    None => singles.push(single),
                }
            }
        }
        outcomes.put_each(settled);
        if drafts.iter().any(|(_, draft)| !draft.vhosts().is_empty()) {
            let there = api.vhosts(cx).await?;
            let mut coming = BTreeSet::new();
            drafts.retain(|(single, draft)| {
                let makes = wishes[single.at].values().create_vhost;
                let known = draft.is_for(&there, makes.then_some(&mut coming));
                if !known {
                    singles.push(*single);
                }
                known
            });
        }
        Ok((drafts, singles))
    }

    /// Some, over a few connections, each by itself.
    async fn create_each(
        &self,
        cx: &Cx,
        wishes: &[Wish<'_>],
        which: &[Single],
        (index, outcomes): (&Index<'_>, &Sink<()>),
    ) -> Result<(), Error> {
        let connections = CONNECTIONS.min(which.len());
        let (next, working) = (AtomicUsize::new(0), AtomicUsize::new(connections));
        let work = || async {
            let mut api = self.api()?;
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(single) = which.get(at) else {
                    return Ok(());
                };
                let wish = &wishes[single.at];
                let shown = index.find(wish.login().as_str());
                let outcome = self
                    .create_again(cx, &mut api, wish, (shown.as_ref(), single.new))
                    .await;
                let Err(error) = settle(single.at, outcome, outcomes) else {
                    continue;
                };
                // A server that is busy is asked by one fewer; only the last one stops for it. Nobody
                // goes on asking a server that cannot be asked at all.
                let others = working.fetch_sub(1, Ordering::Relaxed) > 1;
                if error.class() != Class::Busy || !others {
                    next.store(which.len(), Ordering::Relaxed);
                }
                return Err(error);
            }
        };
        let ends = join_all((0..connections).map(|_| work())).await;
        ends.into_iter().collect()
    }

    /// One, of whom an import that was refused may have left something.
    async fn create_again(
        &self,
        cx: &Cx,
        api: &mut Api<'_>,
        wish: &Wish<'_>,
        (shown, new): (Option<&Shown<&User>>, bool),
    ) -> Result<(), Error> {
        let Some(left) = shown.filter(|_| new) else {
            return self.apply(cx, api, wish, shown).await;
        };
        let login = wish.login().as_str();
        if diff(wish, left).mark != MarkSeen::Ours {
            let message = format!("`{login}` was made by somebody else meanwhile");
            return Err(Error::new(Class::Exists, message));
        }
        let outcome = self.apply(cx, api, wish, shown).await;
        let refused = |error: &Error| error.class() == Class::RefusedValue;
        if outcome.as_ref().is_err_and(refused) {
            api.delete_user(cx, login).await?;
        }
        outcome
    }

    async fn create_with(&self, cx: &Cx, api: &mut Api<'_>, wish: &Wish<'_>) -> Result<(), Error> {
        self.may_touch(wish.login().as_str())?;
        let shown = api.look(cx, wish.login().as_str()).await?;
        let shown = shown.as_ref().map(|one| one.part(&one.users));
        self.apply(cx, api, wish, shown.as_ref()).await
    }
}

fn is_in_order(wish: &Wish<'_>, shown: Option<&Shown<&User>>) -> bool {
    let known = !wish.enabled() || wish.password().is_some();
    known && shown.is_some_and(|shown| diff(wish, shown).is_none(wish.exact()))
}

/// Imports in parts. Answers who was in a part that was refused.
async fn import(
    cx: &Cx,
    api: &mut Api<'_>,
    drafts: Vec<(Single, Draft)>,
    outcomes: &Sink<()>,
) -> Result<Vec<Single>, Error> {
    let mut left = Vec::new();
    let mut drafts = drafts.into_iter().peekable();
    while drafts.peek().is_some() {
        let (mut part, mut who) = (Part::default(), Vec::new());
        while let Some((single, draft)) = drafts.next_if(|(_, draft)| part.takes(draft)) {
            part.add(draft);
            who.push(single);
        }
        match api.import(cx, &part.body()).await {
            Ok(()) => outcomes.put_each(who.into_iter().map(|single| (single.at, Ok(())))),
            Err(error) if error.class().is_transient() => return Err(error),
            Err(_) => left.extend(who),
        }
    }
    Ok(left)
}

/// Puts an outcome. One that says that nobody can be served now is given back instead.
fn settle(index: usize, outcome: Result<(), Error>, outcomes: &Sink<()>) -> Result<(), Error> {
    match outcome {
        Err(error) if error.class().is_transient() => Err(error),
        outcome => {
            outcomes.put(index, outcome);
            Ok(())
        }
    }
}
