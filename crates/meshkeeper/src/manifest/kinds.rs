//! The catalogue as the manifest needs it: each kind with the keys that its values take.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use mesh_sdk::Wish;
use mesh_sdk::adapter::Descriptor;
use mesh_sdk::handle::AnyKind;
use serde_json::Value;

/// One kind, with what its schema says of its values.
#[derive(Clone)]
pub struct KindInfo {
    /// The kind.
    pub kind: Arc<dyn AnyKind>,
    /// What people need to know of it.
    pub descriptor: Descriptor,
    /// The JSON Schema of its values.
    pub schema: Value,
    /// The JSON Schema of a provider's `options`, where it has some.
    pub options: Option<Value>,
    /// The keys of its values.
    pub keys: Vec<String>,
    /// Those that must be given.
    pub required: Vec<String>,
    /// Whether other keys are refused by the schema.
    pub closed: bool,
}

impl fmt::Debug for KindInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KindInfo({})", self.descriptor.kind)
    }
}

impl KindInfo {
    fn new(kind: Arc<dyn AnyKind>) -> Self {
        let schema = kind.values_schema();
        let keys = match &schema["properties"] {
            Value::Object(map) => map.keys().cloned().collect(),
            _ => Vec::new(),
        };
        let required = match &schema["required"] {
            Value::Array(list) => list
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            _ => Vec::new(),
        };
        Self {
            descriptor: kind.descriptor(),
            closed: schema["additionalProperties"] == Value::Bool(false),
            options: kind.options_schema(),
            kind,
            schema,
            keys,
            required,
        }
    }
}

impl KindInfo {
    /// The data that a wish's values speak of; `None` where the kind deletes none.
    pub fn data_of(&self, wish: &Wish) -> Option<Vec<String>> {
        let purges = self.descriptor.capabilities.purge;
        purges.then(|| self.kind.data_of(wish))
    }
}

/// Every kind that a manifest may name.
#[derive(Debug, Clone, Default)]
pub struct Kinds {
    by_word: BTreeMap<&'static str, Arc<KindInfo>>,
    value_keys: Arc<HashSet<String>>,
}

impl Kinds {
    /// Takes a catalogue.
    pub fn new(catalogue: impl IntoIterator<Item = Arc<dyn AnyKind>>) -> Self {
        let by_word: BTreeMap<_, _> = catalogue
            .into_iter()
            .map(|kind| Arc::new(KindInfo::new(kind)))
            .map(|info| (info.descriptor.kind, info))
            .collect();
        let mut keys = HashSet::new();
        for info in by_word.values() {
            all_keys(&info.schema, &mut keys);
            if let Some(options) = &info.options {
                keys.insert("options".to_owned());
                all_keys(options, &mut keys);
            }
        }
        let value_keys = Arc::new(keys);
        Self {
            by_word,
            value_keys,
        }
    }
    /// The kind of that word.
    pub fn get(&self, word: &str) -> Option<&Arc<KindInfo>> {
        self.by_word.get(word)
    }
    /// All, by word.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<KindInfo>> {
        self.by_word.values()
    }
    /// The words.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        self.by_word.keys().copied()
    }
    /// The keys of all kinds' values: harmless to show.
    pub(crate) fn value_keys(&self) -> Arc<HashSet<String>> {
        Arc::clone(&self.value_keys)
    }
}

/// Every key that a schema names, however deep.
fn all_keys(schema: &Value, keys: &mut HashSet<String>) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::Object(properties)) = map.get("properties") {
                keys.extend(properties.keys().cloned());
            }
            map.values().for_each(|value| all_keys(value, keys));
        }
        Value::Array(list) => list.iter().for_each(|value| all_keys(value, keys)),
        _ => {}
    }
}
