//! The file as lines. What is not ours stays byte for byte: comments, other logins, further fields, line ends.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use mesh_sdk::{MarkSeen, Marker};

use super::format::Format;

/// A file's lines, each with its end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lines(pub(crate) Vec<Vec<u8>>);

/// All logins of a file, by name.
pub(crate) type Entries<'a> = HashMap<&'a [u8], Entry<'a>>;

/// One login, as a reader takes it: the first line with its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Entry<'a> {
    /// Its name.
    pub login: &'a [u8],
    /// The hash as it stands there, without the sign that switches it off.
    pub hash: &'a [u8],
    /// The same without the word for its scheme.
    pub bcrypt: &'a [u8],
    /// Switched off.
    pub off: bool,
    /// Any password lets in.
    pub open: bool,
    /// The text of its mark.
    pub mark: Option<&'a str>,
    /// The whole line.
    pub line: &'a [u8],
    /// Further entries of this name stand below.
    pub again: bool,
}

impl Entry<'_> {
    /// Its mark, as a list judges it.
    pub(crate) fn listed_mark(&self, marker: &Marker) -> MarkSeen {
        self.mark.map_or(MarkSeen::None, |mark| marker.listed(mark))
    }
}

impl Lines {
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let lines = bytes.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec);
        Self(lines.collect())
    }
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.concat()
    }

    /// All logins, each as its first line says.
    pub(crate) fn entries<F: Format>(&self) -> Entries<'_> {
        let mut all = Entries::new();
        for at in 0..self.0.len() {
            let Some(found) = F::entry(self, at) else {
                continue;
            };
            match all.entry(found.login) {
                Slot::Occupied(mut first) => first.get_mut().again = true,
                Slot::Vacant(slot) => {
                    slot.insert(found);
                }
            }
        }
        all
    }

    /// Where the first entry of a login stands.
    pub(crate) fn position<F: Format>(&self, name: &[u8]) -> Option<usize> {
        self.0.iter().position(|line| F::name(line) == Some(name))
    }

    /// Takes away the entries of a login below a line.
    pub(crate) fn forget_below<F: Format>(&mut self, at: usize, name: &[u8]) {
        let mut index = 0;
        self.0.retain(|line| {
            index += 1;
            index <= at + 1 || F::name(line) != Some(name)
        });
    }

    /// Takes away all entries of a login.
    pub(crate) fn forget<F: Format>(&mut self, name: &[u8]) {
        self.0.retain(|line| F::name(line) != Some(name));
    }

    /// Puts a line at the end; one before it that has no end gets one.
    pub(crate) fn push(&mut self, line: Vec<u8>) {
        if let Some(last) = self.0.last_mut()
            && last.last() != Some(&b'\n')
        {
            last.push(b'\n');
        }
        self.0.push(line);
    }
}
