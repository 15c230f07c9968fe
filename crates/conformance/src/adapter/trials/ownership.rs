//! Whose a login is, and that nothing of anybody else is touched.

use mesh_sdk::{Class, Difference, Login, MarkSeen, Secret};

use super::super::ground::{Ended, Ground, demand, departing, fail, stranger};

pub(super) async fn h18_a_strangers_login_is_told_apart_from_ours(g: &Ground<'_>) -> Ended {
    let wish = g.wish("theirs")?;
    g.bench.make("theirs", "their own").await?;
    let lost = g.lost(&wish).await?;
    demand(
        lost.mark == MarkSeen::None && !lost.password_fits,
        format!("{lost:?}"),
    )?;
    demand(
        !lost.differences.contains(Difference::Absent),
        format!("{lost:?}"),
    )?;
    let gone = g.remove(&departing(&wish)).await;
    let class = gone.map_err(|error| error.class());
    demand(class == Err(Class::Exists), format!("remove: {class:?}"))?;
    demand(
        g.bench.lets_in("theirs", "their own").await?,
        "it was touched",
    )
}

pub(super) async fn h18_a_login_with_our_password_is_ours(g: &Ground<'_>) -> Ended {
    let wish = g.wish("proven")?;
    g.bench.make("proven", g.password(&wish)).await?;
    let lost = g.lost(&wish).await?;
    demand(
        lost.mark == MarkSeen::None && lost.password_fits,
        format!("{lost:?}"),
    )
}

pub(super) async fn r4_a_strangers_marked_login_is_never_removed(g: &Ground<'_>) -> Ended {
    let wish = g.wish("foreign")?;
    g.made(&wish).await?;
    let marker = stranger(&g.bench.settings())?;
    let mark = marker.mark(wish.consumer());
    g.bench.replace_mark("foreign", mark.as_str()).await?;
    let lost = g.lost(&wish).await?;
    demand(lost.mark == MarkSeen::Foreign, format!("{lost:?}"))?;
    untouchable(g, &wish).await
}

pub(super) async fn r4_a_damaged_mark_is_no_reason_to_remove(g: &Ground<'_>) -> Ended {
    let wish = g.wish("damaged")?;
    g.made(&wish).await?;
    let mark = g.marker.mark(wish.consumer());
    let broken = format!(
        "{}{}",
        g.marker.own_prefix(),
        "damaged.aaaaaaaaaaaaaaaaaaaaaaaa"
    );
    demand(mark.as_str() != broken, "the mark is as it was")?;
    g.bench.replace_mark("damaged", &broken).await?;
    let lost = g.lost(&wish).await?;
    demand(lost.mark == MarkSeen::Damaged, format!("{lost:?}"))?;
    untouchable(g, &wish).await?;
    g.made(&wish).await?;
    g.again_changes_nothing(&wish).await
}

async fn untouchable(g: &Ground<'_>, wish: &mesh_sdk::Wish) -> Ended {
    let going = departing(wish);
    let mut tries = vec![g.remove(&going).await];
    if g.adapter.capabilities().disable {
        tries.push(g.disable(&going).await);
    }
    for tried in tries {
        let class = tried.map_err(|error| error.class());
        demand(class == Err(Class::Exists), format!("{class:?}"))?;
    }
    let login = wish.login().as_str();
    demand(
        g.bench.lets_in(login, g.password(wish)).await?,
        "it was touched",
    )
}

pub(super) async fn h19_reserved_names_are_refused_and_never_touched(g: &Ground<'_>) -> Ended {
    for reserved in g.bench.reserved() {
        let login = Login::new(&reserved);
        let Ok(login) = login else {
            return fail(format!("`{reserved}` is no login at all"));
        };
        let wish = g.wish_with("reserved", |p| p.login = login)?;
        let refusal = g.check(&wish).map_err(|refusal| refusal.field);
        demand(
            refusal == Err("login".to_owned()),
            format!("check of `{reserved}`: {refusal:?}"),
        )?;
        let before = g.bench.writes().await?;
        let class = g.create(&wish).await.map_err(|error| error.class());
        demand(
            class == Err(Class::RefusedValue),
            format!("create of `{reserved}`: {class:?}"),
        )?;
        let going = departing(&wish);
        let class = g.remove(&going).await.map_err(|error| error.class());
        demand(
            class == Err(Class::RefusedValue),
            format!("remove of `{reserved}`: {class:?}"),
        )?;
        demand(
            g.bench.writes().await? == before,
            "a reserved login was written",
        )?;
        demand(g.bench.exists(&reserved).await?, "a reserved login is gone")?;
    }
    // And the admin still gets in.
    let wish = g.wish_with("after", |p| {
        p.password = Some(Secret::from("planted-after"))
    })?;
    g.made(&wish).await
}
