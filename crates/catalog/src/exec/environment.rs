//! What a program finds in its environment: three variables, and nothing of ours.

use std::ffi::OsString;

/// The variables that are handed on.
const KEPT: [&str; 3] = ["PATH", "HOME", "LANG"];

/// Those that are set. Everything else, and with it every secret that Meshkeeper was given in a variable,
/// is left out.
#[expect(
    clippy::disallowed_methods,
    reason = "a program needs the machine's PATH to find its interpreter; no setting of ours is read"
)]
pub(super) fn kept() -> impl Iterator<Item = (&'static str, OsString)> {
    KEPT.into_iter()
        .filter_map(|name| Some((name, std::env::var_os(name)?)))
}
