//! One consumer of one provider, as the core keeps it: wish, record, and what this pass saw.

use serde::{Deserialize, Serialize};

use super::record::Record;
use crate::answer::Differences;
use crate::error::Error;
use crate::name::{ConsumerName, Login};
use crate::provision::Digest;
use crate::time::Time;

/// What is asked for one consumer, as far as decisions need it. No secret is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Who.
    pub consumer: ConsumerName,
    /// Its login.
    pub login: Login,
    /// The keyed digest of login, password and values (H-1).
    pub digest: Digest,
    /// `enabled = false` keeps it switched off (H-25).
    pub enabled: bool,
    /// An existing login may be taken over once its password is proven (H-18).
    pub adopt: bool,
    /// Whether its password is there.
    pub secret: SecretState,
}

/// Where a provision's password stands (H-22).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretState {
    /// It is there.
    Ready,
    /// Neither secret store nor bus has a version: it may be minted, if the backend knows nothing either.
    New,
    /// There must be one and it cannot be had: nothing is written. Why, for people.
    Lost(String),
}

/// The whole wish for one provider.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WholeWish {
    /// Grows with every wish that was read whole.
    pub generation: u64,
    /// Everything that is asked for.
    pub wanted: Vec<Wanted>,
    /// Consumers that the manifest names but whose entry is refused or whose password source cannot be
    /// read: they keep the wish they had, and never count as gone (O-28, O-29).
    pub kept: Vec<ConsumerName>,
    /// Part of it could not be read, and nobody knows whom that names: nobody leaves on its account
    ///
    pub partial: bool,
    /// Logins of the same server that other providers' wishes name: none of them is taken away.
    pub elsewhere: Vec<Login>,
}

/// One consumer in the core.
#[derive(Debug, Clone)]
pub struct Slot {
    /// Who.
    pub consumer: ConsumerName,
    /// What is asked, if it still is.
    pub wanted: Option<Wanted>,
    /// What is remembered.
    pub record: Record,
    /// On which pass it was asked last, in this process.
    pub(super) asked_at: Option<Time>,
    /// When it answered last, as far as is known.
    pub(super) answered_at: Option<Time>,
    /// Since which pass it was planned and never asked, because looks at others hang (H-9).
    pub(super) waits_since: Option<Time>,
    /// So many whole passes in a row ended without its turn.
    pub(super) skipped: u8,
    /// A person's word: write nothing until then (H-25).
    pub(super) paused_until: Option<Time>,
    /// What this pass decided for it so far.
    pub(super) todo: Option<Step>,
    /// The login that a removal of this pass is about.
    pub(super) target: Option<Login>,
    /// `create` must run once although nothing was seen: the adapter cannot be asked (H-10).
    pub(super) blind: Option<Why>,
    /// Planned on this pass, and not answered yet.
    pub(super) planned: bool,
    /// Due at the next pass, whatever the timer says: new, changed, or a person's word.
    pub(super) soon: bool,
    /// The manifest names it, and its entry is refused or cannot be read (O-28, O-29).
    pub(super) kept: bool,
    /// The login that is there becomes ours with the next apply: its password fits (H-18).
    pub(super) adopting: bool,
    /// It had a password, and none is stored: that it is called new does not make it so (H-22).
    pub(super) no_version: bool,
    /// It is unknown only because the server is down: told once for all, and not stored.
    pub(super) quiet: bool,
    /// What its record claimed before this pass meant to apply it: the intent, and whether it is adopted.
    pub(super) before: Option<Box<(Option<Digest>, bool)>>,
    /// Its record differs from what is stored.
    pub(super) dirty: bool,
    /// Its record is, or may be, in the store.
    pub(super) stored: bool,
}

impl Slot {
    pub(super) fn new(consumer: ConsumerName, record: Record) -> Self {
        Self {
            consumer,
            wanted: None,
            record,
            asked_at: None,
            answered_at: None,
            waits_since: None,
            skipped: 0,
            paused_until: None,
            todo: None,
            target: None,
            blind: None,
            planned: false,
            soon: false,
            kept: false,
            adopting: false,
            no_version: false,
            quiet: false,
            before: None,
            dirty: false,
            stored: false,
        }
    }
    /// When it answered last. After a restart: when it had answered for sure.
    pub fn checked_at(&self) -> Option<Time> {
        self.answered_at
    }
    /// Until when writes are paused for it.
    pub fn paused_until(&self) -> Option<Time> {
        self.paused_until
    }
    /// Nothing is asked for it, nothing is leaving and nothing is left over: `status` shows it no more.
    pub fn is_retired(&self) -> bool {
        self.wanted.is_none()
            && !self.kept
            && !self.record.leaves()
            && self.record.superseded.is_empty()
    }
    /// Whether what was applied is what is asked: then a difference is a loss, else a change.
    pub(super) fn is_applied(&self) -> bool {
        self.wanted
            .as_ref()
            .is_some_and(|w| self.record.applied == Some(w.digest))
    }
    /// Whether its password is there.
    pub(super) fn is_ready(&self) -> bool {
        self.wanted
            .as_ref()
            .is_some_and(|w| w.secret == SecretState::Ready)
    }
    /// Not asked and not applied before then: brake, delay, or taken.
    pub(super) fn delayed_until(&self, now: Time) -> Option<Time> {
        self.record.not_before.filter(|at| *at > now)
    }
    /// How it stands, in the words of `status`.
    pub fn state(&self) -> State {
        match &self.wanted {
            Some(wanted) => super::state_of(wanted, &self.record),
            None => State::Disabled,
        }
    }
}

/// How a provision stands, in the words of `status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As asked.
    Held,
    /// As asked, and that is: switched off.
    Disabled,
    /// Not applied yet.
    Pending,
    /// It differs, and is being repaired.
    Lost,
    /// It could not be asked.
    Unknown,
    /// It differs again and again; checks are rare.
    Braked,
    /// It cannot be applied without a person.
    Refused,
}

impl State {
    /// The word that is shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            State::Held => "held",
            State::Disabled => "disabled",
            State::Pending => "pending",
            State::Lost => "lost",
            State::Unknown => "unknown",
            State::Braked => "braked",
            State::Refused => "refused",
        }
    }
    /// Whether it is as asked.
    pub const fn is_fine(self) -> bool {
        matches!(self, State::Held | State::Disabled)
    }
}

/// What is to be done for a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Make a password, keep it, and say so by [`super::Core::secret_ready`].
    Mint,
    /// `create`, and look again.
    Create(Why),
    /// `disable`, or `remove` where the adapter cannot switch off and the grace is over.
    Disable,
    /// `remove`.
    Remove,
}

/// Why something is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Never applied before.
    New,
    /// The wish changed, or an earlier apply was not seen to its end.
    Changed,
    /// It was lost, in these ways.
    Lost(Differences),
    /// The adapter cannot be asked, and a provisioner started (H-10).
    Started,
    /// The adapter cannot be asked, and the server restarted (H-10).
    ServerRestarted,
    /// A person said so.
    Word,
}

/// What happened to a consumer, for history, log and metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening {
    /// Found held without a record: taken into the record without a write (H-2).
    Adopted,
    /// Applied for the first time, or because it changed.
    Applied,
    /// Lost and applied again.
    Healed(Differences, Box<str>),
    /// Switched on again after somebody had switched it off (H-25).
    SwitchedOn,
    /// Cannot be asked, since now.
    BecameUnknown(Box<str>),
    /// Can be asked again.
    AnsweredAgain,
    /// Lost again after a successful apply.
    Braked(u32),
    /// A login that is not ours.
    Taken,
    /// An effect failed.
    Failed(Error),
    /// Asked for no more.
    Leaving,
    /// Switched off because it is asked for no more.
    SwitchedOff,
    /// Dropped.
    Dropped,
    /// Asked for again before it was dropped.
    CameBack,
    /// Its login changed; the old one is kept.
    Superseded(Login),
    /// A person lets a login go that its consumer had before.
    Retired(Login),
    /// A login that was to leave is another consumer's or provider's now.
    HandedOver(Login),
}
