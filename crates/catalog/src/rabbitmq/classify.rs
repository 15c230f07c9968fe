//! One total table from what the management interface answers to a [`Class`] (A-3).

use mesh_sdk::{Class, Error};
use serde_json::Value;

pub(super) use crate::failure::garbled;

use crate::http::Answer;

/// What a refusal means, by its status and the first word of its reason.
///
/// The answers were read from RabbitMQ 3.10.8.
pub(super) fn class_of(status: u16, reason: &str) -> Class {
    match (status, reason) {
        // Our own request was not what the server can read.
        (400, "not_json" | "tags_not_present" | "not_base64") => Class::Bug,
        (400, text) if text.starts_with("[{key_missing") => Class::Bug,
        (400, "no_such_user") | (404 | 410, _) => Class::Gone,
        (400 | 413 | 414 | 422 | 431, _) => Class::RefusedValue,
        (401 | 403, _) => Class::Denied,
        (405 | 501, _) => Class::Cannot,
        (429 | 503, _) => Class::Busy,
        (408 | 504, _) => Class::TimedOut,
        (502, _) => Class::Unreachable,
        _ => Class::Bug,
    }
}

/// An error for a refusal. Of the reason only the first word or sentence is told: what follows repeats
/// what was sent, and that may be a verifier.
pub(super) fn refused(what: &str, answer: &Answer) -> Error {
    if let Some(error) = answer.busy(what) {
        return error;
    }
    let reason = reason(&answer.body);
    let class = class_of(answer.status, &reason);
    let told: String = reason
        .chars()
        .filter(|c| !c.is_control())
        .take(120)
        .collect();
    let message = match told.as_str() {
        "" => format!("{what}: the server answers {}", answer.status),
        told => format!("{what}: the server answers {}, {told}", answer.status),
    };
    Error::new(class, message)
}

/// The reason in an answer's body, if it has one.
pub(super) fn reason(body: &[u8]) -> String {
    let parsed: Value = serde_json::from_slice(body).unwrap_or_default();
    let reason = match &parsed["reason"] {
        Value::Array(parts) => parts.first().unwrap_or(&Value::Null),
        one => one,
    };
    reason.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    //! The table, with answers as the real server sends them.
    use super::*;

    fn error(status: u16, body: &str) -> Error {
        let body = body.as_bytes().to_vec();
        refused(
            "do",
            &Answer {
                status,
                body,
                date: None,
                retry_after: None,
            },
        )
    }

    #[test]
    fn a3_answers_have_one_class_each() {
        let table = [
            (
                400,
                r#"{"error":"bad_request","reason":"vhost_or_user_not_found"}"#,
                Class::RefusedValue,
            ),
            (
                400,
                r#"{"error":"bad_request","reason":["invalid_regexp",[40],[[109,105],1]]}"#,
                Class::RefusedValue,
            ),
            (
                400,
                r#"{"error":"bad_request","reason":["no_such_vhost","nov"]}"#,
                Class::RefusedValue,
            ),
            (
                400,
                r#"{"error":"bad_request","reason":["no_such_user","nouser"]}"#,
                Class::Gone,
            ),
            (
                400,
                r#"{"error":"bad_request","reason":"tags_not_present"}"#,
                Class::Bug,
            ),
            (
                400,
                r#"{"error":"bad_request","reason":"[{key_missing,read}]"}"#,
                Class::Bug,
            ),
            (
                400,
                r#"{"error":"bad_request","reason":["not_base64","notb64!"]}"#,
                Class::Bug,
            ),
            (
                400,
                r#"{"error":"bad_request","reason":"not_json"}"#,
                Class::Bug,
            ),
            (
                401,
                r#"{"error":"not_authorized","reason":"Login failed"}"#,
                Class::Denied,
            ),
            (
                401,
                r#"{"error":"not_authorised","reason":"Not administrator user"}"#,
                Class::Denied,
            ),
            (
                404,
                r#"{"error":"Object Not Found","reason":"Not Found"}"#,
                Class::Gone,
            ),
            (405, "", Class::Cannot),
            (414, "", Class::RefusedValue),
            (431, "", Class::RefusedValue),
            (429, "", Class::Busy),
            (503, "<html>", Class::Busy),
            (504, "", Class::TimedOut),
            (502, "", Class::Unreachable),
            (500, "", Class::Bug),
            (301, "", Class::Bug),
        ];
        for (status, body, class) in table {
            assert_eq!(error(status, body).class(), class, "{status} {body}");
        }
    }

    #[test]
    fn s2_what_the_server_repeats_of_what_was_sent_is_left_out() {
        let told = error(
            400,
            r#"{"error":"bad_request","reason":["not_base64","planted"]}"#,
        );
        assert!(!format!("{told}{told:?}").contains("planted"), "{told}");
        assert!(told.message().contains("not_base64"), "{told}");
    }
}
