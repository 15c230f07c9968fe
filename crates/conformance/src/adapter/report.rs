//! What came out of the trials.

use std::fmt;
use std::time::Duration;

/// How one trial ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The rule was kept.
    Passed,
    /// It was not run, and why.
    Skipped(String),
    /// The rule was broken, and how.
    Failed(String),
}

/// All trials on one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    title: String,
    lines: Vec<(&'static str, Outcome, Duration)>,
}

impl Report {
    /// An empty one.
    pub(super) fn new(title: String) -> Self {
        Self {
            title,
            lines: Vec::new(),
        }
    }
    pub(super) fn add(&mut self, name: &'static str, outcome: Outcome, took: Duration) {
        self.lines.push((name, outcome, took));
    }
    /// Each trial with its outcome, in the order of their running.
    pub fn lines(&self) -> impl Iterator<Item = (&'static str, &Outcome)> {
        self.lines.iter().map(|(name, outcome, _)| (*name, outcome))
    }
    /// Whether no trial failed.
    pub fn is_clean(&self) -> bool {
        !self.lines().any(|(_, o)| matches!(o, Outcome::Failed(_)))
    }
    /// Those that were skipped.
    pub fn skipped(&self) -> Vec<&'static str> {
        let skipped = self
            .lines()
            .filter(|(_, o)| matches!(o, Outcome::Skipped(_)));
        skipped.map(|(name, _)| name).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        for (name, outcome, took) in &self.lines {
            match outcome {
                Outcome::Passed => writeln!(f, "  ran      {name} ({} ms)", took.as_millis())?,
                Outcome::Skipped(why) => writeln!(f, "  skipped  {name}: {why}")?,
                Outcome::Failed(how) => writeln!(f, "  FAILED   {name}: {how}")?,
            }
        }
        Ok(())
    }
}
