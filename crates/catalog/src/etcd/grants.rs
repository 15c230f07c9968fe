//! Permissions on ranges of keys, as etcd has them.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::values::EtcdValues;

/// The longest key or prefix that is taken.
pub(super) const LONGEST_KEY: usize = 4096;

/// What may be done. Reading is the form that is left out when it is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Access {
    /// Read.
    #[default]
    Read,
    /// Write.
    Write,
    /// Both.
    ReadWrite,
}

/// A key, or the keys from one up to another; both in base64.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Range {
    pub(super) key: String,
    /// Empty for a single key.
    pub(super) end: String,
}

/// A permission as it is shown and sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Permission {
    #[serde(default, rename = "permType")]
    access: Access,
    #[serde(default)]
    key: String,
    #[serde(default)]
    range_end: String,
}

/// The permissions of a role: etcd has at most one for each range.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Grants(BTreeMap<Range, Access>);

impl Grants {
    /// What the values ask for.
    pub(super) fn wanted(values: &EtcdValues) -> Self {
        let mut all = Self::default();
        let lists = [
            (&values.prefixes, Access::ReadWrite, true),
            (&values.read_prefixes, Access::Read, true),
            (&values.write_prefixes, Access::Write, true),
            (&values.keys, Access::ReadWrite, false),
            (&values.read_keys, Access::Read, false),
            (&values.write_keys, Access::Write, false),
        ];
        for (texts, access, is_prefix) in lists {
            for text in texts {
                let range = if is_prefix {
                    Range::prefix(text)
                } else {
                    Range::single(text)
                };
                let joined = match all.0.get(&range) {
                    Some(had) if *had != access => Access::ReadWrite,
                    _ => access,
                };
                all.0.insert(range, joined);
            }
        }
        all
    }
    /// What a role is shown to have.
    pub(super) fn shown(permissions: &[Permission]) -> Self {
        let one = |p: &Permission| {
            let range = Range {
                key: p.key.clone(),
                end: p.range_end.clone(),
            };
            (range, p.access)
        };
        Self(permissions.iter().map(one).collect())
    }
    /// The values that ask for these, and what they cannot say.
    pub(super) fn as_values(&self) -> (EtcdValues, Grants) {
        let (mut values, mut rest) = (EtcdValues::default(), Self::default());
        for (range, access) in &self.0 {
            let (text, is_prefix) = match range.said() {
                Some(said) if may_be_said(&said.0) => said,
                _ => {
                    rest.0.insert(range.clone(), *access);
                    continue;
                }
            };
            let list = match (access, is_prefix) {
                (Access::ReadWrite, true) => &mut values.prefixes,
                (Access::Read, true) => &mut values.read_prefixes,
                (Access::Write, true) => &mut values.write_prefixes,
                (Access::ReadWrite, false) => &mut values.keys,
                (Access::Read, false) => &mut values.read_keys,
                (Access::Write, false) => &mut values.write_keys,
            };
            list.push(text);
        }
        (values, rest)
    }
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Those whose range the other does not have with the same access.
    pub(super) fn beyond(&self, other: &Grants, enough: fn(Access, Access) -> bool) -> Grants {
        let lacks = |(range, access): &(&Range, &Access)| {
            other.0.get(range).is_none_or(|has| !enough(*has, **access))
        };
        Self(
            self.0
                .iter()
                .filter(lacks)
                .map(|(r, a)| (r.clone(), *a))
                .collect(),
        )
    }
    /// Those whose range the other has, too.
    pub(super) fn within(&self, other: &Grants) -> Grants {
        let both = self.0.iter().filter(|(range, _)| other.has(range));
        Self(both.map(|(r, a)| (r.clone(), *a)).collect())
    }
    /// Each, as it is sent.
    pub(super) fn iter(&self) -> impl Iterator<Item = Permission> {
        self.0.iter().map(|(range, access)| Permission {
            access: *access,
            key: range.key.clone(),
            range_end: range.end.clone(),
        })
    }
    /// The ranges.
    pub(super) fn ranges(&self) -> impl Iterator<Item = &Range> {
        self.0.keys()
    }
    pub(super) fn has(&self, range: &Range) -> bool {
        self.0.contains_key(range)
    }
    /// `read /web/…, write lock`.
    pub(super) fn told(&self) -> String {
        const MOST: usize = 6;
        let one = |(range, access): (&Range, &Access)| {
            let access = match access {
                Access::Read => "read",
                Access::Write => "write",
                Access::ReadWrite => "read and write",
            };
            let dots = if range.end.is_empty() { "" } else { "…" };
            format!("{access} {}{dots}", plain(&range.key))
        };
        let all: Vec<String> = self.0.iter().map(one).collect();
        let mut told = all[..all.len().min(MOST)].join(", ");
        if all.len() > MOST {
            told.push_str(&format!(" and {} more", all.len() - MOST));
        }
        told
    }
}

/// Whether what is there is as much as what is asked for.
pub(super) fn covers(has: Access, asked: Access) -> bool {
    has == asked || has == Access::ReadWrite
}

/// Whether a key or prefix may stand in values.
pub(super) fn may_be_said(text: &str) -> bool {
    text.len() <= LONGEST_KEY && !text.contains('\0')
}

impl Range {
    pub(super) fn single(key: &str) -> Self {
        Self {
            key: STANDARD.encode(key),
            end: String::new(),
        }
    }
    /// What follows right behind a key; `None` where it is no base64.
    pub(super) fn behind(key: &str) -> Option<String> {
        let mut bytes = STANDARD.decode(key).ok()?;
        bytes.push(0);
        Some(STANDARD.encode(bytes))
    }
    /// The prefix that it is, or the key, and which of both.
    fn said(&self) -> Option<(String, bool)> {
        let text = String::from_utf8(STANDARD.decode(&self.key).ok()?).ok()?;
        if self.end.is_empty() {
            return Some((text, false));
        }
        let text = if text == "\0" { String::new() } else { text };
        (Self::prefix(&text) == *self).then_some((text, true))
    }
    /// Whether some key is in both. What cannot be read is taken to be everything.
    pub(super) fn overlaps(&self, other: &Range) -> bool {
        let (one, two) = (self.bounds(), other.bounds());
        let before =
            |start: &Vec<u8>, end: &Option<Vec<u8>>| end.as_ref().is_none_or(|end| start < end);
        before(&one.0, &two.1) && before(&two.0, &one.1)
    }
    /// The first key, and the first that is no longer in it; `None` where there is none such.
    fn bounds(&self) -> (Vec<u8>, Option<Vec<u8>>) {
        let (Ok(start), Ok(end)) = (STANDARD.decode(&self.key), STANDARD.decode(&self.end)) else {
            return (Vec::new(), None);
        };
        let end = match end.as_slice() {
            [] => Some([start.as_slice(), &[0]].concat()),
            [0] => None,
            _ => Some(end),
        };
        (start, end)
    }
    /// Up to the first key that does not begin so; from a NUL to a NUL is everything.
    pub(super) fn prefix(prefix: &str) -> Self {
        let mut end = prefix.as_bytes().to_vec();
        while end.last() == Some(&0xff) {
            end.pop();
        }
        match end.last_mut() {
            Some(last) => *last += 1,
            None => end.push(0),
        }
        let key = if prefix.is_empty() { "\0" } else { prefix };
        Self {
            key: STANDARD.encode(key),
            end: STANDARD.encode(end),
        }
    }
}

fn plain(key: &str) -> String {
    let bytes = STANDARD.decode(key).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}

#[cfg(test)]
mod tests {
    //! Ranges, and what is beyond what.
    use super::*;
    use serde_json::json;

    #[test]
    fn r5_ranges_overlap_where_a_key_is_in_both() {
        let (prefix, single) = (Range::prefix, Range::single);
        for (one, two) in [
            (prefix("/web/"), prefix("/web/a")),
            (prefix("/web/"), single("/web/")),
            (prefix(""), single("x")),
            (prefix(""), prefix("/")),
            (single("x"), single("x")),
            (
                prefix("a"),
                Range {
                    key: STANDARD.encode("_"),
                    end: STANDARD.encode("ab"),
                },
            ),
        ] {
            assert!(one.overlaps(&two) && two.overlaps(&one), "{one:?} {two:?}");
        }
        for (one, two) in [
            (prefix("/web/"), prefix("/web2/")),
            (prefix("/web/"), single("/web")),
            (prefix("/web/"), single("/web0")),
            (single("x"), single("y")),
        ] {
            assert!(
                !one.overlaps(&two) && !two.overlaps(&one),
                "{one:?} {two:?}"
            );
        }
        let odd = Range {
            key: "?".to_owned(),
            end: String::new(),
        };
        assert!(
            odd.overlaps(&single("x")),
            "what cannot be read may be anything"
        );
    }

    #[test]
    fn h18_what_a_role_grants_is_read_back_as_values() {
        let values = json!({
            "prefixes": ["/web/", ""], "read_prefixes": ["ü"], "write_prefixes": ["w"],
            "keys": ["k"], "read_keys": ["r"], "write_keys": ["l"],
        });
        let values: EtcdValues = serde_json::from_value(values).expect("values");
        let (read, rest) = Grants::wanted(&values).as_values();
        assert!(rest.is_empty());
        assert_eq!(Grants::wanted(&read), Grants::wanted(&values));
        let odd = json!([{ "key": "YQ==", "range_end": "eg==" }, { "key": "AGE=" }]);
        let odd: Vec<Permission> = serde_json::from_value(odd).expect("permissions");
        let (read, rest) = Grants::shown(&odd).as_values();
        assert_eq!((read, rest.0.len()), (EtcdValues::default(), 2));
    }

    #[test]
    fn a_prefix_is_a_range_and_two_accesses_are_both() {
        let range = |prefix: &str| Range::prefix(prefix);
        let raw = |range: &Range| {
            let read = |text: &str| STANDARD.decode(text).expect("base64");
            (read(&range.key), read(&range.end))
        };
        assert_eq!(raw(&range("/web/")), (b"/web/".to_vec(), b"/web0".to_vec()));
        assert_eq!(raw(&range("")), (vec![0], vec![0]));
        let values = json!({ "read_prefixes": ["a"], "write_prefixes": ["a"], "read_keys": ["k"] });
        let values: EtcdValues = serde_json::from_value(values).expect("values");
        let wanted = Grants::wanted(&values);
        assert_eq!(wanted.told(), "read and write a…, read k");
        // As etcd shows them: reading is left out.
        let shown = json!([{ "key": "YQ==", "range_end": "Yg==" }, { "permType": "READWRITE", "key": "aw==" }]);
        let shown: Vec<Permission> = serde_json::from_value(shown).expect("permissions");
        let shown = Grants::shown(&shown);
        assert_eq!(wanted.beyond(&shown, covers).told(), "read and write a…");
        assert_eq!(
            shown
                .beyond(&wanted, |has, asked| has == asked
                    || has == Access::ReadWrite)
                .told(),
            "read and write k"
        );
        assert_eq!(Grants::shown(&wanted.iter().collect::<Vec<_>>()), wanted);
    }
}
