//! From a file to a [`Manifest`], or to every reason why there is none.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mesh_sdk::{MeshId, ProviderName, Secret};
use toml::de::{DeTable, DeValue};

use super::consumer::{Consumers, Known, Ready};
use super::fields::{Fields, Item, unknown_key};
use super::hosted;
use super::kinds::Kinds;
use super::pieces::{self, Pieces};
use super::provider::Provider;
use super::server::{self, Context};
use super::source::Source;
use super::{
    AliveTo, BusChoice, ContentDigest, Manifest, PageAsked, Refused, RefusedNames, across, alive,
    bus, page,
};
use crate::errors::{Problem, Problems, Scope, Weight};

/// The largest manifest that is read, in bytes.
const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// What came of reading a manifest.
#[derive(Debug)]
pub struct Reading {
    /// The manifest; `None` if its mistakes make the whole doubtful: then there is no wish, which is
    /// not an empty wish.
    pub manifest: Option<Manifest>,
    /// Every mistake and warning.
    pub problems: Problems,
    /// Of the text.
    pub digest: ContentDigest,
}

/// Why a file could not even be read as text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadFault {
    /// There is no such file.
    #[error("there is no manifest {}", .0.display())]
    Missing(PathBuf),
    /// The system refuses it.
    #[error("the manifest {} cannot be read: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// It is not UTF-8.
    #[error("the manifest {} is not UTF-8 text (line {line})", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// The first line that is not.
        line: usize,
    },
}

/// Reads a file and everything in it. No network, no secret.
pub fn read(path: &Path, kinds: &Kinds) -> Result<Reading, ReadFault> {
    Ok(parse(path, text_of(path)?, kinds))
}

/// [`read`], unless the text is the one that is known by this digest.
pub fn read_unless(
    path: &Path,
    kinds: &Kinds,
    known: Option<ContentDigest>,
) -> Result<Option<Reading>, ReadFault> {
    let text = text_of(path)?;
    let is_known = known.is_some_and(|known| known == ContentDigest::of(&text));
    Ok((!is_known).then(|| parse(path, text, kinds)))
}

/// A manifest's text, as it is.
pub fn text_of(path: &Path) -> Result<String, ReadFault> {
    let unreadable = |reason: String| ReadFault::Unreadable {
        path: path.to_owned(),
        reason,
    };
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => ReadFault::Missing(path.to_owned()),
        _ => unreadable(error.to_string()),
    };
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > MAX_BYTES {
        return Err(unreadable("it is larger than 256 MiB".to_owned()));
    }
    let bytes = std::fs::read(path).map_err(failed)?;
    String::from_utf8(bytes).map_err(|error| {
        let head = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        ReadFault::NotText {
            path: path.to_owned(),
            line: head.iter().filter(|b| **b == b'\n').count() + 1,
        }
    })
}

/// A text larger than this is read in pieces of this size.
const PIECE_BYTES: usize = 256 * 1024;

/// Reads a text. Never panics, whatever the text.
pub fn parse(path: &Path, text: String, kinds: &Kinds) -> Reading {
    parse_in_pieces(path, text, kinds, PIECE_BYTES)
}

/// [`parse`] with another size of pieces: it costs memory and changes nothing else.
pub fn parse_in_pieces(path: &Path, text: String, kinds: &Kinds, size: usize) -> Reading {
    let source = Arc::new(Source::new(path, text, kinds.value_keys()));
    let reader = Reader {
        source: &source,
        kinds,
    };
    let in_pieces = (source.text().len() > size)
        .then(|| pieces::split(source.text(), size))
        .flatten()
        .and_then(|pieces| reader.pieces(&pieces).ok());
    let (manifest, problems) = in_pieces.unwrap_or_else(|| reader.whole());
    let digest = ContentDigest::of(source.text());
    let whole_spoiled = problems
        .iter()
        .any(|problem| problem.weight == Weight::Error && problem.scope == Scope::Whole);
    Reading {
        manifest: manifest.filter(|_| !whole_spoiled),
        problems: Problems::new(source, problems),
        digest,
    }
}

fn syntax(error: &toml::de::Error) -> Problem {
    let span = error.span().unwrap_or(0..0);
    Problem::error(span, error.message().replace('\n', " "))
}

struct Reader<'r> {
    source: &'r Source,
    kinds: &'r Kinds,
}

/// The text does not fit the scheme of pieces; it is read as one.
struct Misfit;

type Outcome = (Option<Manifest>, Vec<Problem>);

/// What stands in `[mesh]` about those around it.
type Around = (Option<AliveTo>, PageAsked);

impl Reader<'_> {
    /// Reads the text as one.
    fn whole(&self) -> Outcome {
        let (document, errors) = DeTable::parse_recoverable(self.source.text());
        let mut problems: Vec<Problem> = errors.iter().map(syntax).collect();
        // A key given twice leaves the rest readable; any other slip in the form makes the rest guesswork.
        let readable = errors
            .iter()
            .all(|error| error.message().starts_with("duplicate key"));
        let manifest = match readable {
            true => self.document(document.get_ref(), &[], &mut problems),
            false => Ok(None),
        };
        (manifest.unwrap_or_default(), problems)
    }

    /// Reads the rest, then one piece after the other.
    fn pieces(&self, pieces: &Pieces<'_>) -> Result<Outcome, Misfit> {
        let rest = DeTable::parse(&pieces.rest).map_err(|_| Misfit)?;
        let here = rest.get_ref().get("consumer").map(|item| item.get_ref());
        let here = here.and_then(DeValue::as_table);
        let mut names = here.into_iter().flat_map(|table| table.keys());
        if names.any(|name| pieces.names.contains_key(name.get_ref().as_ref())) {
            return Err(Misfit);
        }
        let mut problems = Vec::new();
        let manifest = self.document(rest.get_ref(), &pieces.parts, &mut problems)?;
        Ok((manifest, problems))
    }

    fn document(
        &self,
        document: &DeTable<'_>,
        parts: &[Range<usize>],
        problems: &mut Vec<Problem>,
    ) -> Result<Option<Manifest>, Misfit> {
        const TABLES: [&str; 3] = ["mesh", "provider", "consumer"];
        for key in document.keys() {
            if !TABLES.contains(&key.get_ref().as_ref()) {
                problems.push(unknown_key(key, "this manifest", TABLES.into_iter()));
            }
        }
        let mesh = self.mesh(document, problems);
        // Without a mesh id the entries are checked all the same, under a stand-in.
        let named = mesh.as_ref().map(|(id, ..)| id.clone());
        let Some(id) = named.or_else(|| MeshId::new("check").ok()) else {
            return Ok(None);
        };
        let base = self.source.path().parent().unwrap_or(Path::new(""));
        let line = |byte: usize| self.source.place_line(byte);
        let mut refused = Vec::new();
        let cx = Context {
            kinds: self.kinds,
            base,
            line: &line,
        };
        let (providers, broken) = self.providers(&cx, document, &mut refused, problems);
        let known = known(&providers, &broken, &id);
        let mut consumers = Consumers {
            providers: &known,
            base,
            line: &line,
            offset: 0,
            problems: Vec::new(),
            provisions: Vec::new(),
            refused,
            deliveries: Vec::new(),
            undelivered: Vec::new(),
            hosted: Vec::new(),
            unhosted: Vec::new(),
            key: Secret::from("check"),
            suggested: HashMap::new(),
        };
        if let Some(table) = section(document, "consumer", problems) {
            consumers.read_all(table, 0);
        }
        for part in parts {
            let text = self.source.text().get(part.clone()).ok_or(Misfit)?;
            let piece = DeTable::parse(text).map_err(|_| Misfit)?;
            let table = section(piece.get_ref(), "consumer", problems).ok_or(Misfit)?;
            consumers.read_all(table, part.start);
        }
        let Consumers {
            problems: found,
            mut provisions,
            mut refused,
            mut deliveries,
            mut undelivered,
            mut hosted,
            mut unhosted,
            ..
        } = consumers;
        problems.extend(found);
        provisions.sort_by(|a, b| (&a.consumer, &a.provider).cmp(&(&b.consumer, &b.provider)));
        across::same_logins(&providers, &mut provisions, &mut refused, problems);
        let shared = mesh
            .as_ref()
            .is_some_and(|(_, bus, ..)| matches!(bus, BusChoice::Nats(_)));
        across::places(shared, &mut deliveries, &mut undelivered, problems);
        hosted::things(shared, &deliveries, &mut hosted, &mut unhosted, problems);
        provisions.shrink_to_fit();
        refused.sort_by_key(|entry| entry.line);
        Ok(mesh.map(|(mesh, bus, bus_span, (alive, page))| Manifest {
            path: self.source.path().to_owned(),
            mesh,
            bus,
            bus_span,
            alive,
            page,
            providers,
            provisions,
            names: RefusedNames::of(&refused),
            refused,
            deliveries,
            undelivered,
            hosted,
            unhosted,
            digest: ContentDigest::of(self.source.text()),
        }))
    }

    /// The mesh, its bus, and where that stands.
    fn mesh(
        &self,
        document: &DeTable<'_>,
        problems: &mut Vec<Problem>,
    ) -> Option<(MeshId, BusChoice, Range<usize>, Around)> {
        const HELP: &str = "a manifest begins with [mesh] and id = \"…\"; `mesh init` writes one";
        let Some(item) = document.get("mesh") else {
            problems.push(Problem::error(0..0, "the table [mesh] is missing").help(HELP));
            return None;
        };
        let fields = Fields::of("mesh", item, "a table", problems)?;
        fields.refuse_unknown("[mesh]", &["id", "bus", "alive", "page"], problems);
        let base = self.source.path().parent().unwrap_or(Path::new(""));
        let bus = (bus::read(base, &fields, problems), fields.span_of("bus"));
        let told = (
            alive::read(base, &fields, problems),
            page::read(base, &fields, problems),
        );
        if fields.item("id").is_none() {
            problems
                .push(Problem::error(fields.span.clone(), "`id` is missing in [mesh]").help(HELP));
            return None;
        }
        let id = fields.text("id", "a name in quotes", problems)?;
        let id = MeshId::new(id.get_ref())
            .map_err(|error| problems.push(Problem::error(id.span(), error.to_string())))
            .ok()?;
        Some((id, bus.0, bus.1, told))
    }

    /// The providers in order, and those with mistakes, by the name as it is written.
    fn providers(
        &self,
        cx: &Context<'_>,
        document: &DeTable<'_>,
        refused: &mut Vec<Refused>,
        problems: &mut Vec<Problem>,
    ) -> (BTreeMap<ProviderName, Provider>, Broken) {
        let (mut providers, mut broken) = (BTreeMap::new(), Vec::new());
        for (key, item) in section(document, "provider", problems)
            .into_iter()
            .flatten()
        {
            let before = problems.len();
            let provider = server::read(cx, key, item, problems);
            let word = key.get_ref().as_ref();
            for problem in problems.iter_mut().skip(before) {
                problem.scope = Scope::Provider(word.to_owned());
            }
            let own = problems.get(before..).unwrap_or_default();
            match (provider, own.iter().find(|p| p.weight == Weight::Error)) {
                (Some(provider), None) => {
                    providers.insert(provider.name.clone(), provider);
                }
                (provider, mistake) => {
                    refused.push(Refused {
                        consumer: None,
                        provider: Some(word.to_owned()),
                        login: None,
                        why: mistake.map_or_else(String::new, |p| p.message.clone()),
                        line: (cx.line)(key.span().start),
                    });
                    broken.push((word.to_owned(), provider));
                }
            }
        }
        (providers, broken)
    }
}

/// Every provider as its consumers' tables see it.
fn known<'p>(
    providers: &'p BTreeMap<ProviderName, Provider>,
    broken: &'p Broken,
    mesh: &MeshId,
) -> HashMap<String, Known<'p>> {
    let ready = |provider| Ready::new(provider, mesh);
    let broken = broken
        .iter()
        .map(|(name, provider)| (name.clone(), Known::Refused(provider.as_ref().map(ready))));
    let good = providers
        .iter()
        .map(|(name, provider)| (name.as_str().to_owned(), Known::Ready(ready(provider))));
    broken.chain(good).collect()
}

/// Providers with mistakes, each with what could be read of it.
type Broken = Vec<(String, Option<Provider>)>;

/// A top-level table of tables; a manifest without it is in order.
fn section<'t, 'i>(
    document: &'t DeTable<'i>,
    name: &str,
    problems: &mut Vec<Problem>,
) -> Option<&'t DeTable<'i>> {
    let item: &Item<'i> = document.get(name)?;
    match item.get_ref() {
        DeValue::Table(table) => Some(table),
        _ => {
            let wanted = format!("tables named [{name}.NAME]");
            problems.push(super::fields::wrong_type(name, item, &wanted));
            None
        }
    }
}
