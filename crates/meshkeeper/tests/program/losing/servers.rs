//! The servers of the bus: each is killed, each stands still, and all lose their power at once.

use mesh_conformance::servers::JetCluster;
use tokio::runtime::Runtime;

use super::mesh::{FAILOVER, Mesh};
use super::{LOG, STATE};
use crate::shared::Nats;

/// One fault after the other: every copy of both streams is as far as its leader's before the next.
fn current(cluster: &JetCluster, runtime: &Runtime) {
    for stream in [STATE, LOG] {
        runtime.block_on(cluster.current(stream)).expect("current");
    }
}

#[test]
fn b9_any_server_of_the_bus_may_die_or_stand_still_and_all_may_lose_their_power() {
    let mut nats = Nats::start(3);
    let mesh = Mesh::on(&nats, "home");
    let Nats { cluster, runtime } = &mut nats;
    let leader = runtime.block_on(cluster.leader(STATE)).expect("leader");
    for n in [leader, (leader + 1) % 3, (leader + 2) % 3] {
        runtime.block_on(cluster.kill9(n)).expect("killed");
        mesh.lose();
        mesh.whole(&format!("server {n} is dead"), FAILOVER);
        runtime.block_on(cluster.start_again(n)).expect("again");
        current(cluster, runtime);
    }
    let leader = runtime.block_on(cluster.leader(STATE)).expect("leader");
    for n in [leader, (leader + 1) % 3, (leader + 2) % 3] {
        runtime.block_on(cluster.stop(n)).expect("stopped");
        // It stands still for longer than an election takes, of either stream.
        for stream in [STATE, LOG] {
            let next = cluster.leader_without(stream, Some(n));
            runtime.block_on(next).expect("another leads");
        }
        mesh.lose();
        // The servers do not notice that soon, and may be without a leader for longer than a lease lasts.
        mesh.whole(&format!("server {n} stands still"), 2 * FAILOVER);
        cluster.go_on(n).expect("goes on");
        current(cluster, runtime);
    }
    for n in 0..3 {
        runtime.block_on(cluster.kill9(n)).expect("killed");
    }
    mesh.lose();
    for n in 0..3 {
        cluster.launch_again(n).expect("again");
    }
    mesh.whole("all servers lost their power", 2 * FAILOVER);
    current(cluster, runtime);
    let told = cluster.complaints();
    assert!(!told.contains("Critical write error"), "{told}");
    mesh.again_changes_nothing();
}
