//! What goes wrong, told so that a person can act: where it is, what was meant, what to do.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use serde::Serialize;

use crate::manifest::source::{Place, Source};

/// The exit code of a usage error, the same everywhere.
pub const EXIT_USAGE: u8 = 64;
/// The exit code of a command that could not do its work.
pub const EXIT_FAILED: u8 = 1;
/// There is something to do: `plan`.
pub const EXIT_CHANGES: u8 = 2;
/// Not all is well: `apply` and `status`.
pub const EXIT_NOT_WELL: u8 = 3;

/// How a [`Problem`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// Worth knowing; it spoils nothing and does not change the exit code.
    Warning,
    /// What it stands in is not used.
    Error,
}

/// How much of a manifest a [`Problem`] spoils.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// All of it: there is no wish, and the last good one stays in force.
    Whole,
    /// One provider, and with it whatever needs it.
    Provider(String),
    /// One consumer.
    Consumer(String),
    /// One consumer's `needs` table.
    Need {
        /// The consumer.
        consumer: String,
        /// The provider.
        provider: String,
    },
}

/// One mistake in a manifest.
#[derive(Debug, Clone)]
pub struct Problem {
    /// How it counts.
    pub weight: Weight,
    /// What is wrong, one line; never a secret.
    pub message: String,
    /// Where, in bytes.
    pub span: Range<usize>,
    /// What was meant, shown under the caret.
    pub meant: Option<String>,
    /// Other places that belong to it.
    pub also: Vec<(Range<usize>, String)>,
    /// What to do.
    pub help: Option<String>,
    /// What it spoils.
    pub scope: Scope,
}

impl Problem {
    /// An error at a place; its scope is set by whoever reads the part it stands in.
    pub fn error(span: Range<usize>, message: impl Into<String>) -> Self {
        Self {
            weight: Weight::Error,
            message: message.into(),
            span,
            meant: None,
            also: Vec::new(),
            help: None,
            scope: Scope::Whole,
        }
    }
    /// A warning at a place.
    pub fn warning(span: Range<usize>, message: impl Into<String>) -> Self {
        Self {
            weight: Weight::Warning,
            ..Self::error(span, message)
        }
    }
    /// With what was meant.
    #[must_use]
    pub fn meant(self, meant: impl Into<String>) -> Self {
        Self {
            meant: Some(meant.into()),
            ..self
        }
    }
    /// With what to do.
    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Self {
        Self {
            help: Some(help.into()),
            ..self
        }
    }
    /// Moves every place by `offset` bytes.
    pub(crate) fn shift(&mut self, offset: usize) {
        let spans = self.also.iter_mut().map(|(span, _)| span);
        for span in spans.chain([&mut self.span]) {
            *span = span.start + offset..span.end + offset;
        }
    }
    /// With another place that belongs to it.
    #[must_use]
    pub fn also(mut self, span: Range<usize>, label: impl Into<String>) -> Self {
        self.also.push((span, label.into()));
        self
    }
}

/// Every problem of one manifest, in the order of the text.
#[derive(Debug, Clone)]
pub struct Problems {
    source: Arc<Source>,
    list: Vec<Problem>,
}

/// A problem as `--json` tells it.
#[derive(Debug, Serialize)]
pub struct ProblemLine<'a> {
    /// Error or warning.
    pub weight: Weight,
    /// The manifest.
    pub file: String,
    /// Line and column.
    #[serde(flatten)]
    pub place: Place,
    /// What is wrong.
    pub message: &'a str,
    /// What was meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meant: Option<&'a str>,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<&'a str>,
    /// What it spoils.
    pub scope: &'a Scope,
}

impl Problems {
    pub(crate) fn new(source: Arc<Source>, mut list: Vec<Problem>) -> Self {
        list.sort_by_key(|problem| (problem.span.start, problem.span.end));
        Self { source, list }
    }
    /// None, in a manifest at this path.
    pub(crate) fn none(path: &Path) -> Self {
        let source = Source::new(path, String::new(), Default::default());
        Self::new(Arc::new(source), Vec::new())
    }
    /// All of them.
    pub fn list(&self) -> &[Problem] {
        &self.list
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
    /// How many count as errors.
    pub fn errors(&self) -> usize {
        let errors = self.list.iter().filter(|p| p.weight == Weight::Error);
        errors.count()
    }
    /// The manifest they are about.
    pub fn path(&self) -> &Path {
        self.source.path()
    }
    /// Adds what was found later.
    pub fn extend(&mut self, more: impl IntoIterator<Item = Problem>) {
        self.list.extend(more);
        self.list
            .sort_by_key(|problem| (problem.span.start, problem.span.end));
    }
    /// Line and column of a problem.
    pub fn place(&self, problem: &Problem) -> Place {
        self.source.place(problem.span.start)
    }
    /// Each as data.
    pub fn lines(&self) -> impl Iterator<Item = ProblemLine<'_>> {
        self.list.iter().map(|problem| ProblemLine {
            weight: problem.weight,
            file: self.source.path().display().to_string(),
            place: self.place(problem),
            message: &problem.message,
            meant: problem.meant.as_deref(),
            help: problem.help.as_deref(),
            scope: &problem.scope,
        })
    }
    /// One line for a condition or a log: the first error, and how many more there are.
    pub fn summary(&self) -> String {
        let first = self
            .list
            .iter()
            .max_by_key(|p| (p.weight, std::cmp::Reverse(p.span.start)));
        let Some(first) = first else {
            return "no problem".to_owned();
        };
        let Place { line, column } = self.place(first);
        let more = match self.list.len() {
            1 => String::new(),
            n => format!(" (and {} more)", n - 1),
        };
        let path = self.source.path().display();
        format!("{path}:{line}:{column}: {}{more}", first.message)
    }
    /// One problem with its lines, a caret, what was meant and what to do. Whatever may be a secret in
    /// those lines is hidden.
    pub fn render(&self, problem: &Problem, colour: bool) -> String {
        let path = self.source.path().display().to_string();
        let level = match problem.weight {
            Weight::Error => Level::ERROR,
            Weight::Warning => Level::WARNING,
        };
        let mut group: Group<'_> =
            level
                .primary_title(problem.message.as_str())
                .element(self.snippet(
                    &path,
                    &problem.span,
                    problem.meant.as_deref(),
                    AnnotationKind::Primary,
                ));
        for (span, label) in &problem.also {
            let snippet = self.snippet(&path, span, Some(label), AnnotationKind::Context);
            group = group.element(snippet);
        }
        if let Some(help) = &problem.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        let renderer = if colour {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        renderer.render(&[group])
    }
    fn snippet<'a>(
        &self,
        path: &'a str,
        span: &Range<usize>,
        label: Option<&'a str>,
        kind: AnnotationKind,
    ) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
        let excerpt = self.source.excerpt(span);
        let mut annotation = kind.span(excerpt.span);
        if let Some(label) = label {
            annotation = annotation.label(label);
        }
        Snippet::source(excerpt.text)
            .line_start(excerpt.first_line)
            .path(path)
            .annotation(annotation)
    }
}

/// Why a command ends without having done its work.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// Asked in a way that cannot be: exit 64.
    #[error("{0}")]
    Usage(String),
    /// The manifest has mistakes; they were told.
    #[error("the manifest has mistakes")]
    Manifest,
    /// It could not be done.
    #[error("{message}")]
    Failed {
        /// What could not be done, and why: one line; never a secret.
        message: String,
        /// What to do.
        help: Option<String>,
    },
}

impl Fault {
    /// Something failed, with what to do about it.
    pub fn failed(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Failed {
            message: message.into(),
            help: Some(help.into()),
        }
    }
    /// A word or key whose part is not built yet (section 9 of the design).
    pub fn not_built(word: &str, part: &str) -> Self {
        Self::Usage(format!("`mesh {word}` comes with {part}; not built yet"))
    }
    /// The exit code it ends with.
    pub fn exit_code(&self) -> u8 {
        match self {
            Fault::Usage(_) => EXIT_USAGE,
            Fault::Manifest | Fault::Failed { .. } => EXIT_FAILED,
        }
    }
}
