//! The bus alone: what each consumer costs there, for `docs/scale.md`.

use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// Entries of each kind.
const FULL: &str = "100000";
const QUICK: &str = "2000";

/// One figure.
pub(super) struct Figure {
    what: String,
    on: String,
    figure: String,
    how: String,
}

impl Figure {
    fn of(line: &str) -> Option<Self> {
        let mut fields = line.split('\t').map(str::to_owned);
        let (what, on, figure, how) = (
            fields.next()?,
            fields.next()?,
            fields.next()?,
            fields.next()?,
        );
        let rest = fields.next();
        rest.is_none().then_some(Self {
            what,
            on,
            figure,
            how,
        })
    }
    /// For the terminal.
    pub(super) fn line(&self) -> String {
        format!("{}, {}: {} ({})", self.what, self.on, self.figure, self.how)
    }
}

/// Runs the bus's own measurement. A quick one does not build it anew for speed: only that it runs counts.
pub(super) fn all(root: &Path, quick: bool) -> Result<Vec<Figure>> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "--locked", "--package", "mesh-bus"]);
    command.args(["--example", "scale"]);
    if !quick {
        command.arg("--release");
    }
    let entries = if quick { QUICK } else { FULL };
    let output = command.args(["--", entries]).current_dir(root).output()?;
    ensure!(
        output.status.success(),
        "the bus cannot be measured: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let figures = text
        .lines()
        .map(|line| Figure::of(line).with_context(|| format!("no figure: {line}")));
    figures.collect()
}

/// The page's table.
pub(super) fn table(head: &str, figures: &[Figure]) -> String {
    let mut text = format!("{head}\n\n| what | on | measured | how |\n| --- | --- | --: | --- |\n");
    for one in figures {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            one.what, one.on, one.figure, one.how
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_four_fields_is_a_figure_and_nothing_else_is() {
        let figure = Figure::of("writes\tembedded\t300/s\tone writer").expect("a figure");
        let table = table("head", &[figure]);
        assert!(table.ends_with("| writes | embedded | 300/s | one writer |\n"));
        for other in ["", "a\tb\tc", "a\tb\tc\td\te"] {
            assert!(Figure::of(other).is_none(), "{other}");
        }
    }
}
