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

/// The most logins in one import; and where that was refused, in each of those that come instead. With more
/// it is no faster, and after a refusal the server goes on with the rest of the part for longer.
const PARTS: [usize; 2] = [1_000, 100];
/// Of those that were refused, so many are made one by one at once.
const SINGLY: usize = 64;

/// One that is to be made.
#[derive(Clone, Copy)]
struct Single {
    at: usize,
    /// It was not there before this call.
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
        let mut shown = api.look_for(cx, |login| logins.contains(login)).await?;
        let mut open: Vec<Single> = (0..wishes.len())
            .map(|at| Single { at, new: false })
            .collect();
        let there: HashSet<&str> = shown.users.iter().map(|user| user.name.as_str()).collect();
        for single in &mut open {
            single.new = !there.contains(wishes[single.at].login().as_str());
        }
        for most in PARTS {
            let singly = if most == PARTS[0] { FEW } else { SINGLY };
            let index = Index::of(&shown);
            let seen = (&index, outcomes);
            let (drafts, singles) = self
                .sort_out(cx, &mut api, (wishes, &open, singly), seen)
                .await?;
            // They make the virtual hosts that others wait for.
            self.create_each(cx, wishes, &singles, seen).await?;
            open = import(cx, &mut api, (drafts, most), outcomes).await?;
            if open.is_empty() {
                return Ok(());
            }
            // An import that is refused was done in part, and goes on for a moment.
            shown = self.look_at_everything(cx).await?;
        }
        self.create_each(cx, wishes, &open, (&Index::of(&shown), outcomes))
            .await
    }

    /// Who can be made by an import, and who cannot. Whoever is in order, or is never touched, has an
    /// outcome.
    async fn sort_out(
        &self,
        cx: &Cx,
        api: &mut Api<'_>,
        (wishes, open, singly): (&[Wish<'_>], &[Single], usize),
        (index, outcomes): (&Index<'_>, &Sink<()>),
    ) -> Result<(Vec<(Single, Draft)>, Vec<Single>), Error> {
        let (mut drafts, mut singles) = (Vec::new(), Vec::new());
        let mut settled = Vec::new();
        {
            let _computing = cx.computing();
            for single in open {
                let (at, wish) = (single.at, &wishes[single.at]);
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
                let draft = draft(wish, shown.as_ref());
                match draft.filter(|_| !is_strange(wish, shown.as_ref(), *single)) {
                    Some(draft) => drafts.push((*single, draft)),
                    None => singles.push(*single),
                }
            }
        }
        outcomes.put_each(settled);
        if drafts.len() <= singly {
            singles.extend(drafts.drain(..).map(|(single, _)| single));
        }
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
                    .create_again(cx, &mut api, wish, (shown.as_ref(), *single))
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
        (shown, single): (Option<&Shown<&User>>, Single),
    ) -> Result<(), Error> {
        if !single.new || shown.is_none() {
            return self.apply(cx, api, wish, shown).await;
        }
        let login = wish.login().as_str();
        if is_strange(wish, shown, single) {
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

/// Whether a login that was not there before is now, and not with our mark: somebody else made it.
fn is_strange(wish: &Wish<'_>, shown: Option<&Shown<&User>>, single: Single) -> bool {
    single.new && shown.is_some_and(|shown| diff(wish, shown).mark != MarkSeen::Ours)
}

/// Imports in parts of so many. Answers who was in a part that was refused.
async fn import(
    cx: &Cx,
    api: &mut Api<'_>,
    (drafts, most): (Vec<(Single, Draft)>, usize),
    outcomes: &Sink<()>,
) -> Result<Vec<Single>, Error> {
    let mut left = Vec::new();
    let mut drafts = drafts.into_iter().peekable();
    while drafts.peek().is_some() {
        let (mut part, mut who) = (Part::default(), Vec::new());
        while let Some((single, draft)) = drafts.next_if(|(_, draft)| part.takes(draft, most)) {
            part.add(draft);
            who.push(single);
        }
        match api.import(cx, &part.body()).await {
            Ok(()) => outcomes.put_each(who.into_iter().map(|single| (single.at, Ok(())))),
            Err(error) if error.class().is_transient() => return Err(error),
            Err(error) => {
                tracing::debug!("an import of {} logins was refused: {error}", who.len());
                left.extend(who);
            }
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
