//! What a kind says about its file.

use mesh_sdk::adapter::{Finding, Refusal};
use mesh_sdk::{Login, Marker, Provision};

use super::lines::{Entries, Entry, Lines};

/// One kind of file: how its lines are read and written.
pub trait Format: Sized + Send + Sync + 'static {
    /// This kind's values.
    type Values: serde::de::DeserializeOwned
        + serde::Serialize
        + schemars::JsonSchema
        + Clone
        + Send
        + Sync
        + 'static;

    /// What stands before a bcrypt hash; may be empty.
    const SCHEME: &'static str;
    /// The file's readers look at it anew only when the second of its last change, or its size, is another.
    const READ_BY_SECOND: bool;

    /// Refuses what the file cannot hold, or its readers cannot take.
    fn check(&self, wish: &Provision<'_, Self::Values>) -> Result<(), Refusal>;
    /// How dear the hash was asked to be.
    fn cost(values: &Self::Values) -> Option<u32>;
    /// Whose entry a line is; `None` for a comment, and what is no entry.
    fn name(line: &[u8]) -> Option<&[u8]>;
    /// The entry that a line is. Whether there are more of its name, the caller sees.
    fn entry(lines: &Lines, at: usize) -> Option<Entry<'_>>;
    /// Makes a login as wanted, where it stands or at the end. Entries of its name further down go: no reader
    /// looks at them, until the first one is taken away.
    fn set(lines: &mut Lines, login: &str, wanted: &Wanted<Self::Values>, marker: &Marker);
    /// Takes all entries of a login away, with the marks of ours that name it.
    fn remove(lines: &mut Lines, login: &str, _marker: &Marker) {
        lines.forget::<Self>(login.as_bytes());
    }

    /// How what an entry allows differs from what is asked.
    fn rights(_wish: &Provision<'_, Self::Values>, _entry: &Entry<'_>) -> Rights {
        Rights::default()
    }
    /// The values with which a wish for this entry would be held as it stands, and what they cannot say, for
    /// `mesh import`; none if no manifest could ask for it. Never a hash, nor what may be a password.
    fn offer(&self, login: &Login, entry: &Entry<'_>) -> Option<(Self::Values, Vec<String>)>;
    /// What a person should know about the entries of others.
    fn doctor(_entries: &Entries<'_>) -> Vec<Finding> {
        Vec::new()
    }
}

/// Rights that are asked for and missing, and those beyond what is asked for, as a person reads them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rights {
    /// Asked for, and not there.
    pub missing: Vec<String>,
    /// There, and not asked for.
    pub surplus: Vec<String>,
}

/// What a login is to look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted<V> {
    /// With its scheme; none keeps the one that is there.
    pub hash: Option<Vec<u8>>,
    /// Switched off.
    pub off: bool,
    /// The text of the mark.
    pub mark: String,
    /// What is asked; none leaves it as it is.
    pub values: Option<V>,
    /// Rights beyond what is asked are taken back.
    pub exact: bool,
}
