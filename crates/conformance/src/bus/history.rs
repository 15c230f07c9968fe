//! The history: in order, bounded by what is asked for, and kept.

use mesh_sdk::bus::{Bus, Fault, Key, LogLine};

use super::{Stop, Store, check};

async fn fill(bus: &dyn Bus) -> Result<(), Stop> {
    for n in 0..10 {
        let web = Key::of(&["adv", "apply", "cache", "web"]);
        let api = Key::of(&["adv", "mint", "cache", "api"]);
        let lines = vec![(web, format!("web {n}")), (api, format!("api {n}"))];
        bus.append(lines).await?;
    }
    Ok(())
}

fn texts(lines: &[LogLine]) -> Vec<&str> {
    lines.iter().map(|line| line.value.as_str()).collect()
}

pub(super) async fn b9_history_keeps_order_limit_and_after(
    store: &mut dyn Store,
) -> Result<(), Stop> {
    let bus = store.bus();
    fill(&*bus).await?;
    let all = bus.history(&Key::everything(), 0, 1000).await?;
    check!(all.len() == 20, "{} lines are there", all.len());
    check!(
        all.windows(2).all(|pair| pair[0].seq < pair[1].seq),
        "the numbers do not grow"
    );
    check!(
        texts(&all)[..3] == ["web 0", "api 0", "web 1"],
        "the order is not that of writing"
    );
    let newest = bus.history(&Key::everything(), 0, 3).await?;
    check!(newest == all[17..], "the newest three are {newest:?}");
    let web = bus.history(&Key::of(&["adv", "apply"]), 0, 4).await?;
    check!(
        texts(&web) == ["web 6", "web 7", "web 8", "web 9"],
        "the newest four of one are {web:?}"
    );
    let later = bus.history(&Key::of(&["adv"]), all[14].seq, 1000).await?;
    check!(later == all[15..], "after the fifteenth come {later:?}");
    let none = bus.history(&Key::of(&["adv"]), all[19].seq, 1000).await?;
    check!(none.is_empty(), "after the last come {none:?}");
    let none = bus.history(&Key::everything(), 0, 0).await?;
    check!(none.is_empty(), "none were asked for, {} came", none.len());
    Ok(())
}

pub(super) async fn b9_a_history_prefix_is_not_fooled_by_names(
    store: &mut dyn Store,
) -> Result<(), Stop> {
    let bus = store.bus();
    let subjects = [
        Key::of(&["obs", "cache"]),
        Key::of(&["obs", "cache", "web"]),
        Key::of(&["obs", "cache2", "web"]),
        Key::of(&["obs", "cache-b"]),
        Key::of(&["obs", "cache.web"]),
    ];
    for subject in &subjects {
        let line = (subject.clone(), subject.to_string());
        bus.append(vec![line]).await?;
    }
    for prefix in &subjects {
        let lines = bus.history(prefix, 0, 1000).await?;
        let wanted: Vec<&str> = subjects
            .iter()
            .filter(|subject| subject.is_under(prefix))
            .map(Key::as_str)
            .collect();
        check!(
            texts(&lines) == wanted,
            "under `{prefix}` are {:?}",
            texts(&lines)
        );
        check!(
            lines.iter().all(|line| line.subject == line.value),
            "a line has another subject than it was given"
        );
    }
    Ok(())
}

pub(super) async fn b9_history_outlives_reopening(store: &mut dyn Store) -> Result<(), Stop> {
    let before = {
        let bus = store.bus();
        fill(&*bus).await?;
        bus.history(&Key::everything(), 0, 1000).await?
    };
    store.reopen().await.map_err(Stop::Skipped)?;
    let bus = store.bus();
    let after = bus.history(&Key::everything(), 0, 1000).await?;
    check!(after == before, "the history is not as it was");
    bus.append(vec![(Key::of(&["adv"]), "next".to_owned())])
        .await?;
    let last = bus.history(&Key::everything(), 0, 1).await?;
    let newer = |line: &LogLine| before.iter().all(|old| old.seq < line.seq);
    check!(
        last.first().is_some_and(newer),
        "the next line is not newer"
    );
    Ok(())
}

pub(super) async fn b9_a_line_over_the_limit_is_refused(store: &mut dyn Store) -> Result<(), Stop> {
    let (bus, limit) = (store.bus(), store.limit());
    let size = limit + 1;
    let line = (Key::of(&["adv"]), "x".repeat(size));
    let refused = bus.append(vec![line]).await;
    check!(
        refused == Err(Fault::TooLarge { size, limit }),
        "one byte over the limit gave {refused:?}"
    );
    let line = (Key::of(&["adv"]), "x".to_owned());
    bus.append(vec![line]).await?;
    let lines = bus.history(&Key::everything(), 0, 10).await?;
    check!(lines.len() == 1, "{} lines are there", lines.len());
    Ok(())
}
