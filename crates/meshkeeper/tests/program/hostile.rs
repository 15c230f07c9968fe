//! Names and passwords as people have them: bytes in, bytes out (A-5, O-01 … O-10).

use crate::lab::{Lab, need};
use crate::redis::Redis;

fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        if *first == b'%' {
            let hex = std::str::from_utf8(&more[..2]).expect("hex");
            bytes.push(u8::from_str_radix(hex, 16).expect("hex"));
            rest = &more[2..];
        } else {
            bytes.push(*first);
            rest = more;
        }
    }
    String::from_utf8(bytes).expect("text")
}

/// A manifest of logins and passwords, each for a consumer `c0`, `c1` …
fn manifest(lab: &Lab, redis: &Redis, pairs: &[(String, String)]) {
    let mut text = crate::lab::cache(redis, "", []);
    for (n, (login, password)) in pairs.iter().enumerate() {
        lab.write(&format!("p{n}"), &format!("{password}\n"));
        let login = serde_json::to_string(login).expect("TOML");
        let lines = format!("login = {login}\npassword = {{ file = \"p{n}\" }}\nweak = true");
        need(&mut text, &format!("c{n}"), "cache", &lines);
    }
    lab.manifest(&text);
}

fn pairs() -> Vec<(String, String)> {
    let fine = |s: &str| s.to_owned();
    let mut all: Vec<(String, String)> = [
        ("-rf", "--help"),
        ("--", "-"),
        ("-n", "-D"),
        ("pct%s%n", "16%d%%41'"),
        ("double\"quote", "p@ss/w:rd?#[%41]&=+{x} '"),
        ("single'quote", "pass\"word\""),
        ("back\\slash", "back\\slash\\"),
        ("dollar$HOME`id`", "$(reboot)`id`;|&"),
        ("AppRead", "first-of-two"),
        ("appread", "second-of-two"),
        ("star*", "star-password"),
        ("star", "plain-star-password"),
        ("~key", "a tilde-password"),
        (">pass", ">not-a-rule"),
        ("#hash", "#not-a-hash"),
        ("nopass", "nopass"),
        ("reset", "resetpass"),
        ("on", "off"),
        ("z\u{fc}rich-\u{6f22}", "pass\u{a0}word"),
        ("soft", "so\u{ad}ft77"),
        ("wide", "\u{ff21}bc\u{bc}9"),
        ("combining", "Zu\u{308}rich-9"),
        ("emoji\u{1f9ff}", "x\u{1f9ff}y"),
        ("lines", "a\nb"),
        ("returns", "a\r\nb"),
        ("tab", "tab\there"),
        ("spaces", "  spaces around  "),
        ("hash-like", "md5aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        ("scram-like", "SCRAM-SHA-256$4096:c2FsdA==$a:b"),
        ("(paren)", "(selector ~*)"),
    ]
    .map(|(login, password)| (fine(login), fine(password)))
    .to_vec();
    all.push(("long".repeat(60), "\u{6f22}x".repeat(250)));
    all
}

#[test]
fn a5_names_and_passwords_are_bytes_from_the_manifest_to_the_server_and_back() {
    let (lab, redis) = (Lab::new(), Redis::start());
    let all = pairs();
    manifest(&lab, &redis, &all);
    let check = lab.mesh(&["check"]);
    assert_eq!(check.code, 0, "{check:#?}");
    lab.mesh(&["apply"]);
    let states = lab.states();
    for (n, (login, password)) in all.iter().enumerate() {
        assert!(
            states.contains(&format!("c{n}=held")),
            "{login:?}: {states:?}"
        );
        assert!(
            redis.lets_in(login, password),
            "{login:?}: {:?}",
            redis.user(login)
        );
        let json = lab
            .mesh(&["credentials", &format!("c{n}"), "cache", "--json"])
            .ends(0)
            .json();
        assert_eq!(json["login"], **login);
        assert_eq!(json["password"], **password);
        let url = json["urls"][0].as_str().expect("url");
        let (user, rest) = url
            .strip_prefix("redis://")
            .expect("scheme")
            .split_once(':')
            .expect("colon");
        let (word, place) = rest.split_once('@').expect("at");
        assert_eq!(
            (decode(user).as_str(), decode(word).as_str()),
            (login.as_str(), password.as_str())
        );
        assert_eq!(place, format!("127.0.0.1:{}", redis.port));
    }
    assert_eq!(redis.users().len(), all.len());
    let writes = redis.writes();
    lab.mesh(&["apply"]);
    assert_eq!(redis.writes(), writes, "again changes nothing");
    // A loss of one of them is healed on that one alone.
    redis.ask(&["ACL", "DELUSER", "star*", "AppRead", "-rf"]);
    lab.mesh(&["apply"]);
    assert_eq!(redis.users().len(), all.len());
    assert!(redis.lets_in("appread", "second-of-two") && redis.lets_in("AppRead", "first-of-two"));
}

#[test]
fn o04_who_leaves_is_taken_away_by_its_exact_name() {
    let short = "list_every = \"1s\"\nremove_after = \"1s\"\ngrace = \"1s\"\nmax_removals = 10";
    let (lab, redis) = (Lab::new(), Redis::start());
    let text = |leaving: bool| {
        let mut text = crate::lab::cache(&redis, short, []);
        let all = [
            ("star*", true),
            ("star1", false),
            ("star", false),
            ("AppRead", true),
            ("appread", false),
            ("-rf", true),
            ("rf", false),
            ("a\\\"b", true),
            ("ab", false),
        ];
        for (n, (login, leaves)) in all.iter().enumerate() {
            if !(leaving && *leaves) {
                need(
                    &mut text,
                    &format!("c{n}"),
                    "cache",
                    &format!("login = \"{login}\""),
                );
            }
        }
        text
    };
    lab.manifest(&text(false));
    lab.mesh(&["apply"]).ends(0);
    assert_eq!(redis.users().len(), 9);
    lab.manifest(&text(true));
    crate::wait::until("those that leave are gone", 30, || {
        lab.mesh(&["apply"]);
        let users = redis.users();
        if users.len() == 5 { Ok(()) } else { Err(users) }
    });
    let left: Vec<String> = redis.users().into_iter().collect();
    assert_eq!(left, ["ab", "appread", "rf", "star", "star1"]);
}

#[test]
fn a5_what_redis_cannot_take_is_refused_before_anything_is_written() {
    let (lab, redis) = (Lab::new(), Redis::start());
    for (login, field) in [
        ("with space", "login"),
        ("line\\nbreak", "login"),
        ("nul\\u0000", "login"),
        ("", "login"),
    ] {
        let mut text = crate::lab::cache(&redis, "", ["web"]);
        need(&mut text, "odd", "cache", &format!("login = \"{login}\""));
        lab.manifest(&text);
        let ran = lab.mesh(&["check"]).ends(1);
        assert!(ran.out.contains(field), "{login}: {ran:#?}");
        lab.mesh(&["apply"]).ends(3);
        assert_eq!(redis.users().len(), 1, "{login}");
    }
    // Two consumers cannot be the same login.
    let mut text = crate::lab::cache(&redis, "", ["web"]);
    need(&mut text, "one", "cache", "login = \"same\"");
    need(&mut text, "two", "cache", "login = \"same\"");
    lab.manifest(&text);
    lab.mesh(&["check"]).ends(1).says("same");
    // NUL and bytes that are no text are no passwords.
    for bytes in [&b"abc\0defgh"[..], b"\xff\xfe-no-text-here"] {
        std::fs::write(lab.path().join("odd.password"), bytes).expect("written");
        let mut text = crate::lab::cache(&redis, "", ["web"]);
        need(
            &mut text,
            "odd",
            "cache",
            "password = { file = \"odd.password\" }",
        );
        lab.manifest(&text);
        lab.mesh(&["apply"]).ends(3);
        assert!(!redis.users().contains("odd"));
        let told = lab.conditions();
        assert!(
            told.contains(&"SecretUnreadable cache/odd".to_owned()),
            "{told:?}"
        );
    }
}
