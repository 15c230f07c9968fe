//! `[mesh.alive]`: who beyond this mesh is told that all is alive.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mesh_sdk::Secret;
use toml::Spanned;
use toml::de::DeValue;

use super::fields::{Fields, wrong_type};
use super::secrets::{SecretRef, SecretSource};
use super::{auth, units, url};
use crate::errors::Problem;

const KEYS: &[&str] = &["url", "file", "every"];
const EVERY: Duration = Duration::from_secs(60);
/// The least and the most that `every` may be.
const EVERY_RANGE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(86_400));

/// Who is told, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AliveTo {
    /// An address that is asked for. Whoever knows it can speak for this mesh.
    pub url: Option<AliveUrl>,
    /// A file whose time moves on.
    pub file: Option<PathBuf>,
    /// How often.
    pub every: Duration,
}

/// The address, or where it is.
#[derive(Clone, PartialEq, Eq)]
pub enum AliveUrl {
    /// As it stands in the manifest.
    Given(String),
    /// In a file or variable.
    Place(SecretRef),
}

impl fmt::Debug for AliveUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AliveUrl::Given(_) => f.write_str("Given(…)"),
            AliveUrl::Place(place) => write!(f, "Place({place})"),
        }
    }
}

/// An address taken apart. Its path is secret, its host is not.
pub struct AliveAddress {
    /// With TLS.
    pub tls: bool,
    /// The host, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The path, as it is sent.
    pub path: Secret,
}

impl AliveUrl {
    /// The address. Errors: one line for people, without the address.
    pub fn address(&self, source: &dyn SecretSource) -> Result<AliveAddress, String> {
        match self {
            AliveUrl::Given(text) => address(text).map_err(str::to_owned),
            AliveUrl::Place(place) => {
                let text = place.password(source, true).map_err(|t| t.to_string())?;
                let text = text.expose_str().unwrap_or_default();
                address(text.trim()).map_err(|why| format!("{place} holds no such address: {why}"))
            }
        }
    }
}

fn address(text: &str) -> Result<AliveAddress, &'static str> {
    let parsed = url::parse(text)?;
    let tls = match parsed.scheme.as_str() {
        "https" => true,
        "http" if is_this_machine(&parsed.host) => false,
        "http" => return Err("beyond this machine it must be https"),
        _ => return Err("it must begin with https://"),
    };
    let rest = text.split_once("://").map_or("", |(_, rest)| rest);
    let path = rest.split_once('/').map_or("", |(_, path)| path);
    Ok(AliveAddress {
        tls,
        port: parsed.port.unwrap_or(if tls { 443 } else { 80 }),
        host: parsed.host,
        path: Secret::from(format!("/{path}").as_str()),
    })
}

fn is_this_machine(host: &str) -> bool {
    let address = host.parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Reads it.
pub(super) fn read(
    base: &Path,
    mesh: &Fields<'_, '_>,
    problems: &mut Vec<Problem>,
) -> Option<AliveTo> {
    let item = mesh.item("alive")?;
    let fields = Fields::of("alive", item, "a table with `url` or `file`", problems)?;
    fields.refuse_unknown("[mesh.alive]", KEYS, problems);
    let url = fields.item("url").and_then(|item| match item.get_ref() {
        DeValue::String(text) => {
            if let Err(why) = address(text) {
                let message = format!("this address cannot be told anything: {why}");
                problems.push(Problem::error(item.span(), message));
            }
            Some(AliveUrl::Given(text.to_string()))
        }
        DeValue::Table(_) => auth::place(base, &fields, "url", problems).map(AliveUrl::Place),
        _ => {
            let wanted = "an address in quotes, or { file = \"…\" } or { env = \"…\" }";
            problems.push(wrong_type("url", item, wanted));
            None
        }
    });
    let file = fields.text("file", "a path in quotes", problems);
    let file = file.map(|text| base.join(Spanned::get_ref(&text)));
    if fields.item("url").is_none() && file.is_none() {
        let problem = Problem::error(fields.span.clone(), "nobody is named in [mesh.alive]");
        problems.push(problem.help("give it `url = \"https://…\"`, or `file = \"…\"`"));
    }
    Some(AliveTo {
        url,
        file,
        every: every(&fields, problems),
    })
}

fn every(fields: &Fields<'_, '_>, problems: &mut Vec<Problem>) -> Duration {
    let Some(text) = fields.text("every", "a length of time, such as \"60s\"", problems) else {
        return EVERY;
    };
    let (least, most) = EVERY_RANGE;
    let why = match units::parse(text.get_ref()) {
        Ok(every) if every < least || every > most => "it must be between 1 s and a day",
        Ok(every) => return every,
        Err(why) => why,
    };
    problems.push(Problem::error(text.span(), format!("`every`: {why}")));
    EVERY
}
