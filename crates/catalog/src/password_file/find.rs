//! What can be taken over as it stands. Nothing here writes.

use mesh_sdk::adapter::Found;
use mesh_sdk::{Login, Marker};

use super::format::Format;
use super::lines::Entry;
use super::proof::can_be_proven;
use crate::offered;

/// An entry that a wish could have made as it stands. One whose hash is not proven here is none, and one that any
/// password fits: nobody could show that a password is its.
pub(super) fn offer<F: Format>(
    format: &F,
    marker: &Marker,
    entry: &Entry<'_>,
) -> Option<Found<F::Values>> {
    let login = Login::new(std::str::from_utf8(entry.login).ok()?).ok()?;
    let is_proven = can_be_proven(entry.bcrypt) && !entry.open;
    if !is_proven || !offered::may_be(&entry.listed_mark(marker)) {
        return None;
    }
    // A cost is not among the values: the next password gets a hash that is as dear as it should be.
    let (values, mut beyond) = format.offer(&login, entry)?;
    if entry.again {
        let second = "a second entry further down, which goes when it is adopted";
        beyond.push(second.to_owned());
    }
    Some(offered::found(login, values, !entry.off, beyond))
}
