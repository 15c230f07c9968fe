//! Where a server is: `scheme://host:port/path`, and nothing more. What lies on this machine is
//! `scheme:path`.
//!
//! A URL in a manifest never carries a login, a password or options: those have keys of their own. No
//! error here repeats the text, since a password may stand in it.

use std::net::Ipv6Addr;

/// A URL taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// The word before `://`, in lower case.
    pub scheme: String,
    /// Host name or address, in lower case, without brackets; empty for a file.
    pub host: String,
    /// The port, if the URL names one.
    pub port: Option<u16>,
    /// What follows the first slash, decoded; may be empty. Of a file the whole path, decoded.
    pub path: String,
}

/// The path in `scheme:path` or `scheme:///path`; relative ones are the manifest folder's. The error says
/// what is wrong and never repeats the text.
pub fn file(text: &str, scheme: &str) -> Result<Url, &'static str> {
    let rest = text.strip_prefix(scheme).and_then(|r| r.strip_prefix(':'));
    let path = rest.ok_or("it must look like scheme:path")?;
    let path = match path.strip_prefix("//") {
        Some(path) if !path.starts_with('/') => {
            return Err("no host in a file's address: scheme:path, or scheme:///path");
        }
        Some(path) => path,
        None => path,
    };
    if path.is_empty() || path.chars().any(char::is_control) {
        return Err("the path must not be empty, and holds no control characters");
    }
    Ok(Url {
        scheme: scheme.to_owned(),
        host: String::new(),
        port: None,
        path: decode(path)?,
    })
}

/// Takes a URL apart. The error says what is wrong and never repeats the URL.
pub fn parse(text: &str) -> Result<Url, &'static str> {
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("a URL holds no spaces and no control characters");
    }
    if text.contains('@') {
        return Err(
            "no login or password in a URL: give them with `admin = { user = …, password = { file = … } }`",
        );
    }
    if text.contains(['?', '#']) {
        return Err("no `?` or `#` part in a URL: options have keys of their own in this table");
    }
    let (scheme, rest) = text
        .split_once("://")
        .ok_or("it must look like scheme://host:port")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) || !scheme.chars().all(plain) {
        return Err("the part before `://` must be a scheme: letters, digits, `+`, `-`, `.`");
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (host, port) = host_and_port(authority)?;
    Ok(Url {
        scheme: scheme.to_ascii_lowercase(),
        host,
        port,
        path: decode(path)?,
    })
}

fn host_and_port(authority: &str) -> Result<(String, Option<u16>), &'static str> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest
            .split_once(']')
            .ok_or("the `[` of the address is not closed")?;
        let address: Ipv6Addr = host
            .parse()
            .map_err(|_| "what stands in brackets must be an IPv6 address")?;
        let port = match after.strip_prefix(':') {
            Some(text) => Some(port(text)?),
            None if after.is_empty() => None,
            None => return Err("after `]` only `:port` may follow"),
        };
        return Ok((address.to_string(), port));
    }
    if authority.matches(':').count() > 1 {
        return Err("an IPv6 address stands in brackets: scheme://[::1]:port");
    }
    let (host, port_text) = match authority.split_once(':') {
        Some((host, text)) => (host, Some(text)),
        None => (authority, None),
    };
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    if host.is_empty() {
        return Err("the host is missing: scheme://host:port");
    }
    if host.len() > 253 || !host.bytes().all(fits) {
        return Err(
            "a host is made of letters, digits, `-`, `.` and `_` (other scripts in their xn-- form)",
        );
    }
    let port = port_text.map(port).transpose()?;
    Ok((host.to_ascii_lowercase(), port))
}

fn port(text: &str) -> Result<u16, &'static str> {
    const RULE: &str = "the port must be a number from 1 to 65535";
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(RULE);
    }
    text.parse().ok().filter(|port| *port > 0).ok_or(RULE)
}

/// Undoes percent-encoding, once.
pub fn decode(path: &str) -> Result<String, &'static str> {
    let mut out = Vec::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err("a `%` in the path must be followed by two hexadecimal digits");
        };
        out.push((high * 16 + low) as u8);
    }
    let path = String::from_utf8(out).map_err(|_| "the path is not UTF-8 once decoded")?;
    if path.contains('\0') {
        return Err("the path must not hold a NUL");
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    //! What a URL may be, and that no error repeats it.
    use super::*;

    fn url(scheme: &str, host: &str, port: Option<u16>, path: &str) -> Url {
        Url {
            scheme: scheme.to_owned(),
            host: host.to_owned(),
            port,
            path: path.to_owned(),
        }
    }

    #[test]
    fn addresses_of_every_form_are_read() {
        for (text, want) in [
            (
                "redis://127.0.0.1:6379",
                url("redis", "127.0.0.1", Some(6379), ""),
            ),
            (
                "REDISS://Cache.Example",
                url("rediss", "cache.example", None, ""),
            ),
            (
                "postgres://[::1]:5432/my%20db",
                url("postgres", "::1", Some(5432), "my db"),
            ),
            (
                "amqps://[2001:DB8::7]",
                url("amqps", "2001:db8::7", None, ""),
            ),
            ("http://h:1/a/b", url("http", "h", Some(1), "a/b")),
            ("redis://h/", url("redis", "h", None, "")),
        ] {
            assert_eq!(parse(text), Ok(want), "{text}");
        }
    }

    #[test]
    fn a_file_is_named_by_its_path() {
        for (text, want) in [
            ("exec:adapter.py", "adapter.py"),
            ("exec:./a%20b", "./a b"),
            ("exec:/opt/a", "/opt/a"),
            ("exec:///opt/a", "/opt/a"),
        ] {
            assert_eq!(
                file(text, "exec"),
                Ok(url("exec", "", None, want)),
                "{text}"
            );
        }
        for text in ["exec:", "exec://host/a", "exe:a", "exec:a\0b\n", "exec:%zz"] {
            assert!(file(text, "exec").is_err(), "{text}");
        }
    }

    #[test]
    fn o34_s1_what_does_not_belong_into_a_url_is_refused_unrepeated() {
        for text in [
            "",
            "planted",
            "planted:6379",
            "://planted",
            "redis://",
            "redis://:6379",
            "redis://user:planted@h:6379",
            "redis://h:6379/?password=planted",
            "redis://h:6379#planted",
            "redis://h:0",
            "redis://h:65536",
            "redis://h:+80",
            "redis://h:",
            "redis://::1:6379",
            "redis://[::1",
            "redis://[planted]:1",
            "redis://[::1]planted",
            "redis://[fe80::1%eth0]:1",
            "redis://pl anted",
            "redis://plänted",
            "redis://h/%zz",
            "redis://h/%00",
            "redis://h/%ff",
            "re dis://h",
        ] {
            let error = parse(text).expect_err(text);
            assert!(!error.contains("planted"), "{text}");
        }
    }
}
