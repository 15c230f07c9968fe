//! The program as a process: what it is given, how it ends, what becomes of lines that are not the protocol.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use mesh_conformance::basics::until;
use mesh_sdk::adapter::FindingLevel;
use mesh_sdk::{Answer, Class, Difference, Proof, Wish};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;

use super::{Ours, settings, wish};

const DOUBLE: &str = include_str!("double.py");
/// Far longer than anything here takes.
const LONG: Duration = Duration::from_secs(30);
/// Long enough to have been asked.
const SHORT: Duration = Duration::from_millis(500);

/// A program that does as it is told, and a log of what it was asked.
pub(super) struct Double {
    folder: TempDir,
    ours: Ours,
}

impl Double {
    pub(super) fn told(how: Value) -> Self {
        Self::with_args(how, &[])
    }
    fn with_args(mut how: Value, args: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("double");
        std::fs::write(&program, DOUBLE).expect("the program");
        let rights = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&program, rights).expect("its rights");
        how["log"] = json!(folder.path().join("log"));
        let options = json!({ "args": args, "settings": how });
        let ours = Ours::on(settings(&program, options));
        Self { folder, ours }
    }
    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
    pub(super) fn ours(&self) -> &Ours {
        &self.ours
    }
    pub(super) fn count(&self, start: &str) -> usize {
        let log = self.log();
        log.lines().filter(|line| line.starts_with(start)).count()
    }
    /// A call that hangs, once the program was asked.
    async fn hung<'d>(&'d self, hangs: &'d Wish) -> Pin<Box<dyn Future<Output = ()> + 'd>> {
        let mut call: Pin<Box<dyn Future<Output = ()>>> = Box::pin(async {
            drop(self.ours.holds(hangs).await);
        });
        let asked = until("it is asked", LONG, || async {
            let asked = self.count("holds hangs") == 1;
            asked.then_some(()).ok_or_else(|| self.log())
        });
        tokio::select! {
            () = &mut call => panic!("it should hang"),
            asked = asked => asked.expect("asked"),
        }
        call
    }
    fn path(&self) -> PathBuf {
        self.folder.path().join("double")
    }
}

/// What is there and in order, as far as a program can say it.
fn in_order(double: &Double, name: &str) -> Value {
    let wish = wish(name);
    let mark = double.ours.marker.mark(wish.consumer());
    json!({ "found": true, "enabled": true, "password": "fits", "mark": mark.as_str() })
}

#[tokio::test(flavor = "multi_thread")]
async fn s2_secrets_are_neither_in_arguments_nor_in_the_environment() {
    let double = Double::with_args(json!({}), &["--of", "mine"]);
    double.ours.create(&wish("web")).await.expect("create");
    let log = double.log();
    assert!(log.contains(r#"args ["--of", "mine"]"#), "{log}");
    let names = log.lines().find_map(|line| line.strip_prefix("env "));
    let names: Vec<String> = serde_json::from_str(names.expect("a line")).expect("names");
    // What starts Python may add some of its own; what the tests run in is not handed on.
    let ours = ["CARGO", "NEXTEST", "RUST", "MESH", "USER"];
    let ours = |name: &String| ours.iter().any(|start| name.starts_with(start));
    assert!(!names.iter().any(ours), "{names:?}");
    assert!(names.iter().any(|name| name == "PATH"), "{names:?}");
    assert!(
        log.contains(r#"admin {"user": "boss", "password": "planted-admin"}"#),
        "{log}"
    );
    let pid = log
        .lines()
        .find_map(|line| line.strip_prefix("start "))
        .expect("an id");
    for what in ["cmdline", "environ"] {
        let seen = std::fs::read(format!("/proc/{pid}/{what}")).expect("it runs");
        assert!(
            !String::from_utf8_lossy(&seen).contains("planted"),
            "{what}"
        );
    }
    let folder = std::fs::canonicalize(double.folder.path()).expect("a folder");
    assert!(log.contains(&format!("cwd {}", folder.display())), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a9_one_program_serves_many_calls_and_is_started_again_when_it_died() {
    let double = Double::told(json!({ "dies": { "exit": true } }));
    for _ in 0..3 {
        double.ours.holds(&wish("web")).await.expect("an answer");
    }
    assert_eq!(double.count("start"), 1);
    let error = double.ours.holds(&wish("dies")).await.expect_err("it died");
    assert_eq!(error.class(), Class::Unreachable, "{error}");
    double.ours.holds(&wish("web")).await.expect("an answer");
    assert_eq!(double.count("start"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a9_answers_may_come_out_of_order() {
    let double = Double::told(json!({ "slow": { "late": true } }));
    let (slow, quick) = (wish("slow"), wish("web"));
    let first = double.ours.holds(&slow);
    let second = async {
        until("the first is asked", LONG, || async {
            let asked = double.count("holds slow") == 1;
            asked.then_some(()).ok_or_else(|| double.log())
        })
        .await
        .expect("asked");
        double.ours.holds(&quick).await
    };
    let (first, second) = timeout(LONG, async { tokio::join!(first, second) })
        .await
        .expect("in time");
    for answer in [first, second] {
        assert_eq!(answer.expect("an answer"), Answer::absent());
    }
    assert_eq!(double.count("start"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn h9_after_a_call_that_was_cut_off_the_program_is_not_used_again() {
    let double = Double::told(json!({ "hangs": { "hang": true } }));
    double.ours.holds(&wish("web")).await.expect("it runs");
    let hangs = wish("hangs");
    drop(double.hung(&hangs).await);
    let pid = double
        .log()
        .lines()
        .find_map(|line| Some(line.strip_prefix("start ")?.to_owned()));
    let stat = format!("/proc/{}/stat", pid.expect("an id"));
    until("the end of the program", LONG, || async {
        let stat = std::fs::read_to_string(&stat).unwrap_or_default();
        let ended = stat.is_empty() || stat.contains(") Z");
        ended.then_some(()).ok_or(stat)
    })
    .await
    .expect("killed");
    double.ours.holds(&wish("web")).await.expect("an answer");
    assert_eq!(double.count("start"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn h9_a_call_in_flight_is_answered_although_another_was_cut_off() {
    let double = Double::told(json!({ "hangs": { "hang": true } }));
    let (hangs, other) = (wish("hangs"), wish("web"));
    double.ours.holds(&other).await.expect("it runs");
    let hung = double.hung(&hangs).await;
    // It waits behind the one that hangs.
    let mut behind = Box::pin(double.ours.holds(&other));
    assert!(timeout(SHORT, &mut behind).await.is_err());
    drop(hung);
    std::fs::write(double.folder.path().join("log.go"), "").expect("a word");
    let answer = timeout(LONG, behind).await.expect("in time");
    assert_eq!(answer.expect("its answer"), Answer::absent());
    double.ours.holds(&other).await.expect("an answer");
    assert_eq!(double.count("start"), 2, "{}", double.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn h9_the_program_ends_with_its_adapter() {
    let double = Double::told(json!({}));
    double.ours.holds(&wish("web")).await.expect("an answer");
    let pid = double
        .log()
        .lines()
        .find_map(|line| Some(line.strip_prefix("start ")?.to_owned()));
    let Double { folder, ours } = double;
    drop(ours);
    let stat = format!("/proc/{}/stat", pid.expect("an id"));
    until("the end of the program", LONG, || async {
        let stat = std::fs::read_to_string(&stat).unwrap_or_default();
        let ended = stat.is_empty() || stat.contains(") Z");
        ended.then_some(()).ok_or(stat)
    })
    .await
    .expect("killed");
    drop(folder);
}

#[tokio::test(flavor = "multi_thread")]
async fn a3_a_line_that_is_not_the_protocol_is_a_bug_told_by_its_number() {
    let wrong = [
        ("planted nonsense", "is not of the protocol"),
        (r#"{"ok":{}}"#, "has no id"),
        (r#"{"id":$ID}"#, "is not exactly one of"),
        (
            r#"{"id":$ID,"ok":{},"error":{"class":"gone","message":"planted"}}"#,
            "is not exactly one of",
        ),
    ];
    for (line, why) in wrong {
        let double = Double::told(json!({ "odd": { "say": [line] } }));
        double.ours.holds(&wish("web")).await.expect("an answer");
        let error = double.ours.holds(&wish("odd")).await.expect_err(line);
        assert_eq!(error.class(), Class::Bug, "{error}");
        assert!(
            error.message().contains("line 3") && error.message().contains(why),
            "{error}"
        );
        assert!(!error.message().contains("planted"), "{error}");
        // And the next call has a new program.
        double.ours.holds(&wish("web")).await.expect("an answer");
        assert_eq!(double.count("start"), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a9_a_line_without_end_is_cut_at_a_bound() {
    let double = Double::told(json!({ "long": { "long": 2_000_000 } }));
    let error = double
        .ours
        .holds(&wish("long"))
        .await
        .expect_err("too long");
    assert_eq!(error.class(), Class::Bug);
    assert!(
        error.message().contains("line 2") && error.message().contains("too long"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a10_versions_are_negotiated_and_unknown_abilities_are_nothing() {
    let double = Double::told(json!({}));
    let at_best = double.ours.adapter.capabilities();
    assert!(
        at_best.holds && at_best.list,
        "taken to be able until it said what it can"
    );
    double.ours.holds(&wish("web")).await.expect("an answer");
    let can = double.ours.adapter.capabilities();
    assert!(
        can.holds && can.holds_all && can.hint && !can.list && !can.disable,
        "{can:?}"
    );
    let error = double
        .ours
        .adapter
        .list(&double.ours.cx, &double.ours.marker)
        .await;
    assert_eq!(error.expect_err("not declared").class(), Class::Cannot);
    assert_eq!(double.count("list"), 0);

    let other = Double::told(json!({ "hello": { "version": 7, "capabilities": [] } }));
    let error = other
        .ours
        .holds(&wish("web"))
        .await
        .expect_err("another version");
    assert_eq!(error.class(), Class::Cannot);
    assert!(error.message().contains("version 7"), "{error}");
    let refuses = Double::told(
        json!({ "hello": { "error": { "class": "denied", "message": "wrong admin" } } }),
    );
    let error = refuses.ours.holds(&wish("web")).await.expect_err("refused");
    assert_eq!(
        (error.class(), error.message()),
        (Class::Denied, "hello: wrong admin")
    );
    let odd = Double::told(json!({ "before": ["planted"] }));
    let error = odd.ours.holds(&wish("web")).await.expect_err("no hello");
    assert_eq!(error.class(), Class::Bug);
    assert!(!error.message().contains("planted"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a1_a_program_that_cannot_be_asked_creates_and_takes_nobody_over() {
    let double = Double::told(json!({ "hello": { "version": 1, "name": "bare" } }));
    double.ours.create(&wish("web")).await.expect("create");
    assert!(!double.ours.adapter.capabilities().holds);
    let error = double
        .ours
        .holds(&wish("web"))
        .await
        .expect_err("it cannot");
    assert_eq!(error.class(), Class::Cannot);
    let server = double
        .ours
        .adapter
        .server(&double.ours.cx)
        .await
        .expect("its hello");
    assert_eq!(server.version, "bare");
    assert_eq!(double.count("server"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn h5_what_a_program_tells_is_judged_here() {
    let double = Double::told(json!({}));
    let cases = [
        (json!({}), None),
        (json!({ "enabled": false }), Some(Difference::Disabled)),
        (json!({ "password": "differs" }), Some(Difference::Password)),
        (
            json!({ "password": "fits_among_others" }),
            Some(Difference::Password),
        ),
        (
            json!({ "password": "not_enforced" }),
            Some(Difference::PasswordNotEnforced),
        ),
        (
            json!({ "missing": ["read"] }),
            Some(Difference::GrantsMissing),
        ),
        (
            json!({ "surplus": ["fly"] }),
            Some(Difference::GrantsSurplus),
        ),
        (json!({ "mark": null }), Some(Difference::MarkMissing)),
        (
            json!({ "mark": "mk1.other.i9.x.web.aaaaaaaaaaaaaaaaaaaaaaaa" }),
            Some(Difference::MarkMissing),
        ),
    ];
    for (change, want) in cases {
        let mut facts = in_order(&double, "web");
        for (key, value) in change.as_object().expect("a table") {
            facts[key.as_str()] = value.clone();
        }
        let told = Double::told(json!({ "web": { "facts": facts } }));
        match (
            told.ours.holds(&wish("web")).await.expect("an answer"),
            want,
        ) {
            (Answer::Held(held), None) => assert_eq!(held.proof, Proof::Verifier),
            (Answer::Lost(lost), Some(want)) => {
                assert_eq!(lost.differences, want.into(), "{change}");
            }
            other => panic!("{change}: {other:?}"),
        }
    }
    // What a backend does not tell is not claimed.
    let mut facts = in_order(&double, "web");
    facts["password"] = json!("unknown");
    let told = Double::told(json!({ "web": { "facts": facts } }));
    let answer = told.ours.holds(&wish("web")).await.expect("an answer");
    assert_eq!(answer, Answer::held(Proof::Presence));
}

#[tokio::test(flavor = "multi_thread")]
async fn h14_a_hint_is_handed_on() {
    let double = Double::told(json!({ "web": { "say": [r#"{"hint":true}"#] } }));
    let hint = double.ours.adapter.hint(&double.ours.cx);
    tokio::pin!(hint);
    assert!(
        timeout(SHORT, &mut hint).await.is_err(),
        "a hint where there is nothing"
    );
    double.ours.holds(&wish("web")).await.expect("an answer");
    timeout(LONG, hint).await.expect("in time").expect("a hint");
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_a_program_that_others_can_change_is_told() {
    let double = Double::told(json!({}));
    let found = double
        .ours
        .adapter
        .doctor(&double.ours.cx)
        .await
        .expect("findings");
    assert!(
        found.iter().all(|one| one.level == FindingLevel::Ok),
        "{found:?}"
    );
    let rights = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(double.path(), rights).expect("its rights");
    let found = double
        .ours
        .adapter
        .doctor(&double.ours.cx)
        .await
        .expect("findings");
    assert!(
        found.iter().any(|one| one.level == FindingLevel::Error),
        "{found:?}"
    );
    std::fs::remove_file(double.path()).expect("gone");
    let gone = Ours::on(settings(&double.path(), json!({})));
    let error = gone.holds(&wish("web")).await.expect_err("no program");
    assert_eq!(error.class(), Class::Unreachable, "{error}");
}
