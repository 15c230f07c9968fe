//! LDAP directories.

mod bench;
mod suite;
