//! A service of the process that has a bus open, on the servers of that bus: whoever asks on one of its
//! subjects is answered by one of the instances. What is asked and answered means nothing here.

use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::service::{self, NATS_SERVICE_ERROR, NATS_SERVICE_ERROR_CODE, ServiceExt};
use futures_util::StreamExt;
use futures_util::stream;
use mesh_sdk::bus::Fault;

use super::JetstreamBus;

/// What can be asked: the last part of the subject.
pub const WORDS: [&str; 4] = ["list", "claim", "extend", "finish"];
/// The version of what is asked and answered, as services tell it.
const VERSION: &str = "1.0.0";
/// One of the instances with this name answers.
const GROUP: &str = "mesh-tasks";
/// So many questions are answered at the same time.
const AT_ONCE: usize = 8;
/// For the last answers to leave.
const LAST: Duration = Duration::from_secs(1);

/// What a question is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The whole of it.
    pub body: Vec<u8>,
    /// A number and a short text where it was refused, as clients of services look for them.
    pub refused: Option<(u16, String)>,
}

impl JetstreamBus {
    /// Answers questions, from when this returns until `until` ends; those that are being answered then are answered to their end.
    /// Dropping what it gives ends nothing.
    ///
    /// Errors: there is no connection. A login that may not listen is told by the server in the log.
    pub async fn serve<A, F>(
        &self,
        mesh: &str,
        answer: A,
        until: impl Future<Output = ()> + Send + 'static,
    ) -> Result<tokio::task::JoinHandle<()>, Fault>
    where
        A: Fn(&'static str, Vec<u8>) -> F + Send + Sync + 'static,
        F: Future<Output = Reply> + Send,
    {
        let api = &self.seat.api;
        api.connected().map_err(super::api::Trouble::fault)?;
        let client = api.client.clone();
        let unserved = |error: async_nats::Error| Fault::Unreachable(error.to_string());
        let service = client
            .service_builder()
            .description("hands out the tasks of a mesh")
            .metadata(HashMap::from([("mesh".to_owned(), mesh.to_owned())]))
            .queue_group(GROUP)
            .start(format!("mesh-{mesh}-tasks"), VERSION)
            .await
            .map_err(unserved)?;
        let group = service.group(self.seat.names.desk());
        let mut endpoints = Vec::new();
        for word in WORDS {
            let endpoint = group.endpoint_builder().name(word).add(word).await;
            let endpoint = endpoint.map_err(unserved)?;
            endpoints.push(endpoint.map(move |request| (word, request)));
        }
        // Once this is answered, the server has every subscription that was sent before.
        drop(api.info(&self.seat.names.state).await);
        Ok(tokio::spawn(async move {
            let (asked, answer) = (stream::select_all(endpoints), &answer);
            asked
                .take_until(Box::pin(until))
                .for_each_concurrent(AT_ONCE, |(word, request)| async move {
                    // Whoever waits for no answer is not heard: nobody would know what became of it.
                    if request.message.reply.is_some() {
                        let body = request.message.payload.to_vec();
                        tell(&request, answer(word, body).await).await;
                    }
                })
                .await;
            drop(service.stop().await);
            drop(tokio::time::timeout(LAST, client.flush()).await);
        }))
    }

    /// Tells whoever listens now that a task is open, on a subject of its kind and id. A hint: it is kept
    /// nowhere, and lost without a word where nobody can be told.
    pub async fn ring(&self, kind: &str, id: &str, text: String) {
        let api = &self.seat.api;
        if api.connected().is_ok()
            && let Some(subject) = self.seat.names.bell(kind, id)
        {
            drop(api.client.publish(subject, text.into()).await);
        }
    }
}

async fn tell(request: &service::Request, reply: Reply) {
    let mut headers = HeaderMap::new();
    if let Some((code, text)) = &reply.refused {
        headers.insert(NATS_SERVICE_ERROR, text.as_str());
        headers.insert(NATS_SERVICE_ERROR_CODE, code.to_string().as_str());
    }
    let told = request.respond_with_headers(Ok(reply.body.into()), headers);
    if let Err(error) = told.await {
        tracing::warn!(target: "mesh_bus", "an agent could not be answered: {error}");
    }
}
