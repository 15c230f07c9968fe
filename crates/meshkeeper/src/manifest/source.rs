//! A manifest's text, with what is needed to point into it and never show a secret.

use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::mask::{self, Shown};

/// The text that is shown for what is hidden.
const MASK: &str = "***";

/// Keys of the manifest's own whose values are harmless to show.
const HARMLESS: &[&str] = &[
    "id",
    "kind",
    "user",
    "file",
    "ca",
    "client_cert",
    "client_key",
    "login",
    "adopt",
    "enabled",
    "weak",
    "exact",
    "canary",
    "dangerously_plain",
    "dangerously_unverified",
    "max_removals",
    "verify_every",
    "list_every",
    "ask_timeout",
    "apply_timeout",
    "unknown_after",
    "remove_after",
    "grace",
    "block_budget",
    "inbox",
];

/// One manifest's text.
pub struct Source {
    path: PathBuf,
    text: String,
    /// Keys of the kinds' values, shown too.
    value_keys: Arc<HashSet<String>>,
    lines: OnceLock<Vec<usize>>,
    hidden: OnceLock<Vec<Range<usize>>>,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Source({}, {} bytes)",
            self.path.display(),
            self.text.len()
        )
    }
}

/// A place for people: both counted from 1, the column in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// A few whole lines, masked, and where in them a span lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Excerpt {
    pub(crate) text: String,
    pub(crate) first_line: usize,
    pub(crate) span: Range<usize>,
}

impl Source {
    /// A text that was read from `path`. Values under `value_keys` are harmless to show.
    pub fn new(path: &Path, text: String, value_keys: Arc<HashSet<String>>) -> Self {
        Self {
            path: path.to_owned(),
            text,
            value_keys,
            lines: OnceLock::new(),
            hidden: OnceLock::new(),
        }
    }
    /// Where it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// The text itself. It may hold a password that somebody wrote there by mistake.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
    /// Line and column of a byte.
    pub fn place(&self, byte: usize) -> Place {
        let byte = self.boundary(byte);
        let lines = self.lines();
        let line = lines.partition_point(|start| *start <= byte).max(1);
        let start = lines.get(line - 1).copied().unwrap_or(0);
        let column = self
            .text
            .get(start..byte)
            .map_or(0, |head| head.chars().count())
            + 1;
        Place { line, column }
    }

    /// The line of a byte, counted from 1.
    pub(crate) fn place_line(&self, byte: usize) -> usize {
        self.lines().partition_point(|start| *start <= byte).max(1)
    }

    /// The lines that hold `span` (at most a few), with everything hidden that may be a secret.
    pub(crate) fn excerpt(&self, span: &Range<usize>) -> Excerpt {
        const MOST_LINES: usize = 4;
        let (from, to) = (
            self.boundary(span.start),
            self.boundary(span.end.max(span.start)),
        );
        let lines = self.lines();
        let first = lines.partition_point(|start| *start <= from).max(1);
        let last = lines
            .partition_point(|start| *start < to.max(from + 1))
            .clamp(first, first + MOST_LINES - 1);
        let start = lines.get(first - 1).copied().unwrap_or(0);
        let end = lines.get(last).copied().unwrap_or(self.text.len());
        let to = to.min(end);
        let (text, moved) = self.masked(start..end, from..to);
        Excerpt {
            text,
            first_line: first,
            span: moved,
        }
    }

    /// The masked text of `range`, and where `span` lies in it.
    fn masked(&self, range: Range<usize>, span: Range<usize>) -> (String, Range<usize>) {
        let hidden = self.hidden();
        let from = hidden.partition_point(|h| h.end <= range.start);
        let mut out = String::new();
        let mut at = range.start;
        let (mut start, mut end) = (None, None);
        for h in hidden[from..].iter().take_while(|h| h.start < range.end) {
            let (h_start, h_end) = (h.start.max(range.start), h.end.min(range.end));
            if span.start < h_end {
                start.get_or_insert(out.len() + span.start.min(h_start).saturating_sub(at));
            }
            if span.end <= h_start {
                end.get_or_insert(out.len() + span.end.saturating_sub(at));
            }
            out.push_str(self.text.get(at..h_start).unwrap_or_default());
            out.push_str(MASK);
            if span.end <= h_end {
                end.get_or_insert(out.len());
            }
            let newlines = self.text[h_start..h_end].matches('\n').count();
            out.extend(std::iter::repeat_n('\n', newlines));
            at = h_end;
        }
        let start = start.unwrap_or(out.len() + span.start.saturating_sub(at));
        let end = end.unwrap_or(out.len() + span.end.saturating_sub(at));
        out.push_str(self.text.get(at..range.end).unwrap_or_default());
        let start = start.min(out.len());
        (out, start..end.max(start))
    }

    fn boundary(&self, byte: usize) -> usize {
        let byte = byte.min(self.text.len());
        (0..=byte)
            .rev()
            .find(|i| self.text.is_char_boundary(*i))
            .unwrap_or(0)
    }
    fn lines(&self) -> &[usize] {
        self.lines.get_or_init(|| {
            let ends = self.text.bytes().enumerate().filter(|(_, b)| *b == b'\n');
            std::iter::once(0).chain(ends.map(|(i, _)| i + 1)).collect()
        })
    }
    fn hidden(&self) -> &[Range<usize>] {
        self.hidden
            .get_or_init(|| mask::hidden(&self.text, &|key| self.shown(key)))
    }
    fn shown(&self, key: &str) -> Shown {
        match key {
            "url" | "urls" | "bus" => Shown::Url,
            "env" => Shown::Name,
            key if HARMLESS.contains(&key) => Shown::Whole,
            key if self.value_keys.contains(key) && !mask::is_secret_word(key) => Shown::Whole,
            _ => Shown::Hidden,
        }
    }
}

#[cfg(test)]
mod tests {
    //! Places are for people, and excerpts keep pointing at the right characters.
    use super::*;

    fn source(text: &str) -> Source {
        Source::new(Path::new("mesh.toml"), text.to_owned(), Arc::default())
    }

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let source = source("ab\nüx\n");
        assert_eq!(source.place(0), Place { line: 1, column: 1 });
        assert_eq!(source.place(5), Place { line: 2, column: 2 });
        assert_eq!(source.place(6), Place { line: 2, column: 3 });
        assert_eq!(source.place(999), Place { line: 3, column: 1 });
    }

    #[test]
    fn s2_an_excerpt_masks_and_still_points() {
        let text = "[mesh]\nid = \"x\"\nadmin = { password = \"planted\", user = \"u\" } # note\n";
        let source = source(text);
        let at = text.find("user").expect("user");
        let excerpt = source.excerpt(&(at..at + 4));
        assert_eq!(excerpt.first_line, 3);
        assert_eq!(&excerpt.text[excerpt.span.clone()], "user");
        assert!(
            excerpt.text.contains("password = \"***\""),
            "{}",
            excerpt.text
        );
        let at = text.find("\"planted").expect("value");
        let excerpt = source.excerpt(&(at..at + 9));
        assert_eq!(&excerpt.text[excerpt.span], "\"***\"");
    }
}
