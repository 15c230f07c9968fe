//! What can be refused without asking the server.

use mesh_sdk::adapter::{ProviderSettings, Refusal};
use mesh_sdk::{Login, Secret};

use super::adapter::is_reserved;
use super::compare::Wish;
use super::grants::may_be_said;
use super::hash::LONGEST;
use super::values::{EtcdOptions, EtcdValues};

/// The longest login that is taken.
const LONGEST_LOGIN: usize = 1024;

/// Login, password and values.
pub(super) fn wish(provider: &ProviderSettings, wish: &Wish<'_>) -> Result<(), Refusal> {
    if !wish.enabled() {
        let rule = "etcd cannot switch a login off: leave the consumer out, and it is removed";
        return Err(Refusal::new("enabled", rule));
    }
    login(wish.login(), provider)?;
    if let Some(secret) = wish.password() {
        password(secret)?;
    }
    values(wish.values())
}

/// A provider's own settings.
pub(super) fn provider(settings: &ProviderSettings) -> Result<(), Refusal> {
    let refuse = |field: &str, rule: &str| Err(Refusal::new(field, rule));
    if !matches!(settings.scheme.as_str(), "http" | "https") {
        return refuse("url", "must begin with http:// or https://");
    }
    if settings.host.is_empty() {
        return refuse("url", "must name a host");
    }
    if !settings.path.is_empty() {
        return refuse(
            "url",
            "logins belong to the whole cluster: leave out the path",
        );
    }
    settings.check_plain(settings.scheme == "https", "https")?;
    let Some(admin) = &settings.admin else {
        return refuse("admin", "must be there: a user with the role `root`");
    };
    if admin.user.is_empty() || admin.user.contains('\0') {
        return refuse("admin.user", "must be a name without NUL");
    }
    match admin.password.as_ref().map(Secret::expose_str) {
        Some(Some(text)) if !text.is_empty() => {}
        _ => return refuse("admin.password", "must be there, and UTF-8"),
    }
    let options: EtcdOptions = settings.typed_options()?;
    if options
        .bcrypt_cost
        .is_some_and(|cost| !(4..=15).contains(&cost))
    {
        return refuse("options.bcrypt_cost", "must be 4 to 15");
    }
    Ok(())
}

/// The login alone.
pub(super) fn login(login: &Login, provider: &ProviderSettings) -> Result<(), Refusal> {
    if is_reserved(login.as_str(), provider) {
        return Err(Refusal::new(
            "login",
            "`root` and the admin login itself are reserved",
        ));
    }
    if login.as_str().len() > LONGEST_LOGIN {
        return Err(Refusal::new("login", "must have at most 1024 bytes"));
    }
    Ok(())
}

fn password(secret: &Secret) -> Result<(), Refusal> {
    let refuse = |rule: &str| Err(Refusal::new("password", rule));
    match secret.expose_str() {
        None => refuse("must be UTF-8"),
        Some("") => refuse("must not be empty"),
        Some(text) if text.contains('\0') => refuse("must not hold a NUL"),
        Some(text) if text.len() > LONGEST => refuse(
            "must have at most 72 bytes: etcd's hash, bcrypt, leaves out what is behind them",
        ),
        Some(_) => Ok(()),
    }
}

fn values(values: &EtcdValues) -> Result<(), Refusal> {
    let lists = [
        ("prefixes", &values.prefixes, true),
        ("read_prefixes", &values.read_prefixes, true),
        ("write_prefixes", &values.write_prefixes, true),
        ("keys", &values.keys, false),
        ("read_keys", &values.read_keys, false),
        ("write_keys", &values.write_keys, false),
    ];
    for (field, texts, is_prefix) in lists {
        for text in texts {
            if text.is_empty() && !is_prefix {
                return Err(Refusal::new(field, "a key must not be empty"));
            }
            if !may_be_said(text) {
                return Err(Refusal::new(
                    field,
                    "must have at most 4096 bytes and no NUL",
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! What passes and what is refused, by the field that is named.
    use std::sync::Arc;

    use mesh_sdk::adapter::Admin;
    use mesh_sdk::provision::WishParts;
    use mesh_sdk::{ConsumerName, Marker, MeshId, ProviderName, Provision, Wish};
    use serde_json::{Value, json};

    use super::*;

    fn settings(scheme: &str, host: &str) -> ProviderSettings {
        let provider = ProviderName::new("store").expect("a name");
        let mut settings = ProviderSettings::new(provider, scheme, host, 2379);
        settings.admin = Some(Admin {
            user: "mesh".to_owned(),
            password: Some(Secret::from("secret")),
        });
        settings
    }

    /// The field that is refused, if one is.
    fn refused(login: &str, password: &[u8], values: Value, enabled: bool) -> Option<String> {
        let values: EtcdValues = serde_json::from_value(values).expect("values");
        let parts = WishParts {
            consumer: ConsumerName::new("web").expect("a name"),
            login: Login::new(login).expect("a login"),
            password: Some(Secret::new(password)),
            values: Arc::new(values),
            canonical_values: Vec::new(),
            enabled,
            adopt: false,
            exact: false,
            second: None,
            base: None,
            generated: false,
        };
        let made = Wish::new(parts, &Secret::from("key"));
        let (mesh, name) = (
            MeshId::new("m").expect("m"),
            ProviderName::new("p").expect("p"),
        );
        let marker = Marker::new(mesh, "i", name, Secret::from("key"));
        let view = Provision::of(&made, false, &marker).expect("typed");
        wish(&settings("http", "localhost"), &view)
            .err()
            .map(|refusal| refusal.field)
    }

    #[test]
    fn h19_logins_that_are_reserved_or_too_long_are_refused() {
        for good in ["web", "-rf", "a b", "Root", "ünï", "line\nbreak"] {
            assert_eq!(refused(good, b"pw", json!({}), true), None, "{good}");
        }
        for bad in ["root", "mesh", &"x".repeat(1025)] {
            assert_eq!(
                refused(bad, b"pw", json!({}), true).as_deref(),
                Some("login"),
                "{bad}"
            );
        }
        assert_eq!(
            refused("web", b"pw", json!({}), false).as_deref(),
            Some("enabled")
        );
    }

    #[test]
    fn o08_a_password_that_would_not_count_whole_is_refused() {
        let longest = "漢".repeat(24);
        assert_eq!(refused("web", longest.as_bytes(), json!({}), true), None);
        let longer = format!("{longest}!");
        for bad in [longer.as_bytes(), b"", b"a\0b", &[0xff, 0xfe]] {
            assert_eq!(
                refused("web", bad, json!({}), true).as_deref(),
                Some("password")
            );
        }
    }

    #[test]
    fn a5_values_are_refused_by_field() {
        let good =
            json!({ "prefixes": ["/web/", ""], "read_keys": ["a b"], "write_prefixes": ["\n"] });
        assert_eq!(refused("web", b"pw", good, true), None);
        for field in [
            "prefixes",
            "read_prefixes",
            "write_prefixes",
            "keys",
            "read_keys",
            "write_keys",
        ] {
            let values = json!({ field: ["a\0"] });
            assert_eq!(refused("web", b"pw", values, true).as_deref(), Some(field));
        }
        assert_eq!(
            refused("web", b"pw", json!({ "keys": [""] }), true).as_deref(),
            Some("keys")
        );
    }

    #[test]
    fn s5_a_plain_connection_to_another_machine_needs_its_word() {
        let field = |settings: &ProviderSettings| provider(settings).err().map(|r| r.field);
        for (scheme, host) in [("http", "localhost"), ("https", "etcd.example")] {
            assert_eq!(field(&settings(scheme, host)), None, "{scheme} {host}");
        }
        let mut plain = settings("http", "etcd.example");
        assert_eq!(field(&plain).as_deref(), Some("url"));
        plain.tls.dangerously_plain = true;
        assert_eq!(field(&plain), None);
        for (scheme, host) in [("etcd", "localhost"), ("http", "")] {
            assert_eq!(
                field(&settings(scheme, host)).as_deref(),
                Some("url"),
                "{scheme}"
            );
        }
        let mut nobody = settings("http", "localhost");
        nobody.admin = None;
        assert_eq!(field(&nobody).as_deref(), Some("admin"));
        let mut dear = settings("http", "localhost");
        dear.options.insert("bcrypt_cost".to_owned(), json!(31));
        assert_eq!(field(&dear).as_deref(), Some("options.bcrypt_cost"));
    }
}
