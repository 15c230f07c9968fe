//! The backend that the simulation asks: logins with all that can differ, and every way of failing.

use std::collections::{BTreeMap, BTreeSet};

use mesh_sdk::adapter::{Listed, Server, Use};
use mesh_sdk::{
    Answer, Class, ConsumerName, Difference, Differences, Error, Login, Lost, MarkSeen, Proof, Time,
};

/// Whose mark a login carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mark {
    /// None.
    Bare,
    /// Ours, for this consumer.
    Ours(String),
    /// Another installation's.
    Foreign,
    /// In our name, and damaged or forged.
    Damaged,
}

/// Our own login.
pub(crate) const CANARY: &str = "mesh-canary-1";
/// Its password.
pub(crate) const CANARY_PASSWORD: u32 = 5;

/// One login as the backend holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    /// Which password; every password that was ever made has its own number.
    pub(crate) password: u32,
    /// Which set of rights.
    pub(crate) grants: u8,
    /// Whether it can be used.
    pub(crate) enabled: bool,
    /// Its mark.
    pub(crate) mark: Mark,
    /// It was there before us: made by somebody else, and perhaps adopted.
    pub(crate) elder: bool,
}

/// What is wished for one consumer, with its password if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Want {
    /// Who.
    pub(crate) consumer: String,
    /// As whom.
    pub(crate) login: String,
    /// With which password.
    pub(crate) password: Option<u32>,
    /// With which rights.
    pub(crate) grants: u8,
    /// Whether it should be usable.
    pub(crate) enabled: bool,
    /// An existing login may be taken over.
    pub(crate) adopt: bool,
}

/// How looks at one login go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LookFault {
    /// The call fails.
    Fails(Class),
    /// It never answers.
    Hangs,
    /// It says held, whatever is there.
    SaysHeld,
    /// It says that the password differs, whatever is there.
    SaysLost,
}

/// How a list goes wrong that is told as a success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListLie {
    /// It is empty.
    Empty,
    /// It ends in the middle.
    FirstHalf,
    /// It begins in the middle.
    SecondHalf,
    /// Every other login is missing.
    EveryOther,
    /// One login is in it twice.
    Twice,
    /// One login is in it twice, once without a mark.
    Contradicts,
    /// Our own login is not in it.
    WithoutCanary,
}

/// How a `create` goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CreateFault {
    /// It fails and does nothing.
    Fails(Class),
    /// It reports success and does nothing.
    NoEffect,
    /// It does what it should and reports a failure.
    EffectButFails,
}

/// The backend.
#[derive(Debug, Clone, Default)]
pub(crate) struct Backend {
    /// Its lasting identity.
    pub(crate) identity: u64,
    /// Its run.
    pub(crate) run: u64,
    /// Its logins.
    pub(crate) accounts: BTreeMap<String, Account>,
    /// It does not answer at all.
    pub(crate) down: bool,
    /// It takes no writes.
    pub(crate) read_only: bool,
    /// It cannot list.
    pub(crate) list_fails: bool,
    /// It does not list what it holds.
    pub(crate) list_lies: Option<ListLie>,
    /// It cannot tell who is in use.
    pub(crate) uses_fail: bool,
    /// When a login was used last.
    pub(crate) used: BTreeMap<String, Time>,
    /// Removing fails.
    pub(crate) remove_fails: bool,
    /// Looks that go wrong, by login.
    pub(crate) looks: BTreeMap<String, LookFault>,
    /// Creates that go wrong, by login.
    pub(crate) creates: BTreeMap<String, CreateFault>,
    /// Every login that was ever made or taken over by us on this server.
    pub(crate) ever_ours: BTreeSet<String>,
}

fn failed<T>(class: Class) -> Result<T, Error> {
    Err(Error::new(class, "simulated"))
}

impl Backend {
    /// What the server says about itself.
    pub(crate) fn server(&self, with_identity: bool) -> Result<Server, Error> {
        if self.down {
            return failed(Class::Unreachable);
        }
        let mut server = Server::default();
        server.run = Some(format!("run{}", self.run));
        server.identity = with_identity.then(|| format!("id{}", self.identity));
        server.read_only = self.read_only.then(|| "a standby".to_owned());
        Ok(server)
    }

    /// A look at one consumer, with every fault.
    pub(crate) fn look(&self, want: &Want) -> Result<Answer, Error> {
        match self.looks.get(&want.login) {
            _ if self.down => failed(Class::Unreachable),
            Some(LookFault::Fails(class)) => failed(*class),
            Some(LookFault::Hangs) => failed(Class::TimedOut),
            Some(LookFault::SaysHeld) => Ok(Answer::held(Proof::Presence)),
            Some(LookFault::SaysLost) => Ok(self.lost(want, Difference::Password.into())),
            None => Ok(self.truth(want)),
        }
    }

    /// What is true.
    pub(crate) fn truth(&self, want: &Want) -> Answer {
        let Some(account) = self.accounts.get(&want.login) else {
            return Answer::absent();
        };
        let marked = account.mark == Mark::Ours(want.consumer.clone());
        let differs = [
            (!marked, Difference::MarkMissing),
            (
                want.password.is_some_and(|p| p != account.password),
                Difference::Password,
            ),
            (
                want.password.is_some() && account.grants != want.grants,
                Difference::GrantsMissing,
            ),
            (want.enabled && !account.enabled, Difference::Disabled),
            (!want.enabled && account.enabled, Difference::Enabled),
        ];
        let differences: Differences = differs
            .into_iter()
            .filter_map(|(differs, what)| differs.then_some(what))
            .collect();
        if differences.is_empty() {
            return Answer::held(Proof::Verifier);
        }
        self.lost(want, differences)
    }

    fn lost(&self, want: &Want, differences: Differences) -> Answer {
        let account = self.accounts.get(&want.login);
        if account.is_none() {
            return Answer::absent();
        }
        let mark = match account.map(|a| &a.mark) {
            None | Some(Mark::Bare) => MarkSeen::None,
            Some(Mark::Foreign) => MarkSeen::Foreign,
            Some(Mark::Damaged) => MarkSeen::Damaged,
            Some(Mark::Ours(owner)) if *owner == want.consumer => MarkSeen::Ours,
            Some(Mark::Ours(owner)) => MarkSeen::OursFor(named(owner)),
        };
        Answer::Lost(Box::new(Lost {
            differences,
            detail: String::new(),
            mark,
            password_fits: account.map(|a| a.password) == want.password,
        }))
    }

    /// Makes the login as wished. An adapter that cannot look refuses a login without our mark.
    ///
    /// One that was there before us stays an elder one, unless our history claims it (H-18).
    pub(crate) fn create(
        &mut self,
        want: &Want,
        cannot_look: bool,
        claimed: bool,
    ) -> Result<(), Error> {
        if self.down {
            return failed(Class::Unreachable);
        }
        if self.read_only {
            return failed(Class::ReadOnly);
        }
        let fault = self.creates.get(&want.login).copied();
        match fault {
            Some(CreateFault::Fails(class)) => return failed(class),
            Some(CreateFault::NoEffect) => return Ok(()),
            Some(CreateFault::EffectButFails) | None => {}
        }
        let before = self.accounts.get(&want.login);
        let ours = Mark::Ours(want.consumer.clone());
        if cannot_look && before.is_some_and(|a| a.mark != ours) {
            return failed(Class::Exists);
        }
        let account = Account {
            password: want.password.unwrap_or_default(),
            grants: want.grants,
            enabled: want.enabled,
            elder: before.is_some_and(|a| a.elder && (a.mark == ours || !claimed)),
            mark: ours,
        };
        self.accounts.insert(want.login.clone(), account);
        self.ever_ours.insert(want.login.clone());
        if fault.is_some() {
            return failed(Class::Unreachable);
        }
        Ok(())
    }

    /// Disables or removes a login, if it carries our mark for this consumer.
    pub(crate) fn take_away(
        &mut self,
        consumer: &str,
        login: &str,
        drop: bool,
    ) -> Result<(), Error> {
        if self.down || self.remove_fails {
            return failed(Class::Unreachable);
        }
        if self.read_only {
            return failed(Class::ReadOnly);
        }
        let Some(account) = self.accounts.get_mut(login) else {
            return failed(Class::Gone);
        };
        if account.mark != Mark::Ours(consumer.to_owned()) {
            return failed(Class::Exists);
        }
        account.enabled = false;
        if drop {
            self.accounts.remove(login);
            self.ever_ours.remove(login);
        }
        Ok(())
    }

    /// Every login with its mark.
    pub(crate) fn list(&self) -> Result<Vec<Listed>, Error> {
        if self.down || self.list_fails {
            return failed(Class::Busy);
        }
        let all = self.accounts.iter().map(|(login, account)| {
            let mark = match &account.mark {
                Mark::Bare => MarkSeen::None,
                Mark::Foreign => MarkSeen::Foreign,
                Mark::Damaged => MarkSeen::Damaged,
                Mark::Ours(owner) => MarkSeen::OursFor(named(owner)),
            };
            let login = Login::new(login).expect("a login");
            Listed::new(login, mark, account.enabled)
        });
        let mut all: Vec<Listed> = all.collect();
        match self.list_lies {
            None => {}
            Some(ListLie::Empty) => all.clear(),
            Some(ListLie::FirstHalf) => all.truncate(all.len() / 2),
            Some(ListLie::SecondHalf) => drop(all.drain(..all.len() / 2)),
            Some(ListLie::EveryOther) => {
                let mut odd = false;
                all.retain(|_| {
                    odd = !odd;
                    !odd
                });
            }
            Some(ListLie::Twice) => all.extend(all.first().cloned()),
            Some(ListLie::Contradicts) => {
                let mut again = all.last().cloned();
                again.iter_mut().for_each(|one| one.mark = MarkSeen::None);
                all.extend(again);
            }
            Some(ListLie::WithoutCanary) => all.retain(|one| one.login.as_str() != CANARY),
        }
        Ok(all)
    }

    /// How these were used last.
    pub(crate) fn uses<'l>(
        &self,
        now: Time,
        logins: impl Iterator<Item = &'l str>,
    ) -> Result<Vec<Option<Use>>, Error> {
        if self.down || self.uses_fail {
            return failed(Class::Denied);
        }
        let told = logins.map(|login| {
            let at = self.used.get(login)?;
            Some(Use::new(now.since(*at), "a login"))
        });
        Ok(told.collect())
    }

    /// Ends every fault; what is there stays there.
    pub(crate) fn heal(&mut self) {
        self.down = false;
        self.read_only = false;
        self.list_fails = false;
        self.list_lies = None;
        self.uses_fail = false;
        self.used.clear();
        self.remove_fails = false;
        self.looks.clear();
        self.creates.clear();
    }
}

/// A consumer's name.
pub(crate) fn named(text: &str) -> ConsumerName {
    ConsumerName::new(text).expect("a name")
}
