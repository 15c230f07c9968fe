//! `mesh import`: tables for the logins that a server holds already, so that one can start with it.

use std::collections::HashSet;
use std::time::Duration;

use mesh_sdk::adapter::Cx;
use mesh_sdk::harness::read_records;
use mesh_sdk::{Login, Marker, ProviderName, Secret};
use serde::Serialize;

use super::Context;
use super::online::{Online, store_fault};
use super::servers::{self, Server};
use super::words::parse;
use crate::cli::ImportArgs;
use crate::errors::Fault;
use crate::manifest::imported::{self, Candidate, Imported, LeftOut};
use crate::manifest::{self, Manifest, Provider};
use crate::status;
use crate::wiring::installation::Installation;

/// The longest that one server is asked: it reads every login.
const PATIENCE: Duration = Duration::from_secs(300);

#[derive(Serialize)]
struct Answer<'a> {
    provider: &'a str,
    logins: Vec<One<'a>>,
    left_out: Vec<Left<'a>>,
}

#[derive(Serialize)]
struct One<'a> {
    consumer: &'a str,
    login: &'a str,
    enabled: bool,
    values: &'a serde_json::Value,
    beyond: &'a [String],
    differs: &'a [String],
}

#[derive(Serialize)]
struct Left<'a> {
    login: &'a str,
    why: String,
}

/// Runs it.
pub(super) fn run(args: &ImportArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    let name: ProviderName = parse("provider", &args.provider)?;
    let manifest = cx.manifest()?;
    let provider = of_manifest(&manifest, &name)?;
    let online = Online::start(cx)?;
    let installation = online.open_if_there(&cx.settings.data, &manifest)?;
    let marker = match &installation {
        Some(installation) => installation.marker()(&name),
        // Without an installation no mark is ours.
        None => Marker::new(
            manifest.mesh.clone(),
            "none",
            name.clone(),
            Secret::from("none"),
        ),
    };
    let servers = servers::open(&online, provider)?;
    let found = online.run(find(&online, provider, &servers, &marker))?;
    let leftovers = match &installation {
        Some(installation) => online.run(leftovers(installation, &name))?,
        None => HashSet::new(),
    };
    let (imported, text) = fitting(cx, &manifest, provider, found, &leftovers)?;
    if cx.printer.is_json() {
        cx.printer.json(&answer(&name, &imported));
    } else if !imported.tables.is_empty() {
        cx.printer.answer(&text);
    }
    cx.printer.note(&summary(&name, &imported));
    Ok(0)
}

/// A provider of the manifest.
pub(super) fn of_manifest<'m>(
    manifest: &'m Manifest,
    name: &ProviderName,
) -> Result<&'m Provider, Fault> {
    manifest.providers.get(name).ok_or_else(|| {
        let mut refused = manifest.refused.iter();
        let refused = refused
            .any(|one| one.consumer.is_none() && one.provider.as_deref() == Some(name.as_str()));
        if refused {
            Fault::failed(
                format!("the manifest's table of `{name}` has mistakes"),
                "`mesh check` shows them",
            )
        } else {
            Fault::failed(
                format!("the manifest has no provider `{name}`"),
                format!("write its table first: [provider.{name}] with `kind`, `url` and `admin`"),
            )
        }
    })
}

async fn find(
    online: &Online,
    provider: &Provider,
    servers: &[Server],
    marker: &Marker,
) -> Result<Vec<Candidate>, Fault> {
    let mut nodes = Vec::with_capacity(servers.len());
    for server in servers {
        let cx = Cx::default();
        let asked = server.adapter.find(&cx, marker);
        let found = servers::answer(online, provider, &server.name, PATIENCE, asked).await?;
        nodes.push((server.name.clone(), found));
    }
    Ok(imported::united(nodes))
}

/// Logins that are leaving or superseded: Meshkeeper takes care of them, and a table would call them back.
async fn leftovers(
    installation: &Installation,
    name: &ProviderName,
) -> Result<HashSet<Login>, Fault> {
    let bus = installation.bus.as_ref();
    let known = status::providers(bus).await.map_err(store_fault)?;
    let mut logins = HashSet::new();
    for label in status::labels_of(&known, name) {
        for (_, record) in read_records(bus, &label).await.map_err(store_fault)? {
            logins.extend(record.superseded.iter().cloned());
            logins.extend(record.departures().map(|(login, _)| login.clone()));
        }
    }
    Ok(logins)
}

/// The tables and their text, which the manifest takes as it is when they are appended to it.
fn fitting(
    cx: &Context<'_>,
    manifest: &Manifest,
    provider: &Provider,
    found: Vec<Candidate>,
    leftovers: &HashSet<Login>,
) -> Result<(Imported, String), Fault> {
    let path = &cx.settings.manifest;
    let before = manifest::text(path).map_err(super::unread)?;
    let errors = |text: String| manifest::parse(path, text, cx.kinds).problems.errors();
    let known = errors(before.clone());
    let make = |found: Vec<Candidate>, join: bool| {
        let imported = imported::import(manifest, provider, found, leftovers, join);
        let text = imported::text(provider, &imported);
        let fits = errors(format!("{before}{text}")) <= known;
        (imported, text, fits)
    };
    let (imported, text, fits) = make(found.clone(), true);
    if fits {
        return Ok((imported, text));
    }
    // A consumer's table may be written so that nothing can be added to it.
    let (imported, text, fits) = make(found, false);
    if !fits {
        cx.printer.note(
            "note: the manifest's consumers are written so that tables cannot be appended as they \
             are; put them into the same form",
        );
    }
    Ok((imported, text))
}

fn answer<'a>(name: &'a ProviderName, imported: &'a Imported) -> Answer<'a> {
    let logins = imported.tables.iter().map(|table| One {
        consumer: table.consumer.as_str(),
        login: table.candidate.login.as_str(),
        enabled: table.candidate.enabled,
        values: &table.candidate.values,
        beyond: &table.candidate.beyond,
        differs: &table.candidate.differs,
    });
    let left_out = imported.left_out.iter().map(|(login, why)| Left {
        login: login.as_str(),
        why: match why {
            LeftOut::Refused(rule) => rule.clone(),
            why => why.as_words().to_owned(),
        },
    });
    Answer {
        provider: name.as_str(),
        logins: logins.collect(),
        left_out: left_out.collect(),
    }
}

fn summary(name: &ProviderName, imported: &Imported) -> String {
    let count = |n: usize| match n {
        0 => format!("no login of {name} to import"),
        1 => format!("1 login of {name}"),
        n => format!("{n} logins of {name}"),
    };
    let mut kinds: Vec<(&str, usize)> = Vec::new();
    for (_, why) in &imported.left_out {
        let words = why.as_words();
        match kinds.iter_mut().find(|(known, _)| *known == words) {
            Some((_, n)) => *n += 1,
            None => kinds.push((words, 1)),
        }
    }
    let left: Vec<String> = kinds
        .iter()
        .map(|(words, n)| format!("{n} {words}"))
        .collect();
    let left = match left.is_empty() {
        true => String::new(),
        false => format!("; left out: {}", left.join(", ")),
    };
    let differ = imported
        .tables
        .iter()
        .filter(|table| !table.candidate.differs.is_empty())
        .count();
    let differ = match differ {
        0 => String::new(),
        n => format!("; the nodes differ about {n}"),
    };
    format!("{}{left}{differ}", count(imported.tables.len()))
}
