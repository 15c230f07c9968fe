//! The table of what the conformance suite found on each adapter's servers, from the reports that the
//! tests compare themselves with.

use crate::docs::MADE;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Where the tests keep their reports.
pub(crate) const REPORTS: &str = "crates/catalog/tests/reports";

/// One report: the trials in their order, each with the reason if it was skipped.
type Trials<'t> = Vec<(&'t str, Option<&'t str>)>;

/// The page, from reports by file name.
pub(crate) fn page(reports: &BTreeMap<String, String>) -> Result<String> {
    let mut columns = Vec::new();
    for (file, text) in reports {
        let name = file.strip_suffix(".txt");
        let name = name.with_context(|| format!("{REPORTS}/{file}: not a report"))?;
        let trials = read(text).with_context(|| format!("{REPORTS}/{file}"))?;
        columns.push((name, trials));
    }
    let mut page = format!(
        "{MADE}\n# Conformance\n\nThe suite on every adapter, against real servers: `ran`, or a dash where the \
         adapter or its backend\nhas nothing of the kind; the reasons stand below. A trial that fails fails the \
         build.\n"
    );
    table(&mut page, &columns)?;
    reasons(&mut page, &columns)?;
    Ok(page)
}

fn read(text: &str) -> Result<Trials<'_>> {
    let line = |line| -> Result<_> {
        let (word, rest) = str::split_once(line, ' ').context("a line without a trial")?;
        match word {
            "ran" => Ok((rest, None)),
            "skipped" => {
                let (name, why) = rest.split_once(": ").context("skipped without a reason")?;
                Ok((name, Some(why)))
            }
            other => bail!("`{other}` is no outcome to keep"),
        }
    };
    text.lines().map(line).collect()
}

fn table(page: &mut String, columns: &[(&str, Trials<'_>)]) -> Result<()> {
    let Some((_, first)) = columns.first() else {
        return Ok(());
    };
    let names = columns.iter().map(|(name, _)| format!(" {name} |"));
    write!(page, "\n| trial |{}\n", names.collect::<String>())?;
    writeln!(page, "| --- |{}", " --- |".repeat(columns.len()))?;
    for (trial, _) in first {
        write!(page, "| {trial} |")?;
        for (name, trials) in columns {
            let found = trials.iter().find(|(other, _)| other == trial);
            let (_, skipped) = found.with_context(|| format!("{name} has no trial {trial}"))?;
            let cell = if skipped.is_some() { "-" } else { "ran" };
            write!(page, " {cell} |")?;
        }
        page.push('\n');
    }
    Ok(())
}

fn reasons(page: &mut String, columns: &[(&str, Trials<'_>)]) -> Result<()> {
    for (name, trials) in columns {
        let skipped: Vec<_> = trials
            .iter()
            .filter_map(|(trial, why)| Some((trial, (*why)?)))
            .collect();
        if skipped.is_empty() {
            continue;
        }
        write!(page, "\n## Skipped on {name}\n\n")?;
        for (trial, why) in skipped {
            writeln!(page, "- {trial}: {why}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! A page tells every trial of every report, and an odd report is no page.
    use super::*;

    fn of(reports: &[(&str, &str)]) -> Result<String> {
        let all = reports
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        page(&all.collect())
    }

    #[test]
    fn a8_a_skipped_trial_is_told_with_its_reason() {
        let page = of(&[
            (
                "a-1.txt",
                "ran a6_one\nskipped h5_two: nothing to switch off\n",
            ),
            ("b-2.txt", "ran a6_one\nran h5_two\n"),
        ])
        .expect("a page");
        assert!(page.contains("| trial | a-1 | b-2 |"), "{page}");
        assert!(page.contains("| h5_two | - | ran |"), "{page}");
        assert!(
            page.contains("## Skipped on a-1\n\n- h5_two: nothing to switch off\n"),
            "{page}"
        );
        assert!(!page.contains("Skipped on b-2"), "{page}");
    }

    #[test]
    fn a8_a_report_with_a_failure_or_without_a_trial_makes_no_page() {
        assert!(of(&[("a-1.txt", "failed a6_one: wrong\n")]).is_err());
        assert!(of(&[("a-1.txt", "skipped a6_one\n")]).is_err());
        let uneven = [
            ("a-1.txt", "ran a6_one\nran h5_two\n"),
            ("b-2.txt", "ran a6_one\n"),
        ];
        assert!(of(&uneven).is_err());
    }
}
