//! MariaDB: a server, and a bare client that speaks its protocol.

use super::child::{Running, command_as, run, user};
use super::side::{ADMIN, Read, Script, Side};
use crate::bench::server::free_port;
use crate::bench::stopwatch::timed;
use crate::bench::wire::Wire;
use anyhow::{Result, bail, ensure};
use std::fs;
use std::path::Path;

/// How many accounts the bare client makes with one statement, and how many statements go into a packet.
const BATCH: usize = 1_000;
/// The bare client's login, which needs no password.
const BARE: &str = "bare";
/// Status bit: another result follows.
const MORE: u16 = 8;

/// A running server.
pub(super) struct Mariadb {
    port: u16,
    version: String,
    _running: Running,
}

impl Mariadb {
    pub(super) fn start(program: &Path, version: &str, folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let (port, data) = (free_port()?, folder.join("data"));
        let user = user("mysql", folder)?;
        let installer = Path::new("mariadb-install-db");
        run(command_as(installer, user)
            .args(["--no-defaults", "--skip-test-db"])
            .arg("--auth-root-authentication-method=normal")
            .arg(format!("--datadir={}", data.display()))
            .arg(format!("--tmpdir={}", folder.display()))
            .current_dir(folder))?;
        let (admin, password) = ADMIN;
        let first = format!(
            "CREATE USER IF NOT EXISTS '{BARE}'@'127.0.0.1' IDENTIFIED VIA mysql_native_password USING '';\n\
             GRANT ALL PRIVILEGES ON *.* TO '{BARE}'@'127.0.0.1' WITH GRANT OPTION;\n\
             CREATE USER IF NOT EXISTS '{admin}'@'127.0.0.1' IDENTIFIED BY '{password}';\n\
             GRANT ALL PRIVILEGES ON *.* TO '{admin}'@'127.0.0.1' WITH GRANT OPTION;\n\
             CREATE DATABASE IF NOT EXISTS shop;\n"
        );
        let init = folder.join("first.sql");
        fs::write(&init, first)?;
        let mut command = command_as(program, user);
        command
            .arg("--no-defaults")
            .arg(format!("--datadir={}", data.display()))
            .arg(format!("--port={port}"))
            .arg(format!("--socket={}", folder.join("socket").display()))
            .arg(format!("--pid-file={}", folder.join("pid").display()))
            .arg(format!("--tmpdir={}", folder.display()))
            .arg(format!("--init-file={}", init.display()))
            .args(["--bind-address=127.0.0.1", "--skip-name-resolve"]);
        let mut running = Running::start(&mut command, folder, "-TERM")?;
        running.wait_for(60, || Client::connect(port).map(|_| ()))?;
        Ok(Self {
            port,
            version: version.to_owned(),
            _running: running,
        })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn client(&self) -> Result<Client> {
        Client::connect(self.port)
    }
}

const ACCOUNTS: &str = "SELECT User, Host, Priv FROM mysql.global_priv";
const RIGHTS: &str = "SELECT * FROM mysql.db";
const MARKS: &str = "SELECT User, Host, Db, Table_name FROM mysql.tables_priv";

impl Side for Mariadb {
    fn title(&self) -> String {
        format!("MariaDB {}", self.version)
    }

    fn provider(&self) -> String {
        format!(
            "kind = \"mariadb\"\nurl = \"mariadb://127.0.0.1:{}\"",
            self.port
        )
    }

    fn needs(&self, _n: usize) -> String {
        "database = \"shop\"\nprivileges = \"readonly\"".to_owned()
    }

    fn clear(&self) -> Result<()> {
        let mut client = self.client()?;
        let names = client.rows("SELECT User FROM mysql.global_priv WHERE User LIKE 'app-%'")?;
        for part in names.chunks(BATCH) {
            let each = part.iter().map(|row| format!("'{}'@'%'", row[0]));
            client.run(&format!(
                "DROP USER {}",
                each.collect::<Vec<_>>().join(", ")
            ))?;
        }
        Ok(())
    }

    fn script(&self) -> Result<Vec<Script>> {
        let mut client = self.client()?;
        let sql = "SELECT User, JSON_VALUE(Priv, '$.authentication_string') FROM mysql.global_priv \
                   WHERE User LIKE 'app-%'";
        let users = client.rows(sql)?;
        let marks = client.rows(&format!("{MARKS} WHERE User LIKE 'app-%'"))?;
        let mut all = Vec::new();
        for part in users.chunks(BATCH) {
            let each = part.iter();
            let made =
                each.map(|row| format!("'{}'@'%' IDENTIFIED BY PASSWORD '{}'", row[0], row[1]));
            let made: Vec<String> = made.collect();
            let named: Vec<String> = part.iter().map(|row| format!("'{}'@'%'", row[0])).collect();
            all.push(format!("CREATE USER {}", made.join(", ")));
            all.push(format!(
                "GRANT SELECT, SHOW VIEW ON shop.* TO {}",
                named.join(", ")
            ));
        }
        for part in marks.chunks(BATCH) {
            let each = part.iter().map(|row| {
                let (user, database, table) = (&row[0], &row[2], &row[3]);
                format!("GRANT CREATE ON `{database}`.`{table}` TO '{user}'@'%'")
            });
            all.push(each.collect::<Vec<_>>().join("; "));
        }
        let place = String::new;
        let script = |text| Script {
            place: place(),
            text,
        };
        Ok(all.into_iter().map(script).collect())
    }

    fn write(&self, script: &[Script]) -> Result<()> {
        let mut client = self.client()?;
        script.iter().try_for_each(|part| client.run(&part.text))
    }

    fn read(&self) -> Result<Read> {
        let mut open = self.client()?;
        let (logins, least) = timed(|| open.count(ACCOUNTS));
        let (again, took) = timed(|| -> Result<usize> {
            let mut client = self.client()?;
            let logins = client.count(ACCOUNTS)?;
            client.count(RIGHTS)?;
            client.count(MARKS)?;
            Ok(logins)
        });
        let logins = logins?;
        ensure!(again? == logins, "the list is not whole");
        Ok(Read {
            logins,
            took,
            least,
        })
    }

    fn calls(&self) -> Result<u64> {
        let mut client = self.client()?;
        // This question and the one before it are not the program's.
        let asked: u64 = client.rows("SHOW GLOBAL STATUS LIKE 'Questions'")?[0][1].parse()?;
        Ok(asked)
    }

    fn has(&self, login: &str) -> Result<bool> {
        let sql = format!("SELECT User FROM mysql.global_priv WHERE User = '{login}'");
        Ok(self.client()?.count(&sql)? == 1)
    }
}

/// A connection.
pub(super) struct Client(Wire);

impl Client {
    fn connect(port: u16) -> Result<Self> {
        let mut client = Self(Wire::connect(port)?);
        let hello = client.packet()?;
        ensure!(hello.first() == Some(&10), "no MariaDB");
        // 4.1, secure connection, transactions, several statements and results, plugins.
        let able: u32 = 0x1 | 0x200 | 0x2000 | 0x8000 | 0x1_0000 | 0x2_0000 | 0x8_0000;
        let mut answer = able.to_le_bytes().to_vec();
        answer.extend((16_u32 << 20).to_le_bytes());
        answer.push(45);
        answer.extend([0; 23]);
        answer.extend(BARE.as_bytes());
        answer.extend([0, 0]);
        answer.extend(b"mysql_native_password\0");
        client.send(1, &answer)?;
        let reply = client.packet()?;
        ensure!(reply.first() == Some(&0), "{}", refusal(&reply));
        Ok(client)
    }

    fn send(&mut self, number: u8, body: &[u8]) -> Result<()> {
        let length = u32::try_from(body.len())?.to_le_bytes();
        ensure!(body.len() < 0xff_ffff, "too long for one packet");
        self.0.send(&[&length[..3], &[number], body].concat())
    }

    fn packet(&mut self) -> Result<Vec<u8>> {
        let head = self.0.take(4)?;
        let length = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize;
        Ok(self.0.take(length)?.to_vec())
    }

    /// One packet with statements: all their results, each row handed over.
    fn ask(&mut self, sql: &str, mut row: impl FnMut(&[u8])) -> Result<()> {
        self.send(0, &[b"\x03", sql.as_bytes()].concat())?;
        loop {
            let first = self.packet()?;
            let status = match first.first() {
                Some(0xff) => bail!("MariaDB: {}", refusal(&first)),
                Some(0) => {
                    let (_, rest) = number(&first[1..]);
                    let (_, rest) = number(rest);
                    u16::from_le_bytes([rest[0], rest[1]])
                }
                _ => self.rows_of(number(&first).0, &mut row)?,
            };
            if status & MORE == 0 {
                return Ok(());
            }
        }
    }

    /// The columns' descriptions, and rows up to the end. Gives the status.
    fn rows_of(&mut self, columns: usize, row: &mut impl FnMut(&[u8])) -> Result<u16> {
        for _ in 0..=columns {
            self.packet()?;
        }
        loop {
            let head = self.0.take(4)?;
            let length = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize;
            let body = self.0.take(length)?;
            match body.first() {
                Some(0xfe) if length < 9 => return Ok(u16::from_le_bytes([body[3], body[4]])),
                Some(0xff) => bail!("MariaDB: {}", refusal(body)),
                _ => row(body),
            }
        }
    }

    pub(super) fn run(&mut self, sql: &str) -> Result<()> {
        self.ask(sql, |_| ())
    }
    pub(super) fn count(&mut self, sql: &str) -> Result<usize> {
        let mut rows = 0;
        self.ask(sql, |_| rows += 1)?;
        Ok(rows)
    }
    pub(super) fn rows(&mut self, sql: &str) -> Result<Vec<Vec<String>>> {
        let mut rows = Vec::new();
        self.ask(sql, |body| rows.push(texts(body)))?;
        Ok(rows)
    }
}

fn refusal(packet: &[u8]) -> String {
    String::from_utf8_lossy(packet.get(3..).unwrap_or_default()).into_owned()
}

/// A number of the protocol's own length.
fn number(bytes: &[u8]) -> (usize, &[u8]) {
    let wide = |count: usize| {
        let mut all = [0; 8];
        all[..count].copy_from_slice(&bytes[1..=count]);
        (u64::from_le_bytes(all) as usize, &bytes[1 + count..])
    };
    match bytes[0] {
        0xfc => wide(2),
        0xfd => wide(3),
        0xfe => wide(8),
        small => (usize::from(small), &bytes[1..]),
    }
}

/// The columns of a row; what is null is empty.
fn texts(mut body: &[u8]) -> Vec<String> {
    let mut all = Vec::new();
    while !body.is_empty() {
        if body[0] == 0xfb {
            all.push(String::new());
            body = &body[1..];
            continue;
        }
        let (length, rest) = number(body);
        all.push(String::from_utf8_lossy(&rest[..length]).into_owned());
        body = &rest[length..];
    }
    all
}
