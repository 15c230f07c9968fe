//! The task: beats, looks, asks for leases, and tells what came of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use mesh_bus::claim::{self, Answer, Ask, Claim, Holder, Lease, patience};
use mesh_sdk::bus::{Bucket, Bus, Entry, Fault, Key};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tracing::{debug, info, warn};

use super::leases::Leases;
use super::seat::Seat;
use super::{Asked, Mine, News, Others};
use crate::wiring::installation::Runner;
use crate::wiring::members::{MemberEntry, Members};

/// How often it looks at members and leases.
const LOOK: Duration = Duration::from_secs(1);
/// The longest that a call to the bus is waited for, so that its host is heard meanwhile.
const CALL: Duration = Duration::from_secs(5);

/// The other ends of a [`super::Sharing`].
pub(super) struct Ends {
    pub(super) tell: mpsc::UnboundedSender<News>,
    pub(super) asks: mpsc::UnboundedReceiver<Asked>,
    pub(super) says: watch::Receiver<Mine>,
    pub(super) show: watch::Sender<Others>,
}

/// What came of asking for a lease.
type Came = (Lease, Result<Answer, Fault>);

pub(super) struct Task {
    bus: Arc<dyn Bus>,
    me: Holder,
    hand_back: Duration,
    ends: Ends,
    seat: Seat,
    members: Members,
    leases: Leases,
    held: BTreeMap<Lease, Arc<Claim>>,
    /// Leases that are being asked for.
    asking: BTreeSet<Lease>,
    answers: JoinSet<Came>,
    /// Leases that its host was told to hand back.
    handing: BTreeSet<Lease>,
    /// The fault that was told last.
    told: String,
}

impl Task {
    pub(super) fn new(bus: Arc<dyn Bus>, me: Holder, hand_back: Duration, ends: Ends) -> Self {
        Self {
            seat: Seat::of(&me, Instant::now()),
            members: Members::of(&me.host),
            bus,
            me,
            hand_back,
            ends,
            leases: Leases::default(),
            held: BTreeMap::new(),
            asking: BTreeSet::new(),
            answers: JoinSet::new(),
            handing: BTreeSet::new(),
            told: String::new(),
        }
    }

    /// Until its host leaves, or nothing more can be done on this bus.
    pub(super) async fn run(mut self) {
        let mut next = Instant::now();
        loop {
            tokio::select! {
                asked = self.ends.asks.recv() => match asked {
                    Some(Asked::GiveBack(provider)) => self.give_back(&Lease::Provider(provider)).await,
                    Some(Asked::Leave) => return self.leave().await,
                    None => return,
                },
                changed = self.ends.says.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let mine = self.ends.says.borrow_and_update().clone();
                    self.seat.says(&mine, Instant::now());
                    next = Instant::now();
                }
                Some(Ok(came)) = self.answers.join_next() => self.came(came).await,
                () = tokio::time::sleep_until(next) => {
                    if let Err(why) = self.tick().await {
                        drop(self.ends.tell.send(News::Ended(why)));
                        return self.wait_for_the_end().await;
                    }
                    next = Instant::now() + LOOK;
                }
            }
        }
    }

    /// One look. Errors: this host can do nothing more on this bus.
    async fn tick(&mut self) -> Result<(), &'static str> {
        if self.seat.is_cut_off(Instant::now()) {
            return Err(CUT_OFF);
        }
        if self.seat.is_due(Instant::now()) {
            let beaten = timeout(CALL, self.seat.beat(&self.bus)).await;
            self.hear(beaten.unwrap_or_else(|_| Err(slow())))?;
        }
        if self.seat.is_cut_off(Instant::now()) {
            return Err(CUT_OFF);
        }
        self.see_losses();
        let (members, leases) = match timeout(CALL, self.read())
            .await
            .unwrap_or_else(|_| Err(slow()))
        {
            Ok(read) => read,
            Err(fault) => return self.hear(Err(fault)),
        };
        let now = Instant::now();
        self.members.look(MemberEntry::read(&members), now);
        let mine = self.ends.says.borrow().clone();
        let wanted = mine.wants.iter().cloned().map(Lease::Provider);
        let wanted: Vec<Lease> = wanted.chain([Lease::Installation]).collect();
        self.leases.look(&leases, wanted.iter(), now);
        self.show_others(&mine, now);
        for lease in wanted {
            self.consider(lease, &mine, now);
        }
        Ok(())
    }

    async fn read(&self) -> Result<(Vec<Entry>, Vec<Entry>), Fault> {
        let members = self.bus.list(Bucket::Loop, &MemberEntry::all()).await?;
        let mut leases = self.bus.list(Bucket::Loop, &Key::of(&["lease"])).await?;
        let lead = Lease::Installation.key();
        leases
            .entries
            .extend(self.bus.get(Bucket::Loop, &lead).await?);
        Ok((members.entries, leases.entries))
    }

    /// A fault says nothing but that it is tried again; unless the bus is another one.
    fn hear(&mut self, outcome: Result<(), Fault>) -> Result<(), &'static str> {
        match outcome {
            Ok(()) => self.told.clear(),
            Err(Fault::EpochChanged) => return Err("the bus was replaced"),
            Err(fault) => {
                let text = fault.to_string();
                if text != self.told {
                    warn!("the other hosts cannot be seen: {text}");
                    self.told = text;
                }
            }
        }
        Ok(())
    }

    fn see_losses(&mut self) {
        let lost = self.held.iter().filter(|(_, claim)| claim.is_lost());
        let lost: Vec<Lease> = lost.map(|(lease, _)| lease.clone()).collect();
        for lease in lost {
            self.held.remove(&lease);
            self.handing.remove(&lease);
            match lease {
                Lease::Installation => self.tell(News::LeadLost),
                Lease::Provider(provider) => self.tell(News::Lost(provider)),
            }
        }
    }

    fn show_others(&mut self, mine: &Mine, now: Instant) {
        let can = mine.cannot.keys();
        let can = can.filter(|provider| self.members.another_can(provider, now));
        let others = Others {
            hosts: self.members.hosts(now).map(str::to_owned).collect(),
            lately: self.members.lately(now).map(str::to_owned).collect(),
            can: can.cloned().collect(),
        };
        let before = self.ends.show.send_replace(others.clone());
        if before.hosts != others.hosts {
            info!(hosts = ?others.hosts, "the other hosts that are there");
        }
        if before.can != others.can {
            self.tell(News::Others);
        }
    }

    /// Whether to ask for a lease, or to hand one back.
    fn consider(&mut self, lease: Lease, mine: &Mine, now: Instant) {
        if self.held.contains_key(&lease) {
            return self.consider_heir(lease, now);
        }
        if self.asking.contains(&lease) {
            return;
        }
        let rank = match &lease {
            Lease::Installation => self.members.lead_rank(mine.fits, now),
            // Somebody makes a pass, or writes the bus out.
            Lease::Provider(_) if !mine.fits || self.one_shot_leads() => return,
            Lease::Provider(provider) => self.members.rank(provider, now),
        };
        if self.leases.is_open(&lease, rank, now) {
            debug!("asks for the lease on {lease}");
            self.asking.insert(lease.clone());
            let (bus, me) = (Arc::clone(&self.bus), self.me.clone());
            self.answers.spawn(async move {
                let ask = Ask {
                    lease: lease.clone(),
                    me,
                    patience: patience(rank),
                };
                (lease, claim::take(bus, ask).await)
            });
        }
    }
    fn one_shot_leads(&self) -> bool {
        self.leases.runner(&Lease::Installation) == Some(Runner::OneShot.as_str())
    }
    fn consider_heir(&mut self, lease: Lease, now: Instant) {
        let Lease::Provider(provider) = &lease else {
            return;
        };
        let heir = self.members.heir(provider, self.hand_back, now);
        if let Some(heir) = heir.map(str::to_owned)
            && self.handing.insert(lease.clone())
        {
            self.tell(News::HandBack(provider.clone(), heir));
        }
    }

    /// What came of asking.
    async fn came(&mut self, (lease, answer): Came) {
        self.asking.remove(&lease);
        let claim = match answer {
            Ok(Answer::Mine(claim)) => Arc::new(claim),
            Ok(Answer::Other(_)) => return self.leases.refused(&lease, Instant::now()),
            Err(fault) => {
                self.leases.refused(&lease, Instant::now());
                // A bus that was replaced is seen at the next beat.
                let _next_beat_tells = self.hear(Err(fault));
                return;
            }
        };
        let mine = self.ends.says.borrow().clone();
        self.held.insert(lease.clone(), Arc::clone(&claim));
        match lease {
            Lease::Installation => self.tell(News::Leads(claim)),
            Lease::Provider(provider) if mine.fits && mine.wants.contains(&provider) => {
                self.tell(News::Leased(provider, claim));
            }
            // It is of no use here any more.
            lease => self.give_back(&lease).await,
        }
    }

    async fn give_back(&mut self, lease: &Lease) {
        self.handing.remove(lease);
        if let Some(claim) = self.held.remove(lease) {
            claim.give_back().await;
            // Those whom it suits better are left their time.
            self.leases.refused(lease, Instant::now());
        }
    }

    /// Gives everything back, at once and all together.
    async fn leave(mut self) {
        self.answers.abort_all();
        let mut back = JoinSet::new();
        for (_, claim) in std::mem::take(&mut self.held) {
            back.spawn(async move { claim.give_back().await });
        }
        drop(back.join_all().await);
        if let Ok(Err(fault)) = timeout(CALL, self.seat.leave(&self.bus)).await {
            debug!("it could not be said that this host is gone: {fault}");
        }
    }
    /// Nothing is held surely any more; its host still says when its loops have ended.
    async fn wait_for_the_end(mut self) {
        while let Some(asked) = self.ends.asks.recv().await {
            if let Asked::Leave = asked {
                return self.leave().await;
            }
        }
    }
    fn tell(&self, news: News) {
        // Nobody hears it: the end is near.
        drop(self.ends.tell.send(news));
    }
}

const CUT_OFF: &str = "it could not say on the bus that it is there";

fn slow() -> Fault {
    Fault::Unreachable(format!("no answer within {} s", CALL.as_secs()))
}
