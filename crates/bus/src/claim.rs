//! One active host for an installation, until leases share the providers out: a claim on the bus, with
//! beats.
//!
//! Nobody's clock is compared with anybody else's. The holder beats, and stops well before others may take
//! it for dead; a candidate waits out its own clock. No claim excludes for sure, so nothing rests on it but
//! the wish not to be in each other's way: minting is a compare-and-set (H-22), the rest is idempotent.

use std::sync::Arc;
use std::time::Duration;

use mesh_sdk::bus::{Bucket, Bus, Entry, Expect, Fault, Key, Put, Rev, Write};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How often the holder beats.
pub const BEAT: Duration = Duration::from_secs(5);
/// So long after the last beat that was surely written the holder stops.
pub const STOP_AFTER: Duration = Duration::from_secs(20);
/// A candidate that saw no beat for so long takes the claim.
pub const SILENT: Duration = Duration::from_secs(45);
/// So many writes without an outcome are not tried again by a candidate.
const UNKNOWN: u32 = 3;
/// How often a candidate looks.
const LOOK: Duration = Duration::from_secs(1);

/// Who holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The host's name, for people.
    pub host: String,
    /// This one start of the process: no other has it.
    pub start: String,
    /// What runs there: `up` or `apply`.
    #[serde(default)]
    pub runner: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Stored {
    /// None: it was given back.
    holder: Option<Holder>,
    /// Grows with each holder.
    fence: u64,
    /// Grows with each beat.
    beat: u64,
}

/// What came of asking for the claim.
pub enum Answer {
    /// It is ours, for as long as this is kept and [`Claim::lost`] says nothing else.
    Mine(Claim),
    /// Somebody beats.
    Other(Holder),
}

/// A claim that is held. Dropping it ends its beats; [`Claim::give_back`] lets the next one in at once.
pub struct Claim {
    fence: u64,
    sure: watch::Receiver<Instant>,
    lost: watch::Receiver<bool>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

pub(crate) fn key() -> Key {
    // Loops have keys of one token.
    Key::of(&["claim", "installation"])
}

/// Who holds the claim, as it stands on the bus: one that died without giving it back stands there too.
pub async fn holder(bus: &dyn Bus) -> Result<Option<Holder>, Fault> {
    let entry = bus.get(Bucket::Loop, &key()).await?;
    let read = entry.as_ref().map(read).transpose()?;
    Ok(read.and_then(|(_, stored)| stored.holder))
}

/// Asks for the claim. Answers at once if nobody has it, if it was given back, or if its holder beats; and
/// waits for [`SILENT`] if its holder does not.
pub async fn take(bus: Arc<dyn Bus>, me: Holder) -> Result<Answer, Fault> {
    let mut watched: Option<(Rev, Instant)> = None;
    let mut unknown = 0;
    loop {
        let entry = bus.get(Bucket::Loop, &key()).await?;
        let (expect, fence) = match entry.as_ref().map(read).transpose()? {
            None => (Expect::Absent, 1),
            Some((rev, stored)) => match (&stored.holder, watched) {
                (None, _) => (Expect::At(rev), stored.fence + 1),
                (Some(holder), Some((before, _))) if before != rev => {
                    return Ok(Answer::Other(holder.clone()));
                }
                (Some(_), Some((_, since))) if since.elapsed() >= SILENT => {
                    (Expect::At(rev), stored.fence + 1)
                }
                (Some(_), seen) => {
                    watched = seen.or(Some((rev, Instant::now())));
                    tokio::time::sleep(LOOK).await;
                    continue;
                }
            },
        };
        let stored = Stored {
            holder: Some(me.clone()),
            fence,
            beat: 0,
        };
        // Counted from before it was sent.
        let sent = Instant::now();
        let rev = match write(bus.as_ref(), expect, &stored).await? {
            Put::Done(rev) => rev,
            Put::Conflict => {
                watched = None;
                continue;
            }
            Put::Unknown => match bus.get(Bucket::Loop, &key()).await? {
                Some(entry) if read(&entry)?.1 == stored => entry.rev,
                // A server that takes no writes of this login says nothing at all.
                _ if unknown + 1 >= UNKNOWN => {
                    let text = "the claim could not be written, and no server says why: may this login write?";
                    return Err(Fault::Unreachable(text.to_owned()));
                }
                _ => {
                    unknown += 1;
                    continue;
                }
            },
        };
        return Ok(Answer::Mine(hold(bus, stored, rev, sent)));
    }
}

fn hold(bus: Arc<dyn Bus>, stored: Stored, rev: Rev, sent: Instant) -> Claim {
    let (tell, lost) = watch::channel(false);
    let (stop, stopped) = watch::channel(false);
    let (moves, sure) = watch::channel(sent);
    let fence = stored.fence;
    let holding = Holding {
        bus,
        stored,
        rev,
        sure: moves,
    };
    let task = tokio::spawn(async move {
        if holding.beat(stopped).await {
            tell.send_replace(true);
        }
    });
    Claim {
        fence,
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
    /// Whether whoever holds it may begin something now: by the time of the last sure beat, whether or not
    /// it was noticed yet that the claim is lost. A process that was stopped asks this when it goes on.
    pub fn may_act(&self) -> bool {
        !self.is_lost() && self.sure.borrow().elapsed() < STOP_AFTER
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
    /// Says that nobody holds it any more. If that cannot be said, others wait for [`SILENT`].
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
    stored: Stored,
    rev: Rev,
    /// When the last beat that was surely written was sent.
    sure: watch::Sender<Instant>,
}

impl Holding {
    /// Beats until it is lost (`true`), or told to stop.
    async fn beat(mut self, mut stopped: watch::Receiver<bool>) -> bool {
        loop {
            let deadline = *self.sure.borrow() + STOP_AFTER;
            tokio::select! {
                biased;
                () = async { drop(stopped.wait_for(|stop| *stop).await) } => {
                    let given_back = tokio::time::timeout(BEAT, self.give_back());
                    drop(given_back.await);
                    return false;
                }
                () = tokio::time::sleep(BEAT) => {}
            }
            let sent = Instant::now();
            match tokio::time::timeout_at(deadline, self.once()).await {
                Ok(Ok(true)) => drop(self.sure.send_replace(sent)),
                Ok(Ok(false)) => {
                    tracing::error!(target: "mesh_bus", "another host took the claim on this installation");
                    return true;
                }
                Ok(Err(Fault::EpochChanged)) => {
                    tracing::error!(target: "mesh_bus", "the bus on which this host held its claim was replaced");
                    return true;
                }
                Ok(Err(fault)) => {
                    tracing::warn!(target: "mesh_bus", "a beat was not written: {fault}")
                }
                Err(_) => {}
            }
            if self.sure.borrow().elapsed() >= STOP_AFTER {
                tracing::error!(target: "mesh_bus", "no beat could be written for {} s: this host stops", STOP_AFTER.as_secs());
                return true;
            }
        }
    }

    /// One beat: whether it is still ours. A fault says nothing.
    async fn once(&mut self) -> Result<bool, Fault> {
        let next = Stored {
            beat: self.stored.beat + 1,
            ..self.stored.clone()
        };
        let rev = match write(self.bus.as_ref(), Expect::At(self.rev), &next).await? {
            Put::Done(rev) => rev,
            // It may be an earlier beat of ours, whose outcome was not known.
            Put::Conflict | Put::Unknown => {
                let entry = self.bus.get(Bucket::Loop, &key()).await?;
                let Some((rev, found)) = entry.as_ref().map(read).transpose()? else {
                    return Ok(false);
                };
                if found.holder != self.stored.holder || found.fence != self.stored.fence {
                    return Ok(false);
                }
                if found.beat != next.beat {
                    // Ours, and this beat is not there: the next one is sent from here.
                    (self.rev, self.stored) = (rev, found);
                    return Err(Fault::Unreachable("its outcome is not known".to_owned()));
                }
                rev
            }
        };
        (self.rev, self.stored) = (rev, next);
        Ok(true)
    }

    async fn give_back(&self) -> Result<Put, Fault> {
        let nobody = Stored {
            holder: None,
            ..self.stored.clone()
        };
        write(self.bus.as_ref(), Expect::At(self.rev), &nobody).await
    }
}

fn read(entry: &Entry) -> Result<(Rev, Stored), Fault> {
    let stored = serde_json::from_slice(&entry.value)
        .map_err(|error| Fault::Corrupt(format!("the claim: {error}")))?;
    Ok((entry.rev, stored))
}

async fn write(bus: &dyn Bus, expect: Expect, stored: &Stored) -> Result<Put, Fault> {
    let value = serde_json::to_vec(stored)
        .map_err(|error| Fault::Corrupt(format!("the claim: {error}")))?;
    let write = Write {
        key: key(),
        expect,
        value,
    };
    bus.put_if(Bucket::Loop, write).await
}
