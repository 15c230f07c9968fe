//! What came of a suite: which trials ran, which were skipped and why, which failed.

use std::fmt;

/// What came of one trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It ran and found nothing wrong.
    Ran,
    /// It was not run, for this reason. Never counted as a pass.
    Skipped(String),
    /// It found this wrong.
    Failed(String),
}

/// One trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// Its name, beginning with the rule that it tries.
    pub name: String,
    /// What came of it.
    pub outcome: Outcome,
}

/// A suite's trials, in the order in which they were tried.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Which suite ran on what; may be empty.
    pub title: String,
    /// How many trials the suite has.
    pub expected: usize,
    /// Those that were tried or skipped.
    pub trials: Vec<Trial>,
}

impl Report {
    /// An empty report of a suite with so many trials.
    pub fn expecting(expected: usize) -> Self {
        Self {
            expected,
            ..Self::default()
        }
    }
    /// Notes what came of a trial.
    pub fn note(&mut self, name: &str, outcome: Outcome) {
        self.trials.push(Trial {
            name: name.to_owned(),
            outcome,
        });
    }
    /// How many ran and found nothing wrong.
    pub fn ran(&self) -> usize {
        let ran = |trial: &&Trial| trial.outcome == Outcome::Ran;
        self.trials.iter().filter(ran).count()
    }
    /// Those that failed.
    pub fn failed(&self) -> impl Iterator<Item = &Trial> {
        let failed = |trial: &&Trial| matches!(trial.outcome, Outcome::Failed(_));
        self.trials.iter().filter(failed)
    }
    /// Those that were skipped.
    pub fn skipped(&self) -> impl Iterator<Item = &Trial> {
        let skipped = |trial: &&Trial| matches!(trial.outcome, Outcome::Skipped(_));
        self.trials.iter().filter(skipped)
    }
    /// Panics, with the whole report, unless every trial of the suite ran and found nothing wrong.
    pub fn assert_all_ran(&self) {
        self.assert_all_ran_but(&[]);
    }
    /// One line a trial, `ran NAME` or `skipped NAME: WHY`, as it is kept beside the tests and made into
    /// the table of all adapters.
    pub fn lines(&self) -> String {
        self.trials.iter().fold(String::new(), |text, trial| {
            text + &match &trial.outcome {
                Outcome::Ran => format!("ran {}\n", trial.name),
                Outcome::Skipped(why) => format!("skipped {}: {why}\n", trial.name),
                Outcome::Failed(how) => format!("failed {}: {how}\n", trial.name),
            }
        })
    }
    /// The same, except that the trials of these names may be skipped. They may not fail.
    pub fn assert_all_ran_but(&self, allowed: &[&str]) {
        let missing = self
            .skipped()
            .any(|trial| !allowed.contains(&trial.name.as_str()));
        let short = self.trials.len() < self.expected || self.trials.is_empty();
        assert!(
            !missing && !short && self.failed().next().is_none(),
            "not every trial ran well:\n{self}"
        );
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.title.is_empty() {
            writeln!(f, "{}", self.title)?;
        }
        for Trial { name, outcome } in &self.trials {
            match outcome {
                Outcome::Ran => writeln!(f, "ran      {name}")?,
                Outcome::Skipped(why) => writeln!(f, "skipped  {name}: {why}")?,
                Outcome::Failed(why) => writeln!(f, "failed   {name}: {why}")?,
            }
        }
        write!(f, "{} of {} trials ran", self.ran(), self.expected)
    }
}

#[cfg(test)]
mod tests {
    //! A report that lacks something is never a good one.
    use super::*;

    fn passes(report: &Report, allowed: &[&str]) -> bool {
        std::panic::catch_unwind(|| report.assert_all_ran_but(allowed)).is_ok()
    }

    #[test]
    fn a8_a_skipped_missing_or_failed_trial_is_no_pass() {
        let mut report = Report::expecting(2);
        assert!(!passes(&Report::default(), &[]));
        report.note("a8_one", Outcome::Ran);
        assert!(!passes(&report, &[]), "one is missing");
        report.note("a8_two", Outcome::Skipped("no server".to_owned()));
        assert!(!passes(&report, &[]));
        assert!(passes(&report, &["a8_two"]));
        assert!(report.to_string().contains("skipped  a8_two: no server"));
        report.note("a8_two", Outcome::Failed("wrong".to_owned()));
        assert!(!passes(&report, &["a8_two"]));
    }
}
