//! `url`, or the list `urls`: where something is.

use toml::Spanned;
use toml::de::DeValue;

use super::fields::{Fields, wrong_type};
use crate::errors::Problem;

/// How the addresses of one table are asked for.
pub(crate) struct Addresses<'a> {
    /// What one must be.
    pub(crate) wanted: &'a str,
    /// What to do where both keys are given.
    pub(crate) both: &'a str,
    /// That none is given.
    pub(crate) missing: &'a str,
    /// What to do then.
    pub(crate) say: &'a str,
}

impl Addresses<'_> {
    /// Every address with its place; whatever is no text is told.
    pub(crate) fn read<'t>(
        &self,
        fields: &Fields<'t, '_>,
        problems: &mut Vec<Problem>,
    ) -> Vec<Spanned<&'t str>> {
        match (fields.item("url"), fields.item("urls")) {
            (Some(_), Some(many)) => {
                let problem = Problem::error(many.span(), "both `url` and `urls` are given");
                problems.push(problem.help(self.both));
                Vec::new()
            }
            (None, None) => {
                let problem = Problem::error(fields.span.clone(), self.missing);
                problems.push(problem.help(self.say));
                Vec::new()
            }
            (Some(_), None) => {
                let one = fields.text("url", self.wanted, problems);
                one.into_iter().collect()
            }
            (None, Some(item)) => {
                let DeValue::Array(list) = item.get_ref() else {
                    problems.push(wrong_type("urls", item, "a list of addresses in quotes"));
                    return Vec::new();
                };
                if list.is_empty() {
                    problems.push(Problem::error(item.span(), "`urls` names no server"));
                }
                let texts = list.iter().filter_map(|entry| match entry.get_ref() {
                    DeValue::String(text) => Some(Spanned::new(entry.span(), text.as_ref())),
                    _ => {
                        problems.push(wrong_type("urls", entry, self.wanted));
                        None
                    }
                });
                texts.collect()
            }
        }
    }
}
