//! Tells what is seen, as it is seen: plain lines with the time, or one JSON object a step.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use mesh_sdk::Time;
use mesh_sdk::clock::Clock;
use serde::Serialize;

use crate::printer::{Printer, Tone};

/// A step as `--json` tells it.
#[derive(Serialize)]
struct Told<'a, F> {
    step: &'a str,
    observed: bool,
    at_ms: u128,
    took_ms: u128,
    lines: &'a [String],
    #[serde(flatten)]
    facts: F,
}

/// The narrator.
pub(super) struct Teller<'p> {
    printer: &'p Printer,
    clock: Clock,
    began: Time,
    step: (&'static str, Time),
    lines: Vec<String>,
    spinner: Option<ProgressBar>,
}

impl<'p> Teller<'p> {
    pub(super) fn new(printer: &'p Printer, clock: Clock) -> Self {
        let watched = printer.is_terminal() && std::io::stderr().is_terminal();
        Self {
            printer,
            clock,
            began: clock.now(),
            step: ("begin", clock.now()),
            lines: Vec::new(),
            spinner: (watched && !printer.is_json()).then(spinner),
        }
    }

    /// A step begins.
    pub(super) fn step(&mut self, name: &'static str, title: &str) {
        self.step = (name, self.clock.now());
        self.lines.clear();
        let title = self.printer.paint(Tone::Head, title);
        self.show(&format!("\n{title}"));
    }

    /// Something was seen.
    pub(super) fn saw(&mut self, text: &str) {
        self.tell(Tone::Good, text);
    }
    /// Something went wrong on purpose.
    pub(super) fn broke(&mut self, text: &str) {
        self.tell(Tone::Warning, text);
    }
    /// What Meshkeeper itself says.
    pub(super) fn quote(&mut self, text: &str) {
        self.lines.push(text.to_owned());
        let text = self.printer.paint(Tone::Dim, text);
        self.show(&format!("           mesh: {text}"));
    }

    fn tell(&mut self, tone: Tone, text: &str) {
        self.lines.push(text.to_owned());
        let at = self.clock.now().since(self.began).as_secs_f64();
        let text = self.printer.paint(tone, text);
        self.show(&format!("  {at:>5.1} s  {text}"));
    }

    /// What is waited for now; shown on a terminal only.
    pub(super) fn waiting(&self, what: &str) {
        if let Some(spinner) = &self.spinner {
            spinner.set_message(what.to_owned());
        }
    }

    /// The step was seen to its end.
    pub(super) fn done(&mut self, facts: impl Serialize) {
        if !self.printer.is_json() {
            return;
        }
        let now = self.clock.now();
        let (step, began) = self.step;
        self.printer.json(&Told {
            step,
            observed: true,
            at_ms: now.since(self.began).as_millis(),
            took_ms: now.since(began).as_millis(),
            lines: &self.lines,
            facts,
        });
        self.printer.flush();
    }

    /// The step was not seen.
    pub(super) fn missed(&mut self, what: &str) {
        if self.printer.is_json() {
            let (step, at) = (self.step.0, self.clock.now().since(self.began).as_millis());
            self.printer.json(&serde_json::json!({
                "step": step, "observed": false, "at_ms": at, "missing": what, "lines": self.lines,
            }));
        }
        self.rest();
    }

    /// A line without a time.
    pub(super) fn show(&self, text: &str) {
        if self.printer.is_json() {
            return;
        }
        let write = || {
            self.printer.answer(text);
            self.printer.flush();
        };
        match &self.spinner {
            Some(spinner) => spinner.suspend(write),
            None => write(),
        }
    }

    /// Nothing is waited for any more.
    pub(super) fn rest(&self) {
        if let Some(spinner) = &self.spinner {
            spinner.finish_and_clear();
        }
    }
}

impl Drop for Teller<'_> {
    fn drop(&mut self) {
        self.rest();
    }
}

fn spinner() -> ProgressBar {
    let spinner = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("           {spinner} {msg}") {
        spinner.set_style(style);
    }
    spinner.enable_steady_tick(Duration::from_millis(100));
    spinner
}
