//! The manifest's JSON Schema (draft 2020-12), put together from every kind's own.
//!
//! A schema alone cannot tell which kind a `needs` table is for, since that stands in another table. So
//! such a table must fit one kind's values at least, with Meshkeeper's own keys added; which one it must
//! be, and everything else, is `mesh check`'s.

use serde_json::{Map, Value, json};

use super::kinds::{KindInfo, Kinds};
use super::timing::{LENGTHS, ROTATES};
use super::units;

const NAME: &str = "^[a-z0-9][a-z0-9_-]{0,62}$";

/// The whole schema.
pub fn manifest(kinds: &Kinds) -> Value {
    let mut definitions = Map::new();
    definitions.insert("secret".to_owned(), secret());
    let options = options_of(kinds, &mut definitions);
    definitions.insert("provider".to_owned(), provider(kinds, options));
    let mut needs = Vec::new();
    for info in kinds.iter() {
        needs.push(needs_of(info, &mut definitions));
    }
    if needs.is_empty() {
        needs.push(json!({ "type": "object" }));
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A Meshkeeper manifest (mesh.toml)",
        "type": "object",
        "additionalProperties": false,
        "required": ["mesh"],
        "properties": {
            "mesh": mesh(),
            "provider": named(json!({ "$ref": "#/$defs/provider" }), "The backend servers, by name."),
            "consumer": named(json!({
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "needs": named(json!({ "anyOf": needs }), "What it needs, by provider."),
                    "deliver": { "type": "array", "items": deliver(), "description": "Where its credentials are brought." },
                    "container": { "type": "array", "items": container(), "description": "The containers that run for it." },
                    "unit": { "type": "array", "items": unit(), "description": "The systemd units that run for it." },
                },
            }), "The consumers, by name."),
        },
        "$defs": definitions,
    })
}

fn deliver() -> Value {
    let text = |about: &str| json!({ "type": "string", "minLength": 1, "description": about });
    let words = |about: &str| json!({ "type": "array", "minItems": 1, "items": { "type": "string" }, "description": about });
    json!({
        "type": "object",
        "additionalProperties": false,
        "oneOf": [
            { "required": ["env_file"] },
            { "required": ["json_file"] },
            { "required": ["folder"] },
            { "required": ["program"] },
        ],
        "properties": {
            "env_file": text("A file of NAME=value, from the manifest's folder."),
            "json_file": text("A file with one JSON object of texts."),
            "folder": text("A folder with one file for each value, as systemd's LoadCredential reads it."),
            "program": words("A program, with arguments, that takes them as JSON on its standard input."),
            "readers": { "type": "array", "minItems": 1, "items": { "enum": ["systemd", "shell", "docker", "dotenv"] }, "description": "Who reads the env file: it is quoted so that all of them read the same. All four unless set." },
            "values": { "type": "object", "minProperties": 1, "additionalProperties": { "type": "string" }, "description": "Each name with a text: {url}, {user}, {password}, {host}, {port} and {name} are filled in, with the provider before them where there are several: {database.url}. Unless set: CACHE_URL, CACHE_PASSWORD and so on, of every provider." },
            "mode": { "type": "string", "pattern": "^0?[0-7]{3}$", "description": "The mode of the files, octal; 0600 unless set." },
            "user": text("Whose the files are: a name or number of this host."),
            "group": text("Their group."),
            "reload": {
                "type": "object",
                "additionalProperties": false,
                "description": "How the consumer is told: a command, a signal, or a systemd unit.",
                "properties": {
                    "command": words("A program with its arguments."),
                    "signal": { "enum": ["HUP", "USR1", "USR2", "TERM"] },
                    "pid_file": text("The file with the number of the process to signal."),
                    "unit": text("A systemd unit."),
                    "verb": { "enum": ["reload", "restart", "reload-or-restart"] },
                    "timeout": { "type": "string", "description": "How long it may take, at most 5 minutes; 30s unless set." },
                },
            },
            "acknowledge": {
                "description": "How it shows that it took a version up: its reload ended well, a person says so, or it writes the version into a file.",
                "anyOf": [
                    { "enum": ["reload", "person"] },
                    { "type": "object", "additionalProperties": false, "required": ["file"], "properties": { "file": text("The file.") } },
                ],
            },
            "host": text("On which host, where several share a bus."),
        },
    })
}

fn container() -> Value {
    let text = |about: &str| json!({ "type": "string", "minLength": 1, "description": about });
    let texts = |about: &str| json!({ "type": "array", "items": { "type": "string" }, "description": about });
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["image"],
        "properties": {
            "name": { "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]*$", "description": "Its name on the engine; the consumer's unless set." },
            "engine": text("The socket of Docker or Podman; /run/docker.sock unless set."),
            "image": text("The image, which must be on the host: none is pulled."),
            "command": texts("Instead of the image's own command."),
            "env": { "type": "object", "additionalProperties": { "type": "string" }, "description": "Variables in plain. Whoever may ask the engine sees them." },
            "env_files": texts("Delivered env files whose variables it gets. Whoever may ask the engine sees them."),
            "mounts": texts("PATH:INSIDE, PATH:INSIDE:ro or VOLUME:INSIDE; a path begins with / or a dot."),
            "ports": texts("HOST:INSIDE or ADDRESS:HOST:INSIDE, with /udp at the end where it is that."),
            "network": text("The network; the engine's own unless set."),
            "user": text("The user inside; the image's unless set."),
            "restart": { "enum": ["no", "on-failure", "always", "unless-stopped"], "description": "When the engine starts it again by itself; unless-stopped unless set." },
            "host": text("On which host, where several share a bus."),
        },
    })
}

fn unit() -> Value {
    let text = |about: &str| json!({ "type": "string", "minLength": 1, "description": about });
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["name"],
        "properties": {
            "name": text("The unit, as in web.service."),
            "manager": { "enum": ["system", "user"], "description": "Under which of systemd's managers it is; system unless set." },
            "host": text("On which host, where several share a bus."),
        },
    })
}

fn mesh() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["id"],
        "properties": {
            "id": { "type": "string", "pattern": NAME, "description": "Tells this mesh's logins from others'. Do not change it later." },
            "bus": bus(),
            "alive": alive(),
            "page": page(),
        },
    })
}

fn alive() -> Value {
    json!({
        "description": "Who beyond this mesh is told that every loop makes progress, so that it raises an alarm when that stops.",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "url": {
                "description": "An address that is asked for: https, or http on this machine. Whoever knows it can speak for this mesh.",
                "anyOf": [
                    { "type": "string", "pattern": "^https?://" },
                    { "$ref": "#/$defs/secret" },
                ],
            },
            "file": { "type": "string", "minLength": 1, "description": "A file that is written each time." },
            "every": { "type": "string", "description": "How often; 60 s unless given." },
        },
    })
}

fn page() -> Value {
    let file = |about: &str| json!({ "type": "string", "minLength": 1, "description": about });
    json!({
        "description": "How the page of `mesh up --listen` is guarded beyond this machine.",
        "type": "object",
        "additionalProperties": false,
        "dependentRequired": { "certificate": ["key"], "key": ["certificate"] },
        "properties": {
            "token": { "$ref": "#/$defs/secret", "description": "Where the token is, at least 20 characters; one is made in the data folder unless set." },
            "certificate": file("A PEM file: the certificate with its chain."),
            "key": file("A PEM file: its private key."),
            "names": { "type": "array", "items": { "type": "string", "pattern": "^[A-Za-z0-9.-]+$" }, "description": "The names under which the page is asked for." },
            "behind_proxy": { "type": "boolean", "description": "A proxy before it ends TLS and says so in X-Forwarded-Proto." },
        },
    })
}

fn bus() -> Value {
    let address = json!({ "type": "string", "pattern": "^(nats|tls)://" });
    let file = json!({ "type": "string", "minLength": 1 });
    json!({
        "description": "Where shared state is kept: in the data folder, or on NATS servers that `mesh bus bootstrap` was run for.",
        "anyOf": [
            { "const": "embedded" },
            address,
            {
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "url": address,
                    "urls": { "type": "array", "minItems": 1, "items": address, "description": "Every server of the cluster." },
                    "user": { "type": "string", "minLength": 1 },
                    "password": { "$ref": "#/$defs/secret" },
                    "weak": { "type": "boolean", "description": "The password may be shorter than 8 bytes." },
                    "creds": { "$ref": "#/$defs/secret", "description": "A NATS credentials file." },
                    "nkey": { "$ref": "#/$defs/secret", "description": "The seed of an NKey." },
                    "inbox": { "type": "string", "description": "The prefix of the subjects on which answers come." },
                    "tls": {
                        "type": "object",
                        "additionalProperties": false,
                        "properties": { "ca": file, "client_cert": file, "client_key": file },
                    },
                    "dangerously_plain": { "type": "boolean", "description": "Speak to a host that is not this machine without TLS." },
                },
            },
        ],
    })
}

fn named(table: Value, about: &str) -> Value {
    json!({
        "type": "object",
        "description": about,
        "propertyNames": { "pattern": NAME },
        "additionalProperties": table,
    })
}

fn secret() -> Value {
    json!({
        "description": "Where a password is. The password itself never stands in the manifest.",
        "type": "object",
        "additionalProperties": false,
        "minProperties": 1,
        "maxProperties": 1,
        "properties": {
            "env": { "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "description": "The name of a variable." },
            "file": { "type": "string", "minLength": 1, "description": "A file, from the manifest's folder. One line break at its end does not count." },
        },
    })
}

fn provider(kinds: &Kinds, options: Vec<Value>) -> Value {
    let words: Vec<&str> = kinds.words().collect();
    let flag = |about: &str| json!({ "type": "boolean", "description": about });
    let file = |about: &str| json!({ "type": "string", "minLength": 1, "description": about });
    let mut properties = Map::new();
    let mut put = |key: &str, value: Value| properties.insert(key.to_owned(), value);
    let kind = match words.is_empty() {
        true => json!({ "type": "string" }),
        false => json!({ "enum": words, "description": "The kind of backend." }),
    };
    put("kind", kind);
    put(
        "url",
        json!({ "type": "string", "description": "Where it is: scheme://host:port. No login, no password." }),
    );
    put(
        "urls",
        json!({ "type": "array", "minItems": 1, "items": { "type": "string" }, "description": "Several servers that do not share logins." }),
    );
    put(
        "admin",
        json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["user"],
            "description": "The admin login.",
            "properties": {
                "user": { "type": "string", "minLength": 1 },
                "password": { "$ref": "#/$defs/secret" },
                "weak": flag("Its password may be shorter than 8 bytes."),
            },
        }),
    );
    put(
        "tls",
        json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "ca": file("PEM of the authorities to trust; the system's, if not given."),
                "client_cert": file("PEM of our certificate."),
                "client_key": file("PEM of its key."),
                "dangerously_unverified": flag("Do not verify the server. A standing condition says so."),
            },
        }),
    );
    for length in &LENGTHS {
        let (least, most) = (units::show(length.min), units::show(length.max));
        put(
            length.key,
            json!({
                "type": "string",
                "default": units::show(length.default),
                "description": format!("{}, such as \"60s\", \"5 min\", \"PT30M\"; from {least} to {most}.", capital(length.meaning)),
            }),
        );
    }
    put(
        "max_removals",
        json!({ "type": "integer", "minimum": 0, "default": 3, "description": "How many removals in an hour need nobody's word." }),
    );
    put(
        "canary",
        json!({ "type": "boolean", "default": true, "description": "Keep a login of Meshkeeper's own there, without rights and switched off, that must be in every list. Without it nothing is removed unless a person says so." }),
    );
    put(
        "dangerously_plain",
        flag("Allow a plain connection to another machine."),
    );
    if !options.is_empty() {
        put(
            "options",
            json!({ "anyOf": options, "description": "This kind's own settings." }),
        );
    }
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["kind"],
        "oneOf": [{ "required": ["url"] }, { "required": ["urls"] }],
        "properties": properties,
    })
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}

/// Meshkeeper's own keys of a `needs` table.
fn own_keys() -> Map<String, Value> {
    let flag = |default: bool, about: &str| json!({ "type": "boolean", "default": default, "description": about });
    let all = json!({
        "login": { "type": "string", "minLength": 1, "description": "The login; the consumer's name, if not given." },
        "password": { "$ref": "#/$defs/secret", "description": "Where its password is; made once and kept sealed, if not given." },
        "enabled": flag(true, "Off keeps the login switched off, with data and password kept."),
        "adopt": flag(false, "Take over a login of that name that exists."),
        "exact": flag(false, "On an adopted login, take back rights beyond these."),
        "weak": flag(false, "The given password may be shorter than 8 bytes."),
    });
    let mut map = match all {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    for length in ROTATES {
        let about = format!("{}.", capital(length.meaning));
        map.insert(
            length.key.to_owned(),
            json!({ "type": "string", "description": about }),
        );
    }
    map
}

/// The settings of each kind that has some.
fn options_of(kinds: &Kinds, definitions: &mut Map<String, Value>) -> Vec<Value> {
    let some = kinds.iter().filter_map(|info| {
        let mut schema = info.options.clone()?;
        common(
            &mut schema,
            &format!("{}.options", info.descriptor.kind),
            definitions,
        );
        Some(schema)
    });
    some.collect()
}

/// One kind's values with our own keys added, its definitions moved to the common ones.
fn needs_of(info: &KindInfo, definitions: &mut Map<String, Value>) -> Value {
    let word = info.descriptor.kind;
    let mut schema = info.schema.clone();
    common(&mut schema, word, definitions);
    let Some(map) = schema.as_object_mut() else {
        return json!({ "type": "object" });
    };
    map.insert(
        "title".to_owned(),
        json!(format!(
            "What a consumer needs of a provider of kind \"{word}\""
        )),
    );
    let properties = map.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        properties.extend(own_keys());
    }
    schema
}

/// Moves a schema's definitions to the common ones, under its word.
fn common(schema: &mut Value, word: &str, definitions: &mut Map<String, Value>) {
    let own = schema.as_object_mut().and_then(|map| {
        map.remove("$schema");
        map.remove("$defs")
    });
    if let Some(Value::Object(own)) = own {
        for (name, mut definition) in own {
            move_references(&mut definition, word);
            definitions.insert(format!("{word}.{name}"), definition);
        }
    }
    move_references(schema, word);
}

fn move_references(schema: &mut Value, word: &str) {
    match schema {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(target) if key == "$ref" => {
                        if let Some(name) = target.strip_prefix("#/$defs/") {
                            *target = format!("#/$defs/{word}.{name}");
                        }
                    }
                    other => move_references(other, word),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|item| move_references(item, word)),
        _ => {}
    }
}
