//! Units of systemd, asked for and told by `systemctl`.
//!
//! A unit carries no label of ours: whether it has the credentials that lie there is told by when it was started,
//! or by the invocation that is remembered with them.

use std::collections::HashMap;
use std::process::Stdio;
use std::time::Duration;

use mesh_sdk::Time;
use mesh_sdk::scrub::Scrubber;
use tokio::process::Command;
use tokio::time::timeout;

use super::With;
use crate::delivery::hook;
use crate::delivery::record::Version;
use crate::host::decide::{Credentials, Found, Seen, Stands, Step};
use crate::host::order::{Manager, Unit};

/// A look.
const LOOK: Duration = Duration::from_secs(30);
/// A start or restart: systemd's own deadline for a unit is 90 s.
const ACT: Duration = Duration::from_secs(120);
/// What is read of a unit.
const READ: &str =
    "--property=LoadState,ActiveState,SubState,Result,InvocationID,ActiveEnterTimestamp";

/// Asks `systemctl`.
pub struct Systemd;

impl Systemd {
    /// Looks at a unit.
    pub async fn look(&self, unit: &Unit, with: With<'_>) -> Found {
        match show(unit).await {
            Ok(told) => found(unit, &told, with),
            Err(why) => Found::Unknown(why),
        }
    }
    /// Restarts or starts it. Errors: what systemd says.
    pub async fn act(&self, unit: &Unit, step: Step) -> Result<(), String> {
        let verb = match step {
            Step::Make => "restart",
            Step::Start => "start",
        };
        let mut words = vec!["systemctl", "--no-ask-password", "--quiet"];
        words.extend((unit.manager == Manager::User).then_some("--user"));
        words.extend([verb, "--", &unit.name]);
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        // No secret is on its command line or known to it.
        let ran = hook::run(&words, None, ACT, &Scrubber::default()).await;
        ran.map_err(|fault| fault.to_string())
    }
}

async fn show(unit: &Unit) -> Result<HashMap<String, String>, String> {
    let mut command = Command::new("systemctl");
    if unit.manager == Manager::User {
        command.arg("--user");
    }
    command
        .args(["--no-ask-password", "show", "--timestamp=unix", READ, "--"])
        .arg(&unit.name)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let ran = match timeout(LOOK, command.output()).await {
        Ok(ran) => ran.map_err(|error| format!("`systemctl` cannot be run: {error}"))?,
        Err(_) => {
            return Err(format!(
                "`systemctl` did not answer in {} s",
                LOOK.as_secs()
            ));
        }
    };
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr)
            .trim()
            .replace('\n', " | ");
        return Err(format!("`systemctl` says: {said}"));
    }
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    Ok(pairs
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect())
}

fn found(unit: &Unit, told: &HashMap<String, String>, with: With<'_>) -> Found {
    let word = |key: &str| told.get(key).map_or("", String::as_str);
    match word("LoadState") {
        "loaded" => {}
        other => {
            return Found::Unknown(format!(
                "{} is {other}: install and load it, then `systemctl daemon-reload`",
                unit.name
            ));
        }
    }
    let stands = match word("ActiveState") {
        "active" | "reloading" | "refreshing" => Stands::Running,
        "activating" if word("SubState").contains("auto-restart") => {
            Stands::Stopped(format!("it ends again and again, {}", word("Result")))
        }
        "activating" => Stands::Starting,
        state => Stands::Stopped(format!("{state}, {}", word("Result"))),
    };
    let id = word("InvocationID").to_owned();
    let started = word("ActiveEnterTimestamp").trim_start_matches('@');
    let started = started.parse().ok().map(|seconds: i64| seconds);
    Found::There(Seen {
        credentials: has(&id, started, with),
        id,
        asked: None,
        image: None,
        by_hand: Vec::new(),
        stands,
    })
}

/// The version that it was started with, if that can be told.
fn has(id: &str, started: Option<i64>, with: With<'_>) -> Option<Version> {
    let made = with.record.made.as_ref().filter(|made| made.id == id);
    let known = made.and_then(|made| made.credentials.clone());
    let Credentials::There { version, .. } = with.credentials else {
        return known;
    };
    // Of the same second it cannot be told: it counts as older.
    let laid = with.laid.map(Time::as_millis);
    match (started, laid) {
        (Some(started), Some(laid)) if started > laid.div_euclid(1000) => Some(version.clone()),
        _ => known,
    }
}

#[cfg(test)]
mod tests {
    //! What systemd tells of a unit.
    use std::collections::BTreeMap;

    use mesh_sdk::ConsumerName;

    use super::*;
    use crate::host::record::{Made, Record};

    fn told(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        let mut all = HashMap::from([
            ("LoadState", "loaded"),
            ("ActiveState", "active"),
            ("InvocationID", "i1"),
            ("ActiveEnterTimestamp", "@100"),
        ]);
        all.extend(pairs.iter().copied());
        let all = all.into_iter();
        all.map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }

    fn seen(pairs: &[(&str, &str)], laid: i64, made: Option<&str>) -> Found {
        let unit = Unit {
            name: "web.service".to_owned(),
            manager: Manager::System,
        };
        let web = ConsumerName::new("web").expect("name");
        let mut record = Record::new(web, "here".to_owned(), "unit web.service".to_owned());
        record.made = made.map(|version| Made {
            id: "i1".to_owned(),
            asked: None,
            image: None,
            credentials: Some(Version(version.to_owned())),
            of: BTreeMap::new(),
        });
        let credentials = Credentials::There {
            version: Version("new".to_owned()),
            of: BTreeMap::new(),
            places: String::new(),
            settling: false,
        };
        let with = With {
            credentials: &credentials,
            laid: Some(Time::from_millis(laid * 1000 + 500)),
            record: &record,
        };
        found(&unit, &told(pairs), with)
    }

    #[test]
    fn h5_what_a_unit_was_started_with_is_told_by_when_or_by_its_invocation() {
        let has = |laid, made, pairs: &[(&str, &str)]| match seen(pairs, laid, made) {
            Found::There(seen) => seen.credentials.map(|version| version.0),
            other => panic!("{other:?}"),
        };
        assert_eq!(has(90, None, &[]).as_deref(), Some("new"), "started later");
        assert_eq!(has(110, None, &[]), None, "started before");
        assert_eq!(has(100, None, &[]), None, "the same second");
        assert_eq!(has(110, Some("old"), &[]).as_deref(), Some("old"));
        assert_eq!(has(110, Some("new"), &[]).as_deref(), Some("new"));
        let other = [("InvocationID", "i2")];
        assert_eq!(has(110, Some("new"), &other), None, "it was another one");
    }

    #[test]
    fn a_unit_that_is_not_there_is_not_known_and_one_that_failed_is_stopped() {
        let missing = seen(&[("LoadState", "not-found")], 0, None);
        assert!(matches!(missing, Found::Unknown(why) if why.contains("not-found")));
        for (pairs, how) in [
            (
                &[("ActiveState", "failed"), ("Result", "exit-code")][..],
                Some("failed, exit-code"),
            ),
            (
                &[
                    ("ActiveState", "activating"),
                    ("SubState", "auto-restart"),
                    ("Result", "signal"),
                ][..],
                Some("it ends again and again, signal"),
            ),
            (&[("ActiveState", "reloading")][..], None),
        ] {
            let Found::There(seen) = seen(pairs, 0, None) else {
                panic!("it is there");
            };
            match (seen.stands, how) {
                (Stands::Stopped(is), Some(how)) => assert_eq!(is, how),
                (Stands::Running, None) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}
