//! What the suite wants to do to a RabbitMQ, by its management interface and over AMQP.

use async_trait::async_trait;
use mesh_conformance::adapter::{Bench, Done, Restart, Session};
use mesh_conformance::servers::{AmqpClient, Fault, Proxy, RabbitServer, Result, ServerError};
use mesh_sdk::ProviderName;
use mesh_sdk::adapter::{Admin, ProviderSettings};
use mesh_sdk::{Marker, Secret};
use serde_json::{Value, json};
use tokio::sync::Mutex;

/// The adapter's admin in the tests: an administrator without any permission.
pub(crate) const ADMIN: (&str, &str) = ("mesh", "mesh-password");

/// A server behind a proxy.
pub(crate) struct RabbitBench {
    server: Mutex<RabbitServer>,
    proxy: Proxy,
}

/// Settings for a server on a port of this machine.
pub(crate) fn settings(port: u16) -> ProviderSettings {
    let provider = ProviderName::new("queue").expect("a name");
    let mut settings = ProviderSettings::new(provider, "http", "127.0.0.1", port);
    settings.admin = Some(Admin {
        user: ADMIN.0.to_owned(),
        password: Some(Secret::from(ADMIN.1)),
    });
    settings
}

/// A user's page, with every byte of the name encoded.
pub(crate) fn user(login: &str) -> String {
    let encoded: String = login.bytes().map(|byte| format!("%{byte:02X}")).collect();
    format!("users/{encoded}")
}

impl RabbitBench {
    pub(crate) async fn new() -> Self {
        let server = super::server(None).await;
        let other = server.must("PUT", "vhosts/other", json!({})).await;
        other.expect("a virtual host");
        let proxy = Proxy::before(server.port()).await.expect("a proxy");
        Self {
            server: Mutex::new(server),
            proxy,
        }
    }

    async fn must(&self, method: &str, path: &str, body: Value) -> Result<Value> {
        self.server.lock().await.must(method, path, body).await
    }
    /// Writes a user with everything that it has but for what is changed.
    async fn change(&self, login: &str, change: impl FnOnce(&mut Value)) -> Result<()> {
        let mut shown = self.must("GET", &user(login), Value::Null).await?;
        change(&mut shown);
        let names = ["password", "password_hash", "hashing_algorithm", "tags"];
        let mut body = json!({});
        for name in names {
            if !shown[name].is_null() {
                body[name] = shown[name].clone();
            }
        }
        self.must("PUT", &user(login), body).await.map(|_| ())
    }
    async fn permit(&self, vhost: &str, login: &str, patterns: Value) -> Result<()> {
        let login = user(login).replacen("users/", "", 1);
        self.must("PUT", &format!("permissions/{vhost}/{login}"), patterns)
            .await
            .map(|_| ())
    }
}

fn without_marks(tags: &Value) -> Vec<Value> {
    let is_mark = |tag: &Value| {
        tag.as_str()
            .is_some_and(|tag| tag.starts_with(Marker::PREFIX))
    };
    tags.as_array()
        .into_iter()
        .flatten()
        .filter(|tag| !is_mark(tag))
        .cloned()
        .collect()
}

struct Open(AmqpClient);

#[async_trait]
impl Session for Open {
    async fn is_alive(&mut self) -> bool {
        self.0.is_alive().await
    }
}

#[async_trait]
impl Bench for RabbitBench {
    fn name(&self) -> String {
        "RabbitMQ 3.10".to_owned()
    }
    fn settings(&self) -> ProviderSettings {
        settings(self.proxy.port())
    }
    fn values(&self, consumer: &str) -> Value {
        // Whoever leaves data has a virtual host to itself.
        if consumer.ends_with("data") {
            let all = ".*";
            return json!({ "vhost": consumer, "configure": all, "write": all, "read": all, "create_vhost": true });
        }
        json!({
            "vhost": "/",
            "configure": format!("^{consumer}$"),
            "write": format!("^({consumer}|shared)$"),
            "read": "^shared$",
            "topics": [{ "exchange": "amq.topic", "write": format!("^{consumer}\\.") }],
            "tags": ["team a"],
        })
    }
    fn other_values(&self, _consumer: &str) -> Value {
        json!({
            "vhost": "/",
            "read": ".*",
            "also": [{ "vhost": "other", "write": "^log$" }],
            "topics": [{ "exchange": "amq.topic", "vhost": "other", "read": "^a" }],
            "tags": ["monitoring"],
        })
    }
    fn values_that_the_server_refuses(&self) -> Option<Value> {
        Some(json!({ "vhost": "/", "write": "(" }))
    }
    fn reserved(&self) -> Vec<String> {
        vec!["guest".to_owned(), ADMIN.0.to_owned()]
    }

    async fn lets_in(&self, login: &str, password: &str) -> Result<bool> {
        let server = self.server.lock().await;
        Ok(server.log_in(login, password, "/").await?.is_some())
    }
    async fn open_session(&self, login: &str, password: &str) -> Result<Box<dyn Session>> {
        match self
            .server
            .lock()
            .await
            .log_in(login, password, "/")
            .await?
        {
            Some(client) => Ok(Box::new(Open(client))),
            None => Err(ServerError::new("the login was refused")),
        }
    }
    async fn exists(&self, login: &str) -> Result<bool> {
        let (status, _) = self
            .server
            .lock()
            .await
            .ask("GET", &user(login), Value::Null)
            .await?;
        Ok(status == 200)
    }

    async fn make(&self, login: &str, password: &str) -> Result<()> {
        let body = json!({ "password": password, "tags": "" });
        self.must("PUT", &user(login), body).await?;
        let own = json!({ "configure": "^own$", "write": "^own$", "read": "" });
        self.permit("%2F", login, own).await
    }
    async fn drop_login(&self, login: &str) -> Result<()> {
        self.must("DELETE", &user(login), Value::Null)
            .await
            .map(|_| ())
    }
    async fn set_password(&self, login: &str, password: &str) -> Result<()> {
        self.change(login, |user| {
            user["password"] = json!(password);
            user["password_hash"] = Value::Null;
        })
        .await
    }
    async fn add_password(&self, _login: &str, _password: &str) -> Result<Done> {
        Ok(Done::Never("a user has one password"))
    }
    async fn open_to_all(&self, _login: &str) -> Result<Done> {
        Ok(Done::Never(
            "a user without a hash is let in by no password",
        ))
    }
    async fn switch_off(&self, login: &str) -> Result<Done> {
        let login = user(login).replacen("users/", "", 1);
        let path = format!("user-limits/{login}/max-connections");
        self.must("PUT", &path, json!({ "value": 0 })).await?;
        Ok(Done::Yes)
    }
    async fn switch_on(&self, login: &str) -> Result<Done> {
        self.change(login, |user| {
            user["hashing_algorithm"] = json!("rabbit_password_hashing_sha256");
        })
        .await?;
        Ok(Done::Yes)
    }
    async fn take_rights(&self, login: &str) -> Result<()> {
        let none = json!({ "configure": "", "write": "", "read": "" });
        self.permit("%2F", login, none).await?;
        self.change(login, |user| {
            let kept = |tag: &Value| *tag != json!("team a");
            let tags = user["tags"].as_array().into_iter().flatten();
            user["tags"] = tags.filter(|tag| kept(tag)).cloned().collect();
        })
        .await
    }
    async fn add_rights(&self, login: &str) -> Result<Done> {
        let all = json!({ "configure": ".*", "write": ".*", "read": ".*" });
        self.permit("other", login, all).await?;
        self.change(login, |user| {
            if let Some(tags) = user["tags"].as_array_mut() {
                tags.push(json!("policymaker"));
            }
        })
        .await?;
        Ok(Done::Yes)
    }
    async fn strip_mark(&self, login: &str) -> Result<()> {
        self.change(login, |user| {
            user["tags"] = json!(without_marks(&user["tags"]))
        })
        .await
    }
    async fn replace_mark(&self, login: &str, mark: &str) -> Result<()> {
        self.change(login, |user| {
            let mut tags = without_marks(&user["tags"]);
            tags.push(json!(mark));
            user["tags"] = json!(tags);
        })
        .await
    }

    async fn leave_data(&self, login: &str, password: &str) -> Result<Option<String>> {
        let server = self.server.lock().await;
        let client = server.log_in(login, password, login).await?;
        let mut client = client.ok_or_else(|| ServerError::new("the login was refused"))?;
        client.leave("kept", b"tea").await?;
        Ok(Some(login.to_owned()))
    }
    async fn uses_data(&self, owner: &str, login: &str, password: &str) -> Result<Option<bool>> {
        let server = self.server.lock().await;
        let client = server.log_in(login, password, owner).await?;
        let Some(mut client) = client else {
            return Ok(Some(false));
        };
        Ok(Some(client.leave("kept", b"tea").await.is_ok()))
    }
    async fn has_data(&self, login: &str) -> Result<bool> {
        has_message(&*self.server.lock().await, login).await
    }
    fn tells_attempts(&self) -> Done {
        Done::Never("RabbitMQ counts refused logins for a node as a whole, not by user")
    }

    async fn writes(&self) -> Result<u64> {
        Ok(writes(&self.proxy))
    }
    async fn failed_logins(&self) -> Result<u64> {
        let attempts = self
            .must("GET", "auth/attempts/mesh@localhost", Value::Null)
            .await?;
        let failed = |protocol: &Value| protocol["auth_attempts_failed"].as_u64().unwrap_or(0);
        Ok(attempts.as_array().into_iter().flatten().map(failed).sum())
    }
    async fn traces(&self) -> Result<Vec<u8>> {
        let mut traces = self.proxy.asked().concat();
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

/// Whether a message is still in the queue of a virtual host, read by an admin.
pub(crate) async fn has_message(server: &RabbitServer, vhost: &str) -> Result<bool> {
    let (status, _) = server
        .ask("GET", &format!("vhosts/{vhost}"), Value::Null)
        .await?;
    if status == 404 {
        return Ok(false);
    }
    let admin = mesh_conformance::servers::RABBIT_ADMIN.0;
    let all = json!({ "configure": "", "write": "", "read": ".*" });
    let permissions = format!("permissions/{vhost}/{admin}");
    server.must("PUT", &permissions, all).await?;
    let get = json!({ "count": 1, "ackmode": "ack_requeue_true", "encoding": "auto" });
    let (_, got) = server
        .ask("POST", &format!("queues/{vhost}/kept/get"), get)
        .await?;
    server.must("DELETE", &permissions, Value::Null).await?;
    Ok(got[0]["payload"] == "tea")
}

/// How many requests of the adapter wrote something.
pub(crate) fn writes(proxy: &Proxy) -> u64 {
    requests(proxy, &["PUT /", "POST /", "DELETE /"])
}

/// How many requests of the adapter began with one of these. None of them is in a body.
pub(crate) fn requests(proxy: &Proxy, begins: &[&str]) -> u64 {
    let count = |asked: &[u8]| {
        let text = String::from_utf8_lossy(asked);
        begins
            .iter()
            .map(|begin| text.matches(begin).count() as u64)
            .sum::<u64>()
    };
    proxy.asked().iter().map(|asked| count(asked)).sum()
}
