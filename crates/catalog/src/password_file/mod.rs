//! What every kind that keeps logins in a file has in common: reading it, replacing it whole, bcrypt, comparing,
//! and the order of it all. A kind says how its lines are read and written ([`Format`]).
//!
//! The file is replaced by one step, with its owner and mode, links followed; nobody ever reads half of it.
//! Writers of ours wait for each other by a lock on the folder. What somebody else put into the file
//! meanwhile is seen when the two change places, put back, and built upon. A file that is missing in a
//! folder that is there is an empty one; a folder that is missing is *unknown*.

mod check;
mod compare;
mod failed;
mod file;
mod find;
mod format;
mod keeper;
mod lines;
mod proof;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use check::{cost, is_file, mode_of, password, refused};
pub(crate) use format::{Format, Rights, Wanted};
pub(crate) use keeper::Keeper;
pub(crate) use lines::{Entries, Entry, Lines};
pub(crate) use proof::cost_of;

use mesh_sdk::Provision;
use mesh_sdk::adapter::{Descriptor, Scheme};

/// A wish for a login in a file of this format.
pub(crate) type Wish<'a, F> = Provision<'a, <F as Format>::Values>;

/// What holds for every file of logins.
pub(crate) fn descriptor(
    kind: &'static str,
    title: &'static str,
    schemes: &'static [Scheme],
) -> Descriptor {
    let mut page = Descriptor::new(kind, title);
    page.schemes = schemes;
    page.capabilities = keeper::CAPABILITIES;
    page.proof = "verifier: the bcrypt hash in the file, worked out once";
    page.restart = "nothing: it is a file";
    page.identity = "none";
    page.admin_rights = &["write in the file's folder, and own the file or be root"];
    page
}
