//! The suite, on both examples.

use mesh_catalog::exec::ExecKind;
use mesh_conformance::exec::{Author, ExecBench};
use mesh_conformance::servers::Example;
use mesh_sdk::Secret;
use mesh_sdk::adapter::Admin;
use serde_json::json;

use crate::judged::judge;

async fn judged(example: Example, name: &str) {
    let program = example.program().unwrap_or_else(|error| panic!("{error}"));
    let folder = tempfile::tempdir().expect("a folder");
    let settings = json!({ "folder": folder.path().join("users"), "cost": 4 });
    let author = Author {
        program: program.path().to_owned(),
        args: Vec::new(),
        bench: Example::bench(),
        settings: settings.as_object().cloned().expect("a table"),
        admin: Some(Admin {
            user: "boss".to_owned(),
            password: Some(Secret::from("planted-admin")),
        }),
    };
    let bench = ExecBench::start(author).await;
    let bench = bench.unwrap_or_else(|error| panic!("{error}"));
    judge(&ExecKind, &bench, name).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a9_the_example_in_python() {
    judged(Example::Python, "exec-python").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a9_the_example_in_typescript() {
    judged(Example::TypeScript, "exec-typescript").await;
}
