//! Walls: which module never names which, read from the paths in the source.

use super::Finding;
use super::source::{Path, Source};
use std::collections::BTreeSet;

/// All of them, outside tests.
pub(super) fn check(sources: &[Source<'_>]) -> Vec<Finding> {
    let adapters = adapter_folders(sources);
    let mut found = Vec::new();
    for source in sources {
        if is_under(source.path, "crates/sdk/src/decide") {
            found.extend(decide(source));
        } else if source.path.starts_with("crates/catalog/src/") {
            found.extend(catalog(source, &adapters));
        } else if source.path.starts_with("crates/bus/src/") {
            found.extend(bus(source));
        } else if source.path.starts_with("crates/conformance/src/") {
            found.extend(conformance(source));
        } else if source.path.starts_with("crates/meshkeeper/src/") {
            found.extend(wiring(source));
        }
    }
    found
}

/// The pure core: it must replay from data alone.
fn decide(source: &Source<'_>) -> Vec<Finding> {
    let mut found = refused(source, "the pure core names", |path| {
        let parts = path.parts.as_slice();
        let outside = [
            "tokio",
            "tokio_util",
            "futures_util",
            "async_trait",
            "rand",
            "tracing",
        ];
        let loops = ["bus", "harness"];
        let home = matches!(parts, ["crate" | "super" | "self", ..]);
        outside.contains(&parts[0])
            || (home && parts.iter().any(|part| loops.contains(part)))
            || (path.starts_with(&["std", "time"]) && parts.get(2) != Some(&"Duration"))
            || path.starts_with(&["std", "env"])
            || path.starts_with(&["std", "fs"])
            || path.starts_with(&["std", "net"])
            || path.starts_with(&["std", "thread"])
    });
    for token in &source.tokens {
        let word = ["async", "await", "SystemTime", "Instant"]
            .into_iter()
            .find(|w| token.is_word(w));
        if let Some(word) = word.filter(|_| !source.is_test(token.line)) {
            let what = format!("the pure core names `{word}`");
            found.push(Finding::new("wall", source.path, token.line, what));
        }
    }
    found
}

/// An adapter knows one server and the contract.
fn catalog(source: &Source<'_>, adapters: &BTreeSet<&str>) -> Vec<Finding> {
    let own = adapter_of(source.path);
    refused(source, "an adapter names", |path| {
        let home = ["crate", "super", "self"];
        let first = path.parts.iter().find(|part| !home.contains(part));
        let sibling = home.contains(&path.parts[0])
            && own.is_some()
            && first.is_some_and(|first| own != Some(*first) && adapters.contains(first));
        sibling
            || path.parts[0] == "mesh_bus"
            || path.starts_with(&["mesh_sdk", "harness"])
            || path.starts_with(&["mesh_sdk", "bus"])
    })
}

/// The bus moves records and does not know what they mean.
fn bus(source: &Source<'_>) -> Vec<Finding> {
    refused(source, "the bus names", |path| {
        let sdk = path.parts[0] == "mesh_sdk";
        let never = ["harness", "adapter", "decide", "Harness", "Adapter"];
        path.parts[0] == "mesh_catalog"
            || (sdk && path.parts.get(1).is_some_and(|part| never.contains(part)))
    })
}

/// The judge knows none of the judged.
fn conformance(source: &Source<'_>) -> Vec<Finding> {
    refused(source, "the judge names", |path| {
        ["mesh_catalog", "mesh_bus", "meshkeeper"].contains(&path.parts[0])
    })
}

/// Adapters and bus meet in one place.
fn wiring(source: &Source<'_>) -> Option<Finding> {
    let place = "crates/meshkeeper/src/wiring";
    if is_under(source.path, place) {
        return None;
    }
    let paths = source.paths();
    let names = |krate: &str| {
        paths
            .iter()
            .find(|path| path.parts[0] == krate && !source.is_test(path.line))
    };
    let (_, bus) = names("mesh_catalog").zip(names("mesh_bus"))?;
    let what = "names both mesh_catalog and mesh_bus: they meet in `wiring` only";
    Some(Finding::new("wiring", source.path, bus.line, what))
}

/// Whether `path` is the module `base`: `base.rs`, or in the folder `base/`.
fn is_under(path: &str, base: &str) -> bool {
    path.strip_prefix(base)
        .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

/// The folder of the adapter that `path` belongs to.
fn adapter_of(path: &str) -> Option<&str> {
    let (folder, _) = path.strip_prefix("crates/catalog/src/")?.split_once('/')?;
    Some(folder)
}

/// Folders that hold an adapter, told by the file `adapter.rs`; a shared helper has none.
fn adapter_folders<'a>(sources: &[Source<'a>]) -> BTreeSet<&'a str> {
    sources
        .iter()
        .filter(|source| source.path.ends_with("/adapter.rs"))
        .filter_map(|source| adapter_of(source.path))
        .collect()
}

fn refused(source: &Source<'_>, who: &str, is_refused: impl Fn(&Path<'_>) -> bool) -> Vec<Finding> {
    source
        .paths()
        .into_iter()
        .filter(|path| !source.is_test(path.line) && is_refused(path))
        .map(|path| {
            Finding::new(
                "wall",
                source.path,
                path.line,
                format!("{who} `{}`", path.shown()),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::File;
    use crate::tidy::source::sources;

    fn count(path: &str, code: &str) -> usize {
        check(&sources(&[
            File::new(path, code),
            File::new("crates/catalog/src/redis/adapter.rs", ""),
            File::new("crates/catalog/src/postgres/adapter.rs", ""),
        ]))
        .len()
    }

    #[test]
    fn the_pure_core_knows_no_time_no_chance_and_no_loop() {
        for path in ["crates/sdk/src/decide/mod.rs", "crates/sdk/src/decide.rs"] {
            for code in [
                "use tokio::time::Duration;",
                "use std::time;",
                "use std::{collections::BTreeMap, time::Duration as D, time::*};",
                "use rand::Rng;",
                "use tracing::info;",
                "fn f() { tracing::info!(\"x\") }",
                "use crate::bus::Bus;",
                "use super::super::harness;",
                "use crate::{condition, harness::Harness};",
                "async fn f() {}",
                "fn f(now: Instant) {}",
            ] {
                assert_eq!(count(path, code), 1, "{code}");
            }
        }
    }

    #[test]
    fn the_pure_core_may_know_durations_and_plain_words() {
        for code in [
            "use std::time::Duration;",
            "use crate::condition::Condition;",
            "fn f(bus: u8, harness: u8) -> u8 { bus }",
            "// async tokio\n#[cfg(test)] mod tests { use tokio::test; }",
        ] {
            assert_eq!(count("crates/sdk/src/decide/mod.rs", code), 0, "{code}");
        }
        assert_eq!(
            count("crates/sdk/src/harness/mod.rs", "use tokio::select;"),
            0
        );
    }

    #[test]
    fn an_adapter_knows_neither_bus_nor_harness_nor_sibling() {
        let path = "crates/catalog/src/redis/mod.rs";
        for code in [
            "use mesh_bus::Embedded;",
            "use mesh_sdk::bus::Bus;",
            "use mesh_sdk::harness::Harness;",
            "use mesh_sdk::{Adapter, harness};",
            "use crate::postgres::values;",
            "use super::postgres;",
            "use super::super::postgres::classify;",
        ] {
            assert_eq!(count(path, code), 1, "{code}");
        }
        for code in [
            "use mesh_sdk::Adapter;",
            "use crate::redis::x;",
            "use super::adapter;",
            "use crate::shared::x;",
        ] {
            assert_eq!(count(path, code), 0, "{code}");
        }
        assert_eq!(
            count(
                "crates/catalog/src/lib.rs",
                "use crate::redis::A; use crate::postgres::B;"
            ),
            0
        );
    }

    #[test]
    fn the_bus_knows_no_meaning() {
        let path = "crates/bus/src/embedded.rs";
        for code in [
            "use mesh_sdk::decide::x;",
            "use mesh_sdk::{bus::Bus, adapter};",
            "use mesh_catalog::x;",
        ] {
            assert_eq!(count(path, code), 1, "{code}");
        }
        assert_eq!(count(path, "use mesh_sdk::bus::Bus;"), 0);
    }

    #[test]
    fn the_judge_knows_none_of_the_judged() {
        let path = "crates/conformance/src/adapter.rs";
        assert_eq!(count(path, "use mesh_catalog::catalogue;"), 1);
        assert_eq!(count(path, "fn f() { mesh_bus::open() }"), 1);
        assert_eq!(count(path, "use mesh_sdk::adapter::Adapter;"), 0);
    }

    #[test]
    fn adapters_and_bus_meet_in_wiring_only() {
        let both = "use mesh_bus::Embedded;\nuse mesh_catalog::catalogue;";
        assert_eq!(count("crates/meshkeeper/src/commands/up.rs", both), 1);
        assert_eq!(count("crates/meshkeeper/src/wiring.rs", both), 0);
        assert_eq!(count("crates/meshkeeper/src/wiring/loops.rs", both), 0);
        assert_eq!(
            count(
                "crates/meshkeeper/src/commands/up.rs",
                "use mesh_bus::Embedded;"
            ),
            0
        );
    }
}
