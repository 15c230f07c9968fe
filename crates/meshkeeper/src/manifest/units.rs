//! Lengths of time as a manifest writes them: `"60s"`, `"5 min"`, `"PT30M"`, `"7 days"`.

use std::time::Duration;

use jiff::{SignedDuration, Span, SpanRelativeTo};

/// A key that holds a length of time, with what it may be.
#[derive(Debug, Clone, Copy)]
pub struct Length {
    /// The key.
    pub key: &'static str,
    /// What it is when it is not given.
    pub default: Duration,
    /// The least it may be.
    pub min: Duration,
    /// The most it may be.
    pub max: Duration,
    /// What it means, one sentence.
    pub meaning: &'static str,
}

/// Reads a length of time. The error says which rule it breaks.
pub fn parse(text: &str) -> Result<Duration, &'static str> {
    const FORM: &str = "it must be a number with its unit, such as \"60s\", \"5 min\" or \"PT30M\"";
    let span: Span = text.trim().parse().map_err(|_| FORM)?;
    if span.get_months() != 0 || span.get_years() != 0 {
        return Err("months and years have no fixed length: say it in days");
    }
    let length: SignedDuration = span
        .to_duration(SpanRelativeTo::days_are_24_hours())
        .map_err(|_| FORM)?;
    Duration::try_from(length).map_err(|_| "it must not be negative")
}

/// Prints a length of time as it would be written.
pub fn show(length: Duration) -> String {
    SignedDuration::try_from(length).map_or_else(|_| "for ever".to_owned(), |d| format!("{d:#}"))
}

impl Length {
    /// Reads a value of this key. The error says which rule it breaks.
    pub fn parse(&self, text: &str) -> Result<Duration, String> {
        let length = parse(text)?;
        if length < self.min {
            return Err(format!("at least {}", show(self.min)));
        }
        if length > self.max {
            return Err(format!("at most {}", show(self.max)));
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    //! The forms that people write are read, and what has no fixed length is not.
    use super::*;

    #[test]
    fn the_usual_forms_are_read() {
        for (text, seconds) in [
            ("60s", 60),
            ("5 min", 300),
            ("PT30M", 1800),
            ("1h 30m", 5400),
            ("1h30m", 5400),
            ("24 h", 86_400),
            ("2 days", 172_800),
            ("1w", 604_800),
            (" 3 seconds ", 3),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(parse("50ms"), Ok(Duration::from_millis(50)));
        for text in [
            "",
            "60",
            "soon",
            "-5s",
            "1 month",
            "2y",
            "5 min ago",
            "1e9s",
            "∞",
        ] {
            assert!(parse(text).is_err(), "{text} → {:?}", parse(text));
        }
    }

    #[test]
    fn bounds_are_said_in_the_same_words() {
        let length = Length {
            key: "verify_every",
            default: Duration::from_secs(60),
            min: Duration::from_secs(1),
            max: Duration::from_secs(86_400),
            meaning: "",
        };
        assert_eq!(length.parse("10ms"), Err("at least 1s".to_owned()));
        assert_eq!(length.parse("25h"), Err("at most 24h".to_owned()));
        assert_eq!(length.parse("24h"), Ok(Duration::from_secs(86_400)));
    }
}
