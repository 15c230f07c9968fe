//! Takes every known secret out of a text before people or machines read it (S-2).
//!
//! A secret is found in whatever form it was written: as it is, URL-encoded, in base64, in hexadecimal,
//! as a list of numbers, escaped for JSON, SQL or Rust's `Debug`, and in such a form within another. It
//! is not compared with each form of each secret, of which there are too many. The text is decoded each
//! way instead, keeping for every byte where it came from, and the decoded bytes are searched for the
//! secrets as they are.
//!
//! Secrets under eight bytes are not looked for (`weak = true`): too much of any text would be hidden.

mod index;
mod view;
mod writer;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::secret::Secret;
use index::Index;
use view::View;

pub use index::SHORTEST;
pub use writer::ScrubWriter;

/// What stands where a secret stood.
pub const HIDDEN: &str = "[hidden]";
/// So many forms within one another are looked into.
const DEPTH: usize = 3;

/// Knows secrets, and hides them. Clones share what they know.
#[derive(Clone, Default)]
pub struct Scrubber {
    index: Arc<RwLock<Index>>,
}

impl fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scrubber({} secrets)", self.known())
    }
}

impl Scrubber {
    /// One that knows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }
    /// Hides a secret from now on, once more for each time that it is added. `false` if it is shorter
    /// than [`SHORTEST`], and so not looked for.
    pub fn add(&self, secret: Secret) -> bool {
        self.write().add(secret)
    }
    /// Hides many secrets from now on.
    pub fn add_all(&self, secrets: impl IntoIterator<Item = Secret>) {
        let mut index = self.write();
        for secret in secrets {
            index.add(secret);
        }
    }
    /// Takes back one [`Scrubber::add`] of this secret.
    pub fn remove(&self, secret: &Secret) {
        self.write().remove(secret);
    }
    /// How many secrets it looks for.
    pub fn known(&self) -> usize {
        self.read().len()
    }
    /// The text with [`HIDDEN`] where a secret was; borrowed and unchanged if there was none.
    pub fn scrub<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let index = self.read();
        if index.len() == 0 || text.len() < SHORTEST {
            return Cow::Borrowed(text);
        }
        let mut found = Vec::new();
        search(&View::plain(text.as_bytes()), &index, DEPTH, &mut found);
        drop(index);
        hide(text, found)
    }

    // A panic elsewhere while it was locked must not stop the hiding.
    fn read(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }
    fn write(&self) -> RwLockWriteGuard<'_, Index> {
        self.index.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Searches a view, and every way to decode it further.
fn search(view: &View<'_>, index: &Index, depth: usize, found: &mut Vec<Range<usize>>) {
    index.scan(view, found);
    if depth > 0 {
        view.each_decoded(&mut |decoded| search(&decoded, index, depth - 1, found));
    }
}

/// Puts [`HIDDEN`] over these ranges, those that touch each other as one.
fn hide(text: &str, mut found: Vec<Range<usize>>) -> Cow<'_, str> {
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    found.sort_unstable_by_key(|range| range.start);
    let mut shown = String::with_capacity(text.len());
    let mut at = 0;
    for range in found {
        let start = text.floor_char_boundary(range.start);
        let end = text.ceil_char_boundary(range.end);
        if start > at || at == 0 {
            shown.push_str(text.get(at..start).unwrap_or_default());
            shown.push_str(HIDDEN);
        }
        at = at.max(end);
    }
    shown.push_str(text.get(at..).unwrap_or_default());
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests;
