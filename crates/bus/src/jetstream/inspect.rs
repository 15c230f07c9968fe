//! Looking after the bus itself: whether its streams are there, as they were made, and have a majority.
//!
//! The servers tell of such things themselves (their advisories), to whoever listens at that moment. That is
//! a hint to look; what is found by looking counts, and it alone ends what was found before.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use async_nats::Subscriber;
use futures_util::StreamExt;
use serde_json::Value;

use super::api::{StreamInfo, Trouble};
use super::fault::Meaning;
use super::names::Names;
use super::{JetstreamBus, assets};

/// In a cluster a stream whose leader was lost is "not found" for some seconds: it counts as deleted when
/// it is found so this often in a row.
const MISSING: u32 = 4;
/// What copies a stream's data elsewhere, or takes it from there. `bootstrap` sets none of them.
const COPIES: [&str; 5] = [
    "republish",
    "mirror",
    "sources",
    "subject_transform",
    "sealed",
];

/// What is wrong with a stream of the bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// It is not there.
    Deleted {
        /// The stream.
        stream: String,
    },
    /// It is another one than was opened.
    MadeAgain {
        /// The stream.
        stream: String,
    },
    /// It is not as `bootstrap` made it.
    Changed {
        /// The stream.
        stream: String,
        /// What differs.
        what: String,
    },
    /// It has no leader, or the leader has lost the majority of its copies.
    NoMajority {
        /// The stream.
        stream: String,
        /// How that was seen.
        why: String,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Deleted { stream } => write!(f, "the stream {stream} is not there any more"),
            Finding::MadeAgain { stream } => {
                write!(f, "the stream {stream} was deleted and made again")
            }
            Finding::Changed { stream, what } => write!(f, "the stream {stream}: {what}"),
            Finding::NoMajority { stream, why } => write!(f, "the stream {stream}: {why}"),
        }
    }
}

/// What one look at the streams came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inspection {
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// Somewhere it could not be told: there is no connection now, or a stream without a leader may be a
    /// deleted one.
    pub unsure: bool,
}

/// What the servers tell of the bus's streams, as it happens. A hint: what is told while nobody listens is
/// lost.
pub struct Advisories {
    state: Subscriber,
    log: Subscriber,
}

impl Advisories {
    /// The next one that is worth a look: what happened, and to which stream. `None`: they ended.
    pub async fn next(&mut self) -> Option<(String, String)> {
        loop {
            let message = tokio::select! {
                message = self.state.next() => message?,
                message = self.log.next() => message?,
            };
            let mut parts = message.subject.rsplitn(3, '.');
            let (stream, what) = (parts.next()?.to_owned(), parts.next()?.to_owned());
            if worth_a_look(&what) {
                return Some((what, stream));
            }
        }
    }
}

fn worth_a_look(what: &str) -> bool {
    ["DELETED", "UPDATED", "CREATED", "QUORUM_LOST"].contains(&what) || what.starts_with("RESTORE")
}

/// How often each stream was missing in a row.
#[derive(Debug, Default)]
pub(super) struct Missing([AtomicU32; 2]);

impl JetstreamBus {
    /// Begins to listen to what the servers tell of the streams. `None`: there is no connection now.
    pub async fn advisories(&self) -> Option<Advisories> {
        let (api, names) = (&self.seat.api, &self.seat.names);
        let [state, log] = names.advisories();
        Some(Advisories {
            state: api.client.subscribe(state).await.ok()?,
            log: api.client.subscribe(log).await.ok()?,
        })
    }

    /// Looks at the streams. Reads only.
    pub async fn inspect(&self) -> Inspection {
        let (api, names) = (&self.seat.api, &self.seat.names);
        let mut seen = Inspection::default();
        if api.connected().is_err() {
            seen.unsure = true;
            return seen;
        }
        let clustered = api.client.server_info().cluster.is_some();
        for (n, stream) in [&names.state, &names.log].into_iter().enumerate() {
            let info = api.info(stream).await;
            let missing = &self.missing.0[n];
            if !matches!(&info, Err(Trouble::Refused(r)) if r.meaning() == Meaning::NoStream) {
                missing.store(0, Ordering::Relaxed);
            }
            let stream = stream.clone();
            match info {
                Ok(info) => seen
                    .findings
                    .extend(self.judge_stream(names, &info, stream)),
                Err(Trouble::Refused(refused)) if refused.meaning() == Meaning::NoStream => {
                    let times = missing.fetch_add(1, Ordering::Relaxed) + 1;
                    if clustered && times < MISSING {
                        seen.unsure = true;
                    } else {
                        seen.findings.push(Finding::Deleted { stream });
                    }
                }
                Err(Trouble::Refused(refused)) if refused.meaning() != Meaning::Away => {
                    seen.unsure = true;
                }
                Err(Trouble::Odd(_)) => seen.unsure = true,
                Err(_) if api.connected().is_err() => seen.unsure = true,
                Err(trouble) => {
                    let why = format!("no leader answers for it: {}", trouble.fault());
                    seen.findings.push(Finding::NoMajority { stream, why });
                }
            }
        }
        seen
    }

    fn judge_stream(&self, names: &Names, info: &StreamInfo, stream: String) -> Vec<Finding> {
        if stream == names.state && info.created != self.seat.created {
            return vec![Finding::MadeAgain { stream }];
        }
        if !info.has_majority() {
            let why = "its leader hears no majority of its copies".to_owned();
            return vec![Finding::NoMajority { stream, why }];
        }
        let what = differs(names, &stream, &info.config);
        let what = what.into_iter();
        what.map(|what| Finding::Changed {
            stream: stream.clone(),
            what,
        })
        .collect()
    }
}

/// Every setting that a promise rests on and that is not as it was made.
fn differs(names: &Names, stream: &str, config: &Value) -> Vec<String> {
    let (wanted, subjects) = if stream == names.state {
        (assets::locked(), names.all_state())
    } else {
        (assets::locked_log(), names.all_log())
    };
    let mut what = Vec::new();
    let wanted = wanted
        .into_iter()
        .chain([("subjects", Value::from(vec![subjects]))]);
    for (field, value) in wanted {
        let found = config.get(field).cloned().unwrap_or(Value::Bool(false));
        if found != value {
            what.push(format!("`{field}` is {found} and must be {value}"));
        }
    }
    for field in COPIES {
        let set = config.get(field).filter(|v| !v.is_null());
        if set.is_some_and(|v| *v != Value::Bool(false)) {
            what.push(format!("`{field}` was set, and nothing here sets it"));
        }
    }
    what
}

#[cfg(test)]
mod tests {
    //! What was changed on a stream is named, and what may be changed is not.
    use super::*;
    use serde_json::json;

    fn made(names: &Names) -> Value {
        let mut config = json!({ "subjects": [names.all_state()], "num_replicas": 3 });
        for (field, value) in assets::locked() {
            config[field] = value;
        }
        config
    }

    #[test]
    fn b8_a_stream_that_was_loosened_or_copies_its_data_elsewhere_is_named() {
        let names = Names::of("home");
        let config = made(&names);
        assert!(differs(&names, &names.state, &config).is_empty());
        for (field, value) in [
            ("deny_delete", json!(false)),
            ("max_age", json!(60)),
            ("subjects", json!(["$KV.mesh_home.>", "other.>"])),
            ("republish", json!({ "src": ">", "dest": "copy.>" })),
            ("mirror", json!({ "name": "other" })),
        ] {
            let mut changed = config.clone();
            changed[field] = value;
            let what = differs(&names, &names.state, &changed);
            assert!(what.len() == 1 && what[0].contains(field), "{what:?}");
        }
        let mut more = config;
        more["num_replicas"] = json!(5);
        assert!(differs(&names, &names.state, &more).is_empty());
    }

    #[test]
    fn b8_only_what_changes_a_stream_or_its_majority_is_worth_a_look() {
        for what in ["DELETED", "UPDATED", "RESTORE_COMPLETE", "QUORUM_LOST"] {
            assert!(worth_a_look(what), "{what}");
        }
        for what in ["LEADER_ELECTED", "SNAPSHOT_CREATE"] {
            assert!(!worth_a_look(what), "{what}");
        }
    }
}
