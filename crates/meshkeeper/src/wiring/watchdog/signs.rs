//! What shows that loops make progress: their pulses in this process, what they wrote on the bus, and who
//! beats for their provider.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mesh_bus::claim::rules::Stored;
use mesh_bus::claim::{self, Lease};
use mesh_sdk::ProviderName;
use mesh_sdk::bus::{Bucket, Bus, Fault, Key};
use mesh_sdk::decide::alive::Sign;
use mesh_sdk::harness::beat::{self, Beat, Pulse, PulseRef};
use mesh_sdk::harness::{LoopRecord, Observer, PassReport};

use crate::status;
use crate::wiring::delivery;
use crate::wiring::shapes::ProviderEntry;

/// The loops of this process, by name. A loop that ended is not among them.
#[derive(Debug, Default)]
pub struct Pulses(Mutex<BTreeMap<String, PulseRef>>);

impl Pulses {
    fn last(&self, name: &str) -> Option<Beat> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(name).and_then(PulseRef::last)
    }
    /// Whether this process has the loop.
    pub fn has(&self, name: &str) -> bool {
        self.last(name).is_some()
    }
}

impl Observer for Pulses {
    fn opened(&self, name: &str, pulse: &Pulse) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(name.to_owned(), pulse.watched());
    }
    fn passed(&self, _: &PassReport) {}
}

/// What another process wrote of a loop, as it was found last.
#[derive(Debug, Clone, Copy)]
struct Far {
    record: i64,
    beat: [u64; 2],
    /// The beat is younger than the record, by the order in which they were seen to move.
    passing: bool,
}

/// Reads signs, and remembers what it needs to tell a beat of this pass from one of an earlier.
#[derive(Debug, Default)]
pub struct Reader {
    far: BTreeMap<String, Far>,
}

/// What one reading came to.
#[derive(Debug, Default)]
pub struct Signs {
    /// Every loop that is expected, with its sign if it ever gave one.
    pub loops: BTreeMap<String, Option<Sign>>,
    /// Who beats for a provider, where several hosts can: the entry's number; none if nobody has it.
    pub holders: BTreeMap<String, Option<u64>>,
}

impl Reader {
    /// Reads the signs of all loops of these providers, and of those that deliver on these hosts.
    pub async fn read(
        &mut self,
        bus: &dyn Bus,
        (providers, delivers): (&[ProviderEntry], &BTreeSet<String>),
        pulses: &Pulses,
    ) -> Result<Signs, Fault> {
        let mut signs = Signs::default();
        let expected = providers.iter().filter(|p| !p.gone && p.closed.is_none());
        let mut ours = true;
        for provider in expected.clone() {
            for name in &provider.loops {
                ours &= pulses.has(name);
            }
        }
        for provider in expected {
            // Where every loop runs here, nobody else has any.
            let holder = match ours {
                true => None,
                false => holder(bus, &provider.provider).await?,
            };
            if let Some(held) = &holder {
                let beats = held.somebody.then_some(held.moved);
                signs.holders.insert(provider.provider.to_string(), beats);
            }
            for name in &provider.loops {
                let record = status::record(bus, name).await?;
                let sign = match pulses.last(name) {
                    Some(beat) => Some(near(&beat, record.as_ref())),
                    None => self
                        .far(bus, name, record, provider.verify_every.max(60_000))
                        .await?
                        .map(|mut sign| {
                            let held = holder.as_ref().filter(|held| held.somebody);
                            sign.process =
                                held.map(|held| (held.moved, claim::STOP_AFTER + claim::BEAT));
                            sign
                        }),
                };
                signs.loops.insert(name.clone(), sign);
            }
        }
        for host in delivers {
            let name = delivery::name_of(host);
            let record = status::record(bus, &name).await?;
            let sign = match pulses.last(&name) {
                Some(beat) => Some(near(&beat, None)),
                // Where only `mesh apply` delivers, nobody promised another pass.
                None if record.as_ref().is_some_and(|r| r.next_pass.is_none()) => continue,
                None => {
                    let period = u64::try_from(delivery::PERIOD.as_millis()).unwrap_or(0);
                    self.far(bus, &name, record, period).await?
                }
            };
            signs.loops.insert(name, sign);
        }
        Ok(signs)
    }

    /// A loop of another process, by what it wrote. None: it never did, or `mesh apply` did and no daemon.
    async fn far(
        &mut self,
        bus: &dyn Bus,
        name: &str,
        record: Option<LoopRecord>,
        longest: u64,
    ) -> Result<Option<Sign>, Fault> {
        let entry = bus.get(Bucket::Loop, &Beat::key(name)).await?;
        let beat = entry.and_then(|e| serde_json::from_slice::<Beat>(&e.value).ok());
        if record.is_none() && beat.is_none() {
            return Ok(None);
        }
        let beat = beat.unwrap_or_default();
        let starved = starved(record.as_ref());
        let millis = |at: Option<mesh_sdk::Time>| at.map_or(0, mesh_sdk::Time::as_millis);
        let (last, next) = match &record {
            Some(record) => (millis(record.last_pass), millis(record.next_pass)),
            None => (0, 0),
        };
        let told = [beat.counter, beat.at.as_millis().unsigned_abs()];
        let new = Far {
            record: last,
            beat: told,
            passing: false,
        };
        let far = self.far.entry(name.to_owned()).or_insert(new);
        far.passing = match (far.record != last, far.beat != told) {
            (true, _) => false,
            (false, true) => true,
            (false, false) => far.passing,
        };
        (far.record, far.beat) = (last, told);
        let due = if far.passing {
            Duration::from_millis(beat.due)
        } else {
            // The first beat of the pass that follows comes some time into it.
            let rests = u64::try_from(next.saturating_sub(last)).unwrap_or(0);
            let rests = rests.min(longest);
            Duration::from_millis(rests) + beat::EVERY
        };
        Ok(Some(Sign {
            moved: [last.unsigned_abs(), told[0].wrapping_add(told[1])],
            done: beat.done.wrapping_add(last.unsigned_abs()),
            passing: far.passing,
            due,
            bound: Duration::from_millis(beat.bound),
            starved,
            process: None,
        }))
    }
}

/// Who has the loops of a provider, or of all: whether somebody has, and a number that moves with its beats.
#[derive(Debug, Clone, Copy)]
struct Holder {
    somebody: bool,
    moved: u64,
}

/// Who has a provider, or else the whole installation, as it stands on the bus. None: there is no such lease,
/// and so nobody who should have it.
async fn holder(bus: &dyn Bus, provider: &ProviderName) -> Result<Option<Holder>, Fault> {
    let own = holder_at(bus, &Lease::Provider(provider.clone()).key()).await?;
    match own {
        Some(holder) => Ok(Some(holder)),
        None => holder_at(bus, &Lease::Installation.key()).await,
    }
}

async fn holder_at(bus: &dyn Bus, key: &Key) -> Result<Option<Holder>, Fault> {
    let Some(entry) = bus.get(Bucket::Loop, key).await? else {
        return Ok(None);
    };
    let stored: Stored = serde_json::from_slice(&entry.value)
        .map_err(|error| Fault::Corrupt(format!("{key}: {error}")))?;
    Ok(Some(Holder {
        somebody: stored.holder.is_some(),
        moved: entry.rev.seq,
    }))
}

/// How many starve, by the last pass that got answers.
fn starved(record: Option<&LoopRecord>) -> Option<usize> {
    let summary = record?.summary;
    (summary.held + summary.lost > 0).then_some(summary.starved)
}

fn near(beat: &Beat, record: Option<&LoopRecord>) -> Sign {
    Sign {
        moved: [beat.counter, 0],
        done: beat.done,
        passing: beat.since.is_some(),
        due: Duration::from_millis(beat.due),
        bound: Duration::from_millis(beat.bound),
        starved: starved(record),
        process: None,
    }
}
