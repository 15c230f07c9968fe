//! `[mesh.page]`: how the page of `mesh up --listen` is guarded beyond this machine.

use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::DeValue;

use super::auth;
use super::fields::{Fields, wrong_type};
use super::secrets::SecretRef;
use crate::errors::Problem;

const KEYS: &[&str] = &["token", "certificate", "key", "names", "behind_proxy"];

/// What is asked of the page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageAsked {
    /// Where the token is; one is made in the data folder unless set.
    pub token: Option<SecretRef>,
    /// A PEM file: the certificate with its chain.
    pub certificate: Option<PathBuf>,
    /// A PEM file: its private key.
    pub key: Option<PathBuf>,
    /// The names under which the page is asked for, beside addresses in numbers.
    pub names: Vec<String>,
    /// A proxy before it ends TLS and says so in `X-Forwarded-Proto`.
    pub behind_proxy: bool,
}

/// Reads it.
pub(super) fn read(base: &Path, mesh: &Fields<'_, '_>, problems: &mut Vec<Problem>) -> PageAsked {
    let Some(item) = mesh.item("page") else {
        return PageAsked::default();
    };
    let wanted = "a table, such as { certificate = \"…\", key = \"…\" }";
    let Some(fields) = Fields::of("page", item, wanted, problems) else {
        return PageAsked::default();
    };
    fields.refuse_unknown("[mesh.page]", KEYS, problems);
    let mut path = |key: &str| {
        fields.item(key)?;
        auth::path(base, &fields, key, problems)
    };
    let (certificate, key) = (path("certificate"), path("key"));
    if fields.item("certificate").is_some() != fields.item("key").is_some() {
        let problem = Problem::error(
            fields.span.clone(),
            "[mesh.page] has one of `certificate` and `key`",
        );
        problems.push(problem.help("TLS needs both, or neither"));
    }
    PageAsked {
        token: auth::place(base, &fields, "token", problems),
        certificate,
        key,
        names: names(&fields, problems),
        behind_proxy: fields.flag("behind_proxy", false, problems),
    }
}

fn names(fields: &Fields<'_, '_>, problems: &mut Vec<Problem>) -> Vec<String> {
    const WANTED: &str = "names of hosts in quotes, such as [\"mesh.example\"]";
    let Some(item) = fields.item("names") else {
        return Vec::new();
    };
    let DeValue::Array(all) = item.get_ref() else {
        problems.push(wrong_type("names", item, WANTED));
        return Vec::new();
    };
    let mut names = Vec::new();
    for one in all {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        match one.get_ref() {
            DeValue::String(name) if !name.is_empty() && name.chars().all(plain) => {
                names.push(name.to_string());
            }
            _ => {
                let problem = Problem::error(Spanned::span(one), "this is not the name of a host");
                problems.push(problem.meant(WANTED));
            }
        }
    }
    names
}
