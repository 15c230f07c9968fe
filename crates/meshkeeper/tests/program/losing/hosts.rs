//! The hosts: each is killed, each stands still for longer than its leases last, one is cut off from the bus.

use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::Instant;

use super::mesh::{FAILOVER, Ground, Mesh};
use crate::shared::{Nats, Wire};
use crate::wait::until;

/// Three meshes on one cluster, each with hosts of its own, so that nobody waits for another.
#[test]
fn b4_a_host_that_is_killed_stopped_or_cut_off_is_replaced_and_writes_nothing_more() {
    let nats = &Nats::start(3);
    thread::scope(|scope| {
        scope.spawn(|| each_is_killed(nats));
        scope.spawn(|| each_stands_still(nats));
        scope.spawn(|| one_is_cut_off(nats));
    });
}

fn each_is_killed(nats: &Nats) {
    let mut mesh = Mesh::on(nats, "killed");
    mesh.hosts[0].up.kill();
    mesh.lose();
    mesh.whole("the first host is dead", FAILOVER);
    mesh.hosts[0].start_again();
    mesh.hosts[0].up.says("the other hosts that are there");
    // Which of the other two took over does not matter.
    mesh.hosts[1].up.kill();
    mesh.hosts[2].up.kill();
    mesh.lose();
    mesh.whole("the other two are dead", FAILOVER);
    mesh.hosts[1].start_again();
    mesh.hosts[2].start_again();
    mesh.again_changes_nothing();
}

/// The leases of a host that stands still are over after 20 s, and others take them after 45 s. Whoever was
/// stopped goes on while nobody else runs: whatever is written then is its doing.
fn each_stands_still(nats: &Nats) {
    let mesh = Mesh::on(nats, "stopped");
    let [one, two, three] = [0, 1, 2].map(|n| &mesh.hosts[n].up);
    one.halt();
    mesh.lose();
    mesh.whole("a host stands still", FAILOVER);
    let halted = Instant::now();
    two.halt();
    three.halt();
    mesh.lose();
    let until_after = |seconds| Duration::from_secs(seconds).saturating_sub(halted.elapsed());
    mesh.nobody_writes("everybody stands still", until_after(22));
    for host in [two, three] {
        host.signal(Signal::CONT);
    }
    // Before 45 s are over nobody may begin; one that stood still knows that it may not go on.
    mesh.nobody_writes("two go on whose leases are over", until_after(34));
    two.halt();
    three.halt();
    one.signal(Signal::CONT);
    let went_on = Instant::now();
    mesh.nobody_writes("one goes on that was replaced", Duration::from_secs(10));
    assert!(
        went_on.elapsed() < Duration::from_secs(40),
        "too slow to tell"
    );
    for host in [two, three] {
        host.signal(Signal::CONT);
    }
    mesh.whole("all go on", 2 * FAILOVER);
    mesh.again_changes_nothing();
}

fn one_is_cut_off(nats: &Nats) {
    let wires: Vec<Wire> = nats.cluster.ports().into_iter().map(Wire::to).collect();
    let urls = wires
        .iter()
        .map(|wire| format!("\"nats://127.0.0.1:{}\"", wire.port()));
    let urls: Vec<String> = urls.collect();
    let cut = format!("bus = {{ urls = [{}] }}", urls.join(", "));
    let mesh = Ground::of(nats, "cut", &[cut, nats.line(), nats.line()], &[]).up();
    let first = &mesh.hosts[0];
    let began = Instant::now();
    wires.iter().for_each(Wire::cut);
    let stopped = until("it stops", 30, || match first.acts() {
        false => Ok(began.elapsed()),
        true => Err(first.up.log()),
    });
    // It beats every 5 s, and its last one may have gone just before.
    assert!(stopped < Duration::from_secs(23), "{stopped:?}");
    mesh.lose();
    let quiet = Duration::from_secs(38).saturating_sub(began.elapsed());
    mesh.nobody_writes("cut off from the bus, not from the backends", quiet);
    let left = Duration::from_secs(FAILOVER + 5).saturating_sub(began.elapsed());
    mesh.whole("one is cut off", left.as_secs());
    println!(
        "cut off, it stopped after {stopped:?}, and all was healed after {:?}",
        began.elapsed()
    );
    wires.iter().for_each(Wire::mend);
    until("it is back", 2 * FAILOVER, || {
        let log = first.up.log();
        let back = log.rfind("the other hosts that are there") > log.rfind("acts no more");
        back.then_some(()).ok_or(log)
    });
    mesh.again_changes_nothing();
}
