//! Credentials brought to where the consumer reads them: by `apply`, kept by `up`, planned, shown, taken up.

use std::fs;

use crate::lab::{Lab, cache};
use crate::redis::Redis;
use crate::shared::{Nats, first, joined};
use crate::wait::until_true;

/// A manifest with one consumer and one table of `deliver`.
fn manifest(redis: &Redis, deliver: &str) -> String {
    let mut text = cache(redis, "", ["web"]);
    text.push_str(&format!("\n[[consumer.web.deliver]]\n{deliver}\n"));
    text
}

fn read(lab: &Lab, name: &str) -> String {
    fs::read_to_string(lab.path().join(name)).unwrap_or_default()
}

/// A variable of an env file.
fn variable(lab: &Lab, name: &str) -> String {
    let text = read(lab, "web.env");
    let found = text
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{name}=")));
    found.unwrap_or_default().to_owned()
}

fn until(lab: &Lab, what: &str, mut done: impl FnMut() -> bool) {
    until_true(what, 30, || {
        (done(), (read(lab, "web.env"), read(lab, "told")))
    });
}

#[test]
fn h6_an_env_file_is_planned_brought_and_kept_and_again_changes_nothing() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.manifest(&manifest(&redis, "env_file = \"web.env\""));
    lab.mesh(&["plan"]).ends(2).says("deliver").says("web.env");
    assert!(!lab.path().join("web.env").exists());
    lab.mesh(&["apply"]).ends(0);
    let password = lab.password("web", "cache");
    assert_eq!(variable(&lab, "CACHE_PASSWORD"), password);
    let url = variable(&lab, "CACHE_URL");
    assert!(
        url.starts_with("redis://web:") && url.contains(&password),
        "{url}"
    );
    assert!(redis.lets_in("web", &variable(&lab, "CACHE_PASSWORD")));
    lab.mesh(&["plan"]).ends(0).says("Nothing to do.");
    lab.mesh(&["status"])
        .ends(0)
        .says("web.env")
        .says("delivery/");
    let events = lab.events("web");
    lab.mesh(&["apply"]).ends(0);
    assert_eq!(lab.events("web"), events);

    fs::write(lab.path().join("web.env"), "CACHE_PASSWORD=wrong\n").expect("write");
    lab.mesh(&["plan"]).ends(2).says("it holds something else");
    lab.mesh(&["apply"]).ends(0);
    assert_eq!(variable(&lab, "CACHE_PASSWORD"), password);
    lab.mesh(&["explain", "web"])
        .ends(0)
        .says("it held something else")
        .says("web.env");
    lab.mesh(&["plan"]).ends(0);
    let shown = format!("{:?}", lab.status());
    assert!(!shown.contains(&password));
}

#[test]
fn law3_what_is_asked_for_no_more_is_left_and_said() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.manifest(&manifest(&redis, "json_file = \"web.json\""));
    lab.mesh(&["apply"]).ends(0);
    let before = read(&lab, "web.json");
    assert!(before.contains("CACHE_URL"));
    lab.manifest(&cache(&redis, "", ["web"]));
    lab.mesh(&["apply"]).ends(0);
    assert_eq!(read(&lab, "web.json"), before);
    lab.mesh(&["status"]).ends(0).says("no more asked for");
}

#[test]
fn h14_a_daemon_brings_what_is_new_and_changed_runs_the_hook_and_repairs() {
    let (lab, redis) = (Lab::new(), Redis::start());
    let told = lab.path().join("told");
    lab.write("given", "first-password-1\n");
    let text = manifest(
        &redis,
        &format!(
            "env_file = \"web.env\"\nvalues = {{ REDIS = \"{{url}}\", PW = \"{{cache.password}}\" }}\nmode = \"0640\"\nreload = {{ command = [\"sh\", \"-c\", \"echo x >> {}\"] }}",
            told.display()
        ),
    );
    let text = text.replace("keys =", "password = { file = \"given\" }\nkeys =");
    lab.manifest(&text);
    let lines = || read(&lab, "told").lines().count();
    let mut up = lab.up(&[]);
    until(&lab, "the first delivery", || {
        variable(&lab, "PW") == "first-password-1" && lines() == 1
    });
    use std::os::unix::fs::MetadataExt as _;
    let mode = fs::metadata(lab.path().join("web.env"))
        .expect("metadata")
        .mode();
    assert_eq!(mode & 0o777, 0o640);
    assert!(variable(&lab, "REDIS").contains("first-password-1"));

    lab.write("given", "second-password-2\n");
    until(&lab, "the changed password", || {
        variable(&lab, "PW") == "second-password-2" && lines() == 2
    });
    assert!(redis.lets_in("web", "second-password-2"));
    up.stop();
    fs::remove_file(lab.path().join("web.env")).expect("remove");
    let mut up = lab.up(&[]);
    until(&lab, "the repair", || {
        variable(&lab, "PW") == "second-password-2"
    });
    up.stop();
    assert_eq!(
        lines(),
        2,
        "what was gone is brought again; nobody read anything else"
    );
}

/// Who asks a daemon for the pass waits for its delivery, too, and not for one that is not there.
#[test]
fn b4_the_pass_of_a_daemon_brings_what_was_lost_before_apply_ends() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.manifest(&manifest(&redis, "env_file = \"web.env\""));
    lab.mesh(&["apply"]).ends(0);
    let before = read(&lab, "web.env");
    let mut up = lab.up(&[]);
    lab.mesh(&["apply"]).ends(0).warns("a daemon runs here");
    for _ in 0..2 {
        fs::remove_file(lab.path().join("web.env")).expect("remove");
        lab.mesh(&["apply"]).ends(0);
        assert_eq!(read(&lab, "web.env"), before);
    }
    lab.manifest(&cache(&redis, "", ["web"]));
    lab.mesh(&["apply"]).ends(0);
    up.stop();
}

#[test]
fn c7_a_person_says_that_it_has_it_and_only_what_lies_there() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.manifest(&manifest(
        &redis,
        "folder = \"web\"\nacknowledge = \"person\"",
    ));
    lab.mesh(&["ack", "delivery", "web", "--reason", "too early"])
        .ends(1);
    lab.mesh(&["apply"]).ends(0);
    assert_eq!(
        read(&lab, "web/CACHE_PASSWORD"),
        lab.password("web", "cache")
    );
    let delivery = |lab: &Lab| lab.status()["deliveries"][0].clone();
    assert!(delivery(&lab)["since"].is_string() && delivery(&lab)["acknowledged"].is_null());
    lab.mesh(&["ack", "delivery", "web", "--reason", "restarted by hand"])
        .ends(0)
        .says("has taken up");
    lab.mesh(&["apply"]).ends(0);
    let after = delivery(&lab);
    assert_eq!(after["acknowledged"], after["wanted"]);
    assert!(after["since"].is_null());
    lab.mesh(&["ack", "delivery", "web", "--reason", "again"])
        .ends(1);
}

#[test]
fn s2_a_reader_that_cannot_take_a_value_is_named_and_the_value_is_not() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.write("given", "pa ss'wo\"rd$$\n");
    let text = manifest(
        &redis,
        "env_file = \"web.env\"\nvalues = { PW = \"{password}\" }",
    );
    lab.manifest(&text.replace("keys =", "password = { file = \"given\" }\nkeys ="));
    let ran = lab
        .mesh(&["apply"])
        .ends(3)
        .warns("PW cannot be written for docker");
    drop(ran);
    assert!(!lab.path().join("web.env").exists());
    assert!(
        lab.conditions()
            .contains(&"Refused delivery/web".to_owned())
    );
    let systemd = text.replace("values", "readers = [\"systemd\"]\nvalues");
    lab.manifest(&systemd.replace("keys =", "password = { file = \"given\" }\nkeys ="));
    for _ in 0..2 {
        lab.mesh(&["apply"]);
    }
    lab.mesh(&["apply"]).ends(0);
    assert_eq!(variable(&lab, "PW"), "\"pa ss'wo\\\"rd\\$\\$\"");
}

#[test]
fn o29_a_table_with_a_mistake_is_told_with_its_place_and_spoils_itself_alone() {
    let (lab, redis) = (Lab::new(), Redis::start());
    let mut text = manifest(&redis, "env_file = \"web.env\"");
    text.push_str(
        "[[consumer.web.deliver]]\njson_file = \"web.json\"\nvalues = { A = \"{nothing}\" }\n",
    );
    text.push_str("[[consumer.web.deliver]]\nfolder = \"x\"\nprogram = [\"y\"]\n");
    lab.manifest(&text);
    lab.mesh(&["check"])
        .ends(1)
        .says("{nothing}")
        .says("more than one place");
    lab.mesh(&["apply"]).ends(3);
    assert!(lab.path().join("web.env").exists());
    assert!(
        lab.conditions()
            .contains(&"Refused delivery/web".to_owned())
    );
}

/// On a bus of several hosts each brings what is its own, from passwords that whoever has the provider made.
#[test]
fn b3_each_host_brings_its_own_and_all_are_shown_everywhere() {
    let (nats, redis) = (Nats::start(1), Redis::start());
    let one = first(&nats, &redis, "verify_every = \"2s\"", &["web"]);
    let mut text = read(&one, "mesh.toml");
    text.push_str("\n[[consumer.web.deliver]]\nenv_file = \"web.env\"\n");
    one.manifest(&text);
    one.mesh(&["check"]).ends(1).says("`host` is missing");
    for host in ["one", "Two.example"] {
        text.push_str(&format!(
            "\n[[consumer.web.deliver]]\njson_file = \"{host}.json\"\nhost = \"{host}\"\n"
        ));
    }
    one.manifest(&text.replacen(
        "\n[[consumer.web.deliver]]\nenv_file = \"web.env\"\n",
        "",
        1,
    ));
    let two = joined("Two.example", &one);
    let mut ups = [one.up(&[]), two.up(&[])];
    let hosts = [(&one, "one.json"), (&two, "Two.example.json")];
    until_true("each has its own", 60, || {
        let texts = hosts.map(|(lab, name)| read(lab, name));
        (
            texts.iter().all(|text| text.contains("CACHE_PASSWORD")),
            texts,
        )
    });
    assert_eq!(read(&one, "one.json"), read(&two, "Two.example.json"));
    assert!(read(&one, "one.json").contains(&one.password("web", "cache")));
    assert!(!one.path().join("Two.example.json").exists() && !two.path().join("one.json").exists());
    for lab in [&one, &two] {
        let shown = lab.status();
        let mut hosts: Vec<&str> = shown["deliveries"]
            .as_array()
            .expect("deliveries")
            .iter()
            .filter_map(|d| d["host"].as_str())
            .collect();
        hosts.sort_unstable();
        assert_eq!(hosts, ["Two.example", "one"]);
        lab.mesh(&["wait", "--for", "delivered", "web"]).ends(0);
        lab.mesh(&["loops"])
            .says("delivery/one")
            .says("delivery/Two.example");
    }
    ups.iter_mut().for_each(|up| drop(up.stop()));
}
