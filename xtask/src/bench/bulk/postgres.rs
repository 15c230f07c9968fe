//! PostgreSQL: a server with ten databases, and a bare client that speaks its protocol.

use super::child::{Running, command_as, run, user};
use super::side::{ADMIN, Read, Script, Side, name};
use crate::bench::server::free_port;
use crate::bench::stopwatch::timed;
use crate::bench::wire::Wire;
use anyhow::{Context, Result, bail, ensure};
use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

/// A table takes the rights of some 2,400 logins, so 10,000 need several databases.
pub(super) const DATABASES: usize = 10;
/// How many logins the bare client makes in one transaction.
const BATCH: usize = 1_000;
/// As many connections as the program has by default.
const CONNECTIONS: usize = 3;
/// The bare client's login, which needs no password.
const BARE: &str = "bare";

/// A running server.
pub(super) struct Postgres {
    port: u16,
    folder: PathBuf,
    version: String,
    rounds: u32,
    databases: usize,
    /// Calls that were counted before the log was begun anew.
    counted: Cell<bool>,
    _running: Running,
}

impl Postgres {
    /// `rounds` of the verifiers that the program makes; so many databases for the logins.
    pub(super) fn start(
        (program, version): &(PathBuf, String),
        folder: &Path,
        rounds: u32,
        databases: usize,
    ) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let (port, data) = (free_port()?, folder.join("data"));
        let user = user("postgres", folder)?;
        let initdb = program.with_file_name("initdb");
        let fixed = [
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
            "-U",
            BARE,
        ];
        run(command_as(&initdb, user)
            .args(fixed)
            .arg("-D")
            .arg(&data)
            .current_dir(folder))?;
        let doors = format!(
            "host all {BARE} 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
        );
        fs::write(data.join("pg_hba.conf"), doors)?;
        let mut command = command_as(program, user);
        command.arg("-D").arg(&data);
        let here = folder.display();
        for setting in [
            format!("port={port}"),
            "listen_addresses=127.0.0.1".to_owned(),
            format!("unix_socket_directories={here}"),
            "log_line_prefix=%u ".to_owned(),
            "lc_messages=C".to_owned(),
        ] {
            command.args(["-c", &setting]);
        }
        let mut running = Running::start(&mut command, folder, "-INT")?;
        running.wait_for(30, || Client::connect(port, "postgres").map(|_| ()))?;
        let server = Self {
            port,
            folder: folder.to_owned(),
            version: version.clone(),
            rounds,
            databases,
            counted: Cell::new(false),
            _running: running,
        };
        server.prepare()?;
        Ok(server)
    }

    fn prepare(&self) -> Result<()> {
        let (admin, password) = ADMIN;
        let mut home = self.home()?;
        home.run(&format!(
            "CREATE ROLE {admin} SUPERUSER LOGIN PASSWORD '{password}'"
        ))?;
        for n in 0..self.databases {
            home.run(&format!("CREATE DATABASE shop{n}"))?;
            Client::connect(self.port, &format!("shop{n}"))?.run(TABLES)?;
        }
        Ok(())
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn home(&self) -> Result<Client> {
        Client::connect(self.port, "postgres")
    }

    /// Drops one login, as somebody would who knows nothing of the program.
    pub(super) fn lose(&self, n: usize) -> Result<()> {
        let login = name(n);
        Client::connect(self.port, &self.database(n))?
            .run(&format!("DROP OWNED BY \"{login}\"; DROP ROLE \"{login}\""))
    }

    fn database(&self, n: usize) -> String {
        format!("shop{}", n % self.databases)
    }

    fn log(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(self.folder.join("log"))?).into_owned())
    }
}

const TABLES: &str = "CREATE TABLE items (id serial, name text); CREATE TABLE more (id int)";

/// The number in a consumer's name.
fn number(login: &str) -> Result<usize> {
    Ok(login.trim_start_matches("app-").parse()?)
}

/// What a pass compares of the whole server, and of one database.
const ROLES: &str = "SELECT rolname, rolpassword, rolcanlogin, rolvaliduntil, description FROM pg_authid a \
    LEFT JOIN pg_shdescription d ON d.objoid = a.oid AND d.classoid = 'pg_authid'::regclass";
const RIGHTS: &str = "SELECT relname, grantee, privilege_type FROM pg_class, \
    aclexplode(relacl || '{}'::aclitem[]) WHERE relnamespace = 'public'::regnamespace";
const LATER: &str = "SELECT defaclrole, defaclobjtype, grantee, privilege_type FROM pg_default_acl, \
    aclexplode(defaclacl || '{}'::aclitem[])";

impl Side for Postgres {
    fn title(&self) -> String {
        let rounds = match self.rounds {
            1 => "1 round".to_owned(),
            n => format!("{n} rounds"),
        };
        format!("PostgreSQL {}, {rounds}", self.version)
    }

    fn provider(&self) -> String {
        let (port, rounds) = (self.port, self.rounds);
        format!(
            "kind = \"postgres\"\nurl = \"postgres://127.0.0.1:{port}/postgres\"\n\
             options = {{ generated_rounds = {rounds} }}"
        )
    }

    fn needs(&self, n: usize) -> String {
        format!(
            "database = \"{}\"\nprivileges = \"readonly\"",
            self.database(n)
        )
    }

    fn clear(&self) -> Result<()> {
        let mut home = self.home()?;
        let roles = "SELECT rolname FROM pg_roles WHERE rolname LIKE 'app-%'";
        let mut each = vec![Vec::new(); self.databases];
        for row in home.rows(roles)? {
            each[number(&row[0])? % self.databases].push(format!("\"{}\"", row[0]));
        }
        for (n, names) in each.iter().enumerate() {
            if names.is_empty() {
                continue;
            }
            let all = names.join(", ");
            let mut sql = "BEGIN;".to_owned();
            for sort in ["TABLES", "SEQUENCES"] {
                sql.push_str(&format!(
                    "ALTER DEFAULT PRIVILEGES FOR ROLE {BARE} IN SCHEMA public REVOKE ALL ON {sort} FROM {all};"
                ));
            }
            // With the tables, all rights on them go at once.
            sql.push_str(&format!(
                "DROP TABLE items, more; {TABLES}; DROP ROLE {all}; COMMIT"
            ));
            Client::connect(self.port, &format!("shop{n}"))?.run(&sql)?;
        }
        home.run("VACUUM")
    }

    fn script(&self) -> Result<Vec<Script>> {
        let mut each = vec![Vec::new(); self.databases];
        for row in self
            .home()?
            .rows(&format!("{ROLES} WHERE rolname LIKE 'app-%'"))?
        {
            each[number(&row[0])? % self.databases].push(row);
        }
        let mut all = Vec::new();
        for (n, rows) in each.iter().enumerate() {
            for part in rows.chunks(BATCH) {
                let place = format!("shop{n}");
                let text = made(part);
                all.push(Script { place, text });
            }
        }
        Ok(all)
    }

    fn write(&self, script: &[Script]) -> Result<()> {
        for part in script {
            Client::connect(self.port, &part.place)?.run(&part.text)?;
        }
        Ok(())
    }

    fn read(&self) -> Result<Read> {
        let mut home = self.home()?;
        let (logins, least) = timed(|| home.count(ROLES));
        let logins = logins?;
        let (port, databases) = (self.port, self.databases);
        let (done, took) = timed(|| -> Result<()> {
            ensure!(
                self.home()?.count(ROLES)? == logins,
                "the list is not whole"
            );
            std::thread::scope(|scope| {
                let read = |from: usize| {
                    move || -> Result<()> {
                        for n in (from..databases).step_by(CONNECTIONS) {
                            let mut client = Client::connect(port, &format!("shop{n}"))?;
                            client.count(&format!("{RIGHTS}; {LATER}"))?;
                        }
                        Ok(())
                    }
                };
                let running: Vec<_> = (0..CONNECTIONS).map(|n| scope.spawn(read(n))).collect();
                running
                    .into_iter()
                    .try_for_each(|one| one.join().ok().context("a reader broke off")?)
            })
        });
        done?;
        Ok(Read {
            logins,
            took,
            least,
        })
    }

    fn calls(&self) -> Result<u64> {
        if !self.counted.replace(true) {
            let mut home = self.home()?;
            home.run("ALTER SYSTEM SET log_statement = 'all'")?;
            home.run("SELECT pg_reload_conf()")?;
            crate::bench::stopwatch::pause(500);
        }
        let (log, by) = (self.log()?, format!("{} LOG:  ", ADMIN.0));
        let is = |line: &&str| {
            line.strip_prefix(&by)
                .is_some_and(|rest| rest.starts_with("statement") || rest.starts_with("execute"))
        };
        Ok(log.lines().filter(is).count() as u64)
    }

    fn has(&self, login: &str) -> Result<bool> {
        let sql = format!("SELECT FROM pg_roles WHERE rolname = '{login}'");
        Ok(self.home()?.count(&sql)? == 1)
    }
}

/// Roles with verifier, mark and rights, as one transaction.
fn made(rows: &[Vec<String>]) -> String {
    let mut sql = String::from("BEGIN;");
    for row in rows {
        let (name, verifier, mark) = (&row[0], &row[1], &row[4]);
        sql.push_str(&format!(
            "CREATE ROLE \"{name}\" LOGIN PASSWORD '{verifier}'; COMMENT ON ROLE \"{name}\" IS '{mark}';"
        ));
    }
    let names: Vec<String> = rows.iter().map(|row| format!("\"{}\"", row[0])).collect();
    let all = names.join(", ");
    sql.push_str(&format!(
        "GRANT SELECT ON items, more TO {all}; GRANT SELECT ON items_id_seq TO {all};"
    ));
    for sort in ["TABLES", "SEQUENCES"] {
        sql.push_str(&format!(
            "ALTER DEFAULT PRIVILEGES FOR ROLE {BARE} IN SCHEMA public GRANT SELECT ON {sort} TO {all};"
        ));
    }
    sql.push_str("COMMIT");
    sql
}

/// A connection that speaks the simple protocol.
pub(super) struct Client(Wire);

impl Client {
    fn connect(port: u16, database: &str) -> Result<Self> {
        let mut wire = Wire::connect(port)?;
        let mut begin = 196_608_u32.to_be_bytes().to_vec();
        for text in ["user", BARE, "database", database, ""] {
            begin.extend_from_slice(text.as_bytes());
            begin.push(0);
        }
        let length = u32::try_from(begin.len() + 4)?;
        wire.send(&[&length.to_be_bytes()[..], &begin].concat())?;
        let mut client = Self(wire);
        client.until_ready(|_| ())?;
        Ok(client)
    }

    /// Hands over each row's body, until the server is ready for more.
    fn until_ready(&mut self, mut row: impl FnMut(&[u8])) -> Result<()> {
        let mut refused = None;
        loop {
            let head = self.0.take(5)?;
            let kind = head[0];
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let body = self.0.take(length - 4)?;
            match kind {
                b'D' => row(body),
                b'E' => refused = Some(String::from_utf8_lossy(body).replace('\0', " ")),
                b'Z' => break,
                _ => {}
            }
        }
        match refused {
            Some(why) => bail!("PostgreSQL: {why}"),
            None => Ok(()),
        }
    }

    fn ask(&mut self, sql: &str, row: impl FnMut(&[u8])) -> Result<()> {
        let length = u32::try_from(sql.len() + 5)?;
        self.0
            .send(&[b"Q", &length.to_be_bytes()[..], sql.as_bytes(), b"\0"].concat())?;
        self.until_ready(row)
    }

    pub(super) fn run(&mut self, sql: &str) -> Result<()> {
        self.ask(sql, |_| ())
    }

    pub(super) fn count(&mut self, sql: &str) -> Result<usize> {
        let mut rows = 0;
        self.ask(sql, |_| rows += 1)?;
        Ok(rows)
    }

    /// Rows as texts; what is null is empty.
    pub(super) fn rows(&mut self, sql: &str) -> Result<Vec<Vec<String>>> {
        let mut rows = Vec::new();
        self.ask(sql, |body| rows.push(columns(body)))?;
        Ok(rows)
    }
}

fn columns(body: &[u8]) -> Vec<String> {
    let (mut at, mut all) = (2, Vec::new());
    while let Some(length) = body.get(at..at + 4) {
        let length = i32::from_be_bytes([length[0], length[1], length[2], length[3]]);
        at += 4;
        let length = usize::try_from(length).unwrap_or(0);
        let text = body.get(at..at + length).unwrap_or_default();
        all.push(String::from_utf8_lossy(text).into_owned());
        at += length;
    }
    all
}
