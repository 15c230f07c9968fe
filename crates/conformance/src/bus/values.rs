//! Values come back as they were given, and stay.

use mesh_sdk::bus::{Bucket, Expect, Fault, Key, Put, Write};

use super::{Stop, Store, check, done, text_of};

pub(super) async fn b2_values_from_nothing_to_the_limit_come_back(
    store: &mut dyn Store,
) -> Result<(), Stop> {
    let (bus, limit) = (store.bus(), store.limit());
    for size in [0, 1, 255, 4096, 65_536, limit - 1, limit] {
        let key = Key::of(&["sized", &size.to_string()]);
        let value: Vec<u8> = (0..size)
            .map(|n| u8::try_from(n % 251).unwrap_or(0))
            .collect();
        let put = bus.put_if(
            Bucket::Record,
            Write {
                key: key.clone(),
                expect: Expect::Absent,
                value: value.clone(),
            },
        );
        let put = put.await?;
        let Put::Done(rev) = put else {
            return Err(Stop::Failed(format!("{size} bytes gave {put:?}")));
        };
        let entry = bus.get(Bucket::Record, &key).await?;
        let same = entry.is_some_and(|e| e.value == value && e.rev == rev && e.key == key);
        check!(same, "{size} bytes did not come back as they were");
    }
    Ok(())
}

pub(super) async fn b2_a_value_over_the_limit_is_refused_and_others_go_on(
    store: &mut dyn Store,
) -> Result<(), Stop> {
    let (bus, limit) = (store.bus(), store.limit());
    let key = Key::of(&["large"]);
    let large = Write {
        key: key.clone(),
        expect: Expect::Absent,
        value: vec![0; limit + 1],
    };
    let refused = bus.put_if(Bucket::Record, large).await;
    let size = limit + 1;
    check!(
        refused == Err(Fault::TooLarge { size, limit }),
        "one byte over the limit gave {refused:?}"
    );
    check!(
        bus.get(Bucket::Record, &key).await?.is_none(),
        "what was refused is there"
    );
    done(&*bus, Bucket::Record, &key, Expect::Absent, "small").await?;
    Ok(())
}

pub(super) async fn b2_buckets_are_apart(store: &mut dyn Store) -> Result<(), Stop> {
    let bus = store.bus();
    let key = Key::of(&["cache", "web"]);
    for bucket in Bucket::ALL {
        done(&*bus, bucket, &key, Expect::Absent, bucket.as_str()).await?;
    }
    for bucket in Bucket::ALL {
        let text = text_of(&*bus, bucket, &key).await?;
        check!(text == bucket.as_str(), "{bucket:?} holds {text}");
        let list = bus.list(bucket, &Key::everything()).await?;
        check!(
            list.entries.len() == 1,
            "{bucket:?} lists more than its own"
        );
    }
    Ok(())
}

pub(super) async fn b9_a_done_is_seen_at_once(store: &mut dyn Store) -> Result<(), Stop> {
    let bus = store.bus();
    let key = Key::of(&["again"]);
    let mut expect = Expect::Absent;
    for n in 0..200 {
        let text = n.to_string();
        expect = Expect::At(done(&*bus, Bucket::Record, &key, expect, &text).await?);
        let seen = text_of(&*bus, Bucket::Record, &key).await?;
        check!(seen == text, "{text} was done, and {seen} was read");
    }
    Ok(())
}

pub(super) async fn b9_a_second_handle_sees_what_is_done(
    store: &mut dyn Store,
) -> Result<(), Stop> {
    let (bus, second) = (store.bus(), store.second().await.map_err(Stop::Skipped)?);
    let key = Key::of(&["shared"]);
    let rev = done(&*bus, Bucket::Record, &key, Expect::Absent, "one").await?;
    check!(
        text_of(&*second, Bucket::Record, &key).await? == "one",
        "the second handle does not see it"
    );
    done(&*second, Bucket::Record, &key, Expect::At(rev), "two").await?;
    check!(
        text_of(&*bus, Bucket::Record, &key).await? == "two",
        "the first handle does not see the second's"
    );
    Ok(())
}

pub(super) async fn b9_reopening_keeps_everything(store: &mut dyn Store) -> Result<(), Stop> {
    let mut before = Vec::new();
    {
        let bus = store.bus();
        for n in 0..100 {
            let key = Key::of(&["kept", &n.to_string()]);
            let rev = done(&*bus, Bucket::Record, &key, Expect::Absent, "first").await?;
            if n % 3 == 0 {
                done(&*bus, Bucket::Record, &key, Expect::At(rev), "second").await?;
            }
        }
        for bucket in Bucket::ALL {
            before.push(bus.list(bucket, &Key::everything()).await?);
        }
    }
    store.reopen().await.map_err(Stop::Skipped)?;
    let bus = store.bus();
    for (bucket, before) in Bucket::ALL.into_iter().zip(before) {
        let after = bus.list(bucket, &Key::everything()).await?;
        check!(
            after.entries == before.entries,
            "{bucket:?} is not as it was"
        );
        check!(after.at.epoch == before.at.epoch, "it has another epoch");
        check!(after.at.seq >= before.at.seq, "its revision went back");
    }
    let key = Key::of(&["kept", "1"]);
    let stored = bus.get(Bucket::Record, &key).await?.map(|entry| entry.rev);
    let Some(rev) = stored else {
        return Err(Stop::Failed("a key is gone".to_owned()));
    };
    let next = done(&*bus, Bucket::Record, &key, Expect::At(rev), "third").await?;
    check!(next.seq > rev.seq, "the next revision is not newer");
    Ok(())
}

pub(super) async fn b9_health_tells_epoch_and_revision(store: &mut dyn Store) -> Result<(), Stop> {
    let bus = store.bus();
    let key = Key::of(&["health"]);
    let rev = done(&*bus, Bucket::Record, &key, Expect::Absent, "well").await?;
    let health = bus.health().await;
    check!(health.readable && health.writable, "it says {health:?}");
    check!(
        health.epoch == rev.epoch && health.seq >= rev.seq,
        "it says {health:?} after {rev:?}"
    );
    Ok(())
}
