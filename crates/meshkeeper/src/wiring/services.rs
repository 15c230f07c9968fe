//! Where an app finds what it logs in to, and the URL that it logs in with.

use mesh_sdk::{Marker, Secret};

use crate::manifest::{Manifest, Needed, Provider};

/// An address without a path, and the path behind it: a database, a virtual host.
pub type Address = (String, String);

/// One for each node: the kind knows, and neither password nor mark matter for it.
pub fn services(manifest: &Manifest, provider: &Provider, needed: &Needed) -> Vec<Address> {
    let key = Secret::from("");
    let wish = needed.wish(None, &key);
    let marker = Marker::new(manifest.mesh.clone(), "none", provider.name.clone(), key);
    let nodes = provider.nodes.iter().map(|node| {
        let kind = &provider.kind.kind;
        let service = kind.service(&node.settings, &wish, &marker);
        (service.address, service.path)
    });
    nodes.collect()
}

/// Everything that a client needs, in one text. `None` for what lies on this machine and has no URL.
pub fn url((address, path): &Address, login: &str, password: &str) -> Option<String> {
    let (scheme, host) = address.split_once("://")?;
    let path = match path.is_empty() {
        true => String::new(),
        false => format!("/{}", encode(path)),
    };
    let (login, password) = (encode(login), encode(password));
    Some(format!("{scheme}://{login}:{password}@{host}{path}"))
}

/// The host of an address, without brackets, and its port where one is named.
pub fn host_and_port(address: &str) -> Option<(&str, Option<&str>)> {
    let (_, rest) = address.split_once("://")?;
    let rest = rest.split(['/', '?']).next().unwrap_or(rest);
    if let Some(rest) = rest.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        return Some((host, after.strip_prefix(':')));
    }
    Some(match rest.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (rest, None),
    })
}

/// Percent-encodes what is not unreserved in a URL, once (O-01).
fn encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(byte as char)
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    //! O-01: each part of a URL is encoded once.
    use super::*;

    #[test]
    fn a5_reserved_characters_are_encoded_once() {
        assert_eq!(
            encode("p@ss/w:rd?#[%41]&=+{x} '"),
            "p%40ss%2Fw%3Ard%3F%23%5B%2541%5D%26%3D%2B%7Bx%7D%20%27"
        );
        assert_eq!(encode("aZ09-._~"), "aZ09-._~");
        assert_eq!(encode("ü"), "%C3%BC");
    }

    #[test]
    fn an_address_is_taken_apart() {
        for (address, host, port) in [
            ("redis://127.0.0.1:6379", "127.0.0.1", Some("6379")),
            ("postgres://[::1]:5432", "::1", Some("5432")),
            ("postgres://[::1]", "::1", None),
            ("nats://mq.example", "mq.example", None),
        ] {
            assert_eq!(host_and_port(address), Some((host, port)), "{address}");
        }
        assert_eq!(host_and_port("/etc/nginx/web.htpasswd"), None);
    }
}
