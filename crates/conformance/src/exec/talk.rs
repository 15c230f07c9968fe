//! The talk with a bench program: one request, one answer.

use std::process::Stdio;
use std::time::Duration;

use mesh_sdk::Secret;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::Author;
use crate::basics::{Result, ServerError};

/// No answer takes longer.
const DEADLINE: Duration = Duration::from_secs(20);

/// What came of a request.
pub(super) enum Told {
    Ok(Value),
    /// The backend has nothing of the kind.
    Cannot,
}

/// A running bench program, killed on drop.
pub(super) struct Talk {
    _child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
    name: String,
    next: u64,
}

impl Talk {
    pub(super) async fn start(author: &Author) -> Result<Self> {
        let mut child = Command::new(&author.bench)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .current_dir(author.bench.parent().unwrap_or(&author.bench))
            .spawn()
            .map_err(|e| ServerError::new(format!("start {}: {e}", author.bench.display())))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(ServerError::new("the bench has no pipes"));
        };
        let mut talk = Self {
            _child: child,
            stdin,
            stdout: BufReader::new(stdout).lines(),
            name: String::new(),
            next: 1,
        };
        let admin = author.admin.as_ref().map(|admin| {
            let password = admin.password.as_ref().and_then(Secret::expose_str);
            json!({ "user": admin.user, "password": password })
        });
        let hello = json!({
            "op": "hello",
            "versions": [1],
            "provider": "conformance",
            "admin": admin,
            "settings": author.settings,
        });
        let answer = talk.exchange(&hello).await?;
        if answer["version"] != json!(1) {
            return Err(ServerError::new(format!("the bench's hello: {answer}")));
        }
        talk.name = answer["name"].as_str().unwrap_or("a program").to_owned();
        Ok(talk)
    }
    /// How it calls its backend.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
    /// Asks for something that every bench must be able to do.
    pub(super) async fn must(&mut self, what: &str, body: Value) -> Result<Value> {
        match self.ask(what, body).await? {
            Told::Ok(value) => Ok(value),
            Told::Cannot => Err(ServerError::new(format!("bench {what}: it cannot"))),
        }
    }
    /// Asks for something.
    pub(super) async fn ask(&mut self, what: &str, body: Value) -> Result<Told> {
        let id = self.next;
        self.next += 1;
        let mut request = json!({ "id": id, "op": "bench", "do": what });
        if let (Some(request), Value::Object(body)) = (request.as_object_mut(), body) {
            request.extend(body);
        }
        let mut answer = self.exchange(&request).await?;
        if answer["id"] != json!(id) {
            return Err(ServerError::new(format!("bench {what}: another's answer")));
        }
        if answer["error"]["class"] == json!("cannot") {
            return Ok(Told::Cannot);
        }
        match answer.get_mut("ok") {
            Some(ok) => Ok(Told::Ok(ok.take())),
            None => {
                let message = format!("bench {what}: {}", answer["error"]);
                Err(ServerError::new(message))
            }
        }
    }

    async fn exchange(&mut self, line: &Value) -> Result<Value> {
        let talk = async {
            self.stdin.write_all(format!("{line}\n").as_bytes()).await?;
            self.stdin.flush().await?;
            self.stdout.next_line().await
        };
        let line = timeout(DEADLINE, talk)
            .await
            .map_err(|_| ServerError::new("the bench: no answer in time"))??;
        let line = line.ok_or_else(|| ServerError::new("the bench ended"))?;
        serde_json::from_str(&line)
            .map_err(|error| ServerError::new(format!("the bench's answer: {error}")))
    }
}
