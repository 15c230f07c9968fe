//! What the written pages say is what the program does.

use std::process::Command;

use mesh_sdk::condition::ConditionType;

fn page(name: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    std::fs::read_to_string(format!("{path}{name}")).expect(name)
}

#[test]
fn c1_the_operating_page_tells_every_condition_and_its_cure() {
    let page = page("docs/operating.md");
    let (_, table) = page
        .split_once("<!-- conditions: begin -->\n")
        .expect("begin");
    let (table, _) = table.split_once("<!-- conditions: end -->").expect("end");
    let rows: Vec<&str> = table.lines().skip(2).collect();
    let told: Vec<String> = ConditionType::ALL
        .iter()
        .map(|kind| {
            let (weight, meaning, cure) = (kind.severity().as_str(), kind.meaning(), kind.cure());
            format!("| `{kind}` | {weight} | {meaning} | {cure} |")
        })
        .collect();
    assert_eq!(rows, told);
}

#[test]
fn s6_the_observing_page_tells_every_metric_with_its_kind_and_labels() {
    let page = page("docs/observing.md");
    let (_, table) = page.split_once("<!-- metrics: begin -->\n").expect("begin");
    let (table, _) = table.split_once("<!-- metrics: end -->").expect("end");
    let rows: Vec<&str> = table.lines().skip(2).collect();
    let told = meshkeeper::metrics::ALL.iter().map(|metric| {
        let (name, kind) = (metric.name, metric.kind.as_str());
        format!(
            "| `{name}` | {kind} | {} | {} |",
            metric.labels, metric.help
        )
    });
    assert_eq!(rows, told.collect::<Vec<String>>());
}

#[test]
fn a2_the_manifest_of_the_readme_is_in_order() {
    let readme = page("README.md");
    let (_, rest) = readme.split_once("```toml\n").expect("a manifest");
    let (manifest, _) = rest.split_once("```").expect("its end");
    let folder = tempfile::tempdir().expect("folder");
    std::fs::write(folder.path().join("mesh.toml"), manifest).expect("written");
    let checked = Command::new(env!("CARGO_BIN_EXE_mesh"))
        .arg("check")
        .env("REDIS_ADMIN", "an admin's password")
        .current_dir(folder.path())
        .output()
        .expect("run");
    let told = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert_eq!((checked.status.code(), told.as_str()), (Some(0), ""));
}
