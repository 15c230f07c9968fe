//! One total table from what the JSON gateway answers to a [`Class`] (A-3).

use mesh_sdk::{Class, Error};
use serde_json::Value;

pub(super) use crate::failure::garbled;

use crate::http::Answer;

/// What a refusal means, by the code of gRPC that etcd puts into the answer, and its text.
///
/// The texts were read from etcd 3.4.23 and 3.5.1.
pub(super) fn class_of(code: u64, text: &str) -> Class {
    let has = |part: &str| text.contains(part);
    match code {
        // Any code, but always the same text.
        _ if has("authentication failed")
            || has("invalid auth token")
            || has("permission denied") =>
        {
            Class::Denied
        }
        _ if has("already exists") => Class::Exists,
        _ if has("not found") || has("is not granted") => Class::Gone,
        _ if has("space exceeded") => Class::ReadOnly,
        // With authentication on, whoever has no token has no name.
        3 if has("user name is empty") => Class::Denied,
        3 | 11 => Class::RefusedValue,
        4 => Class::TimedOut,
        5 => Class::Gone,
        6 => Class::Exists,
        7 | 16 => Class::Denied,
        8 | 14 => Class::Busy,
        9 if has("authentication is not enabled") => Class::Denied,
        9 => Class::RefusedValue,
        12 => Class::Cannot,
        _ if has("too many requests") || has("no leader") || has("leader changed") => Class::Busy,
        _ => Class::Bug,
    }
}

/// An error for a refusal. etcd repeats nothing of what was sent.
pub(super) fn refused(what: &str, answer: &Answer) -> Error {
    let (code, text) = reason(&answer.body);
    let Some(code) = code else {
        if let Some(error) = answer.busy(what) {
            return error;
        }
        let class = match answer.status {
            404 | 405 | 501 => Class::Cannot,
            401 | 403 => Class::Denied,
            400 | 413 | 414 | 431 => Class::RefusedValue,
            _ => Class::Bug,
        };
        return Error::new(
            class,
            format!("{what}: the server answers {}", answer.status),
        );
    };
    let told: String = text.chars().filter(|c| !c.is_control()).take(160).collect();
    let told = told.trim_start_matches("etcdserver: ");
    Error::new(class_of(code, &text), format!("{what}: {told}"))
}

/// The code and the text of a refusal, if it is one of etcd's.
pub(super) fn reason(body: &[u8]) -> (Option<u64>, String) {
    let parsed: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = parsed["error"].as_str().unwrap_or_default().to_owned();
    (parsed["code"].as_u64(), text)
}

#[cfg(test)]
mod tests {
    //! The table, with answers as the real servers send them.
    use super::*;

    fn class(status: u16, body: &str) -> Class {
        let answer = Answer {
            status,
            body: body.as_bytes().to_vec(),
            #[cfg(feature = "rabbitmq")]
            date: None,
            retry_after: None,
        };
        refused("do", &answer).class()
    }

    #[test]
    fn a3_answers_have_one_class_each() {
        let told = |code: u64, text: &str| format!(r#"{{"error":"{text}","code":{code}}}"#);
        let table = [
            (
                412,
                told(9, "etcdserver: user name already exists"),
                Class::Exists,
            ),
            (
                400,
                told(9, "etcdserver: role name already exists"),
                Class::Exists,
            ),
            (412, told(9, "etcdserver: user name not found"), Class::Gone),
            (400, told(9, "etcdserver: role name not found"), Class::Gone),
            (
                400,
                told(9, "etcdserver: role is not granted to the user"),
                Class::Gone,
            ),
            (
                412,
                told(9, "etcdserver: permission is not granted to the role"),
                Class::Gone,
            ),
            (
                400,
                told(9, "etcdserver: authentication is not enabled"),
                Class::Denied,
            ),
            (
                400,
                told(
                    3,
                    "etcdserver: authentication failed, invalid user ID or password",
                ),
                Class::Denied,
            ),
            (
                500,
                told(
                    2,
                    "auth: authentication failed, password was given for no password user",
                ),
                Class::Denied,
            ),
            (
                400,
                told(3, "etcdserver: user name is empty"),
                Class::Denied,
            ),
            (
                400,
                told(3, "etcdserver: request is too large"),
                Class::RefusedValue,
            ),
            (403, told(7, "etcdserver: permission denied"), Class::Denied),
            (
                401,
                told(16, "etcdserver: invalid auth token"),
                Class::Denied,
            ),
            (503, told(14, "etcdserver: no leader"), Class::Busy),
            (503, told(14, "etcdserver: request timed out"), Class::Busy),
            (429, told(8, "etcdserver: too many requests"), Class::Busy),
            (
                429,
                told(8, "etcdserver: mvcc: database space exceeded"),
                Class::ReadOnly,
            ),
            (501, told(12, "Not Implemented"), Class::Cannot),
            (500, told(2, "something new"), Class::Bug),
            (404, "Not Found".to_owned(), Class::Cannot),
            (503, String::new(), Class::Busy),
            (502, String::new(), Class::Unreachable),
            (400, "not JSON".to_owned(), Class::RefusedValue),
        ];
        for (status, body, wanted) in table {
            assert_eq!(class(status, &body), wanted, "{status} {body}");
        }
    }
}
