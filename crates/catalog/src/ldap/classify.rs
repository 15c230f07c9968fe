//! One total table from what can go wrong with a directory to a [`Class`].

use ldap3::{LdapError, LdapResult};

pub(super) use crate::failure::late;
use mesh_sdk::{Class, Error};

/// What a result code of RFC 4511 means, and for the vague ones the text beside it.
///
/// Texts as OpenLDAP 2.5 sends them.
pub(super) fn class_of(code: u32, text: &str) -> Class {
    match code {
        // inappropriateAuthentication … insufficientAccessRights, strongerAuthRequired, confidentialityRequired,
        // adminLimitExceeded and sizeLimitExceeded (the admin's limits)
        4 | 8 | 11 | 13 | 48 | 49 | 50 => Class::Denied,
        // timeLimitExceeded
        3 => Class::Busy,
        // referral: this one takes no writes
        10 => Class::ReadOnly,
        // attribute errors, constraints, syntax, naming, object class: what was sent
        16 | 17 | 18 | 19 | 21 | 34 | 64 | 65 | 66 | 67 | 69 => Class::RefusedValue,
        32 | 33 => Class::Gone,
        20 | 68 => Class::Exists,
        51 | 52 => Class::Busy,
        53 if read_only(text) => Class::ReadOnly,
        53 => Class::Denied,
        _ => Class::Bug,
    }
}

fn read_only(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["restricted", "shadow", "read-only", "read only"]
        .iter()
        .any(|word| text.contains(word))
}

/// An error for a server's refusal. Its text repeats values now and then: only names and rules are kept.
pub(super) fn refused(what: &str, result: &LdapResult) -> Error {
    let class = class_of(result.rc, &result.text);
    let text = match result.text.contains('{') {
        // A value of `userPassword` begins with its scheme.
        true => "",
        false => result.text.as_str(),
    };
    let told: String = text.chars().filter(|c| !c.is_control()).take(200).collect();
    let told = if told.is_empty() {
        "no reason given"
    } else {
        &told
    };
    Error::new(class, format!("{what}: {told} (LDAP code {})", result.rc))
}

/// An error of the connection or of the client.
pub(super) fn broken(what: &str, error: &LdapError) -> Error {
    let class = match error {
        LdapError::LdapResult { result } => return refused(what, result),
        LdapError::Timeout { .. } => Class::TimedOut,
        LdapError::Io { source } if source.kind() == std::io::ErrorKind::TimedOut => {
            Class::TimedOut
        }
        LdapError::Io { .. }
        | LdapError::EndOfStream
        | LdapError::OpSend { .. }
        | LdapError::ResultRecv { .. }
        | LdapError::IdScrubSend { .. }
        | LdapError::MiscSend { .. } => Class::Unreachable,
        _ => Class::Bug,
    };
    // What a client's error repeats is not ours to judge: the kind says enough.
    let told = match error {
        LdapError::Io { source } => source.to_string(),
        _ if class == Class::Unreachable => "the connection broke".to_owned(),
        _ if class == Class::TimedOut => "no answer in time".to_owned(),
        _ => "the answer makes no sense".to_owned(),
    };
    Error::new(class, format!("{what}: {told}"))
}

#[cfg(test)]
mod tests {
    //! The table, with codes and texts as slapd sends them.
    use super::*;

    #[test]
    fn a3_result_codes_have_one_class_each() {
        for (code, text, class) in [
            (4, "", Class::Denied),
            (10, "", Class::ReadOnly),
            (
                16,
                "modify/delete: description: no such attribute",
                Class::RefusedValue,
            ),
            (17, "nosuch: attribute type undefined", Class::RefusedValue),
            (
                19,
                "Password fails quality checking policy",
                Class::RefusedValue,
            ),
            (
                20,
                "modify/add: member: value #0 already exists",
                Class::Exists,
            ),
            (21, "uid: value #0 invalid per syntax", Class::RefusedValue),
            (32, "", Class::Gone),
            (34, "invalid DN", Class::RefusedValue),
            (49, "", Class::Denied),
            (50, "no write access to parent", Class::Denied),
            (51, "", Class::Busy),
            (53, "operation restricted", Class::ReadOnly),
            (53, "shadow context; no update referral", Class::ReadOnly),
            (
                53,
                "unauthenticated bind (DN with no password) disallowed",
                Class::Denied,
            ),
            (
                65,
                "object class 'groupOfNames' requires attribute 'member'",
                Class::RefusedValue,
            ),
            (68, "", Class::Exists),
            (80, "internal error", Class::Bug),
            (9999, "", Class::Bug),
        ] {
            assert_eq!(class_of(code, text), class, "{code} {text}");
        }
    }
}
