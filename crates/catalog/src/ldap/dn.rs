//! Names of entries: made so that nothing in a login can mean anything, and read back (O-04).

use std::fmt::Write as _;

/// `uid=LOGIN,BASE` (or with another attribute), every character that could mean something as its hex.
pub(super) fn of(attribute: &str, value: &str, base: &str) -> String {
    let mut dn = format!("{attribute}=");
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            dn.push(char::from(byte));
        } else {
            // Writing to a text cannot fail.
            let _ = write!(dn, "\\{byte:02x}");
        }
    }
    dn.push(',');
    dn.push_str(base);
    dn
}

/// The value of the first part of a name, if that has one attribute, this one, and the rest is `base`.
pub(super) fn value_below(attribute: &str, dn: &str, base: &str) -> Option<String> {
    let (first, rest) = split(dn)?;
    let (name, value) = first.split_once('=')?;
    if !name.trim().eq_ignore_ascii_case(attribute) || !same(rest, base) {
        return None;
    }
    unescape(value.trim_start())
}

/// Whether two names are the same entry's, as far as case and spaces beside separators go.
pub(super) fn same(one: &str, two: &str) -> bool {
    folded(one) == folded(two)
}

fn folded(dn: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = dn;
    while let Some((part, more)) = split(rest) {
        parts.push(part);
        rest = more;
    }
    parts.push(rest);
    let fold = |part: &str| match part.split_once('=') {
        Some((name, value)) => {
            let value = unescape(value.trim()).unwrap_or_else(|| value.to_owned());
            format!("{}={value}", name.trim()).to_lowercase()
        }
        None => part.trim().to_lowercase(),
    };
    parts.into_iter().map(fold).collect()
}

/// The part before the first comma that separates, and what follows.
fn split(dn: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    for (at, byte) in dn.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => return Some((&dn[..at], &dn[at + 1..])),
            _ => {}
        }
    }
    None
}

/// Undoes escapes; `None` where an unescaped `+` makes it more than one attribute.
fn unescape(value: &str) -> Option<String> {
    let bytes = value.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|b| char::from(*b).to_digit(16));
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'+' => return None,
            b'\\' => match (digit(at + 1), digit(at + 2)) {
                (Some(high), Some(low)) => {
                    out.push(u8::try_from(high * 16 + low).ok()?);
                    at += 3;
                }
                _ => {
                    out.push(*bytes.get(at + 1)?);
                    at += 2;
                }
            },
            other => {
                out.push(*other);
                at += 1;
            }
        }
    }
    String::from_utf8(out).ok()
}

/// A value in a search filter.
pub(super) fn in_filter(value: &str) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "\\{byte:02x}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    //! A login is data in a name, whatever it looks like.
    use super::*;

    const BASE: &str = "ou=apps,dc=example";

    #[test]
    fn o04_every_login_comes_back_as_it_went_in() {
        for login in [
            "jack+jill",
            "jack+cn=evil",
            "a,ou=other",
            "#hash",
            "semi;colon",
            "back\\slash",
            "eq=ual",
            "star*",
            "par(en)",
            "say\"so\"",
            "<a>",
            "sp ace",
            "%41",
            "\\2b",
        ] {
            let dn = of("uid", login, BASE);
            assert_eq!(
                value_below("uid", &dn, BASE).as_deref(),
                Some(login),
                "{dn}"
            );
            assert!(
                !dn[..dn.len() - BASE.len() - 1].contains(['+', ',', '*', '(']),
                "{dn}"
            );
        }
    }

    #[test]
    fn o04_names_as_a_server_writes_them_are_read() {
        for (dn, login) in [
            ("uid=jack\\+jill,ou=apps,dc=example", Some("jack+jill")),
            ("UID=jack\\2Bjill, OU=Apps, dc=Example", Some("jack+jill")),
            ("uid=a\\,ou\\=x,ou=apps,dc=example", Some("a,ou=x")),
            ("uid=jack+cn=evil,ou=apps,dc=example", None),
            ("cn=jack,ou=apps,dc=example", None),
            ("uid=jack,ou=other,dc=example", None),
            ("uid=a,uid=b,ou=apps,dc=example", None),
            ("ou=apps,dc=example", None),
        ] {
            assert_eq!(value_below("uid", dn, BASE).as_deref(), login, "{dn}");
        }
        assert!(same("OU=a, DC=b", "ou=a,dc=b") && !same("ou=a,dc=b", "ou=a"));
        assert_eq!(in_filter("a*(b)"), "a\\2a\\28b\\29");
    }
}
