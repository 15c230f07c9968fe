//! What the suite wants to do to a password file, by Apache's own program and by hand.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use async_trait::async_trait;
use mesh_conformance::adapter::{Bench, Done, Restart, Session};
use mesh_conformance::servers::{Fault, Result, ServerError, htpasswd};
use mesh_sdk::ProviderName;
use mesh_sdk::adapter::ProviderSettings;
use serde_json::{Value, json};
use tempfile::TempDir;

const NO_SERVER: &str = "a file: there is no server and no connection";
const NO_RIGHTS: &str = "who is in the file is let in: there are no rights";

/// Settings for a file.
pub(crate) fn settings(path: &Path) -> ProviderSettings {
    let provider = ProviderName::new("users").expect("a name");
    ProviderSettings::of_file(provider, "htpasswd", &path.display().to_string())
}

/// A file in a folder of its own.
pub(crate) struct HtpasswdBench {
    folder: TempDir,
    /// What the file looked like when it was last counted, and how often it had changed by then.
    counted: Mutex<([i64; 5], u64)>,
}

impl HtpasswdBench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self {
            folder,
            counted: Mutex::default(),
        }
    }
    fn path(&self) -> PathBuf {
        self.folder.path().join("users")
    }
    fn text(&self) -> Result<String> {
        match std::fs::read_to_string(self.path()) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(error.into()),
        }
    }
    /// Changes each line; one that becomes nothing goes.
    fn each_line(&self, change: impl Fn(&str) -> Option<String>) -> Result<()> {
        let lines: Vec<String> = self.text()?.lines().filter_map(change).collect();
        Ok(std::fs::write(self.path(), lines.join("\n") + "\n")?)
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
        settings(&self.path())
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
    fn values_that_the_server_refuses(&self) -> Option<Value> {
        None
    }
    fn reserved(&self) -> Vec<String> {
        Vec::new()
    }
    fn network(&self) -> Done {
        Done::Never(NO_SERVER)
    }
    fn rights(&self) -> Done {
        Done::Never(NO_RIGHTS)
    }

    async fn lets_in(&self, login: &str, password: &str) -> Result<bool> {
        fits(&self.path(), login, password).await
    }
    async fn open_session(&self, login: &str, password: &str) -> Result<Box<dyn Session>> {
        Ok(Box::new(Requests {
            path: self.path(),
            login: login.to_owned(),
            password: password.to_owned(),
        }))
    }
    async fn exists(&self, login: &str) -> Result<bool> {
        let text = self.text()?;
        let has = |line: &str| {
            line.strip_prefix(login)
                .is_some_and(|rest| rest.starts_with(':'))
        };
        Ok(text.lines().any(has))
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
        let text = self.text()? + &std::fs::read_to_string(other)?;
        std::fs::write(self.path(), text.replace("\n\n", "\n"))?;
        Ok(Done::Yes)
    }
    async fn open_to_all(&self, _login: &str) -> Result<Done> {
        Ok(Done::Never("no entry is one that any password fits"))
    }
    async fn switch_off(&self, login: &str) -> Result<Done> {
        let start = format!("{login}:");
        self.each_line(|line| match line.strip_prefix(&start) {
            Some(hash) => Some(format!("{start}!{hash}")),
            None => Some(line.to_owned()),
        })?;
        Ok(Done::Yes)
    }
    async fn switch_on(&self, login: &str) -> Result<Done> {
        let start = format!("{login}:!");
        self.each_line(|line| match line.strip_prefix(&start) {
            Some(hash) => Some(format!("{login}:{hash}")),
            None => Some(line.to_owned()),
        })?;
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
        self.each_line(
            |line| match line.starts_with("# mk1.") && line.ends_with(&end) {
                true => None,
                false => Some(line.to_owned()),
            },
        )
    }
    async fn replace_mark(&self, login: &str, mark: &str) -> Result<()> {
        let end = format!(" {login}");
        self.each_line(
            |line| match line.starts_with("# mk1.") && line.ends_with(&end) {
                true => Some(format!("# {mark} {login}")),
                false => Some(line.to_owned()),
            },
        )
    }

    async fn writes(&self) -> Result<u64> {
        let now = match std::fs::metadata(self.path()) {
            Ok(data) => {
                let inode = i64::try_from(data.ino()).unwrap_or(-1);
                let (changed, nanos) = (data.ctime(), data.ctime_nsec());
                [inode, data.mtime(), data.mtime_nsec(), changed, nanos]
            }
            Err(_) => [0; 5],
        };
        let mut counted = self
            .counted
            .lock()
            .map_err(|_| ServerError::new("poisoned"))?;
        if counted.0 != now {
            *counted = (now, counted.1 + 1);
        }
        Ok(counted.1)
    }
    async fn failed_logins(&self) -> Result<u64> {
        // Nobody logs in to a file.
        Ok(0)
    }
    async fn traces(&self) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        for entry in std::fs::read_dir(self.folder.path())? {
            let path = entry?.path();
            all.extend(path.display().to_string().into_bytes());
            all.extend(std::fs::read(path)?);
        }
        Ok(all)
    }

    async fn restart(&self) -> Result<Restart> {
        Err(ServerError::new(NO_SERVER))
    }
    async fn stop(&self) -> Result<()> {
        Err(ServerError::new(NO_SERVER))
    }
    async fn go_on(&self) -> Result<()> {
        Err(ServerError::new(NO_SERVER))
    }
    fn fault(&self, _fault: Fault) {}
}
