//! The server's JetStream API: one request, one answer, one deadline.
//!
//! Spoken in JSON and not through a client's types: a field that a newer server adds is passed over, and
//! every refusal keeps its number.

use std::sync::Arc;
use std::time::Duration;

use async_nats::client::RequestErrorKind;
use async_nats::connection::State;
use async_nats::{Client, HeaderMap, Message, Request};
use mesh_sdk::bus::Fault;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::connect::Signals;
use super::fault::Refused;

/// How long an answer is waited for.
pub(super) const ANSWER: Duration = Duration::from_secs(5);
/// A replica that a leader did not hear of for so long does not count.
const UNHEARD: Duration = Duration::from_secs(15);

/// Why a request gave nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It was not sent, or nobody was there to take it.
    NotTaken(String),
    /// No answer came: what was asked may have happened.
    Silence(String),
    /// The server refused.
    Refused(Refused),
    /// An answer that is none.
    Odd(String),
}

impl Trouble {
    /// As a fault of the bus.
    pub(super) fn fault(self) -> Fault {
        match self {
            Trouble::NotTaken(text) | Trouble::Silence(text) => Fault::Unreachable(text),
            Trouble::Refused(refused) => refused.fault(),
            Trouble::Odd(text) => Fault::Corrupt(text),
        }
    }
}

/// A connection, and what it tells.
#[derive(Clone)]
pub(super) struct Api {
    pub(super) client: Client,
    pub(super) signals: Arc<Signals>,
}

/// What a stream is.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct StreamInfo {
    pub(super) config: Value,
    pub(super) created: String,
    pub(super) state: StreamState,
    #[serde(default)]
    pub(super) total: u64,
    #[serde(default)]
    cluster: Option<Cluster>,
}

#[derive(Debug, Clone, Deserialize)]
struct Cluster {
    #[serde(default)]
    replicas: Vec<Replica>,
}
#[derive(Debug, Clone, Deserialize)]
struct Replica {
    #[serde(default)]
    offline: bool,
    /// Nanoseconds since the leader heard of it.
    #[serde(default)]
    active: u64,
}

impl StreamInfo {
    /// Whether whoever answered still hears a majority. One that was cut off may take itself for the
    /// leader for ever, and answers from what it has.
    pub(super) fn has_majority(&self) -> bool {
        let replicas = self.cluster.as_ref().map_or(&[][..], |c| &c.replicas);
        let heard = |r: &&Replica| !r.offline && u128::from(r.active) < UNHEARD.as_nanos();
        let alive = 1 + replicas.iter().filter(heard).count();
        alive * 2 > replicas.len() + 1
    }
}

/// How far a stream is.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct StreamState {
    pub(super) last_seq: u64,
    #[serde(default)]
    pub(super) first_seq: u64,
    #[serde(default)]
    pub(super) subjects: Option<std::collections::BTreeMap<String, u64>>,
}

#[derive(Deserialize)]
struct Answer {
    error: Option<Refused>,
}

impl Api {
    /// Asks the API and reads its answer.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        what: &str,
        body: &Value,
    ) -> Result<T, Trouble> {
        let subject = format!("$JS.API.{what}");
        let payload = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let message = self.request(subject, None, payload).await?;
        read(&message)
    }

    /// A request with its one answer. Nothing is kept back to be sent later: what does not go out now
    /// is told.
    pub(super) async fn request(
        &self,
        subject: String,
        headers: Option<HeaderMap>,
        payload: Vec<u8>,
    ) -> Result<Message, Trouble> {
        self.connected()?;
        let mut request = Request::new().payload(payload.into()).timeout(Some(ANSWER));
        if let Some(headers) = headers {
            request = request.headers(headers);
        }
        self.client
            .send_request(subject.clone(), request)
            .await
            .map_err(|error| match error.kind() {
                RequestErrorKind::NoResponders => Trouble::NotTaken(format!(
                    "nobody answers on {subject}: JetStream is off, the stream is gone, or it has no leader now"
                )),
                RequestErrorKind::InvalidSubject | RequestErrorKind::MaxPayloadExceeded => {
                    Trouble::NotTaken(error.to_string())
                }
                RequestErrorKind::TimedOut => Trouble::Silence(format!(
                    "no answer on {subject} within {} s{}",
                    ANSWER.as_secs(),
                    self.signals.complaint()
                )),
                RequestErrorKind::Other => {
                    Trouble::Silence(format!("the connection broke: {error}"))
                }
            })
    }

    /// Whether there is a connection now.
    pub(super) fn connected(&self) -> Result<(), Trouble> {
        if self.client.connection_state() == State::Connected {
            return Ok(());
        }
        let text = format!("there is no connection now{}", self.signals.complaint());
        Err(Trouble::NotTaken(text))
    }

    /// What a stream is, as its leader says.
    pub(super) async fn info(&self, stream: &str) -> Result<StreamInfo, Trouble> {
        self.ask(&format!("STREAM.INFO.{stream}"), &Value::Null)
            .await
    }
}

/// Reads an answer: what was asked for, or the refusal.
pub(super) fn read<T: DeserializeOwned>(message: &Message) -> Result<T, Trouble> {
    let odd = |error: serde_json::Error| {
        Trouble::Odd(format!("the server's answer cannot be read: {error}"))
    };
    let answer: Answer = serde_json::from_slice(&message.payload).map_err(odd)?;
    if let Some(refused) = answer.error {
        return Err(Trouble::Refused(refused));
    }
    serde_json::from_slice(&message.payload).map_err(odd)
}
