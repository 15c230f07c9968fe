//! What the tests of the kinds ask for and leave behind.

use std::sync::Arc;

use mesh_sdk::adapter::ProviderSettings;
use mesh_sdk::provision::WishParts;
use mesh_sdk::{ConsumerName, Login, Marker, MeshId, ProviderName, Provision, Secret, Wish};

use super::{Format, Lines, Wanted};

pub(crate) fn marker(installation: &str) -> Marker {
    let mesh = MeshId::new("home").expect("a name");
    let provider = ProviderName::new("users").expect("a name");
    Marker::new(mesh, installation, provider, Secret::from("key"))
}

pub(crate) fn mark(name: &str) -> String {
    let consumer = ConsumerName::new(name).expect("a name");
    marker("i1").mark(&consumer).as_str().to_owned()
}

/// Settings of a file.
pub(crate) fn settings(scheme: &str, path: &str) -> ProviderSettings {
    let name = ProviderName::new("users").expect("a name");
    ProviderSettings::of_file(name, scheme, path)
}

/// A login of the consumer `web`, as wanted.
pub(crate) fn wanted<V>(hash: Option<&str>, off: bool, values: Option<V>) -> Wanted<V> {
    Wanted {
        hash: hash.map(|hash| hash.as_bytes().to_vec()),
        off,
        mark: mark("web"),
        values,
        exact: true,
    }
}

/// The text with a login made as wanted, which once more changes nothing.
pub(crate) fn set<F: Format>(text: &str, login: &str, wanted: &Wanted<F::Values>) -> String {
    let mut lines = Lines::read(text.as_bytes());
    F::set(&mut lines, login, wanted, &marker("i1"));
    let bytes = lines.bytes();
    F::set(&mut lines, login, wanted, &marker("i1"));
    assert_eq!(lines.bytes(), bytes, "again changes something");
    String::from_utf8(bytes).expect("text")
}

/// The text without a login.
pub(crate) fn removed<F: Format>(text: &str, login: &str) -> String {
    let mut lines = Lines::read(text.as_bytes());
    F::remove(&mut lines, login, &marker("i1"));
    String::from_utf8(lines.bytes()).expect("text")
}

/// The field for which a wish of the consumer `web` is refused.
pub(crate) fn refused<F: Format>(
    format: &F,
    login: &str,
    password: &[u8],
    values: F::Values,
) -> Option<String> {
    let with = |view: &Provision<'_, F::Values>| format.check(view).err();
    asked(login, password, values, with).map(|refusal| refusal.field)
}

/// Has something done with a wish of the consumer `web`.
pub(crate) fn asked<V: Send + Sync + 'static, O>(
    login: &str,
    password: &[u8],
    values: V,
    with: impl FnOnce(&Provision<'_, V>) -> O,
) -> O {
    let parts = WishParts {
        consumer: ConsumerName::new("web").expect("a name"),
        login: Login::new(login).expect("a login"),
        password: Some(Secret::new(password)),
        values: Arc::new(values),
        canonical_values: Vec::new(),
        enabled: true,
        adopt: false,
        exact: false,
        second: None,
        base: None,
        generated: false,
    };
    let wish = Wish::new(parts, &Secret::from("key"));
    let marker = marker("i1");
    with(&Provision::of(&wish, false, &marker).expect("typed"))
}
