//! A big manifest in pieces, so that reading it costs the memory of a piece and not of the whole tree.
//!
//! Only consumers' tables are cut out, each consumer whole. All else stays together as the rest, with
//! blanks where the pieces were, so that every byte keeps its place. The TOML parser judges the rest and
//! every piece; whatever does not fit this scheme, mistakes in the form among it, is read as one.

use std::collections::HashMap;
use std::ops::Range;

/// A manifest's text, cut up.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pieces<'t> {
    /// The text with blanks in place of the pieces.
    pub(super) rest: String,
    /// Where the pieces are.
    pub(super) parts: Vec<Range<usize>>,
    /// The consumers in them, each with the number of its piece.
    pub(super) names: HashMap<&'t str, usize>,
}

/// Cuts a text into pieces of about `size` bytes. `None` if some consumer's tables are scattered.
pub(super) fn split(text: &str, size: usize) -> Option<Pieces<'_>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut names: HashMap<&str, usize> = HashMap::new();
    let mut last: Option<&str> = None;
    for (at, name) in sections(text) {
        let Some(name) = name else {
            last = None;
            continue;
        };
        let goes_on = parts
            .last()
            .is_some_and(|part| part.end == at.start && (last == Some(name) || part.len() < size));
        match parts.last_mut() {
            Some(part) if goes_on => part.end = at.end,
            _ => parts.push(at),
        }
        let number = parts.len() - 1;
        if *names.entry(name).or_insert(number) != number {
            return None;
        }
        last = Some(name);
    }
    let mut rest = String::with_capacity(text.len());
    for part in &parts {
        rest.push_str(&text[rest.len()..part.start]);
        rest.extend(std::iter::repeat_n(' ', part.len().saturating_sub(1)));
        rest.push('\n');
    }
    rest.push_str(&text[rest.len()..]);
    Some(Pieces { rest, parts, names })
}

/// Every section that begins with a header, with the consumer that it speaks of.
fn sections(text: &str) -> impl Iterator<Item = (Range<usize>, Option<&str>)> {
    let starts = headers(text);
    let ends = starts.clone().into_iter().skip(1).chain([text.len()]);
    starts
        .into_iter()
        .zip(ends)
        .map(|(start, end)| (start..end, consumer(&text[start..end])))
}

/// The consumer in `[consumer.NAME…`, if it is written plainly.
fn consumer(section: &str) -> Option<&str> {
    let head = section.strip_prefix("[[").or(section.strip_prefix('['))?;
    let rest = head
        .trim_start_matches([' ', '\t'])
        .strip_prefix("consumer")?;
    let rest = rest.trim_start_matches([' ', '\t']).strip_prefix('.')?;
    let rest = rest.trim_start_matches([' ', '\t']);
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name = &rest[..rest.find(|c| !plain(c)).unwrap_or(rest.len())];
    let ends = rest[name.len()..].starts_with([' ', '\t', '.', ']']);
    (ends && !name.is_empty()).then_some(name)
}

/// Where lines begin with `[` outside of strings and lists.
fn headers(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let (mut found, mut depth, mut at, mut fresh) = (Vec::new(), 0usize, 0, true);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\n' => fresh = true,
            b'#' => at = line_end(bytes, at) - 1,
            quote @ (b'"' | b'\'') => {
                at = string_end(bytes, at, *quote) - 1;
                fresh = false;
            }
            b'[' if fresh && depth == 0 => {
                found.push(at);
                at = line_end(bytes, at) - 1;
            }
            b'[' | b'{' => (depth, fresh) = (depth + 1, false),
            b']' | b'}' => (depth, fresh) = (depth.saturating_sub(1), false),
            b' ' | b'\t' | b'\r' => {}
            _ => fresh = false,
        }
        at += 1;
    }
    found
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    let line = bytes.get(at..).unwrap_or_default();
    line.iter()
        .position(|b| *b == b'\n')
        .map_or(bytes.len(), |length| at + length)
}

/// Where the string that begins at `at` is over: at its line's end, if it is not closed on it.
fn string_end(bytes: &[u8], at: usize, quote: u8) -> usize {
    let many = bytes[at..].starts_with(&[quote; 3]);
    let (quotes, mut i): (&[u8], usize) = match many {
        true => (&[quote; 3][..], at + 3),
        false => (&[quote][..], at + 1),
    };
    while let Some(byte) = bytes.get(i) {
        match byte {
            b'\n' if !many => return i,
            b'\\' if quote == b'"' => i += 1,
            _ if bytes[i..].starts_with(quotes) => {
                i += quotes.len();
                // `""""` ends with a quote of its own inside.
                while many && bytes.get(i) == Some(&quote) {
                    i += 1;
                }
                return i;
            }
            _ => {}
        }
        i += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    //! Pieces hold whole consumers, and nothing moves.
    use super::*;

    const TEXT: &str = "\
[mesh]
id = \"home\"
[consumer.a.needs.x]
k = [
  [\"[consumer.no]\"],
]
[consumer.a.needs.y]
k = '''
[consumer.no]
'''
[provider.x]
kind = \"shelf\"
[ consumer . b ] # [consumer.no]
[[consumer.b.deliver]]
[consumer.\"c\"]
[consumer.d]
";

    #[test]
    fn consumers_are_cut_out_whole_and_the_rest_stays_in_place() {
        let pieces = split(TEXT, 1).expect("pieces");
        let heads: Vec<&str> = pieces
            .parts
            .iter()
            .map(|part| TEXT[part.clone()].lines().next().unwrap_or(""))
            .collect();
        assert_eq!(
            heads,
            [
                "[consumer.a.needs.x]",
                "[ consumer . b ] # [consumer.no]",
                "[consumer.d]"
            ]
        );
        assert_eq!(pieces.rest.len(), TEXT.len());
        for kept in ["[mesh]", "[provider.x]", "[consumer.\"c\"]"] {
            assert_eq!(pieces.rest.find(kept), TEXT.find(kept));
        }
        assert!(!pieces.rest.contains("consumer.a") && !pieces.rest.contains("consumer.d"));
    }

    #[test]
    fn a_scattered_consumer_is_not_cut() {
        let text = "[consumer.a]\n[consumer.b]\n[consumer.a.needs.x]\n";
        assert_eq!(split(text, 1), None);
        assert_eq!(split(text, 1000).map(|pieces| pieces.parts.len()), Some(1));
    }

    #[test]
    fn what_is_not_closed_swallows_and_does_not_panic() {
        for text in [
            "[consumer.a]\nk = '''",
            "k = \"\\",
            "[",
            "[consumer.",
            "k = [\n[consumer.a]\n",
            "'''''''",
            "[consumer.a",
        ] {
            let pieces = split(text, 1).expect("pieces");
            assert_eq!(pieces.rest.len(), text.len());
        }
    }
}
