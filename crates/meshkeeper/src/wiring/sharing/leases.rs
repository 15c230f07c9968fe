//! The leases as they stand on the bus, and when a candidate asks for one.

use std::collections::BTreeMap;
use std::time::Duration;

use mesh_bus::claim::rules::Stored;
use mesh_bus::claim::{Holder, Lease};
use mesh_sdk::ProviderName;
use mesh_sdk::bus::{Bucket, Bus, Entry, Fault, Key, Rev};
use tokio::time::Instant;

/// A lease that nobody holds is taken so much later for each host that it suits better; and by so many such
/// steps at most.
const FREE: (Duration, u32) = (Duration::from_secs(2), 5);
/// A holder that did not beat for so long may be dead: from then on a candidate measures its silence.
const DOUBTED: Duration = Duration::from_secs(6);

/// Who holds what, by provider. One that died without giving it back stands there too. `None`: no lease was
/// ever taken on this bus.
pub type Held = Option<BTreeMap<ProviderName, Option<Holder>>>;

/// Reads who holds what.
pub async fn held(bus: &dyn Bus) -> Result<Held, Fault> {
    let all = bus.list(Bucket::Loop, &Key::of(&["lease"])).await?;
    let read = all.entries.iter().filter_map(|entry| {
        let provider = entry.key.as_str().strip_prefix("lease.")?;
        let provider = ProviderName::new(provider).ok()?;
        Some((provider, stored(entry)?.holder))
    });
    let read: BTreeMap<_, _> = read.collect();
    Ok((!read.is_empty()).then_some(read))
}

fn stored(entry: &Entry) -> Option<Stored> {
    serde_json::from_slice(&entry.value).ok()
}

/// Each lease as it was seen last, and since when it is so.
#[derive(Default)]
pub(super) struct Leases(BTreeMap<Lease, Seen>);

struct Seen {
    rev: Option<Rev>,
    holder: Option<Holder>,
    since: Instant,
}

impl Leases {
    /// What stands on the bus now, of the leases that this host is interested in.
    pub(super) fn look<'l>(
        &mut self,
        entries: &[Entry],
        of: impl Iterator<Item = &'l Lease>,
        now: Instant,
    ) {
        let found: BTreeMap<&Key, &Entry> = entries.iter().map(|e| (&e.key, e)).collect();
        let mut before = std::mem::take(&mut self.0);
        for lease in of {
            let entry = found.get(&lease.key());
            let rev = entry.map(|entry| entry.rev);
            let same = before.remove(lease).filter(|seen| seen.rev == rev);
            let seen = same.unwrap_or_else(|| Seen {
                rev,
                holder: entry.and_then(|entry| stored(entry)?.holder),
                since: now,
            });
            self.0.insert(lease.clone(), seen);
        }
    }
    /// Whether a host that `rank` others come before asks for it now: nobody has it, and those had their time;
    /// or its holder may be dead.
    pub(super) fn is_open(&self, lease: &Lease, rank: u32, now: Instant) -> bool {
        self.0.get(lease).is_some_and(|seen| {
            let wait = match seen.holder {
                None => FREE.0 * rank.min(FREE.1),
                Some(_) => DOUBTED,
            };
            now - seen.since >= wait
        })
    }
    /// It was asked for, and not had: it is looked at from now on.
    pub(super) fn refused(&mut self, lease: &Lease, now: Instant) {
        if let Some(seen) = self.0.get_mut(lease) {
            seen.since = now;
        }
    }
    /// What runs at the holder's.
    pub(super) fn runner(&self, lease: &Lease) -> Option<&str> {
        let holder = self.0.get(lease)?.holder.as_ref()?;
        Some(&holder.runner)
    }
}

#[cfg(test)]
mod tests {
    //! B-4: who comes first takes a free lease at once, the others leave it time.
    use super::*;
    use mesh_sdk::bus::Epoch;

    fn entry(lease: &Lease, seq: u64, holder: Option<&str>) -> Entry {
        let holder = holder.map(|host| Holder {
            host: host.to_owned(),
            start: "1".to_owned(),
            runner: "up".to_owned(),
        });
        let stored = Stored {
            holder,
            fence: 1,
            beat: seq,
        };
        Entry {
            key: lease.key(),
            rev: Rev {
                epoch: Epoch(1),
                seq,
            },
            value: serde_json::to_vec(&stored).expect("JSON"),
        }
    }

    #[test]
    fn b4_a_free_lease_is_taken_in_order_and_a_beating_one_left() {
        let (lease, now) = (Lease::Installation, Instant::now());
        let wanted = std::slice::from_ref(&lease);
        let at = |seconds| now + Duration::from_secs(seconds);
        let mut leases = Leases::default();
        leases.look(&[], wanted.iter(), now);
        assert!(leases.is_open(&lease, 0, now), "never held");
        assert!(!leases.is_open(&lease, 1, at(1)));
        assert!(leases.is_open(&lease, 1, at(2)));
        assert!(!leases.is_open(&lease, 100, at(9)));
        assert!(leases.is_open(&lease, 100, at(10)));
        for beat in 0..4 {
            leases.look(
                &[entry(&lease, beat, Some("one"))],
                wanted.iter(),
                at(beat * 5),
            );
            assert!(!leases.is_open(&lease, 0, at(beat * 5 + 5)));
        }
        assert!(leases.is_open(&lease, 0, at(21)), "it may be dead");
        leases.refused(&lease, at(21));
        assert!(!leases.is_open(&lease, 0, at(22)));
        leases.look(&[entry(&lease, 9, None)], wanted.iter(), at(23));
        assert!(leases.is_open(&lease, 0, at(23)), "given back");
    }
}
