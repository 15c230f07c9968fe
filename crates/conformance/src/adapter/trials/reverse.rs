//! The other way round: the canary, what is in use, what can be taken over, and what data stays.

use std::time::Duration;

use mesh_sdk::{Class, ConsumerName, Difference, Login, MarkSeen, Wish};

use super::super::ground::{Ended, Ground, Stop, declared, demand, departing, fail, needed};

pub(super) async fn r14_the_canary_is_listed_and_opens_nothing(g: &Ground<'_>) -> Ended {
    declared(g.adapter.capabilities().list, "list")?;
    let values = g.kind.canary(&g.bench.settings());
    let Some(values) = values else {
        return Err(Stop::Skip("it has no values for a canary".to_owned()));
    };
    let off = g.adapter.capabilities().disable;
    let wish = g.wish_with("canary", |parts| {
        parts.consumer = ConsumerName::canary();
        parts.values = values.values;
        parts.canonical_values = values.canonical;
        parts.enabled = !off;
    })?;
    g.check(&wish)
        .map_err(|refusal| Stop::Fail(format!("check: {refusal}")))?;
    g.made(&wish).await?;
    let listed = g.list().await?;
    let listed = listed.iter().find(|one| one.login == *wish.login());
    let as_ours = listed.is_some_and(|one| {
        one.mark == MarkSeen::OursFor(ConsumerName::canary()) && one.enabled != off
    });
    demand(as_ours, format!("listed as {listed:?}"))?;
    demand(
        !off || !g.bench.lets_in("canary", g.password(&wish)).await?,
        "it lets in",
    )?;
    g.again_changes_nothing(&wish).await
}

pub(super) async fn r6_a_login_in_use_is_told(g: &Ground<'_>) -> Ended {
    declared(g.adapter.capabilities().uses, "uses")?;
    needed(g.bench.tells_sessions())?;
    let wish = g.wish("used")?;
    g.made(&wish).await?;
    let before = g.uses(&wish).await?;
    demand(before.is_none(), format!("nobody used it: {before:?}"))?;
    let mut session = g.bench.open_session("used", g.password(&wish)).await?;
    demand(session.is_alive().await, "the session does not work")?;
    let used = g.uses(&wish).await?;
    let now = used.as_ref().is_some_and(|one| one.ago.is_zero());
    demand(now, format!("a session is open: {used:?}"))?;
    let writes = g.bench.writes().await?;
    g.uses(&wish).await?;
    demand(g.bench.writes().await? == writes, "to ask for uses wrote")
}

pub(super) async fn r6_an_attempt_on_a_login_that_is_off_is_told(g: &Ground<'_>) -> Ended {
    let abilities = g.adapter.capabilities();
    declared(abilities.uses, "uses")?;
    declared(abilities.disable, "disable")?;
    needed(g.bench.tells_attempts())?;
    let wish = g.wish("knocks")?;
    g.made(&wish).await?;
    g.disable(&departing(&wish)).await?;
    let before = g.uses(&wish).await?;
    demand(before.is_none(), format!("nobody tried: {before:?}"))?;
    let let_in = g.bench.lets_in("knocks", g.password(&wish)).await?;
    demand(!let_in, "it is switched off, and lets in")?;
    let tried = g.uses(&wish).await?;
    let lately = tried
        .as_ref()
        .is_some_and(|one| one.ago < Duration::from_secs(60));
    demand(lately, format!("somebody tried: {tried:?}"))
}

/// What is found reads as a wish that is held, mark aside: so it can be taken over unchanged.
pub(super) async fn h18_what_is_found_can_be_adopted_as_it_stands(g: &Ground<'_>) -> Ended {
    declared(g.adapter.capabilities().find, "find")?;
    let first = g.wish("found-a")?;
    let mut other = None;
    let second = g.wish_with("found-b", |parts| {
        other = Some(g.set_values(parts, g.bench.other_values("found-b")));
    })?;
    other.unwrap_or(Ok(()))?;
    for wish in [&first, &second] {
        g.made(wish).await?;
        g.bench.strip_mark(wish.login().as_str()).await?;
    }
    let writes = g.bench.writes().await?;
    let found = g.find().await?;
    demand(g.bench.writes().await? == writes, "to find logins wrote")?;
    for reserved in g.bench.reserved() {
        let there = Login::new(&reserved);
        let there = there.is_ok_and(|login| found.iter().any(|one| one.login == login));
        demand(!there, format!("the reserved `{reserved}` was offered"))?;
    }
    for wish in [&first, &second] {
        let Some(one) = found.iter().find(|one| one.login == *wish.login()) else {
            return fail(format!("{wish:?} was not found"));
        };
        demand(one.enabled, format!("{one:?}"))?;
        let again = as_found(g, wish, one.values.clone())?;
        let Ok(()) = g.check(&again) else {
            return fail(format!("{one:?} is refused by check"));
        };
        let lost = g.holds_as(&again, true).await?;
        let as_it_stands = match &lost {
            mesh_sdk::Answer::Held(held) => held.warning.is_none(),
            mesh_sdk::Answer::Lost(lost) => {
                let only_the_mark = lost
                    .differences
                    .iter()
                    .all(|d| d == Difference::MarkMissing);
                only_the_mark && lost.password_fits
            }
        };
        demand(
            as_it_stands,
            format!("{one:?} is not as it stands: {lost:?}"),
        )?;
    }
    Ok(())
}

fn as_found(
    g: &Ground<'_>,
    wish: &Wish,
    values: serde_json::Value,
) -> std::result::Result<Wish, Stop> {
    let mut set = None;
    let again = g.wish_with(wish.consumer().as_str(), |parts| {
        parts.login = wish.login().clone();
        set = Some(g.set_values(parts, values));
    })?;
    set.unwrap_or(Ok(()))?;
    Ok(again)
}

pub(super) async fn r5_removing_keeps_data_and_purging_deletes_it(g: &Ground<'_>) -> Ended {
    let purges = g.adapter.capabilities().purge;
    let wish = g.wish("data")?;
    g.made(&wish).await?;
    let left = g.bench.leave_data("data", g.password(&wish)).await?;
    let Some(name) = left else {
        return Err(Stop::Skip("the values speak of no data".to_owned()));
    };
    if g.adapter.capabilities().disable {
        g.disable(&departing(&wish)).await?;
    }
    g.remove(&departing(&wish)).await?;
    demand(
        g.bench.has_data("data").await?,
        "its data went with the login",
    )?;
    declared(purges, "purge")?;
    let names = g.kind.data_of(&wish);
    demand(
        names.contains(&name),
        format!("the values speak of {names:?}, not of {name}"),
    )?;
    demand(g.data(&name).await?.is_some(), "purge does not see it")?;
    demand(g.bench.has_data("data").await?, "looking at it deleted it")?;
    g.purge(&name).await?;
    demand(!g.bench.has_data("data").await?, "it is still there")?;
    demand(g.data(&name).await?.is_none(), "purge sees it still")?;
    let before = g.bench.writes().await?;
    g.purge(&name).await?;
    demand(
        g.bench.writes().await? == before,
        "purging twice wrote twice",
    )
}

pub(super) async fn r5_data_that_a_login_may_use_is_not_purged(g: &Ground<'_>) -> Ended {
    declared(g.adapter.capabilities().purge, "purge")?;
    let wish = g.wish("kept-data")?;
    g.made(&wish).await?;
    let left = g.bench.leave_data("kept-data", g.password(&wish)).await?;
    let Some(name) = left else {
        return Err(Stop::Skip("the values speak of no data".to_owned()));
    };
    let looked = g.data(&name).await.map_err(|error| error.class());
    demand(looked == Err(Class::Exists), format!("data: {looked:?}"))?;
    let purged = g.purge(&name).await.map_err(|error| error.class());
    demand(purged == Err(Class::Exists), format!("purge: {purged:?}"))?;
    demand(g.bench.has_data("kept-data").await?, "its data is gone")?;
    g.again_changes_nothing(&wish).await
}
