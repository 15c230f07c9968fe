//! What can be refused without looking at the file.

use mesh_sdk::adapter::{ProviderSettings, Refusal};
use mesh_sdk::{Login, Secret};

use super::proof::{LONGEST, Wish};
use super::values::HtpasswdOptions;

/// The longest name that Apache's own program takes, in bytes.
const LONGEST_LOGIN: usize = 255;
/// The costs that may be asked for.
const COSTS: std::ops::RangeInclusive<u32> = 5..=14;

/// Login, password and values.
pub(super) fn wish(wish: &Wish<'_>) -> Result<(), Refusal> {
    login(wish.login())?;
    if let Some(secret) = wish.password() {
        password(secret)?;
    }
    match wish.values().cost {
        Some(cost) if !COSTS.contains(&cost) => Err(Refusal::new("cost", "must be 5 to 14")),
        _ => Ok(()),
    }
}

/// A provider's own settings.
pub(super) fn provider(settings: &ProviderSettings) -> Result<(), Refusal> {
    if settings.scheme != "htpasswd" {
        return Err(Refusal::new("url", "must begin with htpasswd:"));
    }
    let path = settings.path.as_str();
    if path.is_empty() || path.ends_with('/') || path.contains('\0') {
        let rule = "must name a file: `htpasswd:users.htpasswd`";
        return Err(Refusal::new("url", rule));
    }
    if settings.admin.is_some() {
        let rule = "a file has no admin login: who may write it is the system's business";
        return Err(Refusal::new("admin", rule));
    }
    let options: HtpasswdOptions = settings.typed_options()?;
    match options.bits() {
        Some(_) => Ok(()),
        None => {
            let rule = "must be octal, such as 0640, with its owner able to read and write, and not others";
            Err(Refusal::new("options.mode", rule))
        }
    }
}

/// The login alone.
pub(super) fn login(login: &Login) -> Result<(), Refusal> {
    let refuse = |rule: &str| Err(Refusal::new("login", rule));
    let text = login.as_str();
    if text.contains(':') {
        return refuse("must hold no `:`: it ends the name in the file, and in what browsers send");
    }
    if text.chars().any(char::is_control) {
        return refuse("must hold no line break, NUL or other control character");
    }
    if text.starts_with('#') {
        return refuse("must not begin with `#`: that line is a comment");
    }
    if text.starts_with(' ') {
        return refuse("must not begin with a space: Apache cuts it off");
    }
    if text.len() > LONGEST_LOGIN {
        return refuse("must have at most 255 bytes");
    }
    Ok(())
}

fn password(secret: &Secret) -> Result<(), Refusal> {
    let refuse = |rule: &str| Err(Refusal::new("password", rule));
    match secret.expose_str() {
        None => refuse("must be UTF-8"),
        Some("") => refuse("must not be empty"),
        Some(text) if text.chars().any(char::is_control) => {
            refuse("must hold no line break, NUL or other control character: HTTP carries none")
        }
        Some(text) if text.len() > LONGEST => {
            refuse("must have at most 72 bytes: bcrypt looks at no more")
        }
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    //! What passes and what is refused, by the field that is named.
    use std::sync::Arc;

    use mesh_sdk::adapter::Admin;
    use mesh_sdk::provision::WishParts;
    use mesh_sdk::{ConsumerName, Marker, MeshId, ProviderName, Provision, Wish};
    use serde_json::json;

    use super::super::values::HtpasswdValues;
    use super::*;

    fn refused(login: &str, password: &[u8], cost: Option<u32>) -> Option<String> {
        let key = Secret::from("key");
        let parts = WishParts {
            consumer: ConsumerName::new("web").expect("a name"),
            login: Login::new(login).expect("a login"),
            password: Some(Secret::new(password)),
            values: Arc::new(HtpasswdValues { cost }),
            canonical_values: Vec::new(),
            enabled: true,
            adopt: false,
            exact: false,
            generated: false,
        };
        let made = Wish::new(parts, &key);
        let mesh = MeshId::new("home").expect("a name");
        let provider = ProviderName::new("users").expect("a name");
        let marker = Marker::new(mesh, "i1", provider, key);
        let view = Provision::of(&made, false, &marker).expect("typed");
        wish(&view).err().map(|refusal| refusal.field)
    }

    #[test]
    fn a5_names_that_a_reader_would_misread_are_refused() {
        for good in [
            "web",
            "-n",
            "trail ",
            "a b",
            "ü",
            "a#b",
            "!",
            &"x".repeat(255),
        ] {
            assert_eq!(refused(good, b"pw", None), None, "{good}");
        }
        for bad in ["a:b", "#a", " a", "a\nb", "a\tb", "a\r", &"ü".repeat(128)] {
            assert_eq!(refused(bad, b"pw", None).as_deref(), Some("login"), "{bad}");
        }
    }

    #[test]
    fn o08_passwords_that_bcrypt_would_cut_are_refused_by_bytes() {
        assert_eq!(refused("web", &[b'a'; 72], None), None);
        let wide = format!("{}!", "漢".repeat(24));
        for bad in [
            &[b'a'; 73][..],
            wide.as_bytes(),
            b"",
            b"\0abc",
            b"a\nb",
            b"\t",
            &[0xff, 0xfe],
        ] {
            assert_eq!(refused("web", bad, None).as_deref(), Some("password"));
        }
        assert_eq!(refused("web", b"pw", Some(4)).as_deref(), Some("cost"));
        assert_eq!(refused("web", b"pw", Some(15)).as_deref(), Some("cost"));
        assert_eq!(refused("web", b"pw", Some(12)), None);
    }

    #[test]
    fn a_files_settings_are_checked() {
        let of = |path: &str| {
            let name = ProviderName::new("users").expect("a name");
            ProviderSettings::of_file(name, "htpasswd", path)
        };
        let field = |settings: &ProviderSettings| provider(settings).err().map(|one| one.field);
        assert_eq!(field(&of("users.htpasswd")), None);
        for bad in ["", "folder/"] {
            assert_eq!(field(&of(bad)).as_deref(), Some("url"));
        }
        let mut with_admin = of("users");
        with_admin.admin = Some(Admin {
            user: "a".to_owned(),
            password: None,
        });
        assert_eq!(field(&with_admin).as_deref(), Some("admin"));
        for (mode, refused) in [
            ("0644", None),
            ("600", None),
            ("0666", Some("options.mode")),
            ("rw", Some("options.mode")),
        ] {
            let mut settings = of("users");
            settings.options.insert("mode".to_owned(), json!(mode));
            assert_eq!(field(&settings).as_deref(), refused, "{mode}");
        }
        let mut odd = of("users");
        odd.options.insert("cost".to_owned(), json!(5));
        assert_eq!(field(&odd).as_deref(), Some("options"));
    }
}
