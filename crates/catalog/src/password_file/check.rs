//! What can be refused without looking at the file, whatever its format.

use mesh_sdk::adapter::{ProviderSettings, Refusal};
use mesh_sdk::{Class, Error, Secret};

use super::proof::{ALLOWED_COSTS, LONGEST};

/// A provider's own settings: its URL names a file with this scheme, and nobody logs in to a file.
pub(crate) fn is_file(settings: &ProviderSettings, scheme: &str) -> Result<(), Refusal> {
    file_url(settings, scheme)?;
    match settings.admin {
        Some(_) => Err(Refusal::new(
            "admin",
            "a file has no admin login: who may write it is the system's business",
        )),
        None => Ok(()),
    }
}

fn file_url(settings: &ProviderSettings, scheme: &str) -> Result<(), Refusal> {
    if settings.scheme != scheme {
        return Err(Refusal::new("url", format!("must begin with {scheme}:")));
    }
    let path = settings.path.as_str();
    if path.is_empty() || path.ends_with('/') || path.contains('\0') {
        let rule = format!("must name a file: `{scheme}:/etc/users`");
        return Err(Refusal::new("url", rule));
    }
    Ok(())
}

/// The mode of a file that is made anew, `0640` unless said otherwise: octal, with its owner able to read and
/// write, and not others.
pub(crate) fn mode_of(text: Option<&str>) -> Result<u32, Refusal> {
    let bits = u32::from_str_radix(text.unwrap_or("0640"), 8).ok();
    let fits = |bits: &u32| *bits <= 0o777 && bits & 0o002 == 0 && bits & 0o600 == 0o600;
    bits.filter(fits).ok_or_else(|| {
        let rule =
            "must be octal, such as 0640, with its owner able to read and write, and not others";
        Refusal::new("options.mode", rule)
    })
}

/// A password: what bcrypt looks at, and what the readers' protocols carry.
pub(crate) fn password(secret: &Secret, carried_by: &str) -> Result<(), Refusal> {
    let refuse = |rule: &str| Err(Refusal::new("password", rule));
    match secret.expose_str() {
        None => refuse("must be UTF-8"),
        Some("") => refuse("must not be empty"),
        Some(text) if text.chars().any(char::is_control) => refuse(&format!(
            "must hold no line break, NUL or other control character: {carried_by}"
        )),
        Some(text) if text.len() > LONGEST => {
            refuse("must have at most 72 bytes: bcrypt looks at no more")
        }
        Some(_) => Ok(()),
    }
}

/// How dear a hash may be.
pub(crate) fn cost(asked: Option<u32>) -> Result<(), Refusal> {
    match asked {
        Some(cost) if !ALLOWED_COSTS.contains(&cost) => {
            Err(Refusal::new("cost", "must be 5 to 14"))
        }
        _ => Ok(()),
    }
}

/// A refusal as the error of a call.
pub(crate) fn refused(refusal: Refusal) -> Error {
    Error::new(Class::RefusedValue, refusal.to_string())
}
