//! Conditions: the one form in which anything in the mesh says "I need someone".

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// How much a condition matters, by harm and not by loudness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; nothing to do. Does not count for exit codes.
    Info,
    /// What is asked is not reached, and consumers still work.
    Warning,
    /// A consumer cannot work, or something could be lost.
    Error,
}

impl Severity {
    /// The word that is shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// Whether the fact stands. True always means "something is wrong" (C-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Status {
    /// It stands.
    True,
    /// It was seen gone.
    False,
    /// The owner could not tell any more.
    Unknown,
}

macro_rules! condition_types {
    ($($name:ident $severity:ident $meaning:literal $cure:literal;)*) => {
        /// Every type of condition: a closed list, so that each has its meaning, its severity and its cure.
        #[non_exhaustive]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum ConditionType {
            $(#[doc = $meaning] $name,)*
        }
        impl ConditionType {
            /// Every type.
            pub const ALL: &'static [ConditionType] = &[$(ConditionType::$name,)*];
            /// The name, CamelCase.
            pub const fn as_str(self) -> &'static str {
                match self { $(ConditionType::$name => stringify!($name),)* }
            }
            /// How much it matters.
            pub const fn severity(self) -> Severity {
                match self { $(ConditionType::$name => Severity::$severity,)* }
            }
            /// What it means, one sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $(ConditionType::$name => $meaning,)* }
            }
            /// What a person can do.
            pub const fn cure(self) -> &'static str {
                match self { $(ConditionType::$name => $cure,)* }
            }
        }
    };
}

condition_types! {
    BackendUnreachable Error
        "The backend could not be asked for longer than `unknown_after`."
        "Look at the server and the way to it; `mesh doctor` shows what fails.";
    LookUnknown Warning
        "One consumer could not be asked for longer than `unknown_after` while others could."
        "See the reason; `mesh explain CONSUMER PROVIDER` shows the last answers.";
    ApplyFailed Error
        "A new or changed provision could not be applied; it is tried again with growing delay."
        "See the reason; a changed manifest or `mesh resume CONSUMER` tries at once.";
    HealFailed Error
        "A lost consumer could not be applied again; it is tried at each check."
        "See the reason.";
    Braked Error
        "A consumer is lost again after each successful repair: the adapter's look and its create disagree, or there is a second writer."
        "Find out what changes it; `mesh resume CONSUMER` ends the brake.";
    TugOfWar Error
        "The same login keeps changing after being held: something else writes it."
        "Stop the other writer; `mesh resume CONSUMER` ends the brake.";
    LoginTaken Error
        "The login exists on the backend and nothing says that it is ours; it was left alone."
        "Choose another `login`, or set `adopt = true` with the password that it has.";
    Refused Error
        "The backend or its adapter does not take what is asked."
        "Change the value that is named in the manifest.";
    ServerChanged Error
        "Another server answers under this address; it is only read until a person says so."
        "If that is meant: `mesh approve server PROVIDER`.";
    SecretLost Error
        "The password of an existing consumer is not in the secret store; nothing is minted anew."
        "Hand it back with `password = { file = … }` in the manifest; it still lies where it was delivered.";
    SecretUnreadable Warning
        "A password source of the manifest cannot be read, or is empty; the last known password stays in force."
        "Bring the file or variable back.";
    WaitsForWritable Warning
        "A repair waits for a server that takes writes: this one is a replica or read-only."
        "Promote it, or name the writable node.";
    NotDurable Info
        "The server forgets its logins at a restart."
        "Give the server a place to keep them, as the message says.";
    MassLoss Info
        "Many consumers were lost at once and were applied again."
        "Nothing, if a restart or restore explains it.";
    PasswordNotEnforced Error
        "The server lets logins in with any password, and that cannot be repaired from here."
        "Change the server's access rules.";
    GrantsSurplus Warning
        "An adopted login has rights beyond what is asked; they were left."
        "`mesh adopt CONSUMER PROVIDER --exact` takes them back.";
    WishUnreadable Error
        "The manifest cannot be read; the last good wish stays in force and nothing is removed."
        "`mesh check` shows the line.";
    DeliveryFailed Error
        "Credentials could not be written where they should lie, or the consumer could not be told of them."
        "See the reason: a folder that is missing, a right that is missing, a program that failed.";
    DeliveryOutstanding Warning
        "A consumer has not got its credentials, or did not say that it took them up, for ten minutes."
        "See who is waited for; `mesh ack delivery CONSUMER` says that it has them.";
    DeliveryContested Warning
        "Something else keeps changing what was delivered; it is repaired less and less often."
        "Find out what writes there, or deliver to another place.";
    ContainerTaken Error
        "A container of that name exists and nothing says that it is ours; it was left alone."
        "Give the container another `name`, or remove that one.";
    ImageMissing Error
        "The image of a container is not on the host; Meshkeeper pulls none by itself."
        "Pull or load it, with the command that the message names.";
    RestartFailed Error
        "A container or unit could not be looked at, made or started; it is tried again."
        "See the reason: a socket that does not answer, a mount that is missing, a port in use.";
    Unwell Error
        "A container or unit does not stay up, is changed again and again, or fails its health check; it is restarted less and less often."
        "Look at its own log; a changed manifest or new credentials end the brake.";
    RotationWaits Warning
        "A new password is in force, and for ten minutes somebody has not taken it up; the old one stays valid."
        "See who is waited for; `mesh rotate CONSUMER PROVIDER --force --reason TEXT` lets the old one go all the same.";
    RotationStuck Warning
        "A rotation makes no step for ten minutes: the server does not hold what is asked of it."
        "See the reason; `mesh explain CONSUMER` tells what the server answered.";
    ManifestDiffers Warning
        "A host's manifest, or a password file that it names, asks for something else than the wish in force; that host looks after nothing by it."
        "Bring the same manifest and files to every host.";
    RemovalHeld Warning
        "Removals wait for a person: too many at once, the wish became empty, or nothing proves the server's list."
        "`mesh plan` shows them, with the word that lets exactly those go.";
    RemovalStuck Warning
        "A login that should go could not be taken away; it is tried again."
        "See the reason.";
    OrphanInUse Warning
        "A login that is asked for no more is in use, or somebody tries to use it; it is dropped only when its grace is over since then."
        "Find out who uses it; put the consumer back into the manifest, or stop what uses it.";
    ListDoubted Warning
        "The server's list of logins has not our own in it, or is not whole: nothing is removed by it."
        "See the message: does the admin login still see every login of the server?";
    MarkDamaged Warning
        "Logins on the server carry a mark in our name that is damaged or forged; they are left alone."
        "Find out who made them; drop those that nobody needs by hand.";
    ProviderGone Info
        "A provider left the manifest; what it holds was left as it is."
        "Put it back, or remove the logins on the server by hand.";
    TlsUnverified Warning
        "A connection is made without verifying the server, as the manifest says."
        "Give the authority with `tls = { ca = … }` and drop the word.";
    WeakPassword Warning
        "A given password is shorter than 8 bytes and `weak = true` allows it; it is not hidden in messages."
        "Give a longer password.";
    Paused Info
        "Writes are paused by a person until the given time; looks go on."
        "`mesh resume` ends it early.";
    DisabledOnPurpose Info
        "The manifest keeps this login switched off."
        "Drop `enabled = false` to switch it on.";
    SwitchedOnAgain Info
        "A login that somebody had switched off was switched on again."
        "To keep it off: `enabled = false` in its `needs` table, or `mesh pause CONSUMER`.";
    BusReplaced Error
        "The store was wiped or put back from an older copy; everything is adopted again and nothing is removed."
        "Nothing, if that was meant.";
    LoopSilent Error
        "A loop gave no sign of progress for 35 s past the time that it said: it hangs, or its process stands still or is gone."
        "Look at the log of `mesh up` on the host that has it; under systemd it is restarted, and on a shared bus another host takes over.";
    LoopStuck Error
        "A loop is in a pass and has finished nothing for three times its longest deadline."
        "Look at the log of `mesh up`; restart it if that does not end.";
    LoopStarved Warning
        "Consumers were not asked for three passes in a row, because looks at others ended the asking each time."
        "Find out which looks time out: `mesh status` shows who is unknown.";
    NobodyHolds Error
        "No host has had the loops of a provider for 90 s, although one runs on this bus."
        "See that `mesh up` runs and can write on the bus, and look at its log.";
    BusTampered Error
        "A stream of the bus was deleted, made again, or changed so that its promises do not hold."
        "Find out who did it; `docs/operating.md` tells how to recover. Nothing is made again by itself.";
    BusNoQuorum Error
        "The servers of the bus have no majority for one of its streams: nothing can be written."
        "Bring the other NATS servers back.";
    AliveUntold Warning
        "The outside monitor of `[mesh.alive]` could not be told that all is alive."
        "See the reason; the monitor will raise its own alarm.";
}

impl fmt::Display for ConditionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a condition stands as it does: one word of a closed list, for programs.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Reason {
    /// The call failed: the server said no, or could not be reached.
    CallFailed,
    /// It did not answer in time.
    TimedOut,
    /// The server or the adapter refuses the value.
    RefusedValue,
    /// The admin login may not do it.
    Denied,
    /// It was lost again after a successful repair.
    LostAgain,
    /// It changed again and again after being held.
    ChangedAgain,
    /// A login of that name is there and not ours.
    Exists,
    /// The server's identity is another one.
    IdentityChanged,
    /// There is no stored version where one must be.
    NoVersion,
    /// The source is missing, unreadable or empty.
    SourceMissing,
    /// The server is read-only.
    ReadOnly,
    /// The server keeps nothing over a restart.
    NoPersistence,
    /// A restart or restore of the server explains it.
    ServerRestarted,
    /// Nothing explains it.
    Unexplained,
    /// The manifest does not parse, or part of it is refused.
    Malformed,
    /// More than the brake lets through.
    TooMany,
    /// The wish became empty.
    EmptyWish,
    /// No login of ours proves that a list is whole.
    NoCanary,
    /// Somebody uses it.
    InUse,
    /// The manifest says so.
    AsDeclared,
    /// A person said so.
    ByPerson,
    /// What it was about is asked for no more (C-3).
    SubjectRetired,
    /// It was seen gone.
    SeenGone,
    /// The store's epoch changed.
    EpochChanged,
    /// A beat is missing.
    NoBeat,
    /// It goes on and finishes nothing.
    NoProgress,
    /// Its turn never comes.
    NoTurn,
    /// Nobody has it.
    NoHolder,
    /// It is not there any more.
    Deleted,
    /// It is not as it was made.
    SettingsChanged,
    /// There is no majority, or no leader.
    NoMajority,
}

/// Which condition it is: (owner, type, subject). The same fact again is the same condition (C-2).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ConditionId {
    /// The one loop that may raise and clear it: `provisioner/cache`.
    pub owner: String,
    /// The type.
    #[serde(rename = "type")]
    pub kind: ConditionType,
    /// Provider, consumer, host …: `cache/web`, `cache`.
    pub subject: String,
}

/// A fact that a loop found and cannot fix by itself (C-1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// Which one.
    #[serde(flatten)]
    pub id: ConditionId,
    /// Whether it stands.
    pub status: Status,
    /// How much it matters.
    pub severity: Severity,
    /// Why, for programs.
    pub reason: Reason,
    /// Why, for people: one line, scrubbed.
    pub message: String,
    /// What a person can do.
    pub action: String,
    /// Since when it stands (or was gone). Does not move while the fact is the same.
    pub since: Time,
    /// When its owner saw it last.
    pub last_seen: Time,
    /// The generation of the wish that it speaks of.
    pub observed_generation: u64,
    /// How often it was seen in a row.
    pub count: u64,
    /// Raised and cleared so often of late that it is shown as flapping, once (C-4).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub flapping: bool,
}

/// What a loop found on one pass: the raw fact, before the core gives it its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// Type and subject; the owner is the loop.
    pub kind: ConditionType,
    /// What it is about.
    pub subject: String,
    /// Why.
    pub reason: Reason,
    /// One line for people.
    pub message: String,
    /// What a person can do, more exactly than the type's own cure.
    pub action: Option<String>,
    /// One look is proof enough (C-4).
    pub final_at_once: bool,
}

impl Fact {
    /// One that a single look proves, with the type's own cure.
    pub fn at_once(kind: ConditionType, subject: &str, reason: Reason, message: String) -> Self {
        Self {
            kind,
            subject: subject.to_owned(),
            reason,
            message,
            action: None,
            final_at_once: true,
        }
    }
}

#[cfg(test)]
mod tests {
    //! C-1: every type has its meaning and its cure.
    use super::*;

    #[test]
    fn c1_every_type_has_a_camel_case_name_a_meaning_and_a_cure() {
        for kind in ConditionType::ALL {
            let name = kind.as_str();
            assert!(
                name.starts_with(char::is_uppercase) && name.chars().all(char::is_alphanumeric)
            );
            assert!(kind.meaning().ends_with('.'), "{name}");
            assert!(kind.cure().len() > 7, "{name}");
            let json = serde_json::to_string(kind).expect("json");
            assert_eq!(json, format!("\"{name}\""));
        }
    }
}
