//! Who may read the page, and who may speak: names, the token, sessions, and where a form came from (S-6).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use mesh_bus::mint;
use mesh_sdk::clock::Clock;
use mesh_sdk::mark::keyed;
use mesh_sdk::{Secret, Time};

use super::Page;

/// A session ends after so long; then the token is asked for again.
const SESSION: Duration = Duration::from_secs(12 * 3_600);
/// So many at once; the oldest ends for a newer one.
const SESSIONS: usize = 256;

/// Nothing from elsewhere is loaded, framed, run or sent to.
pub(super) const CONTENT_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
     connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// How the page is guarded.
pub struct Door {
    /// What proves that somebody may speak.
    pub token: Secret,
    /// The names under which it is asked for, beside those of this machine and addresses in numbers.
    pub names: Vec<String>,
    /// A proxy before it ends TLS and says so in `X-Forwarded-Proto`.
    pub proxy: bool,
    /// It ends TLS itself.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Reading needs the token too: it can be asked from beyond this machine.
    pub beyond: bool,
    /// Tells its cookie from those of other pages of the same host.
    pub port: u16,
}

/// A session of somebody who showed the token.
#[derive(Debug, Clone)]
pub(super) struct Session {
    /// Goes with each form, so that no page of others can send one.
    pub(super) form_key: String,
    until: Time,
}

/// What a request may do.
#[derive(Debug, Clone)]
pub(super) enum Who {
    /// Nobody known.
    Anyone,
    /// It carries the token itself, as a program does.
    Token,
    /// A browser that showed the token.
    Session(Session),
}

impl Who {
    /// The key that the forms of this answer carry; `None` where it may not speak.
    pub(super) fn form_key(&self) -> Option<&str> {
        match self {
            Who::Session(session) => Some(&session.form_key),
            Who::Anyone | Who::Token => None,
        }
    }
    /// Whether it may change something, given the key that came with its form.
    pub(super) fn may_speak(&self, form_key: &str) -> bool {
        match self {
            Who::Anyone => false,
            Who::Token => true,
            Who::Session(session) => same(&session.form_key, form_key),
        }
    }
}

/// Compares without telling by its time how much of it fits.
fn same(one: &str, other: &str) -> bool {
    let mut key = [0; 32];
    if mint::os_random(&mut key).is_err() {
        return false;
    }
    let key = Secret::new(key.as_slice());
    let digest = |text: &str| keyed(&key, b"same", &[text.as_bytes()]);
    digest(one) == digest(other)
}

/// The door with its sessions.
pub(super) struct Access {
    pub(super) door: Door,
    clock: Clock,
    sessions: Mutex<HashMap<String, Session>>,
}

impl Access {
    pub(super) fn new(door: Door, clock: Clock) -> Self {
        Self {
            door,
            clock,
            sessions: Mutex::default(),
        }
    }
    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Whether this is the token.
    pub(super) fn is_token(&self, text: &str) -> bool {
        let token = self.door.token.expose_str().unwrap_or_default();
        !token.is_empty() && same(token, text)
    }
    fn cookie(&self) -> String {
        format!("mesh_session_{}", self.door.port)
    }
    /// Begins a session; answers the cookie. `None`: the system gives no random bytes.
    pub(super) fn begin(&self) -> Option<String> {
        let text = || {
            let made = mint::password(mint::os_random).ok()?;
            made.expose_str().map(str::to_owned)
        };
        let (id, form_key) = (text()?, text()?);
        let (now, mut sessions) = (self.clock.now(), self.sessions());
        sessions.retain(|_, session| session.until > now);
        if sessions.len() >= SESSIONS {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.until);
            let oldest = oldest.map(|(id, _)| id.clone());
            oldest.and_then(|id| sessions.remove(&id));
        }
        let until = now + SESSION;
        let cookie = self.set_cookie(&id, SESSION.as_secs());
        sessions.insert(id, Session { form_key, until });
        Some(cookie)
    }
    /// Ends the session of a request; answers the cookie that forgets it.
    pub(super) fn end(&self, headers: &HeaderMap) -> String {
        if let Some(id) = self.session_id(headers) {
            self.sessions().remove(id);
        }
        self.set_cookie("", 0)
    }
    fn set_cookie(&self, id: &str, seconds: u64) -> String {
        let secure = if self.door.proxy || self.door.tls.is_some() {
            "; Secure"
        } else {
            ""
        };
        let name = self.cookie();
        format!("{name}={id}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}")
    }
    fn session_id<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let name = self.cookie();
        let all = headers.get_all(header::COOKIE).iter();
        let all = all.filter_map(|value| value.to_str().ok());
        let mut pairs = all.flat_map(|value| value.split(';'));
        pairs.find_map(|pair| {
            let (key, value) = pair.trim().split_once('=')?;
            (key == name).then_some(value)
        })
    }
    fn who(&self, headers: &HeaderMap) -> Who {
        let bearer = headers.get(header::AUTHORIZATION);
        let bearer = bearer.and_then(|value| value.to_str().ok());
        if let Some(text) = bearer.and_then(|value| value.strip_prefix("Bearer "))
            && self.is_token(text.trim())
        {
            return Who::Token;
        }
        let now = self.clock.now();
        let session = self
            .session_id(headers)
            .and_then(|id| self.sessions().get(id).cloned());
        match session.filter(|session| session.until > now) {
            Some(session) => Who::Session(session),
            None => Who::Anyone,
        }
    }
    /// Whether a request's name leads here by a way that is meant: a page of somebody else, whose name leads
    /// here too, reads nothing.
    fn is_named(&self, headers: &HeaderMap) -> bool {
        let host = headers
            .get(header::HOST)
            .and_then(|host| host.to_str().ok());
        let Some(name) = host.map(name_of) else {
            return false;
        };
        let address = name.parse::<IpAddr>().ok();
        let local = address.is_some_and(|address| address.is_loopback());
        local
            || name.eq_ignore_ascii_case("localhost")
            || (self.door.beyond && address.is_some())
            || self
                .door
                .names
                .iter()
                .any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// The name or address in a `Host` header.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    }
}

/// Whether a form was sent by a page of ours. Browsers say so themselves; a program says nothing.
fn is_from_here(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if text("sec-fetch-site").is_some_and(|site| !["same-origin", "none"].contains(&site)) {
        return false;
    }
    let (origin, host) = (text("origin"), text("host"));
    origin.is_none_or(|origin| origin.split_once("://").map(|(_, name)| name) == host)
}

/// What may be read without the token, from wherever: that the process lives, and what signing in needs.
fn is_open(path: &str) -> bool {
    matches!(path, "/live" | "/sign-in") || path.starts_with("/assets/")
}

/// Stands before every route.
pub(super) async fn guard(
    State(page): State<Arc<Page>>,
    mut request: Request,
    next: Next,
) -> Response {
    let access = &page.access;
    let mut response = match refusal(access, &request) {
        Some(refusal) => refusal,
        None => {
            let who = access.who(request.headers());
            request.extensions_mut().insert(who);
            next.run(request).await
        }
    };
    harden(response.headers_mut());
    response
}

fn refusal(access: &Access, request: &Request) -> Option<Response> {
    let (headers, path) = (request.headers(), request.uri().path());
    if !access.is_named(headers) {
        let text = match access.door.beyond {
            false => "not a name of this machine\n",
            true => "not a name that [mesh.page] lists\n",
        };
        return Some((StatusCode::FORBIDDEN, text).into_response());
    }
    let from_proxy = headers.get("x-forwarded-proto");
    if access.door.proxy && from_proxy.is_none_or(|proto| proto != "https") {
        let text = "only over TLS, by the proxy that [mesh.page] speaks of\n";
        return Some((StatusCode::FORBIDDEN, text).into_response());
    }
    let reads = [Method::GET, Method::HEAD].contains(request.method());
    if !reads && !is_from_here(headers) {
        let text = "this form was not sent by a page of Meshkeeper\n";
        return Some((StatusCode::FORBIDDEN, text).into_response());
    }
    if access.door.beyond && !is_open(path) && matches!(access.who(headers), Who::Anyone) {
        let browser = headers.get(header::ACCEPT).is_some_and(accepts_html);
        return Some(match reads && browser {
            true => Redirect::to("/sign-in").into_response(),
            false => {
                let how = [(header::WWW_AUTHENTICATE, "Bearer")];
                (StatusCode::UNAUTHORIZED, how, "the token is needed\n").into_response()
            }
        });
    }
    None
}

fn accepts_html(accept: &HeaderValue) -> bool {
    accept
        .to_str()
        .is_ok_and(|accept| accept.contains("text/html"))
}

fn harden(headers: &mut HeaderMap) {
    for (name, value) in [
        ("content-security-policy", CONTENT_POLICY),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cache-control", "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    //! S-6: names, sessions and forms.
    use super::*;

    fn access(beyond: bool, names: &[&str]) -> Access {
        let door = Door {
            token: Secret::from("a token of some length"),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            proxy: false,
            tls: None,
            beyond,
            port: 9180,
        };
        Access::new(door, Clock::system())
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| {
                let value = HeaderValue::from_str(value).expect("value");
                (axum::http::HeaderName::from_static(name), value)
            })
            .collect()
    }

    #[tokio::test]
    async fn s6_only_names_that_are_meant_are_answered() {
        let (here, beyond) = (access(false, &[]), access(true, &["mesh.example"]));
        for (host, at_home, outside) in [
            ("127.0.0.1:9180", true, true),
            ("[::1]:9180", true, true),
            ("localhost", true, true),
            ("10.0.0.7:9180", false, true),
            ("mesh.example", false, true),
            ("MESH.example:443", false, true),
            ("evil.example", false, false),
            ("localhost.evil.example", false, false),
            ("127.0.0.1.evil.example", false, false),
        ] {
            let asked = headers(&[("host", host)]);
            assert_eq!(here.is_named(&asked), at_home, "{host}");
            assert_eq!(beyond.is_named(&asked), outside, "{host}");
        }
        assert!(!here.is_named(&HeaderMap::new()));
    }

    #[tokio::test]
    async fn s6_a_form_of_another_page_is_refused() {
        let host = ("host", "127.0.0.1:9180");
        for (more, from_here) in [
            (vec![], true),
            (vec![("origin", "http://127.0.0.1:9180")], true),
            (vec![("sec-fetch-site", "same-origin")], true),
            (vec![("origin", "http://evil.example")], false),
            (vec![("origin", "null")], false),
            (vec![("sec-fetch-site", "cross-site")], false),
            (vec![("sec-fetch-site", "same-site")], false),
        ] {
            let all: Vec<_> = more.iter().copied().chain([host]).collect();
            assert_eq!(is_from_here(&headers(&all)), from_here, "{more:?}");
        }
    }

    #[tokio::test]
    async fn s6_a_session_speaks_with_its_own_key_only_and_ends() {
        let access = access(false, &[]);
        assert!(access.is_token("a token of some length"));
        assert!(!access.is_token("a token of some lengt"));
        assert!(!access.is_token(""));
        let cookie = access.begin().expect("a session");
        assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
        let sent = cookie.split(';').next().expect("pair").to_owned();
        let asked = headers(&[("cookie", &format!("other=1; {sent}"))]);
        let who = access.who(&asked);
        let key = who.form_key().expect("a session").to_owned();
        assert!(who.may_speak(&key) && !who.may_speak("") && !who.may_speak("other"));
        assert!(access.end(&asked).contains("Max-Age=0"));
        assert!(matches!(access.who(&asked), Who::Anyone));
        for _ in 0..=SESSIONS {
            access.begin().expect("a session");
        }
        assert_eq!(access.sessions().len(), SESSIONS);
        let bearer = |text: &str| access.who(&headers(&[("authorization", text)]));
        assert!(matches!(
            bearer("Bearer a token of some length"),
            Who::Token
        ));
        assert!(matches!(bearer("Bearer another"), Who::Anyone));
    }
}
