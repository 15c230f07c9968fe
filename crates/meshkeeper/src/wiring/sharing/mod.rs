//! How the hosts on one bus share the providers out (B-4): each beats as a member, takes the leases that suit
//! it, and gives back those that suit another better.
//!
//! One task for each `mesh up`. It knows nothing of loops: whoever runs them hears of each lease that came or
//! went, and says which leases it could use.

mod leases;
mod seat;
mod task;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use mesh_bus::claim::{Claim, Holder};
use mesh_sdk::ProviderName;
use mesh_sdk::bus::Bus;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::shapes::Closed;

pub use leases::{Held, held};

/// A host that suits a provider better is given it once it was there for so long.
pub const HAND_BACK: Duration = Duration::from_secs(600);

/// What whoever runs loops says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mine {
    /// Its manifest is the one in force.
    pub fits: bool,
    /// Which providers it could look after.
    pub wants: BTreeSet<ProviderName>,
    /// Which it cannot, and why.
    pub cannot: BTreeMap<ProviderName, Closed>,
}

/// What it is told.
pub enum News {
    /// It puts the wish in force from now on.
    Leads(Arc<Claim>),
    /// It does not any more.
    LeadLost,
    /// It looks after a provider from now on.
    Leased(ProviderName, Arc<Claim>),
    /// It does not any more, and stops at once.
    Lost(ProviderName),
    /// This other host suits the provider better: the pass is ended and the lease given back.
    HandBack(ProviderName, String),
    /// Other hosts can look after something that this one cannot; or cannot any more.
    Others,
    /// Nothing more can be done on this bus: why.
    Ended(&'static str),
}

/// The other hosts, as far as whoever runs loops must know them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Others {
    /// Who is there.
    pub hosts: BTreeSet<String>,
    /// Who was there lately, or may have been.
    pub lately: BTreeSet<String>,
    /// Which of the providers that cannot be looked after here another can look after.
    pub can: BTreeSet<ProviderName>,
}

/// What a host asks of its task.
enum Asked {
    GiveBack(ProviderName),
    Leave,
}

/// A host's place among those that share. Dropping it ends it without a word to the others.
pub struct Sharing {
    host: String,
    others: watch::Receiver<Others>,
    mine: watch::Sender<Mine>,
    asked: mpsc::UnboundedSender<Asked>,
    task: JoinHandle<()>,
}

impl Sharing {
    /// Begins to share on a bus. `hand_back`: see [`HAND_BACK`].
    pub fn start(
        bus: Arc<dyn Bus>,
        me: Holder,
        hand_back: Duration,
    ) -> (Self, mpsc::UnboundedReceiver<News>) {
        let (tell, news) = mpsc::unbounded_channel();
        let (asked, asks) = mpsc::unbounded_channel();
        let (mine, says) = watch::channel(Mine::default());
        let (show, others) = watch::channel(Others::default());
        let host = me.host.clone();
        let ends = task::Ends {
            tell,
            asks,
            says,
            show,
        };
        let task = tokio::spawn(task::Task::new(bus, me, hand_back, ends).run());
        let this = Self {
            host,
            others,
            mine,
            asked,
            task,
        };
        (this, news)
    }
    /// The host's name.
    pub fn host(&self) -> &str {
        &self.host
    }
    /// Says what this host could do from now on.
    pub fn say(&self, mine: Mine) {
        self.mine.send_if_modified(|before| {
            let changed = *before != mine;
            *before = mine;
            changed
        });
    }
    /// The other hosts.
    pub fn others(&self) -> Others {
        self.others.borrow().clone()
    }
    /// Gives a provider's lease back: its loops have ended.
    pub fn give_back(&self, provider: ProviderName) {
        // A task that ended holds nothing.
        drop(self.asked.send(Asked::GiveBack(provider)));
    }
    /// Gives everything back and says that this host is gone. All loops have ended.
    pub async fn leave(mut self) {
        if self.asked.send(Asked::Leave).is_ok() {
            drop((&mut self.task).await);
        }
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        self.task.abort();
    }
}
