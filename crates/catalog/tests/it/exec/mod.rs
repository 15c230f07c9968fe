//! Adapters that are programs.

mod process;
mod reverse;
mod suite;

use std::path::Path;

use mesh_catalog::exec::ExecKind;
use mesh_sdk::adapter::{Admin, ProviderSettings};
use mesh_sdk::{ProviderName, Secret, Wish};
use serde_json::{Value, json};

use crate::wishes::wish_of;

type Ours = crate::ours::Ours<ExecKind>;

fn settings(program: &Path, options: Value) -> ProviderSettings {
    let provider = ProviderName::new("users").expect("a name");
    let path = program.display().to_string();
    let mut settings = ProviderSettings::of_file(provider, "exec", &path);
    settings.admin = Some(Admin {
        user: "boss".to_owned(),
        password: Some(Secret::from("planted-admin")),
    });
    settings.options = options.as_object().cloned().unwrap_or_default();
    settings
}

fn wish(name: &str) -> Wish {
    let values = json!({ "values": { "rights": ["read"] } });
    wish_of(&ExecKind, name, values, |parts| {
        parts.password = Some(Secret::from(format!("planted-{name}")));
    })
}
