//! What the suite wants to do to a Mosquitto broker, by a client of another MQTT version.

use async_trait::async_trait;
use mesh_conformance::adapter::{Bench, Done, Restart, Session};
use mesh_conformance::servers::{
    Fault, MosquittoOptions, MosquittoServer, MqttClient, Proxy, Result, ServerError,
};
use mesh_sdk::adapter::{Admin, ProviderSettings};
use mesh_sdk::{ProviderName, Secret};
use serde_json::{Value, json};
use tokio::sync::Mutex;

/// The admin in the tests: with the least rights that the page names.
pub(crate) const ADMIN: (&str, &str) = ("mesh", "admin-password");

/// Makes it.
pub(crate) async fn make_admin(port: u16) -> Result<()> {
    let acl = |kind: &str, topic: &str| json!({ "acltype": kind, "topic": topic, "allow": true });
    let answers = "$CONTROL/dynamic-security/v1/response";
    let acls = [
        acl("publishClientSend", "$CONTROL/dynamic-security/v1"),
        acl("subscribeLiteral", answers),
        acl("publishClientReceive", answers),
        acl("subscribeLiteral", "$SYS/broker/version"),
        acl("publishClientReceive", "$SYS/broker/version"),
    ];
    let mut client = MqttClient::admin(port).await?;
    client
        .command(&[
            json!({ "command": "createRole", "rolename": "provisioning", "acls": acls }),
            json!({ "command": "createRole", "rolename": "readers" }),
            json!({
                "command": "createClient", "username": ADMIN.0, "password": ADMIN.1,
                "roles": [{ "rolename": "provisioning" }],
            }),
        ])
        .await?;
    Ok(())
}

/// Settings for a broker on a port of this machine.
pub(crate) fn settings(port: u16) -> ProviderSettings {
    let provider = ProviderName::new("things").expect("a name");
    let mut settings = ProviderSettings::new(provider, "mqtt", "127.0.0.1", port);
    settings.admin = Some(Admin {
        user: ADMIN.0.to_owned(),
        password: Some(Secret::from(ADMIN.1)),
    });
    settings
}

/// A broker behind a proxy.
pub(crate) struct MosquittoBench {
    server: Mutex<MosquittoServer>,
    proxy: Proxy,
    port: u16,
}

/// Every command that changes something.
const WRITES: [&str; 10] = [
    "createClient",
    "modifyClient",
    "deleteClient",
    "enableClient",
    "disableClient",
    "addClientRole",
    "removeClientRole",
    "createRole",
    "modifyRole",
    "deleteRole",
];

/// How many of those were sent.
pub(crate) fn writes(proxy: &Proxy) -> u64 {
    let asked = proxy.asked();
    let count = |bytes: &Vec<u8>| -> u64 {
        let text = String::from_utf8_lossy(bytes);
        let of = |word: &&str| text.matches(&format!("\"command\":\"{word}\"")).count() as u64;
        WRITES.iter().map(of).sum()
    };
    asked.iter().map(count).sum()
}

impl MosquittoBench {
    pub(crate) async fn new() -> Self {
        let server = super::server(MosquittoOptions::default()).await;
        let port = server.port();
        make_admin(port).await.expect("an admin");
        Self {
            server: Mutex::new(server),
            proxy: Proxy::before(port).await.expect("a proxy"),
            port,
        }
    }

    async fn command(&self, command: Value) -> Result<Value> {
        let mut client = MqttClient::admin(self.port).await?;
        let mut answers = client.command(&[command]).await?;
        Ok(answers.pop().unwrap_or_default())
    }
    async fn of_client(&self, command: &str, login: &str) -> Result<()> {
        let command = json!({ "command": command, "username": login });
        self.command(command).await.map(|_| ())
    }
    async fn mark(&self, login: &str, mark: &str) -> Result<()> {
        let role = format!("meshkeeper/{login}");
        let command = json!({ "command": "modifyRole", "rolename": role, "textname": mark });
        self.command(command).await.map(|_| ())
    }
}

struct Open(MqttClient);

#[async_trait]
impl Session for Open {
    async fn is_alive(&mut self) -> bool {
        self.0.ping().await.is_ok()
    }
}

#[async_trait]
impl Bench for MosquittoBench {
    fn name(&self) -> String {
        "Mosquitto 2.0".to_owned()
    }
    fn settings(&self) -> ProviderSettings {
        settings(self.proxy.port())
    }
    fn values(&self, consumer: &str) -> Value {
        json!({
            "publish": [format!("{consumer}/#"), "shared/+"],
            "subscribe": [format!("{consumer}/#"), "news"],
        })
    }
    fn other_values(&self, consumer: &str) -> Value {
        json!({
            "publish": [format!("{consumer}/only"), "all/#"],
            "subscribe": ["news"],
            "roles": ["readers"],
        })
    }
    fn values_that_the_server_refuses(&self) -> Option<Value> {
        Some(json!({ "publish": ["a"], "roles": ["no such role"] }))
    }
    fn reserved(&self) -> Vec<String> {
        vec![ADMIN.0.to_owned()]
    }
    fn tells_runs(&self) -> Done {
        Done::Never(
            "the broker tells nothing that changes with each start and stays until the next",
        )
    }
    fn takes_verifiers(&self) -> Done {
        Done::Never("the plugin takes plain passwords only; none was written down")
    }

    async fn lets_in(&self, login: &str, password: &str) -> Result<bool> {
        Ok(MqttClient::log_in(self.port, login, password)
            .await?
            .is_some())
    }
    async fn open_session(&self, login: &str, password: &str) -> Result<Box<dyn Session>> {
        let client = MqttClient::log_in(self.port, login, password).await?;
        let client = client.ok_or_else(|| ServerError::new("not let in"))?;
        Ok(Box::new(Open(client)))
    }
    async fn exists(&self, login: &str) -> Result<bool> {
        match self.of_client("getClient", login).await {
            Ok(()) => Ok(true),
            Err(error) if error.to_string().contains("not found") => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn make(&self, login: &str, password: &str) -> Result<()> {
        let role = format!("own role of {login}");
        let acl = json!({ "acltype": "publishClientSend", "topic": "own/#", "allow": true });
        let mut client = MqttClient::admin(self.port).await?;
        let commands = [
            json!({ "command": "createRole", "rolename": role, "acls": [acl] }),
            json!({
                "command": "createClient", "username": login, "password": password,
                "roles": [{ "rolename": role }],
            }),
        ];
        client.command(&commands).await.map(|_| ())
    }
    async fn drop_login(&self, login: &str) -> Result<()> {
        self.of_client("deleteClient", login).await
    }
    async fn set_password(&self, login: &str, password: &str) -> Result<()> {
        let command = json!({ "command": "modifyClient", "username": login, "password": password });
        self.command(command).await.map(|_| ())
    }
    async fn add_password(&self, _login: &str, _password: &str) -> Result<Done> {
        Ok(Done::Never("a client of the plugin has one password"))
    }
    async fn open_to_all(&self, _login: &str) -> Result<Done> {
        Ok(Done::Never(
            "the plugin lets in nobody whom it knows with another password",
        ))
    }
    async fn switch_off(&self, login: &str) -> Result<Done> {
        self.of_client("disableClient", login).await?;
        Ok(Done::Yes)
    }
    async fn switch_on(&self, login: &str) -> Result<Done> {
        self.of_client("enableClient", login).await?;
        Ok(Done::Yes)
    }
    async fn take_rights(&self, login: &str) -> Result<()> {
        let acl = json!({ "acltype": "publishClientSend", "topic": "own/x", "allow": true });
        let role = format!("meshkeeper/{login}");
        let command = json!({ "command": "modifyRole", "rolename": role, "acls": [acl] });
        self.command(command).await.map(|_| ())
    }
    async fn add_rights(&self, login: &str) -> Result<Done> {
        let role = format!("meshkeeper/{login}");
        self.command(json!({
            "command": "addRoleACL", "rolename": role, "acltype": "publishClientSend",
            "topic": "more/#", "allow": true,
        }))
        .await?;
        Ok(Done::Yes)
    }
    async fn strip_mark(&self, login: &str) -> Result<()> {
        self.mark(login, "").await
    }
    async fn replace_mark(&self, login: &str, mark: &str) -> Result<()> {
        self.mark(login, mark).await
    }

    async fn writes(&self) -> Result<u64> {
        Ok(writes(&self.proxy))
    }
    async fn failed_logins(&self) -> Result<u64> {
        let log = self.server.lock().await.log();
        Ok(log.matches("not authorised").count() as u64)
    }
    async fn traces(&self) -> Result<Vec<u8>> {
        let server = self.server.lock().await;
        let mut traces = server.log().into_bytes();
        traces.extend(std::fs::read(server.file())?);
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
