//! Taking a TOML table apart, telling every mistake with its place.

use std::borrow::Cow;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::nearest::nearest;
use crate::errors::Problem;

/// A value and where it stands.
pub(crate) type Item<'i> = Spanned<DeValue<'i>>;
/// A key and where it stands.
pub(crate) type Key<'i> = Spanned<Cow<'i, str>>;

/// One table of the manifest.
pub(crate) struct Fields<'t, 'i> {
    pub(crate) table: &'t DeTable<'i>,
    /// Where its head stands.
    pub(crate) span: Range<usize>,
}

/// A text from the manifest as it may stand in a message: short, on one line.
pub(crate) fn quoted(text: &str) -> String {
    let head: String = text.chars().take(80).flat_map(char::escape_debug).collect();
    let more = if text.chars().nth(80).is_some() {
        "…"
    } else {
        ""
    };
    format!("`{head}{more}`")
}

/// `a string`, `an integer`: how a wrong value is called.
pub(crate) fn type_of(value: &DeValue<'_>) -> String {
    match value {
        DeValue::Integer(_) | DeValue::Array(_) => format!("an {}", value.type_str()),
        DeValue::Boolean(_) => "true or false".to_owned(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Float(_) => "a number".to_owned(),
        _ => format!("a {}", value.type_str()),
    }
}

/// A value of another type than wanted. The value itself is not repeated.
pub(crate) fn wrong_type(key: &str, item: &Item<'_>, wanted: &str) -> Problem {
    let given = type_of(item.get_ref());
    Problem::error(item.span(), format!("{} is {given}", quoted(key)))
        .meant(format!("expected {wanted}"))
}

/// The problem of a key that is not known here.
pub(crate) fn unknown_key<'k>(
    key: &Key<'_>,
    within: &str,
    known: impl Iterator<Item = &'k str> + Clone,
) -> Problem {
    let word = key.get_ref().as_ref();
    let problem = Problem::error(
        key.span(),
        format!("unknown key {} in {within}", quoted(word)),
    );
    match nearest(word, known.clone()) {
        Some(near) => problem.meant(format!("did you mean `{near}`?")),
        None => {
            let mut known: Vec<&str> = known.collect();
            known.sort_unstable();
            problem.help(format!("known here: {}", known.join(", ")))
        }
    }
}

impl<'t, 'i> Fields<'t, 'i> {
    /// The table in an item; anything else is a problem.
    pub(crate) fn of(
        what: &str,
        item: &'t Item<'i>,
        wanted: &str,
        problems: &mut Vec<Problem>,
    ) -> Option<Self> {
        match item.get_ref() {
            DeValue::Table(table) => Some(Self {
                table,
                span: item.span(),
            }),
            _ => {
                problems.push(wrong_type(what, item, wanted));
                None
            }
        }
    }
    /// A problem for every key that is not `known`.
    pub(crate) fn refuse_unknown(&self, within: &str, known: &[&str], problems: &mut Vec<Problem>) {
        for key in self.table.keys() {
            if !known.contains(&key.get_ref().as_ref()) {
                problems.push(unknown_key(key, within, known.iter().copied()));
            }
        }
    }
    /// The value of a key.
    pub(crate) fn item(&self, key: &str) -> Option<&'t Item<'i>> {
        self.table.get(key)
    }
    /// Where a key's value stands; the table's head if it is not there.
    pub(crate) fn span_of(&self, key: &str) -> Range<usize> {
        self.item(key)
            .map_or_else(|| self.span.clone(), Spanned::span)
    }
    /// Where the field of a refusal stands: `selectors[0].commands` is in `selectors`.
    pub(crate) fn span_of_field(&self, field: &str) -> Option<Range<usize>> {
        let head = field.split(['.', '[']).next().unwrap_or(field);
        self.item(head).map(Spanned::span)
    }
    /// A text.
    pub(crate) fn text(
        &self,
        key: &str,
        wanted: &str,
        problems: &mut Vec<Problem>,
    ) -> Option<Spanned<&'t str>> {
        let item = self.item(key)?;
        match item.get_ref() {
            DeValue::String(text) => Some(Spanned::new(item.span(), text.as_ref())),
            _ => {
                problems.push(wrong_type(key, item, wanted));
                None
            }
        }
    }
    /// True or false.
    pub(crate) fn flag(&self, key: &str, default: bool, problems: &mut Vec<Problem>) -> bool {
        match self.item(key).map(|item| (item, item.get_ref())) {
            None => default,
            Some((_, DeValue::Boolean(flag))) => *flag,
            Some((item, _)) => {
                problems.push(wrong_type(key, item, "true or false, without quotes"));
                default
            }
        }
    }
    /// A whole number.
    pub(crate) fn number(&self, key: &str, problems: &mut Vec<Problem>) -> Option<Spanned<i64>> {
        let item = self.item(key)?;
        let number = match item.get_ref() {
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        if number.is_none() {
            problems.push(wrong_type(key, item, "a whole number"));
        }
        number.map(|number| Spanned::new(item.span(), number))
    }
}
