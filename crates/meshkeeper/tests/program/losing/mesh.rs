//! A mesh with three hosts, a Redis and a PostgreSQL; and what its backends say of it.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use mesh_conformance::servers::PostgresServer;
use rusqlite::Connection;
use tokio::time::Instant;

use crate::lab::{Lab, Ran, Up, need, states};
use crate::postgres::Postgres;
use crate::redis::Redis;
use crate::shared::{Nats, bring_key, host};
use crate::wait::{stays, until};

/// Consumers of the Redis, and of the PostgreSQL.
const CACHED: usize = 16;
const KEPT: usize = 4;
/// A host that died or was cut off has been replaced after so long, in seconds.
pub(super) const FAILOVER: u64 = 60;
/// What a healthy mesh heals so soon, in seconds: a loaded machine is slow.
pub(super) const SOON: u64 = 40;

/// A host with its `mesh up`.
pub(super) struct Host {
    pub(super) lab: Lab,
    pub(super) up: Up,
}

/// The mesh.
pub(super) struct Mesh {
    pub(super) redis: Redis,
    pub(super) postgres: Postgres,
    pub(super) hosts: Vec<Host>,
    id: String,
    /// Everybody's login on the Redis when all was well: rules and the digest of the password.
    users: BTreeSet<String>,
    passwords: Vec<String>,
    losses: Cell<usize>,
}

/// What the backends were told by anybody up to now.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Written(u64, String);

/// Everything that a mesh needs, with no `mesh up` yet.
pub(super) struct Ground {
    pub(super) labs: Vec<Lab>,
    redis: Redis,
    postgres: Postgres,
    id: String,
}

impl Ground {
    /// For hosts that reach the bus by these lines of the manifest, one for each; its streams are made by a
    /// login with these words.
    pub(super) fn of(nats: &Nats, id: &str, lines: &[String], by: &[&str]) -> Self {
        let (redis, postgres) = (Redis::with_aclfile(), Postgres::start());
        let labs: Vec<Lab> = ["one", "two", "three"].map(host).into();
        for (lab, line) in labs.iter().zip(lines) {
            lab.write("admin.password", PostgresServer::PASSWORD);
            lab.write("loops.password", "loops-password");
            lab.write("bootstrap.password", "bootstrap-password");
            lab.manifest(&manifest(id, line, &redis, &postgres, &[]));
        }
        let replicas = nats.replicas();
        let words = ["bus", "bootstrap", "--replicas", &replicas];
        labs[0].mesh(&[&words[..], by].concat()).ends(0);
        for lab in &labs[1..] {
            bring_key(&labs[0], lab);
            lab.mesh(&["bus", "adopt"]).ends(0);
        }
        let id = id.to_owned();
        Self {
            labs,
            redis,
            postgres,
            id,
        }
    }
    /// Starts `mesh up` on each host: the first one acts, and the others are there for when it does not.
    pub(super) fn up(self) -> Mesh {
        let mut labs = self.labs.into_iter();
        let first = Host::of(labs.next().expect("a host"));
        until("the first host acts", SOON, || {
            first.acts().then_some(()).ok_or_else(|| first.up.log())
        });
        let hosts = std::iter::once(first).chain(labs.map(Host::of)).collect();
        let mut mesh = Mesh {
            redis: self.redis,
            postgres: self.postgres,
            hosts,
            id: self.id,
            users: BTreeSet::new(),
            passwords: Vec::new(),
            losses: Cell::new(0),
        };
        mesh.held(CACHED + KEPT, 2 * SOON);
        mesh.users = mesh.users();
        assert_eq!(mesh.users.len(), CACHED);
        let lab = &mesh.hosts[0].lab;
        let passwords = (0..KEPT).map(|n| lab.password(&kept(n), "database"));
        mesh.passwords = passwords.collect();
        mesh
    }
}

impl Mesh {
    /// A mesh whose hosts all reach the bus as they should.
    pub(super) fn on(nats: &Nats, id: &str) -> Self {
        let lines = [nats.line(), nats.line(), nats.line()];
        Ground::of(nats, id, &lines, &[]).up()
    }
    /// Another manifest for every host: with these further consumers of the Redis.
    pub(super) fn asks_for(&self, line: &str, more: &[&str]) {
        let text = manifest(&self.id, line, &self.redis, &self.postgres, more);
        for host in &self.hosts {
            host.lab.manifest(&text);
        }
    }

    fn users(&self) -> BTreeSet<String> {
        let lines = self.redis.ask(&["ACL", "LIST"]).texts().into_iter();
        lines.filter(|line| line.starts_with("user c")).collect()
    }
    /// Waits until so many are held, by what a host shows; answers how many passes a loop was seen to make
    /// meanwhile.
    pub(super) fn held(&self, count: usize, seconds: u64) -> usize {
        let mut passes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        until(&format!("{count} are held"), seconds, || {
            let ran = self.view().mesh(&["status", "--json"]);
            if ran.out.is_empty() {
                return Err((ran.err, self.logs()));
            }
            let picture = ran.json();
            for one in picture["loops"].as_array().into_iter().flatten() {
                if let (Some(name), Some(pass)) = (one["name"].as_str(), one["last_pass"].as_str())
                {
                    let seen = passes.entry(name.to_owned()).or_default();
                    seen.insert(pass.to_owned());
                }
            }
            let states = states(&picture);
            match states.len() == count && states.iter().all(|state| state.ends_with("=held")) {
                true => Ok(()),
                false => Err((format!("{states:?}"), self.logs())),
            }
        });
        passes.values().map(BTreeSet::len).max().unwrap_or(0)
    }
    /// The host whose words show the mesh: it is killed and stopped like the others, never cut off.
    fn view(&self) -> &Lab {
        &self.hosts[1].lab
    }
    /// Takes a login of each backend away behind everybody's back: another one each time.
    pub(super) fn lose(&self) {
        let n = self.losses.get();
        self.losses.set(n + 1);
        let gone = cached(n % CACHED);
        self.redis.ask(&["ACL", "DELUSER", &gone]);
        let other = kept(n % KEPT);
        self.postgres
            .sql(&format!("ALTER ROLE {other} PASSWORD 'somebody-elses'"));
    }
    /// Whether everybody is there as in the beginning: nobody removed, reset or with another password.
    pub(super) fn is_whole(&self) -> bool {
        let enter = |(n, password): (usize, &String)| self.postgres.enters(&kept(n), password);
        self.users.is_subset(&self.users()) && self.passwords.iter().enumerate().all(enter)
    }
    /// Waits for that; answers how long it took.
    pub(super) fn whole(&self, what: &str, seconds: u64) -> Duration {
        let began = Instant::now();
        until(
            &format!("{what}: everybody is there"),
            seconds,
            || match self.is_whole() {
                true => Ok(()),
                false => Err((self.users.difference(&self.users()).count(), self.logs())),
            },
        );
        let took = began.elapsed();
        println!("{what}: everybody was there again after {took:?}");
        took
    }
    /// What was written up to now.
    pub(super) fn written(&self) -> Written {
        Written(self.redis.writes(), self.postgres.rows())
    }
    /// That nobody writes on a backend for a while.
    pub(super) fn nobody_writes(&self, what: &str, length: Duration) {
        let before = self.written();
        let writes = self.redis.writes();
        stays(what, length, || {
            (self.redis.writes() == writes, self.logs())
        });
        assert_eq!(self.written(), before, "{what}: {}", self.logs());
    }
    /// A pass of every loop, which ends what was begun, and another one, after which the backends are as
    /// they were: again changes nothing.
    pub(super) fn again_changes_nothing(&self) {
        self.passes();
        let before = self.written();
        let last = self.passes();
        assert_eq!(self.written(), before, "{last:#?}");
        assert!(self.is_whole());
    }
    /// Has whoever acts make a pass.
    fn passes(&self) -> Ran {
        until("a pass of every loop", SOON, || {
            let ran = self.view().mesh(&["apply", "--json"]);
            let passed = [0, 3].contains(&ran.code) && ran.json()["by_daemon"] == true;
            if passed { Ok(ran) } else { Err(ran) }
        })
    }
    /// Waits until a host shows a condition.
    pub(super) fn told(&self, condition: &str, seconds: u64) {
        until(&format!("{condition} is told"), seconds, || {
            let told = self.view().conditions();
            match told.iter().any(|one| one == condition) {
                true => Ok(()),
                false => Err((told, self.logs())),
            }
        });
    }
    /// What the hosts logged, each to its end.
    pub(super) fn logs(&self) -> String {
        let logs = self.hosts.iter().map(|host| {
            let log = host.up.log();
            let from = log.len().saturating_sub(12_000);
            let from = (from..log.len()).find(|at| log.is_char_boundary(*at));
            format!("── {}\n", &log[from.unwrap_or(0)..])
        });
        logs.collect()
    }
    /// Waits until every host keeps a password in its own store, also those that only stand by.
    pub(super) fn everywhere(&self, consumer: &str) {
        for host in &self.hosts {
            until("each host keeps the password", SOON, || {
                let store = Connection::open(host.lab.data().join("secrets.db"));
                let many = store.and_then(|store| {
                    let count = "SELECT count(*) FROM secret WHERE consumer = ?1";
                    store.query_row(count, [consumer], |row| row.get::<_, i64>(0))
                });
                match many {
                    Ok(1) => Ok(()),
                    other => Err((format!("{other:?}"), self.logs())),
                }
            });
        }
    }
    /// Waits until every host says in its log that it does no more.
    pub(super) fn nobody_acts(&self, seconds: u64) {
        until("nobody holds a lease", seconds, || {
            let held = self.hosts.iter().filter(|host| host.acts()).count();
            match held {
                0 => Ok(()),
                _ => Err(self.logs()),
            }
        });
    }
}

impl Host {
    fn of(lab: Lab) -> Self {
        let up = Up::of(lab.command(&["up"]));
        Self { lab, up }
    }
    /// Starts its `mesh up` again.
    pub(super) fn start_again(&mut self) {
        self.up = Up::of(self.lab.command(&["up"]));
    }
    /// Whether it acts, by its log: it took a lease, and did not say since that it acts no more.
    pub(super) fn acts(&self) -> bool {
        let log = self.up.log();
        log.rfind("this host has the lease") > log.rfind("this host acts no more")
    }
}

fn cached(n: usize) -> String {
    format!("c{n:02}")
}
fn kept(n: usize) -> String {
    format!("d{n}")
}

fn manifest(id: &str, bus: &str, redis: &Redis, postgres: &Postgres, more: &[&str]) -> String {
    let mut text = format!(
        "[mesh]\nid = \"{id}\"\n{bus}\n\n[provider.cache]\nkind = \"redis\"\nurl = \"{}\"\n\
         verify_every = \"2s\"\n\n[provider.database]\nkind = \"postgres\"\n\
         url = \"postgres://127.0.0.1:{}/postgres\"\nverify_every = \"2s\"\n\
         admin = {{ user = \"postgres\", password = {{ file = \"admin.password\" }} }}\n",
        redis.url(),
        postgres.server.port(),
    );
    let names = (0..CACHED).map(cached);
    for name in names.chain(more.iter().map(|name| (*name).to_owned())) {
        need(&mut text, &name, "cache", "");
    }
    for n in 0..KEPT {
        text += &format!(
            "\n[consumer.{name}.needs.database]\ndatabase = \"{name}\"\nprivileges = \"owner\"\n",
            name = kept(n)
        );
    }
    text
}

/// Copies a folder, whole.
pub(super) fn copy_tree(from: &std::path::Path, to: &std::path::Path) {
    fs::create_dir_all(to).expect("folder");
    for entry in fs::read_dir(from).expect("read") {
        let path = entry.expect("entry").path();
        let to = to.join(path.file_name().expect("name"));
        match path.is_dir() {
            true => copy_tree(&path, &to),
            false => drop(fs::copy(&path, &to).expect("copied")),
        }
    }
}
