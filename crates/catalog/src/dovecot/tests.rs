//! Lines as Dovecot has them; what is not ours stays byte for byte.

use mesh_sdk::Kind;
use serde_json::json;

use super::DovecotKind;
use super::adapter::Dovecot;
use super::values::DovecotValues;
use crate::password_file::testing::{self, asked, mark, removed, wanted};
use crate::password_file::{Entry, Format, Lines, Rights};

const TIGHT: Dovecot = Dovecot { any_login: false };
const WIDE: Dovecot = Dovecot { any_login: true };

fn values(value: serde_json::Value) -> DovecotValues {
    serde_json::from_value(value).expect("values")
}
fn set(text: &str, hash: Option<&str>, off: bool, asked: serde_json::Value) -> String {
    testing::set::<Dovecot>(text, "web", &wanted(hash, off, Some(values(asked))))
}
fn seen<O>(text: &str, login: &str, look: impl FnOnce(&Entry<'_>) -> O) -> O {
    let lines = Lines::read(text.as_bytes());
    look(&lines.entries::<Dovecot>()[login.as_bytes()])
}

#[test]
fn a_login_is_added_and_changed_where_it_stands() {
    let mark = mark("web");
    let others = "# mine\r\nann:{PLAIN}x\n\n:odd\nlast:{CRYPT}y:1:1::/h";
    let made = set(others, Some("H"), false, json!({}));
    assert_eq!(made, format!("{others}\nweb:H:::{mark}:::\n"));
    assert_eq!(removed::<Dovecot>(&made, "web"), format!("{others}\n"));
    let all =
        json!({ "uid": 5000, "gid": 5001, "home": "/m/w", "allow_nets": ["10.0.0.1", "::/0"] });
    let nets = "allow_nets=10.0.0.1/32,::/0";
    let full = set("a:1\nweb\nb:2\nweb:second\n", Some("H"), true, all.clone());
    let line = format!("web:{{CRYPT}}!H:5000:5001:{mark}:/m/w::{nets}\n");
    assert_eq!(full, format!("a:1\n{line}b:2\n"));
    // What others put there stays: a name, a shell, an extra field, the line's end.
    let theirs =
        format!("web:{{CRYPT}}!O:1:2:Ann A. mk1.x:/old:sh:nologin a=b {nets} nopassword\r\n");
    let kept = set(&theirs, None, false, all);
    assert_eq!(
        kept,
        format!("web:O:5000:5001:Ann A. {mark}:/m/w:sh:a=b {nets}\r\n")
    );
    // The old form says where the mail is behind one more colon, and what we add is read as before.
    let old = set(
        "web:O:1:2::/h:::mbox:~/mail\n",
        Some("H"),
        false,
        json!({ "allow_nets": ["::1"] }),
    );
    assert_eq!(
        old,
        format!("web:H:::{mark}::::mbox:~/mail allow_nets=::1/128\n")
    );
    let old = set(
        "web:O:1:2::/h:::\n",
        Some("H"),
        false,
        json!({ "allow_nets": ["::1"] }),
    );
    assert_eq!(old, format!("web:H:::{mark}:::allow_nets=::1/128\n"));
}

#[test]
fn h5_an_entry_is_read_as_dovecot_reads_it() {
    let text = "web:{CRYPT}$2y$x:::A mk1.a:::nologin=gone\nweb:2\nopen:::::::nopassword\nonly\n\
                mk1.b:{CRYPT}!{BLF-CRYPT}$2y$z::mk1.c\n#c:x\n:x\n";
    assert_eq!(Lines::read(text.as_bytes()).entries::<Dovecot>().len(), 4);
    let web = |e: &Entry<'_>| {
        (
            e.bcrypt == b"$2y$x",
            e.off,
            e.again,
            e.mark == Some("mk1.a"),
        )
    };
    assert_eq!(seen(text, "web", web), (true, true, true, true));
    assert!(seen(text, "open", |e| e.open
        && !e.off
        && e.hash.is_empty()));
    assert!(seen(text, "only", |e| e.hash.is_empty() && e.mark.is_none()));
    let off = |e: &Entry<'_>| e.off && e.hash == b"{BLF-CRYPT}$2y$z" && e.mark.is_none();
    assert!(seen(text, "mk1.b", off), "a mark counts in its field only");
}

#[test]
fn a7_rights_are_what_the_values_can_say() {
    let found = |line: &str, values: DovecotValues| {
        let text = format!("web:H{line}\n");
        let Rights { missing, surplus } = asked("web", b"pw", values, |wish| {
            seen(&text, "web", |entry| Dovecot::rights(wish, entry))
        });
        format!("-{} +{}", missing.join(","), surplus.join(","))
    };
    let of = |value| values(value);
    let net = |nets: &[&str]| of(json!({ "allow_nets": nets }));
    for (line, asked, differs) in [
        ("::::::userdb_x=1", of(json!({})), "- +"),
        ("", of(json!({ "home": "/a" })), "-home /a +"),
        (":1:1::/b", of(json!({ "uid": 1 })), "- +gid 1,home /b"),
        (":vmail", of(json!({ "uid": 1 })), "-uid 1 +uid vmail"),
        (
            "::::::allow_nets=10.0.0.1/32,::1",
            net(&["10.0.0.1", "::1/128"]),
            "- +",
        ),
        (
            "::::::allow_nets=a,local",
            net(&["local"]),
            "- +logins from a",
        ),
        ("", net(&["10.0.0.0/8"]), "- +logins from anywhere"),
        ("::::::allow_nets=::1", net(&[]), "-logins from anywhere +"),
    ] {
        assert_eq!(found(line, asked), differs, "{line}");
    }
}

#[test]
fn a7_a_surplus_stays_on_an_adopted_login() {
    let set = |line: &str, asked: serde_json::Value| {
        let mut wanted = wanted(None, false, Some(values(asked)));
        wanted.exact = false;
        let made = testing::set::<Dovecot>(&format!("web:H{line}\n"), "web", &wanted);
        made.replace(&mark("web"), "M")
            .replace("web:H", "")
            .replace('\n', "")
    };
    let one = json!({ "allow_nets": ["10.0.0.0/8"], "uid": 7 });
    assert_eq!(set(":1:1::/b", one.clone()), ":7:1:M:/b::");
    assert_eq!(
        set("::::::allow_nets=::1", one),
        ":7::M:::allow_nets=10.0.0.0/8,::1/128"
    );
    assert_eq!(set("::::::allow_nets=::1", json!({})), ":::M:::");
}

#[test]
fn a5_o07_o08_what_dovecot_would_misread_is_refused() {
    let refused = |format: &Dovecot, login: &str, password: &[u8], value| {
        testing::refused(format, login, password, values(value))
    };
    for good in ["web", "-n", "a.b@c-d_1", &"x".repeat(255)] {
        assert_eq!(refused(&TIGHT, good, b"pw", json!({})), None, "{good}");
    }
    for wide in ["A", "a b", "ü", "a+b", "%u", "a#"] {
        assert_eq!(
            refused(&TIGHT, wide, b"pw", json!({})).as_deref(),
            Some("login")
        );
        assert_eq!(refused(&WIDE, wide, b"pw", json!({})), None, "{wide}");
    }
    let long = "ü".repeat(128);
    for bad in [
        "a:b", "#a", "a\tb", "it's", "a\"", "a\\b", "..", "a/b", &long,
    ] {
        assert_eq!(
            refused(&WIDE, bad, b"pw", json!({})).as_deref(),
            Some("login"),
            "{bad}"
        );
    }
    for bad in [&[b'a'; 73][..], b"", b"\0a", b"a\nb", b"\t", &[0xff]] {
        assert_eq!(
            refused(&WIDE, "web", bad, json!({})).as_deref(),
            Some("password")
        );
    }
    for (field, value) in [
        ("uid", json!({ "uid": 0 })),
        ("gid", json!({ "gid": 4_294_967_295_u32 })),
        ("home", json!({ "home": "mail" })),
        ("home", json!({ "home": "/a:b" })),
        ("home", json!({ "home": "/m/%u" })),
        ("home", json!({ "home": "/a\nb" })),
        ("allow_nets", json!({ "allow_nets": ["10.0.0.0/33"] })),
        ("allow_nets", json!({ "allow_nets": ["::1", "host"] })),
        ("allow_nets", json!({ "allow_nets": ["::1 x=y"] })),
        ("cost", json!({ "cost": 4 })),
    ] {
        assert_eq!(refused(&WIDE, "web", b"pw", value).as_deref(), Some(field));
    }
}

#[test]
fn a_files_settings_are_checked() {
    let with = |name: &str, value: serde_json::Value| {
        let mut settings = testing::settings("dovecot", "/etc/dovecot/users");
        settings.options.insert(name.to_owned(), value);
        DovecotKind
            .check_provider(&settings)
            .err()
            .map(|refusal| refusal.field)
    };
    assert_eq!(with("any_login", json!(true)), None);
    assert_eq!(with("mode", json!("0666")).as_deref(), Some("options.mode"));
    assert_eq!(with("uid", json!(5)).as_deref(), Some("options"));
    let other = DovecotKind.check_provider(&testing::settings("htpasswd", "users"));
    assert_eq!(
        other.err().map(|refusal| refusal.field).as_deref(),
        Some("url")
    );
}
