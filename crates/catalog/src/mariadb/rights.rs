//! Privileges as sets of bits: those that MariaDB itself keeps in an account's `access`.

use super::values::{Privileges, Set};

/// A set of privileges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Rights(u64);

/// The names of the bits of `access`, from the first on (10.11).
const NAMES: [&str; 39] = [
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "CREATE",
    "DROP",
    "RELOAD",
    "SHUTDOWN",
    "PROCESS",
    "FILE",
    "GRANT OPTION",
    "REFERENCES",
    "INDEX",
    "ALTER",
    "SHOW DATABASES",
    "SUPER",
    "CREATE TEMPORARY TABLES",
    "LOCK TABLES",
    "EXECUTE",
    "REPLICATION SLAVE",
    "BINLOG MONITOR",
    "CREATE VIEW",
    "SHOW VIEW",
    "CREATE ROUTINE",
    "ALTER ROUTINE",
    "CREATE USER",
    "EVENT",
    "TRIGGER",
    "CREATE TABLESPACE",
    "DELETE HISTORY",
    "SET USER",
    "FEDERATED ADMIN",
    "CONNECTION ADMIN",
    "READ_ONLY ADMIN",
    "REPLICATION SLAVE ADMIN",
    "REPLICATION MASTER ADMIN",
    "BINLOG ADMIN",
    "BINLOG REPLAY",
    "SLAVE MONITOR",
];

/// Older names that the server still takes.
const ALIASES: [(&str, &str); 2] = [
    ("REPLICATION CLIENT", "BINLOG MONITOR"),
    ("READ ONLY ADMIN", "READ_ONLY ADMIN"),
];

/// The columns of `mysql.db`, with the privilege that each stands for.
pub(super) const COLUMNS: [(&str, &str); 20] = [
    ("Select_priv", "SELECT"),
    ("Insert_priv", "INSERT"),
    ("Update_priv", "UPDATE"),
    ("Delete_priv", "DELETE"),
    ("Create_priv", "CREATE"),
    ("Drop_priv", "DROP"),
    ("Grant_priv", "GRANT OPTION"),
    ("References_priv", "REFERENCES"),
    ("Index_priv", "INDEX"),
    ("Alter_priv", "ALTER"),
    ("Create_tmp_table_priv", "CREATE TEMPORARY TABLES"),
    ("Lock_tables_priv", "LOCK TABLES"),
    ("Create_view_priv", "CREATE VIEW"),
    ("Show_view_priv", "SHOW VIEW"),
    ("Create_routine_priv", "CREATE ROUTINE"),
    ("Alter_routine_priv", "ALTER ROUTINE"),
    ("Execute_priv", "EXECUTE"),
    ("Event_priv", "EVENT"),
    ("Trigger_priv", "TRIGGER"),
    ("Delete_history_priv", "DELETE HISTORY"),
];

const READONLY: [&str; 2] = ["SELECT", "SHOW VIEW"];
const READWRITE: [&str; 8] = [
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "EXECUTE",
    "SHOW VIEW",
    "CREATE TEMPORARY TABLES",
    "LOCK TABLES",
];

/// The right to hand rights on. No consumer is given it.
pub(super) const GRANT_OPTION: &str = "GRANT OPTION";

impl Rights {
    /// Of an account's `access`. Bits that have no name here are left out.
    pub(super) fn of_access(access: u64) -> Self {
        Self(access & ((1 << NAMES.len()) - 1))
    }
    /// Of a row of `mysql.db`: one letter a column, in the order of [`COLUMNS`].
    pub(super) fn of_letters(letters: &[u8]) -> Self {
        let set = COLUMNS.iter().zip(letters).filter(|(_, l)| **l == b'Y');
        Self(set.map(|((_, name), _)| bit(name)).sum())
    }
    /// Of names, which have passed [`is_global`] or [`is_of_database`].
    pub(super) fn of_names<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        Self(names.into_iter().map(bit).fold(0, |all, one| all | one))
    }
    /// What is asked for in a database.
    pub(super) fn asked(privileges: &Privileges) -> Self {
        match privileges {
            Privileges::Set(Set::Owner) => {
                let all = COLUMNS.iter().map(|(_, name)| *name);
                Self::of_names(all.filter(|name| *name != GRANT_OPTION))
            }
            Privileges::Set(Set::Readwrite) => Self::of_names(READWRITE),
            Privileges::Set(Set::Readonly) => Self::of_names(READONLY),
            Privileges::Each(names) => Self::of_names(names.iter().map(String::as_str)),
        }
    }
    /// Whether they are, or hold, rights of the kind that is given on one database.
    pub(super) fn reach_into_databases(self) -> bool {
        COLUMNS.iter().any(|(_, name)| self.0 & bit(name) != 0)
    }
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// Those that `other` lacks.
    pub(super) fn beyond(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    /// Their names, in a fixed order, as a statement takes them.
    pub(super) fn names(self) -> Vec<&'static str> {
        let each = NAMES.iter().enumerate();
        each.filter(|(at, _)| self.0 & (1 << at) != 0)
            .map(|(_, name)| *name)
            .collect()
    }
}

fn bit(name: &str) -> u64 {
    let at = NAMES.iter().position(|known| means(name, known));
    at.map_or(0, |at| 1 << at)
}

/// Whether a name, in whatever case or by its older one, is that of a privilege.
fn means(name: &str, known: &str) -> bool {
    let alias = ALIASES
        .iter()
        .find(|(old, _)| name.eq_ignore_ascii_case(old));
    alias
        .map_or(name, |(_, name)| name)
        .eq_ignore_ascii_case(known)
}

/// Whether a privilege can be granted on the whole server, and is not the one to hand rights on.
pub(super) fn is_global(name: &str) -> bool {
    bit(name) != 0 && !means(name, GRANT_OPTION)
}

/// Whether a privilege can be granted on a database, and is not the one to hand rights on.
pub(super) fn is_of_database(name: &str) -> bool {
    !means(name, GRANT_OPTION) && COLUMNS.iter().any(|(_, known)| means(name, known))
}

#[cfg(test)]
mod tests {
    //! Names, bits and letters mean the same.
    use super::*;

    #[test]
    fn a7_names_bits_and_letters_mean_the_same() {
        let two = Rights::of_names(["select", "Slave Monitor"]);
        assert_eq!(two, Rights::of_access(1 | 1 << 38));
        assert_eq!(two.names(), ["SELECT", "SLAVE MONITOR"]);
        assert_eq!(
            Rights::of_names(["REPLICATION CLIENT"]),
            Rights::of_names(["BINLOG MONITOR"])
        );
        let letters = b"YNNNNNYNNNNNNNNNNNNN";
        assert_eq!(
            Rights::of_letters(letters).names(),
            ["SELECT", "GRANT OPTION"]
        );
        assert_eq!(Rights::of_access(u64::MAX).names().len(), 39);
    }

    #[test]
    fn the_owner_has_all_but_handing_on() {
        let owner = Rights::asked(&Privileges::Set(Set::Owner));
        assert_eq!(owner.names().len(), COLUMNS.len() - 1);
        assert!(!owner.names().contains(&GRANT_OPTION));
        for words in [READONLY.to_vec(), READWRITE.to_vec()] {
            assert!(words.iter().all(|name| is_of_database(name)));
        }
        assert!(!is_of_database("PROCESS") && is_global("process"));
        assert!(!is_global("ALL") && !is_global("GRANT OPTION") && !is_of_database("nosuch"));
    }
}
