//! What can be refused without looking at the file.

use mesh_sdk::Login;
use mesh_sdk::adapter::Refusal;

use super::adapter::Dovecot;
use super::line::net_of;
use crate::password_file::{Wish, cost, password};

// It ends the field, is looked for with a backslash before it, or becomes part of the mail's path.
const SIGN: &str = "must hold no `:`, `/`, quote, backslash, line break or other control character";
const COMMENT: &str = "must not begin with `#`: that line is a comment";
const DOTS: &str = "must not be dots alone: it may become part of the mail's path";
// With 1,000 the process that has the mail of 2.3.19 fails; 300 were well.
const LONG: &str = "must have at most 255 bytes";
const UNUSUAL: &str =
    "must be of a-z, 0-9, `.`, `-`, `_` and `@`, unless `any_login` says that Dovecot takes more";
const ROOT: &str = "must be 1 to 4294967294: Dovecot refuses root";
const PATH: &str = "must be an absolute path without `:`, `%` and control characters";
const NETS: &str = "must be addresses, `ADDRESS/BITS`, or `local`";

/// Login, password and values. The first rule that is broken is told.
pub(super) fn wish(wish: &Wish<'_, Dovecot>, any_login: bool) -> Result<(), Refusal> {
    login(wish.login(), any_login)?;
    let values = wish.values();
    let no_id = |id: Option<u32>| id.is_some_and(|id| !is_id(id));
    let rules = [
        (no_id(values.uid), "uid", ROOT),
        (no_id(values.gid), "gid", ROOT),
        (!values.home.iter().all(|home| is_path(home)), "home", PATH),
        (
            !values.allow_nets.iter().all(|net| is_net(net)),
            "allow_nets",
            NETS,
        ),
    ];
    first(&rules)?;
    let password = wish
        .password()
        .map(|secret| password(secret, "Dovecot takes none"));
    password.unwrap_or(Ok(()))?;
    cost(values.cost)
}

/// The login alone.
pub(super) fn login(login: &Login, any_login: bool) -> Result<(), Refusal> {
    let login = login.as_str();
    let sign = |c: char| c.is_control() || ":'\"\\/".contains(c);
    let usual = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '.' | '-' | '_' | '@');
    let rules = [
        (login.contains(sign), "login", SIGN),
        (login.starts_with('#'), "login", COMMENT),
        (login.chars().all(|c| c == '.'), "login", DOTS),
        (login.len() > 255, "login", LONG),
        (!any_login && !login.chars().all(usual), "login", UNUSUAL),
    ];
    first(&rules)
}

pub(super) fn is_id(id: u32) -> bool {
    !matches!(id, 0 | u32::MAX)
}
pub(super) fn is_path(home: &str) -> bool {
    home.starts_with('/') && !home.contains(|c: char| c.is_control() || ":%".contains(c))
}
pub(super) fn is_net(net: &str) -> bool {
    net == "local" || net_of(net).is_some()
}

fn first(rules: &[(bool, &str, &str)]) -> Result<(), Refusal> {
    match rules.iter().find(|(is, ..)| *is) {
        Some((_, field, rule)) => Err(Refusal::new(field, *rule)),
        None => Ok(()),
    }
}
