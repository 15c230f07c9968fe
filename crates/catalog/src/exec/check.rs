//! Offline checks: what no program is ever handed (A-5, H-19).

use std::path::Path;

use mesh_sdk::Provision;
use mesh_sdk::adapter::{ProviderSettings, Refusal};

use super::values::{ExecOptions, ExecValues};

/// Bytes of a login.
const LOGIN: usize = 4096;
/// Bytes of a password.
const PASSWORD: usize = 65_536;
/// Bytes of a wish's values or a provider's settings as JSON.
const TABLE: usize = 256 * 1024;

pub(super) fn wish(
    provider: &ProviderSettings,
    wish: &Provision<'_, ExecValues>,
) -> Result<(), Refusal> {
    login(provider, wish.login().as_str())?;
    if let Some(password) = wish.password() {
        let rule = match password.expose_str() {
            None => "it must be UTF-8",
            Some("") => "it must not be empty",
            Some(text) if text.contains('\0') => "it must not hold a NUL",
            Some(text) if text.len() > PASSWORD => "it must not be longer than 65536 bytes",
            Some(_) => "",
        };
        if !rule.is_empty() {
            return Err(Refusal::new("password", rule));
        }
    }
    let data = &wish.values().data;
    if data
        .iter()
        .any(|name| name.is_empty() || name.len() > LOGIN)
    {
        return Err(Refusal::new("data", "a name has 1 to 4096 bytes"));
    }
    size("values", &wish.values().values)
}

/// The one rule for logins, also asked before a login is touched.
pub(super) fn login(provider: &ProviderSettings, login: &str) -> Result<(), Refusal> {
    let admin = provider.admin.as_ref().map(|admin| admin.user.as_str());
    if Some(login) == admin {
        return Err(Refusal::new("login", "it is the admin login, and reserved"));
    }
    if login.len() > LOGIN {
        return Err(Refusal::new(
            "login",
            "it must not be longer than 4096 bytes",
        ));
    }
    Ok(())
}

pub(super) fn provider(provider: &ProviderSettings) -> Result<(), Refusal> {
    if !Path::new(&provider.path).is_absolute() {
        let rule = "it must name a program: exec:./adapter, from the manifest's folder";
        return Err(Refusal::new("url", rule));
    }
    let options: ExecOptions = provider.typed_options()?;
    if options.args.iter().any(|arg| arg.contains('\0')) {
        return Err(Refusal::new("options.args", "no NUL can be in an argument"));
    }
    if let Some(canary) = &options.canary {
        size("options.canary", canary)?;
    }
    size("options.settings", &options.settings)
}

fn size(field: &str, table: &serde_json::Map<String, serde_json::Value>) -> Result<(), Refusal> {
    let bytes = serde_json::to_vec(table).map_or(usize::MAX, |text| text.len());
    if bytes > TABLE {
        return Err(Refusal::new(
            field,
            "it must not be longer than 256 KiB as JSON",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! What is refused without a program.
    use mesh_sdk::ProviderName;
    use mesh_sdk::adapter::Admin;

    use super::*;

    fn settings(path: &str) -> ProviderSettings {
        let name = ProviderName::new("users").expect("a name");
        let mut settings = ProviderSettings::of_file(name, "exec", path);
        settings.admin = Some(Admin {
            user: "boss".to_owned(),
            password: None,
        });
        settings
    }

    #[test]
    fn h19_the_admin_login_is_reserved_and_long_names_are_refused() {
        let settings = settings("/opt/adapter");
        assert!(login(&settings, "web").is_ok());
        assert!(login(&settings, "boss").is_err());
        assert!(login(&settings, &"x".repeat(LOGIN + 1)).is_err());
    }

    #[test]
    fn a2_a_provider_names_a_program_and_known_options() {
        assert!(provider(&settings("/opt/adapter")).is_ok());
        assert!(provider(&settings("adapter")).is_err());
        let mut odd = settings("/opt/adapter");
        odd.options.insert("arguments".to_owned(), 1.into());
        let refusal = provider(&odd).expect_err("an unknown option");
        assert!(refusal.rule.contains("arguments"), "{refusal}");
    }
}
