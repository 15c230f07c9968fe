//! Env files: `NAME=value`, one after the other, written so that every reader reads the same bytes.

use mesh_sdk::Secret;

use super::readers::{Form, Reader};
use super::{FormatFault, Values};

/// The whole file. Each value is written in the plainest way that all these readers agree on.
pub(super) fn file(values: &Values, readers: &[Reader]) -> Result<Secret, FormatFault> {
    let mut out = Vec::new();
    for (name, value) in values {
        let text = value
            .expose_str()
            .ok_or_else(|| FormatFault::NotText(name.clone()))?;
        let written = written(text, readers).map_err(|who| FormatFault::Reader {
            name: name.clone(),
            readers: who
                .iter()
                .map(|r| r.as_str())
                .collect::<Vec<_>>()
                .join(" and "),
        })?;
        out.extend_from_slice(name.as_bytes());
        out.push(b'=');
        out.extend_from_slice(written.as_bytes());
        out.push(b'\n');
    }
    Ok(Secret::new(out))
}

/// What stands behind the `=`. Errors: the readers that stand in the way of the form that most of the
/// others agree on.
fn written(value: &str, readers: &[Reader]) -> Result<String, Vec<Reader>> {
    let mut fewest: Option<Vec<Reader>> = None;
    for form in Form::ALL {
        let against = |reader: &&Reader| reader.reads(form, value).as_deref() != Some(value);
        let against: Vec<Reader> = readers.iter().filter(against).copied().collect();
        if against.is_empty() {
            return Ok(form.write(value));
        }
        if fewest.as_ref().is_none_or(|few| against.len() < few.len()) {
            fewest = Some(against);
        }
    }
    Err(fewest.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    //! A value is written in the plainest form that all its readers take, or refused with who cannot.
    use super::*;

    const QUOTING: [Reader; 3] = [Reader::Systemd, Reader::Shell, Reader::Dotenv];

    #[test]
    fn the_plainest_form_that_all_readers_take_is_written() {
        for (value, form) in [
            ("kd83JKs9", "kd83JKs9"),
            (
                "redis://web:kd8@127.0.0.1:6379/0",
                "redis://web:kd8@127.0.0.1:6379/0",
            ),
            ("", ""),
            ("a b", "'a b'"),
            ("a$b", "'a$b'"),
            ("it's", "\"it's\""),
            ("it's \"so\" \\.", "\"it's \\\"so\\\" \\\\.\""),
            ("a\\\\b", "\"a\\\\\\\\b\""),
        ] {
            assert_eq!(written(value, &QUOTING), Ok(form.to_owned()), "{value:?}");
        }
        assert_eq!(written("kd83", &Reader::ALL), Ok("kd83".to_owned()));
        assert_eq!(
            written("a b'\"", &[Reader::Docker]),
            Ok("a b'\"".to_owned())
        );
    }

    #[test]
    fn who_cannot_take_it_is_named() {
        assert_eq!(written("a b", &Reader::ALL), Err(vec![Reader::Docker]));
        assert_eq!(written("${x}", &QUOTING), Err(vec![Reader::Dotenv]));
        assert_eq!(written("end\\", &QUOTING), Err(vec![Reader::Dotenv]));
        assert_eq!(written("it's $5", &QUOTING), Err(vec![Reader::Dotenv]));
        assert_eq!(written("a\u{1}b", &QUOTING), Err(vec![Reader::Systemd]));
        assert_eq!(
            written("a\nb", &[Reader::Docker]),
            Err(vec![Reader::Docker])
        );
    }
}
