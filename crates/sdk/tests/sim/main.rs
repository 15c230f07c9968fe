//! The core in very many histories: a driver on virtual time, a backend that fails in every way, and a
//! judge that keeps its own books.
//!
//! `MESH_SIM_SEEDS=N` sets how many seeds are run; `MESH_SIM_SEED=N` replays one with its whole trace.

#![expect(clippy::expect_used, reason = "all of this crate is a test")]

mod backend;
mod broken;
mod check;
mod fate;
mod rng;
mod world;

use std::sync::atomic::{AtomicU64, Ordering};

use fate::{Outcome, run};

/// Seeds of an ordinary run.
const SEEDS: u64 = 2_000;

#[expect(
    clippy::disallowed_methods,
    reason = "a test is told its seed by the environment"
)]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// A seed that broke a rule: its number, the end of its trace, and how to see it again.
fn report(seed: u64, outcome: &Outcome) -> String {
    let told = run(seed, None, true);
    let tail = told.trace.len().saturating_sub(60);
    let trace = told.trace[tail..].join("\n");
    format!(
        "{trace}\n\nseed {seed} broke {:?} in pass {}\n\
         replay: MESH_SIM_SEED={seed} cargo test -p mesh-sdk --test sim every_seed -- --nocapture\n",
        outcome.broken, outcome.passes
    )
}

#[test]
fn every_seed_keeps_every_rule() {
    if let Some(seed) = number("MESH_SIM_SEED") {
        let outcome = run(seed, None, true);
        println!("{}", outcome.trace.join("\n"));
        assert!(outcome.broken.is_empty(), "{}", report(seed, &outcome));
        return;
    }
    let seeds = number("MESH_SIM_SEEDS").unwrap_or(SEEDS);
    let (next, passes) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return None;
            }
            let outcome = run(seed, None, false);
            passes.fetch_add(outcome.passes as u64, Ordering::Relaxed);
            if !outcome.broken.is_empty() {
                next.store(seeds, Ordering::Relaxed);
                return Some(report(seed, &outcome));
            }
        }
    };
    let failed: Vec<String> = std::thread::scope(|scope| {
        let workers = [scope.spawn(work), scope.spawn(work)];
        let ended = workers.into_iter();
        ended
            .filter_map(|w| w.join().expect("a seed panicked"))
            .collect()
    });
    println!("{seeds} seeds, {} passes", passes.into_inner());
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for seed in [1, 7, 42, 1_000_003] {
        let (first, second) = (run(seed, None, true), run(seed, None, true));
        assert_eq!(first.trace, second.trace);
        assert_eq!(first.passes, second.passes);
    }
}
