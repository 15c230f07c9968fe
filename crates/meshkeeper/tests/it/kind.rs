//! A small kind of backend of the tests' own: `shelf`, with the habits of a real one.

use std::sync::Arc;

use async_trait::async_trait;
use mesh_sdk::adapter::{Descriptor, ProviderSettings, Refusal, Scheme};
use mesh_sdk::handle::AnyKind;
use mesh_sdk::provision::Departing;
use mesh_sdk::{Adapter, Capabilities, Class, Cx, Error, Kind, Marker, Provision};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a consumer may do on a shelf.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShelfValues {
    /// The boards it may use, as patterns.
    pub(crate) boards: Vec<String>,
    /// How it may use them.
    #[serde(default)]
    pub(crate) access: Access,
    /// How many things it may put there.
    #[serde(default)]
    pub(crate) room: Option<u8>,
}

/// How boards may be used.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Access {
    /// Only looking.
    #[default]
    Look,
    /// Putting things there too.
    Put,
}

pub(crate) struct Shelf;
pub(crate) struct ShelfAdapter;

#[async_trait]
impl Adapter for ShelfAdapter {
    type Values = ShelfValues;
    fn capabilities(&self) -> Capabilities {
        Capabilities::none()
    }
    async fn create(&self, _: &Cx, _: &Provision<'_, ShelfValues>) -> Result<(), Error> {
        Err(Error::new(Class::Unreachable, "there is no shelf"))
    }
    async fn remove(&self, _: &Cx, _: &Marker, _: &Departing) -> Result<(), Error> {
        Err(Error::new(Class::Unreachable, "there is no shelf"))
    }
}

const SCHEMES: &[Scheme] = &[Scheme::plain("shelf", 7000), Scheme::tls("shelfs", 7001)];

impl Kind for Shelf {
    type Adapter = ShelfAdapter;
    fn descriptor(&self) -> Descriptor {
        let mut it = Descriptor::new("shelf", "A shelf (tests only)");
        it.schemes = SCHEMES;
        it.capabilities.holds = true;
        it.capabilities.list = true;
        it.proof = "by looking";
        it.restart = "everything";
        it.identity = "none";
        it.admin_rights = &["the ladder"];
        it.reserved = &["default", "sys_*"];
        it.limits = "logins of at most 20 bytes; no line breaks in passwords";
        it.keeps = "what lies on it";
        it.mark = "a sticker";
        it
    }
    fn check(
        &self,
        _: &ProviderSettings,
        wish: &Provision<'_, ShelfValues>,
    ) -> Result<(), Refusal> {
        if wish.login().as_str().len() > 20 {
            return Err(Refusal::new("login", "a shelf takes at most 20 bytes"));
        }
        if wish
            .password()
            .is_some_and(|pw| pw.expose().contains(&b'\n'))
        {
            return Err(Refusal::new("password", "a shelf takes no line breaks"));
        }
        if wish.values().boards.iter().any(String::is_empty) {
            return Err(Refusal::new("boards", "a board has a name"));
        }
        Ok(())
    }
    fn check_provider(&self, provider: &ProviderSettings) -> Result<(), Refusal> {
        match provider.path.is_empty() {
            true => Ok(()),
            false => Err(Refusal::new("url", "a shelf has no path")),
        }
    }
    fn open(&self, _: ProviderSettings) -> Result<ShelfAdapter, Error> {
        Ok(ShelfAdapter)
    }
}

/// A catalogue of this one kind.
pub(crate) fn catalogue() -> Vec<Arc<dyn AnyKind>> {
    vec![Arc::new(Shelf)]
}
