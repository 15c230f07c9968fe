//! Several hosts on one bus share the providers out (B-4): each has some, no provider has two, and what a dead
//! or stopped host had passes to the others while these go on.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::lab::{Lab, Up, need};
use crate::redis::Redis;
use crate::shared::{Nats, host, joined};
use crate::wait::{stays, until};

/// Each suits another host best: `mail` and `site` the first, `queue` and `blog` the second, `docs` the third,
/// and the second after it.
const SERVERS: [&str; 4] = ["mail", "queue", "blog", "docs"];
const TAKES: &str = "this host has the lease";

/// Servers, a password file, and a bus.
struct Town {
    nats: Nats,
    servers: BTreeMap<&'static str, Redis>,
    files: TempDir,
}

impl Town {
    fn start() -> Self {
        let servers = SERVERS.map(|name| (name, Redis::start()));
        Self {
            nats: Nats::start(1),
            servers: servers.into(),
            files: TempDir::new().expect("folder"),
        }
    }
    fn server(&self, name: &str) -> &Redis {
        &self.servers[name]
    }
    /// The manifest with these consumers on each provider, and these lines for `queue`.
    fn manifest(&self, consumers: &[&str], queue: &str) -> String {
        let mut text = format!("[mesh]\nid = \"home\"\n{}\n", self.nats.line());
        for (name, server) in &self.servers {
            let lines = if *name == "queue" { queue } else { "" };
            write!(
                text,
                "\n[provider.{name}]\nkind = \"redis\"\nurl = \"{}\"\nverify_every = \"2s\"\n{lines}\n",
                server.url()
            )
            .expect("text");
        }
        let file = self.files.path().join("users");
        let file = file.display();
        write!(
            text,
            "\n[provider.site]\nkind = \"htpasswd\"\nurl = \"htpasswd:{file}\"\nverify_every = \"2s\"\n"
        )
        .expect("text");
        for consumer in consumers {
            for name in SERVERS {
                need(&mut text, consumer, name, "");
            }
            write!(text, "\n[consumer.{consumer}.needs.site]\n").expect("text");
        }
        text
    }
    /// The first host, and as many more; none runs yet.
    fn hosts(&self, names: &[&str]) -> Vec<Lab> {
        let first = host(names[0]);
        first.manifest(&self.manifest(&["web"], ""));
        first.mesh(&["bus", "bootstrap"]).ends(0);
        let more = names[1..].iter().map(|name| joined(name, &first));
        let mut all: Vec<Lab> = more.collect();
        all.insert(0, first);
        all
    }
    fn writes(&self) -> u64 {
        self.servers.values().map(Redis::writes).sum()
    }
}

/// A host that hands over what suits another better as soon as that is there.
fn up(lab: &Lab) -> Up {
    Up::of(lab.command(&["up", "--hand-back", "3s"]))
}

/// Who has each provider, as `mesh loops` tells it.
fn holders(lab: &Lab) -> BTreeMap<String, String> {
    let ran = lab.mesh(&["loops", "--json"]);
    if ran.code != 0 {
        return BTreeMap::from([("none told".to_owned(), ran.err)]);
    }
    let json = ran.json();
    let loops = json["loops"].as_array().expect("loops").iter();
    let one = |l: &serde_json::Value| {
        let name = l["name"].as_str().expect("name");
        let name = name.strip_prefix("provisioner/").expect("class");
        let host = l["host"].as_str().unwrap_or("nobody");
        (name.to_owned(), host.to_owned())
    };
    loops.map(one).collect()
}

/// Waits until the providers are shared out so.
#[track_caller]
fn shared_out(lab: &Lab, seconds: u64, wanted: &[(&str, &str)], ups: &[&Up]) {
    let wanted: BTreeMap<String, String> = wanted
        .iter()
        .map(|(provider, host)| ((*provider).to_owned(), (*host).to_owned()))
        .collect();
    until("they are shared out", seconds, || match holders(lab) {
        found if found == wanted => Ok(()),
        found => {
            let logs: Vec<String> = ups.iter().map(|up| up.log()).collect();
            Err(format!("{found:?}\n{}", logs.join("\n──\n")))
        }
    });
}

/// Waits until the picture is well.
#[track_caller]
fn well(lab: &Lab, seconds: u64) {
    until("the picture is well", seconds, || {
        match lab.mesh(&["status"]) {
            ran if ran.code == 0 => Ok(()),
            ran => Err(ran),
        }
    });
}

const OF_TWO: [(&str, &str); 5] = [
    ("blog", "two"),
    ("docs", "two"),
    ("mail", "one"),
    ("queue", "two"),
    ("site", "one"),
];
const OF_THREE: [(&str, &str); 5] = [
    ("blog", "two"),
    ("docs", "three"),
    ("mail", "one"),
    ("queue", "two"),
    ("site", "one"),
];

/// When each provider's loop passed last.
fn passes(lab: &Lab) -> BTreeMap<String, String> {
    let status = lab.status();
    let loops = status["loops"].as_array().expect("loops").iter();
    let one = |l: &serde_json::Value| {
        let name = l["name"].as_str().expect("name").to_owned();
        (name, l["last_pass"].as_str().unwrap_or("never").to_owned())
    };
    loops.map(one).collect()
}

#[test]
fn b4_hosts_share_the_providers_out_and_a_stopped_ones_pass_on_at_once() {
    let town = Town::start();
    let labs = town.hosts(&["one", "two", "three"]);
    let mut one = up(&labs[0]);
    let alone: Vec<(&str, &str)> = OF_TWO.iter().map(|(p, _)| (*p, "one")).collect();
    shared_out(&labs[0], 30, &alone, &[&one]);
    well(&labs[0], 30);
    let (writes, password) = (town.writes(), labs[0].password("web", "queue"));
    let two = up(&labs[1]);
    shared_out(&labs[0], 60, &OF_TWO, &[&one, &two]);
    let mut three = up(&labs[2]);
    shared_out(&labs[1], 60, &OF_THREE, &[&one, &two, &three]);
    well(&labs[2], 30);
    assert_eq!(town.writes(), writes, "handing over changes nothing");
    for lab in &labs {
        assert_eq!(lab.password("web", "queue"), password);
    }
    // Each heals what is its own, and a word reaches all of them.
    for server in town.servers.values() {
        server.ask(&["ACL", "DELUSER", "web"]);
    }
    let json = labs[2].mesh(&["apply", "--json"]).ends(0).json();
    assert_eq!(json["by_daemon"], true, "{json:#}");
    for (name, server) in &town.servers {
        let password = labs[1].password("web", name);
        assert!(server.lets_in("web", &password), "{name}");
    }
    let status = labs[0].mesh(&["status"]).ends(0);
    status.says("HOST").says("three");
    // One that ends gives all back at once; `docs` suits the second best of those that are left.
    let writes = town.writes();
    three.stop().ends(0);
    let began = Instant::now();
    shared_out(&labs[0], 20, &OF_TWO, &[&one, &two]);
    println!(
        "after SIGTERM its provider was taken in {:?}",
        began.elapsed()
    );
    one.stop().ends(0);
    let all: Vec<(&str, &str)> = OF_TWO.iter().map(|(p, _)| (*p, "two")).collect();
    shared_out(&labs[0], 20, &all, &[&two]);
    well(&labs[0], 30);
    assert_eq!(town.writes(), writes, "again changes nothing");
}

#[test]
fn b4_what_a_killed_host_had_passes_on_and_the_others_never_stop() {
    let town = Town::start();
    let labs = town.hosts(&["one", "two", "three"]);
    // All at once, on an empty bus.
    let one = up(&labs[0]);
    let two = up(&labs[1]);
    let mut three = up(&labs[2]);
    shared_out(&labs[0], 90, &OF_THREE, &[&one, &two, &three]);
    well(&labs[0], 30);
    for up in [&one, &two, &three] {
        assert!(!up.log().contains("SecretLost"), "{}", up.log());
    }
    let password = labs[0].password("web", "docs");
    three.kill();
    let began = Instant::now();
    town.server("docs").ask(&["ACL", "DELUSER", "web"]);
    let mut seen: BTreeMap<String, (String, Instant)> = BTreeMap::new();
    let longest = until("its provider is healed by another", 60, || {
        for (name, at) in passes(&labs[0]) {
            let last = seen.entry(name).or_insert((at.clone(), Instant::now()));
            if last.0 != at {
                *last = (at, Instant::now());
            }
        }
        let others = seen.iter().filter(|(name, _)| !name.ends_with("/docs"));
        let ages = others.map(|(name, (_, since))| (since.elapsed(), name.clone()));
        let longest = ages.max().expect("others");
        assert!(
            longest.0 < Duration::from_secs(15),
            "{longest:?} stands still"
        );
        match town.server("docs").lets_in("web", &password) {
            true => Ok(longest),
            false => Err((two.log(), one.log())),
        }
    });
    println!(
        "a killed host's provider was healed after {:?}; {longest:?}",
        began.elapsed()
    );
    shared_out(&labs[0], 20, &OF_TWO, &[&one, &two]);
    well(&labs[0], 30);
    let writes = town.writes();
    stays("again changes nothing", Duration::from_secs(5), || {
        (town.writes() == writes, town.writes())
    });
}

#[test]
fn b4_a_host_that_was_stopped_writes_nothing_more_for_what_it_lost() {
    let town = Town::start();
    let labs = town.hosts(&["one", "two"]);
    let one = up(&labs[0]);
    well(&labs[0], 30);
    let two = up(&labs[1]);
    shared_out(&labs[0], 60, &OF_TWO, &[&one, &two]);
    well(&labs[0], 30);
    two.halt();
    // Somebody new meanwhile, whose passwords are the first host's to make.
    for lab in &labs {
        lab.manifest(&town.manifest(&["web", "late"], ""));
    }
    let all: Vec<(&str, &str)> = OF_TWO.iter().map(|(p, _)| (*p, "one")).collect();
    shared_out(&labs[0], 75, &all, &[&one, &two]);
    well(&labs[0], 60);
    let late = labs[0].password("late", "queue");
    // Whatever is written from here on would be the stopped one's doing.
    one.halt();
    for name in ["queue", "blog", "docs"] {
        town.server(name).ask(&["ACL", "DELUSER", "web"]);
    }
    let writes = town.writes();
    two.signal(Signal::CONT);
    stays("nothing is written", Duration::from_secs(12), || {
        (town.writes() == writes, two.log())
    });
    two.says("this host acts no more");
    one.signal(Signal::CONT);
    well(&labs[0], 120);
    assert_eq!(
        labs[1].password("late", "queue"),
        late,
        "nothing was minted twice"
    );
    for name in SERVERS {
        let password = labs[1].password("late", name);
        assert!(town.server(name).lets_in("late", &password), "{name}");
    }
}

#[test]
fn b4_a_host_with_another_manifest_is_told_and_looks_after_nothing() {
    let town = Town::start();
    let labs = town.hosts(&["one", "two"]);
    let one = up(&labs[0]);
    well(&labs[0], 30);
    labs[1].manifest(&town.manifest(&["web", "stranger"], ""));
    let two = up(&labs[1]);
    until("it is told", 40, || match labs[0].conditions() {
        told if told.contains(&"ManifestDiffers two".to_owned()) => Ok(()),
        told => Err((told, two.log())),
    });
    labs[0]
        .mesh(&["status"])
        .ends(3)
        .says("asks for something else");
    let alone: Vec<(&str, &str)> = OF_TWO.iter().map(|(p, _)| (*p, "one")).collect();
    stays("it has nothing", Duration::from_secs(8), || {
        let nothing = !two.log().contains(TAKES);
        let strangers = town.server("queue").users().contains("stranger");
        (nothing && !strangers, two.log())
    });
    shared_out(&labs[0], 5, &alone, &[&one, &two]);
    // The same on both: it takes its part.
    labs[1].manifest(&town.manifest(&["web"], ""));
    shared_out(&labs[0], 60, &OF_TWO, &[&one, &two]);
    well(&labs[0], 30);
    // A change that reaches the one after the other takes no more than a moment, and nobody is let go.
    let writes = town.writes();
    labs[1].manifest(&town.manifest(&["web", "next"], ""));
    labs[0].manifest(&town.manifest(&["web", "next"], ""));
    until("who is new is there", 60, || {
        let names = SERVERS.iter().map(|name| town.server(name).users());
        let all: BTreeSet<usize> = names.map(|users| users.len()).collect();
        match all == BTreeSet::from([2]) {
            true => Ok(()),
            false => Err((all, one.log(), two.log())),
        }
    });
    well(&labs[0], 60);
    shared_out(&labs[0], 60, &OF_TWO, &[&one, &two]);
    assert_eq!(
        town.writes(),
        writes + 4,
        "one login each, and nothing else"
    );
}

#[test]
fn b4_a_provider_whose_password_a_host_cannot_read_is_left_to_another() {
    let town = Town::start();
    let labs = town.hosts(&["one", "two"]);
    let text = town.manifest(
        &["web"],
        "admin = { user = \"default\", password = { file = \"queue.password\" } }",
    );
    town.server("queue")
        .ask(&["CONFIG", "SET", "requirepass", "the-admins-own"]);
    for lab in &labs {
        lab.write("queue.password", "the-admins-own");
        lab.manifest(&text);
    }
    std::fs::remove_file(labs[1].path().join("queue.password")).expect("removed");
    let one = up(&labs[0]);
    let two = up(&labs[1]);
    let mut wanted = OF_TWO;
    wanted[3] = ("queue", "one");
    shared_out(&labs[0], 60, &wanted, &[&one, &two]);
    until("it is told", 30, || match labs[0].conditions() {
        told if told.contains(&"SecretUnreadable queue".to_owned()) => Ok(()),
        told => Err((told, two.log())),
    });
    stays("it stays there", Duration::from_secs(8), || {
        let held = holders(&labs[0]);
        let calm = !two.log().contains(&format!("{TAKES} provider=queue"));
        (held["queue"] == "one" && calm, (held, two.log()))
    });
    labs[1].write("queue.password", "the-admins-own");
    shared_out(&labs[0], 90, &OF_TWO, &[&one, &two]);
    well(&labs[0], 60);
}
