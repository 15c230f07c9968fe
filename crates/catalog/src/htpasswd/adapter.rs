//! The format of the file, as its readers take it.

use mesh_sdk::adapter::{Finding, FindingLevel, Refusal};
use mesh_sdk::{Login, Marker};

use super::values::HtpasswdValues;
use super::{check, lines};
use crate::password_file::{Entries, Entry, Format, Lines, Wanted, Wish, cost_of};

/// Lines of `login:hash`, each with its mark in a comment above.
pub struct Htpasswd;

impl Format for Htpasswd {
    type Values = HtpasswdValues;
    const SCHEME: &'static str = "";
    const READ_BY_SECOND: bool = false;

    fn check(&self, wish: &Wish<'_, Self>) -> Result<(), Refusal> {
        check::wish(wish)
    }
    fn cost(values: &HtpasswdValues) -> Option<u32> {
        values.cost
    }
    fn name(line: &[u8]) -> Option<&[u8]> {
        lines::split(line).map(|(login, ..)| login)
    }
    fn entry(lines: &Lines, at: usize) -> Option<Entry<'_>> {
        lines::entry(lines, at)
    }
    fn set(lines: &mut Lines, login: &str, wanted: &Wanted<HtpasswdValues>, marker: &Marker) {
        lines::set(lines, login, wanted, marker);
    }
    fn remove(lines: &mut Lines, login: &str, marker: &Marker) {
        lines::remove(lines, login, marker);
    }
    fn offer(&self, login: &Login, _: &Entry<'_>) -> Option<(HtpasswdValues, Vec<String>)> {
        check::login(login).ok()?;
        Some((HtpasswdValues::default(), Vec::new()))
    }
    /// Entries of others whose hashes are quick to guess.
    fn doctor(entries: &Entries<'_>) -> Vec<Finding> {
        let is_weak = |hash: &[u8]| !hash.is_empty() && cost_of(hash).is_none();
        let count = entries
            .values()
            .filter(|one| !one.off && is_weak(one.hash))
            .count();
        let weak = (count > 0).then(|| {
            let message = format!(
                "{count} entries have another hash than bcrypt, and most such are quick to guess"
            );
            Finding::new(FindingLevel::Warning, "hashes", message)
                .with_action("htpasswd -B FILE LOGIN")
        });
        weak.into_iter().collect()
    }
}
