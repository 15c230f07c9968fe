//! What was proven of a password, and for how long that holds.
//!
//! etcd shows no verifier, so a login is the proof, and each costs the server a slow hash. It is not paid
//! again while nothing can have changed: from 3.5 on the cluster counts every change of users, roles
//! and permissions, and where that count grew by our own changes only, everybody else is as before.
//! Where it grew by others', and before 3.5, a token that a login gave is shown again: etcd forgets a
//! user's tokens when its password changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use mesh_sdk::{Cx, Error, Secret};

use super::api::{Api, Door, Login};
use super::compare::Wish;

/// What is known of the cluster's store of users.
#[derive(Default)]
pub(super) struct Ledger(Mutex<Known>);

#[derive(Default)]
struct Known {
    cluster: String,
    /// What the next reading should be if nobody else changes anything.
    revision: u64,
    raft: u64,
    /// Counts the readings that were another.
    epoch: u64,
    /// How often we touched each login.
    touched: HashMap<String, u64>,
}

/// A moment in the life of the store, for one login. The same moment means: nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    /// None before 3.5: nothing says whether anybody else changed something.
    epoch: Option<u64>,
    touched: u64,
}

impl Moment {
    /// Whether nothing can have changed between the two.
    fn is_same(self, other: Moment) -> bool {
        self.epoch.is_some() && self == other
    }
}

impl Ledger {
    /// Reads the counters. A cluster that is another, or whose log became shorter, was restored.
    pub(super) async fn read(&self, cx: &Cx, api: &mut Api<'_>) -> Result<Option<u64>, Error> {
        let Some(status) = api.auth_status(cx).await? else {
            return Ok(None);
        };
        let member = api.status(cx).await?;
        let number = |text: &str| text.parse::<u64>().unwrap_or(0);
        let raft = number(member["raftIndex"].as_str().unwrap_or_default());
        let revision = number(&status.revision);
        let Ok(mut known) = self.0.lock() else {
            return Ok(None);
        };
        let same = known.cluster == status.header.cluster_id
            && known.revision == revision
            && known.raft <= raft;
        if !same {
            known.epoch += 1;
        }
        known.cluster = status.header.cluster_id;
        (known.revision, known.raft) = (revision, raft);
        Ok(Some(known.epoch))
    }
    /// We changed this login, or may have; with so many changes that were told to be done.
    pub(super) fn touch(&self, login: &str, changes: u64) {
        if let Ok(mut known) = self.0.lock() {
            known.revision += changes;
            *known.touched.entry(login.to_owned()).or_default() += 1;
        }
    }
    /// The moment of a login in an epoch.
    pub(super) fn moment(&self, epoch: Option<u64>, login: &str) -> Moment {
        let touched = self
            .0
            .lock()
            .ok()
            .and_then(|known| known.touched.get(login).copied());
        Moment {
            epoch,
            touched: touched.unwrap_or(0),
        }
    }
}

/// What is known of one wish's password.
#[derive(Default)]
pub(super) struct Proven(Mutex<Fact>);

#[derive(Default)]
struct Fact {
    /// When the password was last seen to fit.
    fits: Option<Moment>,
    /// When the login was last plainly held.
    held: Option<Moment>,
    /// What a login gave.
    token: Option<Secret>,
    /// The last try was refused, and nothing was done about it yet.
    refused: bool,
}

/// What is said of a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// It fits: a login was made now.
    LoggedIn,
    /// It fits: it is the one that was proven before.
    AsBefore,
    /// It does not.
    Other,
    /// Not looked at.
    NotAsked,
}

/// The facts of a wish.
pub(super) fn proven(wish: &Wish<'_>) -> Arc<Proven> {
    wish.memo(Proven::default)
}

impl Proven {
    /// Whether all was held at this moment.
    pub(super) fn was_held(&self, now: Moment) -> bool {
        let fact = self.0.lock().ok();
        fact.and_then(|fact| fact.held)
            .is_some_and(|then| then.is_same(now))
    }
    /// Notes that all is held, or that it is not.
    pub(super) fn note(&self, held: Option<Moment>) {
        if let Ok(mut fact) = self.0.lock() {
            fact.held = held;
        }
    }
    /// Whether the last try was refused; asked once, so that what follows it needs no second wrong login
    /// (O-23).
    pub(super) fn take_refusal(&self) -> bool {
        self.0
            .lock()
            .is_ok_and(|mut fact| std::mem::take(&mut fact.refused))
    }

    /// Looks at the password by the cheapest way. `may_knock` is asked before a login is tried.
    pub(super) async fn look(
        &self,
        cx: &Cx,
        door: &mut Door<'_>,
        (login, password): (&str, &Secret),
        now: Moment,
        may_knock: impl FnOnce() -> bool,
    ) -> Result<Said, Error> {
        let (fits, token) = match self.0.lock() {
            Ok(fact) => (fact.fits, fact.token.clone()),
            Err(_) => (None, None),
        };
        if fits.is_some_and(|then| then.is_same(now)) {
            return Ok(Said::AsBefore);
        }
        if let Some(token) = token
            && door.knows(cx, login, &token).await?
        {
            self.set(Some(now), Some(token), false);
            return Ok(Said::AsBefore);
        }
        if !may_knock() {
            return Ok(Said::NotAsked);
        }
        match door.knock(cx, login, password).await? {
            Login::In(token) => {
                self.set(Some(now), Some(token), false);
                Ok(Said::LoggedIn)
            }
            Login::Refused => {
                self.set(None, None, true);
                Ok(Said::Other)
            }
        }
    }

    fn set(&self, fits: Option<Moment>, token: Option<Secret>, refused: bool) {
        if let Ok(mut fact) = self.0.lock() {
            *fact = Fact {
                fits,
                held: None,
                token,
                refused,
            };
        }
    }
}
