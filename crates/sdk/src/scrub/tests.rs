//! S-2: no form of a secret gets through, and nothing else is touched.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use proptest::prelude::*;

use super::*;

fn scrubber(secrets: &[&str]) -> Scrubber {
    let scrubber = Scrubber::new();
    for secret in secrets {
        assert!(scrubber.add(Secret::from(*secret)));
    }
    scrubber
}

fn percent(text: &str, plain: impl Fn(usize, u8) -> bool, upper: bool) -> String {
    text.bytes()
        .enumerate()
        .fold(String::new(), |mut out, (n, b)| {
            let _ = match (plain(n, b), upper) {
                (true, _) => write!(out, "{}", char::from(b)),
                (false, true) => write!(out, "%{b:02X}"),
                (false, false) => write!(out, "%{b:02x}"),
            };
            out
        })
}
fn unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}
fn form(text: &str) -> String {
    percent(text, |_, b| unreserved(b) || b == b' ', true).replace(' ', "+")
}
fn hex(text: &str) -> String {
    text.bytes().map(|b| format!("{b:02x}")).collect()
}
fn json_units(text: &str) -> String {
    text.encode_utf16()
        .map(|unit| format!("\\u{unit:04X}"))
        .collect()
}
fn json(text: &str) -> String {
    let quoted = serde_json::to_string(text).expect("json");
    quoted[1..quoted.len() - 1].to_owned()
}
fn debug(text: &str) -> String {
    let quoted = format!("{text:?}");
    quoted[1..quoted.len() - 1].to_owned()
}
fn backslashed(text: &str) -> String {
    text.chars().fold(String::new(), |out, c| match c {
        '\'' | '"' | '\\' => out + "\\" + &c.to_string(),
        '\n' => out + "\\n",
        '\0' => out + "\\0",
        c => out + &c.to_string(),
    })
}
fn octal(text: &str) -> String {
    text.bytes().map(|b| format!("\\{b:03o}")).collect()
}

/// Every form of a secret, and what stands around it there.
fn forms(secret: &str) -> Vec<(&'static str, String)> {
    let mut all = vec![
        ("plain", secret.to_owned()),
        ("percent", percent(secret, |_, b| unreserved(b), true)),
        (
            "percent, lower",
            percent(secret, |_, b| unreserved(b), false),
        ),
        ("percent, all", percent(secret, |_, _| false, false)),
        (
            "percent, every other",
            percent(secret, |n, b| b.is_ascii() && n % 2 == 0, true),
        ),
        ("form", form(secret)),
        ("hex", hex(secret)),
        ("hex, upper", hex(secret).to_uppercase()),
        ("hex, in step with nothing", format!("f{}", hex(secret))),
        ("json", json(secret)),
        ("json, units", json_units(secret)),
        ("json, slashes", json(secret).replace('/', "\\/")),
        ("sql", secret.replace('\'', "''")),
        ("sql, double", secret.replace('"', "\"\"")),
        ("sql, backslash", backslashed(secret)),
        ("octal", octal(secret)),
        ("debug", debug(secret)),
        ("debug of bytes", format!("{:?}", secret.as_bytes())),
        ("debug of bytes, long", format!("{:#?}", secret.as_bytes())),
        ("debug of bytes, hex", format!("{:x?}", secret.as_bytes())),
        ("debug of debug", debug(&debug(secret))),
        ("escape_ascii", secret.as_bytes().escape_ascii().to_string()),
        ("escape_default", secret.escape_default().to_string()),
        ("escape_unicode", secret.escape_unicode().to_string()),
        ("json in json", json(&json(secret))),
        ("sql in json", json(&secret.replace('\'', "''"))),
        (
            "url in json",
            json(&percent(secret, |_, b| unreserved(b), true)),
        ),
        (
            "json in base64",
            STANDARD.encode(format!("{{\"p\":\"{}\"}}", json(secret))),
        ),
        (
            "base64 in base64",
            STANDARD.encode(format!("a:{}", STANDARD.encode(secret))),
        ),
    ];
    for lead in ["", "u", "us", "user:"] {
        let text = format!("{lead}{secret}");
        all.extend([
            ("base64", STANDARD.encode(&text)),
            ("base64, no padding", STANDARD_NO_PAD.encode(&text)),
            ("base64, url", URL_SAFE.encode(&text)),
            ("base64, url, no padding", URL_SAFE_NO_PAD.encode(&text)),
            ("base64 and more", STANDARD.encode(text.clone() + "@host")),
            ("base64 out of step", format!("x{}", STANDARD.encode(&text))),
            (
                "base64 in a url",
                percent(&STANDARD.encode(&text), |_, b| unreserved(b), true),
            ),
            (
                "base64 in json",
                json(&STANDARD.encode(&text)).replace('/', "\\/"),
            ),
        ]);
    }
    all
}

/// Fails if a text still holds the secret in some form: everything that can be decoded of it is searched.
fn assert_gone(what: &str, secret: &str, shown: &str) {
    fn holds(view: &View<'_>, secret: &[u8], depth: usize) -> bool {
        let mut found = view.bytes().windows(secret.len()).any(|w| w == secret);
        if depth > 0 {
            view.each_decoded(&mut |decoded| found |= holds(&decoded, secret, depth - 1));
        }
        found
    }
    let left = holds(&View::plain(shown.as_bytes()), secret.as_bytes(), 2);
    assert!(!left, "{what} of {secret:?} is left in {shown:?}");
}

fn assert_hidden(secret: &str, before: &str, after: &str) {
    let scrubber = scrubber(&[secret]);
    for (what, form) in forms(secret) {
        let text = format!("{before}{form}{after}");
        let shown = scrubber.scrub(&text);
        assert!(
            shown.contains(HIDDEN),
            "{what} of {secret:?} got through: {text:?}"
        );
        assert!(
            !shown.contains(&form),
            "{what} of {secret:?} got through: {shown:?}"
        );
        assert_gone(what, secret, &shown);
    }
}

#[test]
fn s2_no_form_of_a_secret_gets_through() {
    for secret in [
        "hunter2hunter2",
        "k8L2mQ9xT4vB7nR1sW6yZ3cF5hJ0pD8a",
        "p@ss/w:rd?#&= %",
        "quo'te\"back\\slash`$",
        "ünïcödé-🦀-päss",
        "100%25%41percent%",
        "a+b c+d e",
        "''''''''",
        "\\\\\\\\n\\t\\0",
        "+/+/+/+/+/",
        "tab\tline\nend\r",
        "\u{1}\u{7f}\u{80}ctrl",
    ] {
        assert_hidden(secret, "", "");
        assert_hidden(secret, "redis://user:", "@host:6379/0");
        assert_hidden(secret, "Authorization: Basic ", "\n");
        assert_hidden(
            secret,
            "ALTER ROLE web PASSWORD '",
            "' VALID UNTIL 'infinity'",
        );
        assert_hidden(secret, "{\"password\":\"", "\",\"n\":1}");
    }
}

#[test]
fn s2_base64_over_several_lines_is_found() {
    let secret = "k8L2mQ9xT4vB7nR1sW6yZ3cF5hJ0pD8a";
    let long = STANDARD.encode(format!("{}user:{secret}{}", "x".repeat(60), "y".repeat(60)));
    let wrapped = long
        .as_bytes()
        .chunks(76)
        .map(|line| String::from_utf8_lossy(line))
        .collect::<Vec<_>>()
        .join("\r\n");
    let shown = scrubber(&[secret]).scrub(&wrapped).into_owned();
    assert!(shown.contains(HIDDEN));
    assert_gone("wrapped base64", secret, &shown);
}

#[test]
fn s2_only_the_secret_is_hidden() {
    let scrubber = scrubber(&["correct-horse", "battery staple"]);
    let cases = [
        ("login correct-horse failed", "login [hidden] failed"),
        ("correct-horse", "[hidden]"),
        ("correct-horsecorrect-horse", "[hidden]"),
        ("correct-horse, battery+staple!", "[hidden], [hidden]!"),
        ("a correct-hors b", "a correct-hors b"),
        (
            "url=redis://u:correct%2Dhorse@h",
            "url=redis://u:[hidden]@h",
        ),
        ("üü correct-horse üü", "üü [hidden] üü"),
        (
            "[99, 111, 114, 114, 101, 99, 116, 45, 104, 111, 114, 115, 101]",
            "[[hidden]]",
        ),
    ];
    for (text, shown) in cases {
        assert_eq!(scrubber.scrub(text), shown);
    }
    let basic = format!("Basic {} end", STANDARD.encode("web:correct-horse"));
    assert_eq!(scrubber.scrub(&basic), "Basic d2ViO[hidden]= end");
}

#[test]
fn s2_secrets_that_overlap_or_begin_alike_are_all_hidden() {
    let scrubber = scrubber(&[
        "password-one",
        "password-two",
        "password-one-more",
        "one-more-word",
    ]);
    for secret in [
        "password-one",
        "password-two",
        "password-one-more",
        "password-one-more-word",
    ] {
        assert_eq!(scrubber.scrub(&format!("<{secret}>")), "<[hidden]>");
    }
    scrubber.remove(&Secret::from("password-one"));
    assert_eq!(scrubber.scrub("<password-one>"), "<password-one>");
    assert_eq!(scrubber.scrub("<password-two>"), "<[hidden]>");
    assert_eq!(scrubber.known(), 3);
}

#[test]
fn s2_a_secret_is_hidden_for_as_long_as_somebody_has_it() {
    let scrubber = Scrubber::new();
    let shared = scrubber.clone();
    let secret = Secret::from("shared-by-two");
    assert_eq!(scrubber.scrub("shared-by-two"), "shared-by-two");
    shared.add(secret.clone());
    shared.add(secret.clone());
    scrubber.remove(&secret);
    assert_eq!(scrubber.scrub("shared-by-two"), HIDDEN);
    scrubber.remove(&secret);
    scrubber.remove(&secret);
    assert_eq!(scrubber.scrub("shared-by-two"), "shared-by-two");
    assert_eq!(scrubber.known(), 0);
}

#[test]
fn s2_weak_secrets_are_exempt() {
    let scrubber = Scrubber::new();
    assert!(!scrubber.add(Secret::from("1234567")));
    assert!(!scrubber.add(Secret::from("")));
    assert!(scrubber.add(Secret::from("12345678")));
    assert_eq!(scrubber.scrub("1234567 12345678"), "1234567 [hidden]");
    assert_eq!(format!("{scrubber:?}"), "Scrubber(1 secrets)");
}

#[test]
fn s2_a_writer_lets_whole_scrubbed_lines_through() {
    let mut out = Vec::new();
    {
        let mut writer = ScrubWriter::new(scrubber(&["correct-horse"]), &mut out);
        for part in [
            "one corr",
            "ect-ho",
            "rse\ntwo\nthr",
            "ee correct",
            "-horse",
        ] {
            writer.write_all(part.as_bytes()).expect("write");
            writer.flush().expect("flush");
        }
    }
    assert_eq!(
        String::from_utf8_lossy(&out),
        "one [hidden]\ntwo\nthree [hidden]"
    );
}

/// Texts of the signs that matter to one form or another.
fn around() -> impl Strategy<Value = String> {
    proptest::string::string_regex("[a-z0-9 ,.:;=/@{}\\[\\]\"'\\\\%+-]{0,24}").expect("regex")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn s2_no_form_of_any_secret_gets_through(secret in "[ -~äß🦀\\n]{8,40}", before in around(), after in around()) {
        // What stands around may itself complete a form: then that is no longer this form, so a mark
        // that is part of none keeps them apart.
        assert_hidden(&secret, &format!("{before}¦"), &format!("¦{after}"));
    }

    #[test]
    fn s2_any_mix_of_encoded_and_plain_bytes_is_found(
        secret in "[ -~]{8,30}", plain in proptest::collection::vec(any::<bool>(), 30), upper: bool,
    ) {
        let mixed = percent(&secret, |n, _| plain[n], upper);
        let scrubber = scrubber(&[&secret]);
        for mixed in [mixed.replace(' ', "+"), mixed] {
            let shown = scrubber.scrub(&mixed).into_owned();
            prop_assert!(shown.contains(HIDDEN), "{secret:?} got through as {mixed:?}");
        }
    }

    #[test]
    fn s2_a_text_without_secrets_is_borrowed_and_unchanged(
        text in "[ -~äß🦀\\n]{0,200}", secrets in proptest::collection::vec("[a-zA-Z0-9]{20}", 1..20),
    ) {
        let known: Vec<&str> = secrets.iter().map(String::as_str).collect();
        let scrubber = scrubber(&known);
        prop_assert!(matches!(scrubber.scrub(&text), Cow::Borrowed(same) if same == text));
    }

    #[test]
    fn s2_scrubbing_any_text_never_panics_and_twice_is_once(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let scrubber = scrubber(&["correct-horse", "\u{fffd}\u{fffd}\u{fffd}"]);
        let once = scrubber.scrub(&text).into_owned();
        prop_assert_eq!(scrubber.scrub(&once).into_owned(), once);
    }
}
