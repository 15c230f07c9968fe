//! The fence: which holder of a provider's lease writes (B-4).

use std::fmt;

use crate::error::{Class, Error};

/// How long the holder's text may be.
const HOLDER: usize = 64;

/// Which holder of a provider's lease writes. No lease excludes for sure: a process that was stopped in the
/// middle goes on when it is let, and knows nothing of who came after it. A server that keeps the fence of
/// the last one refuses what comes from an earlier one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fence {
    epoch: u64,
    number: u64,
    holder: String,
}

/// How a fence stands to the one that a server keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is kept there.
    Kept,
    /// It is the newer one: it is to be kept there before anything is written.
    Newer,
    /// A later holder, or another one of the same number, wrote: nothing may be written.
    Outdone,
}

impl Fence {
    /// The prefix of its text.
    pub const PREFIX: &'static str = "mkf1.";

    /// Of the bus's epoch, the number of the lease in it, and a text that no other holder has. Of that, letters,
    /// digits, `-` and `_` are kept, and no more than 64 characters.
    pub fn new(epoch: u64, number: u64, holder: &str) -> Self {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let holder = holder.chars().map(|c| if plain(c) { c } else { '-' });
        Self {
            epoch,
            number,
            holder: holder.take(HOLDER).collect(),
        }
    }
    /// Finds one in a text: the latest among its words.
    pub fn find(text: &str) -> Option<Self> {
        let all = text.split_whitespace().filter_map(Self::read);
        all.max_by_key(|fence| (fence.epoch, fence.number))
    }
    fn read(word: &str) -> Option<Self> {
        let mut parts = word.strip_prefix(Self::PREFIX)?.splitn(3, '.');
        let (epoch, number) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(Self::new(epoch, number, parts.next()?))
    }
    /// How it stands to what a server keeps. A bus that was wiped or put back counts anew, in a later epoch.
    pub fn standing(&self, kept: Option<&Self>) -> Standing {
        let Some(kept) = kept else {
            return Standing::Newer;
        };
        match (self.epoch, self.number).cmp(&(kept.epoch, kept.number)) {
            std::cmp::Ordering::Greater => Standing::Newer,
            std::cmp::Ordering::Equal if self.holder == kept.holder => Standing::Kept,
            _ => Standing::Outdone,
        }
    }
    /// The error for who was outdone: nothing was written.
    pub fn outdone(&self, by: &Self) -> Error {
        let message = format!(
            "nothing was written: `{}` had the lease later (the server keeps fence {}.{}, ours is {}.{})",
            by.holder, by.epoch, by.number, self.epoch, self.number
        );
        Error::new(Class::Fenced, message)
    }
}

/// As a server keeps it: one word of `a-zA-Z0-9._-`, which needs no quoting anywhere.
impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = Self::PREFIX;
        write!(f, "{prefix}{}.{}.{}", self.epoch, self.number, self.holder)
    }
}

#[cfg(test)]
mod tests {
    //! B-4: who may write.
    use super::*;

    #[test]
    fn b4_a_later_holder_outdoes_an_earlier_one_and_nobody_shares_a_number() {
        let ours = Fence::new(2, 5, "host-a");
        let stands = |epoch, number, holder| {
            let kept = Fence::new(epoch, number, holder);
            ours.standing(Some(&kept))
        };
        assert_eq!(ours.standing(None), Standing::Newer);
        assert_eq!(stands(2, 5, "host-a"), Standing::Kept);
        assert_eq!(stands(2, 5, "host-b"), Standing::Outdone);
        assert_eq!(stands(2, 4, "host-b"), Standing::Newer);
        assert_eq!(stands(2, 6, "host-a"), Standing::Outdone);
        assert_eq!(stands(1, 900, "host-b"), Standing::Newer, "a bus put back");
        assert_eq!(stands(3, 1, "host-b"), Standing::Outdone);
    }

    #[test]
    fn b4_a_fence_is_one_word_and_is_found_among_others() {
        let fence = Fence::new(1, 12, "host a.example's");
        assert_eq!(fence.to_string(), "mkf1.1.12.host-a-example-s");
        let text = format!("a person's words {fence} mk1.m.i.p.c.mac");
        assert_eq!(Fence::find(&text), Some(fence));
        for none in ["", "mk1.m.i.p.c.mac", "mkf1.", "mkf1.1.x.a", "mkf1.1.2"] {
            assert_eq!(Fence::find(none), None, "{none}");
        }
        let two = "mkf1.1.3.a mkf1.1.5.b";
        assert_eq!(Fence::find(two), Some(Fence::new(1, 5, "b")));
    }
}
