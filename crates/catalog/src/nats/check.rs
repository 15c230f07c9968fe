//! What can be refused without asking the server: names, passwords and subjects that it could never take.

use mesh_sdk::adapter::{ProviderSettings, Refusal};
use mesh_sdk::{Login, Secret};

use super::compare::Wish;
use super::hash;
use super::values::{NatsOptions, NatsValues};
use super::wire::is_encrypted;

/// A login travels as JSON on a line of at most 4096 bytes, with all else that a client says.
const LONGEST_LOGIN: usize = 2048;
const LONGEST_SUBJECT: usize = 1024;

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
    if !matches!(settings.scheme.as_str(), "nats" | "tls") {
        return refuse("url", "must begin with nats:// or tls://");
    }
    if settings.host.is_empty() {
        return refuse("url", "must name a host");
    }
    if !settings.path.is_empty() {
        return refuse("url", "must end behind the port");
    }
    settings.check_plain(is_encrypted(settings), "tls")?;
    let admin = settings.admin.as_ref();
    if admin.is_none_or(|admin| admin.user.is_empty()) {
        return refuse(
            "admin.user",
            "must name a user of the server's system account",
        );
    }
    let password = admin.and_then(|admin| admin.password.as_ref());
    if password.is_none_or(|p| p.expose_str().is_none_or(str::is_empty)) {
        return refuse("admin.password", "must be there, and be UTF-8");
    }
    let options: NatsOptions = settings.typed_options()?;
    if !options.users_file.starts_with('/') || options.users_file.contains('\0') {
        let rule = "must be an absolute path on this machine";
        return refuse("options.users_file", rule);
    }
    if !(4..=14).contains(&options.bcrypt_cost) {
        return refuse("options.bcrypt_cost", "must be 4 to 14");
    }
    Ok(())
}

/// The name that the admin logs in with.
pub(super) fn is_reserved(login: &str, settings: &ProviderSettings) -> bool {
    let admin = settings.admin.as_ref();
    admin.is_some_and(|admin| admin.user == login)
}

/// The login alone.
pub(super) fn login(login: &Login, provider: &ProviderSettings) -> Result<(), Refusal> {
    if is_reserved(login.as_str(), provider) {
        return Err(Refusal::new("login", "the admin login itself is reserved"));
    }
    let json = serde_json::Value::from(login.as_str()).to_string();
    if json.len() > LONGEST_LOGIN {
        let rule = "must have at most 2048 bytes as JSON: a NATS client sends it on one short line";
        return Err(Refusal::new("login", rule));
    }
    Ok(())
}

fn password(secret: &Secret) -> Result<(), Refusal> {
    let refuse = |rule: &str| Err(Refusal::new("password", rule));
    match secret.expose_str() {
        None => refuse("must be UTF-8"),
        Some("") => refuse("must not be empty"),
        Some(text) if text.contains('\0') => refuse("must not hold a NUL"),
        Some(text) if text.len() > hash::LONGEST => {
            refuse("must have at most 72 bytes: bcrypt, which NATS stores, uses no more")
        }
        Some(_) => Ok(()),
    }
}

/// Subjects alone.
pub(super) fn values(values: &NatsValues) -> Result<(), Refusal> {
    let lists = [
        ("publish", &values.publish, false),
        ("publish_deny", &values.publish_deny, false),
        ("subscribe", &values.subscribe, true),
        ("subscribe_deny", &values.subscribe_deny, true),
    ];
    for (field, list, queues) in lists {
        for text in list {
            let (subject, queue) = match text.split_once(' ') {
                Some((subject, queue)) if queues => (subject, Some(queue)),
                _ => (text.as_str(), None),
            };
            if !is_subject(subject) || !queue.is_none_or(is_subject) {
                let told: String = text.chars().filter(|c| !c.is_control()).take(40).collect();
                let rule = format!("`{told}` is no subject: write `orders.>` or `orders.*.new`");
                return Err(Refusal::new(field, rule));
            }
        }
    }
    let denies = [
        ("publish_deny", &values.publish_deny, &values.publish),
        ("subscribe_deny", &values.subscribe_deny, &values.subscribe),
    ];
    for (field, deny, allow) in denies {
        if !deny.is_empty() && allow.is_empty() {
            let rule = "there is nothing that it could take away: what is not named is not granted";
            return Err(Refusal::new(field, rule));
        }
    }
    Ok(())
}

/// Tokens between dots; a star is a token, and so is `>` at the end.
fn is_subject(subject: &str) -> bool {
    let tokens: Vec<&str> = subject.split('.').collect();
    let last = tokens.len() - 1;
    let token = |(at, token): (usize, &&str)| {
        let odd = |c: char| c.is_whitespace() || c.is_control();
        !token.is_empty() && !token.contains(odd) && (*token != ">" || at == last)
    };
    subject.len() <= LONGEST_SUBJECT && tokens.iter().enumerate().all(token)
}

#[cfg(test)]
mod tests {
    //! What passes and what is refused, by the field that is named.
    use mesh_sdk::ProviderName;
    use mesh_sdk::adapter::Admin;
    use serde_json::json;

    use super::*;

    fn settings(scheme: &str, host: &str) -> ProviderSettings {
        let name = ProviderName::new("bus").expect("a name");
        let mut settings = ProviderSettings::new(name, scheme, host, 4222);
        settings.admin = Some(Admin {
            user: "sys".to_owned(),
            password: Some(Secret::from("secret")),
        });
        let options = json!({ "users_file": "/etc/nats/users.conf" });
        settings.options = options.as_object().cloned().expect("a map");
        settings
    }

    fn field(settings: &ProviderSettings) -> Option<String> {
        provider(settings).err().map(|refusal| refusal.field)
    }

    #[test]
    fn a5_values_that_nats_would_misread_are_refused_by_field() {
        let refused = |given: serde_json::Value| {
            let given: NatsValues = serde_json::from_value(given).expect("values");
            values(&given).err().map(|refusal| refusal.field)
        };
        let good = json!({
            "publish": ["a", "a.*.b", "a.>", ">", "$JS.API.>", "ü.x"], "publish_deny": ["a.x"],
            "subscribe": ["_INBOX.>", "orders.> workers"],
        });
        assert_eq!(refused(good), None);
        for bad in [
            "",
            ".",
            "a.",
            "a..b",
            ">.a",
            "a b",
            "a\n",
            "a\tb",
            &"x".repeat(2000),
        ] {
            assert_eq!(
                refused(json!({ "publish": [bad] })).as_deref(),
                Some("publish"),
                "{bad}"
            );
        }
        for bad in ["a ", " a", "a b c", "a  b"] {
            let given = json!({ "subscribe": [bad] });
            assert_eq!(refused(given).as_deref(), Some("subscribe"), "{bad}");
        }
        let alone = json!({ "publish_deny": ["a"] });
        assert_eq!(refused(alone).as_deref(), Some("publish_deny"));
    }

    #[test]
    fn h19_o08_logins_and_passwords_that_cannot_be_are_refused() {
        let at = settings("nats", "localhost");
        let named = |text: &str| login(&Login::new(text).expect("a login"), &at).is_ok();
        for good in ["web", "-rf", "a b", "a\n", "ünï", "Sys", &"x".repeat(2000)] {
            assert!(named(good), "{good}");
        }
        for bad in ["sys", &"x".repeat(2047), &"\u{1}".repeat(400)] {
            assert!(!named(bad), "{bad}");
        }
        let taken = |bytes: &[u8]| password(&Secret::new(bytes)).is_ok();
        assert!(taken("漢".repeat(24).as_bytes()) && taken(b"a\nb") && taken(&[b'x'; 72]));
        for bad in [
            &b""[..],
            b"a\0b",
            &[0xff, 0xfe],
            &[b'x'; 73],
            "漢".repeat(25).as_bytes(),
        ] {
            assert!(!taken(bad));
        }
    }

    #[test]
    fn s5_a_providers_settings_are_checked() {
        for (scheme, host) in [
            ("nats", "localhost"),
            ("nats", "::1"),
            ("tls", "bus.example"),
        ] {
            assert_eq!(field(&settings(scheme, host)), None, "{scheme} {host}");
        }
        let mut plain = settings("nats", "bus.example");
        let told = provider(&plain).expect_err("refused").to_string();
        assert!(
            told.contains("tls://") && told.contains("dangerously_plain"),
            "{told}"
        );
        plain.tls.dangerously_plain = true;
        assert_eq!(field(&plain), None);
        assert_eq!(
            field(&settings("http", "localhost")).as_deref(),
            Some("url")
        );
        let good = settings("nats", "localhost");
        let mut deep = good.clone();
        deep.path = "x".to_owned();
        assert_eq!(field(&deep).as_deref(), Some("url"));
        let mut nobody = good.clone();
        nobody.admin = None;
        assert_eq!(field(&nobody).as_deref(), Some("admin.user"));
        let mut open = good.clone();
        open.admin = Some(Admin {
            user: "sys".to_owned(),
            password: None,
        });
        assert_eq!(field(&open).as_deref(), Some("admin.password"));
        for (options, wanted) in [
            (json!({}), "options"),
            (json!({ "users_file": "users.conf" }), "options.users_file"),
            (
                json!({ "users_file": "/x", "bcrypt_cost": 3 }),
                "options.bcrypt_cost",
            ),
            (json!({ "users_file": "/x", "more": 1 }), "options"),
        ] {
            let mut other = good.clone();
            other.options = options.as_object().cloned().expect("a map");
            assert_eq!(field(&other).as_deref(), Some(wanted), "{options}");
        }
    }
}
