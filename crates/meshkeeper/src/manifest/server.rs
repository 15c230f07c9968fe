//! One `[provider.NAME]` table: from what is written to a [`Provider`], or to every mistake in it.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use mesh_sdk::ProviderName;
use mesh_sdk::adapter::{Admin, ProviderSettings, Refusal, Scheme, Tls};
use serde_json::{Map, Value};
use toml::Spanned;

use super::addresses::Addresses;
use super::auth::{self, placeholder};
use super::fields::{Fields, Item, Key, quoted, wrong_type};
use super::kinds::{KindInfo, Kinds};
use super::nearest::nearest;
use super::provider::{AdminSource, Node, Provider, TlsSource};
use super::timing::timing;
use super::{url, values};
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
    "options",
];

/// What reading one provider needs to know.
pub(super) struct Context<'c> {
    pub(super) kinds: &'c Kinds,
    /// The folder that relative paths start from.
    pub(super) base: &'c Path,
    /// The line of a byte.
    pub(super) line: &'c dyn Fn(usize) -> usize,
}

/// Reads one table. With mistakes in it what could be read serves to check its consumers' tables, and
/// nothing else; `None` if not even name and kind could.
pub(super) fn read(
    cx: &Context<'_>,
    key: &Key<'_>,
    item: &Item<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Provider> {
    let within = format!("[provider.{}]", key.get_ref().escape_debug());
    let name = ProviderName::new(key.get_ref())
        .map_err(|error| problems.push(Problem::error(key.span(), error.to_string())))
        .ok();
    let fields = Fields::of(key.get_ref(), item, "a table", problems)?;
    fields.refuse_unknown(&within, KEYS, problems);
    let kind = kind(cx, &fields, &within, problems);
    let admin = auth::admin(cx.base, &fields, problems);
    let tls = auth::tls(cx.base, &fields, problems);
    let timing = timing(&fields, problems);
    let max_removals = max_removals(&fields, problems);
    let canary = fields.flag("canary", true, problems);
    let dangerously_plain = fields.flag("dangerously_plain", false, problems);
    let urls = urls(&fields, &within, problems);
    let options = options(&fields, kind.as_deref(), problems);
    let (name, kind) = (name?, kind?);
    let draft = Draft {
        name: &name,
        kind: &kind,
        admin: &admin,
        tls: &tls,
        plain: dangerously_plain,
        options: &options,
        base: cx.base,
    };
    let nodes = draft.nodes(&fields, &urls, problems);
    Some(Provider {
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
        span: key.span(),
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
    let addresses = Addresses {
        wanted: "an address in quotes, such as \"redis://127.0.0.1:6379\"",
        both: "`url` is for one server, `urls = [ … ]` for several that do not share logins",
        missing: &format!("`url` is missing in {within}"),
        say: "say where the server is: url = \"scheme://host:port\"",
    };
    addresses.read(fields, problems)
}

/// What is known of a provider before its servers are.
struct Draft<'d> {
    name: &'d ProviderName,
    kind: &'d KindInfo,
    admin: &'d Option<AdminSource>,
    tls: &'d TlsSource,
    plain: bool,
    options: &'d Map<String, Value>,
    base: &'d Path,
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
            let name = match settings.host.as_str() {
                "" => settings.path.clone(),
                host if host.contains(':') => format!("[{host}]:{}", settings.port),
                host => format!("{host}:{}", settings.port),
            };
            if let Some((_, first)) = nodes.iter().find(|(node, _)| node.name == name) {
                let problem = Problem::error(url.span(), format!("{name} is named twice"));
                problems.push(problem.also(first.clone(), "first here"));
                continue;
            }
            // A plain scheme was judged here, in the manifest's own words.
            let mut judged = settings.clone();
            judged.tls.dangerously_plain = true;
            if let Err(Refusal { field, rule }) = self.kind.kind.check_provider(&judged) {
                let span = match field.as_str() {
                    "url" | "urls" | "scheme" | "host" | "port" | "path" => url.span(),
                    other => fields.span_of_field(other).unwrap_or_else(|| url.span()),
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
        let schemes = self.kind.descriptor.schemes;
        let word = text.get_ref().split(':').next().unwrap_or_default();
        let file = schemes.iter().find(|s| s.file && s.name == word);
        let read = match file {
            Some(scheme) => url::file(text.get_ref(), scheme.name),
            None => url::parse(text.get_ref()),
        };
        let url = read
            .map_err(|rule| {
                refuse(
                    Problem::error(text.span(), "this is not the address of a server").meant(rule),
                )
            })
            .ok()?;
        if let Some(scheme) = file {
            // A manifest may be named by a path that is itself relative.
            let path = self.base.join(&url.path);
            let path = std::path::absolute(&path).unwrap_or(path);
            let Some(path) = path.to_str() else {
                refuse(Problem::error(text.span(), "the path is not UTF-8"));
                return None;
            };
            let mut settings = ProviderSettings::of_file(self.name.clone(), scheme.name, path);
            settings.options = self.options.clone();
            settings.admin = self.placeholder_admin();
            return Some(settings);
        }
        let Some(scheme) = schemes.iter().find(|scheme| scheme.name == url.scheme) else {
            refuse(self.wrong_scheme(text.span(), &url.scheme));
            return None;
        };
        let port = url.port.unwrap_or(scheme.default_port);
        let mut settings = ProviderSettings::new(self.name.clone(), scheme.name, &url.host, port);
        settings.path = url.path;
        settings.admin = self.placeholder_admin();
        settings.options = self.options.clone();
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

    /// The real password is read when the provider is opened; here it only matters that there is one.
    fn placeholder_admin(&self) -> Option<Admin> {
        self.admin.as_ref().map(|admin| Admin {
            user: admin.user.clone(),
            password: admin.password.as_ref().map(|_| placeholder()),
        })
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
            .map(Scheme::written)
            .collect();
        let message = format!("kind \"{kind}\" is not spoken to with {}", quoted(scheme));
        Problem::error(span, message).meant(format!("expected {}", names.join(" or ")))
    }
}

/// The kind's own settings. What they hold is judged by the kind, with everything else of the provider.
fn options(
    fields: &Fields<'_, '_>,
    kind: Option<&KindInfo>,
    problems: &mut Vec<Problem>,
) -> Map<String, Value> {
    let Some(item) = fields.item("options") else {
        return Map::new();
    };
    if let Some(kind) = kind
        && kind.options.is_none()
    {
        let message = format!("kind \"{}\" has no options", kind.descriptor.kind);
        problems.push(Problem::error(item.span(), message).help("leave the table out"));
        return Map::new();
    }
    match values::json(item) {
        Ok(Value::Object(map)) => map,
        Ok(_) => {
            problems.push(wrong_type("options", item, "a table"));
            Map::new()
        }
        Err((at, wanted)) => {
            problems.push(wrong_type("options", at, wanted));
            Map::new()
        }
    }
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
