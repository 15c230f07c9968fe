//! What can be refused without asking the broker: names, passwords and topics that it could never take.

use mesh_sdk::adapter::{ProviderSettings, Refusal};
use mesh_sdk::{Login, Secret};

use super::compare::{ROLE_PREFIX, Wish};
use super::values::MosquittoValues;
use super::wire::is_encrypted;

/// MQTT carries texts of up to 65535 bytes; a role's name is the login's and a little more.
const LONGEST_LOGIN: usize = 32_000;
const LONGEST_PASSWORD: usize = 65_535;
const LONGEST_TOPIC: usize = 4_096;

/// Login, password and values.
pub(super) fn wish(provider: &ProviderSettings, wish: &Wish<'_>) -> Result<(), Refusal> {
    login(wish.login(), provider)?;
    if let Some(secret) = wish.password() {
        password(secret)?;
    }
    values(wish.values())
}

/// A provider's own settings.
pub(super) fn provider(settings: &ProviderSettings) -> Result<(), Refusal> {
    let refuse = |field: &str, rule: &str| Err(Refusal::new(field, rule));
    if !matches!(settings.scheme.as_str(), "mqtt" | "mqtts") {
        return refuse("url", "must begin with mqtt:// or mqtts://");
    }
    if settings.host.is_empty() {
        return refuse("url", "must name a host");
    }
    if !settings.path.is_empty() {
        return refuse("url", "must end behind the port");
    }
    settings.check_plain(is_encrypted(settings), "mqtts")?;
    let admin = settings.admin.as_ref();
    if admin.is_none_or(|admin| !is_text(&admin.user)) {
        let rule = "must name a client of the dynamic security plugin, without control characters";
        return refuse("admin.user", rule);
    }
    let password = admin.and_then(|admin| admin.password.as_ref());
    match password {
        Some(password) if !password.is_empty() && password.len() <= LONGEST_PASSWORD => Ok(()),
        _ => refuse("admin.password", "must be there, with at most 65535 bytes"),
    }
}

/// The name that the admin logs in with.
pub(super) fn is_reserved(login: &str, settings: &ProviderSettings) -> bool {
    let admin = settings.admin.as_ref();
    admin.is_some_and(|admin| admin.user == login)
}

/// The login alone.
pub(super) fn login(login: &Login, provider: &ProviderSettings) -> Result<(), Refusal> {
    let refuse = |rule: &str| Err(Refusal::new("login", rule));
    let text = login.as_str();
    if is_reserved(text, provider) {
        return refuse("the admin login itself is reserved");
    }
    if !is_text(text) {
        return refuse("must hold no line break, tab or other control character: MQTT takes none");
    }
    if text.len() > LONGEST_LOGIN {
        return refuse("must have at most 32000 bytes");
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
            refuse("must have at most 65535 bytes: MQTT carries no more")
        }
        Some(_) => Ok(()),
    }
}

fn values(values: &MosquittoValues) -> Result<(), Refusal> {
    for (field, topics) in [
        ("publish", &values.publish),
        ("subscribe", &values.subscribe),
    ] {
        for one in topics {
            topic(one).map_err(|rule| Refusal::new(field, rule))?;
        }
    }
    for one in &values.roles {
        role(one).map_err(|rule| Refusal::new("roles", rule))?;
    }
    Ok(())
}

/// What is wrong with a topic.
pub(super) fn topic(topic: &str) -> Result<(), String> {
    if !is_filter(topic) {
        let told: String = topic.chars().filter(|c| !c.is_control()).take(40).collect();
        return Err(format!(
            "`{told}` is no topic: write `house/+/state` or `house/#`"
        ));
    }
    if topic.starts_with("$CONTROL") {
        return Err("`$CONTROL` would make it an admin of the broker".to_owned());
    }
    if topic.starts_with("$share/") {
        return Err("name the topic without `$share/GROUP/`: groups need no right".to_owned());
    }
    Ok(())
}

/// What is wrong with the name of a role.
pub(super) fn role(role: &str) -> Result<(), &'static str> {
    if !is_text(role) || role.len() > LONGEST_LOGIN {
        return Err("must be names without control characters");
    }
    if role.starts_with(ROLE_PREFIX) {
        return Err("`meshkeeper/` begins the roles that Meshkeeper makes for its logins");
    }
    Ok(())
}

/// What MQTT takes as a text: not empty, no control characters, no code points that are no characters.
fn is_text(text: &str) -> bool {
    let is_odd = |c: char| {
        let code = u32::from(c);
        c.is_control() || (0xfdd0..=0xfdef).contains(&code) || code & 0xfffe == 0xfffe
    };
    !text.is_empty() && !text.contains(is_odd)
}

/// Levels between slashes; `+` is a level of its own, and `#` the last one.
fn is_filter(topic: &str) -> bool {
    let levels: Vec<&str> = topic.split('/').collect();
    let last = levels.len() - 1;
    let level = |(at, level): (usize, &&str)| match *level {
        "+" => true,
        "#" => at == last,
        other => !other.contains(['+', '#']),
    };
    is_text(topic) && topic.len() <= LONGEST_TOPIC && levels.iter().enumerate().all(level)
}

#[cfg(test)]
mod tests {
    //! What passes and what is refused, by the field that is named.
    use mesh_sdk::ProviderName;
    use mesh_sdk::adapter::Admin;
    use serde_json::json;

    use super::*;

    fn settings(scheme: &str, host: &str) -> ProviderSettings {
        let name = ProviderName::new("things").expect("a name");
        let mut settings = ProviderSettings::new(name, scheme, host, 1883);
        settings.admin = Some(Admin {
            user: "admin".to_owned(),
            password: Some(Secret::from("secret")),
        });
        settings
    }

    #[test]
    fn a5_values_that_mqtt_would_misread_are_refused_by_field() {
        let refused = |given: serde_json::Value| {
            let given: MosquittoValues = serde_json::from_value(given).expect("values");
            values(&given).err().map(|refusal| refusal.field)
        };
        let good = json!({
            "publish": ["a", "a/+/b", "a/#", "#", "+", "/", "ü/x y"],
            "subscribe": ["$SYS/broker/uptime"], "roles": ["readers"],
        });
        assert_eq!(refused(good), None);
        for bad in [
            "",
            "a/#/b",
            "a#",
            "a+/b",
            "a\n",
            "a\u{7f}",
            "$CONTROL/#",
            "$share/g/a",
        ] {
            assert_eq!(
                refused(json!({ "publish": [bad] })).as_deref(),
                Some("publish"),
                "{bad}"
            );
            assert_eq!(
                refused(json!({ "subscribe": [bad] })).as_deref(),
                Some("subscribe")
            );
        }
        for bad in ["", "a\tb", "meshkeeper/web"] {
            assert_eq!(
                refused(json!({ "roles": [bad] })).as_deref(),
                Some("roles"),
                "{bad}"
            );
        }
    }

    #[test]
    fn h19_logins_and_passwords_that_cannot_be_are_refused() {
        let at = settings("mqtt", "localhost");
        let named = |text: &str| login(&Login::new(text).expect("a login"), &at).is_ok();
        for good in [
            "web",
            "-rf",
            "a b",
            "ünï",
            "Admin",
            "\u{1F9FF}",
            &"x".repeat(1000),
        ] {
            assert!(named(good), "{good}");
        }
        for bad in [
            "admin",
            "a\n",
            "\t",
            "a\u{85}",
            "\u{fffe}",
            "\u{fdd0}",
            &"x".repeat(33_000),
        ] {
            assert!(!named(bad), "{bad:?}");
        }
        let taken = |bytes: &[u8]| password(&Secret::new(bytes)).is_ok();
        assert!(taken("漢\n".as_bytes()) && taken(&[b'x'; 65_535]));
        for bad in [&b""[..], b"a\0b", &[0xff, 0xfe], &[b'x'; 65_536]] {
            assert!(!taken(bad));
        }
    }

    #[test]
    fn s5_a_providers_settings_are_checked() {
        let field = |settings: &ProviderSettings| provider(settings).err().map(|r| r.field);
        for (scheme, host) in [
            ("mqtt", "localhost"),
            ("mqtt", "::1"),
            ("mqtts", "m.example"),
        ] {
            assert_eq!(field(&settings(scheme, host)), None, "{scheme} {host}");
        }
        let mut plain = settings("mqtt", "m.example");
        let told = provider(&plain).expect_err("refused").to_string();
        assert!(
            told.contains("mqtts://") && told.contains("dangerously_plain"),
            "{told}"
        );
        plain.tls.dangerously_plain = true;
        assert_eq!(field(&plain), None);
        assert_eq!(field(&settings("tcp", "localhost")).as_deref(), Some("url"));
        let mut other = settings("mqtt", "localhost");
        other.path = "x".to_owned();
        assert_eq!(field(&other).as_deref(), Some("url"));
        let mut nobody = settings("mqtt", "localhost");
        nobody.admin = None;
        assert_eq!(field(&nobody).as_deref(), Some("admin.user"));
        let mut open = settings("mqtt", "localhost");
        open.admin = Some(Admin {
            user: "admin".to_owned(),
            password: None,
        });
        assert_eq!(field(&open).as_deref(), Some("admin.password"));
    }
}
