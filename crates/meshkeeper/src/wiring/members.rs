//! Who is there: each `mesh up` on a shared bus beats under a key of its own. From who beats it follows which
//! host should hold which lease, without a coordinator.
//!
//! No clock is compared with another's: a member lives while its counter is seen to move on the own clock.

use std::collections::BTreeMap;
use std::time::Duration;

use mesh_sdk::ProviderName;
use mesh_sdk::bus::{Entry, Key};
use mesh_sdk::mark::keyed;
use mesh_sdk::secret::Secret;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::shapes::Closed;

/// A member whose counter did not move for so long is not there: four beats.
pub const QUIET: Duration = Duration::from_secs(20);
/// What a host said of itself stands for so long after it was seen last.
const LATELY: Duration = Duration::from_secs(600);

/// A `mesh up`, as it says of itself (`loop`, key member.HOST).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberEntry {
    /// The host's name.
    pub host: String,
    /// This one start of the process.
    pub start: String,
    /// Grows with each beat.
    pub beat: u64,
    /// Its manifest is the one in force: it can hold leases.
    #[serde(default)]
    pub fits: bool,
    /// Providers that it cannot look after, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cannot: BTreeMap<ProviderName, Closed>,
    /// It ended, and said so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
}

impl MemberEntry {
    /// The prefix of all.
    pub fn all() -> Key {
        Key::of(&["member"])
    }
    /// Its key.
    pub fn key(host: &str) -> Key {
        Key::of(&["member", host])
    }
    /// Every one that can be read. One that cannot is as good as not there.
    pub fn read(entries: &[Entry]) -> Vec<Self> {
        let read = entries.iter().map(|e| serde_json::from_slice(&e.value));
        read.filter_map(Result::ok).collect()
    }
    fn can(&self, provider: &ProviderName) -> bool {
        self.fits && !self.cannot.contains_key(provider)
    }
}

/// The others, as this host sees them.
#[derive(Debug, Default)]
pub struct Members {
    me: String,
    seen: BTreeMap<String, Seen>,
}

#[derive(Debug)]
struct Seen {
    entry: MemberEntry,
    /// When it was seen first, or its counter was seen to move last.
    noted: Instant,
    /// When its counter was seen to move last; `None` until it did once.
    moved: Option<Instant>,
    /// Since when it is there without a gap, and its manifest fits.
    ready: Option<Instant>,
}

impl Members {
    /// As `me` sees them.
    pub fn of(me: &str) -> Self {
        Self {
            me: me.to_owned(),
            seen: BTreeMap::new(),
        }
    }

    /// What stands on the bus now.
    pub fn look(&mut self, entries: Vec<MemberEntry>, now: Instant) {
        for entry in entries.into_iter().filter(|entry| entry.host != self.me) {
            match self.seen.get_mut(&entry.host) {
                // It may be one that died long ago.
                None => {
                    let seen = Seen {
                        entry,
                        noted: now,
                        moved: None,
                        ready: None,
                    };
                    self.seen.insert(seen.entry.host.clone(), seen);
                }
                Some(seen) => seen.look(entry, now),
            }
        }
    }

    /// The others that are there.
    fn alive(&self, now: Instant) -> impl Iterator<Item = &Seen> {
        self.seen.values().filter(move |seen| seen.is_alive(now))
    }
    /// Their names.
    pub fn hosts(&self, now: Instant) -> impl Iterator<Item = &str> {
        self.alive(now).map(|seen| seen.entry.host.as_str())
    }

    /// The names of those that were there lately.
    pub fn lately(&self, now: Instant) -> impl Iterator<Item = &str> {
        let lately = move |seen: &&Seen| now - seen.noted < LATELY;
        let hosts = self.seen.values().filter(lately);
        hosts.map(|seen| seen.entry.host.as_str())
    }

    /// How many of the others are there, can look after a provider, and come before this host for it.
    pub fn rank(&self, provider: &ProviderName, now: Instant) -> u32 {
        let mine = weight(&self.me, provider.as_str());
        let before = self.alive(now).filter(|seen| {
            seen.entry.can(provider) && weight(&seen.entry.host, provider.as_str()) > mine
        });
        u32::try_from(before.count()).unwrap_or(u32::MAX)
    }
    /// The same for putting the wish in force. A host whose manifest is another one than that which is in
    /// force comes after all those that agree with it.
    pub fn lead_rank(&self, fits: bool, now: Instant) -> u32 {
        let mine = (fits, weight(&self.me, ""));
        let before = self
            .alive(now)
            .filter(|seen| (seen.entry.fits, weight(&seen.entry.host, "")) > mine);
        u32::try_from(before.count()).unwrap_or(u32::MAX)
    }
    /// Whom a provider is handed to that this host holds: another is preferred, and has been there for so long.
    pub fn heir(&self, provider: &ProviderName, after: Duration, now: Instant) -> Option<&str> {
        let mine = weight(&self.me, provider.as_str());
        let able = self.alive(now).filter(|seen| seen.entry.can(provider));
        let weighed = able.map(|seen| (weight(&seen.entry.host, provider.as_str()), seen));
        let (best, seen) = weighed.max_by_key(|(weight, _)| *weight)?;
        let ready = seen.ready.is_some_and(|since| now - since >= after);
        (best > mine && ready).then_some(&*seen.entry.host)
    }
    /// Whether another that is there can look after a provider.
    pub fn another_can(&self, provider: &ProviderName, now: Instant) -> bool {
        self.alive(now).any(|seen| seen.entry.can(provider))
    }
}

impl Seen {
    fn look(&mut self, entry: MemberEntry, now: Instant) {
        let before = &self.entry;
        if (&before.start, before.beat) == (&entry.start, entry.beat) {
            return;
        }
        let gap = !self.is_alive(now) || before.start != entry.start || !before.fits;
        (self.noted, self.moved) = (now, Some(now));
        self.ready = match (entry.fits, self.ready) {
            (false, _) => None,
            (true, Some(since)) if !gap => Some(since),
            (true, _) => Some(now),
        };
        self.entry = entry;
    }
    fn is_alive(&self, now: Instant) -> bool {
        !self.entry.gone && self.moved.is_some_and(|at| now - at < QUIET)
    }
}

/// Rendezvous: each host and provider have a weight together, and the heaviest host comes first. When a host
/// comes or goes, only what it gains or loses moves.
fn weight(host: &str, provider: &str) -> [u8; 32] {
    let parts = [host.as_bytes(), provider.as_bytes()];
    keyed(&Secret::from("share"), b"rank", &parts)
}

#[cfg(test)]
mod tests {
    //! B-4: who holds what follows from who is there, and one that is only remembered counts for nothing.
    use super::*;

    fn provider(n: usize) -> ProviderName {
        ProviderName::new(&format!("p{n}")).expect("name")
    }
    fn member(host: &str, beat: u64) -> MemberEntry {
        MemberEntry {
            host: host.to_owned(),
            start: "1".to_owned(),
            beat,
            fits: true,
            cannot: BTreeMap::new(),
            gone: false,
        }
    }
    /// What one host thinks of the others, all of which beat.
    fn of<'h>(me: &str, others: impl IntoIterator<Item = &'h str>, now: Instant) -> Members {
        let mut members = Members::of(me);
        for host in others {
            members.look(vec![member(host, 0)], now);
            members.look(vec![member(host, 1)], now);
        }
        members
    }

    #[test]
    fn b4_all_hosts_agree_on_one_order_and_share_evenly() {
        let (hosts, now) = (["one", "two", "three"], Instant::now());
        let mut first = BTreeMap::new();
        for n in 0..300 {
            let mut ranks: Vec<u32> = Vec::new();
            for me in hosts {
                let others = hosts.into_iter().filter(|host| *host != me);
                let rank = of(me, others, now).rank(&provider(n), now);
                if rank == 0 {
                    *first.entry(me).or_insert(0) += 1;
                }
                ranks.push(rank);
            }
            ranks.sort_unstable();
            assert_eq!(ranks, [0, 1, 2], "of {n}");
        }
        assert!(first.values().all(|n| *n > 60), "{first:?}");
    }

    #[test]
    fn b4_a_member_lives_while_its_counter_moves() {
        let now = Instant::now();
        let mut members = Members::of("one");
        let lives = |members: &Members, at| members.hosts(at).count() == 1;
        members.look(vec![member("two", 7)], now);
        assert!(!lives(&members, now), "it may be remembered only");
        members.look(vec![member("two", 8)], now);
        assert!(lives(&members, now));
        assert!(lives(&members, now + QUIET - Duration::from_secs(1)));
        members.look(vec![member("two", 8)], now + QUIET);
        assert!(!lives(&members, now + QUIET));
        let gone = MemberEntry {
            gone: true,
            ..member("two", 9)
        };
        members.look(vec![gone], now + QUIET);
        assert!(!lives(&members, now + QUIET), "it said that it ends");
    }

    #[test]
    fn b4_a_lease_is_handed_to_whom_it_suits_only_when_that_was_there_long_enough() {
        let (now, after) = (Instant::now(), Duration::from_secs(30));
        let mut members = of("one", ["two"], now);
        let theirs = (0..).map(provider).find(|p| members.rank(p, now) == 1);
        let theirs = theirs.expect("some");
        let mine = (0..).map(provider).find(|p| members.rank(p, now) == 0);
        let mine = mine.expect("some");
        let mut at = now;
        for beat in 2..8 {
            assert_eq!(members.heir(&theirs, after, at), None, "beat {beat}");
            at += Duration::from_secs(5);
            members.look(vec![member("two", beat)], at);
        }
        assert_eq!(members.heir(&theirs, after, at), Some("two"));
        assert_eq!(members.heir(&mine, after, at), None);
        // Who cannot, or has another manifest, comes before nobody, and begins anew.
        let other = MemberEntry {
            fits: false,
            ..member("two", 8)
        };
        members.look(vec![other], at);
        assert_eq!(members.heir(&theirs, after, at), None);
        assert_eq!(members.rank(&theirs, at), 0);
        assert_eq!(members.lead_rank(true, at), 0);
        members.look(vec![member("two", 9)], at);
        assert_eq!(members.rank(&theirs, at), 1);
        assert_eq!(members.heir(&theirs, after, at), None);
    }
}
