//! Spans as OTLP wants them: `ExportTraceServiceRequest` of opentelemetry-proto 1.x, as protobuf.
//!
//! Seven small messages, written by hand: the field numbers are those of `trace/v1/trace.proto`,
//! `common/v1/common.proto` and `resource/v1/resource.proto`, and stable for good. The tests have another
//! implementation of protobuf read them.

/// A value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A whole number.
    Number(i64),
}

/// A span that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Of which trace.
    pub trace: u128,
    /// Which.
    pub id: u64,
    /// Within which other one.
    pub parent: Option<u64>,
    /// What it is of.
    pub name: String,
    /// A call on another program.
    pub is_call: bool,
    /// When it began, in nanoseconds since 1970.
    pub began: u64,
    /// When it ended.
    pub ended: u64,
    /// What is known of it.
    pub attributes: Vec<(String, Value)>,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

const INTERNAL: u64 = 1;
const CLIENT: u64 = 3;
const FAILED: u64 = 2;

/// One request with these spans, of a process that is described so.
pub fn request(resource: &[(String, Value)], spans: &[Span]) -> Vec<u8> {
    let mut scope = Message::default();
    scope.message(1, |scope| {
        scope.text(1, "mesh");
        scope.text(2, env!("CARGO_PKG_VERSION"));
    });
    for span in spans {
        scope.message(2, |to| write(to, span));
    }
    let mut request = Message::default();
    request.message(1, |of| {
        of.message(1, |of| {
            for attribute in resource {
                of.message(1, |to| key_value(to, attribute));
            }
        });
        of.bytes(2, &scope.0);
    });
    request.0
}

fn write(to: &mut Message, span: &Span) {
    to.bytes(1, &span.trace.to_be_bytes());
    to.bytes(2, &span.id.to_be_bytes());
    if let Some(parent) = span.parent {
        to.bytes(4, &parent.to_be_bytes());
    }
    to.text(5, &span.name);
    to.number(6, if span.is_call { CLIENT } else { INTERNAL });
    to.fixed(7, span.began);
    to.fixed(8, span.ended);
    for attribute in &span.attributes {
        to.message(9, |to| key_value(to, attribute));
    }
    if let Some(error) = &span.error {
        to.message(15, |status| {
            status.text(2, error);
            status.number(3, FAILED);
        });
    }
}

fn key_value(to: &mut Message, (key, value): &(String, Value)) {
    to.text(1, key);
    to.message(2, |to| match value {
        Value::Text(text) => to.text(1, text),
        // A negative number is its two's complement, in ten bytes.
        Value::Number(number) => to.number(3, number.cast_unsigned()),
    });
}

/// A protobuf message as it grows.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.0.push(number.to_le_bytes()[0]);
    }
    fn tag(&mut self, field: u64, wire: u64) {
        self.varint(field << 3 | wire);
    }
    fn number(&mut self, field: u64, number: u64) {
        self.tag(field, 0);
        self.varint(number);
    }
    fn fixed(&mut self, field: u64, number: u64) {
        self.tag(field, 1);
        self.0.extend(number.to_le_bytes());
    }
    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.tag(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }
    fn text(&mut self, field: u64, text: &str) {
        self.bytes(field, text.as_bytes());
    }
    fn message(&mut self, field: u64, fill: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        fill(&mut inner);
        self.bytes(field, &inner.0);
    }
}

#[cfg(test)]
mod tests {
    //! The bytes of small messages, as the encoding's own page gives them.
    use super::*;

    #[test]
    fn numbers_and_texts_are_written_as_protobuf_writes_them() {
        let mut message = Message::default();
        message.number(1, 150);
        assert_eq!(message.0, [0x08, 0x96, 0x01]);
        let mut message = Message::default();
        message.text(2, "testing");
        assert_eq!(message.0, *b"\x12\x07testing");
        let mut message = Message::default();
        message.message(3, |inner| inner.number(1, 150));
        assert_eq!(message.0, [0x1a, 0x03, 0x08, 0x96, 0x01]);
        let mut message = Message::default();
        message.number(1, (-1_i64).cast_unsigned());
        assert_eq!(message.0.len(), 11);
    }
}
