//! One total table from what can go wrong with a file to a [`Class`].

use std::io;
use std::path::Path;

use mesh_sdk::{Class, Error};

/// What an error of the system means.
pub(super) fn class_of(kind: io::ErrorKind) -> Class {
    match kind {
        io::ErrorKind::PermissionDenied => Class::Denied,
        io::ErrorKind::ReadOnlyFilesystem => Class::ReadOnly,
        io::ErrorKind::StorageFull
        | io::ErrorKind::QuotaExceeded
        | io::ErrorKind::FileTooLarge
        | io::ErrorKind::OutOfMemory
        | io::ErrorKind::WouldBlock
        | io::ErrorKind::Interrupted => Class::Busy,
        io::ErrorKind::TimedOut => Class::TimedOut,
        io::ErrorKind::IsADirectory
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::InvalidFilename
        | io::ErrorKind::InvalidInput => Class::RefusedValue,
        // A file that is mounted by itself cannot be replaced.
        io::ErrorKind::ResourceBusy | io::ErrorKind::CrossesDevices => Class::Cannot,
        // The folder is not there, or the disk behind it is not.
        _ => Class::Unreachable,
    }
}

/// An error for something that was tried on a file. A path is no secret.
pub(super) fn failed(what: &str, path: &Path, error: &io::Error) -> Error {
    let message = format!("{what} {}: {error}", path.display());
    Error::new(class_of(error.kind()), message)
}

#[cfg(test)]
mod tests {
    //! The table, with the system's own numbers.
    use super::*;

    #[test]
    fn a3_errors_of_the_system_have_one_class_each() {
        let table = [
            (2, Class::Unreachable),
            (5, Class::Unreachable),
            (13, Class::Denied),
            (1, Class::Denied),
            (16, Class::Cannot),
            (18, Class::Cannot),
            (20, Class::RefusedValue),
            (21, Class::RefusedValue),
            (36, Class::RefusedValue),
            (27, Class::Busy),
            (28, Class::Busy),
            (122, Class::Busy),
            (11, Class::Busy),
            (30, Class::ReadOnly),
            (110, Class::TimedOut),
            (116, Class::Unreachable),
        ];
        for (number, class) in table {
            let error = io::Error::from_raw_os_error(number);
            let told = failed("write", Path::new("users"), &error);
            assert_eq!(told.class(), class, "{number}: {told}");
        }
    }
}
