//! What can be refused without looking at the file.

use mesh_sdk::Login;
use mesh_sdk::adapter::{ProviderSettings, Refusal};

use super::Htpasswd;
use super::values::HtpasswdOptions;
use crate::password_file::{Wish, cost, is_file, mode_of, password};

/// The longest name that Apache's own program takes, in bytes.
const LONGEST_LOGIN: usize = 255;

/// Login, password and values.
pub(super) fn wish(wish: &Wish<'_, Htpasswd>) -> Result<(), Refusal> {
    login(wish.login())?;
    if let Some(secret) = wish.password() {
        password(secret, "HTTP carries none")?;
    }
    cost(wish.values().cost)
}

/// A provider's own settings.
pub(super) fn provider(settings: &ProviderSettings) -> Result<(), Refusal> {
    is_file(settings, "htpasswd")?;
    let options: HtpasswdOptions = settings.typed_options()?;
    mode_of(options.mode.as_deref()).map(|_| ())
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

#[cfg(test)]
mod tests {
    //! What passes and what is refused, by the field that is named.
    use mesh_sdk::adapter::Admin;
    use serde_json::json;

    use super::super::values::HtpasswdValues;
    use super::*;
    use crate::password_file::testing;

    fn refused(login: &str, password: &[u8], cost: Option<u32>) -> Option<String> {
        testing::refused(&Htpasswd, login, password, HtpasswdValues { cost })
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
        let of = |path: &str| testing::settings("htpasswd", path);
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
