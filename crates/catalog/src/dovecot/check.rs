//! What can be refused without looking at the file.

use mesh_sdk::adapter::Refusal;

use super::adapter::Dovecot;
use super::line::net_of;
use crate::password_file::{Wish, cost, password};

/// The longest name, in bytes. With 1,000 the process that has the mail of 2.3.19 fails; 300 were well.
const LONGEST_LOGIN: usize = 255;

/// Login, password and values. The first rule that is broken is told.
pub(super) fn wish(wish: &Wish<'_, Dovecot>, any_login: bool) -> Result<(), Refusal> {
    let (login, values) = (wish.login().as_str(), wish.values());
    // It ends the field, is looked for with a backslash before it, or becomes part of the mail's path.
    let bad = |c: char| c.is_control() || ":'\"\\/".contains(c);
    let usual = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '.' | '-' | '_' | '@');
    let no_path = |home: &String| !home.starts_with('/') || home.contains([':', '%']);
    let has_control = |home: &String| home.contains(char::is_control);
    let is_net = |net: &String| net == "local" || net_of(net).is_some();
    let no_number = |n: Option<u32>| matches!(n, Some(0 | u32::MAX));
    let (home, number) = (
        values.home.as_ref(),
        "must be 1 to 4294967294: Dovecot refuses root",
    );
    let bad_login =
        "must hold no `:`, `/`, quote, backslash, line break or other control character";
    let unusual = "must be of a-z, 0-9, `.`, `-`, `_` and `@`, unless `any_login` says that Dovecot takes more";
    let bad_home = "must be an absolute path without `:`, `%` and control characters";
    let bad_net = "must be addresses, `ADDRESS/BITS`, or `local`";
    let rules = [
        (login.contains(bad), "login", bad_login),
        (
            login.starts_with('#'),
            "login",
            "must not begin with `#`: that line is a comment",
        ),
        (
            login.chars().all(|c| c == '.'),
            "login",
            "must not be dots alone",
        ),
        (
            login.len() > LONGEST_LOGIN,
            "login",
            "must have at most 255 bytes",
        ),
        (!any_login && !login.chars().all(usual), "login", unusual),
        (no_number(values.uid), "uid", number),
        (no_number(values.gid), "gid", number),
        (
            home.is_some_and(no_path) || home.is_some_and(has_control),
            "home",
            bad_home,
        ),
        (!values.allow_nets.iter().all(is_net), "allow_nets", bad_net),
    ];
    if let Some((_, field, rule)) = rules.into_iter().find(|(is, ..)| *is) {
        return Err(Refusal::new(field, rule));
    }
    if let Some(secret) = wish.password() {
        password(secret, "Dovecot takes none")?;
    }
    cost(values.cost)
}
