//! The data folder wiped, restored, without its key, on a full disk (B-6, B-9, S-3, O-44).

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::lab::{Lab, cache, need};
use crate::redis::Redis;
use crate::wait::until;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("folder");
    for entry in fs::read_dir(from).expect("read") {
        let path = entry.expect("entry").path();
        fs::copy(&path, to.join(path.file_name().expect("name"))).expect("copied");
    }
}

/// Takes the bus away and leaves the secrets, or whatever begins so.
pub(crate) fn remove(data: &Path, start: &str) {
    for entry in fs::read_dir(data).expect("read") {
        let path = entry.expect("entry").path();
        let name = path
            .file_name()
            .expect("name")
            .to_string_lossy()
            .into_owned();
        if name.starts_with(start) {
            fs::remove_file(path).expect("removed");
        }
    }
}

/// Three consumers, one with a given password, applied.
fn applied() -> (Lab, Redis, Vec<String>) {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.write("job.password", "the-given-password");
    let mut text = cache(&redis, "", ["web", "api"]);
    need(
        &mut text,
        "job",
        "cache",
        "password = { file = \"job.password\" }",
    );
    lab.manifest(&text);
    lab.mesh(&["apply"]).ends(0);
    let passwords = passwords(&lab);
    (lab, redis, passwords)
}

fn passwords(lab: &Lab) -> Vec<String> {
    let one = |name: &&str| lab.password(name, "cache");
    ["web", "api", "job"].iter().map(one).collect()
}

/// Everything is as it was, and an apply comes to rest.
fn comes_to_rest(lab: &Lab, redis: &Redis, before: &[String]) {
    for (name, password) in ["web", "api", "job"].iter().zip(before) {
        assert!(
            redis.lets_in(name, password),
            "{name}: {:?}",
            redis.user(name)
        );
    }
    until("an apply is well", 20, || {
        let ran = lab.mesh(&["apply"]);
        if ran.code == 0 { Ok(()) } else { Err(ran) }
    });
    assert_eq!(passwords(lab), before);
    for (name, password) in ["web", "api", "job"].iter().zip(before) {
        assert!(
            redis.lets_in(name, password),
            "{name}: {:?}",
            redis.user(name)
        );
    }
}

#[test]
fn b6_a_wiped_bus_removes_and_mints_nothing_and_is_told() {
    let (lab, redis, before) = applied();
    let writes = redis.writes();
    remove(&lab.data(), "mesh.db");
    lab.mesh(&["plan"]);
    let ran = lab.mesh(&["apply"]);
    assert_eq!(redis.writes(), writes, "everything was adopted: {ran:#?}");
    let told = lab.conditions();
    assert!(
        told.contains(&"BusReplaced store".to_owned()),
        "{told:?}: {ran:#?}"
    );
    assert_eq!(passwords(&lab), before);
    comes_to_rest(&lab, &redis, &before);
    assert_eq!(redis.writes(), writes);
}

/// What a backup needs: the key, the sealed passwords and the manifest (decision 0150).
#[test]
fn h18_key_and_passwords_alone_say_whose_the_logins_are() {
    let (lab, redis, before) = applied();
    let writes = redis.writes();
    remove(&lab.data(), "mesh.db");
    remove(&lab.data(), "epoch.json");
    let ran = lab.mesh(&["apply"]);
    let told = lab.conditions();
    let taken = |told: &String| told.starts_with("LoginTaken");
    assert!(!told.iter().any(taken), "{told:?}: {ran:#?}");
    assert_eq!(redis.writes(), writes, "everything was adopted: {ran:#?}");
    assert!(
        told.contains(&"BusReplaced store".to_owned()),
        "{told:?}: {ran:#?}"
    );
    assert_eq!(passwords(&lab), before);
    comes_to_rest(&lab, &redis, &before);
    assert_eq!(redis.writes(), writes, "again changes nothing");
}

#[test]
fn b6_a_wiped_bus_takes_nobody_for_new_in_that_run() {
    let (lab, redis, before) = applied();
    let mut text = cache(&redis, "", ["web", "api", "late"]);
    need(
        &mut text,
        "job",
        "cache",
        "password = { file = \"job.password\" }",
    );
    lab.manifest(&text);
    remove(&lab.data(), "mesh.db");
    lab.mesh(&["apply"]).ends(3);
    assert!(
        !redis.users().contains("late"),
        "whether it is new cannot be told"
    );
    // The replacement was told; from then on it can.
    until("it is made", 20, || {
        let ran = lab.mesh(&["apply"]);
        if redis.users().contains("late") {
            Ok(())
        } else {
            Err(ran)
        }
    });
    comes_to_rest(&lab, &redis, &before);
}

#[test]
fn b9_an_older_copy_of_the_whole_folder_removes_and_mints_nothing() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, "", ["web"]);
    lab.mesh(&["apply"]).ends(0);
    let old = lab.path().join("old");
    copy(&lab.data(), &old);
    let web = lab.password("web", "cache");
    lab.cache(&redis, "", ["web", "api"]);
    lab.mesh(&["apply"]).ends(0);
    let api = lab.password("api", "cache");
    fs::remove_dir_all(lab.data()).expect("removed");
    copy(&old, &lab.data());
    let writes = redis.writes();
    // The copy knows nothing of `api`, whose login carries our mark: no second password is made for it.
    lab.mesh(&["apply"]).ends(3);
    lab.mesh(&["apply"]).ends(3);
    assert_eq!(redis.writes(), writes);
    assert!(redis.lets_in("web", &web) && redis.lets_in("api", &api));
    let told = lab.conditions();
    assert!(
        told.contains(&"SecretLost cache/api".to_owned()),
        "{told:?}"
    );
    // A person hands it back.
    lab.write("api.password", &api);
    let mut text = cache(&redis, "", ["web"]);
    need(
        &mut text,
        "api",
        "cache",
        "password = { file = \"api.password\" }",
    );
    lab.manifest(&text);
    until("it is held again", 20, || {
        let ran = lab.mesh(&["apply"]);
        if ran.code == 0 { Ok(()) } else { Err(ran) }
    });
    assert_eq!(redis.writes(), writes);
    assert!(redis.lets_in("api", &api));
}

#[test]
fn b9_an_older_copy_of_the_bus_alone_is_seen_and_told() {
    let (lab, redis, before) = applied();
    let old = lab.path().join("old");
    copy(&lab.data(), &old);
    let mut text = cache(&redis, "", ["web", "api", "late"]);
    need(
        &mut text,
        "job",
        "cache",
        "password = { file = \"job.password\" }",
    );
    lab.manifest(&text);
    for _ in 0..3 {
        lab.mesh(&["apply"]).ends(0);
    }
    let late = lab.password("late", "cache");
    let writes = redis.writes();
    remove(&lab.data(), "mesh.db");
    copy_one(&old, &lab.data(), "mesh.db");
    lab.mesh(&["apply"]);
    let told = lab.conditions();
    println!("an older bus is told as: {told:?}");
    assert_eq!(redis.writes(), writes);
    assert_eq!(lab.password("late", "cache"), late);
    comes_to_rest(&lab, &redis, &before);
    assert_eq!(redis.writes(), writes);
}

fn copy_one(from: &Path, to: &Path, start: &str) {
    for entry in fs::read_dir(from).expect("read") {
        let path = entry.expect("entry").path();
        let name = path
            .file_name()
            .expect("name")
            .to_string_lossy()
            .into_owned();
        if name.starts_with(start) {
            fs::copy(&path, to.join(name)).expect("copied");
        }
    }
}

#[test]
fn s7_a_lost_secret_store_is_told_and_nothing_is_minted_anew() {
    let (lab, redis, before) = applied();
    let writes = redis.writes();
    remove(&lab.data(), "secrets.db");
    let ran = lab.mesh(&["apply"]);
    assert_eq!(redis.writes(), writes, "{ran:#?}");
    for (name, password) in ["web", "api", "job"].iter().zip(&before) {
        assert!(redis.lets_in(name, password), "{name}: {ran:#?}");
    }
    let told = lab.conditions();
    for name in ["web", "api"] {
        assert!(
            told.contains(&format!("SecretLost cache/{name}")),
            "{told:?}: {ran:#?}"
        );
    }
    lab.mesh(&["credentials", "web", "cache"]).ends(1);
    // The given one goes on; what is lost by Redis meanwhile is not made up.
    redis.ask(&["ACL", "DELUSER", "web", "job"]);
    lab.mesh(&["apply"]);
    assert!(redis.lets_in("job", "the-given-password"));
    assert!(!redis.users().contains("web"));
}

#[test]
fn s3_a_lost_key_is_a_clear_refusal_and_makes_no_new_one() {
    let (lab, redis, before) = applied();
    let key = lab.data().join("installation.key");
    let kept = fs::read(&key).expect("key");
    fs::remove_file(&key).expect("removed");
    let writes = redis.writes();
    for word in [
        &["apply"][..],
        &["plan"],
        &["up"],
        &["credentials", "web", "cache"],
    ] {
        let ran = lab.mesh(word).ends(1);
        assert!(ran.err.contains("installation.key"), "{ran:#?}");
    }
    assert!(!key.exists() && redis.writes() == writes);
    fs::write(&key, &kept[..16]).expect("half a key");
    lab.mesh(&["apply"]).ends(1).warns("32 bytes");
    fs::write(&key, [7; 32]).expect("another key");
    lab.mesh(&["apply"]).ends(1).warns("another key");
    assert_eq!(redis.writes(), writes);
    fs::write(&key, kept).expect("the key");
    comes_to_rest(&lab, &redis, &before);
}

#[test]
fn r9_a_record_that_cannot_be_read_is_not_an_empty_one_and_stops_nobody_else() {
    let (lab, redis, other) = (Lab::new(), Redis::start(), Redis::start());
    let mut text = cache(&redis, "", ["web"]);
    text.push_str(&format!(
        "\n[provider.other]\nkind = \"redis\"\nurl = \"{}\"\n",
        other.url()
    ));
    need(&mut text, "api", "other", "");
    lab.manifest(&text);
    lab.mesh(&["apply"]).ends(0);
    let store = rusqlite::Connection::open(lab.data().join("mesh.db")).expect("store");
    let broken = "UPDATE entry SET value = x'7b' WHERE bucket = 'record' AND key = 'other.api'";
    assert_eq!(store.execute(broken, []).expect("broken"), 1);
    drop(store);
    redis.ask(&["ACL", "DELUSER", "web"]);
    other.ask(&["ACL", "DELUSER", "api"]);
    let writes = other.writes();
    lab.mesh(&["plan"]).ends(1).says("web");
    let ran = lab.mesh(&["apply"]).ends(3);
    assert!(ran.err.contains("other"), "{ran:#?}");
    assert!(redis.users().contains("web"));
    assert_eq!(other.writes(), writes);
    let told = lab.conditions();
    assert!(told.contains(&"LookUnknown other".to_owned()), "{told:?}");
    let mut states = lab.states();
    states.sort();
    assert_eq!(states, ["api=unknown", "web=held"]);
    lab.mesh(&["explain", "api"]).ends(0).says("cannot be read");
}

/// A small file system of its own for the data folder; `None`, said aloud, where that is not allowed.
struct Small<'l>(&'l Lab);

impl<'l> Small<'l> {
    fn mount(lab: &'l Lab, kib: u32) -> Option<Self> {
        fs::create_dir(lab.data()).expect("folder");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"])
            .arg(lab.data())
            .status()
            .is_ok_and(|status| status.success());
        if !mounted {
            eprintln!("SKIPPED: a small tmpfs cannot be mounted here");
        }
        mounted.then_some(Self(lab))
    }
    fn fill(&self) {
        let mut filler = fs::File::create(self.0.data().join("filler")).expect("filler");
        for size in [65536, 4096, 1] {
            while filler.write_all(&vec![0; size]).is_ok() {}
        }
    }
    fn free(&self) {
        fs::remove_file(self.0.data().join("filler")).expect("free");
    }
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.data()).status();
    }
}

#[test]
fn o44_on_a_full_disk_nothing_is_written_on_the_backend_and_room_ends_it() {
    let (lab, redis) = (Lab::new(), Redis::start());
    let Some(disk) = Small::mount(&lab, 4096) else {
        return;
    };
    lab.cache(&redis, "", ["web"]);
    lab.mesh(&["apply"]).ends(0);
    let (web, writes) = (lab.password("web", "cache"), redis.writes());
    let names: Vec<String> = (0..300).map(|n| format!("new{n}")).collect();
    lab.cache(
        &redis,
        "",
        std::iter::once("web").chain(names.iter().map(String::as_str)),
    );
    disk.fill();
    for _ in 0..2 {
        let ran = lab.mesh(&["apply"]).ends(1);
        assert!(!ran.err.contains("panicked"), "{ran:#?}");
        assert_eq!(redis.writes(), writes, "{ran:#?}");
    }
    for word in ["plan", "status"] {
        let ran = lab.mesh(&[word]);
        assert!(!ran.err.contains("panicked"), "{ran:#?}");
    }
    disk.free();
    until("it is well", 20, || {
        let ran = lab.mesh(&["apply"]);
        if ran.code == 0 { Ok(()) } else { Err(ran) }
    });
    assert_eq!(redis.users().len(), 301);
    assert_eq!(lab.password("web", "cache"), web);
}

#[test]
fn o44_a_daemon_on_a_full_disk_heals_what_it_knows_and_goes_on_when_there_is_room() {
    let (lab, redis) = (Lab::new(), Redis::start());
    let Some(disk) = Small::mount(&lab, 4096) else {
        return;
    };
    lab.cache(&redis, "verify_every = \"1s\"", ["web"]);
    let mut up = lab.up(&[]);
    crate::restarting::settled(&lab);
    let web = lab.password("web", "cache");
    disk.fill();
    redis.ask(&["ACL", "DELUSER", "web"]);
    until("a lost consumer does not wait for the disk", 30, || {
        if redis.lets_in("web", &web) {
            Ok(())
        } else {
            Err(up.log())
        }
    });
    assert!(up.has_ended().is_none());
    disk.free();
    crate::restarting::settled(&lab);
    assert!(!up.log().contains("panicked"), "{}", up.log());
    up.stop().ends(0);
}
