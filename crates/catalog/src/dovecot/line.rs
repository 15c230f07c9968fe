//! A line: `login:hash:uid:gid:gecos:home:shell:extra`.

use std::collections::BTreeSet;
use std::net::IpAddr;

use mesh_sdk::Marker;

use super::check::{is_id, is_net, is_path};
use super::values::DovecotValues;
use crate::password_file::{Rights, Wanted};

pub(super) const HASH: usize = 1;
const UID: usize = 2;
const GID: usize = 3;
const GECOS: usize = 4;
const HOME: usize = 5;
const EXTRA: usize = 7;

/// What stands in a network's place if logins may come from any.
const ANYWHERE: &str = "anywhere";

/// A line's fields, and its end. What is cut short has empty ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) fields: [&'a [u8]; 8],
    end: &'a [u8],
}

impl<'a> Line<'a> {
    pub(super) fn read(line: &'a [u8]) -> Self {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let mut parts = text.splitn(8, |b| *b == b':');
        Self {
            fields: std::array::from_fn(|_| parts.next().unwrap_or_default()),
            end: &line[text.len()..],
        }
    }

    /// The words of the extra field. A lone colon is what the old form of a line leaves there.
    fn words(&self) -> impl Iterator<Item = &'a [u8]> {
        let words = self.fields[EXTRA].split(|b| *b == b' ');
        words.filter(|word| !word.is_empty() && *word != b":")
    }

    /// The extra field of this name: what it is set to.
    pub(super) fn extra(&self, name: &str) -> Option<&'a [u8]> {
        let word = self.words().find(|word| is_called(word, name))?;
        Some(word.get(name.len() + 1..).unwrap_or_default())
    }

    /// The text of the mark.
    pub(super) fn mark(&self) -> Option<&'a str> {
        let mut words = self.fields[GECOS].split(|b| *b == b' ');
        std::str::from_utf8(words.find(|word| is_mark(word))?).ok()
    }

    /// How it differs from what is asked: what is missing, and what is in surplus.
    pub(super) fn rights(&self, asked: &DovecotValues) -> Rights {
        let text = as_line(asked);
        let (asked, found) = (Line::read(text.as_bytes()).allowed(), self.allowed());
        let (missing, surplus) = (less(&asked, &found), less(&found, &asked));
        Rights { missing, surplus }
    }

    /// The values that say what it allows, and what they cannot say. None if they would allow more: with no network
    /// that values can name, they would name none, and let logins come from anywhere.
    pub(super) fn offer(&self) -> Option<(DovecotValues, Vec<String>)> {
        let text = |at: usize| std::str::from_utf8(self.fields[at]).ok();
        let id = |at| {
            let id: u32 = text(at)?.parse().ok()?;
            (is_id(id) && Some(id.to_string().as_str()) == text(at)).then_some(id)
        };
        let nets = self.nets().into_iter();
        let values = DovecotValues {
            allow_nets: nets.filter(|net| is_net(net)).collect(),
            uid: id(UID),
            gid: id(GID),
            home: text(HOME).filter(|home| is_path(home)).map(str::to_owned),
            cost: None,
        };
        let Rights { missing, surplus } = self.rights(&values);
        // What a further extra field is set to may be a password.
        let ours = ["nologin", "nopassword", "allow_nets"];
        let further = self
            .words()
            .filter(|w| !ours.iter().any(|n| is_called(w, n)));
        let further = further.filter_map(|word| word.split(|b| *b == b'=').next());
        let further = further.map(|name| format!("extra field {}", String::from_utf8_lossy(name)));
        let beyond = surplus.into_iter().chain(further).collect();
        missing.is_empty().then_some((values, beyond))
    }

    /// The networks that may log in; `10.0.0.1` is `10.0.0.1/32`, and what is none stays as it is.
    fn nets(&self) -> BTreeSet<String> {
        let list = String::from_utf8_lossy(self.extra("allow_nets").unwrap_or_default());
        let list = if list.is_empty() { ANYWHERE } else { &list };
        let plain = |net: &str| net_of(net).map(|(address, bits)| format!("{address}/{bits}"));
        list.split(',')
            .map(|net| plain(net).unwrap_or_else(|| net.to_owned()))
            .collect()
    }

    fn allowed(&self) -> BTreeSet<String> {
        let fields = [("uid", UID), ("gid", GID), ("home", HOME)];
        let set = fields
            .into_iter()
            .filter(|(_, at)| !self.fields[*at].is_empty());
        let set =
            set.map(|(what, at)| format!("{what} {}", String::from_utf8_lossy(self.fields[at])));
        let nets = self.nets().into_iter();
        set.chain(nets.map(|net| format!("logins from {net}")))
            .collect()
    }

    /// The line of this login as it is wanted, whole: Dovecot finds no user in one that is cut short. Further
    /// extra fields stay.
    pub(super) fn made(&self, login: &str, hash: &[u8], wanted: &Wanted<DovecotValues>) -> Vec<u8> {
        let mut fields = self.fields.map(<[u8]>::to_vec);
        fields[0] = login.into();
        fields[HASH] = hash.to_vec();
        let gecos = self.fields[GECOS].split(|b| *b == b' ');
        let mut gecos: Vec<&[u8]> = gecos.filter(|w| !w.is_empty() && !is_mark(w)).collect();
        gecos.push(wanted.mark.as_bytes());
        fields[GECOS] = gecos.join(&b' ');
        let mut words: Vec<Vec<u8>> = self.words().map(<[u8]>::to_vec).collect();
        words.retain(|word| wanted.off || !is_called(word, "nologin"));
        if let Some(values) = &wanted.values {
            let asked = as_line(values);
            let asked = Line::read(asked.as_bytes());
            for at in [UID, GID, HOME] {
                if wanted.exact || !asked.fields[at].is_empty() {
                    fields[at] = asked.fields[at].to_vec();
                }
            }
            let mut nets = asked.nets();
            if !wanted.exact && !nets.contains(ANYWHERE) {
                nets.extend(self.nets());
            }
            words.retain(|word| !is_called(word, "nopassword") && !is_called(word, "allow_nets"));
            if !nets.contains(ANYWHERE) {
                words.push(allow_nets(nets).into_bytes());
            }
        }
        fields[EXTRA] = words.join(&b' ');
        let end = if self.end.is_empty() { b"\n" } else { self.end };
        [&fields.join(&b':'), end].concat()
    }
}

/// The line that says what is asked, and no more.
fn as_line(values: &DovecotValues) -> String {
    let number = |n: Option<u32>| n.map(|n| n.to_string()).unwrap_or_default();
    let home = values.home.as_deref().unwrap_or_default();
    let nets = allow_nets(values.allow_nets.iter().cloned());
    let (uid, gid) = (number(values.uid), number(values.gid));
    format!("::{uid}:{gid}::{home}::{nets}")
}

fn allow_nets(nets: impl IntoIterator<Item = String>) -> String {
    let nets: Vec<String> = nets.into_iter().collect();
    format!("allow_nets={}", nets.join(","))
}

/// The rights that are not among those; whoever may come from anywhere may come from each network.
fn less(these: &BTreeSet<String>, those: &BTreeSet<String>) -> Vec<String> {
    let anywhere = those.contains(&format!("logins from {ANYWHERE}"));
    let less = these.difference(those);
    let less = less.filter(|right| !(anywhere && right.starts_with("logins from ")));
    less.cloned().collect()
}

/// The address and bits of a network.
pub(super) fn net_of(net: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = net.split_once('/').unzip();
    let address: IpAddr = address.unwrap_or(net).parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(most), |bits: &str| bits.parse().ok())?;
    (bits <= most).then_some((address, bits))
}

fn is_called(word: &[u8], name: &str) -> bool {
    word.split(|b| *b == b'=').next() == Some(name.as_bytes())
}

fn is_mark(word: &[u8]) -> bool {
    word.starts_with(Marker::PREFIX.as_bytes())
}
