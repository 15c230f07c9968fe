//! Offline checks: what a directory could not take, or would take for another name (A-5, H-19, O-04, O-10).

use mesh_sdk::Provision;
use mesh_sdk::adapter::{ProviderSettings, Refusal};

use super::dn;
use super::values::{LdapOptions, LdapValues};

/// Characters of a login: with its attribute it stays below what the server's index holds.
const LOGIN: usize = 200;
/// Bytes of a password.
const PASSWORD: usize = 65_536;

pub(super) fn wish(
    provider: &ProviderSettings,
    wish: &Provision<'_, LdapValues>,
) -> Result<(), Refusal> {
    login(provider, wish.login().as_str())?;
    for password in wish.passwords() {
        let rule = match password.expose_str() {
            None => "it must be UTF-8",
            Some("") => "it must not be empty: a directory takes that for no login at all",
            Some(text) if text.contains('\0') => "it must not hold a NUL",
            Some(text) if text.len() > PASSWORD => "it must not be longer than 65536 bytes",
            Some(_) => "",
        };
        if !rule.is_empty() {
            return Err(Refusal::new("password", rule));
        }
    }
    groups(provider, &wish.values().groups)
}

fn groups(provider: &ProviderSettings, groups: &[String]) -> Result<(), Refusal> {
    let options: LdapOptions = provider.typed_options()?;
    if !groups.is_empty() && options.groups.is_none() {
        let rule = "the provider's option `groups` must say where groups are";
        return Err(Refusal::new("groups", rule));
    }
    for (at, group) in groups.iter().enumerate() {
        plain("groups", group)?;
        if groups[..at].contains(group) {
            return Err(Refusal::new(
                "groups",
                format!("`{group}` stands there twice"),
            ));
        }
    }
    Ok(())
}

/// The one rule for logins, also asked before a login is touched.
pub(super) fn login(provider: &ProviderSettings, login: &str) -> Result<(), Refusal> {
    plain("login", login)?;
    let own = dn::of("uid", login, &provider.path);
    let admin = provider.admin.as_ref();
    if admin.is_some_and(|admin| dn::same(&admin.user, &own)) {
        return Err(Refusal::new("login", "it is the admin login, and reserved"));
    }
    Ok(())
}

/// A directory compares names without case and folds spaces, soft hyphens, letters of other scripts: only
/// names that are nobody else's whatever it folds.
pub(super) fn plain(field: &str, name: &str) -> Result<(), Refusal> {
    let rule = if name.is_empty() || name.len() > LOGIN {
        "it must have 1 to 200 characters"
    } else if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        "no A-Z: a directory does not tell them from a-z"
    } else if !name.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        "only printable ASCII characters: a directory takes some others for the same"
    } else if name.starts_with(' ') || name.ends_with(' ') || name.contains("  ") {
        "no space at either end and no two beside each other: a directory ignores them"
    } else {
        return Ok(());
    };
    Err(Refusal::new(field, rule))
}

pub(super) fn provider(provider: &ProviderSettings) -> Result<(), Refusal> {
    let named = |text: &str| {
        text.split_once('=')
            .is_some_and(|(name, value)| !name.is_empty() && !value.is_empty())
    };
    if !named(&provider.path) {
        let rule = "it must name the entry that logins lie below: ldaps://host/ou=apps,dc=example";
        return Err(Refusal::new("url", rule));
    }
    provider.check_plain(provider.scheme == "ldaps", "ldaps")?;
    let Some(admin) = &provider.admin else {
        return Err(Refusal::new(
            "admin",
            "a directory needs an admin login, by its whole name",
        ));
    };
    if !named(&admin.user) {
        return Err(Refusal::new(
            "admin",
            "`user` is the whole name of an entry: cn=mesh,dc=example",
        ));
    }
    let options: LdapOptions = provider.typed_options()?;
    if options
        .groups
        .as_deref()
        .is_some_and(|groups| !named(groups))
    {
        let rule = "it must name the entry that groups lie below: ou=groups,dc=example";
        return Err(Refusal::new("options.groups", rule));
    }
    let attribute = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if !attribute(options.member()) {
        return Err(Refusal::new(
            "options.member",
            "it is the name of an attribute",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! What is refused without a server.
    use super::*;

    #[test]
    fn s5_a_plain_connection_to_another_machine_is_refused_unless_allowed() {
        let of = |scheme: &str, host: &str| {
            let name = mesh_sdk::ProviderName::new("directory").expect("a name");
            let mut settings = ProviderSettings::new(name, scheme, host, 389);
            settings.path = "ou=apps,dc=example".to_owned();
            settings.admin = Some(mesh_sdk::adapter::Admin {
                user: "cn=mesh,dc=example".to_owned(),
                password: Some(mesh_sdk::Secret::from("password")),
            });
            settings
        };
        assert_eq!(provider(&of("ldap", "127.0.0.1")), Ok(()));
        assert_eq!(provider(&of("ldaps", "ldap.example")), Ok(()));
        let mut far = of("ldap", "ldap.example");
        let told = provider(&far).expect_err("plain").to_string();
        assert!(told.contains("ldaps://"), "{told}");
        far.tls.dangerously_plain = true;
        assert_eq!(provider(&far), Ok(()));
    }

    #[test]
    fn o10_names_that_a_directory_takes_for_another_are_refused() {
        for name in [
            "App",
            "sp ",
            " sp",
            "a  b",
            "ünï",
            "no\u{a0}break",
            "",
            "a\tb",
            "\u{1F9FF}",
        ] {
            assert!(plain("login", name).is_err(), "{name:?}");
        }
        for name in [
            "app",
            "jack+jill",
            "a,ou=other",
            "#hash",
            "star*",
            "a b",
            "-rf",
            "\\",
        ] {
            assert!(plain("login", name).is_ok(), "{name:?}");
        }
        assert!(plain("login", &"x".repeat(201)).is_err());
    }
}
