//! Taking access away: by steps, for good, and with the sessions.

use mesh_sdk::MarkSeen;

use super::super::bench::Done;
use super::super::ground::{Ended, Ground, Stop, demand, departing, fail, needed, stranger};

pub(super) async fn r12_removing_twice_is_success(g: &Ground<'_>) -> Ended {
    let wish = g.wish("gone")?;
    g.made(&wish).await?;
    g.remove(&departing(&wish)).await?;
    demand(!g.bench.exists("gone").await?, "it is still there")?;
    let before = g.bench.writes().await?;
    g.remove(&departing(&wish)).await?;
    if g.adapter.capabilities().disable {
        g.disable(&departing(&wish)).await?;
    }
    demand(
        g.bench.writes().await? == before,
        "removing what is gone wrote",
    )?;
    g.made(&wish).await
}

pub(super) async fn r10_removing_ends_sessions(g: &Ground<'_>) -> Ended {
    needed(g.bench.ends_sessions())?;
    let wish = g.wish("cut")?;
    g.made(&wish).await?;
    let mut session = g.bench.open_session("cut", g.password(&wish)).await?;
    demand(session.is_alive().await, "the session does not work")?;
    g.remove(&departing(&wish)).await?;
    demand(!session.is_alive().await, "the session outlived its login")
}

pub(super) async fn r10_switching_off_ends_sessions_and_keeps_the_login(g: &Ground<'_>) -> Ended {
    if !g.adapter.capabilities().disable {
        return Err(Stop::Skip("not declared: disable".to_owned()));
    }
    let wish = g.wish("pause")?;
    g.made(&wish).await?;
    let mut session = g.bench.open_session("pause", g.password(&wish)).await?;
    g.disable(&departing(&wish)).await?;
    let ends = g.bench.ends_sessions();
    demand(
        ends != Done::Yes || !session.is_alive().await,
        "the session outlived the switching off",
    )?;
    demand(g.bench.exists("pause").await?, "the login is gone")?;
    demand(
        !g.bench.lets_in("pause", g.password(&wish)).await?,
        "it still lets in",
    )?;
    let before = g.bench.writes().await?;
    g.disable(&departing(&wish)).await?;
    demand(
        g.bench.writes().await? == before,
        "switching off twice wrote twice",
    )?;
    g.made(&wish).await?;
    let lets_in = g.bench.lets_in("pause", g.password(&wish)).await?;
    demand(lets_in, "switched on again, the password is another")?;
    // The same by the wish (H-25).
    let mut session = g.bench.open_session("pause", g.password(&wish)).await?;
    let off = g.wish_with("pause", |p| p.enabled = false)?;
    g.made(&off).await?;
    // All but the sessions' end was tried by now.
    needed(ends)?;
    demand(
        !session.is_alive().await,
        "the session outlived `enabled = false`",
    )
}

pub(super) async fn r10_healing_leaves_a_session_in_order_alone(g: &Ground<'_>) -> Ended {
    let wish = g.wish("work")?;
    g.made(&wish).await?;
    let mut session = g.bench.open_session("work", g.password(&wish)).await?;
    if g.bench.rights() == Done::Yes {
        g.bench.take_rights("work").await?;
        g.made(&wish).await?;
    }
    g.bench.strip_mark("work").await?;
    g.made(&wish).await?;
    demand(session.is_alive().await, "a repair ended a session")?;
    g.again_changes_nothing(&wish).await?;
    demand(session.is_alive().await, "a look ended a session")
}

pub(super) async fn r1_a_list_is_whole_and_tells_whose_each_login_is(g: &Ground<'_>) -> Ended {
    if !g.adapter.capabilities().list {
        return Err(Stop::Skip("not declared: list".to_owned()));
    }
    // Where there is no switch, all are on.
    let on = !g.adapter.capabilities().disable;
    let (ours, off) = (
        g.wish("mine")?,
        g.wish_with("mine-off", |p| p.enabled = on)?,
    );
    g.made(&ours).await?;
    g.made(&off).await?;
    g.bench.make("no-mark", "their own").await?;
    let other = g.wish("mine-not")?;
    g.made(&other).await?;
    let mark = stranger(&g.bench.settings())?.mark(other.consumer());
    g.bench.replace_mark("mine-not", mark.as_str()).await?;
    let listed = g.list().await?;
    let of = |login: &str| listed.iter().find(|one| one.login.as_str() == login);
    let wanted = [
        ("mine", MarkSeen::OursFor(ours.consumer().clone()), true),
        ("mine-off", MarkSeen::OursFor(off.consumer().clone()), on),
        ("no-mark", MarkSeen::None, true),
        ("mine-not", MarkSeen::Foreign, true),
    ];
    for (login, mark, enabled) in wanted {
        match of(login) {
            Some(one) if one.mark == mark && one.enabled == enabled => {}
            other => return fail(format!("{login} is listed as {other:?}")),
        }
    }
    g.remove(&departing(&ours)).await?;
    let listed = g.list().await?;
    demand(
        !listed.iter().any(|one| one.login.as_str() == "mine"),
        "still listed",
    )
}
