//! The streams: how they are made, and what makes one safe to use.
//!
//! Only [`bootstrap`] makes anything, and nothing here changes or deletes a stream. Loops open.

use mesh_sdk::bus::Fault;
use serde::Deserialize;
use serde_json::{Value, json};

use super::api::{Api, StreamInfo, Trouble};
use super::fault::{Meaning, OpenFault};
use super::mark::Meta;
use super::names::Names;
use super::{SCHEMA, read};

/// What the server must be able to do: atomic batches came with NATS 2.12.
const LEVEL: u64 = 2;
/// Lines kept of one subject of the history, of all, and how long.
const LINES_OF_SUBJECT: u64 = 200;
const LINES: u64 = 250_000;
const AGE_NANOS: u64 = 400 * 24 * 3600 * 1_000_000_000;
/// A stream of this name is there, and not as it would be made: its first number is its own.
const NAME_IN_USE: u64 = 10058;
/// A stream whose leader was lost is "not found" for some seconds.
const NOT_THERE_TRIES: u32 = 4;

/// How the streams are to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Copies: one on a single server, three in a cluster.
    pub replicas: u8,
    /// The most bytes that the buckets may take; none means as many as the account may.
    pub max_bytes: Option<u64>,
}

impl Default for Layout {
    fn default() -> Self {
        let (replicas, max_bytes) = (1, None);
        Self {
            replicas,
            max_bytes,
        }
    }
}

#[derive(Deserialize)]
struct Account {
    #[serde(default)]
    api: Level,
}
#[derive(Deserialize, Default)]
struct Level {
    #[serde(default)]
    level: u64,
}

/// Sees to it that the server can do what the bus needs.
pub(super) async fn able(api: &Api, servers: &str) -> Result<(), OpenFault> {
    let account = api.ask::<Account>("INFO", &Value::Null).await;
    let account = account.map_err(|trouble| OpenFault::NoJetStream {
        servers: servers.to_owned(),
        why: trouble.fault().to_string(),
    })?;
    let level = account.api.level;
    if level >= LEVEL {
        return Ok(());
    }
    let version = api.client.server_info().version;
    Err(OpenFault::TooOld {
        version,
        level,
        needed: LEVEL,
    })
}

/// Every setting of the stream of the buckets that a promise rests on.
pub(super) fn locked() -> Vec<(&'static str, Value)> {
    vec![
        ("retention", json!("limits")),
        ("discard", json!("new")),
        ("storage", json!("file")),
        ("max_msgs_per_subject", json!(1)),
        ("deny_delete", json!(true)),
        ("deny_purge", json!(true)),
        ("allow_rollup_hdrs", json!(false)),
        ("allow_msg_ttl", json!(false)),
        ("allow_direct", json!(true)),
        ("allow_atomic", json!(true)),
        ("max_age", json!(0)),
        ("max_msgs", json!(-1)),
    ]
}

/// The same of the history: it may forget what is old, and nothing else.
pub(super) fn locked_log() -> Vec<(&'static str, Value)> {
    vec![
        ("retention", json!("limits")),
        ("storage", json!("file")),
        ("deny_delete", json!(true)),
        ("deny_purge", json!(true)),
        ("allow_rollup_hdrs", json!(false)),
        ("allow_direct", json!(true)),
        ("allow_atomic", json!(true)),
    ]
}

fn state_config(names: &Names, layout: &Layout, first_seq: u64) -> Value {
    let mut config = json!({
        "name": names.state,
        "subjects": [names.all_state()],
        "max_consumers": -1,
        "max_bytes": layout.max_bytes.map_or(json!(-1), |most| json!(most)),
        "max_msg_size": -1,
        "num_replicas": layout.replicas,
        "first_seq": first_seq,
    });
    for (field, value) in locked() {
        config[field] = value;
    }
    config
}

fn log_config(names: &Names, layout: &Layout, first_seq: u64) -> Value {
    let mut config = json!({
        "name": names.log,
        "subjects": [names.all_log()],
        "max_consumers": -1,
        "max_bytes": -1,
        "max_msg_size": -1,
        "num_replicas": layout.replicas,
        "discard": "old",
        "max_msgs_per_subject": LINES_OF_SUBJECT,
        "max_msgs": LINES,
        "max_age": AGE_NANOS,
        // A server that was killed may be unable to read its compressed blocks (decision 0092).
        "compression": "none",
        "first_seq": first_seq,
    });
    for (field, value) in locked_log() {
        config[field] = value;
    }
    config
}

/// Sees to it that both streams are as they were made.
pub(super) fn safe(names: &Names, state: &StreamInfo, log: &StreamInfo) -> Result<(), OpenFault> {
    for (stream, info, wanted) in [
        (&names.state, state, locked()),
        (&names.log, log, locked_log()),
    ] {
        for (field, value) in wanted {
            let found = info.config.get(field).cloned().unwrap_or(json!(false));
            if found != value {
                return Err(OpenFault::NotLocked {
                    stream: stream.clone(),
                    what: format!("`{field}` is {found} and must be {value}"),
                });
            }
        }
    }
    Ok(())
}

/// A stream that must be there. A lost leader is waited for a little.
pub(super) async fn existing(api: &Api, stream: &str) -> Result<StreamInfo, OpenFault> {
    for attempt in 1.. {
        match api.info(stream).await {
            Ok(info) => return Ok(info),
            Err(Trouble::Refused(refused)) if refused.meaning() == Meaning::NoStream => {
                if attempt >= NOT_THERE_TRIES || api.client.server_info().cluster.is_none() {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_secs(2)).await;
            }
            Err(trouble) => return Err(trouble.fault().into()),
        }
    }
    let stream = stream.to_owned();
    Err(OpenFault::NotBootstrapped { stream })
}

/// Makes a stream unless there is one of this name: the servers know that even while it has no leader.
/// Answers whether it was made.
async fn make(api: &Api, stream: &str, config: &Value) -> Result<bool, OpenFault> {
    let made = api
        .ask::<StreamInfo>(&format!("STREAM.CREATE.{stream}"), config)
        .await;
    match made {
        Ok(_) => Ok(true),
        Err(Trouble::Refused(refused)) if refused.err_code == NAME_IN_USE => Ok(false),
        Err(trouble) => Err(trouble.fault().into()),
    }
}

/// What [`bootstrap`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// The streams that it made; those that were there and in order are not among them.
    pub streams: Vec<String>,
    /// The installation that the bus belongs to.
    pub installation: String,
    /// Its epoch.
    pub epoch: u64,
}

/// Makes what is missing. What is there must be as it would be made, and this installation's.
pub(super) async fn bootstrap(
    api: &Api,
    names: &Names,
    layout: &Layout,
    meta: &Meta,
    first_seq: u64,
) -> Result<Made, OpenFault> {
    let mut streams = Vec::new();
    if make(api, &names.state, &state_config(names, layout, first_seq)).await? {
        streams.push(names.state.clone());
    }
    let state = existing(api, &names.state).await?;
    let found = read_meta(api, names).await?;
    if let Some((found, _)) = &found
        && found.installation != meta.installation
    {
        return Err(OpenFault::Taken {
            found: found.installation.clone(),
            ours: meta.installation.clone(),
        });
    }
    if make(api, &names.log, &log_config(names, layout, first_seq)).await? {
        streams.push(names.log.clone());
    }
    safe(names, &state, &existing(api, &names.log).await?)?;
    let meta = match found {
        Some((meta, _)) => meta,
        None => {
            say(api, names, meta, 0).await?;
            meta.clone()
        }
    };
    Ok(Made {
        streams,
        installation: meta.installation,
        epoch: meta.epoch,
    })
}

/// What the store says of itself. Errors: it was written by a newer program.
pub(super) async fn read_meta(api: &Api, names: &Names) -> Result<Option<(Meta, u64)>, OpenFault> {
    let found = read::meta(api, names).await.map_err(Trouble::fault)?;
    match found {
        Some((meta, _)) if meta.schema > SCHEMA => Err(OpenFault::Bus(Fault::Newer {
            found: meta.schema,
            known: SCHEMA,
        })),
        found => Ok(found),
    }
}

#[derive(Deserialize)]
struct Said {
    seq: u64,
}

/// Writes what the store says of itself, if it still says what it did at `at`.
pub(super) async fn say(api: &Api, names: &Names, meta: &Meta, at: u64) -> Result<u64, OpenFault> {
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("Nats-Expected-Stream", names.state.as_str());
    headers.insert("Nats-Expected-Last-Subject-Sequence", at.to_string());
    let text = serde_json::to_vec(meta)
        .map_err(|error| OpenFault::Bus(Fault::Corrupt(error.to_string())))?;
    let sent = api.request(names.meta(), Some(headers), text).await;
    let said = sent.and_then(|message| super::api::read::<Said>(&message));
    let said = said.map_err(|trouble| match trouble {
        Trouble::Refused(refused) if refused.meaning() == Meaning::Conflict => {
            OpenFault::Bus(Fault::EpochChanged)
        }
        trouble => OpenFault::Bus(trouble.fault()),
    })?;
    Ok(said.seq)
}

#[cfg(test)]
mod tests {
    //! A stream that was loosened is not used.
    use super::*;

    fn info(config: Value) -> StreamInfo {
        serde_json::from_value(json!({
            "config": config, "created": "t", "state": { "last_seq": 0 }
        }))
        .expect("info")
    }

    #[test]
    fn b9_a_stream_that_was_loosened_is_refused_by_name() {
        let (names, layout) = (Names::of("home"), Layout::default());
        let (state, log) = (
            state_config(&names, &layout, 1),
            log_config(&names, &layout, 1),
        );
        let safe_now = safe(&names, &info(state.clone()), &info(log.clone()));
        assert_eq!(safe_now, Ok(()));
        for field in [
            "deny_delete",
            "deny_purge",
            "storage",
            "max_msgs_per_subject",
        ] {
            let mut loose = state.clone();
            loose[field] = json!("loose");
            let refused = safe(&names, &info(loose), &info(log.clone()));
            let text = refused.map_err(|fault| fault.to_string());
            assert!(text.as_ref().is_err_and(|t| t.contains(field)), "{text:?}");
        }
    }
}
