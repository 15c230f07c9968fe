//! All output of xtask: results on stdout, problems on stderr.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the one place of xtask that prints"
)]

/// A line of result.
pub(crate) fn line(text: &str) {
    println!("{text}");
}

/// A line about something that is wrong.
pub(crate) fn problem(text: &str) {
    eprintln!("{text}");
}
