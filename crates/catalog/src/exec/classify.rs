//! One total table from what a program says and from what can happen to it to a [`Class`].

use mesh_sdk::{Class, Error};

use super::protocol::Trouble;

/// The most that is kept of a program's message.
const MESSAGE: usize = 300;

/// The class of the word that a program answered. A word that we do not know is the program's fault.
pub(super) fn class_of(word: &str) -> Class {
    match word {
        "gone" => Class::Gone,
        "exists" => Class::Exists,
        "denied" => Class::Denied,
        "refused_value" => Class::RefusedValue,
        "busy" => Class::Busy,
        "read_only" => Class::ReadOnly,
        "unreachable" => Class::Unreachable,
        "timed_out" => Class::TimedOut,
        "cannot" => Class::Cannot,
        _ => Class::Bug,
    }
}

/// A text of the program's, in one bounded line.
pub(super) fn line(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(MESSAGE).collect()
}

/// The error that a program answered, in one bounded line.
pub(super) fn told(what: &str, trouble: &Trouble) -> Error {
    let field = match &trouble.field {
        Some(field) => format!("`{}`: ", line(field)),
        None => String::new(),
    };
    let message = format!("{what}: {field}{}", line(&trouble.message));
    Error::new(class_of(&trouble.class), message)
}

/// The program could not be started.
pub(super) fn not_started(error: &std::io::Error) -> Error {
    // A missing file, a missing right, no interpreter: until somebody mends it, nobody can be asked.
    Error::new(Class::Unreachable, format!("start the program: {error}"))
}

/// The program is gone.
pub(super) fn ended() -> Error {
    let message =
        "the program ended before it answered; what it said stands in the log at debug level";
    Error::new(Class::Unreachable, message)
}

/// The program did not say hello in time.
pub(super) fn late() -> Error {
    Error::new(Class::TimedOut, "the program did not say hello in time")
}

/// A line that is not of the protocol: told by its number, never by its content.
pub(super) fn garbled(line: u64, why: &str) -> Error {
    let message = format!("line {line} of the program's output {why}");
    Error::new(Class::Bug, message)
}

/// An answer of another form than asked for.
pub(super) fn odd(what: &str, why: &str) -> Error {
    Error::new(Class::Bug, format!("{what}: the program's answer {why}"))
}

/// The program does not have that ability.
pub(super) fn cannot(what: &str) -> Error {
    Error::new(Class::Cannot, format!("this program cannot {what}"))
}

#[cfg(test)]
mod tests {
    //! The table, and that a message stays one bounded line.
    use super::*;

    #[test]
    fn a3_every_word_of_a_program_has_one_class() {
        for class in [
            Class::Gone,
            Class::Exists,
            Class::Denied,
            Class::RefusedValue,
            Class::Busy,
            Class::ReadOnly,
            Class::Unreachable,
            Class::TimedOut,
            Class::Cannot,
            Class::Bug,
        ] {
            let word = serde_json::to_value(class).expect("a word");
            assert_eq!(class_of(word.as_str().expect("a text")), class);
        }
        assert_eq!(class_of("something new"), Class::Bug);
        assert_eq!(class_of(""), Class::Bug);
    }

    #[test]
    fn a3_a_message_is_one_bounded_line_that_names_the_field() {
        let trouble = Trouble {
            class: "refused_value".to_owned(),
            message: format!("no such right\n{}", "x".repeat(1000)),
            field: Some("rights".to_owned()),
        };
        let error = told("create", &trouble);
        assert_eq!(error.class(), Class::RefusedValue);
        assert!(
            error
                .message()
                .starts_with("create: `rights`: no such right x")
        );
        assert!(!error.message().contains('\n') && error.message().len() < 400);
    }
}
