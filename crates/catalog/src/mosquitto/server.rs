//! What the broker says of itself, what hints that it restarted, and what a person should know of it.

use std::time::Duration;

use mesh_sdk::adapter::{Finding, FindingLevel, Server};
use mesh_sdk::{Cx, Error};
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::adapter::Mosquitto;
use super::control::{Control, Role};
use super::wire::{enter, is_encrypted};

/// The first wait before a connection is tried again, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// A broker that publishes nothing on `$SYS` is not waited for.
const VERSION: Duration = Duration::from_secs(1);

/// What the admin login must be allowed, as ACLs of a role.
pub(super) const RIGHTS: [&str; 5] = [
    "publishClientSend `$CONTROL/dynamic-security/v1`",
    "subscribeLiteral `$CONTROL/dynamic-security/v1/response`",
    "publishClientReceive `$CONTROL/dynamic-security/v1/response`",
    "subscribeLiteral `$SYS/broker/version`: know the version",
    "publishClientReceive `$SYS/broker/version`: know the version",
];
const NEEDED: [(&str, &str); 5] = [
    ("publishClientSend", "$CONTROL/dynamic-security/v1"),
    ("subscribeLiteral", "$CONTROL/dynamic-security/v1/response"),
    (
        "publishClientReceive",
        "$CONTROL/dynamic-security/v1/response",
    ),
    ("subscribeLiteral", "$SYS/broker/version"),
    ("publishClientReceive", "$SYS/broker/version"),
];

impl Mosquitto {
    /// Which version it is. The broker tells nothing that changes with each start and stays until the next.
    pub(super) async fn describe(&self, cx: &Cx) -> Result<Server, Error> {
        let mut control = Control::open(&self.settings, cx).await?;
        let mut server = Server::default();
        server.version = version(cx, &mut control).await;
        control.leave().await;
        Ok(server)
    }

    /// Holds an idle connection, and returns when a new one is there after it broke.
    pub(super) async fn wait_for_hint(&self, cx: &Cx) -> Result<(), Error> {
        let (mut control, waited) = self.connected_again(cx).await;
        if waited {
            return Ok(());
        }
        control.wait_for_its_end().await;
        drop(control);
        let (control, _) = self.connected_again(cx).await;
        control.leave().await;
        Ok(())
    }

    /// A connection, however long it takes; and whether it took more than one try.
    async fn connected_again(&self, cx: &Cx) -> (Control, bool) {
        let (mut wait, mut waited) = (RETRY.0, false);
        loop {
            match Control::log_in(&self.settings, cx).await {
                Ok(control) => return (control, waited),
                Err(_) => sleep(wait).await,
            }
            waited = true;
            wait = (wait * 2).min(RETRY.1);
        }
    }

    /// The findings of `mesh doctor`.
    pub(super) async fn examine(&self, cx: &Cx) -> Result<Vec<Finding>, Error> {
        let mut control = match Control::open(&self.settings, cx).await {
            Ok(control) => control,
            Err(error) => return Ok(vec![wrong("connection", error.to_string())]),
        };
        let mut findings = vec![fine("version", version(cx, &mut control).await)];
        findings.push(self.encryption());
        findings.extend(self.rights(cx, &mut control).await?);
        findings.extend(defaults(cx, &mut control).await?);
        control.leave().await;
        findings.push(self.without_login().await);
        findings.push(warn(
            "persistence",
            "the broker says yes before it has written its file, and says nothing if it cannot: what is \
             lost at a restart is made again then",
        ));
        Ok(findings)
    }

    fn encryption(&self) -> Finding {
        let settings = &self.settings;
        match (is_encrypted(settings), settings.is_loopback()) {
            (true, _) if settings.tls.dangerously_unverified => warn(
                "tls",
                "encrypted, and the server's certificate is not verified",
            ),
            (true, _) => fine("tls", "encrypted, and the server's certificate is verified"),
            (false, true) => fine("tls", "not encrypted, and on this machine"),
            (false, false) => warn(
                "tls",
                "not encrypted: passwords of admin and apps can be read on the way",
            ),
        }
    }

    async fn rights(&self, cx: &Cx, control: &mut Control) -> Result<Option<Finding>, Error> {
        let admin = self
            .settings
            .admin
            .as_ref()
            .map_or("", |admin| admin.user.as_str());
        let clients = control.clients(cx).await?;
        let Some(own) = clients.into_iter().find(|client| client.username == admin) else {
            let message = "the admin is no client of the plugin, but of a password file";
            return Ok(Some(warn("admin rights", message)));
        };
        let roles = control.roles(cx).await?;
        let has = |role: &&Role| own.roles.iter().any(|r| r.rolename == role.rolename);
        let acls = roles.iter().filter(has).flat_map(|role| &role.acls);
        let more: Vec<String> = acls
            .filter(|acl| acl.allow && !NEEDED.contains(&(&acl.acltype, &acl.topic)))
            .map(|acl| format!("{} {}", acl.acltype, acl.topic))
            .collect();
        Ok(Some(match more.is_empty() {
            true => fine("admin rights", "no more than what is needed"),
            false => warn(
                "admin rights",
                format!("more than needed: {}", more.join(", ")),
            ),
        }))
    }

    /// Whether whoever has no login is let in, as `allow_anonymous` does. Whom the plugin knows needs the
    /// right password all the same, and whom it does not know is refused.
    async fn without_login(&self) -> Finding {
        match enter(&self.settings, None, None).await {
            Ok(None) => fine("clients without login", "refused"),
            Ok(Some(wire)) => {
                wire.leave().await;
                let message = "let in: they may do what the plugin's anonymous group may";
                warn("clients without login", message)
                    .with_action("set `allow_anonymous false` in mosquitto.conf")
            }
            Err(error) => warn("clients without login", error.to_string()),
        }
    }
}

async fn version(cx: &Cx, control: &mut Control) -> String {
    match timeout(VERSION, control.version(cx)).await {
        Ok(Ok(said)) => said.replace("mosquitto version", "Mosquitto"),
        _ => "Mosquitto, of a version that it does not tell".to_owned(),
    }
}

/// What everybody may do whose roles say nothing about it.
async fn defaults(cx: &Cx, control: &mut Control) -> Result<Option<Finding>, Error> {
    const WHAT: &str = "ask what is allowed by default";
    let ask = json!({ "command": "getDefaultACLAccess" });
    let Some(answer) = control.send(cx, WHAT, &[ask]).await?.pop() else {
        return Ok(None);
    };
    let answer = answer?;
    let open = |one: &&serde_json::Value| {
        let kind = one["acltype"].as_str().unwrap_or("");
        one["allow"] == true && matches!(kind, "publishClientSend" | "subscribe")
    };
    let acls = answer["acls"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let open: Vec<&str> = acls
        .iter()
        .filter(open)
        .filter_map(|one| one["acltype"].as_str())
        .collect();
    Ok(Some(match open.is_empty() {
        true => fine("default access", "what is not granted is refused"),
        false => warn(
            "default access",
            format!("allowed to everybody: {}", open.join(", ")),
        )
        .with_action("mosquitto_ctrl dynsec setDefaultACLAccess publishClientSend deny"),
    }))
}

fn fine(about: &str, message: impl Into<String>) -> Finding {
    Finding::new(FindingLevel::Ok, about, message)
}
fn warn(about: &str, message: impl Into<String>) -> Finding {
    Finding::new(FindingLevel::Warning, about, message)
}
fn wrong(about: &str, message: impl Into<String>) -> Finding {
    Finding::new(FindingLevel::Error, about, message)
}
