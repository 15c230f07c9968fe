//! O-39, O-40, O-41: what went wrong for people with key-value buckets elsewhere.

use std::sync::Arc;

use mesh_conformance::servers::JetOptions;
use mesh_sdk::bus::{Bucket, Bus, Expect, Fault, Key, Put, Write};

use crate::ground::{Ground, done, done_in_the_end, put, rings};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn o39_no_key_is_ever_deleted_so_none_is_created_twice() {
    let ground = Ground::of(1).await;
    let bus = Arc::new(ground.open_known().await);
    done(&*bus, "c", "v").await;
    let mut admin = ground.cluster.admin(0).await.expect("admin");
    let state = ground.state();
    for (what, body) in [
        ("STREAM.PURGE", "{}".to_owned()),
        ("STREAM.MSG.DELETE", "{\"seq\":1}".to_owned()),
    ] {
        let refused = admin.json(&format!("$JS.API.{what}.{state}"), &body).await;
        let refused = refused.expect("answer");
        assert!(refused["error"]["err_code"].is_u64(), "{what}: {refused}");
    }
    // A third who tries to delete all the time does not help the second of two to create.
    let purging = tokio::spawn(async move {
        for _ in 0..200 {
            let purge = format!("$JS.API.STREAM.PURGE.{state}");
            let refused = admin.json(&purge, "{}").await.expect("answer");
            assert!(refused["error"].is_object(), "{refused}");
        }
    });
    for round in 0..100 {
        let key = format!("r{round}");
        let (a, b) = tokio::join!(
            put(&*bus, &key, Expect::Absent, "a"),
            put(&*bus, &key, Expect::Absent, "b")
        );
        let puts = [a.expect("a"), b.expect("b")];
        let won = puts.iter().filter(|put| matches!(put, Put::Done(_)));
        assert_eq!(won.count(), 1, "{puts:?}");
        assert!(puts.contains(&Put::Conflict), "{puts:?}");
    }
    purging.await.expect("purging");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn o40_a_watch_that_nobody_reads_lives_on_after_restarts() {
    let mut ground = Ground::of(1).await;
    let bus = ground.open_known().await;
    let watch = bus.watch(Bucket::Record, &Key::everything()).await;
    let mut busy = watch.expect("watch");
    let mut reading = bus.watch(Bucket::Record, &Key::everything()).await;
    let reading = reading.as_mut().expect("watch");
    done(&bus, "before", "x").await;
    // One restart, then two in a row, while nobody reads the one and the other is read.
    for (restarts, key) in [(1, "first"), (2, "second")] {
        for _ in 0..restarts {
            ground.cluster.terminate(0).await.expect("end");
            ground.cluster.start_again(0).await.expect("start");
        }
        done_in_the_end(&bus, key, "x").await;
        rings(&mut **reading, key).await;
    }
    rings(&mut *busy, "first").await;
    // It lives: what comes now is heard by its name, once what was missed was told.
    let heard = tokio::time::timeout(crate::ground::PATIENCE, async {
        for n in 0.. {
            let key = Key::of(&[&format!("after{n}")]);
            done_in_the_end(&bus, &format!("after{n}"), "x").await;
            let next =
                async { while busy.next().await != mesh_sdk::bus::Rung::Changed(key.clone()) {} };
            let soon = std::time::Duration::from_secs(2);
            if tokio::time::timeout(soon, next).await.is_ok() {
                return;
            }
        }
    });
    heard.await.expect("it is heard by name again");
}

async fn at_the_limit(max_payload: Option<usize>, server: usize) {
    let options = JetOptions {
        max_payload,
        ..JetOptions::default()
    };
    let ground = Ground::with(options).await;
    let bus = ground.open_known().await;
    let limit = bus.limit();
    assert!(limit < server && server - limit <= 1024, "{limit}");
    for size in [limit - 1, limit] {
        let key = Key::of(&["sized", &size.to_string()]);
        let write = Write {
            key: key.clone(),
            expect: Expect::Absent,
            value: vec![b'x'; size],
        };
        let put = bus.put_if(Bucket::Record, write).await;
        assert!(matches!(put, Ok(Put::Done(_))), "{size}: {put:?}");
        let entry = bus.get(Bucket::Record, &key).await.expect("get");
        assert_eq!(entry.map(|entry| entry.value.len()), Some(size));
    }
    for size in [limit + 1, server, server + 1, 2 * server] {
        let write = Write {
            key: Key::of(&["large"]),
            expect: Expect::Absent,
            value: vec![b'x'; size],
        };
        let put = bus.put_if(Bucket::Record, write.clone()).await;
        assert_eq!(put, Err(Fault::TooLarge { size, limit }));
        let small = Write {
            value: Vec::new(),
            key: Key::of(&["small", &size.to_string()]),
            ..write.clone()
        };
        let each = bus
            .put_each(Bucket::Record, vec![small.clone(), write])
            .await;
        assert_eq!(each, Err(Fault::TooLarge { size, limit }));
        let nothing = bus.get(Bucket::Record, &small.key).await;
        assert_eq!(nothing, Ok(None), "some of what was refused was written");
    }
    // The connection was not lost over it.
    done(&bus, "next", "x").await;
    let list = bus
        .list(Bucket::Record, &Key::everything())
        .await
        .expect("list");
    assert_eq!(list.entries.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn o41_a_value_over_the_servers_own_limit_is_refused_before_it_is_sent() {
    at_the_limit(None, 1 << 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn o41_a_value_over_a_limit_of_64_kib_is_refused_before_it_is_sent() {
    at_the_limit(Some(64 << 10), 64 << 10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b5_a_bus_that_is_full_says_so_and_is_still_read() {
    let ground = Ground::of(1).await;
    let mesh = crate::ground::new_mesh();
    let folder = tempfile::tempdir().expect("folder");
    let layout = mesh_bus::jetstream::Layout {
        replicas: 1,
        max_bytes: Some(64 << 10),
    };
    let clock = mesh_sdk::clock::Clock::system();
    let made =
        mesh_bus::jetstream::bootstrap(&ground.link, &mesh, folder.path(), "i", &layout, clock);
    made.await.expect("bootstrap");
    let opened = mesh_bus::JetstreamBus::open(&ground.link, &mesh, folder.path()).await;
    let bus = opened.expect("open").bus;
    let mut n = 0;
    let full = loop {
        match put(&bus, &format!("k{n}"), Expect::Absent, &"x".repeat(4096)).await {
            Ok(Put::Done(_)) => n += 1,
            other => break other,
        }
    };
    assert!(matches!(full, Err(Fault::Full(_))), "{full:?}");
    let health = bus.health().await;
    assert!(health.readable && !health.writable, "{health:?}");
    let list = bus
        .list(Bucket::Record, &Key::everything())
        .await
        .expect("list");
    assert_eq!(list.entries.len(), n, "something was thrown away for it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b5_the_parts_of_a_list_are_the_list_on_nats() {
    let ground = Ground::of(1).await;
    let bus = ground.open_known().await;
    let mut writes: Vec<Write> = (0..1203)
        .map(|n| Write {
            key: Key::of(&["cache", &n.to_string()]),
            expect: Expect::Absent,
            value: n.to_string().into_bytes(),
        })
        .collect();
    for key in [&["cache"][..], &["cache", "1", "deep"], &["cache-2", "a"]] {
        writes.push(Write {
            key: Key::of(key),
            expect: Expect::Absent,
            value: Vec::new(),
        });
    }
    let puts = bus.put_each(Bucket::Record, writes).await.expect("put");
    assert!(puts.iter().all(|put| matches!(put, Put::Done(_))));
    for prefix in [Key::everything(), Key::of(&["cache"]), Key::of(&["none"])] {
        let whole = bus.list(Bucket::Record, &prefix).await.expect("list");
        for most in [1, 500, 1204, 5000] {
            let mut parts: Vec<mesh_sdk::bus::Entry> = Vec::new();
            // One by one the first ten do.
            while most > 1 || parts.len() < 10 {
                let after = parts.last().map(|entry| &entry.key);
                let part = bus.list_part(Bucket::Record, &prefix, after, most).await;
                let part = part.expect("part").entries;
                let ends = part.len() < most;
                parts.extend(part);
                if ends {
                    break;
                }
            }
            let wanted = whole.entries.get(..parts.len()).expect("no longer");
            assert_eq!(parts, wanted, "{prefix} by {most}");
            assert!(most == 1 || parts.len() == whole.entries.len());
        }
    }
}
