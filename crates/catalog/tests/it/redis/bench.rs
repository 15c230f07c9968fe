//! What the suite wants to do to a Redis, by a client of its own.

use async_trait::async_trait;
use mesh_conformance::adapter::{Bench, Done, Restart, Session};
use mesh_conformance::servers::{
    Fault, Flavor, Options, Proxy, RedisServer, Reply, RespClient, Result,
};
use mesh_sdk::ProviderName;
use mesh_sdk::adapter::{Admin, ProviderSettings};
use mesh_sdk::{Marker, Secret};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;

/// The admin's password in the tests.
pub(crate) const ADMIN: &str = "admin-password";

/// A server behind a proxy.
pub(crate) struct RedisBench {
    flavor: Flavor,
    aclfile: bool,
    server: Mutex<RedisServer>,
    proxy: Proxy,
    /// Of each connection: how far it was searched for writes, and how many there were.
    counted: Mutex<Vec<(usize, u64)>>,
}

/// Settings for a server on a port of this machine.
pub(crate) fn settings(port: u16) -> ProviderSettings {
    let provider = ProviderName::new("cache").expect("a name");
    let mut settings = ProviderSettings::new(provider, "redis", "127.0.0.1", port);
    settings.admin = Some(Admin {
        user: "default".to_owned(),
        password: Some(Secret::from(ADMIN)),
    });
    settings
}

impl RedisBench {
    pub(crate) async fn new(flavor: Flavor, aclfile: bool) -> Self {
        let options = Options {
            aclfile,
            requirepass: Some(ADMIN.to_owned()),
            ..Options::default()
        };
        let server = super::server(flavor, options).await;
        let proxy = Proxy::before(server.port()).await.expect("a proxy");
        Self {
            flavor,
            aclfile,
            server: Mutex::new(server),
            proxy,
            counted: Mutex::default(),
        }
    }

    async fn client(&self) -> Result<RespClient> {
        self.server.lock().await.client().await
    }
    async fn set(&self, login: &str, rules: &[&str]) -> Result<()> {
        let args = [&["ACL", "SETUSER", login], rules].concat();
        self.client().await?.must(&args).await?;
        Ok(())
    }
    /// The key patterns of a user on 6.2, where the mark is one of them.
    async fn keys(&self, login: &str) -> Result<Vec<String>> {
        let user = self
            .client()
            .await?
            .must(&["ACL", "GETUSER", login])
            .await?;
        let parts = user.list();
        let at = parts.iter().position(|part| part.text() == "keys");
        let keys = at
            .and_then(|at| parts.get(at + 1))
            .map(|keys| keys.list().to_vec());
        Ok(keys.unwrap_or_default().iter().map(Reply::text).collect())
    }
    /// The rules that leave the mark as it is and set all key patterns beside it.
    async fn with_marks(&self, login: &str, keys: &[&str]) -> Result<Vec<String>> {
        let mut rules = vec!["resetkeys".to_owned()];
        rules.extend(keys.iter().map(|key| format!("~{key}")));
        if !self.flavor.has_selectors() {
            let marks = self.keys(login).await?;
            let marks = marks.iter().filter(|key| key.starts_with(Marker::PREFIX));
            rules.extend(marks.map(|mark| format!("~{mark}")));
        }
        Ok(rules)
    }
}

struct Open(RespClient);

#[async_trait]
impl Session for Open {
    async fn is_alive(&mut self) -> bool {
        // Any answer will do: what this login may do is not the question.
        self.0.call(&["PING"]).await.is_ok()
    }
}

#[async_trait]
impl Bench for RedisBench {
    fn name(&self) -> String {
        let file = if self.aclfile { "with" } else { "without" };
        format!("{} {file} an ACL file", self.flavor.name())
    }
    fn settings(&self) -> ProviderSettings {
        settings(self.proxy.port())
    }
    fn values(&self, consumer: &str) -> Value {
        json!({
            "keys": [format!("{consumer}:*"), "shared:*"],
            "channels": [format!("news:{consumer}")],
            "commands": ["+@read", "+@write", "-@dangerous", "+ping"],
        })
    }
    fn other_values(&self, consumer: &str) -> Value {
        let mut values = json!({
            "keys": [format!("{consumer}:*")],
            "channels": ["*"],
            "commands": ["+@read", "+@connection", "-hget"],
        });
        if self.flavor.has_selectors() {
            values["read_keys"] = json!(["readable:*"]);
            values["write_keys"] = json!(["log:*"]);
            values["selectors"] =
                json!([{ "read_keys": ["other:*"], "commands": ["+get", "+config|get"] }]);
        }
        values
    }
    fn values_that_the_server_refuses(&self) -> Option<Value> {
        Some(json!({ "keys": ["a"], "commands": ["+nosuchcommand"] }))
    }
    fn reserved(&self) -> Vec<String> {
        vec!["default".to_owned()]
    }

    async fn lets_in(&self, login: &str, password: &str) -> Result<bool> {
        let port = self.server.lock().await.port();
        let mut client = RespClient::connect(port).await?;
        Ok(!client.call(&["AUTH", login, password]).await?.is_error())
    }
    async fn open_session(&self, login: &str, password: &str) -> Result<Box<dyn Session>> {
        let port = self.server.lock().await.port();
        let mut client = RespClient::connect(port).await?;
        client.must(&["AUTH", login, password]).await?;
        Ok(Box::new(Open(client)))
    }
    async fn exists(&self, login: &str) -> Result<bool> {
        let user = self
            .client()
            .await?
            .must(&["ACL", "GETUSER", login])
            .await?;
        Ok(user != Reply::Nil)
    }

    async fn make(&self, login: &str, password: &str) -> Result<()> {
        let hash: String = Sha256::digest(password)
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        self.set(
            login,
            &["reset", "on", &format!("#{hash}"), "~own:*", "+get"],
        )
        .await
    }
    async fn drop_login(&self, login: &str) -> Result<()> {
        self.client()
            .await?
            .must(&["ACL", "DELUSER", login])
            .await?;
        Ok(())
    }
    async fn set_password(&self, login: &str, password: &str) -> Result<()> {
        self.set(login, &["resetpass", &format!(">{password}")])
            .await
    }
    async fn add_password(&self, login: &str, password: &str) -> Result<Done> {
        self.set(login, &[&format!(">{password}")]).await?;
        Ok(Done::Yes)
    }
    async fn open_to_all(&self, login: &str) -> Result<Done> {
        self.set(login, &["nopass"]).await?;
        Ok(Done::Yes)
    }
    async fn switch_off(&self, login: &str) -> Result<Done> {
        self.set(login, &["off"]).await?;
        Ok(Done::Yes)
    }
    async fn switch_on(&self, login: &str) -> Result<Done> {
        self.set(login, &["on"]).await?;
        Ok(Done::Yes)
    }
    async fn take_rights(&self, login: &str) -> Result<()> {
        let rules = self.with_marks(login, &["shared:*", "own:*"]).await?;
        let mut rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        rules.extend(["-get", "resetchannels"]);
        self.set(login, &rules).await
    }
    async fn add_rights(&self, login: &str) -> Result<Done> {
        // On 6.2 a user that was made by hand has every channel already.
        let channel = if self.flavor.has_selectors() {
            "&more"
        } else {
            "+get"
        };
        self.set(login, &["~more:*", channel, "+flushall"]).await?;
        Ok(Done::Yes)
    }
    async fn strip_mark(&self, login: &str) -> Result<()> {
        if self.flavor.has_selectors() {
            return self.set(login, &["clearselectors"]).await;
        }
        let keys = self.keys(login).await?;
        let keys = keys.iter().filter(|key| !key.starts_with(Marker::PREFIX));
        let rules: Vec<String> = keys.map(|key| format!("~{key}")).collect();
        let mut rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        rules.insert(0, "resetkeys");
        self.set(login, &rules).await
    }
    async fn replace_mark(&self, login: &str, mark: &str) -> Result<()> {
        self.strip_mark(login).await?;
        let rule = match self.flavor.has_selectors() {
            true => format!("(~{mark})"),
            false => format!("~{mark}"),
        };
        self.set(login, &[&rule]).await
    }

    async fn leave_data(&self, login: &str, password: &str) -> Result<Option<String>> {
        let port = self.server.lock().await.port();
        let mut client = RespClient::connect(port).await?;
        client.must(&["AUTH", login, password]).await?;
        let key = format!("{login}:tea");
        client.must(&["SET", &key, "kept"]).await?;
        Ok(Some(format!("{login}:*")))
    }
    async fn uses_data(&self, owner: &str, login: &str, password: &str) -> Result<Option<bool>> {
        let port = self.server.lock().await.port();
        let mut client = RespClient::connect(port).await?;
        client.must(&["AUTH", login, password]).await?;
        let key = format!("{owner}:tea");
        let read = client.call(&["GET", &key]).await?;
        let set = client.call(&["SET", &key, "kept"]).await?;
        Ok(Some(read.text() == "kept" && !set.is_error()))
    }
    async fn has_data(&self, login: &str) -> Result<bool> {
        let key = format!("{login}:tea");
        Ok(self.client().await?.must(&["GET", &key]).await?.text() == "kept")
    }

    async fn writes(&self) -> Result<u64> {
        const WORDS: [&[u8]; 5] = [b"SETUSER", b"DELUSER", b"SAVE", b"REWRITE", b"UNLINK"];
        let asked = self.proxy.asked();
        let mut counted = self.counted.lock().await;
        counted.resize(asked.len(), (0, 0));
        for (asked, (from, count)) in asked.iter().zip(counted.iter_mut()) {
            // Every argument stands on a line of its own; an unfinished one is left for the next time.
            let new = &asked[*from..];
            let whole = new
                .iter()
                .rposition(|b| *b == b'\n')
                .map_or(0, |end| end + 1);
            let lines = new[..whole].split(|b| *b == b'\n');
            let words =
                lines.filter(|line| line.strip_suffix(b"\r").is_some_and(|l| WORDS.contains(&l)));
            *count += words.count() as u64;
            *from += whole;
        }
        Ok(counted.iter().map(|(_, count)| count).sum())
    }
    async fn failed_logins(&self) -> Result<u64> {
        let log = self.client().await?.must(&["ACL", "LOG", "1000"]).await?;
        // Each entry counts how often it happened.
        let count = |entry: &Reply| match entry.list().get(1) {
            Some(Reply::Number(count)) => u64::try_from(*count).unwrap_or(0),
            _ => 0,
        };
        Ok(log.list().iter().map(count).sum())
    }
    async fn traces(&self) -> Result<Vec<u8>> {
        // A connection that only proves passwords is not an admin's.
        let asked = self.proxy.asked();
        let admins = asked
            .iter()
            .filter(|one| one.windows(ADMIN.len()).any(|w| w == ADMIN.as_bytes()));
        let mut traces = admins.cloned().collect::<Vec<_>>().concat();
        let mut client = self.client().await?;
        let slow = client.must(&["SLOWLOG", "GET", "1000"]).await?;
        traces.extend(format!("{slow:?}").into_bytes());
        traces.extend(self.server.lock().await.log().into_bytes());
        Ok(traces)
    }

    async fn restart(&self) -> Result<Restart> {
        self.server.lock().await.restart().await?;
        Ok(match self.aclfile {
            true => Restart::Keeps,
            false => Restart::Forgets,
        })
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
