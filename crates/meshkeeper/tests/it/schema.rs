//! The JSON Schema agrees with the parser on what is in order and on the plainest mistakes.

use serde_json::Value;

use crate::manifest::{GOOD, parse};
use crate::program::{built, mesh};

/// Enough of draft 2020-12 for our own schema; a word that it does not know fails the test.
fn valid(root: &Value, schema: &Value, it: &Value) -> bool {
    let Value::Object(rules) = schema else {
        return schema == &Value::Bool(true);
    };
    rules.iter().all(|(rule, arg)| match rule.as_str() {
        "$schema" | "$defs" | "title" | "description" | "default" | "format" => true,
        "$ref" => {
            let path = arg.as_str().unwrap().strip_prefix('#').unwrap();
            valid(root, root.pointer(path).unwrap(), it)
        }
        "type" => match arg {
            Value::Array(types) => types.iter().any(|t| is(t, it)),
            one => is(one, it),
        },
        "const" => it == arg,
        "enum" => arg.as_array().unwrap().contains(it),
        "pattern" => pattern(arg.as_str().unwrap(), it.as_str().unwrap_or("")),
        "minLength" => it
            .as_str()
            .is_none_or(|s| s.len() as u64 >= arg.as_u64().unwrap()),
        "minItems" => it
            .as_array()
            .is_none_or(|a| a.len() as u64 >= arg.as_u64().unwrap()),
        "minProperties" => it
            .as_object()
            .is_none_or(|o| o.len() as u64 >= arg.as_u64().unwrap()),
        "maxProperties" => it
            .as_object()
            .is_none_or(|o| o.len() as u64 <= arg.as_u64().unwrap()),
        "minimum" => it.as_f64().is_none_or(|n| n >= arg.as_f64().unwrap()),
        "maximum" => it.as_f64().is_none_or(|n| n <= arg.as_f64().unwrap()),
        "items" => it
            .as_array()
            .is_none_or(|a| a.iter().all(|x| valid(root, arg, x))),
        "required" => {
            let names = arg.as_array().unwrap();
            it.as_object()
                .is_none_or(|o| names.iter().all(|n| o.contains_key(n.as_str().unwrap())))
        }
        "anyOf" => arg.as_array().unwrap().iter().any(|s| valid(root, s, it)),
        "oneOf" => {
            arg.as_array()
                .unwrap()
                .iter()
                .filter(|s| valid(root, s, it))
                .count()
                == 1
        }
        "propertyNames" => it.as_object().is_none_or(|o| {
            o.keys()
                .all(|key| valid(root, arg, &Value::from(key.as_str())))
        }),
        "properties" => it.as_object().is_none_or(|o| {
            let known = arg.as_object().unwrap();
            o.iter()
                .all(|(key, x)| known.get(key).is_none_or(|s| valid(root, s, x)))
        }),
        "additionalProperties" => it.as_object().is_none_or(|o| {
            let known = rules.get("properties").and_then(Value::as_object);
            let more = o
                .iter()
                .filter(|(key, _)| known.is_none_or(|k| !k.contains_key(*key)));
            more.into_iter().all(|(_, x)| valid(root, arg, x))
        }),
        other => panic!("the schema uses `{other}`, which this test does not know"),
    })
}

fn is(wanted: &Value, it: &Value) -> bool {
    match wanted.as_str().unwrap() {
        "object" => it.is_object(),
        "array" => it.is_array(),
        "string" => it.is_string(),
        "boolean" => it.is_boolean(),
        "integer" => it.is_i64() || it.is_u64(),
        "null" => it.is_null(),
        other => panic!("type {other}"),
    }
}

/// The two patterns that the schema uses.
fn pattern(pattern: &str, text: &str) -> bool {
    let head = |c: char| match pattern {
        "^[a-z0-9][a-z0-9_-]{0,62}$" => c.is_ascii_lowercase() || c.is_ascii_digit(),
        "^[A-Za-z_][A-Za-z0-9_]*$" => c.is_ascii_alphabetic() || c == '_',
        other => panic!("pattern {other}"),
    };
    let dash = pattern.contains("_-]");
    let tail = |c: char| c.is_ascii_alphanumeric() || c == '_' || (dash && c == '-');
    text.starts_with(head) && text.chars().all(tail) && text.len() <= 63
}

fn json(toml: &str) -> Value {
    let value: toml::Value = toml::from_str(toml).unwrap();
    serde_json::to_value(value).unwrap()
}

fn schema() -> Value {
    let folder = tempfile::tempdir().unwrap();
    let ran = mesh(folder.path(), &["schema"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    serde_json::from_str(&ran.out).unwrap()
}

#[test]
fn a2_the_schema_takes_what_the_parser_takes() {
    let schema = schema();
    assert!(valid(&schema, &schema, &json(GOOD)));
    for (from, to) in [
        ("id  = \"home\"", "id = \"Home\""),
        ("id  = \"home\"", ""),
        ("[mesh]", "[mehs]"),
        ("kind  = \"shelf\"", "kind = \"shlef\""),
        ("verify_every", "verfiy_every"),
        ("verify_every = \"5 min\"", "verify_every = 300"),
        ("max_removals = 7", "max_removals = -7"),
        ("boards = [\"web:*\"]", "bords = []"),
        ("boards   = []", ""),
        ("access = \"put\"", "access = \"putt\""),
        ("{ env = \"SHELF_ADMIN\" }", "\"literal\""),
        ("{ env = \"SHELF_ADMIN\" }", "{ env = \"A-B\" }"),
        (
            "{ file = \"secrets/api\" }",
            "{ file = \"x\", env = \"X\" }",
        ),
        ("{ file = \"secrets/api\" }", "{}"),
        ("enabled  = false", "enabled = \"no\""),
        ("[consumer.web.needs.store]", "[consumer.Web.needs.store]"),
        ("[consumer.web.needs.store]", "[consumer.web.need.store]"),
        ("urls  =", "url = \"shelf://[::1]\"\nurls ="),
    ] {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD, "{from}");
        assert!(parse(&text).problems.errors() > 0, "the parser takes {to}");
        assert!(
            !valid(&schema, &schema, &json(&text)),
            "the schema takes {to}"
        );
    }
}

#[test]
fn the_schema_is_as_it_was() {
    insta::assert_snapshot!(serde_json::to_string_pretty(&schema()).unwrap());
}

#[test]
fn the_built_program_prints_a_schema() {
    let folder = tempfile::tempdir().unwrap();
    let ran = built(folder.path(), &["schema"]);
    assert_eq!(ran.code, 0);
    let schema: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(schema["type"], "object");
}
