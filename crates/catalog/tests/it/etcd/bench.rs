//! What the suite wants to do to an etcd, by the gateway and as root.

use async_trait::async_trait;
pub(crate) use base64ish::encode;
use mesh_conformance::adapter::{Bench, Done, Restart, Session};
use mesh_conformance::servers::{
    ETCD_ROOT, EtcdFlavor, EtcdServer, Fault, Proxy, Result, ServerError,
};
use mesh_sdk::ProviderName;
use mesh_sdk::adapter::{Admin, ProviderSettings};
use mesh_sdk::{Marker, Secret};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};

/// The adapter's admin in the tests.
pub(crate) const ADMIN: (&str, &str) = ("mesh", "mesh-password");

/// A server behind a proxy.
pub(crate) struct EtcdBench {
    flavor: EtcdFlavor,
    server: Mutex<EtcdServer>,
    /// Root's token, as long as it is good.
    token: Mutex<String>,
    proxy: Proxy,
}

/// Settings for a server on a port of this machine.
pub(crate) fn settings(port: u16) -> ProviderSettings {
    let provider = ProviderName::new("store").expect("a name");
    let mut settings = ProviderSettings::new(provider, "http", "127.0.0.1", port);
    settings.admin = Some(Admin {
        user: ADMIN.0.to_owned(),
        password: Some(Secret::from(ADMIN.1)),
    });
    settings.options.insert("bcrypt_cost".to_owned(), json!(4));
    settings
}

/// A prefix as a permission to read and write.
pub(crate) fn permission(prefix: &str, end: &str) -> Value {
    json!({ "permType": "READWRITE", "key": encode(prefix), "range_end": encode(end) })
}

impl EtcdBench {
    pub(crate) async fn new(flavor: EtcdFlavor) -> Self {
        let server = super::server(flavor).await;
        let proxy = Proxy::before(server.port()).await.expect("a proxy");
        Self {
            flavor,
            server: Mutex::new(server),
            token: Mutex::default(),
            proxy,
        }
    }

    /// As root, whose token is made anew when it is not good any more.
    async fn ask(&self, path: &str, body: Value) -> Result<(u16, Value)> {
        let server = self.server.lock().await;
        let mut token: MutexGuard<'_, String> = self.token.lock().await;
        let first = server.ask(path, body.clone(), Some(&token)).await?;
        if first.1["code"] != json!(16) && !token.is_empty() {
            return Ok(first);
        }
        *token = server
            .log_in(ETCD_ROOT.0, ETCD_ROOT.1)
            .await?
            .unwrap_or_default();
        server.ask(path, body, Some(&token)).await
    }
    async fn must(&self, path: &str, body: Value) -> Result<Value> {
        match self.ask(path, body).await? {
            (200, answer) => Ok(answer),
            (status, answer) => Err(ServerError::new(format!("{path}: {status} {answer}"))),
        }
    }
    async fn roles(&self, login: &str) -> Result<Vec<String>> {
        let user = self.must("auth/user/get", json!({ "name": login })).await?;
        let roles = user["roles"].as_array().into_iter().flatten();
        Ok(roles
            .filter_map(|role| role.as_str())
            .map(str::to_owned)
            .collect())
    }
    async fn add_role(&self, role: &str) -> Result<()> {
        // It may be there already.
        self.ask("auth/role/add", json!({ "name": role }))
            .await
            .map(|_| ())
    }
    async fn grant(&self, login: &str, role: &str) -> Result<()> {
        let body = json!({ "user": login, "role": role });
        self.must("auth/user/grant", body).await.map(|_| ())
    }
    async fn revoke(&self, login: &str, role: &str) -> Result<()> {
        let body = json!({ "name": login, "role": role });
        self.must("auth/user/revoke", body).await.map(|_| ())
    }
}

struct Open {
    port: u16,
    login: String,
    token: String,
}

#[async_trait]
impl Session for Open {
    async fn is_alive(&mut self) -> bool {
        // Everybody may look at themselves.
        let token = format!("Authorization: {}", self.token);
        let body = json!({ "name": self.login }).to_string();
        let headers = [token.as_str()];
        let path = "/v3/auth/user/get";
        let asked = mesh_conformance::servers::http(self.port, "POST", path, &headers, &body);
        asked.await.is_ok_and(|(status, _)| status == 200)
    }
}

#[async_trait]
impl Bench for EtcdBench {
    fn name(&self) -> String {
        self.flavor.name().to_owned()
    }
    fn settings(&self) -> ProviderSettings {
        settings(self.proxy.port())
    }
    fn values(&self, consumer: &str) -> Value {
        json!({
            "prefixes": [format!("/{consumer}/")],
            "read_prefixes": ["/shared/"],
            "write_keys": ["/log"],
        })
    }
    fn other_values(&self, consumer: &str) -> Value {
        // Less on the same range, another range, and one that goes.
        json!({ "read_prefixes": [format!("/{consumer}/"), "/shared/"], "keys": ["/more"] })
    }
    fn values_that_the_server_refuses(&self) -> Option<Value> {
        None
    }
    fn reserved(&self) -> Vec<String> {
        vec!["root".to_owned(), ADMIN.0.to_owned()]
    }

    async fn lets_in(&self, login: &str, password: &str) -> Result<bool> {
        Ok(self
            .server
            .lock()
            .await
            .log_in(login, password)
            .await?
            .is_some())
    }
    async fn open_session(&self, login: &str, password: &str) -> Result<Box<dyn Session>> {
        let server = self.server.lock().await;
        let token = server.log_in(login, password).await?;
        let token = token.ok_or_else(|| ServerError::new("the login was refused"))?;
        Ok(Box::new(Open {
            port: server.port(),
            login: login.to_owned(),
            token,
        }))
    }
    async fn exists(&self, login: &str) -> Result<bool> {
        Ok(self.ask("auth/user/get", json!({ "name": login })).await?.0 == 200)
    }

    async fn make(&self, login: &str, password: &str) -> Result<()> {
        let body = json!({ "name": login, "password": password });
        self.must("auth/user/add", body).await?;
        self.add_role("own").await?;
        self.grant(login, "own").await
    }
    async fn drop_login(&self, login: &str) -> Result<()> {
        self.must("auth/user/delete", json!({ "name": login }))
            .await
            .map(|_| ())
    }
    async fn set_password(&self, login: &str, password: &str) -> Result<()> {
        let body = json!({ "name": login, "password": password });
        self.must("auth/user/changepw", body).await.map(|_| ())
    }
    async fn add_password(&self, _login: &str, _password: &str) -> Result<Done> {
        Ok(Done::Never("a user has one password"))
    }
    async fn open_to_all(&self, _login: &str) -> Result<Done> {
        Ok(Done::Never("passwords are asked of everybody or of nobody"))
    }
    async fn switch_off(&self, _login: &str) -> Result<Done> {
        Ok(Done::Never("etcd has no switch"))
    }
    async fn switch_on(&self, _login: &str) -> Result<Done> {
        Ok(Done::Never("etcd has no switch"))
    }
    async fn take_rights(&self, login: &str) -> Result<()> {
        for role in self.roles(login).await? {
            if !role.starts_with(Marker::PREFIX) {
                self.revoke(login, &role).await?;
            }
        }
        Ok(())
    }
    async fn add_rights(&self, login: &str) -> Result<Done> {
        self.add_role("more").await?;
        let body = json!({ "name": "more", "perm": permission("/more/", "/more0") });
        self.must("auth/role/grant", body).await?;
        self.grant(login, "more").await?;
        for role in self.roles(login).await? {
            if role.starts_with("mesh.") {
                let body = json!({ "name": role, "perm": permission("/extra/", "/extra0") });
                self.must("auth/role/grant", body).await?;
            }
        }
        Ok(Done::Yes)
    }
    async fn strip_mark(&self, login: &str) -> Result<()> {
        for role in self.roles(login).await? {
            if role.starts_with(Marker::PREFIX) {
                self.revoke(login, &role).await?;
            }
        }
        Ok(())
    }
    async fn replace_mark(&self, login: &str, mark: &str) -> Result<()> {
        self.strip_mark(login).await?;
        self.add_role(mark).await?;
        self.grant(login, mark).await
    }

    async fn leave_data(&self, login: &str, password: &str) -> Result<Option<String>> {
        let key = encode(&format!("/{login}/left"));
        let body = json!({ "key": key, "value": encode("data") });
        let server = self.server.lock().await;
        let token = server.log_in(login, password).await?;
        let (status, answer) = server.ask("kv/put", body, token.as_deref()).await?;
        match status {
            200 => Ok(Some(format!("prefix:/{login}/"))),
            _ => Err(ServerError::new(format!("put: {status} {answer}"))),
        }
    }
    async fn uses_data(&self, owner: &str, login: &str, password: &str) -> Result<Option<bool>> {
        let key = encode(&format!("/{owner}/left"));
        let server = self.server.lock().await;
        let token = server.log_in(login, password).await?;
        let ask = json!({ "key": key });
        let (_, found) = server.ask("kv/range", ask, token.as_deref()).await?;
        let body = json!({ "key": key, "value": encode("data") });
        let (status, _) = server.ask("kv/put", body, token.as_deref()).await?;
        let found = found["kvs"].as_array().is_some_and(|all| !all.is_empty());
        Ok(Some(status == 200 && found))
    }
    async fn has_data(&self, login: &str) -> Result<bool> {
        let body = json!({ "key": encode(&format!("/{login}/left")) });
        let found = self.must("kv/range", body).await?;
        Ok(found["kvs"].as_array().is_some_and(|all| !all.is_empty()))
    }

    fn many(&self) -> usize {
        100
    }
    async fn writes(&self) -> Result<u64> {
        Ok(writes(&self.proxy))
    }
    async fn failed_logins(&self) -> Result<u64> {
        self.server.lock().await.refusals().await
    }
    fn takes_verifiers(&self) -> Done {
        match self.flavor {
            EtcdFlavor::Etcd34 => Done::Never("etcd 3.4 takes plain passwords only"),
            EtcdFlavor::Etcd35 => Done::Yes,
        }
    }
    async fn traces(&self) -> Result<Vec<u8>> {
        let log = self.server.lock().await.log().into_bytes();
        if self.takes_verifiers() != Done::Yes {
            return Ok(log);
        }
        // Only an admin's connection looks whether authentication is enabled; those that prove passwords
        // are the consumers' own.
        let asked = self.proxy.asked();
        let is_admins =
            |one: &&Vec<u8>| String::from_utf8_lossy(one).contains("POST /v3/auth/user/list");
        let mut traces = asked
            .iter()
            .filter(is_admins)
            .cloned()
            .collect::<Vec<_>>()
            .concat();
        traces.extend(log);
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

/// How many requests of the adapter wrote something.
pub(crate) fn writes(proxy: &Proxy) -> u64 {
    const PATHS: [&str; 9] = [
        "user/add",
        "user/changepw",
        "user/delete",
        "user/grant",
        "user/revoke",
        "role/add",
        "role/delete",
        "role/grant",
        "role/revoke",
    ];
    let auth: u64 = PATHS.iter().map(|path| requests(proxy, path)).sum();
    auth + of_line(proxy, "POST /v3/kv/deleterange HTTP")
}

/// How many requests of the adapter were for this path.
pub(crate) fn requests(proxy: &Proxy, path: &str) -> u64 {
    of_line(proxy, &format!("POST /v3/auth/{path} HTTP"))
}

fn of_line(proxy: &Proxy, line: &str) -> u64 {
    let count = |asked: &Vec<u8>| String::from_utf8_lossy(asked).matches(line).count() as u64;
    proxy.asked().iter().map(count).sum()
}

mod base64ish {
    /// Base64, as the gateway has keys.
    pub(crate) fn encode(text: &str) -> String {
        const DIGITS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut encoded = String::new();
        for part in text.as_bytes().chunks(3) {
            let bits = part
                .iter()
                .fold(0u32, |bits, byte| (bits << 8) | u32::from(*byte));
            let bits = bits << (8 * (3 - part.len()));
            for at in 0..4 {
                let digit = DIGITS[(bits >> (18 - 6 * at)) as usize & 63];
                encoded.push(if at <= part.len() {
                    char::from(digit)
                } else {
                    '='
                });
            }
        }
        encoded
    }
}
