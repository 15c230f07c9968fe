//! What the suite wants to do to a directory, by OpenLDAP's own clients.

use std::time::Duration;

use async_trait::async_trait;
use mesh_conformance::adapter::{Bench, Done, Restart, Session};
use mesh_conformance::servers::{
    Fault, LDAP_PASSWORD, LdapOptions, LdapServer, Proxy, Result, ServerError, until,
};
use mesh_sdk::adapter::{Admin, ProviderSettings};
use mesh_sdk::{Marker, ProviderName, Secret};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

/// Where logins lie.
pub(crate) const BASE: &str = "ou=apps,dc=example";
/// An admin with the rights of the adapter's page, and no more.
pub(crate) const ADMIN: &str = "uid=mesh,ou=apps,dc=example";
/// Those rights, as slapd is told.
pub(crate) const LEAST: &str = "access to dn.subtree=\"ou=apps,dc=example\" by dn.exact=\"uid=mesh,ou=apps,dc=example\" write by anonymous auth by self read by * none
access to dn.subtree=\"ou=groups,dc=example\" by dn.exact=\"uid=mesh,ou=apps,dc=example\" write by * none
access to * by anonymous auth by * none
limits dn.exact=\"uid=mesh,ou=apps,dc=example\" size=unlimited";

/// A server behind a proxy.
pub(crate) struct LdapBench {
    server: Mutex<LdapServer>,
    proxy: Proxy,
    sha512: bool,
    /// Without a password policy, which would allow one value of `userPassword`.
    lenient: bool,
}

/// Settings for a server on a port of this machine.
pub(crate) fn settings(port: u16, options: Value) -> ProviderSettings {
    let provider = ProviderName::new("people").expect("a name");
    let mut settings = ProviderSettings::new(provider, "ldap", "127.0.0.1", port);
    settings.path = BASE.to_owned();
    settings.admin = Some(Admin {
        user: ADMIN.to_owned(),
        password: Some(Secret::from(LDAP_PASSWORD)),
    });
    settings.options = options.as_object().cloned().unwrap_or_default();
    settings
}

/// A server, or a failure that says how to get one.
pub(crate) async fn server(options: LdapOptions) -> LdapServer {
    LdapServer::start(options)
        .await
        .unwrap_or_else(|error| panic!("{error}"))
}

/// The name of a login's entry, written otherwise than the adapter writes it.
pub(crate) fn dn(login: &str) -> String {
    let hex: String = login.bytes().map(|b| format!("\\{b:02X}")).collect();
    format!("uid={hex},{BASE}")
}

fn group(name: &str) -> String {
    format!("cn={name},ou=groups,dc=example")
}

/// A line of LDIF whose value may be anything.
pub(crate) fn line(name: &str, value: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("{name}:: ");
    for chunk in value.as_bytes().chunks(3) {
        let bits = chunk
            .iter()
            .fold(0u32, |bits, b| (bits << 8) | u32::from(*b));
        let bits = bits << (8 * (3 - chunk.len()));
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at)) as usize & 63];
            text.push(if at <= chunk.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    text + "\n"
}

/// How many logins failed up to now. slapd answers a bind before it writes down what came of it: so it is
/// waited for until each has its result, or for a while where a connection broke before that.
pub(crate) async fn failed(server: &LdapServer) -> u64 {
    let count = |log: &str, word: &str| log.matches(word).count();
    let settled = until(
        "the results of all binds",
        Duration::from_secs(2),
        || async {
            let log = server.log();
            let (binds, results) = (count(&log, " method=128"), count(&log, " RESULT tag=97 "));
            let told = format!("{binds} binds, {results} results");
            (binds <= results).then_some(()).ok_or(told)
        },
    );
    drop(settled.await);
    count(&server.log(), " RESULT tag=97 err=49") as u64
}

/// What stands behind `::` in LDIF.
pub(crate) fn decoded(text: &str) -> String {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut count, mut out) = (0u32, 0, Vec::new());
    for digit in text.chars().filter_map(|c| DIGITS.find(c)) {
        bits = (bits << 6) | u32::try_from(digit).unwrap_or(0);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

impl LdapBench {
    pub(crate) async fn new(sha512: bool, lenient: bool) -> Self {
        let options = LdapOptions {
            access: LEAST.to_owned(),
            sha512,
            lenient,
            ..LdapOptions::default()
        };
        let server = server(options).await;
        let proxy = Proxy::before(server.port()).await.expect("a proxy");
        Self {
            server: Mutex::new(server),
            proxy,
            sha512,
            lenient,
        }
    }
    async fn change(&self, login: &str, what: &str) -> Result<()> {
        let ldif = format!("{}changetype: modify\n{what}-\n", line("dn", &dn(login)));
        self.server.lock().await.modify(&ldif).await
    }
    async fn values(&self, login: &str, attribute: &str) -> Result<Vec<String>> {
        let server = self.server.lock().await;
        let found = server
            .search(&dn(login), "(objectClass=*)", &[attribute])
            .await?;
        let plain = format!("{attribute}: ");
        let coded = format!("{attribute}:: ");
        let values = found.lines().filter_map(|line| {
            let own = line.strip_prefix(&plain).map(str::to_owned);
            own.or_else(|| line.strip_prefix(&coded).map(decoded))
        });
        Ok(values.collect())
    }
    async fn members(&self, login: &str, name: &str, what: &str) -> Result<()> {
        let member = line("member", &dn(login));
        let ldif = format!(
            "dn: {}\nchangetype: modify\n{what}: member\n{member}-\n",
            group(name)
        );
        match self.server.lock().await.modify(&ldif).await {
            // There already, or not there any more.
            Err(error)
                if error.to_string().contains(": 20:") || error.to_string().contains(": 16:") =>
            {
                Ok(())
            }
            other => other,
        }
    }
    async fn count(&self, words: &[&str]) -> u64 {
        let log = self.server.lock().await.log();
        let hits = log
            .lines()
            .filter(|line| words.iter().any(|word| line.contains(word)));
        hits.count() as u64
    }
}

/// A bound connection, spoken to in bytes: a bind, then "who am I?".
struct Open(TcpStream);

/// A message of the protocol: the operation's tag and content.
fn message(id: u8, tag: u8, content: &[u8]) -> Vec<u8> {
    let part = |tag: u8, content: &[u8]| {
        let length = u16::try_from(content.len()).expect("short").to_be_bytes();
        [&[tag, 0x82][..], &length, content].concat()
    };
    part(0x30, &[&[2, 1, id][..], &part(tag, content)].concat())
}

impl Open {
    async fn ask(&mut self, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
        self.0.write_all(bytes).await?;
        let mut buffer = vec![0; 4096];
        let got = self.0.read(&mut buffer).await?;
        buffer.truncate(got);
        Ok(buffer)
    }
    async fn bind(port: u16, dn: &str, password: &str) -> Result<Self> {
        let mut open = Self(TcpStream::connect(("127.0.0.1", port)).await?);
        let text = |tag: u8, text: &str| {
            let length = u16::try_from(text.len()).expect("short").to_be_bytes();
            [&[tag, 0x82][..], &length, text.as_bytes()].concat()
        };
        let bind = [&[2, 1, 3][..], &text(4, dn), &text(0x80, password)].concat();
        let answer = open.ask(&message(1, 0x60, &bind)).await?;
        // …, bind response, its length, result code.
        match answer
            .windows(4)
            .find(|w| w[0] == 0x61 && w[2..] == [10, 1])
        {
            Some(_) if answer.windows(3).any(|w| w == [10, 1, 0]) => Ok(open),
            _ => Err(ServerError::new("the bind was refused")),
        }
    }
}

#[async_trait]
impl Session for Open {
    async fn is_alive(&mut self) -> bool {
        let oid = b"1.3.6.1.4.1.4203.1.11.3";
        let ask = [&[0x80, oid.len() as u8][..], oid].concat();
        self.ask(&message(2, 0x77, &ask))
            .await
            .is_ok_and(|answer| !answer.is_empty())
    }
}

#[async_trait]
impl Bench for LdapBench {
    fn name(&self) -> String {
        let hash = if self.sha512 { "{SSHA512}" } else { "{SSHA}" };
        let policy = if self.lenient {
            " and no password policy"
        } else {
            ""
        };
        format!("OpenLDAP 2.5 with {hash}{policy}, as an admin with the rights of the page")
    }
    fn settings(&self) -> ProviderSettings {
        let hash = if self.sha512 { "ssha512" } else { "ssha" };
        let options = json!({
            "groups": "ou=groups,dc=example", "hash": hash, "one_password": !self.lenient,
        });
        settings(self.proxy.port(), options)
    }
    fn values(&self, _consumer: &str) -> Value {
        json!({ "groups": ["readers", "writers"] })
    }
    fn other_values(&self, _consumer: &str) -> Value {
        json!({ "groups": ["writers", "owners"] })
    }
    fn values_that_the_server_refuses(&self) -> Option<Value> {
        Some(json!({ "groups": ["nosuchgroup"] }))
    }
    fn ends_sessions(&self) -> Done {
        Done::Never(
            "a directory has nothing that ends an open connection of one login; all else was tried",
        )
    }
    fn reserved(&self) -> Vec<String> {
        vec!["mesh".to_owned()]
    }

    async fn lets_in(&self, login: &str, password: &str) -> Result<bool> {
        let server = self.server.lock().await;
        let who = Some((dn(login), password));
        let who = who.as_ref().map(|(dn, password)| (dn.as_str(), *password));
        let (code, text) = server.client("ldapwhoami", who, &[], "").await?;
        match code {
            0 => Ok(true),
            49 | 48 => Ok(false),
            _ => Err(ServerError::new(text)),
        }
    }
    async fn open_session(&self, login: &str, password: &str) -> Result<Box<dyn Session>> {
        let port = self.server.lock().await.port();
        Ok(Box::new(Open::bind(port, &dn(login), password).await?))
    }
    async fn exists(&self, login: &str) -> Result<bool> {
        let server = self.server.lock().await;
        match server.search(&dn(login), "(objectClass=*)", &["uid"]).await {
            Ok(found) => Ok(!found.is_empty()),
            Err(error) if error.to_string().contains(": 32:") => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn make(&self, login: &str, password: &str) -> Result<()> {
        let ldif = [
            line("dn", &dn(login)),
            "objectClass: account\nobjectClass: simpleSecurityObject\n".to_owned(),
            line("uid", login),
            line("userPassword", password),
        ];
        self.server.lock().await.add(&ldif.concat()).await
    }
    async fn drop_login(&self, login: &str) -> Result<()> {
        self.server.lock().await.delete(&dn(login)).await?;
        // What referential integrity does, where it is set up.
        for name in ["readers", "writers", "owners"] {
            self.members(login, name, "delete").await?;
        }
        Ok(())
    }
    async fn set_password(&self, login: &str, password: &str) -> Result<()> {
        let value = line("userPassword", password);
        self.change(login, &format!("replace: userPassword\n{value}"))
            .await
    }
    async fn add_password(&self, login: &str, password: &str) -> Result<Done> {
        if !self.lenient {
            return Ok(Done::Never(
                "a password policy allows one value of userPassword",
            ));
        }
        let value = line("userPassword", password);
        self.change(login, &format!("add: userPassword\n{value}"))
            .await?;
        Ok(Done::Yes)
    }
    async fn open_to_all(&self, _login: &str) -> Result<Done> {
        Ok(Done::Never("no entry can be opened to any password"))
    }
    async fn switch_off(&self, login: &str) -> Result<Done> {
        if self.lenient {
            return Ok(Done::Never("only a password policy has a lock"));
        }
        let lock = "replace: pwdAccountLockedTime\npwdAccountLockedTime: 000001010000Z\n";
        self.change(login, lock).await?;
        Ok(Done::Yes)
    }
    async fn switch_on(&self, login: &str) -> Result<Done> {
        let values = self.values(login, "userPassword").await?;
        let off = values.iter();
        if let Some(value) = off.filter_map(|value| value.strip_prefix("{SSHA}!")).next() {
            let value = line("userPassword", value);
            self.change(login, &format!("replace: userPassword\n{value}"))
                .await?;
        }
        Ok(Done::Yes)
    }
    async fn take_rights(&self, login: &str) -> Result<()> {
        self.members(login, "readers", "delete").await
    }
    async fn add_rights(&self, login: &str) -> Result<Done> {
        self.members(login, "owners", "add").await?;
        Ok(Done::Yes)
    }
    async fn strip_mark(&self, login: &str) -> Result<()> {
        self.change(login, "replace: description\n").await
    }
    async fn replace_mark(&self, login: &str, mark: &str) -> Result<()> {
        assert!(mark.starts_with(Marker::PREFIX));
        self.change(
            login,
            &format!("replace: description\ndescription: {mark}\n"),
        )
        .await
    }

    async fn writes(&self) -> Result<u64> {
        Ok(self
            .count(&[" ADD dn=", " MOD dn=", " DEL dn=", " MODRDN dn="])
            .await)
    }
    async fn failed_logins(&self) -> Result<u64> {
        Ok(failed(&*self.server.lock().await).await)
    }
    async fn traces(&self) -> Result<Vec<u8>> {
        // A connection that only proves passwords is not an admin's.
        let asked = self.proxy.asked();
        let of_admin = |one: &&Vec<u8>| one.windows(ADMIN.len()).any(|w| w == ADMIN.as_bytes());
        let mut traces = asked
            .iter()
            .filter(of_admin)
            .cloned()
            .collect::<Vec<_>>()
            .concat();
        traces.extend(self.server.lock().await.log().into_bytes());
        Ok(traces)
    }

    async fn restart(&self) -> Result<Restart> {
        self.server.lock().await.restart().await?;
        Ok(Restart::Keeps)
    }
    async fn stop(&self) -> Result<()> {
        self.server.lock().await.stop().await
    }
    async fn go_on(&self) -> Result<()> {
        self.server.lock().await.go_on()
    }
    fn fault(&self, fault: Fault) {
        self.proxy.set(fault);
    }
}
