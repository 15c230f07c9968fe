//! Rights by meaning: what a user of the file may do, and what a wish asks for.

use std::collections::BTreeSet;

use super::syntax::{Value, quote};
use super::values::{ConnectionType, NatsValues};

/// Subjects for one direction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Side {
    pub(super) allow: BTreeSet<String>,
    pub(super) deny: BTreeSet<String>,
}

/// All that a user may do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Rights {
    pub(super) publish: Side,
    pub(super) subscribe: Side,
    pub(super) responses: bool,
    /// `None`: every way to connect.
    pub(super) types: Option<BTreeSet<String>>,
}

/// Every subject.
const ALL: &str = ">";

impl Side {
    fn of(allow: BTreeSet<String>, deny: BTreeSet<String>) -> Self {
        // Nothing allowed, or everything denied, is nothing.
        if allow.is_empty() || deny.contains(ALL) {
            return Self::default();
        }
        Self { allow, deny }
    }
    fn wanted(allow: &[String], deny: &[String]) -> Self {
        Self::of(
            allow.iter().cloned().collect(),
            deny.iter().cloned().collect(),
        )
    }
    /// As the server reads it: without a list of what is allowed, or with an empty one, all is.
    fn read(value: Option<&Value>, closed: bool) -> Option<Self> {
        let set = |value: Option<&Value>| -> Option<BTreeSet<String>> {
            let Some(value) = value else {
                return Some(BTreeSet::new());
            };
            Some(value.texts()?.into_iter().map(str::to_owned).collect())
        };
        let (mut allow, deny) = match value {
            Some(map @ Value::Map(_)) => (set(map.get(&["allow"]))?, set(map.get(&["deny"]))?),
            list => (set(list)?, BTreeSet::new()),
        };
        if allow.is_empty() && !closed {
            allow.insert(ALL.to_owned());
        }
        Some(Self::of(allow, deny))
    }
    /// What this has and the other lacks: subjects, and what the other denies more.
    fn beyond(&self, other: &Self) -> Vec<String> {
        let more = self.allow.difference(&other.allow).cloned();
        let free = other.deny.difference(&self.deny);
        // Denying matters only where something is allowed.
        let free = free.filter(|_| !self.allow.is_empty());
        more.chain(free.map(|subject| format!("{subject} (not denied)")))
            .collect()
    }
    fn with(&self, other: &Self) -> Self {
        let deny = match (self.allow.is_empty(), other.allow.is_empty()) {
            (true, _) => other.deny.clone(),
            (_, true) => self.deny.clone(),
            _ => self.deny.intersection(&other.deny).cloned().collect(),
        };
        Self::of(self.allow.union(&other.allow).cloned().collect(), deny)
    }
    fn written(&self) -> String {
        if self.allow.is_empty() {
            return format!("{{deny: [{}]}}", quote(ALL));
        }
        let list = |all: &BTreeSet<String>| {
            let all: Vec<String> = all.iter().map(|subject| quote(subject)).collect();
            all.join(", ")
        };
        match self.deny.is_empty() {
            true => format!("{{allow: [{}]}}", list(&self.allow)),
            false => format!(
                "{{allow: [{}], deny: [{}]}}",
                list(&self.allow),
                list(&self.deny)
            ),
        }
    }
}

impl Rights {
    /// The fields of a user that are read here: what it may do, then how it may connect.
    pub(super) const FIELDS: [&str; 7] = [
        "permissions",
        "permission",
        "authorization",
        "allowed_connection_types",
        "connection_types",
        "allowed_connection_type",
        "clients",
    ];

    /// Whether a user may answer only so often, or so long.
    pub(super) fn limits_responses(user: &Value) -> bool {
        let responses = user
            .get(&Self::FIELDS[..3])
            .and_then(|map| map.get(&["allow_responses", "allow_response"]));
        matches!(responses, Some(Value::Map(_)))
    }

    /// What a wish asks for.
    pub(super) fn wanted(values: &NatsValues) -> Self {
        let types = values.connection_types.iter();
        let types: BTreeSet<String> = types.map(|one| one.word().to_owned()).collect();
        Self {
            publish: Side::wanted(&values.publish, &values.publish_deny),
            subscribe: Side::wanted(&values.subscribe, &values.subscribe_deny),
            responses: values.allow_responses,
            types: (!types.is_empty()).then_some(types),
        }
    }

    /// The values that ask for exactly this; `None` where there are none.
    pub(super) fn as_values(&self) -> Option<NatsValues> {
        let list = |set: &BTreeSet<String>| set.iter().cloned().collect();
        let types = self.types.iter().flatten();
        Some(NatsValues {
            publish: list(&self.publish.allow),
            publish_deny: list(&self.publish.deny),
            subscribe: list(&self.subscribe.allow),
            subscribe_deny: list(&self.subscribe.deny),
            allow_responses: self.responses,
            connection_types: types
                .map(|word| ConnectionType::of(word))
                .collect::<Option<_>>()?,
        })
    }

    /// What a user in the file may do; `None` if that cannot be told.
    pub(super) fn read(user: &Value) -> Option<Self> {
        let permissions = user.get(&Self::FIELDS[..3]);
        let get = |names: &[&str]| permissions.and_then(|map| map.get(names));
        let responses = match get(&["allow_responses", "allow_response"]) {
            None => false,
            Some(Value::Text(word)) => !matches!(word.as_str(), "false" | "no" | "off"),
            Some(_) => true,
        };
        let types = user.get(&Self::FIELDS[3..]);
        let types = match types {
            None => None,
            Some(list) => Some(list.texts()?.into_iter().map(str::to_uppercase).collect()),
        };
        Some(Self {
            publish: Side::read(get(&["publish", "pub", "import"]), responses)?,
            subscribe: Side::read(get(&["subscribe", "sub", "export"]), false)?,
            responses,
            types: types.filter(|all: &BTreeSet<String>| !all.is_empty()),
        })
    }

    /// What this has beyond the other, in words; empty if nothing.
    pub(super) fn beyond(&self, other: &Self) -> Vec<String> {
        let say = |what: &'static str| move |subject: String| format!("{what} {subject}");
        let publish = self.publish.beyond(&other.publish);
        let subscribe = self.subscribe.beyond(&other.subscribe);
        let mut all: Vec<String> = publish.into_iter().map(say("publish")).collect();
        all.extend(subscribe.into_iter().map(say("subscribe")));
        if self.responses && !other.responses {
            all.push("responses".to_owned());
        }
        match (&self.types, &other.types) {
            (None, Some(_)) => all.push("every connection type".to_owned()),
            (Some(these), Some(those)) => {
                all.extend(these.difference(those).map(|one| format!("connect {one}")));
            }
            (_, None) => {}
        }
        all
    }

    /// All of both.
    pub(super) fn with(&self, other: &Self) -> Self {
        Self {
            publish: self.publish.with(&other.publish),
            subscribe: self.subscribe.with(&other.subscribe),
            responses: self.responses || other.responses,
            types: match (&self.types, &other.types) {
                (Some(these), Some(those)) => Some(these.union(those).cloned().collect()),
                _ => None,
            },
        }
    }

    /// Whether an ordinary client may connect.
    pub(super) fn lets_clients_in(&self) -> bool {
        let types = self.types.as_ref();
        types.is_none_or(|types| types.contains("STANDARD"))
    }

    /// The fields behind `password`, as the file has them.
    pub(super) fn written(&self) -> String {
        let mut text = format!(
            "permissions: {{publish: {}, subscribe: {}",
            self.publish.written(),
            self.subscribe.written()
        );
        if self.responses {
            text.push_str(", allow_responses: true");
        }
        text.push('}');
        if let Some(types) = &self.types {
            let types: Vec<String> = types.iter().map(|one| quote(one)).collect();
            text.push_str(&format!(
                ", allowed_connection_types: [{}]",
                types.join(", ")
            ));
        }
        text
    }
}

/// The first few of a list, for people.
pub(super) fn told(all: &[String]) -> String {
    const MOST: usize = 6;
    let plain =
        |text: &String| -> String { text.chars().filter(|c| !c.is_control()).take(80).collect() };
    let mut told: Vec<String> = all.iter().take(MOST).map(plain).collect();
    if all.len() > MOST {
        told.push(format!("and {} more", all.len() - MOST));
    }
    told.join(", ")
}

#[cfg(test)]
mod tests {
    //! Rights are compared by what they allow.
    use super::super::syntax::Reader;
    use super::*;

    fn read(text: &str) -> Rights {
        let user = Reader::new(text, 0).value(0).expect("a value");
        Rights::read(&user).expect("rights")
    }
    fn wanted(values: serde_json::Value) -> Rights {
        Rights::wanted(&serde_json::from_value(values).expect("values"))
    }

    #[test]
    fn a7_what_is_written_is_read_back_as_the_same() {
        for values in [
            serde_json::json!({}),
            serde_json::json!({ "publish": ["a.>", "b"], "publish_deny": ["a.x"] }),
            serde_json::json!({ "subscribe": [">"], "allow_responses": true }),
            serde_json::json!({ "publish": ["a"], "subscribe_deny": ["x"], "allow_responses": true }),
            serde_json::json!({ "subscribe": ["a q"], "connection_types": ["STANDARD", "MQTT_WS"] }),
        ] {
            let wanted = wanted(values);
            let text = format!("{{user: a, {}}}", wanted.written());
            assert_eq!(read(&text), wanted, "{text}");
            assert!(wanted.beyond(&wanted).is_empty());
        }
    }

    #[test]
    fn a7_a_user_without_permissions_may_do_everything() {
        let all = read("{user: a}");
        let none = wanted(serde_json::json!({}));
        assert_eq!(
            all.beyond(&none),
            ["publish >".to_owned(), "subscribe >".to_owned()]
        );
        assert!(none.beyond(&all).is_empty());
        assert_eq!(
            read("{permissions: {pub: {allow: []}}}").publish,
            all.publish
        );
        assert_eq!(
            read("{permissions: {pub: {deny: \">\"}}}").publish,
            none.publish
        );
        assert_eq!(read("{permissions: {pub: x}}").publish.allow.len(), 1);
    }

    #[test]
    fn a7_what_is_denied_counts_as_well() {
        let want = wanted(serde_json::json!({ "publish": [">"], "publish_deny": ["secret"] }));
        let open = read("{permissions: {publish: \">\", subscribe: {deny: \">\"}}}");
        assert_eq!(
            open.beyond(&want),
            ["publish secret (not denied)".to_owned()]
        );
        assert!(want.beyond(&open).is_empty());
        let tight = read(
            "{permissions: {publish: {allow: \">\", deny: [secret, x]}, subscribe: {deny: \">\"}}}",
        );
        assert_eq!(want.beyond(&tight), ["publish x (not denied)".to_owned()]);
        assert_eq!(want.with(&tight), want);
        assert_eq!(want.with(&open).publish, open.publish);
    }
}
