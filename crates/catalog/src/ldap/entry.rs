//! A login's entry, as a search shows it.

use ldap3::SearchEntry;
use mesh_sdk::{ConsumerName, MarkSeen, Marker};

use super::{dn, hash};

/// One login.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) login: String,
    /// Values of `userPassword`; none where the admin may not read them.
    pub(super) passwords: Vec<String>,
    /// Values of `description`.
    pub(super) descriptions: Vec<String>,
    /// A password policy keeps it out.
    pub(super) locked: bool,
}

/// An attribute's values, as text; whatever case the server writes its name in.
pub(super) fn text_of(entry: &SearchEntry, attribute: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (name, values) in &entry.attrs {
        if name.eq_ignore_ascii_case(attribute) {
            all.extend(values.iter().cloned());
        }
    }
    for (name, values) in &entry.bin_attrs {
        if name.eq_ignore_ascii_case(attribute) {
            all.extend(
                values
                    .iter()
                    .map(|one| String::from_utf8_lossy(one).into_owned()),
            );
        }
    }
    all
}

impl Entry {
    /// The login of an entry right below the base; what is named otherwise is none.
    pub(super) fn of(entry: &SearchEntry, base: &str) -> Option<Self> {
        Some(Self {
            login: dn::value_below("uid", &entry.dn, base)?,
            passwords: text_of(entry, "userPassword"),
            descriptions: text_of(entry, "description"),
            locked: !text_of(entry, "pwdAccountLockedTime").is_empty(),
        })
    }
    /// Whether it can be used. What cannot be read is taken to be on.
    pub(super) fn enabled(&self) -> bool {
        let off = !self.passwords.is_empty() && self.passwords.iter().all(|one| hash::is_off(one));
        !off && !self.locked
    }
    /// Values of `description` that are marks.
    pub(super) fn marks(&self) -> impl Iterator<Item = &String> {
        let marks = self.descriptions.iter();
        marks.filter(|text| text.starts_with(Marker::PREFIX))
    }
    /// The mark that decides for a consumer.
    pub(super) fn mark(&self, marker: &Marker, consumer: &ConsumerName) -> MarkSeen {
        MarkSeen::strongest(self.marks().map(|text| marker.read(text, consumer)))
    }
    /// The mark in a list: only one that this provider left names a consumer.
    pub(super) fn listed_mark(&self, marker: &Marker) -> MarkSeen {
        MarkSeen::strongest(self.marks().map(|text| marker.listed(text)))
    }
}
