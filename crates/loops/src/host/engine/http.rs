//! HTTP/1.1 over a unix socket: one request, one connection, one bounded answer.

use std::path::Path;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::time::timeout;

/// The most bytes of an answer.
const MOST: usize = 4 * 1024 * 1024;

/// One answer.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Value,
}

impl Answer {
    pub(super) fn is_fine(&self) -> bool {
        (200..300).contains(&self.status) || self.status == 304
    }
    /// What the engine says of a request that it did not do.
    pub(super) fn fault(&self, what: &str) -> String {
        let said = self.body.get("message").and_then(Value::as_str);
        let said = said.unwrap_or("it says no more").trim();
        format!(
            "{what}: the engine answers {}: {}",
            self.status,
            said.replace('\n', " | ")
        )
    }
}

/// Asks within a deadline. Errors: the way to the engine.
pub(super) async fn ask(
    socket: &Path,
    (method, path): (Method, &str),
    json: Option<&Value>,
    deadline: Duration,
) -> Result<Answer, String> {
    let fault = |why: String| format!("the engine at {}: {why}", socket.display());
    match timeout(deadline, exchange(socket, (method, path), json)).await {
        Ok(answer) => answer.map_err(fault),
        Err(_) => Err(fault(format!("no answer within {} s", deadline.as_secs()))),
    }
}

async fn exchange(
    socket: &Path,
    (method, path): (Method, &str),
    json: Option<&Value>,
) -> Result<Answer, String> {
    let stream = UnixStream::connect(socket).await.map_err(|error| {
        let help = match error.kind() {
            std::io::ErrorKind::NotFound => "; start it, or name its socket with `engine`",
            std::io::ErrorKind::PermissionDenied => "; let Meshkeeper's user open that socket",
            _ => "",
        };
        format!("{error}{help}")
    })?;
    let text = |error: hyper::Error| error.to_string();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(text)?;
    let body = match json {
        Some(value) => serde_json::to_vec(value).map_err(|error| error.to_string())?,
        None => Vec::new(),
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, "engine")
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| error.to_string())?;
    let talking = async move {
        let response = sender.send_request(request).await.map_err(text)?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), MOST).collect().await;
        let bytes = body.map_err(|error| error.to_string())?.to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Ok(Answer { status, body })
    };
    // Both in this task: dropping it closes the connection.
    let mut talking = std::pin::pin!(talking);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        answer = &mut talking => answer,
        ended = &mut connection => match ended {
            Ok(()) => talking.await,
            Err(error) => Err(error.to_string()),
        },
    }
}
