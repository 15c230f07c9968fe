//! A bench for an adapter that is a program: what the suite does behind its back is done by a second program,
//! its *bench*, and what should go wrong on the way to it is done by a relay between.
//!
//! `docs/spec/exec-adapter.md` says what both programs say. The client here is not the adapter's.

mod pids;
mod talk;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use mesh_sdk::ProviderName;
use mesh_sdk::adapter::{Admin, ProviderSettings};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::adapter::{Bench, Done, Restart, Session};
use crate::basics::{Fault, Result, ServerError};
use talk::{Talk, Told};

const RELAY: &str = include_str!("relay.sh");
const CANNOT: &str = "its bench says that the backend has nothing of the kind";

/// What an author hands to the suite.
#[derive(Debug, Clone, Default)]
pub struct Author {
    /// The adapter.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// The program that does things behind its back.
    pub bench: PathBuf,
    /// What both are told of the backend: the provider's `settings`.
    pub settings: Map<String, Value>,
    /// The admin login that both are handed.
    pub admin: Option<Admin>,
}

/// The bench of one author.
pub struct ExecBench {
    author: Author,
    folder: TempDir,
    fault: Mutex<String>,
    talk: Arc<tokio::sync::Mutex<Talk>>,
    name: String,
    values: Value,
    other_values: Value,
    refused_values: Option<Value>,
    canary: Option<Value>,
    /// Names for `data`.
    data: Value,
    /// Of which uses the backend tells.
    tells: Vec<String>,
}

impl ExecBench {
    /// Starts the bench program, and asks it what values to try.
    pub async fn start(mut author: Author) -> Result<Self> {
        for path in [&mut author.program, &mut author.bench] {
            *path = std::fs::canonicalize(&*path)
                .map_err(|error| ServerError::new(format!("{}: {error}", path.display())))?;
        }
        let folder = tempfile::tempdir()?;
        let relay = folder.path().join("relay");
        std::fs::write(&relay, RELAY)?;
        executable(&relay)?;
        let mut talk = Talk::start(&author).await?;
        let values = talk.must("values", json!({})).await?;
        if let Some(admin) = &author.admin {
            // What is reserved must be there, to be left alone.
            let login = json!({ "login": admin.user });
            if talk.must("exists", login).await?["exists"] != json!(true) {
                let made = json!({ "login": admin.user, "password": "an admin's own" });
                talk.must("make", made).await?;
            }
        }
        let some = |key: &str| Some(values[key].clone()).filter(Value::is_object);
        let missing = || ServerError::new("the bench names no `values` and `other_values` to try");
        let bench = Self {
            name: talk.name().to_owned(),
            values: some("values").ok_or_else(missing)?,
            other_values: some("other_values").ok_or_else(missing)?,
            refused_values: some("refused_values"),
            canary: some("canary"),
            data: values["data"].clone(),
            tells: serde_json::from_value(values["tells"].clone()).unwrap_or_default(),
            author,
            folder,
            fault: Mutex::default(),
            talk: Arc::new(tokio::sync::Mutex::new(talk)),
        };
        bench.set_fault("none 0".to_owned());
        Ok(bench)
    }

    /// Sets what the relay does from now on. Answers whether that is something else.
    fn set_fault(&self, line: String) -> bool {
        let Ok(mut now) = self.fault.lock() else {
            return false;
        };
        if *now == line {
            return false;
        }
        // Where it cannot be written, the relay of the next program ends at once, and the trial fails.
        let _ = std::fs::write(self.folder.path().join("fault"), format!("{line}\n"));
        *now = line;
        true
    }

    async fn ask(&self, what: &str, body: Value) -> Result<Value> {
        self.talk.lock().await.must(what, body).await
    }
    async fn flag(&self, what: &str, body: Value, key: &str) -> Result<bool> {
        let answer = self.ask(what, body).await?;
        let odd = || ServerError::new(format!("bench {what}: no `{key}` in its answer"));
        answer[key].as_bool().ok_or_else(odd)
    }
    async fn count(&self, what: &str) -> Result<u64> {
        let answer = self.ask(what, json!({})).await?;
        let odd = || ServerError::new(format!("bench {what}: no `count` in its answer"));
        answer["count"].as_u64().ok_or_else(odd)
    }
    /// What the backend may have nothing of.
    async fn may(&self, what: &str, body: Value) -> Result<Done> {
        match self.talk.lock().await.ask(what, body).await? {
            Told::Ok(_) => Ok(Done::Yes),
            Told::Cannot => Ok(Done::Never(CANNOT)),
        }
    }
    fn needs(&self, values: &Value, consumer: &str) -> Value {
        let mut all = json!({ "values": named(values, consumer) });
        if self.data.is_array() {
            all["data"] = named(&self.data, consumer);
        }
        all
    }
    fn tells(&self, what: &str) -> Done {
        match self.tells.iter().any(|one| one == what) {
            true => Done::Yes,
            false => Done::Never(CANNOT),
        }
    }
    /// The adapter's programs end at once, as by a crash. Comes back once they are gone.
    fn end_programs(&self) {
        let folder = self.folder.path();
        let programs = pids::read(&folder.join("programs"));
        pids::kill(&programs, &self.author.program);
        pids::wait_for_end(
            programs
                .into_iter()
                .chain(pids::read(&folder.join("relays"))),
        );
        for list in ["programs", "relays"] {
            let _ = std::fs::remove_file(folder.join(list));
        }
    }
}

fn executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let rights = std::fs::Permissions::from_mode(0o700);
    Ok(std::fs::set_permissions(path, rights)?)
}

/// Puts a consumer's name where the bench wrote `{consumer}`.
fn named(value: &Value, consumer: &str) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace("{consumer}", consumer)),
        Value::Array(list) => list.iter().map(|one| named(one, consumer)).collect(),
        Value::Object(map) => {
            let entries = map.iter();
            entries
                .map(|(key, one)| (key.clone(), named(one, consumer)))
                .collect()
        }
        other => other.clone(),
    }
}

/// A session of a consumer, as the bench program keeps it.
struct Open {
    talk: Arc<tokio::sync::Mutex<Talk>>,
    /// What is asked, and the flag in its answer. Where the backend has no sessions, whoever uses a login
    /// shows its password each time.
    what: &'static str,
    body: Value,
    key: &'static str,
}

#[async_trait]
impl Session for Open {
    async fn is_alive(&mut self) -> bool {
        let mut talk = self.talk.lock().await;
        let answer = talk.must(self.what, self.body.clone()).await;
        answer.is_ok_and(|answer| answer[self.key] == json!(true))
    }
}

#[async_trait]
impl Bench for ExecBench {
    fn name(&self) -> String {
        self.name.clone()
    }
    fn settings(&self) -> ProviderSettings {
        let relay = self.folder.path().join("relay").display().to_string();
        let mut args = vec![self.author.program.display().to_string()];
        args.extend(self.author.args.iter().cloned());
        let mut settings = ProviderSettings::of_file(provider(), "exec", &relay);
        settings.admin.clone_from(&self.author.admin);
        settings.options.insert("args".to_owned(), json!(args));
        let table = Value::Object(self.author.settings.clone());
        settings.options.insert("settings".to_owned(), table);
        if let Some(canary) = &self.canary {
            let canary = canary.clone();
            settings.options.insert("canary".to_owned(), canary);
        }
        settings
    }
    fn nowhere(&self) -> Result<ProviderSettings> {
        let mut settings = self.settings();
        settings.path = self.folder.path().join("nothing").display().to_string();
        Ok(settings)
    }
    fn values(&self, consumer: &str) -> Value {
        self.needs(&self.values, consumer)
    }
    fn other_values(&self, consumer: &str) -> Value {
        self.needs(&self.other_values, consumer)
    }
    fn values_that_the_server_refuses(&self) -> Option<Value> {
        let refused = self.refused_values.as_ref()?;
        Some(json!({ "values": refused }))
    }
    fn reserved(&self) -> Vec<String> {
        let admin = self.author.admin.iter();
        admin.map(|admin| admin.user.clone()).collect()
    }

    async fn lets_in(&self, login: &str, password: &str) -> Result<bool> {
        let body = json!({ "login": login, "password": password });
        self.flag("lets_in", body, "lets_in").await
    }
    async fn open_session(&self, login: &str, password: &str) -> Result<Box<dyn Session>> {
        let body = json!({ "login": login, "password": password });
        let asked = self
            .talk
            .lock()
            .await
            .ask("open_session", body.clone())
            .await?;
        let (what, body, key) = match asked {
            Told::Ok(answer) => (
                "session_alive",
                json!({ "session": answer["session"] }),
                "alive",
            ),
            Told::Cannot => ("lets_in", body, "lets_in"),
        };
        let talk = Arc::clone(&self.talk);
        Ok(Box::new(Open {
            talk,
            what,
            body,
            key,
        }))
    }
    async fn exists(&self, login: &str) -> Result<bool> {
        self.flag("exists", json!({ "login": login }), "exists")
            .await
    }

    async fn make(&self, login: &str, password: &str) -> Result<()> {
        let body = json!({ "login": login, "password": password });
        self.ask("make", body).await.map(drop)
    }
    async fn drop_login(&self, login: &str) -> Result<()> {
        let body = json!({ "login": login });
        self.ask("drop_login", body).await.map(drop)
    }
    async fn set_password(&self, login: &str, password: &str) -> Result<()> {
        let body = json!({ "login": login, "password": password });
        self.ask("set_password", body).await.map(drop)
    }
    async fn add_password(&self, login: &str, password: &str) -> Result<Done> {
        let body = json!({ "login": login, "password": password });
        self.may("add_password", body).await
    }
    async fn open_to_all(&self, login: &str) -> Result<Done> {
        self.may("open_to_all", json!({ "login": login })).await
    }
    async fn switch_off(&self, login: &str) -> Result<Done> {
        self.may("switch_off", json!({ "login": login })).await
    }
    async fn switch_on(&self, login: &str) -> Result<Done> {
        self.may("switch_on", json!({ "login": login })).await
    }
    async fn take_rights(&self, login: &str) -> Result<()> {
        let body = json!({ "login": login });
        self.ask("take_rights", body).await.map(drop)
    }
    async fn add_rights(&self, login: &str) -> Result<Done> {
        self.may("add_rights", json!({ "login": login })).await
    }
    async fn strip_mark(&self, login: &str) -> Result<()> {
        let body = json!({ "login": login });
        self.ask("strip_mark", body).await.map(drop)
    }
    async fn replace_mark(&self, login: &str, mark: &str) -> Result<()> {
        let body = json!({ "login": login, "mark": mark });
        self.ask("replace_mark", body).await.map(drop)
    }

    async fn leave_data(&self, login: &str, password: &str) -> Result<Option<String>> {
        let body = json!({ "login": login, "password": password });
        match self.talk.lock().await.ask("leave_data", body).await? {
            Told::Ok(answer) => match answer["name"].as_str() {
                Some(name) => Ok(Some(name.to_owned())),
                None => Err(ServerError::new(
                    "bench leave_data: no `name` in its answer",
                )),
            },
            Told::Cannot => Ok(None),
        }
    }
    async fn has_data(&self, login: &str) -> Result<bool> {
        self.flag("has_data", json!({ "login": login }), "has_data")
            .await
    }
    async fn uses_data(&self, owner: &str, login: &str, pass: &str) -> Result<Option<bool>> {
        let body = json!({ "owner": owner, "login": login, "password": pass });
        match self.talk.lock().await.ask("uses_data", body).await? {
            Told::Ok(answer) => Ok(Some(answer["uses_data"] == json!(true))),
            Told::Cannot => Ok(None),
        }
    }
    fn tells_sessions(&self) -> Done {
        self.tells("sessions")
    }
    fn tells_attempts(&self) -> Done {
        self.tells("attempts")
    }

    async fn writes(&self) -> Result<u64> {
        self.count("writes").await
    }
    async fn failed_logins(&self) -> Result<u64> {
        self.count("failed_logins").await
    }
    async fn traces(&self) -> Result<Vec<u8>> {
        // What the backend keeps and wrote down, and what anybody on this machine can see of the program.
        let answer = self.ask("traces", json!({})).await?;
        let mut traces = answer["text"].as_str().unwrap_or("").as_bytes().to_vec();
        let programs = pids::read(&self.folder.path().join("programs"));
        traces.extend(programs.iter().flat_map(|pid| pids::shown(*pid)));
        Ok(traces)
    }

    async fn restart(&self) -> Result<Restart> {
        self.end_programs();
        match self.talk.lock().await.ask("restart", json!({})).await? {
            Told::Ok(answer) if answer["forgets"] == json!(true) => Ok(Restart::Forgets),
            Told::Ok(_) | Told::Cannot => Ok(Restart::Keeps),
        }
    }
    async fn stop(&self) -> Result<()> {
        let programs = pids::read(&self.folder.path().join("programs"));
        pids::stop(&programs, &self.author.program);
        Ok(())
    }
    async fn go_on(&self) -> Result<()> {
        let programs = pids::read(&self.folder.path().join("programs"));
        pids::go_on(&programs, &self.author.program);
        Ok(())
    }
    fn fault(&self, fault: Fault) {
        // A later connection is a later program: the one that runs ends.
        let line = match fault {
            Fault::None => "none 0".to_owned(),
            Fault::Silent => "silent 0".to_owned(),
            Fault::StallAfter(bytes) => format!("stall {bytes}"),
            Fault::CutAfter(bytes) => format!("cut {bytes}"),
        };
        if self.set_fault(line) {
            self.end_programs();
        }
    }
}

#[expect(
    clippy::unwrap_used,
    reason = "the name is a constant that fits the rule"
)]
fn provider() -> ProviderName {
    ProviderName::new("conformance").unwrap()
}

#[cfg(test)]
mod tests {
    //! The consumer's name goes where the bench wants it.
    use super::*;

    #[test]
    fn a9_values_carry_the_consumers_name() {
        let value = json!({ "paths": ["/{consumer}/"], "n": 1, "deep": { "of": "{consumer}" } });
        let want = json!({ "paths": ["/web/"], "n": 1, "deep": { "of": "web" } });
        assert_eq!(named(&value, "web"), want);
    }
}
