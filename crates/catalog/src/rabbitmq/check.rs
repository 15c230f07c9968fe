//! What can be refused without asking the server: what it could never take, or its clients never send.

use std::collections::BTreeSet;

use mesh_sdk::adapter::{ProviderSettings, Refusal};
use mesh_sdk::{Login, Marker, Secret};

use super::adapter::is_reserved;
use super::compare::Wish;
use super::values::{RabbitOptions, RabbitValues};

/// The longest login and password together. Before a login the broker takes frames of 4,096 bytes (tried
/// on 3.10.8), and a client's own properties are in the same frame.
const LONGEST: usize = 2048;
/// The longest virtual host: AMQP 0-9-1 has a length of one byte for it.
const LONGEST_VHOST: usize = 255;
/// The longest tag: the server answers 500 to a longer one (tried on 3.10.8).
const LONGEST_TAG: usize = 255;
/// The longest pattern that is taken.
const LONGEST_PATTERN: usize = 4096;

/// Login, password and values.
pub(super) fn wish(provider: &ProviderSettings, wish: &Wish<'_>) -> Result<(), Refusal> {
    login(wish.login(), provider)?;
    if let Some(secret) = wish.password() {
        password(secret, wish.login())?;
    }
    if wish.mark().as_str().len() > LONGEST_TAG {
        let rule = "the names of mesh, provider and consumer are too long for a mark of 255 bytes";
        return Err(Refusal::new("consumer", rule));
    }
    values(wish.values())
}

/// A provider's own settings.
pub(super) fn provider(settings: &ProviderSettings) -> Result<(), Refusal> {
    let refuse = |field: &str, rule: &str| Err(Refusal::new(field, rule));
    if !matches!(settings.scheme.as_str(), "http" | "https") {
        return refuse(
            "url",
            "must begin with http:// or https://: it is the management interface",
        );
    }
    if settings.host.is_empty() {
        return refuse("url", "must name a host");
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~/".contains(&b);
    if !settings.path.bytes().all(plain) || settings.path.contains("..") {
        return refuse(
            "url",
            "its path, the server's prefix, must need no encoding",
        );
    }
    settings.check_plain(settings.scheme == "https", "https")?;
    let Some(admin) = &settings.admin else {
        return refuse("admin", "must be there: RabbitMQ shows nothing to nobody");
    };
    // The header that carries both is cut at the first colon.
    if admin.user.is_empty() || admin.user.contains([':', '\0', '\r', '\n']) {
        return refuse(
            "admin.user",
            "must be a name without colon, line break and NUL",
        );
    }
    if admin.password.as_ref().is_none_or(Secret::is_empty) {
        return refuse("admin.password", "must not be empty");
    }
    let options: RabbitOptions = settings.typed_options()?;
    let is_host = |host: &str| !host.is_empty() && !host.contains(['/', '@', ' ', '?', '#']);
    if options
        .amqp_host
        .as_deref()
        .is_some_and(|host| !is_host(host))
    {
        return refuse(
            "options.amqp_host",
            "must be a host's name or address, and nothing else",
        );
    }
    if options.amqp_port == Some(0) {
        return refuse("options.amqp_port", "must not be 0");
    }
    Ok(())
}

fn login(login: &Login, provider: &ProviderSettings) -> Result<(), Refusal> {
    let refuse = |rule: &str| Err(Refusal::new("login", rule));
    let text = login.as_str();
    if is_reserved(text, provider) {
        return refuse("`guest` and the admin login itself are reserved");
    }
    if matches!(text, "." | "..") {
        return refuse("`.` and `..` cannot be named over HTTP");
    }
    if text.len() > LONGEST / 2 {
        return refuse("must have at most 1024 bytes");
    }
    Ok(())
}

fn password(secret: &Secret, login: &Login) -> Result<(), Refusal> {
    let refuse = |rule: &str| Err(Refusal::new("password", rule));
    match secret.expose_str() {
        None => refuse("must be UTF-8"),
        Some("") => refuse("must not be empty: RabbitMQ lets nobody in with an empty one"),
        Some(text) if text.contains('\0') => refuse("must not hold a NUL"),
        Some(text) if text.len() + login.as_str().len() > LONGEST => refuse(
            "must have at most 2048 bytes together with the login: RabbitMQ takes no longer frame at a login",
        ),
        Some(_) => Ok(()),
    }
}

/// What can be said of values without the server.
pub(super) fn values(values: &RabbitValues) -> Result<(), Refusal> {
    let main = [&values.configure, &values.write, &values.read];
    if values.vhost.is_none() && main.iter().any(|pattern| !pattern.is_empty()) {
        let rule = "must be named for `configure`, `write` and `read`; the one that every server has is `/`";
        return Err(Refusal::new("vhost", rule));
    }
    let mut vhosts = BTreeSet::new();
    if let Some(name) = &values.vhost {
        vhost("vhost", name)?;
        vhosts.insert(name);
    }
    for (field, text) in ["configure", "write", "read"].into_iter().zip(main) {
        pattern(field, text)?;
    }
    for (at, access) in values.also.iter().enumerate() {
        let at = format!("also[{at}]");
        vhost(&format!("{at}.vhost"), &access.vhost)?;
        if !vhosts.insert(&access.vhost) {
            let rule = "this virtual host is named already";
            return Err(Refusal::new(&format!("{at}.vhost"), rule));
        }
        for (field, text) in [
            ("configure", &access.configure),
            ("write", &access.write),
            ("read", &access.read),
        ] {
            pattern(&format!("{at}.{field}"), text)?;
        }
    }
    topics(values, &vhosts)?;
    values.tags.iter().try_for_each(|tag| self::tag(tag))
}

fn topics(values: &RabbitValues, vhosts: &BTreeSet<&String>) -> Result<(), Refusal> {
    let mut named = BTreeSet::new();
    for (at, topic) in values.topics.iter().enumerate() {
        let refuse =
            |field: &str, rule: &str| Err(Refusal::new(&format!("topics[{at}].{field}"), rule));
        if topic.exchange.is_empty() || topic.exchange.len() > 255 || topic.exchange.contains('\0')
        {
            return refuse(
                "exchange",
                "must be an exchange's name: 1 to 255 bytes without NUL",
            );
        }
        if matches!(topic.exchange.as_str(), "." | "..") {
            return refuse("exchange", "`.` and `..` cannot be named over HTTP");
        }
        let Some(vhost) = topic.vhost.as_ref().or(values.vhost.as_ref()) else {
            return refuse("vhost", "must be named here or for the whole consumer");
        };
        if !vhosts.contains(vhost) {
            return refuse("vhost", "must be one that the consumer has access to");
        }
        if !named.insert((vhost, &topic.exchange)) {
            return refuse("exchange", "this exchange is named already");
        }
        pattern(&format!("topics[{at}].write"), &topic.write)?;
        pattern(&format!("topics[{at}].read"), &topic.read)?;
    }
    Ok(())
}

fn vhost(field: &str, name: &str) -> Result<(), Refusal> {
    let refuse = |rule: &str| Err(Refusal::new(field, rule));
    match name {
        "" => refuse("must not be empty; the one that every server has is `/`"),
        "." | ".." => refuse("`.` and `..` cannot be named over HTTP"),
        name if name.contains('\0') => refuse("must not hold a NUL"),
        name if name.len() > LONGEST_VHOST => refuse("must have at most 255 bytes"),
        _ => Ok(()),
    }
}

/// Whether it is a regular expression only the server knows.
fn pattern(field: &str, text: &str) -> Result<(), Refusal> {
    if text.contains('\0') || text.len() > LONGEST_PATTERN {
        let rule = "must be a pattern of at most 4096 bytes without NUL";
        return Err(Refusal::new(field, rule));
    }
    Ok(())
}

fn tag(tag: &str) -> Result<(), Refusal> {
    let refuse = |rule: &str| Err(Refusal::new("tags", rule));
    if tag.is_empty() || tag.len() > LONGEST_TAG {
        return refuse("a tag must have 1 to 255 characters");
    }
    if !tag.bytes().all(|b| b.is_ascii_graphic() || b == b' ') || tag.contains(',') {
        return refuse("a tag must be printable ASCII without a comma");
    }
    if tag.trim() != tag {
        return refuse("a tag must not begin or end with a space: RabbitMQ cuts it off");
    }
    if tag.starts_with(Marker::PREFIX) {
        return refuse("`mk1.` begins the mark that Meshkeeper leaves on its logins");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! What passes and what is refused, by the field that is named.
    use std::sync::Arc;

    use mesh_sdk::adapter::Admin;
    use mesh_sdk::provision::WishParts;
    use mesh_sdk::{ConsumerName, MeshId, ProviderName, Provision, Wish};
    use serde_json::{Value, json};

    use super::*;

    fn settings(scheme: &str, host: &str) -> ProviderSettings {
        let provider = ProviderName::new("queue").expect("a name");
        let mut settings = ProviderSettings::new(provider, scheme, host, 15672);
        settings.admin = Some(Admin {
            user: "mesh".to_owned(),
            password: Some(Secret::from("secret")),
        });
        settings
    }

    /// The field that is refused, if one is.
    fn refused(login: &str, password: &[u8], values: Value) -> Option<String> {
        let values: RabbitValues = serde_json::from_value(values).expect("values");
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
        wish(&settings("http", "localhost"), &view)
            .err()
            .map(|refusal| refusal.field)
    }

    #[test]
    fn o11_logins_that_are_reserved_or_cannot_be_are_refused() {
        for good in [
            "web",
            "-rf",
            "a'b\"c",
            "a/b",
            "ünï",
            "Guest",
            " ",
            &"x".repeat(1000),
        ] {
            assert_eq!(refused(good, b"pw", json!({})), None, "{good}");
        }
        for bad in ["guest", "mesh", ".", "..", &"x".repeat(1025)] {
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
        for bad in [&b""[..], b"a\0b", &[0xff, 0xfe], &[b'x'; 2046]] {
            assert_eq!(refused("web", bad, json!({})).as_deref(), Some("password"));
        }
    }

    #[test]
    fn a5_values_are_refused_by_field() {
        let good = json!({
            "vhost": "/", "configure": "", "write": "^web", "read": ".*",
            "also": [{ "vhost": "logs", "write": "^web" }],
            "topics": [{ "exchange": "amq.topic", "write": "^a" },
                       { "exchange": "amq.topic", "vhost": "logs" }],
            "tags": ["management", "team a"], "create_vhost": true,
        });
        assert_eq!(refused("web", b"pw", good), None);
        let bad = [
            (json!({ "write": "^web" }), "vhost"),
            (json!({ "vhost": "" }), "vhost"),
            (json!({ "vhost": "x".repeat(256) }), "vhost"),
            (json!({ "vhost": ".." }), "vhost"),
            (json!({ "vhost": "/", "read": "a\0" }), "read"),
            (
                json!({ "vhost": "/", "also": [{ "vhost": "/" }] }),
                "also[0].vhost",
            ),
            (
                json!({ "also": [{ "vhost": "a", "write": "\0" }] }),
                "also[0].write",
            ),
            (
                json!({ "topics": [{ "exchange": "e" }] }),
                "topics[0].vhost",
            ),
            (
                json!({ "vhost": "/", "topics": [{ "exchange": "" }] }),
                "topics[0].exchange",
            ),
            (
                json!({ "vhost": "/", "topics": [{ "exchange": "e", "vhost": "b" }] }),
                "topics[0].vhost",
            ),
            (
                json!({ "vhost": "/", "topics": [{ "exchange": "e" }, { "exchange": "e" }] }),
                "topics[1].exchange",
            ),
            (json!({ "tags": ["a,b"] }), "tags"),
            (json!({ "tags": [""] }), "tags"),
            (json!({ "tags": [" a"] }), "tags"),
            (json!({ "tags": ["ü"] }), "tags"),
            (json!({ "tags": ["mk1.x"] }), "tags"),
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
            ("http", "localhost"),
            ("http", "::1"),
            ("https", "mq.example"),
        ] {
            assert_eq!(field(&settings(scheme, host)), None, "{scheme} {host}");
        }
        let mut plain = settings("http", "mq.example");
        let told = provider(&plain).expect_err("refused").to_string();
        assert!(
            told.contains("https://") && told.contains("dangerously_plain"),
            "{told}"
        );
        plain.tls.dangerously_plain = true;
        assert_eq!(field(&plain), None);
        assert_eq!(
            field(&settings("amqp", "localhost")).as_deref(),
            Some("url")
        );
        assert_eq!(field(&settings("http", "")).as_deref(), Some("url"));
        let changed = |change: fn(&mut ProviderSettings)| {
            let mut settings = settings("http", "localhost");
            change(&mut settings);
            field(&settings)
        };
        assert_eq!(changed(|s| s.path = "rabbit".into()), None);
        assert_eq!(changed(|s| s.path = "a b".into()).as_deref(), Some("url"));
        assert_eq!(changed(|s| s.admin = None).as_deref(), Some("admin"));
        let option = |name: &str, value: Value| {
            let mut settings = settings("http", "localhost");
            settings.options.insert(name.to_owned(), value);
            field(&settings)
        };
        assert_eq!(option("amqp_scheme", json!("amqps")), None);
        assert_eq!(
            option("amqp_scheme", json!("mqtt")).as_deref(),
            Some("options")
        );
        assert_eq!(
            option("amqp_port", json!(0)).as_deref(),
            Some("options.amqp_port")
        );
        assert_eq!(
            option("amqp_host", json!("a/b")).as_deref(),
            Some("options.amqp_host")
        );
        assert_eq!(option("no_such", json!(1)).as_deref(), Some("options"));
    }
}
