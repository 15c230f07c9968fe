//! Random operations, and a plain map that says what they must give.

use std::collections::BTreeMap;

use mesh_sdk::bus::{Bucket, Bus, Entry, Expect, Key, Put, Rev, Write};

use super::{Stop, Store, check};

/// What a write expects, in terms of what the model knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guess {
    /// Nothing there.
    Absent,
    /// The newest revision that the model knows, or nothing there.
    Right,
    /// The one before it.
    Stale,
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Independent writes: which key (modulo a few), what to expect, what to write.
    Put(Vec<(u8, Guess, Vec<u8>)>),
    /// Read a key.
    Get(u8),
    /// List below one of the first tokens, or everything.
    List(Option<u8>),
}

/// The keys, few enough that operations meet, with names that begin alike.
fn key(n: u8) -> Key {
    let first = ["a", "a2", "a-b", "b"][usize::from(n) % 4];
    match n / 4 % 4 {
        0 => Key::of(&[first]),
        1 => Key::of(&[first, "x"]),
        2 => Key::of(&[first, "x.y"]),
        _ => Key::of(&[first, "x", "y"]),
    }
}

/// What the model holds of a key: its value and revision, and the revision before.
#[derive(Debug, Clone)]
struct Known {
    value: Vec<u8>,
    rev: Rev,
    before: Option<Rev>,
}

/// Runs operations on a fresh bus, one after the other, and compares each answer with the model's.
/// Errors: the first that differs.
pub async fn agrees_with_model(bus: &dyn Bus, ops: &[Op]) -> Result<(), String> {
    let mut model = BTreeMap::new();
    for (n, op) in ops.iter().enumerate() {
        step(bus, &mut model, op).await.map_err(|stop| match stop {
            Stop::Failed(why) | Stop::Skipped(why) => format!("operation {n}, {op:?}: {why}"),
        })?;
    }
    Ok(())
}

async fn step(bus: &dyn Bus, model: &mut BTreeMap<Key, Known>, op: &Op) -> Result<(), Stop> {
    match op {
        Op::Put(writes) => put(bus, model, writes).await,
        Op::Get(n) => {
            let key = key(*n);
            let got = bus.get(Bucket::Record, &key).await?;
            let wanted = model.get(&key).map(|known| entry(&key, known));
            check!(got == wanted, "it gave {got:?} instead of {wanted:?}");
            Ok(())
        }
        Op::List(n) => {
            let prefix = n.map_or_else(Key::everything, |n| key(n % 8));
            let list = bus.list(Bucket::Record, &prefix).await?;
            let wanted: Vec<Entry> = model
                .iter()
                .filter(|(key, _)| key.is_under(&prefix))
                .map(|(key, known)| entry(key, known))
                .collect();
            check!(
                list.entries == wanted,
                "it gave {list:?} instead of {wanted:?}"
            );
            Ok(())
        }
    }
}

fn entry(key: &Key, known: &Known) -> Entry {
    Entry {
        key: key.clone(),
        rev: known.rev,
        value: known.value.clone(),
    }
}

async fn put(
    bus: &dyn Bus,
    model: &mut BTreeMap<Key, Known>,
    writes: &[(u8, Guess, Vec<u8>)],
) -> Result<(), Stop> {
    let expects = |n: u8, guess| match (guess, model.get(&key(n))) {
        (Guess::Absent, _) | (_, None) => Expect::Absent,
        (Guess::Right, Some(known)) => Expect::At(known.rev),
        (Guess::Stale, Some(known)) => known.before.map_or(Expect::Absent, Expect::At),
    };
    let batch: Vec<Write> = writes
        .iter()
        .map(|(n, guess, value)| Write {
            key: key(*n),
            expect: expects(*n, *guess),
            value: value.clone(),
        })
        .collect();
    let puts = bus.put_each(Bucket::Record, batch.clone()).await?;
    check!(puts.len() == batch.len(), "{} outcomes came", puts.len());
    for (write, put) in batch.into_iter().zip(puts) {
        let known = model.get(&write.key);
        let fits = match write.expect {
            Expect::Absent => known.is_none(),
            Expect::At(rev) => known.is_some_and(|known| known.rev == rev),
        };
        match put {
            Put::Done(rev) => {
                check!(fits, "{} was written against its expectation", write.key);
                let before = known.map(|known| known.rev);
                check!(
                    before.is_none_or(|old| rev.seq > old.seq),
                    "{rev:?} is not newer"
                );
                let value = write.value;
                model.insert(write.key, Known { value, rev, before });
            }
            Put::Conflict => check!(!fits, "{} conflicts with nothing", write.key),
            Put::Unknown => return Err(Stop::Failed("an outcome is not known".to_owned())),
        }
    }
    Ok(())
}

/// A small generator, so that a failure is told by its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
    fn byte(&mut self) -> u8 {
        u8::try_from(self.roll(256)).unwrap_or(0)
    }
    fn op(&mut self) -> Op {
        match self.roll(6) {
            0 => Op::List(None),
            1 => Op::List(Some(self.byte())),
            2 => Op::Get(self.byte()),
            _ => {
                let count = 1 + self.roll(6);
                Op::Put((0..count).map(|_| self.write()).collect())
            }
        }
    }
    fn write(&mut self) -> (u8, Guess, Vec<u8>) {
        let guess = match self.roll(5) {
            0 => Guess::Absent,
            1 => Guess::Stale,
            _ => Guess::Right,
        };
        let length = self.roll(40);
        (
            self.byte(),
            guess,
            (0..length).map(|_| self.byte()).collect(),
        )
    }
}

pub(super) async fn b2_random_operations_agree_with_a_model(
    store: &mut dyn Store,
) -> Result<(), Stop> {
    let seed = 0x6d65_7368;
    let mut dice = Dice(seed);
    let ops: Vec<Op> = (0..1500).map(|_| dice.op()).collect();
    let bus = store.bus();
    agrees_with_model(&*bus, &ops)
        .await
        .map_err(|why| Stop::Failed(format!("seed {seed}: {why}")))
}
