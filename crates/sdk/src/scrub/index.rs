//! The secrets, found by their first eight bytes.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::ops::Range;

use super::view::View;
use crate::secret::Secret;

/// The shortest secret that is looked for.
pub const SHORTEST: usize = 8;

/// A secret, how often it was added, and the next one that begins with the same bytes.
struct Known {
    secret: Secret,
    times: u32,
    next: Option<Box<Known>>,
}

/// Every secret, under a keyed hash of its first bytes: no part of a secret is copied.
pub(super) struct Index {
    heads: HashMap<u64, Known, BuildHasherDefault<Plain>>,
    key: (u64, u64),
    count: usize,
    /// How many hold a percent sign: only they can be URL-encoded in a way that decodes to something else.
    with_percent: usize,
}

impl Default for Index {
    fn default() -> Self {
        let random = RandomState::new();
        Self {
            heads: HashMap::default(),
            key: (random.hash_one(0), random.hash_one(1) | 1),
            count: 0,
            with_percent: 0,
        }
    }
}

/// The keys are hashes already.
#[derive(Default)]
pub(super) struct Plain(u64);

impl Hasher for Plain {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 << 8) | u64::from(*byte);
        }
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// A plus sign may be a URL's space: the two are one here.
const fn folded(byte: u8) -> u8 {
    if byte == b'+' { b' ' } else { byte }
}

fn begins_with(bytes: &[u8], secret: &[u8]) -> bool {
    bytes.len() >= secret.len()
        && bytes
            .iter()
            .zip(secret)
            .all(|(a, b)| folded(*a) == folded(*b))
}

impl Index {
    /// How many secrets there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }
    fn hash(&self, window: u64) -> u64 {
        let mixed = (window ^ self.key.0).wrapping_mul(self.key.1);
        mixed ^ (mixed >> 32)
    }
    fn head_of(&self, secret: &Secret) -> Option<u64> {
        let first = secret.expose().get(..SHORTEST)?;
        let window = first
            .iter()
            .fold(0, |window, byte| (window << 8) | u64::from(folded(*byte)));
        Some(self.hash(window))
    }
    /// Adds a secret; `false` if it is too short.
    pub(super) fn add(&mut self, secret: Secret) -> bool {
        let Some(head) = self.head_of(&secret) else {
            return false;
        };
        let percent = secret.expose().contains(&b'%');
        match self.heads.entry(head) {
            Entry::Vacant(place) => {
                place.insert(Known {
                    secret,
                    times: 1,
                    next: None,
                });
            }
            Entry::Occupied(mut place) => {
                let mut known = place.get_mut();
                loop {
                    if known.secret == secret {
                        known.times = known.times.saturating_add(1);
                        return true;
                    }
                    match known.next {
                        Some(ref mut next) => known = next,
                        None => break,
                    }
                }
                known.next = Some(Box::new(Known {
                    secret,
                    times: 1,
                    next: None,
                }));
            }
        }
        self.count += 1;
        self.with_percent += usize::from(percent);
        true
    }
    /// Takes one adding of a secret back.
    pub(super) fn remove(&mut self, secret: &Secret) {
        let Some(head) = self.head_of(secret) else {
            return;
        };
        let Some(first) = self.heads.remove(&head) else {
            return;
        };
        let (mut rest, mut kept) = (Some(Box::new(first)), None);
        while let Some(mut known) = rest {
            rest = known.next.take();
            if known.secret == *secret {
                known.times -= 1;
                if known.times == 0 {
                    self.count -= 1;
                    self.with_percent -= usize::from(secret.expose().contains(&b'%'));
                    continue;
                }
            }
            known.next = kept;
            kept = Some(known);
        }
        if let Some(known) = kept {
            self.heads.insert(head, *known);
        }
    }
    /// Those that begin with this window.
    fn with_head(&self, window: u64) -> impl Iterator<Item = &Secret> {
        let first = self.heads.get(&self.hash(window));
        std::iter::successors(first, |known| known.next.as_deref()).map(|known| &known.secret)
    }

    /// Finds every secret in a view; the ranges are those of the text it was made of.
    pub(super) fn scan(&self, view: &View<'_>, found: &mut Vec<Range<usize>>) {
        let bytes = view.bytes();
        let mut window = 0u64;
        for (at, byte) in bytes.iter().enumerate() {
            window = (window << 8) | u64::from(folded(*byte));
            let Some(start) = (at + 1).checked_sub(SHORTEST) else {
                continue;
            };
            for secret in self.with_head(window) {
                if begins_with(&bytes[start..], secret.expose()) {
                    found.push(view.source(start..start + secret.len()));
                }
            }
        }
        if self.with_percent > 0 && view.has_percent_code() {
            self.scan_mixed(view, found);
        }
    }

    /// Finds secrets of which some bytes are URL-encoded and others, even a percent sign, are not.
    fn scan_mixed(&self, view: &View<'_>, found: &mut Vec<Range<usize>>) {
        let bytes = view.bytes();
        for start in 0..bytes.len() {
            each_window(bytes, start, 0, 0, &mut |window| {
                for secret in self.with_head(window) {
                    if let Some(end) = mixed_end(bytes, start, secret.expose()) {
                        found.push(view.source(start..end));
                    }
                }
            });
        }
    }
}

/// The byte that a percent code stands for.
pub(super) fn percent_code(bytes: &[u8], at: usize) -> Option<u8> {
    let [b'%', high, low] = bytes.get(at..at + 3)? else {
        return None;
    };
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

/// Every first window that can be read from here, each percent code taken for what it stands for and for
/// what it is.
fn each_window(bytes: &[u8], at: usize, taken: usize, window: u64, each: &mut dyn FnMut(u64)) {
    if taken == SHORTEST {
        return each(window);
    }
    let Some(byte) = bytes.get(at) else {
        return;
    };
    let longer = |byte: u8| (window << 8) | u64::from(folded(byte));
    if let Some(code) = percent_code(bytes, at) {
        each_window(bytes, at + 3, taken + 1, longer(code), each);
    }
    each_window(bytes, at + 1, taken + 1, longer(*byte), each);
}

/// Where a secret ends that begins here, each of its bytes encoded or not.
fn mixed_end(bytes: &[u8], mut at: usize, secret: &[u8]) -> Option<usize> {
    for (n, wanted) in secret.iter().enumerate() {
        let plain = folded(*bytes.get(at)?) == folded(*wanted);
        let coded = percent_code(bytes, at).is_some_and(|code| folded(code) == folded(*wanted));
        match (plain, coded) {
            // Only a percent sign can be both.
            (true, true) => match mixed_end(bytes, at + 3, &secret[n + 1..]) {
                Some(end) => return Some(end),
                None => at += 1,
            },
            (true, false) => at += 1,
            (false, true) => at += 3,
            (false, false) => return None,
        }
    }
    Some(at)
}
