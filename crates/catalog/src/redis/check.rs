//! What can be refused without asking the server: names, passwords and rules that it could never take.

use mesh_sdk::adapter::{ProviderSettings, Refusal};
use mesh_sdk::{Login, Marker, Secret};

use super::adapter::is_reserved;
use super::compare::Wish;
use super::values::RedisValues;

/// The longest password. Before a login, Redis takes no longer argument (tried on 7.0.15 and 9.1.2), so
/// a longer one could be set and never used.
const LONGEST_PASSWORD: usize = 16 * 1024;
/// The longest login that is taken; the server itself has no limit of its own (70,000 bytes were taken).
const LONGEST_LOGIN: usize = 16 * 1024;

/// The schemes, and whether each is encrypted.
const SCHEMES: [(&str, bool); 4] = [
    ("redis", false),
    ("rediss", true),
    ("valkey", false),
    ("valkeys", true),
];

/// Login, password and values.
pub(super) fn wish(provider: &ProviderSettings, wish: &Wish<'_>) -> Result<(), Refusal> {
    login(wish.login(), provider)?;
    for secret in wish.passwords() {
        password(secret)?;
    }
    values(wish.values())
}

/// A provider's own settings.
pub(super) fn provider(settings: &ProviderSettings) -> Result<(), Refusal> {
    let scheme = SCHEMES.iter().find(|(name, _)| *name == settings.scheme);
    let Some((name, encrypted)) = scheme else {
        let rule = "must begin with redis://, rediss://, valkey:// or valkeys://";
        return Err(Refusal::new("url", rule));
    };
    if settings.host.is_empty() {
        return Err(Refusal::new("url", "must name a host"));
    }
    if !matches!(settings.path.as_str(), "" | "0") {
        let rule = "logins belong to the whole server: leave out the database number";
        return Err(Refusal::new("url", rule));
    }
    settings.check_plain(*encrypted, &format!("{name}s"))?;
    match &settings.admin {
        Some(admin) if admin.user.is_empty() || has_gap(&admin.user) => Err(Refusal::new(
            "admin.user",
            "must be a name without spaces, line breaks and NUL",
        )),
        Some(admin) if admin.password.as_ref().is_some_and(Secret::is_empty) => {
            Err(Refusal::new("admin.password", "must not be empty"))
        }
        _ => Ok(()),
    }
}

fn login(login: &Login, provider: &ProviderSettings) -> Result<(), Refusal> {
    let refuse = |rule: &str| Err(Refusal::new("login", rule));
    let text = login.as_str();
    if is_reserved(text, provider) {
        return refuse("the default user and the admin login itself are reserved");
    }
    if has_gap(text) {
        return refuse(
            "must hold no space, tab, line break or NUL: Redis takes none in a user's name",
        );
    }
    if text.len() > LONGEST_LOGIN {
        return refuse("must have at most 16384 bytes");
    }
    Ok(())
}

fn password(secret: &Secret) -> Result<(), Refusal> {
    let refuse = |rule: &str| Err(Refusal::new("password", rule));
    match secret.expose_str() {
        None => refuse("must be UTF-8"),
        Some("") => refuse("must not be empty"),
        Some(text) if text.contains('\0') => refuse("must not hold a NUL"),
        Some(text) if text.len() > LONGEST_PASSWORD => {
            refuse("must have at most 16384 bytes: Redis takes no longer one at a login")
        }
        Some(_) => Ok(()),
    }
}

/// What can be said of values without the server.
pub(super) fn values(values: &RedisValues) -> Result<(), Refusal> {
    lists(
        "",
        [&values.keys, &values.read_keys, &values.write_keys],
        &values.channels,
    )?;
    rules("commands", &values.commands)?;
    for (index, selector) in values.selectors.iter().enumerate() {
        let at = format!("selectors[{index}].");
        let keys = [&selector.keys, &selector.read_keys, &selector.write_keys];
        lists(&at, keys, &selector.channels)?;
        let all = keys.into_iter().chain([&selector.channels]).flatten();
        if all.clone().any(|pattern| pattern.ends_with(')')) {
            let rule = "no pattern may end with `)`: it would end the selector";
            return Err(Refusal::new(&format!("selectors[{index}]"), rule));
        }
        let field = format!("{at}commands");
        if selector.commands.is_empty() {
            return Err(Refusal::new(
                &field,
                "a selector without commands grants nothing",
            ));
        }
        rules(&field, &selector.commands)?;
    }
    Ok(())
}

fn lists(at: &str, keys: [&Vec<String>; 3], channels: &Vec<String>) -> Result<(), Refusal> {
    let fields = ["keys", "read_keys", "write_keys"].into_iter().zip(keys);
    for (field, patterns) in fields.chain([("channels", channels)]) {
        for pattern in patterns {
            let refuse = |rule: &str| Err(Refusal::new(&format!("{at}{field}"), rule));
            if pattern.is_empty() {
                return refuse("a pattern must not be empty");
            }
            if has_gap(pattern) {
                return refuse("a pattern must hold no space, tab, line break or NUL");
            }
            if pattern.starts_with(Marker::PREFIX) {
                return refuse("`mk1.` begins the mark that Meshkeeper leaves on its logins");
            }
        }
    }
    Ok(())
}

fn rules(field: &str, rules: &[String]) -> Result<(), Refusal> {
    for rule in rules {
        let plain = matches!(rule.as_str(), "allcommands" | "nocommands");
        let name = rule.strip_prefix(['+', '-']);
        let name = name.map(|name| name.strip_prefix('@').unwrap_or(name));
        let is_name = |name: &str| {
            let has_end = name.starts_with('|') || name.ends_with('|');
            !name.is_empty() && !has_end && !has_gap(name) && !name.contains(['(', ')'])
        };
        if !plain && !name.is_some_and(is_name) {
            let told: String = rule.chars().filter(|c| !c.is_control()).take(40).collect();
            let rule = format!(
                "`{told}` is no rule: write `+get`, `-flushall`, `+@read` or `allcommands`"
            );
            return Err(Refusal::new(field, rule));
        }
    }
    Ok(())
}

/// What Redis takes for a space, and NUL.
fn has_gap(text: &str) -> bool {
    text.bytes()
        .any(|b| b == 0 || b == 0x0b || b.is_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    //! What passes and what is refused, by the field that is named.
    use std::sync::Arc;

    use mesh_sdk::adapter::Admin;
    use mesh_sdk::provision::WishParts;
    use mesh_sdk::{ConsumerName, MeshId, ProviderName, Provision, Wish};
    use serde_json::json;

    use super::super::values::RedisValues;
    use super::*;

    fn settings(scheme: &str, host: &str) -> ProviderSettings {
        let provider = ProviderName::new("cache").expect("a name");
        let mut settings = ProviderSettings::new(provider, scheme, host, 6379);
        settings.admin = Some(Admin {
            user: "mesh".to_owned(),
            password: Some(Secret::from("secret")),
        });
        settings
    }

    /// The field that is refused, if one is.
    fn refused(login: &str, password: &[u8], values: serde_json::Value) -> Option<String> {
        let values: RedisValues = serde_json::from_value(values).expect("values");
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
        let (mesh, name) = (
            MeshId::new("m").expect("m"),
            ProviderName::new("p").expect("p"),
        );
        let marker = Marker::new(mesh, "i", name, Secret::from("key"));
        let view = Provision::of(&made, false, &marker).expect("typed");
        let checked = wish(&settings("redis", "localhost"), &view);
        checked.err().map(|refusal| refusal.field)
    }

    #[test]
    fn h19_logins_that_are_reserved_or_cannot_be_are_refused() {
        for good in [
            "web",
            "-rf",
            "a'b\"c",
            "(x",
            "ünï",
            "Default",
            &"x".repeat(1000),
        ] {
            assert_eq!(refused(good, b"pw", json!({})), None, "{good}");
        }
        for bad in [
            "default",
            "mesh",
            "a b",
            " a",
            "a\n",
            "a\tb",
            "a\u{b}b",
            &"x".repeat(20_000),
        ] {
            assert_eq!(
                refused(bad, b"pw", json!({})).as_deref(),
                Some("login"),
                "{bad}"
            );
        }
    }

    #[test]
    fn o07_passwords_that_cannot_be_used_are_refused() {
        assert_eq!(refused("web", "漢\n' \\".as_bytes(), json!({})), None);
        for bad in [&b""[..], b"a\0b", &[0xff, 0xfe], &[b'x'; 16 * 1024 + 1]] {
            assert_eq!(refused("web", bad, json!({})).as_deref(), Some("password"));
        }
    }

    #[test]
    fn a5_values_that_redis_would_misread_are_refused_by_field() {
        let good = json!({
            "keys": ["web:*", "a(b)", "*"], "read_keys": ["r:*"], "write_keys": ["w:*"], "channels": ["n:?"],
            "commands": ["+@read", "-flushall", "+config|get", "+select|0", "allcommands", "nocommands", "+GET"],
            "selectors": [{ "keys": ["s:*"], "commands": ["+get"] }],
        });
        assert_eq!(refused("web", b"pw", good), None);
        let bad = [
            (json!({ "keys": ["a b"] }), "keys"),
            (json!({ "keys": [""] }), "keys"),
            (json!({ "keys": ["mk1.home.x"] }), "keys"),
            (json!({ "read_keys": ["a\0b"] }), "read_keys"),
            (json!({ "write_keys": ["\n"] }), "write_keys"),
            (json!({ "channels": ["a\tb"] }), "channels"),
            (json!({ "commands": ["get"] }), "commands"),
            (json!({ "commands": ["+"] }), "commands"),
            (json!({ "commands": ["+@"] }), "commands"),
            (json!({ "commands": ["~*"] }), "commands"),
            (json!({ "commands": [">pw"] }), "commands"),
            (json!({ "commands": ["nopass"] }), "commands"),
            (json!({ "commands": ["+get +set"] }), "commands"),
            (json!({ "commands": ["+get|"] }), "commands"),
            (json!({ "commands": ["+get)"] }), "commands"),
            (
                json!({ "selectors": [{ "keys": ["a"] }] }),
                "selectors[0].commands",
            ),
            (
                json!({ "selectors": [{ "keys": ["a)"], "commands": ["+get"] }] }),
                "selectors[0]",
            ),
            (
                json!({ "selectors": [{ "channels": [""], "commands": ["+get"] }] }),
                "selectors[0].channels",
            ),
        ];
        for (values, field) in bad {
            assert_eq!(
                refused("web", b"pw", values.clone()).as_deref(),
                Some(field),
                "{values}"
            );
        }
    }

    #[test]
    fn s5_a_plain_connection_to_another_machine_needs_its_word() {
        let field = |settings: &ProviderSettings| provider(settings).err().map(|r| r.field);
        for (scheme, host) in [
            ("redis", "localhost"),
            ("valkey", "127.0.0.1"),
            ("redis", "::1"),
            ("rediss", "cache.example"),
        ] {
            assert_eq!(field(&settings(scheme, host)), None, "{scheme} {host}");
        }
        let mut plain = settings("redis", "cache.example");
        let told = provider(&plain).expect_err("refused").to_string();
        assert!(
            told.contains("rediss://") && told.contains("dangerously_plain"),
            "{told}"
        );
        plain.tls.dangerously_plain = true;
        assert_eq!(field(&plain), None);
        assert_eq!(
            field(&settings("http", "localhost")).as_deref(),
            Some("url")
        );
        assert_eq!(field(&settings("redis", "")).as_deref(), Some("url"));
        let mut numbered = settings("redis", "localhost");
        numbered.path = "3".to_owned();
        assert_eq!(field(&numbered).as_deref(), Some("url"));
        let mut empty = settings("redis", "localhost");
        empty.admin = Some(Admin {
            user: "a b".to_owned(),
            password: None,
        });
        assert_eq!(field(&empty).as_deref(), Some("admin.user"));
        empty.admin = Some(Admin {
            user: "a".to_owned(),
            password: Some(Secret::from("")),
        });
        assert_eq!(field(&empty).as_deref(), Some("admin.password"));
    }
}
