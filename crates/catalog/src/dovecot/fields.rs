//! What follows login and hash in a line: `:uid:gid:gecos:home:shell:extra`.

use std::collections::BTreeSet;
use std::net::IpAddr;

use mesh_sdk::Marker;

use super::values::DovecotValues;
use crate::password_file::{Rights, Wanted};

/// What stands in a right's place if logins come from anywhere.
const ANYWHERE: &str = "logins from anywhere";

/// The fields of one line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Fields {
    uid: Vec<u8>,
    gid: Vec<u8>,
    gecos: Vec<u8>,
    home: Vec<u8>,
    shell: Vec<u8>,
    /// Words such as `allow_nets=10.0.0.0/8`.
    extra: Vec<Vec<u8>>,
    /// The line's end.
    end: Vec<u8>,
}

impl Fields {
    /// Reads them from what follows the hash.
    pub(super) fn read(rest: &[u8]) -> Self {
        let text = rest.strip_suffix(b"\n").unwrap_or(rest);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let mut parts = text.splitn(7, |b| *b == b':').skip(1);
        let mut next = || parts.next().unwrap_or_default().to_vec();
        let (uid, gid, gecos, home, shell, extra) =
            (next(), next(), next(), next(), next(), next());
        // The old form: an empty field, and then where the mail is.
        let extra = match extra.strip_prefix(b":") {
            Some(mail) if !mail.is_empty() => [b"userdb_mail=", mail].concat(),
            Some(_) => Vec::new(),
            None => extra,
        };
        let words = extra.split(|b| *b == b' ').filter(|word| !word.is_empty());
        Self {
            uid,
            gid,
            gecos,
            home,
            shell,
            extra: words.map(<[u8]>::to_vec).collect(),
            end: rest[text.len()..].to_vec(),
        }
    }

    /// The same as in a line, all of them: Dovecot finds no user in a line that is cut short.
    pub(super) fn text(&self) -> Vec<u8> {
        let fields = [&self.uid, &self.gid, &self.gecos, &self.home, &self.shell];
        let fields = fields.map(|field| [b":", &field[..]].concat()).concat();
        let end = if self.end.is_empty() {
            b"\n"
        } else {
            &self.end[..]
        };
        [&fields[..], b":", &self.extra.join(&b' '), end].concat()
    }

    /// The text of the mark.
    pub(super) fn mark(rest: &[u8]) -> Option<&str> {
        let gecos = rest.split(|b| *b == b':').nth(3)?;
        let words = gecos.split(|b| *b == b' ');
        let mut marks = words.filter(|word| is_mark(word));
        std::str::from_utf8(marks.next()?).ok()
    }

    /// Whether there is an extra field of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.extra.iter().any(|word| is_called(word, name))
    }

    /// How they differ from what is asked.
    pub(super) fn rights(&self, asked: &DovecotValues) -> Rights {
        let (asked, found) = (of_values(asked), self.allowed());
        let less = |these: &BTreeSet<String>, those: &BTreeSet<String>| {
            let covered =
                |right: &&String| those.contains(ANYWHERE) && right.starts_with("logins from ");
            let less = these.difference(those).filter(|right| !covered(right));
            less.cloned().collect()
        };
        Rights {
            missing: less(&asked, &found),
            surplus: less(&found, &asked),
        }
    }

    /// Makes them as wanted. Further extra fields stay.
    pub(super) fn set(&mut self, wanted: &Wanted<DovecotValues>) {
        let old = std::mem::take(&mut self.gecos);
        let words = old.split(|b| *b == b' ');
        let mut words: Vec<&[u8]> = words.filter(|w| !w.is_empty() && !is_mark(w)).collect();
        words.push(wanted.mark.as_bytes());
        self.gecos = words.join(&b' ');
        if !wanted.off {
            self.extra.retain(|word| !is_called(word, "nologin"));
        }
        let Some(values) = &wanted.values else {
            return;
        };
        self.extra.retain(|word| !is_called(word, "nopassword"));
        let number = |n: u32| n.to_string().into_bytes();
        let asked = [
            (&mut self.uid, values.uid.map(number)),
            (&mut self.gid, values.gid.map(number)),
            (&mut self.home, values.home.clone().map(String::into_bytes)),
        ];
        for (field, asked) in asked {
            match asked {
                Some(asked) => *field = asked,
                None if wanted.exact => field.clear(),
                None => {}
            }
        }
        self.set_nets(&values.allow_nets, wanted.exact);
    }

    fn set_nets(&mut self, asked: &[String], exact: bool) {
        let found = self.nets();
        let mut nets: BTreeSet<String> = asked.iter().map(|net| plain(net)).collect();
        match (exact, found) {
            // Anywhere holds them all, and what is beyond them stays.
            (false, None) => return,
            (false, Some(found)) if !nets.is_empty() => nets.extend(found),
            (true, Some(found)) if found == nets => return,
            _ => {}
        }
        self.extra.retain(|word| !is_called(word, "allow_nets"));
        if !nets.is_empty() {
            let nets: Vec<String> = nets.into_iter().collect();
            let word = format!("allow_nets={}", nets.join(","));
            self.extra.push(word.into_bytes());
        }
    }

    /// The networks that may log in, if they are limited.
    fn nets(&self) -> Option<BTreeSet<String>> {
        let word = self
            .extra
            .iter()
            .find(|word| is_called(word, "allow_nets"))?;
        let text = String::from_utf8_lossy(word);
        let (_, list) = text.split_once('=')?;
        Some(list.split(',').map(plain).collect())
    }

    fn allowed(&self) -> BTreeSet<String> {
        let of = |what: &str, field: &[u8]| {
            (!field.is_empty()).then(|| format!("{what} {}", String::from_utf8_lossy(field)))
        };
        let fields = [
            of("uid", &self.uid),
            of("gid", &self.gid),
            of("home", &self.home),
        ];
        let fields = fields.into_iter().flatten();
        fields.chain(from(self.nets())).collect()
    }
}

fn of_values(values: &DovecotValues) -> BTreeSet<String> {
    let fields = [
        values.uid.map(|uid| format!("uid {uid}")),
        values.gid.map(|gid| format!("gid {gid}")),
        values.home.as_ref().map(|home| format!("home {home}")),
    ];
    let nets = values.allow_nets.iter().map(|net| plain(net)).collect();
    let nets = Some(nets).filter(|nets: &BTreeSet<String>| !nets.is_empty());
    fields.into_iter().flatten().chain(from(nets)).collect()
}

fn from(nets: Option<BTreeSet<String>>) -> Vec<String> {
    match nets {
        Some(nets) => nets
            .iter()
            .map(|net| format!("logins from {net}"))
            .collect(),
        None => vec![ANYWHERE.to_owned()],
    }
}

/// A network as it is compared: `10.0.0.1` is `10.0.0.1/32`. What is none stays as it is.
fn plain(net: &str) -> String {
    match net_of(net) {
        Some((address, bits)) => format!("{address}/{bits}"),
        None => net.to_owned(),
    }
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
