//! Rules and cases: each numbered rule that `xtask/rules.toml` demands, and each case from the field in
//! `xtask/cases.toml`, has a test that carries its number.

use super::Finding;
use super::source::Source;
use crate::root::File;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The design's rules, and what went wrong for people elsewhere.
const LISTS: [&str; 2] = ["xtask/rules.toml", "xtask/cases.toml"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    #[expect(dead_code, reason = "for the reader of the file")]
    says: String,
    #[serde(default)]
    demanded: bool,
    later: Option<String>,
}

/// The lists against the tests.
pub(super) fn check(files: &[File], sources: &[Source<'_>]) -> Vec<Finding> {
    let tested = tested(sources);
    let text = |list: &str| files.iter().find(|f| f.path == list).map(|f| &*f.text);
    let found = LISTS
        .iter()
        .map(|list| judge(list, text(list).unwrap_or(""), &tested));
    found.flatten().collect()
}

fn judge(list: &str, text: &str, tested: &BTreeSet<String>) -> Vec<Finding> {
    let rules: BTreeMap<String, Rule> = match toml::from_str(text) {
        Ok(rules) => rules,
        Err(error) => return vec![Finding::new("rules", list, 0, error.to_string())],
    };
    if rules.is_empty() {
        return vec![Finding::new("rules", list, 0, "names none")];
    }
    let mut found = Vec::new();
    for (number, rule) in &rules {
        let what = match (&rule.later, rule.demanded) {
            (Some(_), true) => "is both demanded and later",
            (None, false) => "is neither demanded nor later",
            (Some(why), false) if why.trim().is_empty() => "is later and says no why",
            (None, true) if !tested.contains(&prefix(number)) => {
                let what = format!("{number} has no test `fn {}…`", prefix(number));
                found.push(Finding::new("rules", list, line_of(text, number), what));
                continue;
            }
            _ => continue,
        };
        let what = format!("{number} {what}");
        found.push(Finding::new("rules", list, line_of(text, number), what));
    }
    found.extend(gaps(list, &rules));
    found
}

/// `H-7` is carried by the tests that begin with `h7_`.
fn prefix(number: &str) -> String {
    format!("{}_", number.replace('-', "").to_lowercase())
}

/// The numbers that test functions begin with: `h7_` and `o22_` of `h7_o22_a_hang_costs_one_connection`.
fn tested(sources: &[Source<'_>]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for source in sources {
        for function in source.functions() {
            let judge = source.path.starts_with("crates/conformance/src/");
            if judge || source.is_test(function.line) {
                let words = function.name.split('_').take_while(|word| is_number(word));
                found.extend(words.map(|word| format!("{word}_")));
            }
        }
    }
    found
}

/// A letter and digits.
fn is_number(word: &str) -> bool {
    let mut chars = word.chars();
    chars.next().is_some_and(|c| c.is_ascii_lowercase())
        && !chars.as_str().is_empty()
        && chars.all(|c| c.is_ascii_digit())
}

/// Numbers left out of a series: a rule is put off by saying so, never by leaving it out.
fn gaps(list: &str, rules: &BTreeMap<String, Rule>) -> Vec<Finding> {
    let mut series: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for number in rules.keys() {
        if let Some((letter, n)) = number.split_once('-')
            && let Ok(n) = n.parse()
        {
            series.entry(letter).or_default().insert(n);
        } else {
            let what = format!("`{number}` is no rule number");
            return vec![Finding::new("rules", list, 0, what)];
        }
    }
    let mut found = Vec::new();
    for (letter, numbers) in series {
        let last = numbers.last().copied().unwrap_or_default();
        for n in (1..last).filter(|n| !numbers.contains(n)) {
            let what = format!("{letter}-{n} is left out");
            found.push(Finding::new("rules", list, 0, what));
        }
    }
    found
}

fn line_of(text: &str, number: &str) -> usize {
    let opening = format!("[{number}]");
    text.lines()
        .position(|l| l.trim() == opening)
        .map_or(0, |i| i + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::sources;

    fn findings(rules: &str, test_file: &str, test: &str) -> Vec<String> {
        let cases = "[O-1]\nsays = \"x\"\nlater = \"y\"\n";
        let files = [
            File::new(LISTS[0], rules),
            File::new(LISTS[1], cases),
            File::new(test_file, test),
        ];
        check(&files, &sources(&files))
            .into_iter()
            .map(|f| f.what)
            .collect()
    }

    const ONE: &str = "[H-1]\nsays = \"x\"\ndemanded = true\n";

    #[test]
    fn a_demanded_rule_with_a_test_passes() {
        for (file, test) in [
            ("crates/a/tests/it/main.rs", "#[test] fn h1_x() {}"),
            (
                "crates/a/src/x.rs",
                "#[cfg(test)] mod tests { fn h1_x() {} }",
            ),
            ("crates/conformance/src/x.rs", "async fn h1_x() {}"),
            (
                "crates/a/tests/it.rs",
                "proptest! { fn h1_x(a in 0..3) { } }",
            ),
        ] {
            assert!(findings(ONE, file, test).is_empty(), "{test}");
        }
    }

    #[test]
    fn a_demanded_rule_without_a_test_is_refused() {
        for (file, test) in [
            ("crates/a/tests/it.rs", "fn h10_x() {}"),
            ("crates/a/tests/it.rs", "// fn h1_x() {}"),
            ("crates/a/src/x.rs", "fn h1_x() {}"),
        ] {
            assert_eq!(
                findings(ONE, file, test),
                ["H-1 has no test `fn h1_…`"],
                "{test}"
            );
        }
    }

    #[test]
    fn a_rule_is_demanded_or_later_with_a_reason() {
        let later = "[H-1]\nsays = \"x\"\nlater = \"with the bus\"\n";
        assert!(findings(later, "a.rs", "").is_empty());
        for bad in [
            "[H-1]\nsays = \"x\"\n",
            "[H-1]\nsays = \"x\"\nlater = \"\"\n",
            "[H-1]\nsays = \"x\"\nlater = \"y\"\ndemanded = true\n",
            "[H-1]\ndemanded = true\n",
            "[H1]\nsays = \"x\"\nlater = \"y\"\n",
            "",
        ] {
            assert_eq!(findings(bad, "a.rs", "").len(), 1, "{bad}");
        }
    }

    #[test]
    fn a_number_left_out_is_refused() {
        let rules = "[H-1]\nsays = \"x\"\nlater = \"y\"\n[H-3]\nsays = \"x\"\nlater = \"y\"\n";
        assert_eq!(findings(rules, "a.rs", ""), ["H-2 is left out"]);
    }
}
