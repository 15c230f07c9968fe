//! One `[provider.NAME]` table: where a server is, how it is spoken to, and how often.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mesh_sdk::adapter::{Admin, ProviderSettings, Refusal, Scheme, Tls};
use mesh_sdk::{ProviderName, Secret};
use toml::Spanned;
use toml::de::DeValue;

use super::fields::{Fields, Item, Key, quoted, wrong_type};
use super::kinds::{KindInfo, Kinds};
use super::nearest::nearest;
use super::secrets::{SecretRef, SecretSource, SecretTrouble};
use super::units::Length;
use super::url;
use crate::errors::Problem;

const KEYS: &[&str] = &[
    "kind",
    "url",
    "urls",
    "admin",
    "tls",
    "verify_every",
    "list_every",
    "ask_timeout",
    "apply_timeout",
    "unknown_after",
    "remove_after",
    "grace",
    "block_budget",
    "max_removals",
    "canary",
    "dangerously_plain",
];

const fn length(
    key: &'static str,
    default: Duration,
    min: Duration,
    max: Duration,
    meaning: &'static str,
) -> Length {
    Length {
        key,
        default,
        min,
        max,
        meaning,
    }
}

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}
const DAY: u64 = 86_400;

/// Every key of a provider that holds a length of time.
pub const LENGTHS: [Length; 8] = [
    length(
        "verify_every",
        secs(60),
        secs(1),
        secs(DAY),
        "how often each consumer is asked for",
    ),
    length(
        "list_every",
        secs(600),
        secs(1),
        secs(7 * DAY),
        "how often the server is asked for logins that nobody wants any more",
    ),
    length(
        "ask_timeout",
        secs(30),
        ms(100),
        secs(600),
        "after which a question without an answer is cut off",
    ),
    length(
        "apply_timeout",
        secs(30),
        ms(100),
        secs(600),
        "after which a write without an answer is cut off",
    ),
    length(
        "unknown_after",
        secs(300),
        secs(1),
        secs(7 * DAY),
        "how long a server may be silent before that is a condition",
    ),
    length(
        "remove_after",
        secs(600),
        secs(1),
        secs(30 * DAY),
        "how long a login that nobody wants is only shown as leaving",
    ),
    length(
        "grace",
        secs(DAY),
        secs(1),
        secs(365 * DAY),
        "how long such a login then stays switched off before it is dropped",
    ),
    length(
        "block_budget",
        ms(50),
        ms(1),
        secs(5),
        "how long one command of ours may keep the server from others",
    ),
];

/// How often and how long, for one provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How often each consumer is asked for (H-4).
    pub verify_every: Duration,
    /// How often the server is asked for what nobody wants.
    pub list_every: Duration,
    /// After which a question is cut off (H-9).
    pub ask_timeout: Duration,
    /// After which a write is cut off (H-9).
    pub apply_timeout: Duration,
    /// How long the server may be silent before that is a condition (H-7).
    pub unknown_after: Duration,
    /// How long an orphan is only shown as leaving.
    pub remove_after: Duration,
    /// How long it then stays switched off before it is dropped.
    pub grace: Duration,
    /// How long one command may block the server (H-16).
    pub block_budget: Duration,
}

impl Timing {
    fn from_lengths(lengths: [Duration; 8]) -> Self {
        let [
            verify_every,
            list_every,
            ask_timeout,
            apply_timeout,
            unknown_after,
            remove_after,
            grace,
            block_budget,
        ] = lengths;
        Self {
            verify_every,
            list_every,
            ask_timeout,
            apply_timeout,
            unknown_after,
            remove_after,
            grace,
            block_budget,
        }
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self::from_lengths(LENGTHS.map(|length| length.default))
    }
}

/// One server of a provider.
#[derive(Debug, Clone)]
pub struct Node {
    /// `host:port`: the same as long as the manifest says the same.
    pub name: String,
    /// Where it is. Admin password and certificates are not read yet: see [`Provider::resolve`].
    pub settings: ProviderSettings,
}

/// The admin login, with the place of its password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminSource {
    /// Its name.
    pub user: String,
    /// Where its password is, if it has one.
    pub password: Option<SecretRef>,
    /// It may be shorter than 8 bytes, and is then not hidden in messages (S-2).
    pub weak: bool,
}

/// How the server is verified, with the places of the files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsSource {
    /// PEM of the authorities to trust; none means the system's.
    pub ca: Option<PathBuf>,
    /// PEM of our certificate and of its key.
    pub client: Option<(PathBuf, PathBuf)>,
    /// Do not verify (S-5).
    pub dangerously_unverified: bool,
}

/// One provider.
#[derive(Clone)]
pub struct Provider {
    /// Its name.
    pub name: ProviderName,
    /// Its kind.
    pub kind: Arc<KindInfo>,
    /// Its servers: one, or several that do not share logins (H-21).
    pub nodes: Vec<Node>,
    /// The admin login, where there is one.
    pub admin: Option<AdminSource>,
    /// How the server is verified.
    pub tls: TlsSource,
    /// A plain connection to a host that is not this machine was allowed in so many words.
    pub dangerously_plain: bool,
    /// How often and how long.
    pub timing: Timing,
    /// How many removals in an hour need nobody's word.
    pub max_removals: u32,
    /// Whether a canary is kept; without it nothing is removed.
    pub canary: bool,
    /// The line of the table, counted from 1.
    pub line: usize,
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
        write!(
            f,
            "Provider({} {:?}, {nodes:?}, line {})",
            self.name, self.kind, self.line
        )
    }
}

impl Provider {
    /// The files that its table names.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = self.tls.ca.iter().cloned().collect();
        if let Some((cert, key)) = &self.tls.client {
            files.extend([cert.clone(), key.clone()]);
        }
        if let Some(AdminSource {
            password: Some(SecretRef::File(path)),
            ..
        }) = &self.admin
        {
            files.push(path.clone());
        }
        files
    }
    /// Each server's settings with admin password and certificates read. Every trouble is told; with one
    /// of them there are no settings, never settings without a password (S-4).
    pub fn resolve(
        &self,
        source: &dyn SecretSource,
    ) -> Result<Vec<ProviderSettings>, Vec<SecretTrouble>> {
        let mut troubles = Vec::new();
        let mut keep =
            |read: Result<Secret, SecretTrouble>| read.map_err(|t| troubles.push(t)).ok();
        let admin = self.admin.as_ref().map(|admin| Admin {
            user: admin.user.clone(),
            password: admin
                .password
                .as_ref()
                .and_then(|place| keep(place.password(source, admin.weak))),
        });
        let mut whole = |path: &Path| keep(SecretRef::File(path.to_owned()).whole(source));
        let ca = self.tls.ca.as_deref().and_then(&mut whole);
        let client = self
            .tls
            .client
            .as_ref()
            .and_then(|(cert, key)| Some((whole(cert)?.expose().to_vec(), whole(key)?)));
        if !troubles.is_empty() {
            return Err(troubles);
        }
        let filled = self.nodes.iter().map(|node| {
            let mut settings = node.settings.clone();
            settings.admin = admin.clone();
            settings.tls.ca_pem = ca.as_ref().map(|pem| pem.expose().to_vec());
            settings.tls.client_pem = client.clone();
            settings
        });
        Ok(filled.collect())
    }
}

/// What reading one provider needs to know.
pub(crate) struct Context<'c> {
    pub(crate) kinds: &'c Kinds,
    /// The folder that relative paths start from.
    pub(crate) base: &'c Path,
    /// The line of a byte.
    pub(crate) line: &'c dyn Fn(usize) -> usize,
}

/// Reads one table. `None` if there was any mistake in it.
pub(crate) fn read(
    cx: &Context<'_>,
    key: &Key<'_>,
    item: &Item<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Provider> {
    let before = problems.len();
    let within = format!("[provider.{}]", key.get_ref());
    let name = ProviderName::new(key.get_ref())
        .map_err(|error| problems.push(Problem::error(key.span(), error.to_string())))
        .ok();
    let fields = Fields::of(key.get_ref(), item, "a table", problems)?;
    fields.refuse_unknown(&within, KEYS, problems);
    let kind = kind(cx, &fields, &within, problems);
    let admin = admin(cx, &fields, problems);
    let tls = tls(cx, &fields, problems);
    let timing = timing(&fields, problems);
    let max_removals = max_removals(&fields, problems);
    let canary = fields.flag("canary", true, problems);
    let dangerously_plain = fields.flag("dangerously_plain", false, problems);
    let urls = urls(&fields, &within, problems);
    let (name, kind) = (name?, kind?);
    let draft = Draft {
        name: &name,
        kind: &kind,
        admin: &admin,
        tls: &tls,
        plain: dangerously_plain,
    };
    let nodes = draft.nodes(&fields, &urls, problems);
    (problems.len() == before).then(|| Provider {
        name: name.clone(),
        kind: Arc::clone(&kind),
        nodes,
        admin,
        tls,
        dangerously_plain,
        timing,
        max_removals,
        canary,
        line: (cx.line)(key.span().start),
    })
}

fn kind(
    cx: &Context<'_>,
    fields: &Fields<'_, '_>,
    within: &str,
    problems: &mut Vec<Problem>,
) -> Option<Arc<KindInfo>> {
    let known = || cx.kinds.words().collect::<Vec<_>>().join(", ");
    if fields.item("kind").is_none() {
        let problem = Problem::error(
            fields.span.clone(),
            format!("`kind` is missing in {within}"),
        );
        problems.push(problem.help(format!("kinds: {}", known())));
        return None;
    }
    let word = fields.text("kind", "the name of a kind, in quotes", problems)?;
    if let Some(kind) = cx.kinds.get(word.get_ref()) {
        return Some(Arc::clone(kind));
    }
    let problem = Problem::error(
        word.span(),
        format!("unknown kind {}", quoted(word.get_ref())),
    );
    problems.push(match nearest(word.get_ref(), cx.kinds.words()) {
        Some(near) => problem.meant(format!("did you mean \"{near}\"?")),
        None => problem.help(format!("kinds: {}; `mesh adapters` tells more", known())),
    });
    None
}

fn urls<'t>(
    fields: &Fields<'t, '_>,
    within: &str,
    problems: &mut Vec<Problem>,
) -> Vec<Spanned<&'t str>> {
    const WANTED: &str = "an address in quotes, such as \"redis://127.0.0.1:6379\"";
    match (fields.item("url"), fields.item("urls")) {
        (Some(_), Some(many)) => {
            let problem = Problem::error(many.span(), "both `url` and `urls` are given");
            problems.push(problem.help(
                "`url` is for one server, `urls = [ … ]` for several that do not share logins",
            ));
            Vec::new()
        }
        (None, None) => {
            let problem =
                Problem::error(fields.span.clone(), format!("`url` is missing in {within}"));
            problems.push(problem.help("say where the server is: url = \"scheme://host:port\""));
            Vec::new()
        }
        (Some(_), None) => fields.text("url", WANTED, problems).into_iter().collect(),
        (None, Some(item)) => {
            let DeValue::Array(list) = item.get_ref() else {
                problems.push(wrong_type("urls", item, "a list of addresses in quotes"));
                return Vec::new();
            };
            if list.is_empty() {
                problems.push(Problem::error(item.span(), "`urls` names no server"));
            }
            let texts = list.iter().filter_map(|entry| match entry.get_ref() {
                DeValue::String(text) => Some(Spanned::new(entry.span(), text.as_ref())),
                _ => {
                    problems.push(wrong_type("urls", entry, WANTED));
                    None
                }
            });
            texts.collect()
        }
    }
}

/// What is known of a provider before its servers are.
struct Draft<'d> {
    name: &'d ProviderName,
    kind: &'d KindInfo,
    admin: &'d Option<AdminSource>,
    tls: &'d TlsSource,
    plain: bool,
}

impl Draft<'_> {
    fn nodes(
        &self,
        fields: &Fields<'_, '_>,
        urls: &[Spanned<&str>],
        problems: &mut Vec<Problem>,
    ) -> Vec<Node> {
        let mut nodes: Vec<(Node, Range<usize>)> = Vec::new();
        for url in urls {
            let Some(settings) = self.settings(url, problems) else {
                continue;
            };
            let name = match settings.host.contains(':') {
                true => format!("[{}]:{}", settings.host, settings.port),
                false => format!("{}:{}", settings.host, settings.port),
            };
            if let Some((_, first)) = nodes.iter().find(|(node, _)| node.name == name) {
                let problem = Problem::error(url.span(), format!("{name} is named twice"));
                problems.push(problem.also(first.clone(), "first here"));
                continue;
            }
            if let Err(Refusal { field, rule }) = self.kind.kind.check_provider(&settings) {
                let span = match field.as_str() {
                    "url" | "urls" | "scheme" | "host" | "port" | "path" => url.span(),
                    other => fields.span_of(other.split('.').next().unwrap_or(other)),
                };
                problems.push(Problem::error(span, format!("`{field}`: {rule}")));
            }
            nodes.push((Node { name, settings }, url.span()));
        }
        nodes.into_iter().map(|(node, _)| node).collect()
    }

    fn settings(
        &self,
        text: &Spanned<&str>,
        problems: &mut Vec<Problem>,
    ) -> Option<ProviderSettings> {
        let mut refuse = |problem: Problem| problems.push(problem);
        let url = url::parse(text.get_ref())
            .map_err(|rule| {
                refuse(
                    Problem::error(text.span(), "this is not the address of a server").meant(rule),
                )
            })
            .ok()?;
        let schemes = self.kind.descriptor.schemes;
        let Some(scheme) = schemes.iter().find(|scheme| scheme.name == url.scheme) else {
            refuse(self.wrong_scheme(text.span(), &url.scheme));
            return None;
        };
        let port = url.port.unwrap_or(scheme.default_port);
        let mut settings = ProviderSettings::new(self.name.clone(), scheme.name, &url.host, port);
        settings.path = url.path;
        // The real password is read when the provider is opened; here it only matters that there is one.
        settings.admin = self.admin.as_ref().map(|admin| Admin {
            user: admin.user.clone(),
            password: admin.password.as_ref().map(|_| placeholder()),
        });
        settings.tls = Tls::default();
        settings.tls.dangerously_unverified = self.tls.dangerously_unverified;
        settings.tls.dangerously_plain = self.plain;
        if !scheme.encrypted {
            if self.tls != &TlsSource::default() {
                let problem = Problem::error(
                    text.span(),
                    format!("`tls` is given, but `{}` is not encrypted", scheme.name),
                );
                refuse(self.point_to_tls(problem, schemes));
            }
            if !settings.is_loopback() && !self.plain {
                let problem = Problem::error(
                    text.span(),
                    format!(
                        "`{}` would send passwords in plain over the network",
                        scheme.name
                    ),
                );
                refuse(self.point_to_tls(problem, schemes).help(
                    "if this network is safe all the same, say so: dangerously_plain = true",
                ));
            }
        }
        Some(settings)
    }

    fn point_to_tls(&self, problem: Problem, schemes: &[Scheme]) -> Problem {
        match schemes.iter().find(|scheme| scheme.encrypted) {
            Some(tls) => problem.meant(format!("use {}://", tls.name)),
            None => problem.meant("this kind knows no encrypted scheme"),
        }
    }

    fn wrong_scheme(&self, span: Range<usize>, scheme: &str) -> Problem {
        let kind = self.kind.descriptor.kind;
        let names: Vec<String> = self
            .kind
            .descriptor
            .schemes
            .iter()
            .map(|scheme| format!("{}://", scheme.name))
            .collect();
        let message = format!("kind \"{kind}\" is not spoken to with {}", quoted(scheme));
        Problem::error(span, message).meant(format!("expected {}", names.join(" or ")))
    }
}

/// Stands for a password that is not read or not made yet, where only its form matters.
pub(crate) fn placeholder() -> Secret {
    Secret::from("0123456789abcdefghijklmnopqrstuv")
}

fn admin(
    cx: &Context<'_>,
    fields: &Fields<'_, '_>,
    problems: &mut Vec<Problem>,
) -> Option<AdminSource> {
    let item = fields.item("admin")?;
    let wanted = "a table: { user = …, password = { env = … } or { file = … } }";
    let inner = Fields::of("admin", item, wanted, problems)?;
    inner.refuse_unknown("`admin`", &["user", "password", "weak"], problems);
    let password = password(cx.base, &inner, problems);
    let weak = weak(&inner, password.is_some(), problems);
    let user = match inner.item("user") {
        Some(_) => inner.text("user", "a login in quotes", problems)?,
        None => {
            problems.push(Problem::error(
                inner.span.clone(),
                "`admin` names no `user`",
            ));
            return None;
        }
    };
    if user.get_ref().is_empty() || user.get_ref().contains('\0') {
        problems.push(Problem::error(
            user.span(),
            "the admin's login must not be empty or hold a NUL",
        ));
    }
    Some(AdminSource {
        user: (*user.get_ref()).to_owned(),
        password,
        weak,
    })
}

/// Reads `weak`, which only speaks of a given password.
pub(crate) fn weak(fields: &Fields<'_, '_>, given: bool, problems: &mut Vec<Problem>) -> bool {
    let weak = fields.flag("weak", false, problems);
    if weak && !given && fields.item("password").is_none() {
        let problem = Problem::error(
            fields.span_of("weak"),
            "`weak` speaks of a given password, and none is given",
        );
        problems.push(problem.help("leave it out, or give `password = { file = … }`"));
    }
    weak
}

/// Reads `password = { env | file }`. A literal is refused and not repeated.
pub(crate) fn password(
    base: &Path,
    fields: &Fields<'_, '_>,
    problems: &mut Vec<Problem>,
) -> Option<SecretRef> {
    const HELP: &str = "name its place: password = { file = \"…\" } or { env = \"NAME\" }";
    let item = fields.item("password")?;
    let DeValue::Table(table) = item.get_ref() else {
        let problem = Problem::error(item.span(), "a password does not stand in the manifest");
        problems.push(problem.help(HELP));
        return None;
    };
    let inner = Fields {
        table,
        span: item.span(),
    };
    if let Some(key) = table
        .keys()
        .find(|key| !["env", "file"].contains(&key.get_ref().as_ref()))
    {
        problems.push(
            Problem::error(
                key.span(),
                "`password` takes `env` or `file`, and nothing else",
            )
            .help(HELP),
        );
        return None;
    }
    match (inner.item("env"), inner.item("file")) {
        (Some(_), None) => env(&inner, problems),
        (None, Some(_)) => path(base, &inner, "file", problems).map(SecretRef::File),
        _ => {
            problems.push(
                Problem::error(item.span(), "`password` takes one of `env` and `file`").help(HELP),
            );
            None
        }
    }
}

/// A variable's name. What is no such name is not repeated: it may be the password itself.
fn env(fields: &Fields<'_, '_>, problems: &mut Vec<Problem>) -> Option<SecretRef> {
    let text = fields.text("env", "the name of a variable, in quotes", problems)?;
    let name = text.get_ref();
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if name.is_empty() || !plain || name.starts_with(|c: char| c.is_ascii_digit()) {
        let problem = Problem::error(text.span(), "`env` takes the name of a variable");
        problems.push(problem.meant("letters, digits and `_`, and no digit first"));
        return None;
    }
    Some(SecretRef::Env((*name).to_owned()))
}

/// A path, taken from the manifest's folder.
fn path(
    base: &Path,
    fields: &Fields<'_, '_>,
    key: &str,
    problems: &mut Vec<Problem>,
) -> Option<PathBuf> {
    let text = fields.text(key, "a path in quotes", problems)?;
    if text.get_ref().is_empty() || text.get_ref().contains('\0') {
        problems.push(Problem::error(text.span(), format!("`{key}` is no path")));
        return None;
    }
    Some(base.join(text.get_ref()))
}

fn tls(cx: &Context<'_>, fields: &Fields<'_, '_>, problems: &mut Vec<Problem>) -> TlsSource {
    let wanted = "a table: { ca = \"ca.pem\" }";
    let Some(inner) = fields
        .item("tls")
        .and_then(|item| Fields::of("tls", item, wanted, problems))
    else {
        return TlsSource::default();
    };
    let known = ["ca", "client_cert", "client_key", "dangerously_unverified"];
    inner.refuse_unknown("`tls`", &known, problems);
    let ca = path(cx.base, &inner, "ca", problems);
    let cert = path(cx.base, &inner, "client_cert", problems);
    let key = path(cx.base, &inner, "client_key", problems);
    let dangerously_unverified = inner.flag("dangerously_unverified", false, problems);
    if inner.item("client_cert").is_some() != inner.item("client_key").is_some() {
        let message = "`client_cert` and `client_key` go together, and one is missing";
        problems.push(Problem::error(inner.span.clone(), message));
    }
    if dangerously_unverified && ca.is_some() {
        let message =
            "`ca` says how to verify the server, and `dangerously_unverified` says not to";
        problems.push(
            Problem::error(inner.span_of("dangerously_unverified"), message)
                .help("drop one of the two"),
        );
    }
    TlsSource {
        ca,
        client: cert.zip(key),
        dangerously_unverified,
    }
}

fn timing(fields: &Fields<'_, '_>, problems: &mut Vec<Problem>) -> Timing {
    Timing::from_lengths(LENGTHS.map(|length| {
        let key = length.key;
        let wanted = "a length of time in quotes, such as \"60s\" or \"5 min\"";
        let Some(text) = fields.text(key, wanted, problems) else {
            return length.default;
        };
        length.parse(text.get_ref()).unwrap_or_else(|rule| {
            let message = format!("`{key}` cannot be {}", quoted(text.get_ref()));
            problems.push(Problem::error(text.span(), message).meant(rule));
            length.default
        })
    }))
}

fn max_removals(fields: &Fields<'_, '_>, problems: &mut Vec<Problem>) -> u32 {
    const DEFAULT: u32 = 3;
    let Some(number) = fields.number("max_removals", problems) else {
        return DEFAULT;
    };
    u32::try_from(*number.get_ref()).unwrap_or_else(|_| {
        problems.push(
            Problem::error(number.span(), "`max_removals` counts logins an hour")
                .meant("0 or more"),
        );
        DEFAULT
    })
}
