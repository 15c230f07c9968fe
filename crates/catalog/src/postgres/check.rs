//! What can be refused without asking the server: names, passwords and values that it could never take.

use mesh_sdk::adapter::{ProviderSettings, Refusal};
use mesh_sdk::{Class, Error, Login, Secret};

use super::compare::Wish;
use super::connect::{admin_name, home};
use super::scram;
use super::values::{PostgresOptions, PostgresValues, Privileges};

/// The longest name. PostgreSQL cuts longer ones with no more than a notice, so that two become one (O-09).
const LONGEST_NAME: usize = 63;
/// The longest password. There is no limit in the server; poolers and clients have one.
const LONGEST_PASSWORD: usize = 16 * 1024;
/// Names that the server takes for something else even in quotes, or that hold it together.
const RESERVED: [&str; 3] = ["postgres", "public", "none"];
/// Databases that are patterns for others.
const TEMPLATES: [&str; 2] = ["template0", "template1"];
/// The canary's name: it need not be there.
pub(super) const CANARY: &str = "meshkeeper_canary";

/// Login, password and values.
pub(super) fn wish(provider: &ProviderSettings, wish: &Wish<'_>) -> Result<(), Refusal> {
    let options: PostgresOptions = provider.typed_options()?;
    login(wish.login(), provider, &options)?;
    if let Some(secret) = wish.password() {
        password(secret)?;
    }
    values(wish.values(), provider)
}

/// A provider's own settings.
pub(super) fn provider(settings: &ProviderSettings) -> Result<(), Refusal> {
    let scheme = super::SCHEMES.iter().find(|s| s.name == settings.scheme);
    let Some(scheme) = scheme else {
        let rule = "must begin with postgres://, postgresql:// or postgres+tls://";
        return Err(Refusal::new("url", rule));
    };
    if settings.host.is_empty() {
        return Err(Refusal::new("url", "must name a host"));
    }
    if let Some(rule) = wrong_name(home(settings)) {
        return Err(Refusal::new("url", format!("the database {rule}")));
    }
    if TEMPLATES.contains(&home(settings)) {
        let rule = "connections to a template database stand in the way of new databases";
        return Err(Refusal::new("url", rule));
    }
    settings.check_plain(scheme.encrypted, super::TLS_SCHEME)?;
    if let Some(admin) = &settings.admin {
        if let Some(rule) = wrong_name(&admin.user) {
            return Err(Refusal::new("admin.user", rule));
        }
        if admin.password.as_ref().is_some_and(Secret::is_empty) {
            return Err(Refusal::new("admin.password", "must not be empty"));
        }
    }
    options(&settings.typed_options()?)
}

fn options(options: &PostgresOptions) -> Result<(), Refusal> {
    let refuse = |field: &str, rule: &str| Err(Refusal::new(&format!("options.{field}"), rule));
    if !(1..=1_000_000).contains(&options.generated_rounds) {
        return refuse("generated_rounds", "must be 1 to 1000000");
    }
    if !(4096..=1_000_000).contains(&options.given_rounds) {
        return refuse("given_rounds", "must be 4096 to 1000000");
    }
    if !(1..=100).contains(&options.connections) {
        return refuse("connections", "must be 1 to 100");
    }
    if options.kept_sessions > 100 {
        return refuse("kept_sessions", "must be 0 to 100");
    }
    match wrong_name(&options.keeper) {
        None if !is_system(&options.keeper) => Ok(()),
        _ => refuse(
            "keeper",
            "must be the name of a role that is not the server's own",
        ),
    }
}

/// Refuses databases that are never deleted: the server's own, and the one that the admin login works in.
pub(super) fn may_purge(database: &str, settings: &ProviderSettings) -> Result<(), Error> {
    let refuse = |rule: &str| {
        let message = format!("database `{database}` {rule}");
        Err(Error::new(Class::RefusedValue, message))
    };
    if let Some(rule) = wrong_name(database) {
        return refuse(rule);
    }
    if database == "postgres" || TEMPLATES.contains(&database) {
        return refuse("is the server's own and never deleted");
    }
    if database == home(settings) {
        return refuse("is the one that the admin login works in, and never deleted");
    }
    Ok(())
}

/// Whether a login is never touched (H-19). Case counts: `Postgres` is another role.
pub(super) fn is_reserved(login: &str, settings: &ProviderSettings, keeper: &str) -> bool {
    is_system(login) || login == keeper || login == CANARY || login == admin_name(settings)
}

fn is_system(name: &str) -> bool {
    name.starts_with("pg_") || RESERVED.contains(&name)
}

fn login(
    login: &Login,
    provider: &ProviderSettings,
    options: &PostgresOptions,
) -> Result<(), Refusal> {
    let text = login.as_str();
    if is_reserved(text, provider, &options.keeper) {
        let rule = "`postgres`, `public`, `none`, whatever begins with `pg_`, the admin login, the keeper \
                    and the canary are reserved";
        return Err(Refusal::new("login", rule));
    }
    match wrong_name(text) {
        Some(rule) => Err(Refusal::new("login", rule)),
        None => Ok(()),
    }
}

fn wrong_name(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("must not be empty");
    }
    if name.contains('\0') {
        return Some("must not hold a NUL");
    }
    (name.len() > LONGEST_NAME)
        .then_some("must have at most 63 bytes: PostgreSQL cuts longer names off without a word")
}

fn password(secret: &Secret) -> Result<(), Refusal> {
    let refuse = |rule: &str| Err(Refusal::new("password", rule));
    match secret.expose_str() {
        None => refuse("must be UTF-8"),
        Some("") => refuse("must not be empty"),
        Some(text) if text.contains('\0') => refuse("must not hold a NUL"),
        Some(text) if text.len() > LONGEST_PASSWORD => refuse("must have at most 16384 bytes"),
        Some(text) if scram::vanishes(text) => refuse(
            "must hold a character that SASLprep (RFC 4013) leaves: clients disagree on others",
        ),
        Some(_) => Ok(()),
    }
}

fn values(values: &PostgresValues, provider: &ProviderSettings) -> Result<(), Refusal> {
    let refuse = |field: &str, rule: &str| Err(Refusal::new(field, rule));
    if let Some(rule) = wrong_name(&values.database) {
        return refuse("database", rule);
    }
    if TEMPLATES.contains(&values.database.as_str()) {
        return refuse("database", "a template database is nobody's");
    }
    let owner = values.privileges == Privileges::Owner;
    if owner && values.database == home(provider) {
        let rule = "the database that the admin login works in has no other owner: whoever owns it could \
                    have the admin run things";
        return refuse("database", rule);
    }
    let has_rights = matches!(
        values.privileges,
        Privileges::ReadWrite | Privileges::ReadOnly
    );
    if values.schemas.is_empty() && has_rights {
        return refuse(
            "schemas",
            "must name one at least: privileges are about schemas",
        );
    }
    for schema in &values.schemas {
        if let Some(rule) = wrong_name(schema) {
            return refuse("schemas", rule);
        }
        if schema.starts_with("pg_") || schema == "information_schema" {
            return refuse("schemas", "the server's own schemas are nobody's");
        }
    }
    if !owner && !values.extensions.is_empty() {
        return refuse("extensions", "only an `owner` has extensions made");
    }
    for extension in &values.extensions {
        if let Some(rule) = wrong_name(extension) {
            return refuse("extensions", rule);
        }
    }
    match values.connection_limit {
        Some(0) => refuse(
            "connection_limit",
            "must not be 0: `enabled = false` switches a login off",
        ),
        Some(limit) if i32::try_from(limit).is_err() => refuse("connection_limit", "is too many"),
        _ => Ok(()),
    }
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
        let provider = ProviderName::new("database").expect("a name");
        let mut settings = ProviderSettings::new(provider, scheme, host, 5432);
        settings.admin = Some(Admin {
            user: "mesh".to_owned(),
            password: Some(Secret::from("secret")),
        });
        settings
    }

    /// The field that is refused, if one is.
    fn refused(login: &str, password: &[u8], values: Value) -> Option<String> {
        let values: PostgresValues = serde_json::from_value(values).expect("values");
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
        let made = Wish::new(parts, &Secret::from("key"));
        let mesh = MeshId::new("m").expect("a name");
        let name = ProviderName::new("p").expect("a name");
        let marker = Marker::new(mesh, "i", name, Secret::from("key"));
        let view = Provision::of(&made, false, &marker).expect("typed");
        let checked = wish(&settings("postgres", "localhost"), &view);
        checked.err().map(|refusal| refusal.field)
    }

    fn plain() -> Value {
        json!({ "database": "shop", "privileges": "readonly" })
    }

    #[test]
    fn r3_a_second_login_that_is_too_long_is_no_reason_to_refuse_the_first() {
        let first = Login::new(&"x".repeat(61)).expect("a login");
        assert_eq!(refused(first.as_str(), b"long enough", plain()), None);
        let second = first.second();
        let refused = refused(second.as_str(), b"long enough", plain());
        assert_eq!(refused.as_deref(), Some("login"));
    }

    #[test]
    fn h19_logins_that_are_reserved_or_cannot_be_are_refused() {
        for good in [
            "web",
            "-rf",
            "a'b\"c",
            "ünï",
            "Postgres",
            "sp ace",
            &"x".repeat(63),
        ] {
            assert_eq!(refused(good, b"pw", plain()), None, "{good}");
        }
        let keeper = "meshkeeper_keeper";
        for bad in [
            "postgres",
            "mesh",
            "public",
            "none",
            "pg_x",
            keeper,
            CANARY,
            &"x".repeat(64),
        ] {
            assert_eq!(
                refused(bad, b"pw", plain()).as_deref(),
                Some("login"),
                "{bad}"
            );
        }
    }

    #[test]
    fn o07_passwords_that_cannot_be_used_are_refused() {
        assert_eq!(refused("web", "漢\n' \\".as_bytes(), plain()), None);
        let long = [b'x'; 16 * 1024 + 1];
        for bad in [&b""[..], b"a\0b", &[0xff, 0xfe], "\u{ad}".as_bytes(), &long] {
            assert_eq!(refused("web", bad, plain()).as_deref(), Some("password"));
        }
    }

    #[test]
    fn a5_values_that_could_never_be_are_refused_by_field() {
        let good = json!({
            "database": "Shop-DB", "privileges": "owner", "schemas": ["public", "a.b"],
            "extensions": ["uuid-ossp"], "connection_limit": 3,
        });
        assert_eq!(refused("web", b"pw", good), None);
        let mut bad = vec![
            (json!({ "database": "", "privileges": "owner" }), "database"),
            (
                json!({ "database": "template1", "privileges": "readonly" }),
                "database",
            ),
            (
                json!({ "database": "postgres", "privileges": "owner" }),
                "database",
            ),
        ];
        let more = [
            (json!({ "schemas": [] }), "schemas"),
            (json!({ "schemas": ["pg_catalog"] }), "schemas"),
            (json!({ "schemas": ["information_schema"] }), "schemas"),
            (json!({ "schemas": ["a\0b"] }), "schemas"),
            (json!({ "extensions": ["citext"] }), "extensions"),
            (json!({ "connection_limit": 0 }), "connection_limit"),
            (
                json!({ "connection_limit": 4_000_000_000_u32 }),
                "connection_limit",
            ),
        ];
        for (part, field) in more {
            let mut values = plain();
            for (name, value) in part.as_object().expect("a table") {
                values[name] = value.clone();
            }
            bad.push((values, field));
        }
        for (values, field) in bad {
            let told = refused("web", b"pw", values.clone());
            assert_eq!(told.as_deref(), Some(field), "{values}");
        }
    }

    #[test]
    fn s5_a_plain_connection_to_another_machine_needs_its_word() {
        let field = |settings: &ProviderSettings| provider(settings).err().map(|r| r.field);
        let fine = [
            ("postgres", "localhost"),
            ("postgresql", "::1"),
            ("postgres+tls", "db.example"),
        ];
        for (scheme, host) in fine {
            assert_eq!(field(&settings(scheme, host)), None, "{scheme} {host}");
        }
        let mut plain = settings("postgres", "db.example");
        let told = provider(&plain).expect_err("refused").to_string();
        assert!(
            told.contains("postgres+tls://") && told.contains("dangerously_plain"),
            "{told}"
        );
        plain.tls.dangerously_plain = true;
        assert_eq!(field(&plain), None);
        assert_eq!(
            field(&settings("mysql", "localhost")).as_deref(),
            Some("url")
        );
        let mut odd = settings("postgres", "localhost");
        odd.path = "template1".to_owned();
        assert_eq!(field(&odd).as_deref(), Some("url"));
        for (name, value) in [
            ("given_rounds", json!(1)),
            ("connections", json!(0)),
            ("keeper", json!("pg_x")),
        ] {
            let mut odd = settings("postgres", "localhost");
            odd.options.insert(name.to_owned(), value);
            assert_eq!(field(&odd), Some(format!("options.{name}")));
        }
        let mut unknown = settings("postgres", "localhost");
        unknown.options.insert("no_such".to_owned(), json!(1));
        assert_eq!(field(&unknown).as_deref(), Some("options"));
    }
}
