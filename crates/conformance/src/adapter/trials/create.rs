//! Creating, changing, repairing.

use mesh_sdk::{Class, Difference, Secret};

use super::super::ground::{Ended, Ground, Stop, demand, departing, needed};

pub(super) async fn a6_a_new_login_is_made_and_held(g: &Ground<'_>) -> Ended {
    let wish = g.wish("new")?;
    g.made(&wish).await?;
    let lets_in = g.bench.lets_in("new", g.password(&wish)).await?;
    demand(lets_in, "the password that was asked for does not let in")?;
    let wrong = g.bench.lets_in("new", "another").await?;
    demand(!wrong, "a wrong password lets in")
}

pub(super) async fn a6_created_twice_is_as_once_and_writes_nothing(g: &Ground<'_>) -> Ended {
    let wish = g.wish("twice")?;
    g.made(&wish).await?;
    g.again_changes_nothing(&wish).await
}

pub(super) async fn h1_a_new_password_takes_the_old_one_away(g: &Ground<'_>) -> Ended {
    let old = g.wish("pass")?;
    g.made(&old).await?;
    let new = g.wish_with("pass", |p| {
        p.password = Some(Secret::from("planted-second"))
    })?;
    let lost = g.lost(&new).await?;
    demand(
        lost.differences.contains(Difference::Password),
        format!("{lost:?}"),
    )?;
    g.made(&new).await?;
    demand(
        g.bench.lets_in("pass", "planted-second").await?,
        "the new password fails",
    )?;
    let still = g.bench.lets_in("pass", g.password(&old)).await?;
    demand(!still, "the old password still lets in")?;
    g.again_changes_nothing(&new).await
}

pub(super) async fn h1_new_values_are_granted_and_the_old_ones_taken_back(g: &Ground<'_>) -> Ended {
    needed(g.bench.rights())?;
    let old = g.wish("vals")?;
    g.made(&old).await?;
    let mut set = Ok(());
    let new = g.wish_with("vals", |p| {
        set = g.set_values(p, g.bench.other_values("vals"));
    })?;
    set?;
    let lost = g.lost(&new).await?;
    demand(
        lost.differences.contains(Difference::GrantsMissing)
            && lost.differences.contains(Difference::GrantsSurplus),
        format!("{lost:?}"),
    )?;
    demand(lost.password_fits, "the password is the same")?;
    g.made(&new).await?;
    g.again_changes_nothing(&new).await
}

pub(super) async fn h25_a_wish_that_is_switched_off_is_kept_off(g: &Ground<'_>) -> Ended {
    if !g.adapter.capabilities().disable {
        return Err(Stop::Skip("not declared: disable".to_owned()));
    }
    let on = g.wish("off")?;
    let off = g.wish_with("off", |p| p.enabled = false)?;
    g.made(&off).await?;
    let lets_in = g.bench.lets_in("off", g.password(&off)).await?;
    demand(!lets_in, "a login that is to be off lets in")?;
    g.again_changes_nothing(&off).await?;
    g.bench.switch_on("off").await?;
    let lost = g.lost(&off).await?;
    demand(
        lost.differences.contains(Difference::Enabled),
        format!("{lost:?}"),
    )?;
    g.made(&off).await?;
    g.made(&on).await?;
    let lets_in = g.bench.lets_in("off", g.password(&on)).await?;
    demand(
        lets_in,
        "switched on again with the same password, it does not let in",
    )
}

pub(super) async fn a6_a_half_done_login_is_finished(g: &Ground<'_>) -> Ended {
    // As after a first step of several: there, with our password, and nothing else.
    let wish = g.wish("half")?;
    g.bench.make("half", g.password(&wish)).await?;
    let lost = g.lost(&wish).await?;
    demand(lost.password_fits, format!("{lost:?}"))?;
    g.made(&wish).await?;
    g.again_changes_nothing(&wish).await?;
    g.remove(&departing(&wish)).await?;
    demand(!g.bench.exists("half").await?, "it was not removed")
}

pub(super) async fn a3_what_the_server_refuses_is_told_as_that(g: &Ground<'_>) -> Ended {
    let Some(values) = g.bench.values_that_the_server_refuses() else {
        return Err(Stop::Skip("the form of a wish says it all".to_owned()));
    };
    let mut set = Ok(());
    let wish = g.wish_with("refused", |p| set = g.set_values(p, values))?;
    set?;
    match g.create(&wish).await {
        Err(error) if error.class() == Class::RefusedValue => {}
        other => return super::super::ground::fail(format!("{other:?}")),
    }
    demand(
        !g.bench.exists("refused").await?,
        "a refused wish left a login behind",
    )
}
