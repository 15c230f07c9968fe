//! The two forms of the exposition: OpenMetrics, and the older text format that every reader takes.
//!
//! The library writes OpenMetrics. A Prometheus asks for that; who does not ask gets the text format 0.0.4, in
//! which a counter's description carries the whole name, and which has neither units nor an end.

use std::fmt::Write as _;

/// The content type of OpenMetrics.
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Which form is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format 0.0.4.
    Plain,
}

impl Wanted {
    /// What a request's `Accept` asks for.
    pub fn by(accept: Option<&str>) -> Self {
        let named = |part: &str| {
            let mut words = part.split(';').map(str::trim);
            words.next() == Some("application/openmetrics-text")
                && !words.any(|word| matches!(word, "q=0" | "q=0.0"))
        };
        match accept.is_some_and(|accept| accept.split(',').any(named)) {
            true => Wanted::OpenMetrics,
            false => Wanted::Plain,
        }
    }
    /// Its content type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Wanted::OpenMetrics => OPEN_METRICS,
            Wanted::Plain => PLAIN,
        }
    }
}

/// The text format 0.0.4 of what is OpenMetrics. The help of a metric comes before its type, so that one
/// waits for the other.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut help = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, "untyped"));
            let ending = if kind == "counter" { "_total" } else { "" };
            let help = help.take().filter(|(of, _)| *of == name);
            // Writing to a string cannot fail.
            if let Some((_, help)) = help {
                let _ = writeln!(plain, "# HELP {name}{ending} {help}");
            }
            let _ = writeln!(plain, "# TYPE {name}{ending} {kind}");
        } else if !line.starts_with('#') {
            plain.push_str(line);
            plain.push('\n');
        }
    }
    plain
}
