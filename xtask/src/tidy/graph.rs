//! The dependency graph: which crate may lean on which, and which crates may be nowhere in it.

use super::Finding;
use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, PackageId};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// One arrow between two crates.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Arrow {
    from: String,
    to: String,
    dev: bool,
    /// Features of `to` that `from` asks for; known where `from` is ours.
    features: Vec<String>,
}

/// What an author of an adapter would pay for if it were under the sdk.
const HEAVY: [&str; 20] = [
    "async-nats",
    "axum",
    "clap",
    "fjall",
    "hyper",
    "lapin",
    "ldap3",
    "mongodb",
    "mysql_async",
    "postgres",
    "redb",
    "redis",
    "reqwest",
    "rumqttc",
    "rumqttc-next",
    "rusqlite",
    "sled",
    "sqlx",
    "tokio-postgres",
    "tonic",
];

/// A second TLS stack, or a second crypto provider, which makes rustls panic at run time.
const BANNED: [&str; 4] = ["native-tls", "openssl", "openssl-sys", "ring"];

const OURS: [&str; 6] = [
    "mesh-sdk",
    "mesh-catalog",
    "mesh-bus",
    "mesh-loops",
    "mesh-conformance",
    "meshkeeper",
];

/// Asks cargo for the graph and judges it.
pub(super) fn check(root: &Path) -> Result<Vec<Finding>> {
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .other_options(["--locked".to_owned()])
        .exec()
        .context("cargo metadata --locked")?;
    let mut found = judge(&arrows(&metadata));
    found.extend(banned(&tree(root)?));
    Ok(found)
}

/// What is really built, features decided: `Cargo.lock` also names what nobody switches on.
fn tree(root: &Path) -> Result<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--workspace", "--target", "all"])
        .args([
            "--edges",
            "normal,build,dev",
            "--prefix",
            "none",
            "--format",
            "{p}",
        ])
        .current_dir(root)
        .output()
        .context("cargo tree")?;
    anyhow::ensure!(
        output.status.success(),
        "cargo tree: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Crates that may be nowhere in `cargo tree`'s lines.
fn banned(tree: &str) -> Vec<Finding> {
    let names: BTreeSet<&str> = tree
        .lines()
        .filter_map(|l| l.split_whitespace().next())
        .collect();
    BANNED
        .into_iter()
        .filter(|name| names.contains(name))
        .map(|name| {
            let what = format!("`{name}` is built: one TLS stack, rustls with aws-lc-rs");
            Finding::new("banned", "Cargo.lock", 0, what)
        })
        .collect()
}

fn arrows(metadata: &Metadata) -> Vec<Arrow> {
    let names: BTreeMap<&PackageId, &str> = metadata
        .packages
        .iter()
        .map(|p| (&p.id, p.name.as_str()))
        .collect();
    let members: BTreeMap<&str, &cargo_metadata::Package> = metadata
        .workspace_packages()
        .into_iter()
        .map(|p| (p.name.as_str(), p))
        .collect();
    let mut found = Vec::new();
    for node in metadata.resolve.iter().flat_map(|resolve| &resolve.nodes) {
        for dep in &node.deps {
            let (Some(from), Some(to)) = (names.get(&node.id), names.get(&dep.pkg)) else {
                continue;
            };
            for kind in &dep.dep_kinds {
                let asked = members.get(from).and_then(|package| {
                    package
                        .dependencies
                        .iter()
                        .find(|d| d.name == *to && d.kind == kind.kind)
                });
                found.push(Arrow {
                    from: (*from).to_owned(),
                    to: (*to).to_owned(),
                    dev: kind.kind == DependencyKind::Development,
                    features: asked.map(|d| d.features.clone()).unwrap_or_default(),
                });
            }
        }
    }
    found
}

/// Every wall between crates.
fn judge(arrows: &[Arrow]) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut refuse = |from: &str, what: String| {
        found.push(Finding::new("graph", &manifest(from), 0, what));
    };
    let under_sdk = beneath(arrows, "mesh-sdk");
    for heavy in HEAVY.into_iter().filter(|name| under_sdk.contains(name)) {
        refuse(
            "mesh-sdk",
            format!("`{heavy}` is under mesh-sdk, and authors would pay for it"),
        );
    }
    for arrow in arrows.iter().filter(|a| OURS.contains(&a.from.as_str())) {
        let Arrow {
            from,
            to,
            dev,
            features,
        } = arrow;
        let never: &[&str] = match from.as_str() {
            "mesh-sdk" => &[
                "mesh-sdk",
                "mesh-catalog",
                "mesh-bus",
                "mesh-loops",
                "mesh-conformance",
                "meshkeeper",
            ],
            "mesh-catalog" => &["mesh-bus", "mesh-loops", "meshkeeper"],
            "mesh-bus" => &["mesh-catalog", "mesh-loops", "meshkeeper"],
            "mesh-loops" if *dev => &["mesh-catalog", "mesh-bus", "meshkeeper"],
            "mesh-loops" => &["mesh-catalog", "mesh-bus", "mesh-conformance", "meshkeeper"],
            "mesh-conformance" => &["mesh-catalog", "mesh-bus", "mesh-loops", "meshkeeper"],
            _ => &[],
        };
        // A crate may name itself in its dev-dependencies, to switch a feature on for its tests.
        if never.contains(&to.as_str()) && !(*dev && from == to) {
            refuse(from, format!("{from} leans on {to}"));
        }
        if to == "anyhow" && !dev && from != "meshkeeper" {
            refuse(
                from,
                format!("{from} leans on anyhow: its errors are typed"),
            );
        }
        // The word `conformance` runs the suite on an author's program; servers stay in tests.
        let servers = features.iter().any(|f| f == "servers");
        if to == "mesh-conformance" && !dev && (from != "meshkeeper" || servers) {
            let what = format!("{from} ships the test servers of mesh-conformance, or all of it");
            refuse(from, what);
        }
        if to == "mesh-sdk"
            && !dev
            && from != "mesh-conformance"
            && features.iter().any(|f| f == "testing")
        {
            refuse(
                from,
                format!("{from} ships the feature `testing` of mesh-sdk"),
            );
        }
    }
    found
}

/// Everything that `root` pulls in, tests aside.
fn beneath<'a>(arrows: &'a [Arrow], root: &'a str) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut next = vec![root];
    while let Some(name) = next.pop() {
        for arrow in arrows.iter().filter(|a| a.from == name && !a.dev) {
            if seen.insert(arrow.to.as_str()) {
                next.push(&arrow.to);
            }
        }
    }
    seen
}

fn manifest(package: &str) -> String {
    format!("crates/{}/Cargo.toml", package.trim_start_matches("mesh-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrow(from: &str, to: &str) -> Arrow {
        Arrow {
            from: from.to_owned(),
            to: to.to_owned(),
            dev: false,
            features: Vec::new(),
        }
    }

    fn dev(from: &str, to: &str) -> Arrow {
        Arrow {
            dev: true,
            ..arrow(from, to)
        }
    }

    #[test]
    fn the_graph_as_it_should_be_passes() {
        let good = [
            arrow("mesh-sdk", "tokio"),
            dev("mesh-sdk", "mesh-sdk"),
            arrow("mesh-catalog", "mesh-sdk"),
            arrow("mesh-catalog", "redis"),
            dev("mesh-catalog", "mesh-conformance"),
            arrow("mesh-bus", "rusqlite"),
            dev("mesh-bus", "mesh-conformance"),
            arrow("meshkeeper", "mesh-catalog"),
            arrow("mesh-loops", "mesh-sdk"),
            arrow("meshkeeper", "mesh-bus"),
            arrow("meshkeeper", "mesh-loops"),
            arrow("meshkeeper", "mesh-conformance"),
            arrow("meshkeeper", "anyhow"),
            arrow("xtask", "anyhow"),
        ];
        assert_eq!(judge(&good), []);
    }

    #[test]
    fn each_wall_is_told() {
        for bad in [
            arrow("mesh-sdk", "mesh-bus"),
            dev("mesh-sdk", "mesh-conformance"),
            arrow("mesh-sdk", "redis"),
            arrow("mesh-sdk", "clap"),
            arrow("mesh-catalog", "mesh-bus"),
            arrow("mesh-bus", "mesh-catalog"),
            arrow("mesh-loops", "mesh-bus"),
            arrow("mesh-loops", "mesh-catalog"),
            arrow("mesh-catalog", "mesh-loops"),
            dev("mesh-conformance", "mesh-catalog"),
            arrow("mesh-conformance", "mesh-bus"),
            arrow("mesh-catalog", "anyhow"),
            arrow("mesh-catalog", "mesh-conformance"),
            arrow("mesh-bus", "mesh-conformance"),
        ] {
            assert_eq!(judge(std::slice::from_ref(&bad)).len(), 1, "{bad:?}");
        }
    }

    #[test]
    fn a_heavy_crate_is_found_however_deep() {
        let deep = [
            arrow("mesh-sdk", "a"),
            arrow("a", "b"),
            arrow("b", "rusqlite"),
        ];
        assert_eq!(judge(&deep).len(), 1);
        let only_in_tests = [arrow("mesh-sdk", "a"), dev("a", "rusqlite")];
        assert_eq!(judge(&only_in_tests), []);
    }

    #[test]
    fn the_test_doors_do_not_ship() {
        let testing = |from, dev| Arrow {
            from: String::from(from),
            to: "mesh-sdk".to_owned(),
            dev,
            features: vec!["testing".to_owned()],
        };
        assert_eq!(judge(&[testing("meshkeeper", false)]).len(), 1);
        assert_eq!(
            judge(&[
                testing("meshkeeper", true),
                testing("mesh-conformance", false)
            ]),
            []
        );
    }

    #[test]
    fn the_test_servers_do_not_ship() {
        let servers = |dev| Arrow {
            dev,
            features: vec!["servers".to_owned()],
            ..arrow("meshkeeper", "mesh-conformance")
        };
        assert_eq!(judge(&[servers(false)]).len(), 1);
        assert_eq!(judge(&[servers(true)]), []);
    }

    #[test]
    fn a_second_tls_stack_is_refused() {
        assert_eq!(
            banned("rustls v0.23.1\naws-lc-rs v1.0.0\nring-buffer v1.0.0\n"),
            []
        );
        assert_eq!(banned("ring v0.17.14\nring v0.17.14 (*)\n").len(), 1);
        assert_eq!(banned("native-tls v0.2.1\nopenssl-sys v0.9.1\n").len(), 2);
    }
}
