//! The contract for authors: what knows one kind of backend.
//!
//! An author writes [`Adapter::create`] and [`Adapter::remove`], and whatever else the backend can do.
//! Deadlines, retries, concurrency, the brake, scrubbing, records and logs are the harness's.

mod fence;
mod found;
mod plain;

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::answer::{Answer, MarkSeen};
use crate::error::Error;
use crate::mark::Marker;
use crate::name::{ConsumerName, Login, ProviderName};
use crate::provision::{Departing, Provision};
use crate::secret::Secret;

pub use fence::{Fence, Standing};
pub use found::{Found, Use};

/// One backend server, spoken to with its admin login.
///
/// Every method may be called at the same time as any other. Each is cut off at its deadline by being
/// dropped, at any await: what it holds must then be closed, never used again (H-9). No method tries
/// again by itself; the loop is the retry.
#[async_trait]
pub trait Adapter: Send + Sync + 'static {
    /// This kind's values: unknown fields refused, every field documented.
    type Values: DeserializeOwned + Serialize + JsonSchema + Send + Sync + 'static;

    /// What this adapter can do on this server. What is not declared is never called.
    fn capabilities(&self) -> Capabilities;

    /// Makes the login exactly as asked: login, password, grants, mark, enabled or not.
    ///
    /// Idempotent, and also the update and the repair (law 2). *After* `Ok` a `holds` answers held
    /// (once the server has settled). *After* an error anything may be half done; the next `create`
    /// finishes it. Only the differences are written, where they can be told. Open sessions of a
    /// login that is in order are left alone. The caller has made sure that the login is ours or
    /// free (H-18); an adapter without `holds` refuses an existing login without our mark with
    /// [`crate::error::Class::Exists`].
    async fn create(&self, cx: &Cx, wish: &Provision<'_, Self::Values>) -> Result<(), Error>;

    /// Takes the login away and ends its sessions; keeps its data.
    ///
    /// "Already gone" is success. A login that does not carry our mark for this consumer, which
    /// `marker` makes and reads, is left alone, with [`crate::error::Class::Exists`].
    async fn remove(&self, cx: &Cx, marker: &Marker, login: &Departing) -> Result<(), Error>;

    /// What the server says about itself. Read-only. Declared by [`Capabilities::server`].
    async fn server(&self, _cx: &Cx) -> Result<Server, Error> {
        Err(Error::cannot("describe its server"))
    }

    /// Whether the backend still holds one consumer as asked (H-5). Read-only: it never writes, never
    /// locks an account, never leaves a failed login behind in the healthy state.
    ///
    /// An error means *unknown*; a failed call is never reported as lost.
    async fn holds(&self, _cx: &Cx, _wish: &Provision<'_, Self::Values>) -> Result<Answer, Error> {
        Err(Error::cannot("ask for a consumer"))
    }

    /// [`Adapter::holds`] for many, with as few calls as there can be (H-16). Each answer is put into
    /// `answers` under the consumer's index as soon as it is known; whatever has none when this returns
    /// is unknown, with the returned error as the reason. Calls [`Cx::progress`] at each server reply, and
    /// [`Cx::rest`] where it ends before all is worked out.
    async fn holds_all(
        &self,
        _cx: &Cx,
        _wishes: &[Provision<'_, Self::Values>],
        _answers: &Sink<Answer>,
    ) -> Result<(), Error> {
        Err(Error::cannot("ask for many at once"))
    }

    /// [`Adapter::create`] for many, in one pipeline. One that fails does not stop the others.
    async fn create_all(
        &self,
        _cx: &Cx,
        _wishes: &[Provision<'_, Self::Values>],
        _outcomes: &Sink<()>,
    ) -> Result<(), Error> {
        Err(Error::cannot("create many at once"))
    }

    /// Switches a login off and ends its sessions; data, password and grants stay. A login
    /// without our mark is left alone, as in [`Adapter::remove`].
    async fn disable(&self, _cx: &Cx, _marker: &Marker, _login: &Departing) -> Result<(), Error> {
        Err(Error::cannot("switch a login off"))
    }

    /// Every login that the server holds, with its mark judged. Whole, or an error.
    async fn list(&self, _cx: &Cx, _marker: &Marker) -> Result<Vec<Listed>, Error> {
        Err(Error::cannot("list its logins"))
    }

    /// How each of these was used last, or tried, as far as the server tells, in the order of asking: a
    /// login that leaves and is in use waits. Read-only.
    async fn uses(&self, _cx: &Cx, _logins: &[Departing]) -> Result<Vec<Option<Use>>, Error> {
        Err(Error::cannot("tell who is in use"))
    }

    /// Every login that a manifest could ask for, with the values under which it would be held as it
    /// stands, for `mesh import`. Read-only; whole, or an error. Left out are the reserved ones, the
    /// admin's own, and those whose mark is another mesh's.
    async fn find(&self, _cx: &Cx, _marker: &Marker) -> Result<Vec<Found<Self::Values>>, Error> {
        Err(Error::cannot("tell what its logins may do"))
    }

    /// What [`Adapter::purge`] would delete under this name, in one line for people: what it is, how
    /// large. `None` where there is nothing. A login that may still use it is [`Class::Exists`], naming
    /// it. Read-only.
    ///
    /// [`Class::Exists`]: crate::error::Class::Exists
    async fn data(&self, _cx: &Cx, _name: &str) -> Result<Option<String>, Error> {
        Err(Error::cannot("delete data"))
    }

    /// Deletes data that a removed login left: only ever by a person's word, with the name typed.
    /// The name is one of [`Kind::data_of`]. It looks again as [`Adapter::data`] does, and is refused
    /// in the same way. "Already gone" is success.
    async fn purge(&self, _cx: &Cx, _name: &str) -> Result<(), Error> {
        Err(Error::cannot("delete data"))
    }

    /// Returns when something hints that the server may have forgotten logins: it restarted, or a
    /// connection dropped and came back (H-14). It saves time and proves nothing. Waits without end
    /// while there is nothing; never busy.
    async fn hint(&self, _cx: &Cx) -> Result<(), Error> {
        Err(Error::cannot("give hints"))
    }

    /// What a person should know about this server and the admin login: rights missing or too many,
    /// persistence, versions, TLS. Read-only.
    async fn doctor(&self, _cx: &Cx) -> Result<Vec<Finding>, Error> {
        Ok(Vec::new())
    }
}

/// What an adapter can do on a given server. Not declared means "cannot", and is shown so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Capabilities {
    /// [`Adapter::server`].
    pub server: bool,
    /// [`Adapter::holds`].
    pub holds: bool,
    /// [`Adapter::holds_all`].
    pub holds_all: bool,
    /// [`Adapter::create_all`].
    pub create_all: bool,
    /// [`Adapter::disable`], and `enabled = false`.
    pub disable: bool,
    /// [`Adapter::list`].
    pub list: bool,
    /// [`Adapter::hint`].
    pub hint: bool,
    /// Two passwords can be valid at once.
    pub two_passwords: bool,
    /// [`Adapter::uses`].
    pub uses: bool,
    /// [`Adapter::find`].
    pub find: bool,
    /// [`Adapter::data`] and [`Adapter::purge`].
    pub purge: bool,
    /// What it writes is refused by the server once a later holder of the lease wrote ([`Cx::fence`]).
    pub fence: bool,
}

impl Capabilities {
    /// None but the two that every adapter has.
    pub const fn none() -> Self {
        Self {
            server: false,
            holds: false,
            holds_all: false,
            create_all: false,
            disable: false,
            list: false,
            hint: false,
            two_passwords: false,
            uses: false,
            find: false,
            purge: false,
            fence: false,
        }
    }
}

/// What a server says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Server {
    /// Product and version, for people: `Redis 7.0.15`.
    pub version: String,
    /// An identity that outlives restarts, where there is one (H-20).
    pub identity: Option<String>,
    /// What changes with each start of the server: a run id or a start time (H-11, H-14).
    pub run: Option<String>,
    /// Why it takes no writes now, if it does not (H-21).
    pub read_only: Option<String>,
    /// Why it would forget its logins at a restart, if it would, and what to do about it.
    pub forgets: Option<String>,
}

/// A login on the server, as [`Adapter::list`] tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// The login.
    pub login: Login,
    /// Its mark. Only [`MarkSeen::OursFor`] names a consumer of ours here.
    pub mark: MarkSeen,
    /// Whether it can be used.
    pub enabled: bool,
}

impl Listed {
    /// One.
    pub fn new(login: Login, mark: MarkSeen, enabled: bool) -> Self {
        Self {
            login,
            mark,
            enabled,
        }
    }
}

/// One thing that `mesh doctor` tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// Whether something is wrong, or only worth knowing.
    pub level: FindingLevel,
    /// What was looked at: `acl rights`, `persistence`, `tls`.
    pub about: String,
    /// What was found, one line.
    pub message: String,
    /// What to do, as a command where there is one.
    pub action: Option<String>,
}

impl Finding {
    /// A finding without an action.
    pub fn new(level: FindingLevel, about: &str, message: impl Into<String>) -> Self {
        Self {
            level,
            about: about.to_owned(),
            message: message.into(),
            action: None,
        }
    }
    /// The same with what to do.
    #[must_use]
    pub fn with_action(self, action: impl Into<String>) -> Self {
        Self {
            action: Some(action.into()),
            ..self
        }
    }
}

/// How a [`Finding`] is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingLevel {
    /// In order.
    Ok,
    /// Worth a look.
    Warning,
    /// Something will not work.
    Error,
}

/// What a call is made with: deadlines that it may watch, and signs of life that it gives.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Cx {
    /// No single command may block the server longer than this (H-16).
    pub block_budget: Duration,
    /// This look follows our own effect: the cheapest proof of that effect is wanted (H-23).
    pub after_effect: bool,
    /// Under which lease a call writes (B-4); none where there are no leases, or for a person's own command.
    pub fence: Option<Fence>,
    /// Our own login on this server, if it has one: a place for the fence.
    pub canary: Option<Login>,
    progress: Arc<Progress>,
}

impl Default for Cx {
    fn default() -> Self {
        Self::new(Duration::from_millis(50), false)
    }
}

impl Cx {
    /// A context for one call.
    pub fn new(block_budget: Duration, after_effect: bool) -> Self {
        Self {
            block_budget,
            after_effect,
            fence: None,
            canary: None,
            progress: Arc::default(),
        }
    }
    /// The same for a call that writes under a lease.
    #[must_use]
    pub fn under(self, fence: Option<Fence>, canary: Option<Login>) -> Self {
        Self {
            fence,
            canary,
            ..self
        }
    }
    /// The server answered something: the deadline of a bulk call starts anew (H-9).
    pub fn progress(&self) {
        self.progress.step();
    }
    /// While the guard lives, local computing is not counted against the deadline.
    pub fn computing(&self) -> Computing {
        self.progress.pause(true);
        Computing(Arc::clone(&self.progress))
    }
    /// The call ends here by itself although answers are missing: what was told is acted on first, and the
    /// rest is asked for at once afterwards. For a bulk look whose proofs take long to work out, so that
    /// nobody's repair waits for them (H-16). At least one answer must be there.
    pub fn rest(&self) {
        self.progress.rest();
    }
    /// The signs of life, for the harness.
    pub fn signs_of_life(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }
}

/// Signs of life of one call.
#[derive(Debug, Default)]
pub struct Progress {
    state: Mutex<(u64, u32)>,
    rests: AtomicBool,
}

impl Progress {
    fn step(&self) {
        if let Ok(mut state) = self.state.lock() {
            state.0 += 1;
        }
    }
    fn pause(&self, on: bool) {
        if let Ok(mut state) = self.state.lock() {
            state.0 += 1;
            state.1 = if on {
                state.1 + 1
            } else {
                state.1.saturating_sub(1)
            };
        }
    }
    fn rest(&self) {
        self.rests.store(true, Ordering::Relaxed);
    }
    /// Whether the call ended by itself with answers missing.
    pub fn rests(&self) -> bool {
        self.rests.load(Ordering::Relaxed)
    }
    /// How many signs there were, and whether it is computing now.
    pub fn seen(&self) -> (u64, bool) {
        self.state
            .lock()
            .map_or((0, false), |state| (state.0, state.1 > 0))
    }
}

/// Ends the computing when dropped.
#[derive(Debug)]
pub struct Computing(Arc<Progress>);

impl Drop for Computing {
    fn drop(&mut self) {
        self.0.pause(false);
    }
}

/// Where a bulk call puts its results, one by one. What was put before a deadline counts (H-9).
#[derive(Debug)]
pub struct Sink<T>(Mutex<Vec<Option<Result<T, Error>>>>);

impl<T> Sink<T> {
    /// Room for `len` results.
    pub fn new(len: usize) -> Self {
        Self(Mutex::new(
            std::iter::repeat_with(|| None).take(len).collect(),
        ))
    }
    /// Puts the result for the wish at `index`. A later one replaces an earlier one; beyond the end
    /// nothing happens.
    pub fn put(&self, index: usize, result: Result<T, Error>) {
        if let Ok(mut all) = self.0.lock()
            && let Some(slot) = all.get_mut(index)
        {
            *slot = Some(result);
        }
    }
    /// Puts many, locking once.
    pub fn put_each(&self, results: impl IntoIterator<Item = (usize, Result<T, Error>)>) {
        if let Ok(mut all) = self.0.lock() {
            for (index, result) in results {
                if let Some(slot) = all.get_mut(index) {
                    *slot = Some(result);
                }
            }
        }
    }
    /// Takes all results out; `None` where there was none.
    pub fn take(&self) -> Vec<Option<Result<T, Error>>> {
        self.0
            .lock()
            .map(|mut all| std::mem::take(&mut *all))
            .unwrap_or_default()
    }
}

/// One kind of backend, before any server is known: the catalogue is a list of these.
pub trait Kind: Send + Sync + 'static {
    /// Its adapter.
    type Adapter: Adapter;

    /// What people and the manifest's checker need to know.
    fn descriptor(&self) -> Descriptor;

    /// What the adapter can do with these settings, as far as that is known offline: by default, at best.
    fn capabilities(&self, _provider: &ProviderSettings) -> Capabilities {
        self.descriptor().capabilities
    }

    /// Refuses what the backend could never take: names too long, reserved, passwords it cannot hold
    /// (A-5, H-19). Offline and complete: what passes here is not refused by `create` for its form.
    fn check(
        &self,
        provider: &ProviderSettings,
        wish: &Provision<'_, <Self::Adapter as Adapter>::Values>,
    ) -> Result<(), Refusal>;

    /// The JSON Schema of the provider's `options` table, where this kind has settings of its own
    /// (`schemars::schema_for!(T).to_value()`, unknown fields refused); without it the table is refused.
    fn options_schema(&self) -> Option<serde_json::Value> {
        None
    }

    /// Values of a login that may do nothing: the canary's, which must be in every list before that list
    /// can remove anybody. Without them nothing is removed without a person's word.
    fn canary(&self, _provider: &ProviderSettings) -> Option<<Self::Adapter as Adapter>::Values> {
        None
    }

    /// The data that these values speak of and that outlives the login, under the names that
    /// [`Adapter::purge`] takes: a database, a vhost.
    fn data_of(&self, _values: &<Self::Adapter as Adapter>::Values) -> Vec<String> {
        Vec::new()
    }

    /// Where an app finds the service that this login is for, in the order of `mesh credentials`: as a rule
    /// the server itself. Otherwise where the admin speaks to another door than the apps.
    fn service(
        &self,
        provider: &ProviderSettings,
        _wish: &Provision<'_, <Self::Adapter as Adapter>::Values>,
    ) -> Service {
        Service {
            address: provider.address(),
            path: provider.path.clone(),
        }
    }

    /// Checks a provider's own settings offline: scheme, host, admin, TLS, options.
    fn check_provider(&self, provider: &ProviderSettings) -> Result<(), Refusal>;

    /// The adapter for one server. No I/O: it connects when it is first asked something.
    fn open(&self, provider: ProviderSettings) -> Result<Self::Adapter, Error>;
}

/// What people and generated pages say of a kind.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Descriptor {
    /// The word in `kind = "…"`.
    pub kind: &'static str,
    /// Its product name(s), with the versions that the conformance suite runs.
    pub title: &'static str,
    /// The URL schemes that it takes, and whether each is encrypted.
    pub schemes: &'static [Scheme],
    /// What the adapter can do at best.
    pub capabilities: Capabilities,
    /// How a password is proven.
    pub proof: &'static str,
    /// What a restart of the server forgets.
    pub restart: &'static str,
    /// Which lasting identity the server has (H-20).
    pub identity: &'static str,
    /// What the admin login needs, one right a line (S-8).
    pub admin_rights: &'static [&'static str],
    /// Logins that are never touched (H-19).
    pub reserved: &'static [&'static str],
    /// Limits of names and passwords.
    pub limits: &'static str,
    /// What stays when a login is removed.
    pub keeps: &'static str,
    /// How the mark is kept.
    pub mark: &'static str,
    /// How an old password and a new one are valid together while one takes over from the other.
    pub rotation: &'static str,
}

impl Descriptor {
    /// A descriptor with every text empty; an author fills it in with struct update outside this
    /// crate's `non_exhaustive` wall by assigning the fields.
    pub const fn new(kind: &'static str, title: &'static str) -> Self {
        Self {
            kind,
            title,
            schemes: &[],
            capabilities: Capabilities::none(),
            proof: "",
            restart: "",
            identity: "",
            admin_rights: &[],
            reserved: &[],
            limits: "",
            keeps: "",
            mark: "",
            rotation: "two logins in turn, `LOGIN` and `LOGIN__b`, with the same rights; the one whose turn is over is \
                       switched off",
        }
    }
}

/// A URL scheme of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Scheme {
    /// The word before `://`.
    pub name: &'static str,
    /// Whether the connection is encrypted and the server's certificate verified.
    pub encrypted: bool,
    /// The port when the URL names none.
    pub default_port: u16,
    /// It names a file or a program on this machine, `scheme:path`, and no server.
    pub file: bool,
}

impl Scheme {
    /// How an address with it begins: `redis://`, `file:`.
    pub fn written(&self) -> String {
        let slashes = if self.file { "" } else { "//" };
        format!("{}:{slashes}", self.name)
    }
    /// A plain connection.
    pub const fn plain(name: &'static str, default_port: u16) -> Self {
        Self {
            name,
            encrypted: false,
            default_port,
            file: false,
        }
    }
    /// An encrypted connection to a server whose certificate is verified.
    pub const fn tls(name: &'static str, default_port: u16) -> Self {
        Self {
            encrypted: true,
            ..Self::plain(name, default_port)
        }
    }
    /// A file or a program on this machine.
    pub const fn file(name: &'static str) -> Self {
        Self {
            file: true,
            ..Self::plain(name, 0)
        }
    }
}

/// Where an app finds what its login is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// `scheme://host:port`, as the apps' clients write it.
    pub address: String,
    /// What follows behind a slash: a database, a vhost; may be empty. Not encoded.
    pub path: String,
}

/// One server as the manifest names it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ProviderSettings {
    /// The provider's name.
    pub provider: ProviderName,
    /// The URL's scheme.
    pub scheme: String,
    /// Host name or address, without brackets; empty for a file on this machine.
    pub host: String,
    /// Port; 0 for a file on this machine.
    pub port: u16,
    /// The URL's path without its first slash: a database name, or empty. Of a file on this machine
    /// ([`Scheme::file`]), the whole path.
    pub path: String,
    /// The admin login; `None` for a server that wants none.
    pub admin: Option<Admin>,
    /// How the server's certificate is verified.
    pub tls: Tls,
    /// What stands in the provider's `options` table: this kind's own settings. Its `check_provider` has
    /// seen them; see [`ProviderSettings::options`].
    pub options: serde_json::Map<String, serde_json::Value>,
}

impl ProviderSettings {
    /// Settings of a server without admin login and with default TLS.
    pub fn new(provider: ProviderName, scheme: &str, host: &str, port: u16) -> Self {
        Self {
            provider,
            scheme: scheme.to_owned(),
            host: host.to_owned(),
            port,
            path: String::new(),
            admin: None,
            tls: Tls::default(),
            options: serde_json::Map::new(),
        }
    }
    /// Settings of a file or program on this machine.
    pub fn of_file(provider: ProviderName, scheme: &str, path: &str) -> Self {
        Self {
            path: path.to_owned(),
            ..Self::new(provider, scheme, "", 0)
        }
    }
    /// The `options` table, typed. The error names what does not fit.
    pub fn typed_options<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        let table = serde_json::Value::Object(self.options.clone());
        serde_json::from_value(table).map_err(|error| Refusal::new("options", error.to_string()))
    }
    /// `scheme://host:port`, or `scheme:path` for what lies on this machine; for people, never a password.
    pub fn address(&self) -> String {
        if self.host.is_empty() {
            format!("{}:{}", self.scheme, self.path)
        } else if self.host.contains(':') {
            format!("{}://[{}]:{}", self.scheme, self.host, self.port)
        } else {
            format!("{}://{}:{}", self.scheme, self.host, self.port)
        }
    }
    /// Whether the host is this machine, so that a plain connection leaves it by no wire.
    pub fn is_loopback(&self) -> bool {
        self.host.is_empty()
            || self.host == "localhost"
            || self
                .host
                .parse::<std::net::IpAddr>()
                .is_ok_and(|ip| ip.is_loopback())
    }
}

/// An admin login.
#[derive(Debug, Clone)]
pub struct Admin {
    /// Its name.
    pub user: String,
    /// Its password, if it has one.
    pub password: Option<Secret>,
}

/// How a server's certificate is verified, and what we show of ourselves.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Tls {
    /// PEM of the authorities to trust; none means the system's.
    pub ca_pem: Option<Vec<u8>>,
    /// PEM of our certificate and key, where the server wants one.
    pub client_pem: Option<(Vec<u8>, Secret)>,
    /// Do not verify. A standing condition says so (S-5).
    pub dangerously_unverified: bool,
    /// A plain connection to a host that is not loopback was allowed in so many words.
    pub dangerously_plain: bool,
}

/// Why a wish or a provider's settings were turned down before anything was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: {rule}")]
pub struct Refusal {
    /// The field, as the manifest names it: `login`, `password`, `keys`.
    pub field: String,
    /// The rule that it breaks, and what to do; never the secret.
    pub rule: String,
}

impl Refusal {
    /// Names field and rule.
    pub fn new(field: &str, rule: impl Into<String>) -> Self {
        Self {
            field: field.to_owned(),
            rule: rule.into(),
        }
    }
}

/// Whose marked login a list entry is, if it is one of ours.
pub fn owner_of(listed: &Listed) -> Option<&ConsumerName> {
    match &listed.mark {
        MarkSeen::OursFor(consumer) => Some(consumer),
        _ => None,
    }
}
