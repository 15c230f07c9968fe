//! What the server says of itself, what hints that it restarted, and what a person should know of it.

use std::time::Duration;

use mesh_sdk::adapter::{Finding, FindingLevel, Server};
use mesh_sdk::{Class, Cx, Error};
use tokio::time::{sleep, timeout};

use super::acl::Shown;
use super::adapter::{Redis, get_user};
use super::commands::Table;
use super::connect::{Facts, Session};
use super::wire::Request;

/// The first wait before a connection is tried again, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// How often an idle connection is asked for a sign of life, and how long that may take.
const PING: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(5));

/// What the admin login must be allowed, and what for.
const NEEDED: [(&str, &str); 12] = [
    ("+acl|getuser", "look at a login"),
    ("+acl|list", "look at all logins"),
    ("+acl|users", "list the names"),
    ("+acl|cat", "compare rules by meaning"),
    ("+acl|setuser", "make logins"),
    ("+acl|deluser", "remove logins"),
    (
        "+acl|save",
        "have logins kept over a restart, where there is an ACL file",
    ),
    (
        "+client|kill",
        "end the sessions of a login that is switched off",
    ),
    ("+client|list", "tell who is in use"),
    ("+acl|log", "tell whether a login that is off was tried"),
    ("+info", "know the version and see a restart"),
    ("+ping", "see that the server is there"),
];
/// What it is better to have.
const HELPFUL: (&str, &str) = ("+config|get", "tell whether a restart forgets logins");

/// What deleting keys needs beside it.
const PURGING: &str = "for `mesh purge` only: +select +scan +unlink ~*";

/// All of them, as the adapter's page lists them.
pub(super) const RIGHTS: [&str; NEEDED.len() + 2] = {
    let mut all = [HELPFUL.0; NEEDED.len() + 2];
    let mut at = 0;
    while at < NEEDED.len() {
        all[at] = NEEDED[at].0;
        at += 1;
    }
    all[at + 1] = PURGING;
    all
};

/// The versions that the conformance suite runs.
const TRIED: [(&str, u32, u32); 3] = [("Redis", 6, 2), ("Redis", 7, 0), ("Valkey", 9, 1)];

impl Redis {
    /// Version, run, and whether a restart would forget. A replica takes changes of users like any other
    /// server (tried on 7.0.15), so it is never read-only here.
    pub(super) async fn describe(&self, cx: &Cx) -> Result<Server, Error> {
        let mut session = self.session(cx).await?;
        let forgets = self.forgets(&mut session).await?;
        let mut server = Server::default();
        server.version = session.facts.title;
        server.run = Some(session.facts.run);
        server.forgets = forgets;
        Ok(server)
    }

    async fn forgets(&self, session: &mut Session) -> Result<Option<String>, Error> {
        let has = self.aclfile(session).await?;
        let unsaved = self.state.of(&session.facts.run).unsaved;
        Ok(match has {
            Some(true) => unsaved,
            Some(false) => Some(
                "it keeps its logins in memory and forgets them at a restart: give it an `aclfile`, and \
                 they are saved after each change"
                    .to_owned(),
            ),
            None => Some(
                "it cannot be told whether a restart forgets its logins: allow the admin login \
                 `+config|get`"
                    .to_owned(),
            ),
        })
    }

    /// Holds an idle connection, and returns when a new one is there after it broke, or at once when
    /// the server runs anew since the last time.
    pub(super) async fn wait_for_hint(&self, cx: &Cx) -> Result<(), Error> {
        let (mut session, waited) = self.connected_again(cx).await;
        let run = session.facts.run.clone();
        let before = match self.hinted.lock() {
            Ok(mut hinted) => hinted.replace(run.clone()),
            Err(_) => None,
        };
        if waited || before.is_some_and(|before| before != run) {
            return Ok(());
        }
        while is_alive(&mut session).await {}
        drop(session);
        let (session, _) = self.connected_again(cx).await;
        if let Ok(mut hinted) = self.hinted.lock() {
            *hinted = Some(session.facts.run);
        }
        Ok(())
    }

    /// A connection, however long it takes; and whether it took more than one try.
    async fn connected_again(&self, cx: &Cx) -> (Session, bool) {
        let (mut wait, mut waited) = (RETRY.0, false);
        loop {
            match self.session(cx).await {
                Ok(session) => return (session, waited),
                Err(_) => sleep(wait).await,
            }
            waited = true;
            wait = (wait * 2).min(RETRY.1);
        }
    }

    /// The findings of `mesh doctor`.
    pub(super) async fn examine(&self, cx: &Cx) -> Result<Vec<Finding>, Error> {
        let mut session = match self.session(cx).await {
            Ok(session) => session,
            Err(error) => {
                let finding = Finding::new(FindingLevel::Error, "connection", error.to_string());
                return Ok(vec![finding]);
            }
        };
        let mut findings = vec![version(&session.facts), self.encryption()];
        findings.extend(self.rights(cx, &mut session).await?);
        findings.extend(open_default(&mut session).await?);
        findings.push(match self.forgets(&mut session).await? {
            None => ok(
                "persistence",
                "logins are saved in an ACL file after each change",
            ),
            Some(why) => Finding::new(FindingLevel::Warning, "persistence", why)
                .with_action("set `aclfile` in the server's configuration, and restart it"),
        });
        Ok(findings)
    }

    fn encryption(&self) -> Finding {
        let settings = self.endpoint.settings();
        let warn = |message: &str| Finding::new(FindingLevel::Warning, "tls", message);
        match (self.endpoint.is_encrypted(), settings.is_loopback()) {
            (true, _) if settings.tls.dangerously_unverified => {
                warn("the server's certificate is not verified: anybody could be at the other end")
            }
            (true, _) => ok("tls", "encrypted, and the server's certificate is verified"),
            (false, true) => ok("tls", "plain, and on this machine only"),
            (false, false) => {
                warn("plain, over a network: the admin's password can be read on the way")
            }
        }
    }

    /// What the admin login lacks, and what it has too much of (S-8).
    async fn rights(&self, cx: &Cx, session: &mut Session) -> Result<Vec<Finding>, Error> {
        let admin = self.endpoint.settings().admin.as_ref();
        let admin = admin
            .map_or("default", |admin| admin.user.as_str())
            .to_owned();
        let about = "acl rights";
        let looked = match self.table(cx, session).await {
            Ok(table) => get_user(session, &admin).await.map(|shown| (table, shown)),
            Err(error) => Err(error),
        };
        let (table, shown) = match looked {
            Ok((table, Some(shown))) => (table, shown),
            Ok((_, None)) => return Ok(Vec::new()),
            Err(error) if error.class() == Class::Denied => {
                let finding = Finding::new(FindingLevel::Error, about, error.message());
                return Ok(vec![finding.with_action(grant(&admin))]);
            }
            Err(error) => return Err(error),
        };
        Ok(judge_rights(&table, &shown, &admin))
    }
}

/// Whether the server still answers on this connection. Waits a while first; an end of the connection
/// ends the waiting.
async fn is_alive(session: &mut Session) -> bool {
    if timeout(PING.0, session.wire.closed()).await.is_ok() {
        return false;
    }
    let answer = async {
        session.wire.send(&Request::one(&[b"PING"])).await?;
        session.wire.reply().await
    };
    matches!(timeout(PING.1, answer).await, Ok(Ok(_)))
}

fn ok(about: &str, message: &str) -> Finding {
    Finding::new(FindingLevel::Ok, about, message)
}

fn version(facts: &Facts) -> Finding {
    let tried = TRIED.iter().any(|(product, major, minor)| {
        facts.title.starts_with(product) && facts.version == (*major, *minor)
    });
    if tried {
        return ok(
            "version",
            &format!("{} is one that the tests run", facts.title),
        );
    }
    let message = format!(
        "{} was never tried; Redis 6.2, 7.0 and Valkey 9.1 were",
        facts.title
    );
    Finding::new(FindingLevel::Warning, "version", message)
}

/// What is needed at all times, as rules.
fn rules() -> String {
    let needed = NEEDED.iter().chain([&HELPFUL]);
    needed.map(|(rule, _)| *rule).collect::<Vec<_>>().join(" ")
}

fn grant(admin: &str) -> String {
    format!("ACL SETUSER {admin} {}", rules())
}

fn judge_rights(table: &Table, shown: &Shown, admin: &str) -> Vec<Finding> {
    let about = "acl rights";
    let Ok(held) = table.evaluate(&shown.root.rules) else {
        return Vec::new();
    };
    // Before 7.0 a subcommand is a first argument of its command.
    let lacks = |right: &str| {
        let needed = table.evaluate(&[right.as_bytes().to_vec()]);
        needed.is_ok_and(|needed| !table.beyond(&needed, &held).is_empty())
    };
    let told = |level, (right, why): &(&str, &str)| {
        let message = format!("the admin login lacks `{right}`: it cannot {why}");
        Finding::new(level, about, message).with_action(grant(admin))
    };
    let missing = NEEDED.iter().filter(|(right, _)| lacks(right));
    let mut findings: Vec<Finding> = missing
        .map(|needed| told(FindingLevel::Error, needed))
        .collect();
    if lacks(HELPFUL.0) {
        findings.push(told(FindingLevel::Warning, &HELPFUL));
    }
    if findings.is_empty() {
        findings.push(ok(about, "the admin login may do all that is needed"));
    }
    let reads_data = !(shown.root.read.is_empty() && shown.root.write.is_empty());
    if reads_data || !lacks("+flushall") {
        let message = "the admin login may also read, write or flush data, which nothing here needs but \
                       `mesh purge`, for as long as it runs";
        let action = format!(
            "ACL SETUSER {admin} resetkeys resetchannels -@all {}",
            rules()
        );
        findings.push(Finding::new(FindingLevel::Warning, about, message).with_action(action));
    }
    findings
}

/// A default user that anybody is on connecting.
async fn open_default(session: &mut Session) -> Result<Option<Finding>, Error> {
    let shown = match get_user(session, "default").await {
        Ok(shown) => shown,
        // Told already, with the rights.
        Err(error) if error.class() == Class::Denied => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(shown.filter(|user| user.on && user.nopass).map(|_| {
        let message = "the default user has no password: whoever connects is let in";
        Finding::new(FindingLevel::Warning, "default user", message)
            .with_action("give it a password, or switch it off: `ACL SETUSER default off`")
    }))
}
