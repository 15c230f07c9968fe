//! What can be refused without asking the server: names, passwords and rights that it could never take.

use mesh_sdk::adapter::{ProviderSettings, Refusal};
use mesh_sdk::{Class, Error, Login, Secret};

use super::compare::Wish;
use super::rights::{is_global, is_of_database};
use super::values::{MariadbValues, Privileges};

/// The longest user name, in characters.
const LONGEST_LOGIN: usize = 128;
/// The longest name of a database, in characters.
const LONGEST_DATABASE: usize = 64;
/// The longest host, in characters.
const LONGEST_HOST: usize = 255;

/// Logins that are never touched, beside the admin's own.
const RESERVED: [&str; 4] = ["root", "mariadb.sys", "mysql", "debian-sys-maint"];

/// Databases of the server itself: rights on them are rights on everything.
const SYSTEM: [&str; 4] = ["mysql", "information_schema", "performance_schema", "sys"];

/// Whether a login is never touched. `PUBLIC` means everybody, in whatever case.
pub(super) fn is_reserved(login: &str, settings: &ProviderSettings) -> bool {
    let admin = settings.admin.as_ref().map(|admin| admin.user.as_str());
    RESERVED.contains(&login)
        || login.starts_with("mysql.")
        || login.eq_ignore_ascii_case("public")
        || Some(login) == admin
}

/// Login, password and values.
pub(super) fn wish(provider: &ProviderSettings, wish: &Wish<'_>) -> Result<(), Refusal> {
    login(wish.login(), provider)?;
    if let Some(secret) = wish.password() {
        password(secret)?;
    }
    values(wish.values())
}

/// Refuses databases that are never deleted: the server's own, and what is no name of a database.
pub(super) fn may_purge(name: &str) -> Result<(), Error> {
    database("database", name).map_err(|refusal| {
        let message = format!("database `{}`: {}", plain(name), refusal.rule);
        Error::new(Class::RefusedValue, message)
    })
}

/// Whether a database is one that values may name.
pub(super) fn is_nameable(name: &str) -> bool {
    database("database", name).is_ok()
}

/// A provider's own settings.
pub(super) fn provider(settings: &ProviderSettings) -> Result<(), Refusal> {
    let encrypted = match settings.scheme.as_str() {
        "mariadb" => false,
        "mariadbs" => true,
        _ => {
            let rule = "must begin with mariadb:// or mariadbs://";
            return Err(Refusal::new("url", rule));
        }
    };
    if settings.host.is_empty() {
        return Err(Refusal::new("url", "must name a host"));
    }
    if !settings.path.is_empty() {
        let rule = "logins belong to the whole server: leave out the database";
        return Err(Refusal::new("url", rule));
    }
    settings.check_plain(encrypted, "mariadbs")?;
    let Some(admin) = &settings.admin else {
        let rule = "is needed: MariaDB has no accounts that could be looked after without one";
        return Err(Refusal::new("admin", rule));
    };
    if let Some(rule) = name_rule(&admin.user, LONGEST_LOGIN) {
        return Err(Refusal::new("admin.user", rule));
    }
    match &admin.password {
        Some(secret) if secret.is_empty() => {
            Err(Refusal::new("admin.password", "must not be empty"))
        }
        Some(secret) if secret.expose_str().is_none_or(|text| text.contains('\0')) => Err(
            Refusal::new("admin.password", "must be UTF-8 without a NUL"),
        ),
        _ => Ok(()),
    }
}

fn login(login: &Login, provider: &ProviderSettings) -> Result<(), Refusal> {
    let refuse = |rule: String| Err(Refusal::new("login", rule));
    let text = login.as_str();
    if is_reserved(text, provider) {
        return refuse("is reserved: the server's own accounts and the admin login".to_owned());
    }
    match name_rule(text, LONGEST_LOGIN) {
        Some(rule) => refuse(rule),
        None => Ok(()),
    }
}

/// What MariaDB's tables of accounts cannot hold: their names are `utf8mb3`, padded with spaces.
fn name_rule(name: &str, longest: usize) -> Option<String> {
    let rule = if name.is_empty() {
        "must not be empty".to_owned()
    } else if name.chars().count() > longest {
        format!("must have at most {longest} characters")
    } else if name.contains('\0') {
        "must not hold a NUL".to_owned()
    } else if name.ends_with(' ') {
        "must not end with a space: MariaDB cuts it off".to_owned()
    } else if name.chars().any(|c| u32::from(c) > 0xffff) {
        "must hold no character above U+FFFF, such as an emoji: MariaDB makes a `?` of it"
            .to_owned()
    } else {
        return None;
    };
    Some(rule)
}

fn password(secret: &Secret) -> Result<(), Refusal> {
    let refuse = |rule: &str| Err(Refusal::new("password", rule));
    match secret.expose_str() {
        None => refuse("must be UTF-8"),
        Some("") => refuse("must not be empty"),
        Some(text) if text.contains('\0') => refuse("must not hold a NUL"),
        Some(_) => Ok(()),
    }
}

fn values(values: &MariadbValues) -> Result<(), Refusal> {
    match (&values.database, &values.privileges) {
        (Some(name), asked) => {
            database("database", name)?;
            privileges("privileges", asked.as_ref())?;
        }
        (None, Some(_)) => {
            let rule =
                "say what may be done in which `database`; for the whole server there is `global`";
            return Err(Refusal::new("privileges", rule));
        }
        (None, None) => {}
    }
    for (index, one) in values.also.iter().enumerate() {
        database(&format!("also[{index}].database"), &one.database)?;
        privileges(&format!("also[{index}].privileges"), Some(&one.privileges))?;
    }
    for name in &values.global {
        if !is_global(name) {
            let rule = format!(
                "`{}` is no privilege that can be given on the whole server",
                plain(name)
            );
            return Err(Refusal::new("global", rule));
        }
    }
    if values.max_connections == Some(0) {
        let rule = "must be at least 1; `enabled = false` switches a login off";
        return Err(Refusal::new("max_connections", rule));
    }
    values.host.as_deref().map_or(Ok(()), host)
}

fn database(field: &str, name: &str) -> Result<(), Refusal> {
    if let Some(rule) = name_rule(name, LONGEST_DATABASE) {
        return Err(Refusal::new(field, rule));
    }
    let is_system = SYSTEM.iter().any(|one| one.eq_ignore_ascii_case(name));
    if is_system {
        let rule = format!("`{}` belongs to the server itself", plain(name));
        return Err(Refusal::new(field, rule));
    }
    if name.to_ascii_lowercase().starts_with("mk1.") {
        let rule = "`mk1.` begins the marks that Meshkeeper leaves on its logins";
        return Err(Refusal::new(field, rule));
    }
    // The pattern that a right is kept under is escaped, and must fit as well.
    if super::sql::pattern(name).chars().count() > LONGEST_DATABASE {
        let rule = "with a backslash before each `_` and `%` it must have at most 64 characters: so is it \
                    kept among the rights";
        return Err(Refusal::new(field, rule));
    }
    Ok(())
}

fn privileges(field: &str, asked: Option<&Privileges>) -> Result<(), Refusal> {
    let Some(Privileges::Each(names)) = asked else {
        return Ok(());
    };
    if names.is_empty() {
        return Err(Refusal::new(field, "a list must name a privilege"));
    }
    match names.iter().find(|name| !is_of_database(name)) {
        None => Ok(()),
        Some(name) => {
            let rule = format!(
                "`{}` is no privilege in a database: write `owner`, `readwrite`, `readonly`, or a list such \
                 as [\"SELECT\", \"EXECUTE\"]",
                plain(name)
            );
            Err(Refusal::new(field, rule))
        }
    }
}

fn host(host: &str) -> Result<(), Refusal> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "%_.:-/".contains(c);
    if host.is_empty() || host.len() > LONGEST_HOST || !host.chars().all(fits) {
        let rule = "must be a host as MariaDB writes it: `%`, `10.0.%`, `localhost`, \
                    `10.0.0.0/255.255.255.0`; at most 255 characters";
        return Err(Refusal::new("host", rule));
    }
    Ok(())
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(40).collect()
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
        let mut settings = ProviderSettings::new(provider, scheme, host, 3306);
        settings.admin = Some(Admin {
            user: "mesh".to_owned(),
            password: Some(Secret::from("secret")),
        });
        settings
    }

    fn refused(login: &str, password: &[u8], values: Value) -> Option<String> {
        let values: MariadbValues = serde_json::from_value(values).expect("values");
        let key = Secret::from("key");
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
        let made = Wish::new(parts, &key);
        let mesh = MeshId::new("home").expect("a name");
        let provider = ProviderName::new("database").expect("a name");
        let marker = Marker::new(mesh, "i1", provider, key);
        let view = Provision::of(&made, false, &marker).expect("typed");
        let checked = wish(&settings("mariadb", "localhost"), &view);
        checked.err().map(|refusal| refusal.field)
    }

    #[test]
    fn o11_logins_that_are_reserved_or_cannot_be_are_refused() {
        let most = "ü".repeat(128);
        for good in [
            "web",
            "-rf",
            "a'b\"c",
            " lead",
            "Root",
            "current_user",
            "pct%s%n",
            &most,
        ] {
            assert_eq!(refused(good, b"pw", json!({})), None, "{good}");
        }
        let over = "x".repeat(129);
        for bad in [
            "root",
            "mariadb.sys",
            "mysql.infoschema",
            "public",
            "Public",
            "mesh",
            "trail ",
            "x\u{1F9FF}y",
            &over,
        ] {
            let field = refused(bad, b"pw", json!({}));
            assert_eq!(field.as_deref(), Some("login"), "{bad}");
        }
    }

    #[test]
    fn o07_passwords_that_cannot_be_used_are_refused() {
        assert_eq!(refused("web", "漢\n' \\".as_bytes(), json!({})), None);
        for bad in [&b""[..], b"a\0b", &[0xff, 0xfe]] {
            assert_eq!(refused("web", bad, json!({})).as_deref(), Some("password"));
        }
    }

    #[test]
    fn a5_values_that_mariadb_would_misread_are_refused_by_field() {
        let good = json!({
            "database": "my_db%", "privileges": "owner", "global": ["process", "SLAVE MONITOR"],
            "also": [{ "database": "x/y", "privileges": ["SELECT", "show view"] }],
            "host": "10.0.0.0/255.255.255.0", "auth": "ed25519", "max_connections": 3,
        });
        assert_eq!(refused("web", b"pw", good), None);
        let long = "_".repeat(40);
        let bad = [
            (json!({ "database": "" }), "database"),
            (json!({ "database": "mysql" }), "database"),
            (json!({ "database": "SYS" }), "database"),
            (json!({ "database": "mk1.x" }), "database"),
            (json!({ "database": "trail " }), "database"),
            (json!({ "database": long }), "database"),
            (json!({ "database": "x\u{1F9FF}" }), "database"),
            (json!({ "privileges": "owner" }), "privileges"),
            (json!({ "database": "d", "privileges": [] }), "privileges"),
            (
                json!({ "database": "d", "privileges": ["ALL"] }),
                "privileges",
            ),
            (
                json!({ "database": "d", "privileges": ["PROCESS"] }),
                "privileges",
            ),
            (
                json!({ "database": "d", "privileges": ["GRANT OPTION"] }),
                "privileges",
            ),
            (json!({ "global": ["ALL PRIVILEGES"] }), "global"),
            (json!({ "global": ["GRANT OPTION"] }), "global"),
            (
                json!({ "also": [{ "database": "", "privileges": "owner" }] }),
                "also[0].database",
            ),
            (
                json!({ "also": [{ "database": "d", "privileges": ["x"] }] }),
                "also[0].privileges",
            ),
            (json!({ "host": "" }), "host"),
            (json!({ "host": "a b" }), "host"),
            (json!({ "host": "a'b" }), "host"),
            (json!({ "max_connections": 0 }), "max_connections"),
        ];
        for (values, field) in bad {
            let told = refused("web", b"pw", values.clone());
            assert_eq!(told.as_deref(), Some(field), "{values}");
        }
    }

    #[test]
    fn s5_a_plain_connection_to_another_machine_needs_its_word() {
        let field = |settings: &ProviderSettings| provider(settings).err().map(|r| r.field);
        for (scheme, host) in [
            ("mariadb", "localhost"),
            ("mariadb", "::1"),
            ("mariadbs", "db.example"),
        ] {
            assert_eq!(field(&settings(scheme, host)), None, "{scheme} {host}");
        }
        let mut plain = settings("mariadb", "db.example");
        let told = provider(&plain).expect_err("refused").to_string();
        assert!(
            told.contains("mariadbs://") && told.contains("dangerously_plain"),
            "{told}"
        );
        plain.tls.dangerously_plain = true;
        assert_eq!(field(&plain), None);
        assert_eq!(
            field(&settings("mysql", "localhost")).as_deref(),
            Some("url")
        );
        assert_eq!(field(&settings("mariadb", "")).as_deref(), Some("url"));
        let mut with_path = settings("mariadb", "localhost");
        with_path.path = "shop".to_owned();
        assert_eq!(field(&with_path).as_deref(), Some("url"));
        let mut without = settings("mariadb", "localhost");
        without.admin = None;
        assert_eq!(field(&without).as_deref(), Some("admin"));
        without.admin = Some(Admin {
            user: String::new(),
            password: None,
        });
        assert_eq!(field(&without).as_deref(), Some("admin.user"));
        without.admin = Some(Admin {
            user: "a".to_owned(),
            password: Some(Secret::from("")),
        });
        assert_eq!(field(&without).as_deref(), Some("admin.password"));
    }
}
