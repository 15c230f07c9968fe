//! What the suite wants to do to Dovecot's file, by hand and by Dovecot's own program, and what Dovecot makes of
//! it.

use std::path::Path;

use async_trait::async_trait;
use mesh_conformance::adapter::{Bench, Done, Session};
use mesh_conformance::servers::{
    DovecotOptions, DovecotServer, ImapClient, Result, ServerError, dovecot_hash,
};
use mesh_sdk::ProviderName;
use mesh_sdk::adapter::ProviderSettings;
use serde_json::{Value, json};

use crate::logins_file::{LoginsFile, NO_SERVER};

/// Settings for a file.
pub(crate) fn settings(path: &Path, any_login: bool) -> ProviderSettings {
    let provider = ProviderName::new("mail").expect("a name");
    let path = path.display().to_string();
    let mut settings = ProviderSettings::of_file(provider, "dovecot", &path);
    if any_login {
        settings.options.insert("any_login".to_owned(), json!(true));
    }
    settings
}

/// A server with its file.
pub(crate) struct DovecotBench {
    server: DovecotServer,
    file: LoginsFile,
}

impl DovecotBench {
    pub(crate) async fn start() -> Result<Self> {
        let any_login = true;
        let server = DovecotServer::start(DovecotOptions {
            any_login,
            ..DovecotOptions::default()
        })
        .await?;
        Ok(Self {
            file: LoginsFile::at(server.file()),
            server,
        })
    }

    /// Changes the words behind the last colon of a login's line.
    fn each_word(&self, login: &str, change: impl Fn(&str) -> Option<String>) -> Result<()> {
        self.file.each_entry(login, |rest| {
            let mut fields: Vec<&str> = rest.splitn(7, ':').collect();
            fields.resize(7, "");
            let words = fields[6].split(' ').filter(|word| !word.is_empty());
            let words: Vec<String> = words.filter_map(&change).collect();
            let extra = words.join(" ");
            fields[6] = &extra;
            Some(fields.join(":"))
        })
    }
    fn add_word(&self, login: &str, word: &str) -> Result<()> {
        self.file.each_entry(login, |rest| {
            let space = if rest.ends_with(':') { "" } else { " " };
            Some(format!("{rest}{space}{word}"))
        })
    }
    /// Changes the fifth field.
    fn gecos(&self, login: &str, gecos: &str) -> Result<()> {
        self.file.each_entry(login, |rest| {
            let mut fields: Vec<&str> = rest.splitn(7, ':').collect();
            fields.resize(7, "");
            fields[3] = gecos;
            Some(fields.join(":"))
        })
    }
}

struct Open(ImapClient);

#[async_trait]
impl Session for Open {
    async fn is_alive(&mut self) -> bool {
        self.0.is_alive().await
    }
}

#[async_trait]
impl Bench for DovecotBench {
    fn name(&self) -> String {
        "a file of logins, read by Dovecot 2.3".to_owned()
    }
    fn settings(&self) -> ProviderSettings {
        settings(self.file.path(), true)
    }
    fn nowhere(&self) -> Result<ProviderSettings> {
        Ok(settings(&self.server.folder().join("away/users"), true))
    }
    fn values(&self, _consumer: &str) -> Value {
        json!({ "cost": 5, "allow_nets": ["127.0.0.0/8", "10.1.0.0/16"] })
    }
    fn other_values(&self, _consumer: &str) -> Value {
        json!({ "cost": 5, "allow_nets": ["127.0.0.0/8", "::1"] })
    }
    fn ends_sessions(&self) -> Done {
        Done::Never("a file ends no session: `doveadm kick` does")
    }
    fn network(&self) -> Done {
        Done::Never(NO_SERVER)
    }

    async fn lets_in(&self, login: &str, password: &str) -> Result<bool> {
        Ok(self.server.log_in(login, password).await?.is_some())
    }
    async fn open_session(&self, login: &str, password: &str) -> Result<Box<dyn Session>> {
        match self.server.log_in(login, password).await? {
            Some(client) => Ok(Box::new(Open(client))),
            None => Err(ServerError::new(format!("{login} is refused"))),
        }
    }
    async fn exists(&self, login: &str) -> Result<bool> {
        self.file.exists(login)
    }

    async fn make(&self, login: &str, password: &str) -> Result<()> {
        let hash = dovecot_hash(password).await?;
        let all = format!("{}{login}:{hash}::::::\n", self.file.text()?);
        self.file.write(&all)
    }
    async fn drop_login(&self, login: &str) -> Result<()> {
        self.file.each_entry(login, |_| None)
    }
    async fn set_password(&self, login: &str, password: &str) -> Result<()> {
        let hash = dovecot_hash(password).await?;
        self.file.each_entry(login, |rest| {
            let (_, fields) = rest.split_once(':')?;
            Some(format!("{hash}:{fields}"))
        })
    }
    async fn add_password(&self, login: &str, password: &str) -> Result<Done> {
        self.make(login, password).await?;
        Ok(Done::Yes)
    }
    async fn open_to_all(&self, login: &str) -> Result<Done> {
        self.file.each_entry(login, |rest| {
            let (_, fields) = rest.split_once(':')?;
            Some(format!(":{fields} nopassword"))
        })?;
        Ok(Done::Yes)
    }
    async fn switch_off(&self, login: &str) -> Result<Done> {
        self.add_word(login, "nologin=for_now")?;
        Ok(Done::Yes)
    }
    async fn switch_on(&self, login: &str) -> Result<Done> {
        let bare = |rest: &str| rest.strip_prefix("{CRYPT}!").unwrap_or(rest).to_owned();
        self.file.each_entry(login, |rest| Some(bare(rest)))?;
        Ok(Done::Yes)
    }
    async fn take_rights(&self, login: &str) -> Result<()> {
        self.each_word(login, |word| match word.starts_with("allow_nets=") {
            true => Some("allow_nets=127.0.0.0/8".to_owned()),
            false => Some(word.to_owned()),
        })
    }
    async fn add_rights(&self, login: &str) -> Result<Done> {
        self.each_word(login, |word| match word.starts_with("allow_nets=") {
            true => Some(format!("{word},172.16.0.0/12")),
            false => Some(word.to_owned()),
        })?;
        Ok(Done::Yes)
    }
    async fn strip_mark(&self, login: &str) -> Result<()> {
        self.gecos(login, "")
    }
    async fn replace_mark(&self, login: &str, mark: &str) -> Result<()> {
        self.gecos(login, mark)
    }

    async fn writes(&self) -> Result<u64> {
        self.file.writes()
    }
    async fn failed_logins(&self) -> Result<u64> {
        let log = self.server.log();
        let failed = log.lines().filter(|line| line.contains("(auth failed"));
        Ok(failed.count() as u64)
    }
    async fn traces(&self) -> Result<Vec<u8>> {
        Ok([self.file.traces()?, self.server.log().into_bytes()].concat())
    }
}
