//! Which account the server takes for whom: the one with the more exact host, whoever made it.

/// Whether an account for `other` is met instead of one for `ours` by some who connect, given that both
/// have the same user or the other has none. The server sorts by how exact a host is; for the same host
/// a named user comes before the anonymous one.
pub(super) fn shadows(other: &str, ours: &str) -> bool {
    !other.eq_ignore_ascii_case(ours) && is_pattern(ours) && covers(ours, other)
}

fn is_pattern(host: &str) -> bool {
    host.contains(['%', '_', '/'])
}

/// Whether all (or for a netmask some) that `inner` means, `outer` means as well. Wildcards in `inner` are
/// taken as they are written, so that only a `%` of `outer` can stand for them.
fn covers(outer: &str, inner: &str) -> bool {
    if let Some((net, mask)) = outer.split_once('/') {
        let inner = inner.split('/').next().unwrap_or(inner);
        return same_net(net, inner, mask).unwrap_or(false);
    }
    let inner = inner.split('/').next().unwrap_or(inner);
    like(outer.as_bytes(), inner.as_bytes())
}

fn same_net(net: &str, address: &str, mask: &str) -> Option<bool> {
    let bits = |text: &str| text.parse::<std::net::Ipv4Addr>().ok().map(u32::from);
    let (net, address, mask) = (bits(net)?, bits(address)?, bits(mask)?);
    Some(net & mask == address & mask)
}

/// SQL's `LIKE` without case.
fn like(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        (Some((b'%', rest)), _) => (0..=text.len()).any(|at| like(rest, &text[at..])),
        (Some((b'_', rest)), Some((c, more))) if *c != b'%' => like(rest, more),
        (Some((p, rest)), Some((c, more))) => p.eq_ignore_ascii_case(c) && like(rest, more),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    //! More exact hosts, as the server sorts them.
    use super::*;

    #[test]
    fn o13_a_more_exact_host_shadows() {
        for (other, ours) in [
            ("localhost", "%"),
            ("10.0.0.%", "10.0.%"),
            ("10.0.0.5", "10.0.%"),
            ("LOCALHOST", "local%"),
            ("10.0.0.0/255.255.255.0", "%"),
            ("10.0.0.7", "10.0.0.0/255.255.255.0"),
            ("10.0.0.5", "10.0.0._"),
        ] {
            assert!(shadows(other, ours), "{other} before {ours}");
        }
        for (other, ours) in [
            ("%", "%"),
            ("%", "localhost"),
            ("localhost", "localhost"),
            ("localhost", "10.0.%"),
            ("10.0.%", "10.0.0.%"),
            ("10.0.1.7", "10.0.0.0/255.255.255.0"),
            ("%", "10.0.0._"),
        ] {
            assert!(!shadows(other, ours), "{other} not before {ours}");
        }
    }
}
