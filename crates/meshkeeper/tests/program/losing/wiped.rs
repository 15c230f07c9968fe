//! What lies on the bus: put back from an earlier copy, with a word and without one, deleted, and made again
//! empty. Nothing is removed, reset or minted twice (B-6, R-9, H-22).

use std::path::Path;
use std::thread;

use serde_json::Value;
use tokio::time::Instant;

use super::mesh::{FAILOVER, Ground, Mesh, SOON, Written, copy_tree};
use super::{LOG, STATE};
use crate::shared::Nats;
use crate::wait::until;

const REPLACED: &str = "BusReplaced store";
/// Twenty, and one that the earlier copy knows nothing of.
const ALL: usize = 21;
/// So many passes after the fault is over it is well again; the last one before it may be seen, too.
const PASSES: usize = 5 + 1;

/// Ends every server, keeps a copy of what they hold or puts one back, and starts them again.
fn restart_with(nats: &mut Nats, keep: Option<&Path>, put_back: Option<&Path>) {
    let Nats { cluster, runtime } = nats;
    let began = Instant::now();
    for n in 0..3 {
        runtime.block_on(cluster.terminate(n)).expect("ended");
    }
    for n in 0..3 {
        let (store, name) = (cluster.store(n), format!("n{n}"));
        if let Some(keep) = keep {
            copy_tree(&store, &keep.join(&name));
        }
        if let Some(from) = put_back {
            std::fs::remove_dir_all(&store).expect("removed");
            copy_tree(&from.join(&name), &store);
        }
    }
    for n in 0..3 {
        cluster.launch_again(n).expect("again");
    }
    for stream in [STATE, LOG] {
        runtime.block_on(cluster.current(stream)).expect("current");
    }
    println!("the servers were away for {:?}", began.elapsed());
}

/// A mesh with somebody of whom an earlier copy of its bus knows nothing.
struct Later {
    nats: Nats,
    mesh: Mesh,
    old: tempfile::TempDir,
    late: String,
    before: Written,
}

impl Later {
    fn start() -> Self {
        let mut nats = Nats::start(3);
        let lines = [nats.line(), nats.line(), nats.line()];
        let ground = Ground::of(&nats, "home", &lines, &[]);
        ground.labs[0].mesh(&["apply"]).ends(0);
        let old = tempfile::tempdir().expect("folder");
        restart_with(&mut nats, Some(old.path()), None);
        let mesh = ground.up();
        mesh.asks_for(&nats.line(), &["late"]);
        mesh.held(ALL, 2 * FAILOVER);
        mesh.everywhere("late");
        let late = mesh.hosts[2].lab.password("late", "cache");
        let before = mesh.written();
        Self {
            nats,
            mesh,
            old,
            late,
            before,
        }
    }
    /// All are held again, by few passes, and nobody wrote on a backend.
    fn comes_to_rest(&self, what: &str) {
        let began = Instant::now();
        let passes = self.mesh.held(ALL, 2 * FAILOVER);
        println!(
            "{what}: all were held after {:?}, in {passes} passes",
            began.elapsed()
        );
        assert!(passes <= PASSES, "{what}: {passes} passes");
        self.mesh.told(REPLACED, SOON);
        assert_eq!(
            self.mesh.written(),
            self.before,
            "{what}: {}",
            self.mesh.logs()
        );
        assert!(self.mesh.is_whole(), "{what}");
        for host in &self.mesh.hosts {
            let password = host.lab.password("late", "cache");
            assert_eq!(password, self.late, "{what}: nothing was minted twice");
        }
    }
    fn ask(&self, what: &str, body: &str) -> Value {
        let Nats { cluster, runtime } = &self.nats;
        runtime.block_on(async {
            let mut admin = cluster.admin(0).await.expect("admin");
            let answer = admin.json(&format!("$JS.API.STREAM.{what}"), body).await;
            answer.expect("answer")
        })
    }
    /// Deletes both streams; answers how they were made.
    fn deleted(&self) -> [Value; 2] {
        [STATE, LOG].map(|stream| {
            let info = self.ask(&format!("INFO.{stream}"), "");
            let gone = self.ask(&format!("DELETE.{stream}"), "");
            assert_eq!(gone["success"], true, "{gone}");
            info["config"].clone()
        })
    }
}

/// Two meshes, each on a cluster of its own, so that neither waits for the other.
#[test]
fn b6_a_bus_that_is_put_back_deleted_or_made_again_empty_costs_nobody_anything() {
    thread::scope(|scope| {
        scope.spawn(under_running_hosts);
        scope.spawn(by_the_runbook);
    });
}

fn under_running_hosts() {
    let mut later = Later::start();
    let old = later.old.path().to_owned();
    restart_with(&mut later.nats, None, Some(&old));
    later.comes_to_rest("an earlier copy, without a word");
    later.mesh.lose();
    later.mesh.whole("an earlier copy, without a word", SOON);

    // Made again by somebody else's hand, just as it was and empty.
    later.before = later.mesh.written();
    for config in later.deleted() {
        let name = config["name"].as_str().expect("name");
        let made = later.ask(&format!("CREATE.{name}"), &config.to_string());
        assert!(made.get("error").is_none(), "{made}");
    }
    later.comes_to_rest("made again empty");

    // Deleted: nobody acts, and nobody makes it again but by a person's word.
    later.deleted();
    later.mesh.nobody_acts(SOON);
    until("each says what to do", SOON, || {
        let says = |log: String| log.contains("`mesh bus bootstrap` makes it");
        let all = later.mesh.hosts.iter().all(|host| says(host.up.log()));
        all.then_some(()).ok_or_else(|| later.mesh.logs())
    });
    later.mesh.hosts[0].up.stop().ends(0);
    let words = ["bus", "bootstrap", "--replicas", "3"];
    later.mesh.hosts[0]
        .lab
        .mesh(&words)
        .ends(0)
        .says("made KV_mesh_home");
    later.mesh.hosts[0].start_again();
    later.comes_to_rest("deleted");
    later.mesh.lose();
    later.mesh.whole("deleted", SOON);
    later.mesh.again_changes_nothing();
}

/// All hosts are stopped, and one word on one of them takes the copy up.
fn by_the_runbook() {
    let mut later = Later::start();
    for host in &mut later.mesh.hosts {
        host.up.stop().ends(0);
    }
    let old = later.old.path().to_owned();
    restart_with(&mut later.nats, None, Some(&old));
    let adopted = later.mesh.hosts[2].lab.mesh(&["bus", "adopt"]).ends(0);
    adopted
        .says("an older copy of the bus was restored")
        .says("in epoch 2");
    for host in &mut later.mesh.hosts {
        host.start_again();
    }
    later.comes_to_rest("restored by the runbook");
    later.mesh.lose();
    later.mesh.whole("restored by the runbook", SOON);
    later.mesh.again_changes_nothing();
}
