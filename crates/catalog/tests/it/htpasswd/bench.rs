//! What the suite wants to do to a password file, by Apache's own program and by hand.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use mesh_conformance::adapter::{Bench, Done, Session};
use mesh_conformance::servers::{Result, ServerError, htpasswd};
use mesh_sdk::ProviderName;
use mesh_sdk::adapter::ProviderSettings;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::logins_file::{LoginsFile, NO_SERVER};

const NO_RIGHTS: &str = "who is in the file is let in: there are no rights";

/// Settings for a file.
pub(crate) fn settings(path: &Path) -> ProviderSettings {
    let provider = ProviderName::new("users").expect("a name");
    ProviderSettings::of_file(provider, "htpasswd", &path.display().to_string())
}

/// A file in a folder of its own.
pub(crate) struct HtpasswdBench {
    folder: TempDir,
    file: LoginsFile,
}

impl HtpasswdBench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self {
            file: LoginsFile::at(folder.path().join("users")),
            folder,
        }
    }
    fn path(&self) -> &Path {
        self.file.path()
    }
    async fn tool(&self, args: &[&str]) -> Result<i32> {
        if !self.path().exists() {
            std::fs::write(self.path(), "")?;
        }
        htpasswd(args).await
    }
    async fn set(&self, login: &str, password: &str) -> Result<()> {
        let path = self.path().display().to_string();
        let args = ["-b", "-B", "-C", "5", &path, login, password];
        self.tool(&args).await.map(|_| ())
    }
}

async fn fits(path: &Path, login: &str, password: &str) -> Result<bool> {
    let path = path.display().to_string();
    Ok(htpasswd(&["-v", "-b", &path, login, password]).await? == 0)
}

/// Whoever comes again brings the password again.
struct Requests {
    path: PathBuf,
    login: String,
    password: String,
}

#[async_trait]
impl Session for Requests {
    async fn is_alive(&mut self) -> bool {
        fits(&self.path, &self.login, &self.password).await == Ok(true)
    }
}

#[async_trait]
impl Bench for HtpasswdBench {
    fn name(&self) -> String {
        "a password file, read by Apache's htpasswd 2.4".to_owned()
    }
    fn settings(&self) -> ProviderSettings {
        settings(self.path())
    }
    fn nowhere(&self) -> Result<ProviderSettings> {
        Ok(settings(&self.folder.path().join("away/users")))
    }
    fn values(&self, _consumer: &str) -> Value {
        json!({ "cost": 5 })
    }
    fn other_values(&self, _consumer: &str) -> Value {
        json!({ "cost": 6 })
    }
    fn network(&self) -> Done {
        Done::Never(NO_SERVER)
    }
    fn rights(&self) -> Done {
        Done::Never(NO_RIGHTS)
    }

    async fn lets_in(&self, login: &str, password: &str) -> Result<bool> {
        fits(self.path(), login, password).await
    }
    async fn open_session(&self, login: &str, password: &str) -> Result<Box<dyn Session>> {
        Ok(Box::new(Requests {
            path: self.path().to_owned(),
            login: login.to_owned(),
            password: password.to_owned(),
        }))
    }
    async fn exists(&self, login: &str) -> Result<bool> {
        self.file.exists(login)
    }

    async fn make(&self, login: &str, password: &str) -> Result<()> {
        self.set(login, password).await
    }
    async fn drop_login(&self, login: &str) -> Result<()> {
        let path = self.path().display().to_string();
        self.tool(&["-D", &path, login]).await.map(|_| ())
    }
    async fn set_password(&self, login: &str, password: &str) -> Result<()> {
        self.set(login, password).await
    }
    async fn add_password(&self, login: &str, password: &str) -> Result<Done> {
        // The program knows one entry a login; a second one is made in a file of its own.
        let other = self.folder.path().join("other");
        std::fs::write(&other, "")?;
        let path = other.display().to_string();
        htpasswd(&["-b", "-B", "-C", "5", &path, login, password]).await?;
        let text = self.file.text()? + &std::fs::read_to_string(other)?;
        self.file.write(&text.replace("\n\n", "\n"))?;
        Ok(Done::Yes)
    }
    async fn open_to_all(&self, _login: &str) -> Result<Done> {
        Ok(Done::Never("no entry is one that any password fits"))
    }
    async fn switch_off(&self, login: &str) -> Result<Done> {
        self.file
            .each_entry(login, |hash| Some(format!("!{hash}")))?;
        Ok(Done::Yes)
    }
    async fn switch_on(&self, login: &str) -> Result<Done> {
        let bare = |hash: &str| hash.strip_prefix('!').unwrap_or(hash).to_owned();
        self.file.each_entry(login, |hash| Some(bare(hash)))?;
        Ok(Done::Yes)
    }
    async fn take_rights(&self, _login: &str) -> Result<()> {
        Err(ServerError::new(NO_RIGHTS))
    }
    async fn add_rights(&self, _login: &str) -> Result<Done> {
        Ok(Done::Never(NO_RIGHTS))
    }
    async fn strip_mark(&self, login: &str) -> Result<()> {
        let end = format!(" {login}");
        self.file.each_line(
            |line| match line.starts_with("# mk1.") && line.ends_with(&end) {
                true => None,
                false => Some(line.to_owned()),
            },
        )
    }
    async fn replace_mark(&self, login: &str, mark: &str) -> Result<()> {
        let end = format!(" {login}");
        self.file.each_line(
            |line| match line.starts_with("# mk1.") && line.ends_with(&end) {
                true => Some(format!("# {mark} {login}")),
                false => Some(line.to_owned()),
            },
        )
    }

    async fn writes(&self) -> Result<u64> {
        self.file.writes()
    }
    async fn failed_logins(&self) -> Result<u64> {
        // Nobody logs in to a file.
        Ok(0)
    }
    async fn traces(&self) -> Result<Vec<u8>> {
        self.file.traces()
    }
}
