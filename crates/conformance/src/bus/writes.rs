//! Writes: one winner per revision, three outcomes, nothing in between (B-5).

use std::sync::Arc;

use mesh_sdk::bus::{Bucket, Bus, Epoch, Expect, Key, Put, Rev};

use super::{Stop, Store, check, done, text_of, write};

fn joined<T>(result: Result<T, tokio::task::JoinError>) -> Result<T, Stop> {
    result.map_err(|error| Stop::Failed(format!("a writer ended: {error}")))
}

async fn race(buses: Vec<Arc<dyn Bus>>, key: &Key, expect: Expect) -> Result<Vec<Put>, Stop> {
    let writers: Vec<_> = buses
        .into_iter()
        .enumerate()
        .map(|(n, bus)| {
            let write = write(key, expect, &format!("writer {n}"));
            tokio::spawn(async move { bus.put_if(Bucket::Version, write).await })
        })
        .collect();
    let mut puts = Vec::new();
    for writer in writers {
        puts.push(joined(writer.await)??);
    }
    Ok(puts)
}

/// Errors unless exactly one put is done, the others conflict, and the winner's value is there.
async fn one_winner(bus: &dyn Bus, key: &Key, puts: &[Put]) -> Result<Rev, Stop> {
    let mut winner = None;
    for (n, put) in puts.iter().enumerate() {
        match put {
            Put::Done(rev) => {
                check!(winner.is_none(), "two writers won");
                winner = Some((n, *rev));
            }
            Put::Conflict => {}
            Put::Unknown => return Err(Stop::Failed("an outcome is not known".to_owned())),
        }
    }
    let Some((n, rev)) = winner else {
        return Err(Stop::Failed("nobody won".to_owned()));
    };
    let text = text_of(bus, Bucket::Version, key).await?;
    check!(
        text == format!("writer {n}"),
        "{n} won, and {text} is there"
    );
    Ok(rev)
}

pub(super) async fn b5_absent_has_one_winner_of_sixteen(store: &mut dyn Store) -> Result<(), Stop> {
    let bus = store.bus();
    for round in 0..20 {
        let key = Key::of(&["race", &round.to_string()]);
        let puts = race(vec![Arc::clone(&bus); 16], &key, Expect::Absent).await?;
        let rev = one_winner(&*bus, &key, &puts).await?;
        let puts = race(vec![Arc::clone(&bus); 16], &key, Expect::At(rev)).await?;
        one_winner(&*bus, &key, &puts).await?;
    }
    Ok(())
}

pub(super) async fn b5_two_handles_have_one_winner(store: &mut dyn Store) -> Result<(), Stop> {
    let (bus, second) = (store.bus(), store.second().await.map_err(Stop::Skipped)?);
    for round in 0..20 {
        let key = Key::of(&["race", &round.to_string()]);
        let both = [Arc::clone(&bus), Arc::clone(&second)];
        let buses = both.iter().cycle().take(8).cloned().collect();
        let puts = race(buses, &key, Expect::Absent).await?;
        one_winner(&*second, &key, &puts).await?;
    }
    Ok(())
}

pub(super) async fn b5_a_stale_revision_conflicts(store: &mut dyn Store) -> Result<(), Stop> {
    let bus = store.bus();
    let key = Key::of(&["stale"]);
    let first = done(&*bus, Bucket::Record, &key, Expect::Absent, "one").await?;
    let second = done(&*bus, Bucket::Record, &key, Expect::At(first), "two").await?;
    let unborn = Rev {
        seq: second.seq + 1000,
        ..second
    };
    for expect in [Expect::At(first), Expect::Absent, Expect::At(unborn)] {
        let put = bus
            .put_if(Bucket::Record, write(&key, expect, "three"))
            .await?;
        check!(put == Put::Conflict, "{expect:?} gave {put:?}");
    }
    let nowhere = write(&Key::of(&["nowhere"]), Expect::At(first), "three");
    let put = bus.put_if(Bucket::Record, nowhere).await?;
    check!(
        put == Put::Conflict,
        "a revision of a missing key gave {put:?}"
    );
    let elsewhere = write(&key, Expect::At(second), "three");
    let put = bus.put_if(Bucket::Condition, elsewhere).await?;
    check!(
        put == Put::Conflict,
        "a revision of another bucket gave {put:?}"
    );
    check!(
        text_of(&*bus, Bucket::Record, &key).await? == "two",
        "a conflict wrote"
    );
    Ok(())
}

pub(super) async fn b5_a_revision_of_another_epoch_conflicts(
    store: &mut dyn Store,
) -> Result<(), Stop> {
    let bus = store.bus();
    let key = Key::of(&["epoch"]);
    let rev = done(&*bus, Bucket::Record, &key, Expect::Absent, "one").await?;
    let other = Rev {
        epoch: Epoch(rev.epoch.0 + 1),
        ..rev
    };
    let put = bus
        .put_if(Bucket::Record, write(&key, Expect::At(other), "two"))
        .await?;
    check!(
        put == Put::Conflict,
        "another epoch's revision gave {put:?}"
    );
    Ok(())
}

pub(super) async fn b5_revisions_grow_over_all_keys(store: &mut dyn Store) -> Result<(), Stop> {
    let bus = store.bus();
    let mut newest = 0;
    for n in 0..50 {
        let bucket = Bucket::ALL[n % Bucket::ALL.len()];
        let key = Key::of(&[&n.to_string()]);
        let rev = done(&*bus, bucket, &key, Expect::Absent, "x").await?;
        check!(rev.seq > newest, "{} came after {newest}", rev.seq);
        newest = rev.seq;
    }
    Ok(())
}

pub(super) async fn b5_put_each_has_an_outcome_for_each_in_order(
    store: &mut dyn Store,
) -> Result<(), Stop> {
    let bus = store.bus();
    let (a, b, c) = (Key::of(&["a"]), Key::of(&["b"]), Key::of(&["c"]));
    let old = done(&*bus, Bucket::Record, &a, Expect::Absent, "a1").await?;
    let now = done(&*bus, Bucket::Record, &a, Expect::At(old), "a2").await?;
    let batch = vec![
        write(&a, Expect::At(old), "stale"),
        write(&b, Expect::Absent, "b1"),
        write(&a, Expect::At(now), "a3"),
        write(&b, Expect::Absent, "b2"),
        write(&c, Expect::At(now), "c1"),
        write(&c, Expect::Absent, "c2"),
    ];
    let puts = bus.put_each(Bucket::Record, batch).await?;
    let done: Vec<bool> = puts.iter().map(|p| matches!(p, Put::Done(_))).collect();
    check!(
        done == [false, true, true, false, false, true],
        "the outcomes are {puts:?}"
    );
    for (key, text, at) in [(&a, "a3", 2), (&b, "b1", 1), (&c, "c2", 5)] {
        let entry = bus.get(Bucket::Record, key).await?;
        let fits =
            entry.is_some_and(|e| e.value == text.as_bytes() && Put::Done(e.rev) == puts[at]);
        check!(fits, "{key} is not what its outcome says");
    }
    Ok(())
}

pub(super) async fn b5_put_each_of_nothing_is_nothing(store: &mut dyn Store) -> Result<(), Stop> {
    let bus = store.bus();
    let before = bus.list(Bucket::Record, &Key::everything()).await?;
    let puts = bus.put_each(Bucket::Record, Vec::new()).await?;
    check!(puts.is_empty(), "nothing gave {puts:?}");
    let after = bus.list(Bucket::Record, &Key::everything()).await?;
    check!(after.at == before.at, "nothing moved the revision");
    Ok(())
}

pub(super) async fn b5_put_each_of_many_is_whole(store: &mut dyn Store) -> Result<(), Stop> {
    let bus = store.bus();
    let key = |n: usize| Key::of(&["cache", &format!("{n:05}")]);
    let batch = |expects: Vec<Expect>, text: &str| {
        let writes = expects.into_iter().enumerate();
        writes
            .map(|(n, expect)| write(&key(n), expect, text))
            .collect::<Vec<_>>()
    };
    let mut expects = vec![Expect::Absent; 5000];
    for text in ["one", "two"] {
        let puts = bus.put_each(Bucket::Record, batch(expects, text)).await?;
        expects = Vec::new();
        for put in &puts {
            let Put::Done(rev) = put else {
                return Err(Stop::Failed(format!("one of many gave {put:?}")));
            };
            expects.push(Expect::At(*rev));
        }
        let list = bus.list(Bucket::Record, &Key::of(&["cache"])).await?;
        check!(
            list.entries.len() == 5000,
            "{} are there",
            list.entries.len()
        );
        let fits = |(entry, put): (&mesh_sdk::bus::Entry, &Put)| {
            entry.value == text.as_bytes() && Put::Done(entry.rev) == *put
        };
        check!(
            list.entries.iter().zip(&puts).all(fits),
            "a row is not what its outcome says"
        );
    }
    Ok(())
}

pub(super) async fn b5_contending_writers_lose_no_step(store: &mut dyn Store) -> Result<(), Stop> {
    const WRITERS: u64 = 16;
    const STEPS: u64 = 20;
    let bus = store.bus();
    let key = Key::of(&["counter"]);
    done(&*bus, Bucket::Record, &key, Expect::Absent, "0").await?;
    let step = |bus: Arc<dyn Bus>, key: Key| async move {
        for _ in 0..STEPS {
            loop {
                let Some(entry) = bus.get(Bucket::Record, &key).await? else {
                    return Err(Stop::Failed("the counter is gone".to_owned()));
                };
                let count: u64 = String::from_utf8_lossy(&entry.value).parse().unwrap_or(0);
                let next = write(&key, Expect::At(entry.rev), &(count + 1).to_string());
                match bus.put_if(Bucket::Record, next).await? {
                    Put::Done(_) => break,
                    Put::Conflict => {}
                    Put::Unknown => {
                        return Err(Stop::Failed("an outcome is not known".to_owned()));
                    }
                }
            }
        }
        Ok(())
    };
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| tokio::spawn(step(Arc::clone(&bus), key.clone())))
        .collect();
    for writer in writers {
        joined(writer.await)??;
    }
    let text = text_of(&*bus, Bucket::Record, &key).await?;
    check!(text == (WRITERS * STEPS).to_string(), "it counted {text}");
    Ok(())
}
