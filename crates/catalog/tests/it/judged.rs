//! What the suite found on each server is kept, and shown as one table in `docs/generated`.

use std::path::PathBuf;

use mesh_conformance::adapter::{Bench, run};
use mesh_sdk::handle::AnyKind;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/reports")
}

/// Runs the suite and demands that it comes out as the report of that name says: all ran, but for the
/// trials that it names as skipped, with the same reasons. `MESH_TEST_REPORTS=write` writes it anew.
///
/// `name` is `KIND-VERSION`, or `KIND-VERSION-HOW`.
pub(crate) async fn judge(kind: &dyn AnyKind, bench: &dyn Bench, name: &str) {
    let report = run(kind, bench).await;
    println!("{report}");
    let skipped: Vec<&str> = report.skipped().map(|trial| trial.name.as_str()).collect();
    report.assert_all_ran_but(&skipped);
    let (path, found) = (folder().join(format!("{name}.txt")), report.lines());
    #[allow(
        clippy::disallowed_methods,
        reason = "the tests' variables are the only settings of this crate"
    )]
    let writing = std::env::var_os("MESH_TEST_REPORTS").is_some_and(|how| how == "write");
    if writing {
        std::fs::write(&path, &found).expect("the report can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        kept,
        found,
        "{}: differs; run this test with MESH_TEST_REPORTS=write, read it, then `cargo xtask docs`",
        path.display()
    );
}

/// The names of all reports.
pub(crate) fn reported() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).expect("the folder of reports");
    let names = entries.filter_map(|entry| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        Some(name.strip_suffix(".txt")?.to_owned())
    });
    names.collect()
}
