//! The erased form of the contract: what harness and program hold, whatever the kind.

use std::sync::Arc;

use async_trait::async_trait;

use crate::adapter::{
    Adapter, Capabilities, Cx, Descriptor, Finding, Found, Kind, Listed, ProviderSettings, Refusal,
    Server, Service, Sink, Use,
};
use crate::answer::Answer;
use crate::error::{Class, Error};
use crate::mark::Marker;
use crate::provision::{AnyValues, Departing, Provision, Wish};

/// A wish with what the record says about its login.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The wish.
    pub wish: &'a Wish,
    /// The login was adopted, not created by us.
    pub adopted: bool,
}

/// An [`Adapter`] without its type: same methods, same promises.
#[async_trait]
#[allow(missing_docs)]
pub trait AnyAdapter: Send + Sync + 'static {
    fn capabilities(&self) -> Capabilities;
    async fn create(&self, cx: &Cx, marker: &Marker, asked: Asked<'_>) -> Result<(), Error>;
    async fn remove(&self, cx: &Cx, marker: &Marker, login: &Departing) -> Result<(), Error>;
    async fn server(&self, cx: &Cx) -> Result<Server, Error>;
    async fn holds(&self, cx: &Cx, marker: &Marker, asked: Asked<'_>) -> Result<Answer, Error>;
    async fn holds_all(
        &self,
        cx: &Cx,
        marker: &Marker,
        asked: &[Asked<'_>],
        answers: &Sink<Answer>,
    ) -> Result<(), Error>;
    async fn create_all(
        &self,
        cx: &Cx,
        marker: &Marker,
        asked: &[Asked<'_>],
        outcomes: &Sink<()>,
    ) -> Result<(), Error>;
    async fn disable(&self, cx: &Cx, marker: &Marker, login: &Departing) -> Result<(), Error>;
    async fn list(&self, cx: &Cx, marker: &Marker) -> Result<Vec<Listed>, Error>;
    async fn uses(&self, cx: &Cx, logins: &[Departing]) -> Result<Vec<Option<Use>>, Error>;
    /// The values as a manifest would say them.
    async fn find(&self, cx: &Cx, marker: &Marker) -> Result<Vec<Found<serde_json::Value>>, Error>;
    async fn data(&self, cx: &Cx, name: &str) -> Result<Option<String>, Error>;
    async fn purge(&self, cx: &Cx, name: &str) -> Result<(), Error>;
    async fn hint(&self, cx: &Cx) -> Result<(), Error>;
    async fn doctor(&self, cx: &Cx) -> Result<Vec<Finding>, Error>;
}

/// A shared adapter of any kind.
pub type AdapterHandle = Arc<dyn AnyAdapter>;

fn view<'a, V: 'static>(asked: Asked<'a>, marker: &'a Marker) -> Result<Provision<'a, V>, Error> {
    Provision::of(asked.wish, asked.adopted, marker)
        .ok_or_else(|| Error::new(Class::Bug, "the wish holds the values of another kind"))
}

fn views<'a, V: 'static>(
    asked: &[Asked<'a>],
    marker: &'a Marker,
) -> Result<Vec<Provision<'a, V>>, Error> {
    asked.iter().map(|one| view(*one, marker)).collect()
}

#[async_trait]
impl<A: Adapter> AnyAdapter for A {
    fn capabilities(&self) -> Capabilities {
        Adapter::capabilities(self)
    }
    async fn create(&self, cx: &Cx, marker: &Marker, asked: Asked<'_>) -> Result<(), Error> {
        Adapter::create(self, cx, &view(asked, marker)?).await
    }
    async fn remove(&self, cx: &Cx, marker: &Marker, login: &Departing) -> Result<(), Error> {
        Adapter::remove(self, cx, marker, login).await
    }
    async fn server(&self, cx: &Cx) -> Result<Server, Error> {
        Adapter::server(self, cx).await
    }
    async fn holds(&self, cx: &Cx, marker: &Marker, asked: Asked<'_>) -> Result<Answer, Error> {
        Adapter::holds(self, cx, &view(asked, marker)?).await
    }
    async fn holds_all(
        &self,
        cx: &Cx,
        marker: &Marker,
        asked: &[Asked<'_>],
        answers: &Sink<Answer>,
    ) -> Result<(), Error> {
        Adapter::holds_all(self, cx, &views(asked, marker)?, answers).await
    }
    async fn create_all(
        &self,
        cx: &Cx,
        marker: &Marker,
        asked: &[Asked<'_>],
        outcomes: &Sink<()>,
    ) -> Result<(), Error> {
        Adapter::create_all(self, cx, &views(asked, marker)?, outcomes).await
    }
    async fn disable(&self, cx: &Cx, marker: &Marker, login: &Departing) -> Result<(), Error> {
        Adapter::disable(self, cx, marker, login).await
    }
    async fn list(&self, cx: &Cx, marker: &Marker) -> Result<Vec<Listed>, Error> {
        Adapter::list(self, cx, marker).await
    }
    async fn uses(&self, cx: &Cx, logins: &[Departing]) -> Result<Vec<Option<Use>>, Error> {
        Adapter::uses(self, cx, logins).await
    }
    async fn find(&self, cx: &Cx, marker: &Marker) -> Result<Vec<Found<serde_json::Value>>, Error> {
        let found = Adapter::find(self, cx, marker).await?;
        let typed = found.into_iter().map(|one| {
            one.map(serde_json::to_value)
                .map_err(|error| Error::new(Class::Bug, error.to_string()))
        });
        typed.collect()
    }
    async fn data(&self, cx: &Cx, name: &str) -> Result<Option<String>, Error> {
        Adapter::data(self, cx, name).await
    }
    async fn purge(&self, cx: &Cx, name: &str) -> Result<(), Error> {
        Adapter::purge(self, cx, name).await
    }
    async fn hint(&self, cx: &Cx) -> Result<(), Error> {
        Adapter::hint(self, cx).await
    }
    async fn doctor(&self, cx: &Cx) -> Result<Vec<Finding>, Error> {
        Adapter::doctor(self, cx).await
    }
}

/// Values as the manifest gave them, checked for form.
#[derive(Clone)]
pub struct ParsedValues {
    /// Typed, erased.
    pub values: AnyValues,
    /// A canonical form, the same for the same meaning of the fields, for the digest (H-1).
    pub canonical: Vec<u8>,
}

/// A [`Kind`] without its type.
#[allow(missing_docs)]
pub trait AnyKind: Send + Sync + 'static {
    fn descriptor(&self) -> Descriptor;
    /// The JSON Schema of this kind's values.
    fn values_schema(&self) -> serde_json::Value;
    /// Types the values; the error is serde's, naming the field and what was expected.
    fn parse_values(&self, values: serde_json::Value) -> Result<ParsedValues, serde_json::Error>;
    fn check(
        &self,
        provider: &ProviderSettings,
        wish: &Wish,
        marker: &Marker,
    ) -> Result<(), Refusal>;
    fn check_provider(&self, provider: &ProviderSettings) -> Result<(), Refusal>;
    /// The canary's values, typed.
    fn capabilities(&self, provider: &ProviderSettings) -> Capabilities;
    fn canary(&self, provider: &ProviderSettings) -> Option<ParsedValues>;
    /// The data that a wish's values speak of.
    fn data_of(&self, wish: &Wish) -> Vec<String>;
    fn options_schema(&self) -> Option<serde_json::Value>;
    fn service(&self, provider: &ProviderSettings, wish: &Wish, marker: &Marker) -> Service;
    fn open(&self, provider: ProviderSettings) -> Result<AdapterHandle, Error>;
}

type ValuesOf<K> = <<K as Kind>::Adapter as Adapter>::Values;

fn parsed<V: serde::Serialize + Send + Sync + 'static>(
    typed: V,
) -> Result<ParsedValues, serde_json::Error> {
    let mut canonical = serde_json::to_vec(&serde_json::to_value(&typed)?)?;
    canonical.shrink_to_fit();
    Ok(ParsedValues {
        values: Arc::new(typed),
        canonical,
    })
}

impl<K: Kind> AnyKind for K {
    fn descriptor(&self) -> Descriptor {
        Kind::descriptor(self)
    }
    fn values_schema(&self) -> serde_json::Value {
        schemars::schema_for!(ValuesOf<K>).to_value()
    }
    fn parse_values(&self, values: serde_json::Value) -> Result<ParsedValues, serde_json::Error> {
        parsed::<ValuesOf<K>>(serde_json::from_value(values)?)
    }
    fn check(
        &self,
        provider: &ProviderSettings,
        wish: &Wish,
        marker: &Marker,
    ) -> Result<(), Refusal> {
        let asked = Asked {
            wish,
            adopted: false,
        };
        let wish = view::<ValuesOf<K>>(asked, marker)
            .map_err(|error| Refusal::new("values", error.message()))?;
        Kind::check(self, provider, &wish)
    }
    fn check_provider(&self, provider: &ProviderSettings) -> Result<(), Refusal> {
        Kind::check_provider(self, provider)
    }
    fn capabilities(&self, provider: &ProviderSettings) -> Capabilities {
        Kind::capabilities(self, provider)
    }
    fn canary(&self, provider: &ProviderSettings) -> Option<ParsedValues> {
        parsed(Kind::canary(self, provider)?).ok()
    }
    fn data_of(&self, wish: &Wish) -> Vec<String> {
        let values = wish.any_values().downcast_ref::<ValuesOf<K>>();
        values.map_or_else(Vec::new, |values| Kind::data_of(self, values))
    }
    fn options_schema(&self) -> Option<serde_json::Value> {
        Kind::options_schema(self)
    }
    fn service(&self, provider: &ProviderSettings, wish: &Wish, marker: &Marker) -> Service {
        let asked = Asked {
            wish,
            adopted: false,
        };
        match view::<ValuesOf<K>>(asked, marker) {
            Ok(wish) => Kind::service(self, provider, &wish),
            Err(_) => Service {
                address: provider.address(),
                path: provider.path.clone(),
            },
        }
    }
    fn open(&self, provider: ProviderSettings) -> Result<AdapterHandle, Error> {
        Ok(Arc::new(Kind::open(self, provider)?))
    }
}
