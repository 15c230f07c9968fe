//! MariaDB.

mod bench;
mod suite;
