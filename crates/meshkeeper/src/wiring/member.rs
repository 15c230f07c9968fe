//! The conditions of one host among several: what keeps it from doing its share.

use mesh_sdk::Time;
use mesh_sdk::book::Book;
use mesh_sdk::bus::{Bus, Fault};
use mesh_sdk::condition::{ConditionType, Fact, Reason};
use mesh_sdk::decide::conditions::Seen;

use mesh_sdk::harness::declared::Declared;

use super::owner::{look_through, tell};
use super::shapes::WishHead;

/// The class of its owner's name on the bus: `member/HOST`.
pub(super) const CLASS: &str = "member";

/// What it declares of itself.
pub(super) fn declared() -> Declared {
    let raises = [
        ConditionType::ManifestDiffers,
        ConditionType::WishUnreadable,
        ConditionType::SecretUnreadable,
        ConditionType::Refused,
        ConditionType::LookUnknown,
    ];
    Declared {
        class: CLASS,
        compares_against: "the wish in force on the bus, where several hosts share one",
        repairs: "nothing; it takes the leases that suit its host, and gives back those that suit another better",
        may_take_away: "nothing",
        blind_spots: "a host that cannot reach the bus: it stops, and another takes over",
        raises: raises.iter().map(|kind| kind.as_str()).collect(),
        period: "every second",
    }
}

/// Raises and clears what is wrong with this host.
pub(super) struct Member {
    book: Book,
    owner: String,
    host: String,
}

impl Member {
    /// Opens its book.
    pub(super) async fn open(bus: &dyn Bus, host: &str) -> Result<Self, Fault> {
        let owner = format!("{CLASS}/{host}");
        Ok(Self {
            book: Book::open(bus, &owner).await?,
            owner,
            host: host.to_owned(),
        })
    }
    /// Its manifest asks for something else than what is in force. While a change reaches one host after the
    /// other that is so for a moment: it takes two looks.
    pub(super) fn differs(&self, head: &WishHead) -> Fact {
        let (host, lead) = (&self.host, head.host.as_deref().unwrap_or("another host"));
        Fact {
            final_at_once: false,
            ..Fact::at_once(
                ConditionType::ManifestDiffers,
                host,
                Reason::Unexplained,
                format!(
                    "the manifest on {host}, or a password file that it names, asks for something else than \
                     the one that {lead} put in force; {host} looks after nothing by it"
                ),
            )
        }
    }
    /// Its manifest cannot be read.
    pub(super) fn unreadable(&self, why: &str) -> Fact {
        let message = format!("on {}: {why}", self.host);
        Fact::at_once(
            ConditionType::WishUnreadable,
            &self.host,
            Reason::Malformed,
            message,
        )
    }
    /// The same fact as this host sees it.
    pub(super) fn here(&self, mut found: Fact) -> Fact {
        found.message = format!("on {}: {}", self.host, found.message);
        found
    }
    /// One look: raises what was found, clears what was seen gone. In order it writes nothing.
    pub(super) async fn look(
        &mut self,
        bus: &dyn Bus,
        now: Time,
        generation: u64,
        facts: Vec<Fact>,
    ) -> Result<(), Fault> {
        if facts.is_empty() && self.book.ledger().kept().next().is_none() {
            return Ok(());
        }
        look_through(&mut self.book, &self.owner, bus, (now, generation), facts).await
    }
    /// This host ends, and with it what it said of itself.
    pub(super) async fn end(&mut self, bus: &dyn Bus, now: Time) -> Result<(), Fault> {
        let changes = self.book.look(now, 0, Vec::new(), |_| Seen::Retired);
        if changes.is_empty() {
            return Ok(());
        }
        tell(bus, &self.owner, now, &changes).await?;
        self.book.store(bus, &changes).await
    }
}
