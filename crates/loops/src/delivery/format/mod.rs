//! How values are written down: as an env file, as JSON, or each in a file of its own.

mod json;
mod readers;
mod variables;

use std::collections::BTreeMap;

use mesh_sdk::Secret;

pub use readers::Reader;

/// What is delivered: each value under its name.
pub type Values = BTreeMap<String, Secret>;

/// In what form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// `NAME=value`, for these readers.
    Env(Vec<Reader>),
    /// One JSON object of strings.
    Json,
}

/// Why values cannot be written so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatFault {
    /// A reader would read something else.
    #[error(
        "{name} cannot be written for {readers} so that it is read as it is; leave that out (`readers = […]`), or deliver it as JSON or as a folder of files"
    )]
    Reader {
        /// The value's name.
        name: String,
        /// Who.
        readers: String,
    },
    /// It is no text.
    #[error("{0} is not UTF-8, and this form holds text only")]
    NotText(String),
}

impl Format {
    /// The whole file.
    pub fn write(&self, values: &Values) -> Result<Secret, FormatFault> {
        match self {
            Format::Env(readers) => variables::file(values, readers),
            Format::Json => json::file(values),
        }
    }
}

/// Whether a text may be a variable's name: what every reader takes.
pub fn is_name(text: &str) -> bool {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_';
    text.starts_with(first) && text.chars().all(|c| first(c) || c.is_ascii_digit())
}
