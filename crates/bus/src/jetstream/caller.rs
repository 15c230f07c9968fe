//! Whoever asks the service of a mesh and has no bus of it: one connection, questions, and the bell.

use std::sync::Arc;
use std::time::Duration;

use async_nats::client::RequestErrorKind;
use async_nats::{Request, Subscriber};
use futures_util::StreamExt;
use mesh_sdk::bus::Fault;

use super::OpenFault;
use super::api::{Api, Trouble};
use super::connect::{self, Link};
use super::names::Names;

/// How long an answer is waited for: a service may read everything that stands before it answers.
const ANSWER: Duration = Duration::from_secs(15);

/// A connection to servers on which a mesh's service is asked. It needs no JetStream and no data folder.
pub struct Caller {
    api: Api,
    names: Names,
    servers: String,
}

/// Rings for as long as it is kept.
pub struct Rings {
    messages: Subscriber,
    names: Names,
}

impl Caller {
    /// Connects. Errors: no server, TLS, or the login.
    pub async fn connect(link: &Link, mesh: &str) -> Result<Self, OpenFault> {
        let (client, signals) = connect::connect(link).await?;
        Ok(Self {
            api: Api {
                client,
                signals: Arc::new(signals),
            },
            names: Names::of(mesh),
            servers: link.shown(),
        })
    }

    /// Asks, and gives the answer as it came. Errors: nobody answered; what was asked may have happened.
    pub async fn ask(&self, word: &str, body: Vec<u8>) -> Result<Vec<u8>, Fault> {
        self.api.connected().map_err(Trouble::fault)?;
        let subject = format!("{}.{word}", self.names.desk());
        let request = Request::new().payload(body.into()).timeout(Some(ANSWER));
        let answer = self.api.client.send_request(subject.clone(), request).await;
        let message = answer.map_err(|error| {
            Fault::Unreachable(match error.kind() {
                RequestErrorKind::NoResponders => format!(
                    "nobody answers on {subject} at {}: no `mesh up` of this mesh runs there",
                    self.servers
                ),
                RequestErrorKind::TimedOut => format!(
                    "no answer on {subject} at {} within {} s{}",
                    self.servers,
                    ANSWER.as_secs(),
                    self.api.signals.complaint()
                ),
                _ => format!("{subject} at {} could not be asked: {error}", self.servers),
            })
        })?;
        Ok(message.payload.to_vec())
    }

    /// Begins to hear which tasks are open.
    pub async fn rings(&self) -> Result<Rings, Fault> {
        let subject = self.names.all_bells();
        let messages = self.api.client.subscribe(subject).await;
        Ok(Rings {
            messages: messages.map_err(|error| Fault::Unreachable(error.to_string()))?,
            names: self.names.clone(),
        })
    }
}

impl Rings {
    /// The kind of the next task that is told, and the text. `None`: the connection is closed for ever.
    pub async fn next(&mut self) -> Option<(String, Vec<u8>)> {
        loop {
            let message = self.messages.next().await?;
            if let Some(kind) = self.names.rung(&message.subject) {
                return Some((kind.to_owned(), message.payload.to_vec()));
            }
        }
    }
}
