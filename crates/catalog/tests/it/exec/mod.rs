//! Adapters that are programs.

mod process;
mod reverse;
mod suite;

use std::path::Path;

use mesh_catalog::exec::ExecKind;
use mesh_sdk::adapter::{Admin, Cx, ProviderSettings};
use mesh_sdk::handle::{AdapterHandle, AnyKind, Asked};
use mesh_sdk::{Answer, Error, Marker, MeshId, ProviderName, Secret, Wish};
use serde_json::{Value, json};

use crate::wishes::wish_of;

/// One adapter with what its calls need.
pub(crate) struct Ours {
    adapter: AdapterHandle,
    marker: Marker,
    cx: Cx,
}

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

impl Ours {
    fn on(settings: ProviderSettings) -> Self {
        let mesh = MeshId::new("test").expect("a name");
        let provider = settings.provider.clone();
        AnyKind::check_provider(&ExecKind, &settings).expect("settings");
        Self {
            adapter: AnyKind::open(&ExecKind, settings).expect("an adapter"),
            marker: Marker::new(mesh, "i1", provider, Secret::from("key")),
            cx: Cx::default(),
        }
    }
    async fn create(&self, wish: &Wish) -> Result<(), Error> {
        let asked = Asked {
            wish,
            adopted: false,
        };
        self.adapter.create(&self.cx, &self.marker, asked).await
    }
    async fn holds(&self, wish: &Wish) -> Result<Answer, Error> {
        let asked = Asked {
            wish,
            adopted: false,
        };
        self.adapter.holds(&self.cx, &self.marker, asked).await
    }
}

fn wish(name: &str) -> Wish {
    let values = json!({ "values": { "rights": ["read"] } });
    wish_of(&ExecKind, name, values, |parts| {
        parts.password = Some(Secret::from(format!("planted-{name}")));
    })
}
