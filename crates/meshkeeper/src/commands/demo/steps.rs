//! What is shown, step by step. Each is seen on the server itself, or it fails.

use std::time::Duration;

use mesh_sdk::Time;
use mesh_sdk::event::{Event, EventKind};
use serde_json::json;

use super::players::VERIFY_EVERY;
use super::stage::{Login, Pass, Stage, not_seen};
use super::wire::{Command, Said};
use crate::errors::Fault;

/// How often the server may be healed faster than it can be looked at, before that is a failure.
const TRIES: usize = 3;
/// A pass that starts so much before its time was hinted.
const EARLY: Duration = Duration::from_millis(100);

/// 1: every login that the manifest asks for is there, and works.
pub(super) async fn provisioned(stage: &mut Stage<'_>) -> Result<(), Fault> {
    stage
        .teller
        .step("provisioned", "1. Five consumers are provisioned");
    let what = "a password for each consumer";
    stage.logins = stage
        .until(what, async |stage| stage.credentials().await)
        .await?;
    let all = stage.logins.len();
    let what = "the end of the first pass";
    let first = async |stage: &Stage<'_>| Ok(stage.passes().first().cloned());
    stage.until(what, first).await?;
    let what = "each consumer logs in and works";
    stage
        .until(what, async |stage| {
            Ok((stage.working().await == all).then_some(()))
        })
        .await?;
    for line in stage.logins.iter().map(works).collect::<Vec<_>>() {
        stage.teller.saw(&line);
    }
    stage.teller.done(json!({ "logins": all }));
    Ok(())
}

fn works(login: &Login) -> String {
    let (name, may) = (login.player.name, login.player.may);
    let command = may.iter().take(2).copied().collect::<Vec<_>>().join(" ");
    format!("{name:<8} logs in as {:<12} and may {command}", login.login)
}

/// 2: the server dies, comes back empty, and every login comes back.
pub(super) async fn restarted(stage: &mut Stage<'_>) -> Result<(), Fault> {
    let title = "2. The server is killed, and comes back without any user";
    stage.teller.step("restarted", title);
    let all = stage.logins.len();
    let (after, passes) = (stage.history_end().await?, stage.passes().len());
    let up_at = empty(stage).await?;
    let text = format!("killed (SIGKILL) and started again: {all} of {all} logins are refused");
    stage.teller.broke(&text);
    let what = "every login is back after the restart";
    stage
        .until(what, async |stage| {
            Ok((stage.working().await == all).then_some(()))
        })
        .await?;
    let healed = stage.now().since(up_at);
    let what = "the pass that healed them";
    let ended = async |stage: &Stage<'_>| Ok(healing(&stage.passes(), passes));
    let hinted = stage.until(what, ended).await?;
    let why = if hinted {
        "by the hint of a connection that broke and came back"
    } else {
        "by the timer"
    };
    let millis = healed.as_millis();
    stage.teller.saw(&format!(
        "{all} of {all} log in again {millis} ms after the server was up, {why}"
    ));
    quotes(stage, after, all).await?;
    stage
        .teller
        .done(json!({ "logins": all, "healed_after_ms": millis, "hinted": hinted }));
    Ok(())
}

/// Kills and starts the server, and sees that nobody gets in. When it was up again.
async fn empty(stage: &mut Stage<'_>) -> Result<Time, Fault> {
    for _ in 0..TRIES {
        stage.server.kill();
        let mut wire = stage.server.start().await?;
        let up_at = stage.now();
        let tries: Vec<Command<'_>> = stage.logins.iter().map(Login::auth).collect();
        let said = wire.ask(&tries).await.unwrap_or_default();
        if !said.is_empty() && said.iter().all(Said::is_refused_login) {
            return Ok(up_at);
        }
    }
    Err(not_seen("the logins are gone after the restart"))
}

/// Whether the pass that applied something came before its time; `None` while there is none.
fn healing(passes: &[Pass], after: usize) -> Option<bool> {
    let at = passes
        .iter()
        .skip(after)
        .position(|pass| pass.summary.applied > 0)?
        + after;
    let before = at.checked_sub(1).and_then(|before| passes.get(before))?;
    Some(passes[at].began + EARLY < before.next_at)
}

/// 3: somebody changes a password and takes rights away.
pub(super) async fn changed(stage: &mut Stage<'_>) -> Result<(), Fault> {
    let title = "3. Somebody changes a password and takes rights away";
    stage.teller.step("changed", title);
    let (web, reports) = (login(stage, "web")?, login(stage, "reports")?);
    let after = stage.history_end().await?;
    let strange = b">somebody-elses-password";
    let commands = [
        stage.admin(),
        vec![
            b"ACL",
            b"SETUSER",
            web.login.as_bytes(),
            b"resetpass",
            strange,
        ],
        vec![b"ACL", b"SETUSER", reports.login.as_bytes(), b"-@all"],
        web.auth(),
        reports.auth(),
        reports.work(),
    ];
    let said = stage.ask(&commands).await.unwrap_or_default();
    let fine: Vec<bool> = said.iter().map(Said::is_yes).collect();
    if fine != [true, true, true, false, true, false] {
        return Err(not_seen("the server takes the changes"));
    }
    let text = "web's password is another one: its login is refused; reports may read nothing";
    stage.teller.broke(text);
    healed(stage, after, 2).await
}

/// 4: a login is switched off by hand.
pub(super) async fn disabled(stage: &mut Stage<'_>) -> Result<(), Fault> {
    stage
        .teller
        .step("disabled", "4. Somebody switches a login off");
    let worker = login(stage, "worker")?;
    let after = stage.history_end().await?;
    let off: Command<'_> = vec![b"ACL", b"SETUSER", worker.login.as_bytes(), b"off"];
    let said = stage
        .ask(&[stage.admin(), off, worker.auth()])
        .await
        .unwrap_or_default();
    let fine: Vec<bool> = said.iter().map(Said::is_yes).collect();
    if fine != [true, true, false] {
        return Err(not_seen("the server switches the login off"));
    }
    stage.teller.broke("worker is off: its login is refused");
    healed(stage, after, 1).await
}

fn login<'l>(stage: &'l Stage<'_>, name: &str) -> Result<&'l Login, Fault> {
    let found = stage.logins.iter().find(|login| login.player.name == name);
    found.ok_or_else(|| not_seen("the consumers of the manifest"))
}

/// Waits until everybody works again, and tells what Meshkeeper says of it.
async fn healed(stage: &mut Stage<'_>, after: u64, count: usize) -> Result<(), Fault> {
    let began = stage.now();
    let all = stage.logins.len();
    let what = "everybody logs in and works again";
    stage
        .until(what, async |stage| {
            Ok((stage.working().await == all).then_some(()))
        })
        .await?;
    let millis = stage.now().since(began).as_millis();
    stage
        .teller
        .saw(&format!("healed after {millis} ms, at the next look"));
    let said = quotes(stage, after, count).await?;
    stage
        .teller
        .done(json!({ "healed_after_ms": millis, "said": said }));
    Ok(())
}

/// What Meshkeeper wrote of that many healed consumers.
async fn quotes(stage: &mut Stage<'_>, after: u64, count: usize) -> Result<Vec<String>, Fault> {
    let is_healed = |event: &&Event| event.kind == EventKind::Healed;
    let what = "what Meshkeeper says was lost";
    let events = stage.until(what, async |stage| {
        let events = stage.history(after).await?;
        let enough = events.iter().filter(is_healed).count() >= count;
        Ok(enough.then_some(events))
    });
    let events = events.await?;
    let told = events
        .iter()
        .filter(|event| matches!(event.kind, EventKind::Healed | EventKind::SwitchedOn))
        .map(|event| format!("{}: {}", event.consumer, event.detail))
        .collect::<Vec<_>>();
    told.iter().for_each(|line| stage.teller.quote(line));
    Ok(told)
}

/// 5: looking again changes nothing.
pub(super) async fn still(stage: &mut Stage<'_>) -> Result<(), Fault> {
    stage
        .teller
        .step("still", "5. Looking again changes nothing");
    let before = writes(stage).await?;
    let (from, seen) = (stage.now(), stage.passes().len());
    let all = stage.logins.len();
    let what = "everybody is looked at twice more";
    let passes = stage.until(what, async |stage| {
        let passes = stage.passes();
        let passes = passes.iter().skip(seen).filter(|pass| pass.began >= from);
        let passes: Vec<Pass> = passes.cloned().collect();
        let asked: usize = passes.iter().map(|pass| pass.summary.asked).sum();
        Ok((asked >= 2 * all).then_some(passes))
    });
    let passes = passes.await?;
    let fine = passes.iter().map(|pass| &pass.summary);
    let fine = fine
        .clone()
        .all(|sum| sum.held == sum.asked && sum.applied == 0);
    if !fine || writes(stage).await? != before {
        return Err(not_seen("passes that hold everybody and write nothing"));
    }
    let Written { changes, .. } = before;
    let count = changes.map_or_else(
        || "the server's users are as they were, byte for byte".to_owned(),
        |changes| format!("the server counts {changes} changes of users before and after"),
    );
    let passes = passes.len();
    let text = format!("everybody was looked at twice more, and held; {count}");
    stage.teller.saw(&text);
    let every = VERIFY_EVERY.as_secs();
    stage
        .teller
        .done(json!({ "passes": passes, "changes": changes, "verify_every_s": every }));
    Ok(())
}

/// What tells whether anything was written.
#[derive(PartialEq)]
struct Written {
    /// The server's own count of commands that change users; Redis before 7.0 does not tell them apart.
    changes: Option<u64>,
    /// Every user as the server shows it.
    users: Vec<u8>,
}

async fn writes(stage: &Stage<'_>) -> Result<Written, Fault> {
    let commands = [
        stage.admin(),
        vec![b"INFO", b"commandstats"],
        vec![b"ACL", b"LIST"],
    ];
    let said = stage.ask(&commands).await.unwrap_or_default();
    let [Said::Yes(_), Said::Yes(stats), Said::Yes(users)] = said.as_slice() else {
        return Err(not_seen("the server's counters"));
    };
    let stats = String::from_utf8_lossy(stats);
    let calls = |command: &str| {
        let line = stats.lines().find_map(|line| line.strip_prefix(command))?;
        line.split_once("calls=")?
            .1
            .split(',')
            .next()?
            .parse::<u64>()
            .ok()
    };
    let changes =
        calls("cmdstat_acl|setuser:").map(|set| set + calls("cmdstat_acl|deluser:").unwrap_or(0));
    let users = users.clone();
    Ok(Written { changes, users })
}
