//! The backends of a mesh on several hosts: put back from an old copy, emptied, replaced by another server.
//! The host that heals is another than the one that made the logins: what it knows, it has from the bus.

use std::time::Duration;

use mesh_conformance::servers::{PostgresFlavor, PostgresOptions, PostgresServer};

use super::mesh::{FAILOVER, Mesh, SOON};
use crate::shared::Nats;

#[test]
fn h20_backends_from_an_old_copy_are_healed_by_another_host_and_another_server_waits_for_a_word() {
    let nats = Nats::start(1);
    let mut mesh = Mesh::on(&nats, "home");
    let copies = tempfile::tempdir().expect("folder");
    let (old, fresh) = (copies.path().join("old"), copies.path().join("fresh"));
    let users = mesh.redis.folder.path().join("users.acl");

    // As they were one day: one with an older password, one switched off, one not there yet.
    mesh.hosts[1]
        .lab
        .mesh(&["pause", "database", "--for", "1h"])
        .ends(0);
    mesh.postgres
        .sql("ALTER ROLE d1 PASSWORD 'an-older-one'; ALTER ROLE d2 NOLOGIN");
    let keep = mesh.postgres.server.keep_copy(&old);
    mesh.postgres.runtime.block_on(keep).expect("kept");
    mesh.hosts[1].lab.mesh(&["resume", "database"]).ends(0);
    mesh.whole("the database as it was", SOON);
    let then = std::fs::read_to_string(&users).expect("users.acl");
    let then = then.lines().filter(|line| !line.starts_with("user c07 "));
    let then = then.collect::<Vec<_>>().join("\n") + "\n";

    mesh.hosts[0].up.kill();
    let restored = mesh.postgres.server.put_back(&old);
    mesh.postgres.runtime.block_on(restored).expect("put back");
    mesh.redis.kill();
    std::fs::write(&users, then).expect("written");
    mesh.redis.start_again();
    assert!(!mesh.is_whole());
    mesh.whole("both from an old copy", FAILOVER + SOON);
    mesh.hosts[0].start_again();
    mesh.again_changes_nothing();

    // Another server under the name: it is only read, by whoever acts, until a person says so anywhere.
    let other = PostgresServer::start(PostgresFlavor::V15, PostgresOptions::default());
    let mut other = mesh.postgres.runtime.block_on(other).expect("PostgreSQL");
    let keep = other.keep_copy(&fresh);
    mesh.postgres.runtime.block_on(keep).expect("kept");
    let replaced = mesh.postgres.server.put_back(&fresh);
    mesh.postgres.runtime.block_on(replaced).expect("put back");
    mesh.told("ServerChanged database", SOON);
    mesh.nobody_writes("another server", Duration::from_secs(5));
    mesh.hosts[2]
        .lab
        .mesh(&["approve", "server", "database"])
        .ends(0);
    mesh.whole("another server, by a person's word", SOON);
    mesh.again_changes_nothing();
}
