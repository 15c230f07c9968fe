//! Looking: one login by two searches, all of them by two paged ones (H-16).

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use futures_util::StreamExt as _;
use mesh_sdk::adapter::{Listed, Sink};
use mesh_sdk::{Answer, Class, Cx, Error, Login, Marker, Proof, Secret};

use super::adapter::Ldap;
use super::compare::{Known, Wish, diff};
use super::connect::{self, Session};
use super::dn;
use super::entry::{Entry, text_of};
use super::hash::{self, Fits};

/// How many logins are proven by a bind at once.
const BINDS: usize = 4;

/// How many are in one bulk look.
const MOST_BINDS: usize = 256;

/// How many passwords may be proven by a bind.
pub(super) enum Binds {
    /// This one may.
    One,
    /// What the last look found out counts; without one this one may.
    NotAgain,
    /// So many.
    UpTo(AtomicUsize),
}

impl Binds {
    fn take(&self) -> bool {
        let Binds::UpTo(left) = self else {
            return true;
        };
        let less = |left: usize| left.checked_sub(1);
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_ok()
    }
    fn are_spent(&self) -> bool {
        matches!(self, Binds::UpTo(left) if left.load(Ordering::Relaxed) == 0)
    }
}

/// What the last bind with each of a wish's passwords said; kept with the wish.
#[derive(Default)]
pub(super) struct LastBind([AtomicU8; 2]);

impl LastBind {
    fn get(&self, which: usize) -> Option<bool> {
        match self.0[which].load(Ordering::Relaxed) {
            0 => None,
            told => Some(told == 1),
        }
    }
    fn set(&self, which: usize, fits: bool) {
        self.0[which].store(if fits { 1 } else { 2 }, Ordering::Relaxed);
    }
    pub(super) fn forget(&self) {
        self.0
            .iter()
            .for_each(|told| told.store(0, Ordering::Relaxed));
    }
}

/// What is there of one login.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) entry: Entry,
    pub(super) groups: BTreeSet<String>,
}

impl Ldap {
    /// One login; `None` if there is no such entry below the base, which was seen.
    pub(super) async fn look_up(
        &self,
        cx: &Cx,
        session: &Session,
        login: &str,
    ) -> Result<Option<Found>, Error> {
        let filter = format!("(uid={})", dn::in_filter(login));
        let all = connect::entries(cx, session, &self.settings, &filter).await?;
        // The server also finds whom it takes for the same, and entries with one more name.
        let Some(entry) = all.into_iter().find(|one| one.login == login) else {
            return Ok(None);
        };
        let mut groups = BTreeSet::new();
        if let Some(base) = &self.options.groups {
            let own = dn::in_filter(&self.dn(login));
            let filter = format!("({}={own})", self.options.member());
            for group in connect::search(cx, session, base, &filter, &["cn"]).await? {
                groups.extend(dn::value_below("cn", &group.dn, base));
            }
        }
        Ok(Some(Found { entry, groups }))
    }

    /// Every login.
    pub(super) async fn find_all(
        &self,
        cx: &Cx,
        session: &Session,
    ) -> Result<HashMap<String, Found>, Error> {
        let all = connect::entries(cx, session, &self.settings, "(objectClass=*)").await?;
        let mut found = HashMap::with_capacity(all.len());
        for entry in all {
            let groups = BTreeSet::new();
            found.insert(entry.login.clone(), Found { entry, groups });
        }
        if let Some(base) = &self.options.groups {
            let member = self.options.member();
            for group in connect::search(cx, session, base, "(objectClass=*)", &[member]).await? {
                let Some(name) = dn::value_below("cn", &group.dn, base) else {
                    continue;
                };
                for dn in text_of(&group, member) {
                    let login = dn::value_below("uid", &dn, &self.settings.path);
                    if let Some(one) = login.and_then(|login| found.get_mut(&login)) {
                        one.groups.insert(name.clone());
                    }
                }
            }
        }
        Ok(found)
    }

    /// What is known of a login's password, or of both. An error is unknown.
    pub(super) async fn known(
        &self,
        wish: &Wish<'_>,
        entry: &Entry,
        binds: &Binds,
    ) -> Result<Known, Error> {
        let mut all = Known::Untold;
        for (which, password) in wish.passwords().enumerate() {
            let known = self.known_of(wish, entry, binds, (which, password)).await?;
            all = if which == 0 { known } else { all.and(known) };
        }
        Ok(all)
    }

    async fn known_of(
        &self,
        wish: &Wish<'_>,
        entry: &Entry,
        binds: &Binds,
        (which, password): (usize, &Secret),
    ) -> Result<Known, Error> {
        let values = entry.passwords.iter();
        let mut judged = values.map(|value| (hash::fits(value, password.expose()), value));
        if let Some((_, value)) = judged.clone().find(|(fits, _)| *fits == Fits::Yes) {
            if hash::is_sha512(value) && entry.enabled() {
                self.trust_sha512(wish.login().as_str(), password).await?;
            }
            return Ok(Known::Fits(Proof::Verifier));
        }
        let readable = !entry.passwords.is_empty();
        // Only the server can tell the rest, and of a login that is off not even it.
        if (readable && judged.all(|(fits, _)| fits == Fits::No)) || !entry.enabled() {
            return Ok(Known::Differs);
        }
        self.by_bind(wish, (which, password), binds).await
    }

    /// Logs in as the consumer: once a pass, since each wrong login counts for a lock-out (O-23).
    async fn by_bind(
        &self,
        wish: &Wish<'_>,
        (which, password): (usize, &Secret),
        binds: &Binds,
    ) -> Result<Known, Error> {
        let last = wish.memo(LastBind::default);
        let told = match (binds, last.get(which)) {
            (Binds::NotAgain, Some(told)) => told,
            _ if !connect::may_prove(&self.settings) || !binds.take() => return Ok(Known::Untold),
            _ => {
                let dn = self.dn(wish.login().as_str());
                let told = connect::lets_in(&self.settings, &dn, password).await?;
                last.set(which, told);
                told
            }
        };
        Ok(match told {
            true => Known::Fits(Proof::Login),
            false => Known::Differs,
        })
    }

    /// A server without the module for `{SSHA512}` keeps such a value, or hashes it once more, and lets nobody
    /// in: that it knows the scheme is proven once, by logging in.
    pub(super) async fn trust_sha512(&self, login: &str, password: &Secret) -> Result<(), Error> {
        let trusted = self.sha512_proven.load(Ordering::Relaxed);
        if trusted || !connect::may_prove(&self.settings) {
            return Ok(());
        }
        if !connect::lets_in(&self.settings, &self.dn(login), password).await? {
            let message = "the server does not know {SSHA512}: load its module `pw-sha2`, or set the option \
                           `hash` to \"ssha\"";
            return Err(Error::new(Class::RefusedValue, message));
        }
        self.sha512_proven.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The answer for one, of whom this was found.
    pub(super) async fn judge(
        &self,
        wish: &Wish<'_>,
        found: Option<&Found>,
        binds: &Binds,
    ) -> Result<Answer, Error> {
        let Some(Found { entry, groups }) = found else {
            return Ok(Answer::absent());
        };
        let known = self.known(wish, entry, binds).await?;
        Ok(diff(wish, entry, groups, known).answer(wish))
    }

    pub(super) async fn look_at_all(
        &self,
        cx: &Cx,
        wishes: &[Wish<'_>],
        answers: &Sink<Answer>,
    ) -> Result<(), Error> {
        let session = self.session(cx).await?;
        let found = self.find_all(cx, &session).await?;
        drop(session);
        // Where a bind is the only proof, a slice is proven that way, which moves on with each look.
        let start = self.next_bind.load(Ordering::Relaxed) % wishes.len();
        let binds = Binds::UpTo(AtomicUsize::new(MOST_BINDS));
        let turn = (start..wishes.len()).chain(0..start);
        let each = futures_util::stream::iter(turn);
        let each = each.for_each_concurrent(BINDS, async |index| {
            let wish = &wishes[index];
            let one = found.get(wish.login().as_str());
            answers.put(index, self.judge(wish, one, &binds).await);
            if !binds.are_spent() {
                self.next_bind.store(index + 1, Ordering::Relaxed);
            }
            cx.progress();
        });
        each.await;
        Ok(())
    }

    pub(super) async fn list_all(&self, cx: &Cx, marker: &Marker) -> Result<Vec<Listed>, Error> {
        let session = self.session(cx).await?;
        let found = connect::entries(cx, &session, &self.settings, "(objectClass=*)").await?;
        let listed = found.into_iter().filter_map(|entry| {
            let login = Login::new(&entry.login).ok()?;
            Some(Listed::new(
                login,
                entry.listed_mark(marker),
                entry.enabled(),
            ))
        });
        Ok(listed.collect())
    }
}
