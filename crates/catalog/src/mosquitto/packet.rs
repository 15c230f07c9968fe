//! The few packets of MQTT 5 that are needed here, as bytes.

/// A packet that was read: its first byte, and what follows its length.
pub(super) struct Packet {
    pub(super) head: u8,
    pub(super) body: Vec<u8>,
}

/// The kinds, as the upper half of the first byte.
pub(super) const CONNACK: u8 = 0x20;
pub(super) const PUBLISH: u8 = 0x30;
pub(super) const PUBACK: u8 = 0x40;
pub(super) const SUBACK: u8 = 0x90;
pub(super) const DISCONNECT: u8 = 0xe0;

/// A whole PINGREQ, and a whole DISCONNECT.
pub(super) const PING: [u8; 2] = [0xc0, 0];
pub(super) const BYE: [u8; 2] = [0xe0, 0];

/// How long a client may be silent, in seconds.
const KEEP_ALIVE: u16 = 120;

impl Packet {
    pub(super) fn kind(&self) -> u8 {
        self.head & 0xf0
    }
    /// The reason code of a CONNACK.
    pub(super) fn connected(&self) -> Option<u8> {
        self.body.get(1).copied()
    }
    /// The reason code of an acknowledgement; without one it is success.
    pub(super) fn reason(&self) -> u8 {
        match self.kind() {
            SUBACK => self.body.last().copied().unwrap_or(0x80),
            _ => self.body.get(2).copied().unwrap_or(0),
        }
    }
    /// Topic and payload of a PUBLISH with QoS 0.
    pub(super) fn message(&self) -> Option<(&[u8], &[u8])> {
        if self.head & 0b110 != 0 {
            return None;
        }
        let (size, rest) = self.body.split_first_chunk::<2>()?;
        let (topic, rest) = rest.split_at_checked(u16::from_be_bytes(*size).into())?;
        let (properties, used) = length(rest)?;
        Some((topic, rest.get(used + properties..)?))
    }
}

/// A variable-length number and how many bytes it took.
pub(super) fn length(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut number = 0;
    for (at, byte) in bytes.iter().take(4).enumerate() {
        number |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((number, at + 1));
        }
    }
    None
}

fn text(into: &mut Vec<u8>, bytes: &[u8]) -> Option<()> {
    let size = u16::try_from(bytes.len()).ok()?;
    into.extend(size.to_be_bytes());
    into.extend(bytes);
    Some(())
}

fn packet(head: u8, body: &[u8]) -> Option<Vec<u8>> {
    let mut whole = vec![head];
    let mut left = body.len();
    if left >= 1 << 28 {
        return None;
    }
    loop {
        let byte = u8::try_from(left & 0x7f).unwrap_or(0);
        left >>= 7;
        whole.push(if left > 0 { byte | 0x80 } else { byte });
        if left == 0 {
            break;
        }
    }
    whole.extend(body);
    Some(whole)
}

/// A CONNECT that leaves nothing behind; `None` where a text is too long for MQTT.
pub(super) fn connect(
    client: &str,
    user: Option<&[u8]>,
    password: Option<&[u8]>,
) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    text(&mut body, b"MQTT")?;
    let flag = |is: bool, bit: u8| if is { bit } else { 0 };
    let flags = 0x02 | flag(user.is_some(), 0x80) | flag(password.is_some(), 0x40);
    body.extend([5, flags]);
    body.extend(KEEP_ALIVE.to_be_bytes());
    body.push(0);
    text(&mut body, client.as_bytes())?;
    for given in [user, password].into_iter().flatten() {
        text(&mut body, given)?;
    }
    packet(0x10, &body)
}

/// A SUBSCRIBE with QoS 0.
pub(super) fn subscribe(id: u16, topic: &str) -> Option<Vec<u8>> {
    let mut body = id.to_be_bytes().to_vec();
    body.push(0);
    text(&mut body, topic.as_bytes())?;
    body.push(0);
    packet(0x82, &body)
}

/// A PUBLISH with QoS 1, so that the broker says if it was not allowed.
pub(super) fn publish(id: u16, topic: &str, payload: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::with_capacity(payload.len() + topic.len() + 8);
    text(&mut body, topic.as_bytes())?;
    body.extend(id.to_be_bytes());
    body.push(0);
    body.extend(payload);
    packet(0x32, &body)
}

#[cfg(test)]
mod tests {
    //! Lengths at their borders, and packets against the bytes of the specification.
    use super::*;

    #[test]
    fn lengths_are_as_the_specification_has_them() {
        for (size, bytes) in [(0, 2), (127, 2), (128, 3), (16_383, 3), (16_384, 4)] {
            let made = packet(0x30, &vec![0; size]).expect("a packet");
            assert_eq!(made.len(), size + bytes, "{size}");
            assert_eq!(length(&made[1..]), Some((size, bytes - 1)), "{size}");
        }
        assert_eq!(length(&[0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(length(&[0x80]), None);
    }

    #[test]
    fn packets_are_as_the_specification_has_them() {
        let made = connect("c", Some(b"u"), Some(b"p")).expect("a packet");
        let wanted = b"\x10\x14\0\x04MQTT\x05\xc2\0\x78\0\0\x01c\0\x01u\0\x01p";
        assert_eq!(made, wanted);
        assert_eq!(connect("c", Some(&[b'x'; 65_536]), None), None);
        assert_eq!(
            subscribe(7, "a/#").expect("a packet"),
            b"\x82\x09\0\x07\0\0\x03a/#\0"
        );
        let body = b"\0\x01t\x03\x01\x02\x03hello".to_vec();
        let packet = Packet { head: 0x30, body };
        assert_eq!(packet.message(), Some((&b"t"[..], &b"hello"[..])));
        for body in [&b""[..], b"\0\x05t", b"\0\x01t\x09"] {
            assert!(
                Packet {
                    head: 0x30,
                    body: body.to_vec()
                }
                .message()
                .is_none()
            );
        }
    }
}
