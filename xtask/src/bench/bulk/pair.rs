//! A PostgreSQL and a MariaDB with few users, for a comparison with Ansible.

use super::mariadb::Mariadb;
use super::postgres::Postgres;
use super::scene::{Size, manifest};
use super::side::{ADMIN, Side};
use crate::servers;
use anyhow::Result;
use std::path::Path;

/// Users on each of the two.
pub(in crate::bench) const USERS: usize = 20;

/// Two running servers.
pub(in crate::bench) struct Pair {
    postgres: Postgres,
    mariadb: Mariadb,
}

/// A module of Ansible, its settings, and what an item is called.
type Task = (&'static str, Vec<(&'static str, String)>, &'static str);

impl Pair {
    pub(in crate::bench) fn start(root: &Path, folder: &Path) -> Result<Self> {
        let found = servers::found(root, "PostgreSQL 15")?;
        // All in one database, as the play has them.
        let postgres = Postgres::start(&found, &folder.join("postgres"), 4096, 1)?;
        let (program, version) = servers::found(root, "MariaDB 10.11")?;
        let mariadb = Mariadb::start(&program, &version, &folder.join("mariadb"))?;
        Ok(Self { postgres, mariadb })
    }

    pub(in crate::bench) fn title(&self) -> String {
        format!("{} and {}", self.postgres.title(), self.mariadb.title())
    }

    /// Takes all users away.
    pub(in crate::bench) fn clear(&self) -> Result<()> {
        self.postgres.clear()?;
        self.mariadb.clear()
    }

    /// The same users as a manifest, and the admin's password.
    pub(in crate::bench) fn manifest(&self) -> Result<(String, &'static str)> {
        let size = Size {
            users: USERS,
            makings: 1,
            heals: false,
            firsts: 1,
            verify_every: 60,
        };
        let providers = [
            ("database", self.postgres.provider()),
            ("shop", self.mariadb.provider()),
        ];
        let providers = providers
            .each_ref()
            .map(|(name, table)| (*name, table.as_str()));
        let needs = |n| {
            vec![
                ("database", self.postgres.needs(n)),
                ("shop", self.mariadb.needs(n)),
            ]
        };
        Ok((manifest(&providers, size, needs)?, ADMIN.1))
    }

    /// And as tasks of Ansible: the users alone on PostgreSQL, with their right on MariaDB.
    pub(in crate::bench) fn tasks(&self) -> [Task; 2] {
        let name = "app-{{ '%06d' % item }}";
        let common = |port: u16| {
            vec![
                ("login_host", "127.0.0.1".to_owned()),
                ("login_port", port.to_string()),
                ("login_user", ADMIN.0.to_owned()),
                ("login_password", ADMIN.1.to_owned()),
                ("name", name.to_owned()),
                ("password", "a-long-password-of-{{ item }}".to_owned()),
            ]
        };
        let mut postgres = common(self.postgres.port());
        postgres.push(("login_db", "postgres".to_owned()));
        let mut mariadb = common(self.mariadb.port());
        mariadb.push(("host", "%".to_owned()));
        mariadb.push(("priv", "shop.*:SELECT,SHOW VIEW".to_owned()));
        mariadb.push(("column_case_sensitive", "true".to_owned()));
        [
            ("community.postgresql.postgresql_user", postgres, name),
            ("community.mysql.mysql_user", mariadb, name),
        ]
    }
}
