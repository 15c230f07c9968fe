//! The table of `docs/performance.md`, between its markers.

use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// What is asked of a figure.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target {
    None,
    /// At most so many times the raw limit.
    Times(f64),
    /// At least so many times as fast as the other side.
    Faster(f64),
    /// At most so many milliseconds.
    Under(u64),
    /// Under 150 MiB and 5 % of a core.
    Rest {
        memory: u64,
        share: f64,
    },
}

/// One line of the table.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) what: String,
    pub(super) on: String,
    pub(super) ours: Duration,
    pub(super) raw: Option<Duration>,
    pub(super) target: Target,
    pub(super) note: String,
}

/// A time for people.
pub(super) fn told(time: Duration) -> String {
    let millis = time.as_secs_f64() * 1000.0;
    match millis {
        m if m >= 10_000.0 => format!("{:.1} s", m / 1000.0),
        m if m >= 1_000.0 => format!("{:.2} s", m / 1000.0),
        m if m >= 10.0 => format!("{m:.0} ms"),
        m => format!("{m:.1} ms"),
    }
}

impl Row {
    fn ratio(&self) -> Option<f64> {
        let raw = self.raw?.as_secs_f64();
        (raw > 0.0).then(|| self.ours.as_secs_f64() / raw)
    }

    fn verdict(&self) -> (String, String) {
        match self.target {
            Target::None => (String::new(), String::new()),
            Target::Times(most) => {
                let met = self.ratio().is_some_and(|ratio| ratio <= most);
                (format!("≤ {most} ×"), word(met))
            }
            Target::Faster(least) => {
                let met = self.ratio().is_some_and(|ratio| ratio * least <= 1.0);
                (format!("≤ 1/{least}"), word(met))
            }
            Target::Under(millis) => {
                let met = self.ours < Duration::from_millis(millis);
                (
                    format!("< {}", told(Duration::from_millis(millis))),
                    word(met),
                )
            }
            Target::Rest { memory, share } => {
                let met = memory < 150 << 20 && share < 5.0;
                ("< 150 MiB, < 5 %".to_owned(), word(met))
            }
        }
    }

    /// For the terminal.
    pub(super) fn line(&self) -> String {
        let raw = self
            .raw
            .map(|raw| format!(", raw {}", told(raw)))
            .unwrap_or_default();
        let ratio = self
            .ratio()
            .map(|ratio| format!(", {}", times(ratio)))
            .unwrap_or_default();
        let (_, verdict) = self.verdict();
        format!(
            "{}: {}{raw}{ratio} {verdict} ({})",
            self.what,
            told(self.ours),
            self.note
        )
    }

    fn markdown(&self) -> String {
        let (target, verdict) = self.verdict();
        format!(
            "| {} | {} | {} | {} | {} | {target} | {verdict} | {} |",
            self.what,
            self.on,
            told(self.ours),
            self.raw.map(told).unwrap_or_default(),
            self.ratio().map(times).unwrap_or_default(),
            self.note
        )
    }
}

fn times(ratio: f64) -> String {
    match ratio {
        small if small < 0.1 => format!("1/{:.0}", 1.0 / small),
        ratio => format!("{ratio:.2} ×"),
    }
}

fn word(met: bool) -> String {
    if met { "met" } else { "**missed**" }.to_owned()
}

/// Puts a table into the page, between the markers of its name.
pub(super) fn write(page: &Path, name: &str, head: &str, rows: &[Row]) -> Result<()> {
    put(page, name, &table(head, rows))
}

/// Puts a text into a page, between the markers of its name.
pub(super) fn put(page: &Path, name: &str, inner: &str) -> Result<()> {
    let (begin, end) = (marker(name, "begin"), marker(name, "end"));
    let text = std::fs::read_to_string(page).with_context(|| format!("{}", page.display()))?;
    let (before, rest) = text
        .split_once(&begin)
        .context("the page has no marker to begin at")?;
    let (_, after) = rest
        .split_once(&end)
        .context("the page has no marker to end at")?;
    std::fs::write(page, format!("{before}{begin}\n{inner}\n{end}{after}"))?;
    Ok(())
}

fn marker(name: &str, which: &str) -> String {
    format!("<!-- {name}: {which} -->")
}

fn table(head: &str, rows: &[Row]) -> String {
    let mut text = format!("{head}\n\n");
    text.push_str("| what | on | measured | raw limit | ratio | target | | how |\n");
    text.push_str("| --- | --- | --: | --: | --: | --- | --- | --- |\n");
    for row in rows {
        let _ = writeln!(text, "{}", row.markdown());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ours: u64, raw: u64, target: Target) -> Row {
        Row {
            what: "w".into(),
            on: "o".into(),
            ours: Duration::from_millis(ours),
            raw: Some(Duration::from_millis(raw)),
            target,
            note: "n".into(),
        }
    }

    #[test]
    fn a_miss_is_said_plainly() {
        let hit = row(15, 10, Target::Times(1.5)).markdown();
        assert_eq!(
            hit,
            "| w | o | 15 ms | 10 ms | 1.50 × | ≤ 1.5 × | met | n |"
        );
        assert!(
            row(16, 10, Target::Times(1.5))
                .markdown()
                .contains("**missed**")
        );
        assert!(
            row(100, 10, Target::Under(100))
                .markdown()
                .contains("**missed**")
        );
    }

    #[test]
    fn what_is_far_faster_is_told_as_a_part() {
        let hit = row(10, 2_000, Target::Faster(100.0)).markdown();
        assert_eq!(
            hit,
            "| w | o | 10 ms | 2.00 s | 1/200 | ≤ 1/100 | met | n |"
        );
        let missed = row(30, 2_000, Target::Faster(100.0)).markdown();
        assert!(
            missed.contains("1/67") && missed.contains("**missed**"),
            "{missed}"
        );
    }

    #[test]
    fn only_what_lies_between_the_markers_is_written() {
        let folder = std::env::temp_dir().join(format!("xtask-page-{}", std::process::id()));
        let (begin, end) = (marker("bench", "begin"), marker("bench", "end"));
        std::fs::write(&folder, format!("a\n{begin}\nold\n{end}\nz\n")).expect("written");
        write(&folder, "bench", "head", &[row(1, 1, Target::None)]).expect("a page");
        let text = std::fs::read_to_string(&folder).expect("read");
        std::fs::remove_file(&folder).expect("removed");
        assert!(text.starts_with("a\n") && text.ends_with("\nz\n") && !text.contains("old"));
        assert!(text.contains("| w | o | 1.0 ms |"));
    }
}
