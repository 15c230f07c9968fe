//! `[[consumer.NAME.container]]` and `[[consumer.NAME.unit]]`: what runs for a consumer.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use mesh_loops::delivery::format::is_name;
use mesh_loops::host::order::{Container, Manager, Mount, Order, Port, Restart, Thing, Unit};
use mesh_sdk::ConsumerName;
use toml::de::DeValue;

use super::auth;
use super::deliver::{one_of, texts};
use super::fields::{Fields, Item, quoted, wrong_type};
use crate::errors::Problem;

/// The keys of a container's table.
const KEYS: [&str; 12] = [
    "name",
    "engine",
    "image",
    "command",
    "env",
    "env_files",
    "mounts",
    "ports",
    "network",
    "user",
    "restart",
    "host",
];
/// The keys of a unit's table.
const UNIT_KEYS: [&str; 3] = ["name", "manager", "host"];
/// Where Docker listens; `engine` names another.
const ENGINE: &str = "/run/docker.sock";

/// One such table.
#[derive(Debug, Clone)]
pub struct Hosted {
    /// What is asked of the host. Where its consumer's credentials are brought is not in it yet.
    pub order: Order,
    /// On which host; `None` where there is only one.
    pub host: Option<String>,
    /// The line of the table, counted from 1.
    pub line: usize,
    /// The bytes of the table.
    pub span: Range<usize>,
}

/// Reads a table of `container`.
pub(super) fn container(
    base: &Path,
    consumer: &ConsumerName,
    item: &Item<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Hosted> {
    let before = problems.len();
    let within = format!("[[consumer.{consumer}.container]]");
    let fields = Fields::of("container", item, "a table", problems)?;
    fields.refuse_unknown(&within, &KEYS, problems);
    let name = match fields.text("name", "a name in quotes", problems) {
        Some(name) => {
            let text = *name.get_ref();
            let sign = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
            if !text.starts_with(|c: char| c.is_ascii_alphanumeric()) || !text.chars().all(sign) {
                let what = format!("{} is no container's name", quoted(text));
                problems.push(
                    Problem::error(name.span(), what)
                        .help("letters, digits, `_`, `.` and `-`, a letter or digit first"),
                );
            }
            text.to_owned()
        }
        None => consumer.to_string(),
    };
    let image = image(&fields, &within, problems);
    let engine = match fields.item("engine") {
        Some(_) => auth::path(base, &fields, "engine", problems),
        None => Some(PathBuf::from(ENGINE)),
    };
    let restart = match fields.item("restart") {
        Some(_) => one_of(&fields, "restart", &Restart::ALL, Restart::as_str, problems),
        None => Some(Restart::UnlessStopped),
    };
    let container = Container {
        name,
        engine: engine.unwrap_or_default(),
        image: image.unwrap_or_default(),
        command: texts(&fields, "command", problems).unwrap_or_default(),
        env: env(&fields, problems),
        env_files: env_files(base, &fields, problems),
        mounts: each(&fields, "mounts", problems, |text| mount(base, text)),
        ports: each(&fields, "ports", problems, port),
        network: plain(&fields, "network", problems),
        user: plain(&fields, "user", problems),
        restart: restart.unwrap_or(Restart::No),
    };
    hosted(
        consumer,
        Thing::Container(container),
        &fields,
        before,
        problems,
    )
}

/// Reads a table of `unit`.
pub(super) fn unit(
    consumer: &ConsumerName,
    item: &Item<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Hosted> {
    let before = problems.len();
    let within = format!("[[consumer.{consumer}.unit]]");
    let fields = Fields::of("unit", item, "a table", problems)?;
    fields.refuse_unknown(&within, &UNIT_KEYS, problems);
    let name = fields.text("name", "a unit's name in quotes", problems);
    let name = name.map(|name| {
        let text = *name.get_ref();
        let sign = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
        if !text.contains('.') || text.starts_with('-') || !text.chars().all(sign) {
            let what = format!("{} is no unit's name", quoted(text));
            problems.push(
                Problem::error(name.span(), what).help("with its kind, as in \"web.service\""),
            );
        }
        text.to_owned()
    });
    if fields.item("name").is_none() {
        let problem = Problem::error(
            fields.span.clone(),
            format!("`name` is missing in {within}"),
        );
        problems.push(problem.help("name = \"web.service\""));
    }
    let manager = match fields.item("manager") {
        Some(_) => one_of(&fields, "manager", &Manager::ALL, Manager::as_str, problems),
        None => Some(Manager::System),
    };
    let unit = Unit {
        name: name?,
        manager: manager?,
    };
    hosted(consumer, Thing::Unit(unit), &fields, before, problems)
}

fn hosted(
    consumer: &ConsumerName,
    thing: Thing,
    fields: &Fields<'_, '_>,
    before: usize,
    problems: &mut Vec<Problem>,
) -> Option<Hosted> {
    let host = plain(fields, "host", problems);
    let own = problems.get(before..).unwrap_or_default();
    let wrong = own
        .iter()
        .any(|problem| problem.weight == crate::errors::Weight::Error);
    (!wrong).then(|| Hosted {
        order: Order {
            consumer: consumer.clone(),
            thing,
            places: BTreeMap::new(),
        },
        host,
        line: 0,
        span: fields.span.clone(),
    })
}

fn image(fields: &Fields<'_, '_>, within: &str, problems: &mut Vec<Problem>) -> Option<String> {
    let Some(image) = fields.text("image", "an image's name in quotes", problems) else {
        if fields.item("image").is_none() {
            let what = format!("`image` is missing in {within}");
            problems.push(
                Problem::error(fields.span.clone(), what)
                    .help("image = \"registry.example/web:1\", which must be on the host"),
            );
        }
        return None;
    };
    let text = *image.get_ref();
    let sign = |c: char| c.is_ascii_alphanumeric() || "._-/:@+".contains(c);
    if text.is_empty() || text.contains("..") || !text.chars().all(sign) {
        let what = format!("{} is no image's name", quoted(text));
        problems.push(Problem::error(image.span(), what));
        return None;
    }
    Some(text.to_owned())
}

fn plain(fields: &Fields<'_, '_>, key: &str, problems: &mut Vec<Problem>) -> Option<String> {
    let text = fields.text(key, "a text in quotes", problems)?;
    if text.get_ref().is_empty() {
        problems.push(Problem::error(text.span(), format!("`{key}` is empty")));
    }
    Some((*text.get_ref()).to_owned())
}

fn env(fields: &Fields<'_, '_>, problems: &mut Vec<Problem>) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let Some(item) = fields.item("env") else {
        return all;
    };
    let Some(table) = Fields::of("env", item, "a table of texts", problems) else {
        return all;
    };
    for (key, item) in table.table {
        let name = key.get_ref().as_ref();
        if !is_name(name) {
            let what = format!("{} is no variable's name", quoted(name));
            problems.push(Problem::error(key.span(), what));
        }
        match item.get_ref() {
            DeValue::String(text) if !text.contains('\0') => {
                all.insert(name.to_owned(), text.as_ref().to_owned());
            }
            _ => problems.push(wrong_type(name, item, "a text in quotes")),
        }
    }
    all
}

fn env_files(
    base: &Path,
    fields: &Fields<'_, '_>,
    problems: &mut Vec<Problem>,
) -> BTreeSet<PathBuf> {
    let Some(files) = texts(fields, "env_files", problems) else {
        return BTreeSet::new();
    };
    problems.push(
        Problem::warning(
            fields.span_of("env_files"),
            "whoever may ask the engine sees these variables, passwords among them",
        )
        .help("mount the delivered file or folder instead, where the app can read one"),
    );
    files.iter().map(|file| base.join(file)).collect()
}

/// A list of texts, each read by `one`.
fn each<T>(
    fields: &Fields<'_, '_>,
    key: &str,
    problems: &mut Vec<Problem>,
    one: impl Fn(&str) -> Result<T, &'static str>,
) -> Vec<T> {
    let all = texts(fields, key, problems).unwrap_or_default();
    let mut read = Vec::with_capacity(all.len());
    for text in &all {
        match one(text) {
            Ok(value) => read.push(value),
            Err(help) => {
                let what = format!("{} cannot be in `{key}`", quoted(text));
                problems.push(Problem::error(fields.span_of(key), what).help(help));
            }
        }
    }
    read
}

fn mount(base: &Path, text: &str) -> Result<Mount, &'static str> {
    const HELP: &str =
        "\"PATH:INSIDE\", \"PATH:INSIDE:ro\" or \"VOLUME:INSIDE\"; a path begins with `/` or `.`";
    let mut parts = text.split(':');
    let (Some(source), Some(target)) = (parts.next(), parts.next()) else {
        return Err(HELP);
    };
    let read_only = match (parts.next(), parts.next()) {
        (None, _) | (Some("rw"), None) => false,
        (Some("ro"), None) => true,
        _ => return Err(HELP),
    };
    let sign = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let source = match source.starts_with(['/', '.']) {
        true => {
            let path = std::path::absolute(base.join(source)).map_err(|_| HELP)?;
            path.to_str().ok_or(HELP)?.to_owned()
        }
        false if !source.is_empty() && source.chars().all(sign) => source.to_owned(),
        false => return Err(HELP),
    };
    if !target.starts_with('/') {
        return Err(HELP);
    }
    Ok(Mount {
        source,
        target: target.to_owned(),
        read_only,
    })
}

fn port(text: &str) -> Result<Port, &'static str> {
    const HELP: &str = "\"8080:80\", \"127.0.0.1:8080:80\" or \"[::1]:8080:80\", with \"/udp\" at the end where it is that";
    let (text, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    if !["tcp", "udp"].contains(&protocol) {
        return Err(HELP);
    }
    let (rest, inside) = text.rsplit_once(':').ok_or(HELP)?;
    let (address, host) = rest.rsplit_once(':').unwrap_or(("", rest));
    let address = address.trim_start_matches('[').trim_end_matches(']');
    if !address.is_empty() && address.parse::<std::net::IpAddr>().is_err() {
        return Err(HELP);
    }
    let number = |text: &str| text.parse::<u16>().ok().filter(|n| *n > 0).ok_or(HELP);
    Ok(Port {
        address: address.to_owned(),
        host: number(host)?,
        inside: number(inside)?,
        protocol: protocol.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    //! Mounts and ports as people write them.
    use super::*;

    #[test]
    fn mounts_are_paths_or_volumes_and_begin_at_the_manifests_folder() {
        let read = |text| mount(Path::new("/etc/mesh"), text).ok();
        let one = read("./web:/run/web:ro").expect("a path");
        assert_eq!(
            (&*one.source, &*one.target, one.read_only),
            ("/etc/mesh/web", "/run/web", true)
        );
        assert!(one.is_path());
        let one = read("data:/data").expect("a volume");
        assert_eq!(
            (&*one.source, one.read_only, one.is_path()),
            ("data", false, false)
        );
        for wrong in [
            "",
            "data",
            "data:inside",
            ":/data",
            "a b:/x",
            "/a:/b:ro:z",
            "/a:/b:x",
        ] {
            assert!(read(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn ports_have_an_address_or_none() {
        let read = |text| {
            port(text)
                .map(|p| (p.address, p.host, p.inside, p.protocol))
                .ok()
        };
        let is = |address: &str, protocol: &str| {
            Some((address.to_owned(), 8080, 80, protocol.to_owned()))
        };
        assert_eq!(read("8080:80"), is("", "tcp"));
        assert_eq!(read("127.0.0.1:8080:80/udp"), is("127.0.0.1", "udp"));
        assert_eq!(read("[::1]:8080:80"), is("::1", "tcp"));
        for wrong in [
            "80",
            "x:80",
            "0:80",
            "8080:80/sctp",
            "host:8080:80",
            "70000:1",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
