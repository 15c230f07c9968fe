//! What the suite wants to do to a NATS server: a text editor's work on the file, and a signal.

use std::os::unix::fs::MetadataExt;

use async_trait::async_trait;
use mesh_conformance::adapter::{Bench, Done, Restart, Session};
use mesh_conformance::servers::{
    Fault, NatsClient, NatsOptions, NatsServer, Proxy, Result, ServerError,
};
use mesh_sdk::adapter::{Admin, ProviderSettings};
use mesh_sdk::{Marker, ProviderName, Secret};
use serde_json::{Value, json};
use tokio::sync::Mutex;

/// The admin in the tests: with the least rights that the page names.
pub(crate) const ADMIN: (&str, &str) = ("mesh", "admin-password");

/// The admin's line in the list of the system account's users.
pub(crate) fn least() -> String {
    format!(
        "{{user: {}, password: {}, permissions: {{ publish: [\"$SYS.REQ.SERVER.*.RELOAD\", \
         \"$SYS.REQ.SERVER.*.VARZ\", \"$SYS.REQ.SERVER.*.CONNZ\", \"$SYS.REQ.USER.INFO\"], subscribe: \"_INBOX.meshkeeper.>\" }} }}",
        ADMIN.0, ADMIN.1
    )
}

/// Settings for a server on a port of this machine.
pub(crate) fn settings(server: &NatsServer, port: u16) -> ProviderSettings {
    let provider = ProviderName::new("events").expect("a name");
    let mut settings = ProviderSettings::new(provider, "nats", "127.0.0.1", port);
    settings.admin = Some(Admin {
        user: ADMIN.0.to_owned(),
        password: Some(Secret::from(ADMIN.1)),
    });
    // The suite makes hundreds of passwords that nobody guesses.
    let options = json!({ "users_file": server.users_file(), "bcrypt_cost": 4 });
    settings.options = options.as_object().cloned().expect("a map");
    settings
}

/// Which file it was that somebody wrote.
type Stamp = (u64, i64, i64);

/// A server behind a proxy.
pub(crate) struct NatsBench {
    server: Mutex<NatsServer>,
    proxy: Proxy,
    /// The file as it was last seen, and how often somebody else than this bench had written it.
    written: Mutex<(Stamp, u64)>,
}

impl NatsBench {
    pub(crate) async fn new() -> Self {
        let options = NatsOptions {
            system_users: least(),
            ..NatsOptions::default()
        };
        let server = super::server(options).await;
        let proxy = Proxy::before(server.port()).await.expect("a proxy");
        let stamp = stamp(&server).expect("the file");
        Self {
            server: Mutex::new(server),
            proxy,
            written: Mutex::new((stamp, 0)),
        }
    }

    async fn lines(&self) -> Result<Vec<String>> {
        let text = std::fs::read_to_string(self.server.lock().await.users_file())?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Changes the line of a login, or takes it away, and has the server load that.
    async fn edit(&self, login: &str, change: impl Fn(&str) -> Option<String>) -> Result<()> {
        let mut found = false;
        let mut lines = Vec::new();
        for line in self.lines().await? {
            if name_in(&line).as_deref() == Some(login) {
                found = true;
                lines.extend(change(&line));
            } else {
                lines.push(line);
            }
        }
        match found {
            true => self.save(&lines).await,
            false => Err(ServerError::new(format!("no such login: {login}"))),
        }
    }

    async fn save(&self, lines: &[String]) -> Result<()> {
        self.count().await?;
        let server = self.server.lock().await;
        std::fs::write(server.users_file(), lines.join("\n") + "\n")?;
        self.written.lock().await.0 = stamp(&server)?;
        server.reload().await
    }

    /// How often the file was written by somebody else.
    async fn count(&self) -> Result<u64> {
        let now = stamp(&*self.server.lock().await)?;
        let mut written = self.written.lock().await;
        if written.0 != now {
            *written = (now, written.1 + 1);
        }
        Ok(written.1)
    }

    async fn client(&self) -> Result<NatsClient> {
        let port = self.server.lock().await.port();
        NatsClient::connect(port).await
    }
}

fn stamp(server: &NatsServer) -> Result<Stamp> {
    let meta = std::fs::metadata(server.users_file())?;
    Ok((meta.ino(), meta.ctime(), meta.ctime_nsec()))
}

/// The login on a line; this bench and the adapter write one a line.
fn name_in(line: &str) -> Option<String> {
    let quoted = line.split_once("{user: \"")?.1;
    let mut name = Vec::new();
    let mut chars = quoted.chars();
    loop {
        match chars.next()? {
            '"' => return String::from_utf8(name).ok(),
            '\\' => match chars.next()? {
                'n' => name.push(b'\n'),
                'r' => name.push(b'\r'),
                't' => name.push(b'\t'),
                'x' => {
                    let hex: String = chars.by_ref().take(2).collect();
                    name.push(u8::from_str_radix(&hex, 16).ok()?);
                }
                c => name.push(u8::try_from(c).ok()?),
            },
            c => name.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

fn hash(password: &str) -> String {
    bcrypt::hash(password, 4).expect("a hash")
}

fn mark_at(line: &str) -> usize {
    let mark = format!(" # {}", Marker::PREFIX);
    line.find(&mark).unwrap_or(line.len())
}

struct Open(NatsClient);

#[async_trait]
impl Session for Open {
    async fn is_alive(&mut self) -> bool {
        matches!(self.0.ping().await, Ok(None))
    }
}

#[async_trait]
impl Bench for NatsBench {
    fn name(&self) -> String {
        "NATS 2.15".to_owned()
    }
    fn settings(&self) -> ProviderSettings {
        // Nobody holds the lock before the first trial.
        let server = self.server.try_lock();
        settings(&server.expect("the server"), self.proxy.port())
    }
    fn values(&self, consumer: &str) -> Value {
        json!({
            "publish": [format!("{consumer}.>"), "shared.*"],
            "subscribe": [format!("{consumer}.>"), "_INBOX.>"],
            "allow_responses": true,
        })
    }
    fn other_values(&self, consumer: &str) -> Value {
        json!({
            "publish": [">"],
            "publish_deny": ["secret.>"],
            "subscribe": [format!("{consumer}.*.x workers")],
            "connection_types": ["STANDARD", "WEBSOCKET"],
        })
    }
    fn values_that_the_server_refuses(&self) -> Option<Value> {
        None
    }
    fn reserved(&self) -> Vec<String> {
        vec![ADMIN.0.to_owned()]
    }

    async fn lets_in(&self, login: &str, password: &str) -> Result<bool> {
        self.client().await?.log_in(login, password).await
    }
    async fn open_session(&self, login: &str, password: &str) -> Result<Box<dyn Session>> {
        let mut client = self.client().await?;
        match client.log_in(login, password).await? {
            true => Ok(Box::new(Open(client))),
            false => Err(ServerError::new("not let in")),
        }
    }
    async fn exists(&self, login: &str) -> Result<bool> {
        if login == ADMIN.0 {
            return self.lets_in(ADMIN.0, ADMIN.1).await;
        }
        let lines = self.lines().await?;
        Ok(lines.iter().any(|l| name_in(l).as_deref() == Some(login)))
    }

    async fn make(&self, login: &str, password: &str) -> Result<()> {
        let mut lines = self.lines().await?;
        let line = format!(
            "  {{user: \"{login}\", password: \"{}\", permissions: {{publish: {{allow: [\"own.>\"]}}, \
             subscribe: {{allow: [\"own.>\"]}}}}}}",
            hash(password)
        );
        let end = lines.iter().rposition(|line| line.trim() == "]");
        lines.insert(end.ok_or_else(|| ServerError::new("no list"))?, line);
        self.save(&lines).await
    }
    async fn drop_login(&self, login: &str) -> Result<()> {
        self.edit(login, |_| None).await
    }
    async fn set_password(&self, login: &str, password: &str) -> Result<()> {
        let hash = hash(password);
        self.edit(login, |line| {
            let (before, rest) = line.split_once("password: \"")?;
            let (_, after) = rest.split_once('"')?;
            Some(format!("{before}password: \"{hash}\"{after}"))
        })
        .await
    }
    async fn add_password(&self, _login: &str, _password: &str) -> Result<Done> {
        Ok(Done::Never("a user of the configuration has one password"))
    }
    async fn open_to_all(&self, _login: &str) -> Result<Done> {
        Ok(Done::Never(
            "a server that has users lets nobody in without their password",
        ))
    }
    async fn switch_off(&self, login: &str) -> Result<Done> {
        self.edit(login, |line| Some(format!("#{line}"))).await?;
        Ok(Done::Yes)
    }
    async fn switch_on(&self, login: &str) -> Result<Done> {
        let on = |line: &str| Some(line.trim_start_matches(['#', ' ']).to_owned());
        self.edit(login, on).await?;
        Ok(Done::Yes)
    }
    async fn take_rights(&self, login: &str) -> Result<()> {
        self.edit(login, |line| {
            let (head, _) = line.split_once(", permissions: ")?;
            let mark = &line[mark_at(line)..];
            let rights = "{publish: {allow: [\"own.x\"]}, subscribe: {allow: [\"own.>\"]}}";
            Some(format!("{head}, permissions: {rights}}}{mark}"))
        })
        .await
    }
    async fn add_rights(&self, login: &str) -> Result<Done> {
        self.edit(login, |line| {
            Some(line.replace("publish: {allow: [", "publish: {allow: [\"more.>\", "))
        })
        .await?;
        Ok(Done::Yes)
    }
    async fn strip_mark(&self, login: &str) -> Result<()> {
        self.edit(login, |line| Some(line[..mark_at(line)].to_owned()))
            .await
    }
    async fn replace_mark(&self, login: &str, mark: &str) -> Result<()> {
        let with = |line: &str| Some(format!("{} # {mark}", &line[..mark_at(line)]));
        self.edit(login, with).await
    }

    async fn writes(&self) -> Result<u64> {
        let asked = self.proxy.asked();
        let reloads = asked.iter().map(|bytes| {
            let text = String::from_utf8_lossy(bytes);
            text.matches(".RELOAD _INBOX").count() as u64
        });
        Ok(reloads.sum::<u64>() + self.count().await?)
    }
    async fn failed_logins(&self) -> Result<u64> {
        let log = self.server.lock().await.log();
        Ok(log.matches("authentication error").count() as u64)
    }
    async fn traces(&self) -> Result<Vec<u8>> {
        // A connection that only proves a password is not an admin's.
        let admin = format!("\"user\":\"{}\"", ADMIN.0);
        let admins = self
            .proxy
            .asked()
            .into_iter()
            .filter(|one| one.windows(admin.len()).any(|w| w == admin.as_bytes()));
        let mut traces = admins.collect::<Vec<_>>().concat();
        let server = self.server.lock().await;
        traces.extend(server.log().into_bytes());
        // The names of consumers stand there, and their passwords do not.
        traces.extend(std::fs::read(server.users_file())?);
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
