//! A kind's values: from TOML to the adapter's own type, with a place for every mistake.

use mesh_sdk::handle::ParsedValues;
use serde_json::{Map, Value};
use toml::de::DeValue;

use super::fields::{Fields, Item, wrong_type};
use super::kinds::KindInfo;
use super::{NEED_KEYS, fields};
use crate::errors::Problem;

/// Types a `needs` table's values. Every mistake is told, not only the first one that serde meets.
pub(crate) fn typed(
    fields: &Fields<'_, '_>,
    within: &str,
    info: &KindInfo,
    problems: &mut Vec<Problem>,
) -> Option<ParsedValues> {
    let before = problems.len();
    let values = collect(fields, within, info, problems);
    // A misspelt key is told once: as unknown, with what was meant, and not as missing too.
    let meant: Vec<String> = problems[before..]
        .iter()
        .filter_map(|p| p.meant.clone())
        .collect();
    for key in &info.required {
        let misspelt = meant
            .iter()
            .any(|meant| meant.contains(&format!("`{key}`")));
        if fields.item(key).is_none() && !misspelt {
            problems.push(missing(fields, within, key, info));
        }
    }
    match info.kind.parse_values(Value::Object(values.clone())) {
        Ok(parsed) if problems.len() == before => Some(parsed),
        Ok(_) => None,
        Err(error) => {
            explain(fields, within, info, values, error, problems);
            if problems.len() == before {
                problems.push(Problem::error(
                    fields.span.clone(),
                    format!("the values of {within} are not accepted"),
                ));
            }
            None
        }
    }
}

/// The values as JSON; unknown keys and what JSON cannot hold are told and left out.
fn collect(
    fields: &Fields<'_, '_>,
    within: &str,
    info: &KindInfo,
    problems: &mut Vec<Problem>,
) -> Map<String, Value> {
    let mut values = Map::new();
    for (key, item) in fields.table {
        let word = key.get_ref().as_ref();
        if NEED_KEYS.contains(&word) {
            continue;
        }
        if info.closed && !info.keys.iter().any(|known| known == word) {
            let known = info.keys.iter().map(String::as_str);
            let known = known.chain(NEED_KEYS.iter().copied());
            problems.push(fields::unknown_key(key, within, known));
            continue;
        }
        match json(item) {
            Ok(value) => {
                values.insert(word.to_owned(), value);
            }
            Err((at, wanted)) => problems.push(wrong_type(word, at, wanted)),
        }
    }
    values
}

/// An item as JSON; the error is where JSON cannot hold it, and what would do.
pub(super) fn json<'t, 'i>(item: &'t Item<'i>) -> Result<Value, (&'t Item<'i>, &'static str)> {
    Ok(match item.get_ref() {
        DeValue::String(text) => Value::String(text.clone().into_owned()),
        DeValue::Boolean(flag) => Value::Bool(*flag),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map(Value::from)
            .map_err(|_| (item, "a number of at most 64 bits"))?,
        DeValue::Float(number) => number
            .as_str()
            .replace('_', "")
            .parse::<f64>()
            .ok()
            .and_then(serde_json::Number::from_f64)
            .map(Value::Number)
            .ok_or((item, "a finite number"))?,
        DeValue::Datetime(_) => return Err((item, "a text in quotes")),
        DeValue::Array(list) => Value::Array(list.iter().map(json).collect::<Result<_, _>>()?),
        DeValue::Table(table) => {
            let entries = table.iter().map(|(key, item)| {
                let value = json(item)?;
                Ok((key.get_ref().clone().into_owned(), value))
            });
            Value::Object(entries.collect::<Result<_, _>>()?)
        }
    })
}

fn missing(fields: &Fields<'_, '_>, within: &str, key: &str, info: &KindInfo) -> Problem {
    let kind = info.descriptor.kind;
    let message = format!("`{key}` is missing in {within}");
    let problem = Problem::error(fields.span.clone(), message);
    problem.help(format!(
        "kind \"{kind}\" needs it; `mesh adapters {kind}` shows every key"
    ))
}

/// Finds the key that each of serde's complaints is about, by leaving keys out one by one.
fn explain(
    fields: &Fields<'_, '_>,
    within: &str,
    info: &KindInfo,
    mut values: Map<String, Value>,
    error: serde_json::Error,
    problems: &mut Vec<Problem>,
) {
    let mut complaint = error.to_string();
    loop {
        if let Some(key) = complaint
            .strip_prefix("missing field `")
            .and_then(|rest| rest.split('`').next())
        {
            let told = fields.item(key).is_some() || info.required.iter().any(|known| known == key);
            if !told {
                problems.push(missing(fields, within, key, info));
            }
            return;
        }
        let without = |key: &str| {
            let mut rest = values.clone();
            rest.remove(key);
            info.kind
                .parse_values(Value::Object(rest))
                .map(|_| ())
                .map_err(|e| e.to_string())
        };
        let culprit = values
            .keys()
            .map(|key| (key.clone(), without(key)))
            .find(|(_, outcome)| outcome.as_ref().err() != Some(&complaint));
        let Some((key, outcome)) = culprit else {
            problems.push(Problem::error(
                fields.span.clone(),
                format!("{within}: {}", plain(&complaint)),
            ));
            return;
        };
        let message = format!("`{key}`: {}", plain(&complaint));
        problems.push(Problem::error(fields.span_of(&key), message));
        values.remove(&key);
        match outcome {
            Ok(()) => return,
            Err(next) => complaint = next,
        }
    }
}

/// serde's words without the value that it quotes: the caret shows where it stands.
fn plain(complaint: &str) -> String {
    let expected = complaint
        .rsplit_once(", expected ")
        .map(|(_, wanted)| wanted);
    match expected {
        Some(wanted) if complaint.starts_with("unknown variant") => format!("must be {wanted}"),
        Some(wanted) if complaint.starts_with("invalid ") => format!("expected {}", people(wanted)),
        _ => complaint.to_owned(),
    }
}

/// A Rust type's name in words.
fn people(wanted: &str) -> &str {
    match wanted {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a sequence" => "a list: [ … ]",
        "a map" => "a table: { … }",
        "a boolean" => "true or false",
        other => other,
    }
}
