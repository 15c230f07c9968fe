//! `[[consumer.NAME.deliver]]`: where a consumer's credentials are brought.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mesh_loops::delivery::decide::Shows;
use mesh_loops::delivery::format::{Format, Reader, is_name};
use mesh_loops::delivery::hook::{Hook, Sign, Verb};
use mesh_loops::delivery::order::{Order, Readable, Target, default_values};
use mesh_loops::delivery::place::{Owner, Place};
use mesh_loops::delivery::template::Template;
use mesh_sdk::{ConsumerName, ProviderName};
use toml::de::DeValue;

use super::auth;
use super::fields::{Fields, Item, quoted, wrong_type};
use super::units;
use crate::errors::Problem;

/// The keys of the table.
const KEYS: [&str; 12] = [
    "env_file",
    "json_file",
    "folder",
    "program",
    "readers",
    "values",
    "mode",
    "user",
    "group",
    "reload",
    "acknowledge",
    "host",
];
/// Of them, those that name the place.
const PLACES: [&str; 4] = ["env_file", "json_file", "folder", "program"];
/// A hook that does not say how long it may take.
const HOOK: Duration = Duration::from_secs(30);
/// The longest that a hook may take: the loop waits for it.
const HOOK_MOST: Duration = Duration::from_secs(300);

/// One such table.
#[derive(Debug, Clone)]
pub struct Delivered {
    /// What is asked of delivery.
    pub order: Order,
    /// On which host; `None` where there is only one.
    pub host: Option<String>,
    /// The line of the table, counted from 1.
    pub line: usize,
    /// The bytes of the table.
    pub span: Range<usize>,
}

/// Reads one table. `needs`: whom the consumer needs.
pub(super) fn read(
    base: &Path,
    consumer: &ConsumerName,
    needs: &BTreeSet<ProviderName>,
    item: &Item<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Delivered> {
    let before = problems.len();
    let within = format!("[[consumer.{consumer}.deliver]]");
    let fields = Fields::of("deliver", item, "a table", problems)?;
    fields.refuse_unknown(&within, &KEYS, problems);
    let target = target(base, &fields, &within, problems);
    let (values, lenient, providers) = values(&fields, needs, target.as_ref(), problems);
    let hook = hook(base, &fields, problems);
    let (shows, says) = acknowledge(base, &fields, hook.is_some(), problems);
    let readers = readable(&fields, problems);
    let host = fields.text("host", "a host's name in quotes", problems);
    let order = Order {
        consumer: consumer.clone(),
        target: target?,
        readers,
        values,
        lenient,
        providers,
        hook,
        shows,
        says,
    };
    (problems.len() == before).then(|| Delivered {
        order,
        host: host.map(|host| (*host.get_ref()).to_owned()),
        line: 0,
        span: item.span(),
    })
}

fn target(
    base: &Path,
    fields: &Fields<'_, '_>,
    within: &str,
    problems: &mut Vec<Problem>,
) -> Option<Target> {
    let named: Vec<&str> = PLACES
        .into_iter()
        .filter(|key| fields.item(key).is_some())
        .collect();
    let [key] = named[..] else {
        let what = match named.len() {
            0 => format!("{within} names no place"),
            _ => format!("{within} names more than one place"),
        };
        problems.push(Problem::error(fields.span.clone(), what).help(
            "one of: env_file = \"…\", json_file = \"…\", folder = \"…\", program = [\"…\"]; a table for each place",
        ));
        return None;
    };
    if key != "env_file" && fields.item("readers").is_some() {
        let problem = Problem::error(fields.span_of("readers"), "`readers` is for an env_file");
        problems.push(problem.help("leave it out: nothing is quoted there"));
    }
    if key == "program" {
        let words = texts(fields, "program", problems)?;
        return (!words.is_empty())
            .then_some(Target::Program(words))
            .or_else(|| {
                problems.push(Problem::error(
                    fields.span_of("program"),
                    "`program` is empty",
                ));
                None
            });
    }
    let path = path(base, fields, key, problems)?;
    Some(Target::Place(match key {
        "env_file" => Place::File(path, Format::Env(env_readers(fields, problems))),
        "json_file" => Place::File(path, Format::Json),
        _ => Place::Folder(path),
    }))
}

fn path(
    base: &Path,
    fields: &Fields<'_, '_>,
    key: &str,
    problems: &mut Vec<Problem>,
) -> Option<PathBuf> {
    let path = auth::path(base, fields, key, problems)?;
    if path.file_name().is_none() {
        let what = format!("`{key}` names no file");
        problems.push(Problem::error(fields.span_of(key), what));
        return None;
    }
    // Whoever calls the manifest by another path, from another folder, means the same place.
    Some(std::path::absolute(&path).unwrap_or(path))
}

fn env_readers(fields: &Fields<'_, '_>, problems: &mut Vec<Problem>) -> Vec<Reader> {
    let Some(words) = texts(fields, "readers", problems) else {
        return Reader::ALL.to_vec();
    };
    let mut readers = Vec::new();
    for word in &words {
        match Reader::ALL.into_iter().find(|reader| reader.as_str() == word) {
            Some(reader) => readers.push(reader),
            None => problems.push(
                Problem::error(fields.span_of("readers"), format!("no reader is called {}", quoted(word)))
                    .help("systemd, shell, docker or dotenv; without `readers` it is written for all four"),
            ),
        }
    }
    if words.is_empty() {
        problems.push(Problem::error(
            fields.span_of("readers"),
            "`readers` is empty",
        ));
    }
    readers
}

type Values = (Vec<(String, Template)>, bool, BTreeSet<ProviderName>);

fn values(
    fields: &Fields<'_, '_>,
    needs: &BTreeSet<ProviderName>,
    target: Option<&Target>,
    problems: &mut Vec<Problem>,
) -> Values {
    let Some(item) = fields.item("values") else {
        return (default_values(needs), true, needs.clone());
    };
    let Some(table) = Fields::of("values", item, "a table", problems) else {
        return (Vec::new(), false, BTreeSet::new());
    };
    let (mut values, mut providers) = (Vec::new(), BTreeSet::new());
    for (key, item) in table.table {
        let name = key.get_ref().as_ref();
        if let Some(rule) = wrong_name(name, target) {
            problems.push(Problem::error(
                key.span(),
                format!("{} {rule}", quoted(name)),
            ));
        }
        let DeValue::String(text) = item.get_ref() else {
            problems.push(wrong_type(
                name,
                item,
                "a text with places, as in \"{database.url}\"",
            ));
            continue;
        };
        match template(text, needs, &mut providers) {
            Ok(template) => values.push((name.to_owned(), template)),
            Err(why) => problems.push(Problem::error(item.span(), why)),
        }
    }
    if table.table.is_empty() {
        problems.push(Problem::error(item.span(), "`values` is empty"));
    }
    (values, false, providers)
}

fn template(
    text: &str,
    needs: &BTreeSet<ProviderName>,
    providers: &mut BTreeSet<ProviderName>,
) -> Result<Template, String> {
    let template = Template::parse(text).map_err(|fault| fault.to_string())?;
    let list = || {
        needs
            .iter()
            .map(ProviderName::as_str)
            .collect::<Vec<_>>()
            .join(", ")
    };
    for place in template.places() {
        let named = place.provider.as_deref();
        let found = match named {
            Some(name) => needs.iter().find(|one| one.as_str() == name),
            None if needs.len() == 1 => needs.first(),
            None => return Err(format!("{place}: of which provider? It needs {}", list())),
        };
        match found {
            Some(provider) => drop(providers.insert(provider.clone())),
            None => {
                return Err(format!(
                    "{place}: the consumer does not need that provider; it needs {}",
                    list()
                ));
            }
        }
    }
    Ok(template)
}

/// What a name must be at such a place, if it is not that.
fn wrong_name(name: &str, target: Option<&Target>) -> Option<&'static str> {
    let file =
        |name: &str| !name.is_empty() && !name.contains(['/', '\0']) && !name.starts_with('.');
    match target {
        Some(Target::Place(Place::File(_, Format::Env(_)))) if !is_name(name) => {
            Some("is no variable's name: letters, digits and `_`, and no digit first")
        }
        Some(Target::Place(Place::Folder(_))) if !file(name) => {
            Some("is no file's name: no `/`, and no `.` first")
        }
        _ if name.is_empty() => Some("is empty"),
        _ => None,
    }
}

fn readable(fields: &Fields<'_, '_>, problems: &mut Vec<Problem>) -> Readable {
    let mut mode = Readable::default().mode;
    if let Some(text) = fields.text("mode", "a mode in quotes, as in \"0640\"", problems) {
        match u32::from_str_radix(text.get_ref(), 8) {
            Ok(given) if given & !0o777 == 0 && given & 0o400 != 0 => mode = given,
            _ => problems.push(
                Problem::error(
                    text.span(),
                    format!("{} is no mode", quoted(text.get_ref())),
                )
                .help("an octal one that lets its owner read, as in \"0640\""),
            ),
        }
        if mode & 0o002 != 0 {
            problems.push(Problem::error(text.span(), "everybody could write there"));
        }
        if mode & 0o004 != 0 {
            problems.push(Problem::warning(
                text.span(),
                "everybody on the host can read it",
            ));
        }
    }
    let mut owner = |key: &str| {
        let text = fields.text(key, "a name or number in quotes", problems)?;
        if text.get_ref().is_empty() {
            problems.push(Problem::error(text.span(), format!("`{key}` is empty")));
        }
        Some(Owner::of(text.get_ref()))
    };
    Readable {
        mode,
        user: owner("user"),
        group: owner("group"),
    }
}

fn hook(
    base: &Path,
    fields: &Fields<'_, '_>,
    problems: &mut Vec<Problem>,
) -> Option<(Hook, Duration)> {
    const HELP: &str = "reload = { command = [\"…\"] }, { signal = \"HUP\", pid_file = \"…\" } or { unit = \"web.service\" }";
    let item = fields.item("reload")?;
    let hook = Fields::of("reload", item, "a table", problems)?;
    let known = ["command", "signal", "pid_file", "unit", "verb", "timeout"];
    hook.refuse_unknown("`reload`", &known, problems);
    let deadline = match hook.text("timeout", "a time in quotes, as in \"30s\"", problems) {
        None => HOOK,
        Some(text) => match units::parse(text.get_ref()) {
            Ok(time) if !time.is_zero() && time <= HOOK_MOST => time,
            _ => {
                let what = format!("{} is no time of at most 5 minutes", quoted(text.get_ref()));
                problems.push(Problem::error(text.span(), what));
                HOOK
            }
        },
    };
    let given: Vec<&str> = ["command", "signal", "unit"]
        .into_iter()
        .filter(|key| hook.item(key).is_some())
        .collect();
    let [kind] = given[..] else {
        problems.push(
            Problem::error(item.span(), "`reload` names one way to tell the consumer").help(HELP),
        );
        return None;
    };
    let told = match kind {
        "command" => {
            Hook::Command(texts(&hook, "command", problems).filter(|words| !words.is_empty())?)
        }
        "signal" => {
            let signal = one_of(&hook, "signal", &Sign::ALL, Sign::as_str, problems)?;
            if hook.item("pid_file").is_none() {
                problems.push(
                    Problem::error(item.span(), "`pid_file` is missing: whom to signal").help(HELP),
                );
            }
            Hook::Signal {
                signal,
                pid_file: path(base, &hook, "pid_file", problems)?,
            }
        }
        _ => {
            let unit = hook.text("unit", "a unit's name in quotes", problems)?;
            let verb = match hook.item("verb") {
                None => Verb::ReloadOrRestart,
                Some(_) => one_of(&hook, "verb", &Verb::ALL, Verb::as_str, problems)?,
            };
            Hook::Unit {
                unit: (*unit.get_ref()).to_owned(),
                verb,
            }
        }
    };
    Some((told, deadline))
}

pub(super) fn one_of<T: Copy>(
    fields: &Fields<'_, '_>,
    key: &str,
    all: &[T],
    word: impl Fn(T) -> &'static str,
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let text = fields.text(key, "a word in quotes", problems)?;
    let found = all
        .iter()
        .copied()
        .find(|one| word(*one) == *text.get_ref());
    if found.is_none() {
        let words: Vec<&str> = all.iter().map(|one| word(*one)).collect();
        let problem = Problem::error(
            text.span(),
            format!("`{key}` cannot be {}", quoted(text.get_ref())),
        );
        problems.push(problem.help(format!("one of: {}", words.join(", "))));
    }
    found
}

fn acknowledge(
    base: &Path,
    fields: &Fields<'_, '_>,
    hook: bool,
    problems: &mut Vec<Problem>,
) -> (Shows, Option<PathBuf>) {
    const HELP: &str = "\"reload\" (its hook ended well), \"person\" (`mesh ack delivery`), or { file = \"…\" } in which the consumer writes the version";
    let usual = if hook { Shows::Hook } else { Shows::Nothing };
    let Some(item) = fields.item("acknowledge") else {
        return (usual, None);
    };
    match item.get_ref() {
        DeValue::Table(_) => {
            let Some(table) = Fields::of("acknowledge", item, "a table", problems) else {
                return (usual, None);
            };
            table.refuse_unknown("`acknowledge`", &["file"], problems);
            match path(base, &table, "file", problems) {
                Some(file) => (Shows::Itself, Some(file)),
                None => {
                    problems.push(
                        Problem::error(item.span(), "`file` is missing in `acknowledge`")
                            .help(HELP),
                    );
                    (usual, None)
                }
            }
        }
        DeValue::String(word) => match word.as_ref() {
            "reload" if hook => (Shows::Hook, None),
            "reload" => {
                problems.push(
                    Problem::error(
                        item.span(),
                        "there is no `reload` that could acknowledge it",
                    )
                    .help(HELP),
                );
                (usual, None)
            }
            "person" => (Shows::Itself, None),
            "login" => {
                let what = "`acknowledge = \"login\"` comes with rotation; not built yet";
                problems.push(Problem::error(item.span(), what).help(HELP));
                (usual, None)
            }
            other => {
                let what = format!("`acknowledge` cannot be {}", quoted(other));
                problems.push(Problem::error(item.span(), what).help(HELP));
                (usual, None)
            }
        },
        _ => {
            problems.push(wrong_type("acknowledge", item, HELP));
            (usual, None)
        }
    }
}

/// A list of texts.
pub(super) fn texts(
    fields: &Fields<'_, '_>,
    key: &str,
    problems: &mut Vec<Problem>,
) -> Option<Vec<String>> {
    let item = fields.item(key)?;
    let DeValue::Array(list) = item.get_ref() else {
        problems.push(wrong_type(key, item, "a list of texts: [\"…\", \"…\"]"));
        return None;
    };
    let mut all = Vec::with_capacity(list.len());
    for one in list.iter() {
        match one.get_ref() {
            DeValue::String(text) if !text.contains('\0') => all.push(text.as_ref().to_owned()),
            _ => {
                problems.push(wrong_type(key, one, "a text in quotes"));
                return None;
            }
        }
    }
    Some(all)
}
