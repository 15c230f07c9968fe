//! HTTP/1.1 for adapters whose backend is administered over it: from the provider's settings alone.
//!
//! No proxy, no redirect, no cookie, no retry, nothing from the environment (O-34). A [`Session`] belongs
//! to one call of an adapter: it keeps its connection alive between requests, and dropping it, at any
//! await, closes the connection (H-9). Bodies are bounded. A plain connection goes to this machine only,
//! unless the settings allow more in so many words (S-5).

use std::sync::OnceLock;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
pub(crate) use hyper::Method;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, RETRY_AFTER};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use mesh_sdk::adapter::ProviderSettings;
use mesh_sdk::{Class, Cx, Error, Secret};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::failure::{broken, late};
use crate::tls::{Handshake, handshake};

/// Our own deadline for getting a connection. All later waiting is under the harness's.
const DEADLINE: Duration = Duration::from_secs(10);
/// After so many requests a connection is made anew: servers end one after a number of their own
/// (RabbitMQ after 1,000), and a request that meets that end has no answer.
const REQUESTS: usize = 900;

/// Where a server is, and how it is reached.
pub(crate) struct Client {
    settings: ProviderSettings,
    encrypted: bool,
    tls: OnceLock<Result<Handshake, Error>>,
}

/// One request.
pub(crate) struct Ask<'a> {
    /// What is being done, for messages.
    pub(crate) what: &'a str,
    pub(crate) method: Method,
    /// The path with its query, percent-encoded.
    pub(crate) path: &'a str,
    /// A JSON text.
    pub(crate) json: Option<Vec<u8>>,
    /// The most bytes that the answer may have.
    pub(crate) most: usize,
}

/// One answer. It has no `Debug`: some are full of hashes.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// The server's own clock, as it wrote it.
    #[cfg(feature = "rabbitmq")]
    pub(crate) date: Option<String>,
    /// After how many seconds it wants to be asked again.
    pub(crate) retry_after: Option<u64>,
}

impl Answer {
    /// Whether it did what was asked.
    pub(crate) fn is_fine(&self) -> bool {
        (200..300).contains(&self.status)
    }
    /// What everybody's server means by statuses that say "not now"; `None` for all others.
    pub(crate) fn busy(&self, what: &str) -> Option<Error> {
        let class = match self.status {
            429 | 503 => Class::Busy,
            408 | 504 => Class::TimedOut,
            502 => Class::Unreachable,
            _ => return None,
        };
        let wait = match self.retry_after {
            Some(seconds) => format!(", and asks to come back after {seconds} s"),
            None => String::new(),
        };
        Some(Error::new(
            class,
            format!("{what}: the server answers {}{wait}", self.status),
        ))
    }
}

impl Client {
    /// No I/O yet.
    pub(crate) fn new(settings: ProviderSettings, encrypted: bool) -> Self {
        Self {
            settings,
            encrypted,
            tls: OnceLock::new(),
        }
    }
    pub(crate) fn settings(&self) -> &ProviderSettings {
        &self.settings
    }
    /// Whether the connection is encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.encrypted
    }
    /// Whether a consumer's own password may go over a connection: it leaves this machine by no wire,
    /// or only to a server whose certificate was verified (H-17).
    #[cfg(feature = "etcd")]
    pub(crate) fn may_carry_passwords(&self) -> bool {
        self.settings.may_carry_passwords(self.encrypted)
    }
    /// A session, with what goes into the `Authorization` header of its requests. It connects when it
    /// is first used.
    pub(crate) fn session(&self, authorization: Option<String>) -> Result<Session<'_>, Error> {
        let mut session = Session {
            client: self,
            authorization: None,
            open: None,
        };
        if let Some(authorization) = authorization {
            session.authorize(&authorization)?;
        }
        Ok(session)
    }

    fn host(&self) -> String {
        let address = self.settings.address();
        address
            .split_once("://")
            .map_or(String::new(), |(_, host)| host.to_owned())
    }

    async fn connect(&self) -> Result<Open, Error> {
        let result = match timeout(DEADLINE, self.dial()).await {
            Ok(result) => result,
            Err(_) => Err(late("connect")),
        };
        result.map_err(|error| {
            let message = format!("{} ({})", error.message(), self.settings.address());
            error.with_message(message)
        })
    }

    async fn dial(&self) -> Result<Open, Error> {
        let settings = &self.settings;
        settings.may_connect(self.encrypted)?;
        let broken = |error| broken("connect", &error);
        let socket = TcpStream::connect((settings.host.as_str(), settings.port)).await;
        let socket = socket.map_err(broken)?;
        socket.set_nodelay(true).map_err(broken)?;
        if !self.encrypted {
            return Open::on(TokioIo::new(socket)).await;
        }
        let tls = self.tls.get_or_init(|| handshake(settings));
        let tls = tls.as_ref().map_err(Clone::clone)?;
        let stream = tls
            .connector
            .connect(tls.name.clone(), socket)
            .await
            .map_err(broken)?;
        Open::on(TokioIo::new(stream)).await
    }
}

/// One `GET` to a server that is no backend, on a connection of its own; answers the status. Errors name the
/// host, and never the path.
pub async fn get(settings: ProviderSettings, encrypted: bool, path: &str) -> Result<u16, Error> {
    let client = Client::new(settings, encrypted);
    let ask = Ask {
        what: "the call",
        method: Method::GET,
        path,
        json: None,
        most: 64 * 1024,
    };
    let answer = client.session(None)?.ask(&Cx::default(), ask).await?;
    Ok(answer.status)
}

/// One `POST` to a server that is no backend, on a connection of its own; answers the status. The values of
/// `headers` may let somebody in. Errors name the host, and neither path nor headers.
pub async fn post(
    settings: ProviderSettings,
    encrypted: bool,
    path: &str,
    headers: &[(String, Secret)],
    (kind, body): (&str, Vec<u8>),
) -> Result<u16, Error> {
    let client = Client::new(settings, encrypted);
    let wrong = || Error::new(Class::Bug, "the call: no such request can be");
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(HOST, client.host())
        .header(CONTENT_TYPE, kind);
    for (name, value) in headers {
        let mut value = HeaderValue::from_bytes(value.expose()).map_err(|_| wrong())?;
        value.set_sensitive(true);
        request = request.header(name, value);
    }
    let request = request.body(Full::new(Bytes::from(body)));
    let request = request.map_err(|_| wrong())?;
    let mut open = client.connect().await?;
    let ask = Ask {
        what: "the call",
        method: Method::POST,
        path,
        json: None,
        most: 64 * 1024,
    };
    let response = open.sender.send_request(request).await;
    let response = response.map_err(|error| broken_call(ask.what, &error))?;
    Ok(read(&Cx::default(), &ask, response).await?.status)
}

/// What one call of an adapter talks through.
pub(crate) struct Session<'c> {
    client: &'c Client,
    authorization: Option<HeaderValue>,
    open: Option<Open>,
}

impl Session<'_> {
    /// What goes into the `Authorization` header of its requests from now on.
    pub(crate) fn authorize(&mut self, authorization: &str) -> Result<(), Error> {
        let wrong = |_| Error::new(Class::RefusedValue, "the admin login cannot be in a header");
        let mut value = HeaderValue::try_from(authorization).map_err(wrong)?;
        value.set_sensitive(true);
        self.authorization = Some(value);
        Ok(())
    }
    /// The settings that it was made from.
    #[cfg(feature = "etcd")]
    pub(crate) fn settings(&self) -> &ProviderSettings {
        &self.client.settings
    }
    /// From now on its requests have none.
    #[cfg(feature = "etcd")]
    pub(crate) fn unauthorize(&mut self) {
        self.authorization = None;
    }

    /// Asks, and reads the whole answer. Every part of it that comes is a sign of life.
    ///
    /// Any error leaves the session without a connection: what was cut off is never used again.
    pub(crate) async fn ask(&mut self, cx: &Cx, ask: Ask<'_>) -> Result<Answer, Error> {
        let request = self.request(&ask)?;
        let mut open = match self.open.take() {
            Some(open) if open.is_usable() => open,
            _ => self.client.connect().await?,
        };
        let failed = |error: hyper::Error| broken_call(ask.what, &error);
        open.requests += 1;
        let response = open.sender.send_request(request).await.map_err(failed)?;
        cx.progress();
        let answer = read(cx, &ask, response).await?;
        // It is ready for the next request once it has seen the end of this answer.
        if open.sender.ready().await.is_ok() {
            self.open = Some(open);
        }
        Ok(answer)
    }

    fn request(&self, ask: &Ask<'_>) -> Result<Request<Full<Bytes>>, Error> {
        let mut request = Request::builder()
            .method(&ask.method)
            .uri(ask.path)
            .header(HOST, self.client.host());
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        if ask.json.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = Full::new(Bytes::from(ask.json.clone().unwrap_or_default()));
        let wrong = |_| Error::new(Class::Bug, format!("{}: no such request can be", ask.what));
        request.body(body).map_err(wrong)
    }
}

/// A connection, and the task that moves its bytes.
struct Open {
    sender: SendRequest<Full<Bytes>>,
    task: JoinHandle<()>,
    requests: usize,
}

impl Open {
    async fn on<T>(stream: T) -> Result<Self, Error>
    where
        T: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    {
        let (sender, connection) = http1::Builder::new()
            .handshake(stream)
            .await
            .map_err(|error| broken_call("connect", &error))?;
        let task = tokio::spawn(async move {
            // How it ended is told by the request that was under way.
            let _ = connection.await;
        });
        Ok(Self {
            sender,
            task,
            requests: 0,
        })
    }
    fn is_usable(&self) -> bool {
        self.requests < REQUESTS && self.sender.is_ready()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read(cx: &Cx, ask: &Ask<'_>, response: Response<Incoming>) -> Result<Answer, Error> {
    let (head, mut body) = response.into_parts();
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken_call(ask.what, &error))?;
        cx.progress();
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if bytes.len() + data.len() > ask.most {
            let message = format!("{}: the answer is longer than {} bytes", ask.what, ask.most);
            return Err(Error::new(Class::Bug, message));
        }
        bytes.extend_from_slice(&data);
    }
    let retry_after = text(&head.headers, &RETRY_AFTER).and_then(|value| value.parse().ok());
    Ok(Answer {
        status: head.status.as_u16(),
        body: bytes,
        #[cfg(feature = "rabbitmq")]
        date: text(&head.headers, &hyper::header::DATE),
        retry_after,
    })
}

fn text(headers: &HeaderMap, name: &hyper::header::HeaderName) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?;
    Some(value.trim().to_owned())
}

/// An error for a request that has no whole answer.
fn broken_call(what: &str, error: &hyper::Error) -> Error {
    let source = std::error::Error::source(error).and_then(|inner| inner.downcast_ref());
    if let Some(io) = source {
        return broken(what, io);
    }
    if error.is_parse() && !error.is_incomplete_message() {
        return Error::new(Class::Bug, format!("{what}: the answer is not HTTP"));
    }
    Error::new(
        Class::Unreachable,
        format!("{what}: the connection broke: {error}"),
    )
}

/// A text as one part of a path: everything but letters, digits, `-`, `_`, `~` and `.` is encoded.
#[cfg(feature = "rabbitmq")]
pub(crate) fn part(text: &str) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut encoded = String::with_capacity(text.len() + 8);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_~.".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.push(char::from(DIGITS[usize::from(byte >> 4)]));
            encoded.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    //! The client, before a server that answers as it is told.
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use mesh_sdk::ProviderName;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Answers each request of each connection with these bytes, and counts the connections.
    async fn server(answer: &'static str) -> (u16, Arc<AtomicUsize>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    let mut asked = vec![0; 4096];
                    while stream.read(&mut asked).await.is_ok_and(|got| got > 0) {
                        let _ = stream.write_all(answer.as_bytes()).await;
                        if !answer.starts_with("HTTP/1.1 2") {
                            return;
                        }
                    }
                });
            }
        });
        (port, count)
    }

    fn client(host: &str, port: u16) -> Client {
        let provider = ProviderName::new("queue").expect("a name");
        Client::new(ProviderSettings::new(provider, "http", host, port), false)
    }

    fn get(path: &str) -> Ask<'_> {
        Ask {
            what: "look",
            method: Method::GET,
            path,
            json: None,
            most: 64,
        }
    }

    async fn class(session: &mut Session<'_>) -> Option<Class> {
        session
            .ask(&Cx::default(), get("/"))
            .await
            .err()
            .map(|error| error.class())
    }

    #[tokio::test]
    async fn a_connection_is_kept_and_made_anew_before_a_server_would_end_it() {
        let (port, count) = server("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
        let client = client("127.0.0.1", port);
        let mut session = client
            .session(Some("Basic eA==".to_owned()))
            .expect("a session");
        for _ in 0..=REQUESTS {
            let answer = session
                .ask(&Cx::default(), get("/a?b=c"))
                .await
                .expect("an answer");
            assert_eq!((answer.status, &answer.body[..]), (200, &b"ok"[..]));
        }
        assert_eq!(count.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_server_that_ends_the_connection_is_connected_to_again() {
        let closing = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let (port, count) = server(closing).await;
        let client = client("127.0.0.1", port);
        let mut session = client.session(None).expect("a session");
        for _ in 0..3 {
            assert!(session.ask(&Cx::default(), get("/")).await.is_ok());
        }
        assert_eq!(count.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn a_body_has_a_bound() {
        let long = "HTTP/1.1 200 OK\r\ncontent-length: 65\r\n\r\n\
            aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
        let (port, _) = server(long).await;
        let client = client("127.0.0.1", port);
        let mut session = client.session(None).expect("a session");
        assert_eq!(class(&mut session).await, Some(Class::Bug));
    }

    #[tokio::test]
    async fn h7_what_is_cut_or_refused_is_unreachable_and_what_is_not_http_a_bug() {
        let table = [
            ("HTTP/1.1 500", Class::Unreachable),
            (
                "HTTP/1.1 500 No\r\ncontent-length: 9\r\n\r\nhalf",
                Class::Unreachable,
            ),
            (
                "HTTP/1.1 500 No\r\ntransfer-encoding: chunked\r\n\r\n5\r\nha",
                Class::Unreachable,
            ),
            ("-ERR what is this\r\n\r\n", Class::Bug),
        ];
        for (answer, wanted) in table {
            let (port, _) = server(answer).await;
            let client = client("127.0.0.1", port);
            let mut session = client.session(None).expect("a session");
            assert_eq!(class(&mut session).await, Some(wanted), "{answer:?}");
        }
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let client = client("127.0.0.1", port);
        let mut session = client.session(None).expect("a session");
        assert_eq!(class(&mut session).await, Some(Class::Unreachable));
    }

    #[tokio::test]
    async fn o25_not_now_is_busy_with_the_stated_wait() {
        let (port, _) =
            server("HTTP/1.1 429 Slow\r\nretry-after: 2\r\ncontent-length: 0\r\n\r\n").await;
        let client = client("127.0.0.1", port);
        let mut session = client.session(None).expect("a session");
        let answer = session
            .ask(&Cx::default(), get("/"))
            .await
            .expect("an answer");
        let error = answer.busy("look").expect("busy");
        assert_eq!(error.class(), Class::Busy);
        assert!(error.message().contains("after 2 s"), "{error}");
    }

    #[tokio::test]
    async fn s5_a_plain_connection_leaves_this_machine_only_by_its_word() {
        let client = client("192.0.2.1", 9);
        let mut session = client.session(None).expect("a session");
        assert_eq!(class(&mut session).await, Some(Class::RefusedValue));
    }

    #[cfg(feature = "rabbitmq")]
    #[test]
    fn a5_every_text_is_one_part_of_a_path() {
        assert_eq!(part("a/b?c#d%e f\n"), "a%2Fb%3Fc%23d%25e%20f%0A");
        assert_eq!(part("-_~.aZ9"), "-_~.aZ9");
        assert_eq!(part("ü"), "%C3%BC");
    }
}
