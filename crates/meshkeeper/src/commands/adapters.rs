//! `mesh adapters`: the kinds of backend, what each can do, and what it cannot.

use mesh_sdk::adapter::Descriptor;
use serde::Serialize;
use serde_json::Value;

use super::Context;
use crate::cli::AdaptersArgs;
use crate::errors::Fault;
use crate::manifest::{KindInfo, nearest};
use crate::printer::{Table, Tone};

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    descriptor: &'a Descriptor,
    cannot: Vec<String>,
    values: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    options: Option<&'a Value>,
}

impl<'a> From<&'a KindInfo> for Answer<'a> {
    fn from(kind: &'a KindInfo) -> Self {
        let cannot = abilities(&kind.descriptor)
            .into_iter()
            .filter(|(_, can)| !can);
        Self {
            cannot: cannot.map(|(name, _)| name).collect(),
            descriptor: &kind.descriptor,
            values: &kind.schema,
            options: kind.options.as_ref(),
        }
    }
}

pub(super) fn run(args: &AdaptersArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    match &args.kind {
        None => list(cx),
        Some(word) => one(cx, word)?,
    }
    Ok(0)
}

/// Every ability with whether the kind has it; `create` and `remove` every kind has.
fn abilities(descriptor: &Descriptor) -> Vec<(String, bool)> {
    let declared = serde_json::to_value(descriptor.capabilities);
    let Ok(Value::Object(declared)) = declared else {
        return Vec::new();
    };
    let pairs = declared
        .into_iter()
        .map(|(name, can)| (name, can == Value::Bool(true)));
    pairs.collect()
}

/// An ability in words, for people.
fn plain(ability: &str) -> String {
    match ability {
        "server" => "tell of its server".to_owned(),
        "holds" => "ask".to_owned(),
        "holds_all" => "ask in bulk".to_owned(),
        "create_all" => "create in bulk".to_owned(),
        "disable" => "switch off".to_owned(),
        "uses" => "tell who is in use".to_owned(),
        "find" => "import".to_owned(),
        "purge" => "purge data".to_owned(),
        "fence" => "refuse an earlier holder".to_owned(),
        other => other.replace('_', " "),
    }
}

fn words(descriptor: &Descriptor, wanted: bool) -> String {
    let some = abilities(descriptor)
        .into_iter()
        .filter(|(_, can)| *can == wanted);
    let words: Vec<String> = some.map(|(name, _)| plain(&name)).collect();
    match words.is_empty() {
        true => "-".to_owned(),
        false => words.join(", "),
    }
}

fn list(cx: &Context<'_>) {
    if cx.printer.is_json() {
        let all: Vec<Answer<'_>> = cx.kinds.iter().map(|kind| kind.as_ref().into()).collect();
        return cx.printer.json(&all);
    }
    let mut table = Table::new(["KIND", "BACKEND", "ADDRESS", "CAN", "CANNOT"]);
    for kind in cx.kinds.iter() {
        let it = &kind.descriptor;
        let schemes: Vec<String> = it
            .schemes
            .iter()
            .map(mesh_sdk::adapter::Scheme::written)
            .collect();
        table.row([
            it.kind.to_owned(),
            it.title.to_owned(),
            schemes.join(" "),
            words(it, true),
            words(it, false),
        ]);
    }
    if table.is_empty() {
        return cx
            .printer
            .note("no kind of backend is built into this program");
    }
    cx.printer.table(&table);
    cx.printer
        .note("All create and remove. `mesh adapters KIND` tells more: limits, rights, keys.");
}

fn one(cx: &Context<'_>, word: &str) -> Result<(), Fault> {
    let Some(kind) = cx.kinds.get(word) else {
        let known: Vec<&str> = cx.kinds.words().collect();
        let help = match nearest(word, cx.kinds.words()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("kinds: {}", known.join(", ")),
        };
        return Err(Fault::Usage(format!(
            "no kind `{}` is known; {help}",
            word.escape_debug()
        )));
    };
    if cx.printer.is_json() {
        cx.printer.json(&Answer::from(kind.as_ref()));
        return Ok(());
    }
    let it = &kind.descriptor;
    let mut table = Table::new(["", ""]);
    let mut say = |name: &str, text: String| {
        if !text.is_empty() {
            table.row([cx.printer.paint(Tone::Dim, name), text]);
        }
    };
    say("can", words(it, true));
    say("cannot", words(it, false));
    say("proof", it.proof.to_owned());
    say("a restart", it.restart.to_owned());
    say("identity", it.identity.to_owned());
    say("mark", it.mark.to_owned());
    say("rotation", it.rotation.to_owned());
    say("limits", it.limits.to_owned());
    say("kept", it.keeps.to_owned());
    say("reserved", it.reserved.join(", "));
    let schemes = it.schemes.iter().map(|s| {
        let how = if s.encrypted {
            "encrypted"
        } else {
            "plain, this machine only"
        };
        match s.file {
            true => format!("{}:path (on this machine)", s.name),
            false => format!("{}://host:{} ({how})", s.name, s.default_port),
        }
    });
    say("addresses", schemes.collect::<Vec<_>>().join("\n"));
    say("admin needs", it.admin_rights.join("\n"));
    cx.printer.answer(&format!(
        "{}: {}",
        cx.printer.paint(Tone::Head, it.kind),
        it.title
    ));
    cx.printer.table(&table);
    cx.printer.answer(&format!(
        "\nKeys of a `needs` table, beside {}:",
        crate::manifest::NEED_KEYS.join(", ")
    ));
    cx.printer.table(&keys(&kind.schema));
    if let Some(options) = &kind.options {
        cx.printer.answer("\nKeys of a provider's `options` table:");
        cx.printer.table(&keys(options));
    }
    Ok(())
}

/// The keys of a schema, with what each is for.
fn keys(schema: &Value) -> Table {
    let mut table = Table::new(["KEY", "", "MEANING"]);
    let properties = schema["properties"].as_object();
    for (key, property) in properties.into_iter().flatten() {
        let required = schema["required"].as_array();
        let needed = required.is_some_and(|all| all.iter().any(|one| one == key));
        let about = property["description"].as_str().unwrap_or("");
        let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
        table.row([
            key.clone(),
            if needed { "needed" } else { "" }.to_owned(),
            about,
        ]);
    }
    table
}
