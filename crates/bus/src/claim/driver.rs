//! Carries out what the rules say: reads, writes, waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mesh_sdk::bus::{Bucket, Bus, Entry, Epoch, Fault, Put, Write};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::rules::{self, Attempt, Beaten, Candidate, Loss, Seen, Step, Taken, Tenure};
use super::{Ask, BEAT, Holder, Lease, STOP_AFTER};

/// How often a candidate looks.
const LOOK: Duration = Duration::from_secs(1);
/// Numbers for what candidates of this process write.
static NUMBER: AtomicU64 = AtomicU64::new(1);

/// What came of asking for a lease.
pub enum Answer {
    /// It is ours, for as long as this is kept and [`Claim::lost`] says nothing else.
    Mine(Claim),
    /// Somebody beats.
    Other(Holder),
}

/// A lease that is held. Dropping it ends its beats; [`Claim::give_back`] lets the next one in at once.
pub struct Claim {
    fence: u64,
    epoch: Epoch,
    me: Option<Holder>,
    began: Instant,
    sure: watch::Receiver<Duration>,
    lost: watch::Receiver<bool>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// Who holds a lease, as it stands on the bus: one that died without giving it back stands there too.
pub async fn holder(bus: &dyn Bus, lease: &Lease) -> Result<Option<Holder>, Fault> {
    let found = read(bus, lease).await?;
    Ok(found.and_then(|seen| seen.stored.holder))
}

/// Asks for a lease. Answers at once if nobody has it, if it was given back, or if its holder beats; and
/// waits as long as the candidate's patience if its holder does not. Errors: the bus does not serve.
pub async fn take(bus: Arc<dyn Bus>, ask: Ask) -> Result<Answer, Fault> {
    let Ask {
        lease,
        me,
        patience,
    } = ask;
    let began = Instant::now();
    let mut candidate = Candidate::new(me, patience);
    loop {
        let found = read(bus.as_ref(), &lease).await?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let attempt = match candidate.saw(found.as_ref(), began.elapsed(), number) {
            Step::Wait => {
                tokio::time::sleep(LOOK).await;
                continue;
            }
            Step::Refused(other) => return Ok(Answer::Other(other)),
            Step::Take(attempt) => attempt,
        };
        // Counted from before it was sent.
        let sent = began.elapsed();
        let put = write(bus.as_ref(), &lease, &attempt).await?;
        let mut taken = candidate.wrote(put);
        if taken == Taken::ReadBack {
            let found = read(bus.as_ref(), &lease).await?;
            taken = candidate.read_back(&attempt.stored, found.as_ref());
        }
        match taken {
            Taken::Mine(rev) => {
                let tenure = Tenure::new(attempt.stored, rev, sent);
                return Ok(Answer::Mine(hold(bus, lease, tenure, began)));
            }
            Taken::GiveUp => {
                let text =
                    "the claim could not be written, and no server says why: may this login write?";
                return Err(Fault::Unreachable(text.to_owned()));
            }
            Taken::Not | Taken::ReadBack => {}
        }
    }
}

fn hold(bus: Arc<dyn Bus>, lease: Lease, tenure: Tenure, began: Instant) -> Claim {
    let (tell, lost) = watch::channel(false);
    let (stop, stopped) = watch::channel(false);
    let (moves, sure) = watch::channel(tenure.sure);
    let fence = tenure.fence();
    let (epoch, me) = (tenure.rev.epoch, tenure.stored.holder.clone());
    let holding = Holding {
        bus,
        lease,
        tenure,
        began,
        sure: moves,
    };
    let task = tokio::spawn(async move {
        if holding.beat(stopped).await {
            tell.send_replace(true);
        }
    });
    Claim {
        fence,
        epoch,
        me,
        began,
        sure,
        lost,
        stop,
        task,
    }
}

impl Claim {
    /// How many held it before, and one.
    pub fn fence(&self) -> u64 {
        self.fence
    }
    /// The bus's epoch in which that was counted.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }
    /// Who holds it.
    pub fn me(&self) -> Option<&Holder> {
        self.me.as_ref()
    }
    /// Whether whoever holds it may begin something now: by the time of the last sure beat, whether or not
    /// it was noticed yet that the lease is lost. A process that was stopped asks this when it goes on.
    pub fn may_act(&self) -> bool {
        !self.is_lost() && rules::may_act(*self.sure.borrow(), self.began.elapsed())
    }
    /// Whether it is lost.
    pub fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }
    /// Waits until it is lost: whoever holds it then stops at once.
    pub async fn lost(&self) {
        let mut lost = self.lost.clone();
        if lost.wait_for(|lost| *lost).await.is_err() && !*lost.borrow() {
            // It was given back, and is not lost.
            std::future::pending::<()>().await;
        }
    }
    /// Says that nobody holds it any more. If that cannot be said, others wait out their patience.
    pub async fn give_back(&self) {
        self.stop.send_replace(true);
        // Its task has let go of the other end.
        self.stop.closed().await;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Holding {
    bus: Arc<dyn Bus>,
    lease: Lease,
    tenure: Tenure,
    /// From when the rules' times count.
    began: Instant,
    /// When the last beat that was surely written was sent.
    sure: watch::Sender<Duration>,
}

impl Holding {
    /// Beats until it is lost (`true`), or told to stop.
    async fn beat(mut self, mut stopped: watch::Receiver<bool>) -> bool {
        loop {
            tokio::select! {
                biased;
                () = async { drop(stopped.wait_for(|stop| *stop).await) } => {
                    let given_back = tokio::time::timeout(BEAT, self.give_back());
                    drop(given_back.await);
                    return false;
                }
                () = tokio::time::sleep(BEAT) => {}
            }
            let deadline = self.began + self.tenure.deadline();
            // An answer that does not come says as little as a fault.
            let beaten = tokio::time::timeout_at(deadline, self.once()).await;
            let loss = match beaten.unwrap_or(Beaten::Unsure) {
                Beaten::Lost(loss) => Err(loss),
                Beaten::Sure | Beaten::Unsure | Beaten::ReadBack => {
                    self.sure.send_replace(self.tenure.sure);
                    self.tenure.goes_on(self.began.elapsed())
                }
            };
            if let Err(loss) = loss {
                self.say(loss);
                return true;
            }
        }
    }
    fn say(&self, loss: Loss) {
        let lease = &self.lease;
        match loss {
            Loss::Taken => {
                tracing::error!(target: "mesh_bus", "another host took the claim on {lease}");
            }
            Loss::Replaced => {
                tracing::error!(target: "mesh_bus", "the bus on which this host held its claim on {lease} was replaced");
            }
            Loss::Silent => {
                tracing::error!(target: "mesh_bus", "no beat for {lease} could be written for {} s: this host stops", STOP_AFTER.as_secs());
            }
        }
    }

    /// One beat.
    async fn once(&mut self) -> Beaten {
        match self.write_and_read_back().await {
            Ok(Beaten::Unsure) => {
                tracing::warn!(target: "mesh_bus", "a beat for {} was not written: its outcome is not known", self.lease);
                Beaten::Unsure
            }
            Ok(beaten) => beaten,
            Err(fault) => {
                let beaten = self.tenure.failed(&fault);
                if beaten == Beaten::Unsure {
                    tracing::warn!(target: "mesh_bus", "a beat for {} was not written: {fault}", self.lease);
                }
                beaten
            }
        }
    }
    async fn write_and_read_back(&mut self) -> Result<Beaten, Fault> {
        let attempt = self.tenure.next(self.began.elapsed());
        let put = write(self.bus.as_ref(), &self.lease, &attempt).await?;
        match self.tenure.wrote(&attempt.stored, put) {
            Beaten::ReadBack => {
                let found = read(self.bus.as_ref(), &self.lease).await?;
                let tenure = &mut self.tenure;
                Ok(tenure.read_back(&attempt.stored, found.as_ref()))
            }
            beaten => Ok(beaten),
        }
    }

    async fn give_back(&self) -> Result<Put, Fault> {
        let attempt = self.tenure.giving_back();
        write(self.bus.as_ref(), &self.lease, &attempt).await
    }
}

async fn read(bus: &dyn Bus, lease: &Lease) -> Result<Option<Seen>, Fault> {
    let entry = bus.get(Bucket::Loop, &lease.key()).await?;
    entry.as_ref().map(understood).transpose()
}

fn understood(entry: &Entry) -> Result<Seen, Fault> {
    let stored = serde_json::from_slice(&entry.value)
        .map_err(|error| Fault::Corrupt(format!("the claim: {error}")))?;
    let rev = entry.rev;
    Ok(Seen { rev, stored })
}

async fn write(bus: &dyn Bus, lease: &Lease, attempt: &Attempt) -> Result<Put, Fault> {
    let value = serde_json::to_vec(&attempt.stored)
        .map_err(|error| Fault::Corrupt(format!("the claim: {error}")))?;
    let write = Write {
        key: lease.key(),
        expect: attempt.expect,
        value,
    };
    bus.put_if(Bucket::Loop, write).await
}
