//! What a scene needs of a kind of server.

use anyhow::Result;
use std::time::Duration;

/// The admin login of the program under measurement.
pub(super) const ADMIN: (&str, &str) = ("mesh", "admin-password");

/// The n-th consumer, which is its login too.
pub(super) fn name(n: usize) -> String {
    format!("app-{n:06}")
}

/// One running server of a kind, with a bare client for it.
pub(super) trait Side: Sized {
    /// As the table names it: `PostgreSQL 15.18`.
    fn title(&self) -> String;
    /// The provider's table in the manifest, without name and admin.
    fn provider(&self) -> String;
    /// A consumer's needs.
    fn needs(&self, n: usize) -> String;
    /// Takes every login of the bench away.
    fn clear(&self) -> Result<()>;
    /// What the bare client has to say to another server, so that it has the very same logins: the same
    /// verifiers, rights and marks, in the batches that are fastest.
    fn script(&self) -> Result<Vec<Script>>;
    /// Says that.
    fn write(&self, script: &[Script]) -> Result<()>;
    /// The bulk read of all that a pass compares. How many logins there are, how long it took, and a remark
    /// on how it was read.
    fn read(&self) -> Result<Read>;
    /// How many calls the server has taken, by its own count; the count's own calls left out.
    fn calls(&self) -> Result<u64>;
    /// Whether a login is there.
    fn has(&self, login: &str) -> Result<bool>;
}

/// A part of the raw writing: where it goes, and its text.
#[derive(Debug, Clone)]
pub(super) struct Script {
    pub(super) place: String,
    pub(super) text: String,
}

/// A raw read.
#[derive(Debug, Clone, Default)]
pub(super) struct Read {
    pub(super) logins: usize,
    pub(super) took: Duration,
    /// The same over a connection that is open already, verifiers and marks alone.
    pub(super) least: Duration,
}
