//! Tables for logins that a server holds already, as a person may append them to the manifest.
//!
//! A table is printed only if the manifest's own checks take it. Consumers' names follow from the logins,
//! so that the same server gives the same text again.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;

use mesh_sdk::handle::ParsedValues;
use mesh_sdk::mark::keyed;
use mesh_sdk::{ConsumerName, Login, ProviderName, Secret};
use serde_json::{Map, Value};

use super::across::TWIN;
use super::auth::placeholder;
use super::{CANARY_LOGINS, Manifest, Needed, PasswordSource, Provider, refusal};

/// The longest name of a consumer.
const LONGEST: usize = 63;

/// A login of the server that may become a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The login.
    pub login: Login,
    /// Its values, as a manifest would say them.
    pub values: Value,
    /// Whether it can be used.
    pub enabled: bool,
    /// What it has beyond what values can say.
    pub beyond: Vec<String>,
    /// How nodes of the provider differ about it.
    pub differs: Vec<String>,
}

/// A table: a candidate under a consumer's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// The name.
    pub consumer: ConsumerName,
    /// What stands in it. Its values are without those that are so by default.
    pub candidate: Candidate,
    /// The manifest has a consumer of that name, which needs nothing of this provider yet.
    pub joins: bool,
}

/// Why a login became no table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeftOut {
    /// The manifest asks for it, here or under another name of this server.
    AskedFor,
    /// Meshkeeper's own.
    Canary,
    /// A consumer's that is asked for no more, or has another login now: Meshkeeper takes care of it.
    Leftover,
    /// Its name is kept for the rotation of another login, or the other way round.
    Twin,
    /// A manifest could not ask for it; the field and the rule.
    Refused(String),
}

impl LeftOut {
    /// In words, as they follow a number.
    pub fn as_words(&self) -> &'static str {
        match self {
            LeftOut::AskedFor => "asked for already",
            LeftOut::Canary => "Meshkeeper's own",
            LeftOut::Leftover => "leaving or superseded",
            LeftOut::Twin => "kept for rotation",
            LeftOut::Refused(_) => "that no manifest can ask for",
        }
    }
}

/// What importing came to.
#[derive(Debug, Default)]
pub struct Imported {
    /// In the order of the logins.
    pub tables: Vec<Table>,
    /// In the order of the logins.
    pub left_out: Vec<(Login, LeftOut)>,
}

/// Logins that each node of a provider holds, made one list: what is on one is offered, and where they
/// differ the first node's is, and it is told.
pub fn united(nodes: Vec<(String, Vec<mesh_sdk::adapter::Found<Value>>)>) -> Vec<Candidate> {
    let names: Vec<String> = nodes.iter().map(|(name, _)| name.clone()).collect();
    let mut all: BTreeMap<Login, Vec<Option<mesh_sdk::adapter::Found<Value>>>> = BTreeMap::new();
    for (i, (_, found)) in nodes.into_iter().enumerate() {
        for one in found {
            let seen = all
                .entry(one.login.clone())
                .or_insert_with(|| vec![None; names.len()]);
            seen[i].get_or_insert(one);
        }
    }
    let each = all.into_iter();
    each.filter_map(|(login, seen)| one_of(login, &seen, &names))
        .collect()
}

fn one_of(
    login: Login,
    seen: &[Option<mesh_sdk::adapter::Found<Value>>],
    names: &[String],
) -> Option<Candidate> {
    let (at, first) = seen
        .iter()
        .zip(names)
        .find_map(|(found, name)| Some((name, found.as_ref()?)))?;
    let mut beyond: BTreeSet<String> = BTreeSet::new();
    let mut differs = Vec::new();
    for (found, name) in seen.iter().zip(names) {
        match found {
            None => differs.push(format!("{name} does not have it, and would get it")),
            Some(other) => {
                beyond.extend(other.beyond.iter().cloned());
                if other.values != first.values {
                    let what = format!("it may do other things on {name} than on {at}");
                    differs.push(format!("{what}, and would be as on {at}"));
                }
                if other.enabled != first.enabled {
                    let off = if other.enabled { "on" } else { "off" };
                    differs.push(format!("it is switched {off} on {name}, unlike on {at}"));
                }
            }
        }
    }
    Some(Candidate {
        login,
        values: first.values.clone(),
        enabled: first.enabled,
        beyond: beyond.into_iter().collect(),
        differs,
    })
}

/// Makes tables of candidates. `leftovers`: logins that Meshkeeper is taking care of although nobody asks
/// for them. `join`: a login that is called like a consumer of the manifest becomes a table of that
/// consumer.
pub fn import(
    manifest: &Manifest,
    provider: &Provider,
    mut candidates: Vec<Candidate>,
    leftovers: &HashSet<Login>,
    join: bool,
) -> Imported {
    candidates.sort_by(|a, b| a.login.cmp(&b.login));
    let asked = manifest.logins_on(provider);
    let found: HashSet<String> = candidates
        .iter()
        .map(|one| one.login.as_str().to_owned())
        .collect();
    let mut names = Names::of(manifest, &provider.name, join);
    let (own, others): (Vec<_>, Vec<_>) = candidates
        .into_iter()
        .partition(|one| names.fits_as_it_is(&one.login));
    let mut imported = Imported::default();
    // Names that follow from nothing but the login come first, so that nobody else takes them.
    for candidate in own.into_iter().chain(others) {
        let login = candidate.login.clone();
        let clash = |twin: &str| asked.contains(twin) || found.contains(twin);
        let why = if asked.contains(login.as_str()) {
            Some(LeftOut::AskedFor)
        } else if is_own(&login) {
            Some(LeftOut::Canary)
        } else if leftovers.contains(&login) {
            Some(LeftOut::Leftover)
        } else if login.as_str().strip_suffix(TWIN).is_some_and(clash)
            || asked.contains(format!("{}{TWIN}", login.as_str()).as_str())
        {
            Some(LeftOut::Twin)
        } else {
            None
        };
        if let Some(why) = why {
            imported.left_out.push((login, why));
            continue;
        }
        let (consumer, joins) = names.take(&login);
        match table(manifest, provider, consumer, candidate, joins) {
            Ok(table) => imported.tables.push(table),
            Err(rule) => imported.left_out.push((login, LeftOut::Refused(rule))),
        }
    }
    imported
        .tables
        .sort_by(|a, b| a.candidate.login.cmp(&b.candidate.login));
    imported.left_out.sort_by(|a, b| a.0.cmp(&b.0));
    imported
}

/// Meshkeeper's own login, here or of another mesh.
fn is_own(login: &Login) -> bool {
    login.as_str() == ConsumerName::CANARY || login.as_str().starts_with(CANARY_LOGINS)
}

/// The table, if the manifest's checks take it.
fn table(
    manifest: &Manifest,
    provider: &Provider,
    consumer: ConsumerName,
    candidate: Candidate,
    joins: bool,
) -> Result<Table, String> {
    let kind = &provider.kind.kind;
    let parse = |values: Value| kind.parse_values(values);
    let parsed = parse(candidate.values.clone()).map_err(|error| format!("values: {error}"))?;
    let values = without_defaults(candidate.values, &parsed, parse);
    let needed = Needed {
        base: None,
        rotates: super::Rotates::default(),
        consumer: consumer.clone(),
        provider: provider.name.clone(),
        login: candidate.login.clone(),
        password: PasswordSource::Generated,
        values: parsed,
        enabled: candidate.enabled,
        adopt: true,
        exact: false,
        weak: false,
        line: 0,
        span: 0..0,
    };
    refusal(provider, &manifest.mesh, &needed, placeholder())
        .map_err(|refusal| format!("{}: {}", refusal.field, refusal.rule))?;
    let candidate = Candidate {
        values,
        ..candidate
    };
    Ok(Table {
        consumer,
        candidate,
        joins,
    })
}

/// Leaves out what would be the same unsaid, and what TOML cannot say: `null`.
fn without_defaults(
    values: Value,
    parsed: &ParsedValues,
    parse: impl Fn(Value) -> Result<ParsedValues, serde_json::Error>,
) -> Value {
    let Value::Object(mut values) = values else {
        return values;
    };
    values.retain(|_, value| !value.is_null());
    let keys: Vec<String> = values.keys().cloned().collect();
    for key in keys {
        let Some(value) = values.remove(&key) else {
            continue;
        };
        let unsaid = parse(Value::Object(values.clone()));
        if !unsaid.is_ok_and(|without| without.canonical == parsed.canonical) {
            values.insert(key, value);
        }
    }
    Value::Object(values)
}

/// Gives consumers their names.
struct Names {
    /// The consumers of the manifest, and whether one could have a table for this provider, too.
    known: HashMap<String, bool>,
    given: HashSet<String>,
}

impl Names {
    fn of(manifest: &Manifest, provider: &ProviderName, join: bool) -> Self {
        let mut known = HashMap::new();
        let mut add = |consumer: &str, free: bool| {
            let can = known.entry(consumer.to_owned()).or_insert(join);
            *can &= free;
        };
        for needed in &manifest.provisions {
            add(needed.consumer.as_str(), needed.provider != *provider);
        }
        for refused in &manifest.refused {
            refused.consumer.iter().for_each(|name| add(name, false));
        }
        add(ConsumerName::CANARY, false);
        Self {
            known,
            given: HashSet::new(),
        }
    }
    /// Whether a login can be its consumer's name, as it is unless a table says otherwise.
    fn fits_as_it_is(&self, login: &Login) -> bool {
        ConsumerName::new(login.as_str()).is_ok()
            && self.known.get(login.as_str()).copied().unwrap_or(true)
    }
    /// The name for a login, and whether the manifest has that consumer.
    fn take(&mut self, login: &Login) -> (ConsumerName, bool) {
        let own = ConsumerName::new(login.as_str()).ok();
        if let Some(own) = own.filter(|_| self.fits_as_it_is(login)) {
            self.given.insert(own.as_str().to_owned());
            let joins = self.known.contains_key(own.as_str());
            return (own, joins);
        }
        let plain = plain(login.as_str());
        let digest = keyed(
            &Secret::from("import"),
            b"login",
            &[login.as_str().as_bytes()],
        );
        let digest: String = digest.iter().map(|b| format!("{b:02x}")).collect();
        let longer = (6..=digest.len()).map(|n| {
            let end = &digest[..n];
            let room = LONGEST.saturating_sub(end.len() + 1);
            let head: String = plain.chars().take(room).collect();
            if head.is_empty() {
                end.chars().take(LONGEST).collect()
            } else {
                format!("{head}-{end}")
            }
        });
        for name in std::iter::once(plain.clone()).chain(longer) {
            let free = !self.known.contains_key(&name) && !self.given.contains(&name);
            if let Some(name) = ConsumerName::new(&name).ok().filter(|_| free) {
                self.given.insert(name.as_str().to_owned());
                return (name, false);
            }
        }
        unreachable!("a digest of 256 bits is nobody else's name")
    }
}

/// What a consumer's name takes of a login: small letters, digits, `_`, and `-` for all that lies between.
fn plain(login: &str) -> String {
    let mut name = String::new();
    for letter in login.chars().flat_map(char::to_lowercase) {
        match letter {
            'a'..='z' | '0'..='9' | '_' => name.push(letter),
            _ if name.ends_with('-') => {}
            _ => name.push('-'),
        }
    }
    let name = name.trim_start_matches(['-', '_']);
    let name: String = name.chars().take(LONGEST).collect();
    match name.trim_end_matches('-') {
        "" => "login".to_owned(),
        name => name.to_owned(),
    }
}

/// The text of the tables: to be read, given passwords, and appended to the manifest. It holds no secret.
pub fn text(provider: &Provider, imported: &Imported) -> String {
    let mut text = String::new();
    let addresses: Vec<String> = provider
        .nodes
        .iter()
        .map(|node| node.settings.address())
        .collect();
    let count = imported.tables.len();
    // A line break first: the manifest may end without one.
    let _ = writeln!(
        text,
        "\n# {count} {} of {}, as found on {}.\n\
         # Each is taken over once its password is proven, which is never changed: give each the one that\n\
         # it has now, as {{ file = \"…\" }} or {{ env = \"…\" }}. Until then it is left as it is.",
        if count == 1 { "login" } else { "logins" },
        provider.name,
        comment(&addresses.join(", ")),
    );
    for table in &imported.tables {
        add_table(&mut text, provider, table);
    }
    for (login, why) in &imported.left_out {
        if let LeftOut::Refused(rule) = why {
            let (login, rule) = (quoted(login.as_str()), comment(rule));
            let _ = writeln!(text, "\n# Left out: the login {login}: {rule}");
        }
    }
    text
}

fn add_table(text: &mut String, provider: &Provider, table: &Table) {
    let Table {
        consumer,
        candidate,
        joins,
    } = table;
    text.push('\n');
    if *joins {
        let _ = writeln!(text, "# The manifest has a consumer `{consumer}` already.");
    }
    let login = quoted(candidate.login.as_str());
    for line in &candidate.beyond {
        let _ = writeln!(text, "# {login} has more, which stays: {}", comment(line));
    }
    for line in &candidate.differs {
        let _ = writeln!(text, "# {login}: {}", comment(line));
    }
    let _ = writeln!(text, "[consumer.{consumer}.needs.{}]", provider.name);
    if candidate.login != Login::from(consumer) {
        let _ = writeln!(text, "login = {login}");
    }
    text.push_str("# password = { file = \"…\" }\nadopt = true\n");
    if !candidate.enabled {
        text.push_str("enabled = false\n");
    }
    if let Value::Object(values) = &candidate.values {
        for key in in_order(values, &provider.kind.keys) {
            let _ = writeln!(text, "{} = {}", key_text(key), value_text(&values[key]));
        }
    }
}

/// The keys as the kind's own page has them, and then those that it does not name.
fn in_order<'v>(values: &'v Map<String, Value>, known: &[String]) -> Vec<&'v String> {
    let place = |key: &String| known.iter().position(|k| k == key).unwrap_or(known.len());
    let mut keys: Vec<&String> = values.keys().collect();
    keys.sort_by_key(|key| (place(key), (*key).clone()));
    keys
}

fn key_text(key: &str) -> String {
    let bare = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if !key.is_empty() && key.bytes().all(bare) {
        key.to_owned()
    } else {
        quoted(key)
    }
}

/// A value on one line. What TOML has no word for was left out before; within lists it is an empty text.
fn value_text(value: &Value) -> String {
    match value {
        Value::Null => "\"\"".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => quoted(text),
        Value::Array(list) => {
            let items: Vec<String> = list.iter().map(value_text).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(table) => {
            let said = table.iter().filter(|(_, value)| !value.is_null());
            let items: Vec<String> = said
                .map(|(key, value)| format!("{} = {}", key_text(key), value_text(value)))
                .collect();
            match items.is_empty() {
                true => "{}".to_owned(),
                false => format!("{{ {} }}", items.join(", ")),
            }
        }
    }
}

/// A text in quotes, on one line, with nothing in it that would not show.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            letter => push_shown(&mut out, letter),
        }
    }
    out.push('"');
    out
}

/// A text for a comment.
fn comment(text: &str) -> String {
    let mut out = String::new();
    text.chars().for_each(|letter| push_shown(&mut out, letter));
    out
}

fn push_shown(out: &mut String, letter: char) {
    let shows = matches!(letter, '\'' | '"' | '\\') || letter.escape_debug().len() == 1;
    match letter {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        letter if shows => out.push(letter),
        letter if u32::from(letter) <= 0xffff => {
            let _ = write!(out, "\\u{:04X}", u32::from(letter));
        }
        letter => {
            let _ = write!(out, "\\U{:08X}", u32::from(letter));
        }
    }
}

#[cfg(test)]
mod tests {
    //! Names follow from logins; texts keep to their line.
    use super::*;

    #[test]
    fn h18_a_login_gives_a_plain_name() {
        for (login, name) in [
            ("web", "web"),
            ("Web App", "web-app"),
            ("--rf", "rf"),
            ("_x", "x"),
            ("größe", "gr-e"),
            ("日本", "login"),
            ("a//b\n", "a-b"),
            ("uid=web,ou=apps", "uid-web-ou-apps"),
        ] {
            let plain = plain(login);
            assert_eq!(plain, name, "{login}");
            assert!(ConsumerName::new(&plain).is_ok(), "{plain}");
        }
        assert_eq!(plain(&"x".repeat(1000)).len(), LONGEST);
    }

    #[test]
    fn a5_texts_are_quoted_on_one_line_and_show_what_they_hold() {
        let text = "a\"b\\c'\n\u{202e}\u{1F600}é\u{0}\u{7f}\u{10FFFF}";
        let line = quoted(text);
        assert!(!line.contains('\n') && !line.contains('\u{202e}'), "{line}");
        let read: toml::Table = format!("x = {line}").parse().expect("TOML");
        assert_eq!(read["x"].as_str(), Some(text));
        assert!(!comment(text).contains('\n'));
    }

    #[test]
    fn h18_nodes_are_united_and_differences_told() {
        use mesh_sdk::adapter::Found;
        let found = |login: &str, n: u8| {
            let login = Login::new(login).expect("login");
            Found::new(login, serde_json::json!({ "n": n }))
        };
        let mut off = found("c", 1);
        off.enabled = false;
        let a = ("a".to_owned(), vec![found("b", 1), found("c", 1)]);
        let b = ("b".to_owned(), vec![found("b", 2), off, found("a", 1)]);
        let all = united(vec![a, b]);
        let told: Vec<(&str, usize)> = all
            .iter()
            .map(|one| (one.login.as_str(), one.differs.len()))
            .collect();
        assert_eq!(told, [("a", 1), ("b", 1), ("c", 1)]);
        assert_eq!(all[1].values, serde_json::json!({ "n": 1 }));
        assert!(all[2].enabled && all[2].differs[0].contains("switched off on b"));
        assert!(all[0].differs[0].contains("a does not have it"));
    }
}
