//! What can be refused without looking at the file.

use mesh_sdk::Login;
use mesh_sdk::adapter::{ProviderSettings, Refusal};

use super::adapter::Dovecot;
use super::fields::net_of;
use super::values::{DovecotOptions, DovecotValues};
use crate::password_file::{Wish, cost, mode_of, password, provider as is_file};

/// The longest name, in bytes. With 1,000 the process that has the mail of 2.3.19 fails; 300 were well.
const LONGEST_LOGIN: usize = 255;

/// Login, password and values.
pub(super) fn wish(wish: &Wish<'_, Dovecot>, any_login: bool) -> Result<(), Refusal> {
    login(wish.login(), any_login)?;
    if let Some(secret) = wish.password() {
        password(secret, "Dovecot takes none")?;
    }
    values(wish.values())?;
    cost(wish.values().cost)
}

/// A provider's own settings.
pub(super) fn provider(settings: &ProviderSettings) -> Result<(), Refusal> {
    is_file(settings, "dovecot")?;
    let options: DovecotOptions = settings.typed_options()?;
    mode_of(options.mode.as_deref()).map(|_| ())
}

fn login(login: &Login, any_login: bool) -> Result<(), Refusal> {
    let text = login.as_str();
    let usual = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '.' | '-' | '_' | '@');
    let rules = [
        (
            text.contains(':') || text.chars().any(char::is_control),
            "must hold no `:`, line break or other control character: they end the field",
        ),
        (
            text.starts_with('#'),
            "must not begin with `#`: that line is a comment",
        ),
        (
            text.contains(['\'', '"', '\\']),
            "must hold no quote and no backslash: Dovecot looks for another name then",
        ),
        (
            text.contains('/') || text.chars().all(|c| c == '.'),
            "must hold no `/` and not be dots alone: it may become part of the mail's path",
        ),
        (text.len() > LONGEST_LOGIN, "must have at most 255 bytes"),
        (
            !any_login && !text.chars().all(usual),
            "must be of a-z, 0-9, `.`, `-`, `_` and `@`, unless `any_login` says what Dovecot takes",
        ),
    ];
    let broken = rules.into_iter().find(|(is, _)| *is);
    broken.map_or(Ok(()), |(_, rule)| Err(Refusal::new("login", rule)))
}

fn values(values: &DovecotValues) -> Result<(), Refusal> {
    let no_number = |n: Option<u32>| matches!(n, Some(0 | u32::MAX));
    let no_path = |home: &String| {
        !home.starts_with('/') || home.contains([':', '%']) || home.chars().any(char::is_control)
    };
    let number = "must be 1 to 4294967294: Dovecot refuses root";
    let rules = [
        (no_number(values.uid), "uid", number),
        (no_number(values.gid), "gid", number),
        (
            values.home.as_ref().is_some_and(no_path),
            "home",
            "must be an absolute path without `:`, `%` and control characters",
        ),
        (
            !values
                .allow_nets
                .iter()
                .all(|net| net == "local" || net_of(net).is_some()),
            "allow_nets",
            "must be addresses, `ADDRESS/BITS`, or `local`",
        ),
    ];
    let broken = rules.into_iter().find(|(is, ..)| *is);
    broken.map_or(Ok(()), |(_, field, rule)| Err(Refusal::new(field, rule)))
}
