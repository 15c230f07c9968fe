//! B-8: a loop without progress is told once, by whoever sees it, until it was seen moving again.

use mesh_bus::EmbeddedBus;
use mesh_bus::embedded::Settings;
use mesh_sdk::ProviderName;
use mesh_sdk::bus::{Bucket, Expect, Key, Put, Write};
use mesh_sdk::decide::{ServerRecord, Summary};
use mesh_sdk::harness::LoopRecord;
use mesh_sdk::harness::beat::Beat;
use serde_json::json;

use super::*;
use crate::wiring::shapes::{ProviderEntry, WishHead};

const NAME: &str = "provisioner/cache";

fn at(seconds: i64) -> Time {
    Time::from_millis(seconds * 1000)
}

struct Ground {
    dog: Watchdog,
    bus: Arc<dyn Bus>,
    _folder: tempfile::TempDir,
}

impl Ground {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let settings = Settings {
            installation: "inst1".to_owned(),
            clock: Clock::system(),
        };
        let opened = EmbeddedBus::open(folder.path(), &settings).expect("open");
        let bus: Arc<dyn Bus> = Arc::new(opened.bus);
        let watched = Watched {
            bus: Arc::clone(&bus),
            servers: None,
            clock: Clock::system(),
            pulses: Arc::default(),
            local: Arc::default(),
            alive: Arc::default(),
            health: None,
        };
        let ground = Self {
            dog: Watchdog::of(watched),
            bus,
            _folder: folder,
        };
        let provider = ProviderName::new("cache").expect("name");
        let entry = ProviderEntry {
            provider: provider.clone(),
            kind: "redis".to_owned(),
            loops: vec![NAME.to_owned()],
            addresses: Vec::new(),
            verify_every: 60_000,
            remove_after: 1000,
            grace: 1000,
            can_ask: true,
            gone: false,
            closed: None,
        };
        ground
            .put(Bucket::Meta, ProviderEntry::key(&provider), &entry)
            .await;
        ground
    }
    async fn put<T: serde::Serialize>(&self, bucket: Bucket, key: Key, value: &T) {
        let before = self.bus.get(bucket, &key).await.expect("get");
        let write = Write {
            key,
            expect: before.map_or(Expect::Absent, |entry| Expect::At(entry.rev)),
            value: serde_json::to_vec(value).expect("JSON"),
        };
        let put = self.bus.put_if(bucket, write).await.expect("put");
        assert!(matches!(put, Put::Done(_)));
    }
    /// A pass of another process ended; by its own clock, which nobody compares with ours.
    async fn passes(&self, theirs: i64, starved: usize) {
        let summary = Summary {
            held: 1,
            starved,
            ..Summary::default()
        };
        let record = LoopRecord {
            class: "provisioner".to_owned(),
            label: "cache".to_owned(),
            server: ServerRecord::default(),
            version: String::new(),
            last_pass: Some(at(theirs)),
            next_pass: Some(at(theirs + 60)),
            summary,
            generation: 1,
            answered_request: 0,
            removals: 0,
        };
        self.put(Bucket::Loop, Key::of(&[NAME]), &record).await;
    }
    async fn beats(&self, counter: u64, done: u64) {
        let beat = json!({
            "counter": counter, "done": done, "pass": 1, "since": 0, "doing": "asks", "asked": 0,
            "unknown": 0, "done_at": 0, "at": counter, "due": 10_000, "bound": 90_000,
        });
        self.put(Bucket::Loop, Beat::key(NAME), &beat).await;
    }
    async fn holds(&self, key: [&str; 2], holder: Option<&str>, beat: u64) {
        let holder = holder.map(|host| json!({ "host": host, "start": "s1", "runner": "up" }));
        let stored = json!({ "holder": holder, "fence": 1, "beat": beat });
        self.put(Bucket::Loop, Key::of(&key), &stored).await;
    }
    /// What is delivered on a host, by a loop that goes on or by one pass.
    async fn delivers(&self, theirs: i64, goes_on: bool) {
        let head = WishHead {
            delivers: ["one".to_owned()].into(),
            ..WishHead::default()
        };
        self.put(Bucket::Meta, publish::head_key(), &head).await;
        let record = LoopRecord {
            class: "delivery".to_owned(),
            last_pass: Some(at(theirs)),
            next_pass: goes_on.then(|| at(theirs + 60)),
            ..LoopRecord::default()
        };
        self.put(Bucket::Loop, Key::of(&["delivery/one"]), &record)
            .await;
    }
    async fn look(&mut self, seconds: i64) -> bool {
        self.dog.look(at(seconds)).await.expect("look").all
    }
    async fn told(&self) -> Vec<String> {
        let all = status::conditions(self.bus.as_ref(), &[], at(0)).await;
        let all = all.expect("conditions").into_iter();
        all.map(|c| format!("{} {}", c.condition.id.kind, c.condition.id.subject))
            .collect()
    }
}

#[tokio::test]
async fn b8_a_loop_without_a_beat_is_told_until_it_moves_again_whatever_its_clock_says() {
    let mut ground = Ground::new().await;
    // Its clock is hours ahead.
    ground.passes(9_000, 0).await;
    assert!(!ground.look(0).await, "nobody saw it moving yet");
    ground.passes(9_060, 0).await;
    assert!(ground.look(60).await);
    let quiet = ground.bus.health().await.seq;
    assert!(ground.look(165).await);
    assert_eq!(
        ground.bus.health().await.seq,
        quiet,
        "in order, it writes nothing"
    );
    assert!(!ground.look(166).await);
    assert_eq!(ground.told().await, ["LoopSilent cache"]);
    // Another judge that begins now tells nothing of its own, and ends nothing.
    ground.dog = Watchdog::of(ground.dog.watched.clone());
    for seconds in [170, 175, 180] {
        assert!(!ground.look(seconds).await);
    }
    assert_eq!(ground.told().await, ["LoopSilent cache"]);
    ground.passes(9_200, 0).await;
    for seconds in [185, 190] {
        assert!(ground.look(seconds).await);
    }
    assert!(ground.told().await.is_empty());
}

#[tokio::test]
async fn b8_a_long_pass_beats_and_one_that_finishes_nothing_is_stuck() {
    let mut ground = Ground::new().await;
    ground.passes(0, 0).await;
    ground.look(0).await;
    for n in 1..20 {
        ground.beats(n, n).await;
        assert!(ground.look(60 + i64::try_from(n).unwrap_or(0) * 10).await);
    }
    for n in 20..31 {
        ground.beats(n, 19).await;
        ground.look(60 + i64::try_from(n).unwrap_or(0) * 10).await;
    }
    assert_eq!(ground.told().await, ["LoopStuck cache"]);
    ground.passes(400, 0).await;
    for seconds in [371, 376] {
        ground.look(seconds).await;
    }
    assert!(ground.told().await.is_empty());
}

#[tokio::test]
async fn b8_who_gets_no_turn_is_told_and_the_loop_is_alive_all_the_same() {
    let mut ground = Ground::new().await;
    ground.passes(0, 0).await;
    ground.look(0).await;
    ground.passes(60, 2).await;
    assert!(ground.look(60).await);
    assert_eq!(ground.told().await, ["LoopStarved cache"]);
    ground.passes(120, 0).await;
    for seconds in [120, 125] {
        ground.look(seconds).await;
    }
    assert!(ground.told().await.is_empty());
}

#[tokio::test]
async fn b8_a_holder_that_does_not_beat_makes_its_loops_silent_and_then_nobody_holds() {
    for key in [["claim", "installation"], ["lease", "cache"]] {
        let mut ground = Ground::new().await;
        ground.passes(0, 0).await;
        ground.holds(key, Some("one"), 1).await;
        ground.look(0).await;
        ground.holds(key, Some("one"), 2).await;
        ground.look(5).await;
        ground.look(30).await;
        assert!(ground.told().await.is_empty());
        ground.look(31).await;
        assert_eq!(ground.told().await, ["LoopSilent cache"]);
        ground.look(96).await;
        let mut told = ground.told().await;
        told.sort();
        assert_eq!(told, ["LoopSilent cache", "NobodyHolds cache"]);
        // Another host takes it, and passes.
        ground.holds(key, Some("two"), 3).await;
        ground.passes(200, 0).await;
        ground.look(100).await;
        ground.holds(key, Some("two"), 4).await;
        ground.look(105).await;
        assert!(ground.told().await.is_empty());
    }
}

#[tokio::test]
async fn b8_where_there_are_no_leases_nobody_has_to_hold_one() {
    let mut ground = Ground::new().await;
    ground.passes(0, 0).await;
    for n in 0..20 {
        ground.passes(n * 60, 0).await;
        ground.look(n * 60).await;
    }
    assert!(ground.told().await.is_empty());
}

#[tokio::test]
async fn b8_a_loop_that_delivers_is_judged_like_the_others_unless_only_apply_delivers() {
    let mut ground = Ground::new().await;
    for seconds in [0, 60] {
        ground.passes(seconds, 0).await;
        ground.delivers(seconds, true).await;
        ground.look(seconds).await;
    }
    for (seconds, well) in [(120, true), (165, true), (166, false)] {
        ground.passes(seconds, 0).await;
        assert_eq!(ground.look(seconds).await, well, "{seconds}");
    }
    assert_eq!(ground.told().await, ["LoopSilent delivery/one"]);
    ground.delivers(170, false).await;
    for seconds in [171, 176] {
        ground.passes(seconds, 0).await;
        assert!(ground.look(seconds).await);
    }
    assert!(ground.told().await.is_empty());
}
