//! The only writer of output: answers to standard output, everything else to standard error.
//!
//! A reader that went away (`mesh status | head`) is no error; a full disk is.

use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use anstyle::{AnsiColor, Style};
use comfy_table::ContentArrangement;
use serde::Serialize;

use crate::cli::{Stop, When};
use crate::errors::{EXIT_FAILED, Fault, Problems};
use crate::settings::{Environment, colours};

/// How a word is meant, for its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// In order.
    Good,
    /// Worth a look.
    Warning,
    /// Wrong.
    Bad,
    /// Beside the point.
    Dim,
    /// A heading.
    Head,
}

impl Tone {
    fn style(self) -> Style {
        match self {
            Tone::Good => AnsiColor::Green.on_default(),
            Tone::Warning => AnsiColor::Yellow.on_default(),
            Tone::Bad => AnsiColor::Red.on_default().bold(),
            Tone::Dim => Style::new().dimmed(),
            Tone::Head => Style::new().bold(),
        }
    }
}

/// A table of an answer.
#[derive(Debug, Clone, Default)]
pub struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// One with these columns.
    pub fn new(head: impl Into<Vec<&'static str>>) -> Self {
        let (head, rows) = (head.into(), Vec::new());
        Self { head, rows }
    }
    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// One of the two outputs.
pub struct Stream {
    to: Box<dyn Write + Send>,
    is_terminal: bool,
}

impl Stream {
    /// Any writer that is no terminal.
    pub fn new(to: impl Write + Send + 'static) -> Self {
        let to = Box::new(to);
        Self {
            to,
            is_terminal: false,
        }
    }
    /// Standard output.
    pub fn stdout() -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        let to = Box::new(std::io::BufWriter::new(std::io::stdout()));
        Self { to, is_terminal }
    }
    /// Standard error.
    pub fn stderr() -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let to = Box::new(std::io::stderr());
        Self { to, is_terminal }
    }
}

struct Output {
    to: Box<dyn Write + Send>,
    failed: Option<std::io::Error>,
}

/// Writes all output.
pub struct Printer {
    out: Mutex<Output>,
    err: Mutex<Output>,
    out_colours: bool,
    err_colours: bool,
    out_terminal: bool,
    json: bool,
    quiet: bool,
}

impl Printer {
    /// Writes to these streams.
    pub fn new(out: Stream, err: Stream, when: When, from: &dyn Environment) -> Self {
        Self {
            out_colours: colours(when, out.is_terminal, from),
            err_colours: colours(when, err.is_terminal, from),
            out_terminal: out.is_terminal,
            out: Mutex::new(Output {
                to: out.to,
                failed: None,
            }),
            err: Mutex::new(Output {
                to: err.to,
                failed: None,
            }),
            json: false,
            quiet: false,
        }
    }
    /// With what `--json` and `--quiet` say.
    #[must_use]
    pub fn with(self, json: bool, quiet: bool) -> Self {
        Self {
            json,
            quiet,
            ..self
        }
    }
    /// Whether answers are JSON.
    pub fn is_json(&self) -> bool {
        self.json
    }
    /// Whether somebody reads the answer on a terminal.
    pub fn is_terminal(&self) -> bool {
        self.out_terminal
    }

    /// Whether log lines may be coloured.
    pub fn err_colours(&self) -> bool {
        self.err_colours
    }
    /// Begins the screen anew.
    pub fn clear(&self) {
        write(&self.out, "\u{1b}[2J\u{1b}[H");
    }
    /// Shows what was written so far.
    pub fn flush(&self) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = out.to.flush() {
            out.failed.get_or_insert(error);
        }
    }

    /// A text of the answer. A line break is added where it ends without one.
    pub fn answer(&self, text: &str) {
        write(&self.out, text);
    }
    /// The answer as JSON.
    pub fn json(&self, answer: &impl Serialize) {
        let text = match self.out_terminal {
            true => serde_json::to_string_pretty(answer),
            false => serde_json::to_string(answer),
        };
        match text {
            Ok(text) => self.answer(&text),
            Err(error) => self.error(&format!("the answer cannot be told as JSON: {error}")),
        }
    }
    /// A table of the answer. On a terminal it is fitted to its width; elsewhere every row is one line.
    pub fn table(&self, table: &Table) {
        let mut grid = comfy_table::Table::new();
        grid.load_style(comfy_table::presets::NOTHING);
        grid.set_content_arrangement(match self.out_terminal {
            true => ContentArrangement::Dynamic,
            false => ContentArrangement::Disabled,
        });
        grid.set_header(table.head.iter().map(|title| self.paint(Tone::Head, title)));
        grid.add_rows(table.rows.iter().cloned());
        for column in grid.column_iter_mut() {
            column.set_padding((0, 2));
        }
        let lines: Vec<String> = grid
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect();
        self.answer(&lines.join("\n"));
    }
    /// A text in a tone's colour, for an answer.
    pub fn paint(&self, tone: Tone, text: &str) -> String {
        paint(self.out_colours, tone, text)
    }

    /// Something worth saying that is no part of the answer.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            write(&self.err, text);
        }
    }
    /// A question to whoever sits at the terminal; the answer is typed behind it.
    pub fn question(&self, text: &str) {
        write_as_it_is(&self.err, text);
    }
    /// Something that is wrong.
    pub fn error(&self, text: &str) {
        let head = paint(self.err_colours, Tone::Bad, "error:");
        write(&self.err, &format!("{head} {text}"));
    }
    /// Why a command ends without having done its work.
    pub fn fault(&self, fault: &Fault) {
        let help = match fault {
            Fault::Failed { help, .. } => help.as_deref(),
            Fault::Manifest | Fault::Usage(_) => None,
        };
        if self.json {
            let told = serde_json::json!({
                "error": fault.to_string(), "help": help, "exit": fault.exit_code(),
            });
            return write(&self.err, &told.to_string());
        }
        self.error(&fault.to_string());
        if let Some(help) = help {
            let head = paint(self.err_colours, Tone::Head, "help:");
            write(&self.err, &format!("{head} {help}"));
        }
    }
    /// A manifest's problems as an answer.
    pub fn problems(&self, problems: &Problems) {
        self.render(problems, &self.out, self.out_colours);
    }
    /// A manifest's problems beside an answer, or instead of one.
    pub fn problems_aside(&self, problems: &Problems) {
        if self.json {
            for line in problems.lines() {
                let text = serde_json::to_string(&line).unwrap_or_default();
                write(&self.err, &text);
            }
            return;
        }
        self.render(problems, &self.err, self.err_colours);
    }
    fn render(&self, problems: &Problems, to: &Mutex<Output>, colour: bool) {
        for problem in problems.list() {
            write(
                to,
                &format!("{}\n\n", problems.render(problem, colour).trim_end()),
            );
        }
    }
    /// What parsing the arguments had to say.
    pub fn stop(&self, stop: &Stop) {
        let (to, colour) = match stop.is_answer {
            true => (&self.out, self.out_colours),
            false => (&self.err, self.err_colours),
        };
        write(to, if colour { &stop.coloured } else { &stop.text });
    }

    /// The exit code, once everything is written: an answer that could not be written is a failure,
    /// unless its reader simply went away.
    pub fn finish(&self, exit_code: u8) -> u8 {
        let failed = {
            let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
            let flushed = out.to.flush();
            out.failed.take().or(flushed.err())
        };
        match failed {
            Some(error) if error.kind() != ErrorKind::BrokenPipe => {
                self.error(&format!("the answer could not be written: {error}"));
                exit_code.max(EXIT_FAILED)
            }
            _ => exit_code,
        }
    }
}

fn paint(colours: bool, tone: Tone, text: &str) -> String {
    match colours {
        true => format!(
            "{}{text}{}",
            tone.style().render(),
            tone.style().render_reset()
        ),
        false => text.to_owned(),
    }
}

fn write(to: &Mutex<Output>, text: &str) {
    write_as_it_is(to, text);
    if !text.ends_with('\n') {
        write_as_it_is(to, "\n");
    }
}

fn write_as_it_is(to: &Mutex<Output>, text: &str) {
    let mut output = to.lock().unwrap_or_else(PoisonError::into_inner);
    if output.failed.is_some() {
        return;
    }
    if let Err(error) = output.to.write_all(text.as_bytes()) {
        output.failed = Some(error);
    }
}

#[cfg(test)]
mod tests {
    //! A reader that left is quiet, a full disk is not.
    use super::*;
    use std::collections::HashMap;

    struct Failing(ErrorKind);
    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_left_is_quiet_and_a_full_disk_is_a_failure() {
        for (kind, code) in [(ErrorKind::BrokenPipe, 0), (ErrorKind::StorageFull, 1)] {
            let (out, err) = (Stream::new(Failing(kind)), Stream::new(std::io::sink()));
            let printer = Printer::new(out, err, When::Auto, &HashMap::<&str, &str>::new());
            printer.answer("x");
            assert_eq!(printer.finish(0), code);
            printer.answer("x");
            assert_eq!(printer.finish(3), 3.max(code));
        }
    }
}
