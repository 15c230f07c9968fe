//! Whatever the text is: no panic, and no planted password in any message.

use proptest::prelude::*;
use std::path::Path;

use crate::manifest::{GOOD, kinds, rendered};
use meshkeeper::manifest;

const PLANTED: &str = "planted-7f3a";

/// A manifest with a password wherever somebody may put one by mistake.
const LEAKY: &str = r#"
[mesh]
id = "home"
[provider.store]
kind = "shelf"
url = "shelf://keeper:planted-7f3a@127.0.0.1:7000"
admin = { user = "keeper", password = "planted-7f3a" } # planted-7f3a
[provider.other]
kind = "shelf"
urls = ["shelf://127.0.0.1:7000", "shelf://x:planted-7f3a@127.0.0.1"]
admin = "planted-7f3a"
[consumer.web.needs.store]
boards = ["web:*"]
password = "planted-7f3a"
[consumer.api.needs.store]
boards = []
password = { env = "planted-7f3a" }
[consumer.job.needs.other]
boards = []
pasword = '''planted-7f3a'''
"#;

/// Consumers in every order and form.
const MANY: &str = r#"
consumer.zero.needs.store = { boards = [] }
[mesh]
id = "home"
[consumer.web.needs.store]
boards = [
  "[consumer.no]",
]
[consumer.web.needs.other]
boards = [ """
[consumer.no]
""" ]
[consumer."api".needs.store] # [consumer.no]
boards = []
[provider.store]
kind = "shelf"
url = "shelf://127.0.0.1"
[consumer.job]
needs = { store = { boards = ["x"], login = "web" } }
[consumer.late.needs.store]
boards = ["ü"]
[consumer.late.needs.nowhere]
bords = []
[provider.other]
kind = "shelf"
url = "shelf://127.0.0.1:7007"
[consumer.last.needs.other]
boards = 3
"#;

fn told(text: String) -> String {
    let reading = manifest::parse(Path::new("mesh.toml"), text, &kinds());
    let lines: Vec<String> = reading
        .problems
        .lines()
        .map(|line| format!("{line:?}"))
        .collect();
    let refused = reading
        .manifest
        .map(|manifest| format!("{manifest:?}"))
        .unwrap_or_default();
    format!(
        "{}{}{}{}",
        reading.problems.list().len(),
        lines.join("\n"),
        refused,
        ""
    )
}

fn all_of(text: &str) -> String {
    let reading = manifest::parse(Path::new("mesh.toml"), text.to_owned(), &kinds());
    rendered(&reading) + &reading.problems.summary() + &told(text.to_owned())
}

#[test]
fn s2_the_leaky_manifest_is_refused_without_repeating_a_password() {
    let all = all_of(LEAKY);
    assert!(!all.contains(PLANTED), "{all}");
    assert!(all.matches("error").count() >= 5, "{all}");
}

fn slip() -> impl Strategy<Value = (usize, u8, char)> {
    let chars = prop::sample::select(vec![
        '"', '\'', '=', '[', ']', '{', '}', '\n', '#', ',', '.', ' ', '\\', 'x', 'ü', '\0', '\r',
        '\t', '/', '@', ':',
    ]);
    (any::<usize>(), 0u8..3, chars)
}

fn slipped(text: &str, slips: &[(usize, u8, char)]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for (at, what, with) in slips {
        let at = at % chars.len();
        match what {
            0 => drop(chars.remove(at)),
            1 => chars.insert(at, *with),
            _ => chars[at] = *with,
        }
    }
    chars.into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn s2_no_slip_of_the_pen_makes_a_message_repeat_a_password(slips in prop::collection::vec(slip(), 1..2)) {
        let text = slipped(LEAKY, &slips);
        let all = all_of(&text);
        prop_assert!(!all.contains(PLANTED), "{}\n{}", text, all);
    }

    #[test]
    fn h3_in_pieces_or_as_one_a_manifest_reads_the_same(
        slips in prop::collection::vec(slip(), 0..4),
        size in 1usize..400,
        leaky in any::<bool>(),
    ) {
        let text = slipped(if leaky { LEAKY } else { MANY }, &slips);
        let read = |size| {
            let reading = manifest::parse_in_pieces(Path::new("mesh.toml"), text.clone(), &kinds(), size);
            let problems = rendered(&reading);
            let manifest = reading.manifest.map(|m| {
                let mut refused = m.refused;
                refused.sort_by_key(|entry| (entry.line, entry.provider.clone(), entry.consumer.clone()));
                let spans: Vec<_> = m.provisions.iter().map(|needed| needed.span.clone()).collect();
                format!("{:?}{:?}{refused:?}{spans:?}", m.providers, m.provisions)
            });
            (problems, manifest)
        };
        prop_assert_eq!(read(size), read(usize::MAX));
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,200}") {
        all_of(&text);
    }

    #[test]
    fn no_bytes_between_the_lines_make_the_parser_panic(slips in prop::collection::vec(slip(), 0..30)) {
        all_of(&slipped(GOOD, &slips));
    }

    #[test]
    fn no_toml_of_wrong_types_makes_the_parser_panic(
        key in prop::sample::select(vec![
            "kind", "url", "urls", "admin", "tls", "grace", "max_removals", "boards", "login",
            "password", "enabled", "weak", "access", "room", "needs", "id", "bus", "mesh", "provider", "consumer",
        ]),
        value in prop::sample::select(vec![
            "3", "-1", "1e400", "nan", "true", "\"\"", "\"x\"", "[]", "[[]]", "{}", "{ a = {} }", "1979-05-27",
            "99999999999999999999", "[1, \"a\"]", "{ env = 3 }", "{ file = \"\" }", "\"\\u0000\"",
        ]),
    ) {
        let mut text = GOOD.to_owned();
        for line in GOOD.lines().filter(|line| line.trim_start().starts_with(key)) {
            text = text.replace(line, &format!("{key} = {value}"));
        }
        all_of(&text);
        all_of(&format!("{key} = {value}\n{GOOD}"));
        all_of(&format!("{GOOD}\n{key} = {value}\n"));
    }
}
