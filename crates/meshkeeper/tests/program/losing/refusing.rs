//! A bus that answers and takes nothing: the right to write is withdrawn while all runs, or its disk is full.
//!
//! A full disk is a server that may keep a few mebibytes only, filled by somebody else: a file system of its
//! own cannot be mounted everywhere these tests run.

use std::thread;
use std::time::Duration;

use mesh_conformance::servers::JetOptions;

use super::mesh::{FAILOVER, Ground, Mesh, SOON};
use crate::lab::Lab;
use crate::shared::Nats;
use crate::wait::until;

/// Long enough for several passes, had there been any.
const QUIET: Duration = Duration::from_secs(6);

/// Nobody acts, nobody writes on a backend, and what is shown says so; the fault over, all is well again.
fn is_waited_out(mesh: &Mesh, what: &str, says: &str, over: impl FnOnce()) {
    mesh.nobody_acts(SOON);
    mesh.lose();
    mesh.nobody_writes(what, QUIET);
    // Whoever looks sees soon that it is not well: loops that are late, or a bus that does not answer.
    let check = until("it is told", FAILOVER, || {
        match mesh.hosts[1].lab.mesh(&["status", "--check"]) {
            ran if [1, 3].contains(&ran.code) => Ok(ran),
            ran => Err(ran),
        }
    });
    println!("{what}: {} {}", check.out.trim(), check.err.trim());
    let log = mesh.logs();
    assert!(log.contains(says), "{what}: {log}");
    over();
    mesh.whole(what, 2 * FAILOVER);
    let passes = mesh.held(20, SOON);
    assert!(passes <= 6, "{what}: {passes} passes");
    mesh.again_changes_nothing();
}

/// The users of the servers, by the permissions that the program prints.
fn users(printed: &str, may_write: bool) -> String {
    let mut users = "  { user: admin, password: admin-password }\n".to_owned();
    for part in printed.split("# ").skip(1) {
        let (role, rest) = part.split_once(':').expect("role");
        let text = &rest[rest.find("permissions {").expect("permissions")..];
        let writes = |line: &&str| line.trim() == "\"$KV.mesh_home.>\"";
        let lines = text.lines().filter(|line| may_write || !writes(line));
        let text = lines.collect::<Vec<_>>().join("\n");
        users += &format!("  {{ user: {role}, password: {role}-password, {text} }}\n");
    }
    format!("authorization {{ users: [\n{users}] }}\n")
}

/// Two meshes, each on a cluster of its own, so that neither waits for the other.
#[test]
fn b9_while_the_bus_takes_nothing_nobody_acts_and_nothing_is_lost() {
    thread::scope(|scope| {
        scope.spawn(the_right_is_withdrawn);
        scope.spawn(the_disks_are_full);
    });
}

fn the_right_is_withdrawn() {
    let lab = Lab::new();
    lab.manifest("[mesh]\nid = \"home\"\nbus = \"nats://127.0.0.1:4222\"\n");
    let printed = lab.mesh(&["bus", "permissions"]).ends(0).out;
    let mut nats = Nats::with(JetOptions {
        servers: 3,
        authorization: users(&printed, true),
        admin: Some(("admin".to_owned(), "admin-password".to_owned())),
        ..JetOptions::default()
    });
    let urls = nats.cluster.ports().into_iter();
    let urls: Vec<String> = urls
        .map(|port| format!("\"nats://127.0.0.1:{port}\""))
        .collect();
    let line = format!(
        "[mesh.bus]\nurls = [{}]\nuser = \"loops\"\npassword = {{ file = \"loops.password\" }}",
        urls.join(", ")
    );
    let by = [
        "--user",
        "bootstrap",
        "--password-file",
        "bootstrap.password",
    ];
    let lines = [line.clone(), line.clone(), line];
    let mesh = Ground::of(&nats, "home", &lines, &by).up();
    let Nats { cluster, runtime } = &mut nats;
    let (with, without) = (users(&printed, true), users(&printed, false));
    let withdrawn = cluster.authorize(&without);
    runtime.block_on(withdrawn).expect("reloaded");
    is_waited_out(
        &mesh,
        "the right is withdrawn",
        "Permissions Violation",
        || {
            let given = cluster.authorize(&with);
            runtime.block_on(given).expect("reloaded");
        },
    );
}

fn the_disks_are_full() {
    let mut nats = Nats::with(JetOptions {
        servers: 3,
        max_file_store: 16,
        ..JetOptions::default()
    });
    let mesh = Mesh::on(&nats, "home");
    let Nats { cluster, runtime } = &mut nats;
    let ask = |subject: &str, body: &str| {
        runtime.block_on(async {
            let mut admin = cluster.admin(0).await?;
            admin.json(subject, body).await
        })
    };
    let made = "{\"name\":\"FILL\",\"subjects\":[\"fill\"],\"num_replicas\":3}";
    let made = ask("$JS.API.STREAM.CREATE.FILL", made).expect("answer");
    assert!(made.get("error").is_none(), "{made}");
    let heap = "x".repeat(512 << 10);
    // A server that is full takes no more, and then does nothing more for any stream until it is started again.
    let refuses = |_| ask("fill", &heap).map_or(true, |said| said.get("error").is_some());
    assert!((0..64).any(refuses), "it takes more and more");
    is_waited_out(
        &mesh,
        "the disks are full",
        "nothing is done without it",
        || {
            cluster.make_room(2048);
            for n in 0..3 {
                runtime.block_on(cluster.terminate(n)).expect("ended");
                cluster.launch_again(n).expect("again");
            }
        },
    );
}
