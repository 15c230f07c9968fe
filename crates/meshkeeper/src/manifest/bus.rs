//! `bus` in `[mesh]`: the embedded store, or NATS servers and how they are spoken to.

use std::path::{Path, PathBuf};

use mesh_sdk::Secret;
use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::de::DeValue;

use super::addresses::Addresses;
use super::auth;
use super::fields::{Fields, Item, wrong_type};
use super::provider::TlsSource;
use super::secrets::{SecretRef, SecretSource, SecretTrouble};
use super::url;
use crate::errors::Problem;

const KEYS: &[&str] = &[
    "url",
    "urls",
    "user",
    "password",
    "weak",
    "creds",
    "nkey",
    "tls",
    "inbox",
    "dangerously_plain",
];
const WANTED: &str =
    "\"embedded\", an address such as \"nats://127.0.0.1:4222\", or a table with `urls`";
const PORT: u16 = 4222;

/// Where the mesh keeps its shared state.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BusChoice {
    /// One file in the data folder.
    Embedded,
    /// NATS servers with JetStream.
    Nats(Box<NatsBus>),
}

/// NATS servers, and how they are spoken to. It holds places of secrets and no secret, so a data folder
/// may keep it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NatsBus {
    /// The servers of one cluster.
    pub servers: Vec<BusServer>,
    /// How we log in.
    pub login: BusLogin,
    /// How the servers are verified.
    pub tls: TlsSource,
    /// A plain connection to a host that is not this machine was allowed in so many words.
    pub dangerously_plain: bool,
    /// The prefix of the subjects on which answers come; none means that of the role.
    pub inbox: Option<String>,
}

/// One of the servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BusServer {
    /// A name or an address, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// With TLS.
    pub tls: bool,
}

/// How we log in, with the place of the secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BusLogin {
    /// The servers ask for nothing.
    Open,
    /// By user and password.
    Password {
        /// The user.
        user: String,
        /// Where the password is.
        password: SecretRef,
        /// It may be shorter than 8 bytes, and is then not hidden in messages (S-2).
        weak: bool,
    },
    /// By a credentials file: a JWT and the seed that signs for it.
    Creds(SecretRef),
    /// By an NKey's seed.
    Nkey(SecretRef),
}

/// What the places held.
pub struct BusSecrets {
    /// The password, the credentials file's text or the seed.
    pub login: Option<Secret>,
    /// PEM of the authorities to trust.
    pub ca_pem: Option<Vec<u8>>,
    /// PEM of our certificate and its key.
    pub client_pem: Option<(Vec<u8>, Secret)>,
}

impl NatsBus {
    /// The servers, for people.
    pub fn shown(&self) -> String {
        let shown: Vec<String> = self.servers.iter().map(BusServer::shown).collect();
        shown.join(", ")
    }
    /// Reads everything that it names. Every trouble is told (S-4).
    pub fn resolve(&self, source: &dyn SecretSource) -> Result<BusSecrets, Vec<SecretTrouble>> {
        let mut troubles = Vec::new();
        let mut keep =
            |read: Result<Secret, SecretTrouble>| read.map_err(|t| troubles.push(t)).ok();
        let login = match &self.login {
            BusLogin::Open => None,
            BusLogin::Password { password, weak, .. } => keep(password.password(source, *weak)),
            BusLogin::Creds(place) | BusLogin::Nkey(place) => keep(place.whole(source)),
        };
        let mut whole = |path: &Path| keep(SecretRef::File(path.to_owned()).whole(source));
        let ca = self.tls.ca.as_deref().and_then(&mut whole);
        let client = self.tls.client.as_ref();
        let client =
            client.and_then(|(cert, key)| Some((whole(cert)?.expose().to_vec(), whole(key)?)));
        if !troubles.is_empty() {
            return Err(troubles);
        }
        Ok(BusSecrets {
            login,
            ca_pem: ca.map(|pem| pem.expose().to_vec()),
            client_pem: client,
        })
    }
    /// The same with whole paths, for who keeps it and reads it from another folder.
    #[must_use]
    pub fn absolute(&self) -> Self {
        let path = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let place = |place: &SecretRef| match place {
            SecretRef::File(file) => SecretRef::File(path(file)),
            SecretRef::Env(name) => SecretRef::Env(name.clone()),
        };
        let login = match &self.login {
            BusLogin::Open => BusLogin::Open,
            BusLogin::Password {
                user,
                password,
                weak,
            } => BusLogin::Password {
                user: user.clone(),
                password: place(password),
                weak: *weak,
            },
            BusLogin::Creds(at) => BusLogin::Creds(place(at)),
            BusLogin::Nkey(at) => BusLogin::Nkey(place(at)),
        };
        let client = self.tls.client.as_ref();
        let tls = TlsSource {
            ca: self.tls.ca.as_ref().map(path),
            client: client.map(|(cert, key)| (path(cert), path(key))),
            ..self.tls.clone()
        };
        Self {
            login,
            tls,
            ..self.clone()
        }
    }
}

impl BusServer {
    fn is_loopback(&self) -> bool {
        let address = self.host.parse::<std::net::IpAddr>();
        self.host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
    fn shown(&self) -> String {
        let scheme = if self.tls { "tls" } else { "nats" };
        match self.host.contains(':') {
            true => format!("{scheme}://[{}]:{}", self.host, self.port),
            false => format!("{scheme}://{}:{}", self.host, self.port),
        }
    }
}

/// Reads `bus`. With a mistake in it the answer is the embedded store, and the mistake spoils the whole.
pub(super) fn read(base: &Path, mesh: &Fields<'_, '_>, problems: &mut Vec<Problem>) -> BusChoice {
    let Some(item) = mesh.item("bus") else {
        return BusChoice::Embedded;
    };
    match item.get_ref() {
        DeValue::String(text) if text == "embedded" => BusChoice::Embedded,
        DeValue::String(text) => plain(&Spanned::new(item.span(), text.as_ref()), problems),
        DeValue::Table(_) => table(base, item, problems),
        _ => {
            problems.push(wrong_type("bus", item, WANTED));
            BusChoice::Embedded
        }
    }
}

fn plain(text: &Spanned<&str>, problems: &mut Vec<Problem>) -> BusChoice {
    if !text.get_ref().contains("://") {
        let problem = Problem::error(text.span(), "unknown `bus`");
        problems.push(problem.meant(format!("expected {WANTED}")));
        return BusChoice::Embedded;
    }
    let servers = server(text, false, problems).into_iter().collect();
    BusChoice::Nats(Box::new(NatsBus {
        servers,
        login: BusLogin::Open,
        tls: TlsSource::default(),
        dangerously_plain: false,
        inbox: None,
    }))
}

fn table(base: &Path, item: &Item<'_>, problems: &mut Vec<Problem>) -> BusChoice {
    let Some(fields) = Fields::of("bus", item, WANTED, problems) else {
        return BusChoice::Embedded;
    };
    fields.refuse_unknown("`bus`", KEYS, problems);
    let dangerously_plain = fields.flag("dangerously_plain", false, problems);
    let tls = auth::tls(base, &fields, problems);
    if tls.dangerously_unverified {
        let problem = Problem::error(
            fields.span_of("tls"),
            "the servers of a bus are always verified",
        );
        problems.push(
            problem.help("give the authority that signed for them: tls = { ca = \"ca.pem\" }"),
        );
    }
    let urls = urls(&fields, problems);
    let servers: Vec<BusServer> = urls
        .iter()
        .filter_map(|url| server(url, dangerously_plain, problems))
        .collect();
    if tls != TlsSource::default() && !servers.is_empty() && servers.iter().all(|s| !s.tls) {
        let problem = Problem::error(
            fields.span_of("tls"),
            "`tls` is given, but `nats` is not encrypted",
        );
        problems.push(problem.meant("use tls://"));
    }
    BusChoice::Nats(Box::new(NatsBus {
        login: login(base, &fields, problems),
        inbox: inbox(&fields, problems),
        servers,
        tls,
        dangerously_plain,
    }))
}

fn urls<'t>(fields: &Fields<'t, '_>, problems: &mut Vec<Problem>) -> Vec<Spanned<&'t str>> {
    let addresses = Addresses {
        wanted: "an address in quotes, such as \"tls://nats.example:4222\"",
        both: "`urls = [ … ]` names every server of the cluster",
        missing: "`urls` is missing in `bus`",
        say: "say where the servers are: urls = [\"tls://host:4222\"]",
    };
    addresses.read(fields, problems)
}

/// The address of a server of a bus, as the manifest reads it, where there is no manifest. Errors: what is
/// wrong with it.
pub fn bus_server(text: &str, dangerously_plain: bool) -> Result<BusServer, String> {
    let mut problems = Vec::new();
    let read = server(
        &Spanned::new(0..text.len(), text),
        dangerously_plain,
        &mut problems,
    );
    read.ok_or_else(|| {
        let problem = problems.into_iter().next();
        problem.map_or_else(String::new, |problem| match problem.meant {
            Some(meant) => format!("{}: {meant}", problem.message),
            None => problem.message,
        })
    })
}

fn server(
    text: &Spanned<&str>,
    dangerously_plain: bool,
    problems: &mut Vec<Problem>,
) -> Option<BusServer> {
    let mut refuse = |problem: Problem| {
        problems.push(problem);
        None
    };
    if text.get_ref().contains('@') {
        let problem = Problem::error(text.span(), "no login or password in an address");
        return refuse(problem.help(
            "give them in the table: bus = { urls = [ … ], user = …, password = { file = … } }, or with `creds` or `nkey`",
        ));
    }
    let url = match url::parse(text.get_ref()) {
        Ok(url) => url,
        Err(rule) => {
            let problem = Problem::error(text.span(), "this is not the address of a server");
            return refuse(problem.meant(rule));
        }
    };
    let tls = match url.scheme.as_str() {
        "nats" => false,
        "tls" => true,
        _ => {
            let problem = Problem::error(text.span(), "a bus is spoken to with `nats` or `tls`");
            return refuse(problem.meant("expected nats://… or tls://…"));
        }
    };
    if !url.path.is_empty() {
        let problem = Problem::error(text.span(), "the address of a bus ends with its port");
        return refuse(problem);
    }
    let server = BusServer {
        host: url.host,
        port: url.port.unwrap_or(PORT),
        tls,
    };
    if !tls && !server.is_loopback() && !dangerously_plain {
        let problem = Problem::error(
            text.span(),
            "`nats` would send the login and all that is shared in plain over the network",
        );
        return refuse(problem.meant("use tls://").help(
            "if this network is safe all the same, say so: bus = { urls = [ … ], dangerously_plain = true }",
        ));
    }
    Some(server)
}

fn login(base: &Path, fields: &Fields<'_, '_>, problems: &mut Vec<Problem>) -> BusLogin {
    let ways = ["user", "creds", "nkey"];
    let given: Vec<&str> = ways
        .into_iter()
        .filter(|key| fields.item(key).is_some())
        .collect();
    if let [_, second, ..] = given.as_slice() {
        let problem = Problem::error(fields.span_of(second), "there are two ways to log in");
        problems.push(problem.meant("one of `user`, `creds` and `nkey`"));
        return BusLogin::Open;
    }
    let password = auth::password(base, fields, problems);
    let weak = auth::weak(fields, password.is_some(), problems);
    match given.first() {
        Some(&"user") => {
            let user = fields.text("user", "a login in quotes", problems);
            match (user, password) {
                (Some(user), Some(password)) => {
                    let user = (*user.get_ref()).to_owned();
                    return BusLogin::Password {
                        user,
                        password,
                        weak,
                    };
                }
                (Some(user), None) if fields.item("password").is_none() => {
                    let problem = Problem::error(user.span(), "`user` has no `password`");
                    problems.push(problem.help("name its place: password = { file = \"…\" }"));
                }
                _ => {}
            }
            BusLogin::Open
        }
        Some(&"creds") => {
            let place = auth::place(base, fields, "creds", problems);
            place.map_or(BusLogin::Open, BusLogin::Creds)
        }
        Some(_) => {
            let place = auth::place(base, fields, "nkey", problems);
            place.map_or(BusLogin::Open, BusLogin::Nkey)
        }
        None => {
            if fields.item("password").is_some() {
                let problem =
                    Problem::error(fields.span_of("password"), "`password` has no `user`");
                problems.push(problem.help("say whose it is: user = \"…\""));
            }
            BusLogin::Open
        }
    }
}

fn inbox(fields: &Fields<'_, '_>, problems: &mut Vec<Problem>) -> Option<String> {
    let text = fields.text("inbox", "the prefix of a subject, in quotes", problems)?;
    if !is_subject(text.get_ref()) {
        let problem = Problem::error(text.span(), "`inbox` is the beginning of a subject");
        problems.push(problem.meant("letters, digits, `_` and `-`, with dots between"));
        return None;
    }
    Some((*text.get_ref()).to_owned())
}

/// Whether a text can stand at the beginning of a subject.
pub fn is_subject(text: &str) -> bool {
    let may = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    let token = |t: &str| !t.is_empty() && t.bytes().all(may);
    text.split('.').all(token)
}
