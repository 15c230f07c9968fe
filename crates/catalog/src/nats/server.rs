//! What the server says of itself, what hints that it restarted, and what a person should know of it.

use std::time::Duration;

use mesh_sdk::adapter::{Finding, FindingLevel, Server};
use mesh_sdk::{Cx, Error};
use serde_json::Value;
use tokio::time::sleep;

use super::adapter::Nats;
use super::disk;
use super::hash::is_hash;
use super::look::{Seen, blocking};
use super::wire::{Wire, is_encrypted};

/// The first wait before a connection is tried again, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// What the admin login must be allowed.
pub(super) const RIGHTS: [&str; 6] = [
    "a user of the server's system account",
    "publish `$SYS.REQ.SERVER.*.RELOAD`: have the server load the file",
    "publish `$SYS.REQ.SERVER.*.VARZ`: know when it loaded it last",
    "publish `$SYS.REQ.SERVER.*.CONNZ`: know who is in use before a login is dropped",
    "publish `$SYS.REQ.USER.INFO`: tell in `mesh doctor` what the admin may do",
    "subscribe `_INBOX.meshkeeper.>`",
];
/// The subjects of them.
const NEEDED: [&str; 4] = [
    "$SYS.REQ.SERVER.*.RELOAD",
    "$SYS.REQ.SERVER.*.VARZ",
    "$SYS.REQ.SERVER.*.CONNZ",
    "$SYS.REQ.USER.INFO",
];

impl Nats {
    /// Who the server is.
    pub(super) async fn describe(&self, cx: &Cx) -> Result<Server, Error> {
        let wire = self.admin(cx).await?;
        let mut server = Server::default();
        server.version = format!("NATS {}", wire.info.version);
        server.run = Some(wire.info.server_id);
        Ok(server)
    }

    /// Holds an idle connection, and returns when a new one is there after it broke, or at once when
    /// the server runs anew since the last time.
    pub(super) async fn wait_for_hint(&self, cx: &Cx) -> Result<(), Error> {
        let (mut wire, waited) = self.connected_again(cx).await;
        let before = self.note_run(&wire);
        if waited || before.is_some_and(|before| before != wire.info.server_id) {
            return Ok(());
        }
        wire.wait_for_its_end().await;
        drop(wire);
        let (wire, _) = self.connected_again(cx).await;
        self.note_run(&wire);
        Ok(())
    }

    fn note_run(&self, wire: &Wire) -> Option<String> {
        let mut hinted = self.hinted.lock().ok()?;
        hinted.replace(wire.info.server_id.clone())
    }

    /// A connection, however long it takes; and whether it took more than one try.
    async fn connected_again(&self, cx: &Cx) -> (Wire, bool) {
        let (mut wait, mut waited) = (RETRY.0, false);
        loop {
            match self.admin(cx).await {
                Ok(wire) => return (wire, waited),
                Err(_) => sleep(wait).await,
            }
            waited = true;
            wait = (wait * 2).min(RETRY.1);
        }
    }

    /// The findings of `mesh doctor`.
    pub(super) async fn examine(&self, cx: &Cx) -> Result<Vec<Finding>, Error> {
        let mut wire = match self.admin(cx).await {
            Ok(wire) => wire,
            Err(error) => return Ok(vec![wrong("connection", error.to_string())]),
        };
        let mut findings = vec![version(&wire.info.version), self.encryption()];
        findings.push(rights(&mut wire).await);
        drop(wire);
        match self.see(cx).await {
            Ok(seen) => findings.extend(self.users(&seen).await?),
            Err(error) => findings.push(wrong("users file", error.to_string())),
        }
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

    async fn users(&self, seen: &Seen) -> Result<Vec<Finding>, Error> {
        let path = self.path()?;
        let (shown, at) = (path.display().to_string(), path.clone());
        let snapshot = blocking(move || disk::read(&at)).await??;
        let mut findings = Vec::new();
        findings.push(match seen.loaded {
            true => fine("users file", format!("{shown}: loaded by the server")),
            false => warn(
                "users file",
                format!("{shown}: the server has not loaded it since it changed"),
            )
            .with_action("nats-server --signal reload"),
        });
        if snapshot.mode & 0o004 != 0 {
            let message = format!("{shown}: everybody on this machine may read the hashes");
            let action = format!("chmod o= {shown}");
            findings.push(warn("users file", message).with_action(action));
        }
        let plain = seen.file.entries().iter().filter(|entry| {
            let stored = entry.stored.as_deref();
            stored.is_some_and(|stored| !stored.is_empty() && !is_hash(stored))
        });
        match plain.count() {
            0 => {}
            count => findings.push(warn(
                "passwords",
                format!("{shown}: {count} of its passwords stand there in plain text"),
            )),
        }
        Ok(findings)
    }
}

/// 2.10 was the first to reload when asked over a connection.
fn version(version: &str) -> Finding {
    let mut numbers = version.split('.').map(|n| n.parse().unwrap_or(0));
    let pair: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    match pair >= (2, 10) {
        true => fine("version", format!("NATS {version}")),
        false => wrong(
            "version",
            format!("NATS {version} cannot be told to load its users; 2.10 was the first"),
        ),
    }
}

/// What the admin login may do, as the server tells it.
async fn rights(wire: &mut Wire) -> Finding {
    const WHAT: &str = "ask what the admin may do";
    let answer = match wire.ask(WHAT, "$SYS.REQ.USER.INFO").await {
        Ok(answer) => answer,
        Err(error) => return warn("admin rights", error.to_string()),
    };
    judge_rights(&answer["data"]["permissions"]["publish"]["allow"])
}

fn judge_rights(allowed: &Value) -> Finding {
    let Some(allowed) = allowed.as_array() else {
        let message =
            "the admin may do all that the system account allows, such as cut off clients";
        return warn("admin rights", message)
            .with_action("give it a `permissions` table as the adapter's page lists it");
    };
    let allowed: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
    let more: Vec<&str> = allowed
        .iter()
        .filter(|subject| !NEEDED.contains(subject))
        .copied()
        .collect();
    let covers = |wanted: &str| {
        let is = |subject: &&str| *subject == wanted || subject.ends_with('>');
        allowed.iter().any(is)
    };
    if !covers(NEEDED[2]) {
        let message =
            "the admin may not ask who is connected, so a login that is in use is not told";
        let action = format!("let it publish `{}`", NEEDED[2]);
        return warn("admin rights", message).with_action(action);
    }
    match more.is_empty() {
        true => fine("admin rights", "no more than what is needed"),
        false => warn(
            "admin rights",
            format!("more than needed: {}", more.join(", ")),
        ),
    }
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

#[cfg(test)]
mod tests {
    //! Versions and rights.
    use super::*;
    use serde_json::json;

    #[test]
    fn s8_versions_and_rights_are_judged() {
        assert_eq!(version("2.15.1").level, FindingLevel::Ok);
        assert_eq!(version("2.10.0").level, FindingLevel::Ok);
        for old in ["2.9.25", "1.4", "odd"] {
            assert_eq!(version(old).level, FindingLevel::Error, "{old}");
        }
        assert_eq!(judge_rights(&json!(NEEDED)).level, FindingLevel::Ok);
        assert_eq!(judge_rights(&Value::Null).level, FindingLevel::Warning);
        let blind = judge_rights(&json!([NEEDED[0], NEEDED[1], NEEDED[3]]));
        assert!(blind.message.contains("in use"), "{blind:?}");
        let more = judge_rights(&json!([NEEDED[2], "$SYS.REQ.SERVER.*.KICK"]));
        assert!(more.message.contains("KICK"), "{more:?}");
    }
}
