//! The answers: held, and each way of being lost; and that asking changes nothing.

use mesh_sdk::{Answer, Difference, MarkSeen, Secret};

use super::super::ground::{Ended, Ground, demand, fail, needed};

pub(super) async fn h5_absent_is_told(g: &Ground<'_>) -> Ended {
    let wish = g.wish("absent")?;
    let lost = g.lost(&wish).await?;
    demand(
        lost.differences.contains(Difference::Absent),
        format!("{lost:?}"),
    )?;
    demand(
        lost.mark == MarkSeen::None && !lost.password_fits,
        format!("{lost:?}"),
    )?;
    g.made(&wish).await?;
    g.bench.drop_login("absent").await?;
    let lost = g.lost(&wish).await?;
    demand(
        lost.differences.contains(Difference::Absent),
        format!("{lost:?}"),
    )?;
    g.made(&wish).await?;
    g.again_changes_nothing(&wish).await
}

pub(super) async fn o12_another_password_is_told_and_healed(g: &Ground<'_>) -> Ended {
    let wish = g.wish("other")?;
    g.made(&wish).await?;
    g.bench.set_password("other", "changed by hand").await?;
    let lost = g.lost(&wish).await?;
    demand(
        lost.differences.contains(Difference::Password),
        format!("{lost:?}"),
    )?;
    demand(
        !lost.password_fits && lost.mark == MarkSeen::Ours,
        format!("{lost:?}"),
    )?;
    g.made(&wish).await?;
    let theirs = g.bench.lets_in("other", "changed by hand").await?;
    demand(!theirs, "the other password still lets in")?;
    g.again_changes_nothing(&wish).await
}

pub(super) async fn h5_one_password_more_is_told_and_healed(g: &Ground<'_>) -> Ended {
    let wish = g.wish("second")?;
    g.made(&wish).await?;
    needed(g.bench.add_password("second", "one more").await?)?;
    let lost = g.lost(&wish).await?;
    demand(
        lost.differences.contains(Difference::Password),
        format!("{lost:?}"),
    )?;
    demand(lost.password_fits, "ours still fits")?;
    g.made(&wish).await?;
    demand(
        !g.bench.lets_in("second", "one more").await?,
        "it still lets in",
    )?;
    g.again_changes_nothing(&wish).await
}

pub(super) async fn h5_switched_off_is_told_and_healed(g: &Ground<'_>) -> Ended {
    let wish = g.wish("dark")?;
    g.made(&wish).await?;
    needed(g.bench.switch_off("dark").await?)?;
    let lost = g.lost(&wish).await?;
    demand(
        lost.differences.contains(Difference::Disabled),
        format!("{lost:?}"),
    )?;
    g.made(&wish).await?;
    g.again_changes_nothing(&wish).await
}

pub(super) async fn o15_missing_rights_are_told_and_healed(g: &Ground<'_>) -> Ended {
    needed(g.bench.rights())?;
    let wish = g.wish("poor")?;
    g.made(&wish).await?;
    g.bench.take_rights("poor").await?;
    let lost = g.lost(&wish).await?;
    demand(
        lost.differences.contains(Difference::GrantsMissing),
        format!("{lost:?}"),
    )?;
    demand(lost.password_fits, "the password is in order")?;
    demand(!lost.detail.is_empty(), "it is not told what is missing")?;
    g.made(&wish).await?;
    g.again_changes_nothing(&wish).await
}

pub(super) async fn a7_a_surplus_is_a_loss_on_a_login_of_ours(g: &Ground<'_>) -> Ended {
    let wish = g.wish("rich")?;
    g.made(&wish).await?;
    needed(g.bench.add_rights("rich").await?)?;
    let lost = g.lost(&wish).await?;
    demand(
        lost.differences.contains(Difference::GrantsSurplus),
        format!("{lost:?}"),
    )?;
    demand(
        lost.mark == MarkSeen::Ours && lost.password_fits,
        format!("{lost:?}"),
    )?;
    g.made(&wish).await?;
    g.again_changes_nothing(&wish).await
}

pub(super) async fn a7_a_surplus_is_a_warning_on_an_adopted_login(g: &Ground<'_>) -> Ended {
    let wish = g.wish("adopted")?;
    g.bench.make("adopted", g.password(&wish)).await?;
    g.create_as(&wish, true).await?;
    needed(g.bench.add_rights("adopted").await?)?;
    let surplus = |answer: &Answer| match answer {
        Answer::Held(held) => held.warning.is_some(),
        Answer::Lost(_) => false,
    };
    let answer = g.holds_as(&wish, true).await?;
    demand(
        surplus(&answer),
        format!("adopted, with a surplus: {answer:?}"),
    )?;
    // A repair leaves the surplus where it is, too.
    g.bench.take_rights("adopted").await?;
    needed(g.bench.add_rights("adopted").await?)?;
    g.create_as(&wish, true).await?;
    let answer = g.holds_as(&wish, true).await?;
    demand(surplus(&answer), format!("after the repair: {answer:?}"))?;
    // `mesh adopt --exact`.
    let exact = g.wish_with("adopted", |p| p.exact = true)?;
    match g.holds_as(&exact, true).await? {
        Answer::Lost(lost) if lost.differences.contains(Difference::GrantsSurplus) => {}
        other => return fail(format!("exact: {other:?}")),
    }
    g.create_as(&exact, true).await?;
    g.held(&exact).await
}

pub(super) async fn h18_a_missing_mark_is_told_and_healed(g: &Ground<'_>) -> Ended {
    let wish = g.wish("bare")?;
    g.made(&wish).await?;
    g.bench.strip_mark("bare").await?;
    let lost = g.lost(&wish).await?;
    demand(
        lost.differences.contains(Difference::MarkMissing),
        format!("{lost:?}"),
    )?;
    demand(
        lost.mark == MarkSeen::None && lost.password_fits,
        format!("{lost:?}"),
    )?;
    g.made(&wish).await?;
    g.again_changes_nothing(&wish).await
}

pub(super) async fn o43_a_login_that_any_password_opens_is_told_and_healed(
    g: &Ground<'_>,
) -> Ended {
    let wish = g.wish("open")?;
    g.made(&wish).await?;
    needed(g.bench.open_to_all("open").await?)?;
    let lost = g.lost(&wish).await?;
    demand(
        lost.differences.contains(Difference::PasswordNotEnforced),
        format!("{lost:?}"),
    )?;
    demand(
        !lost.password_fits,
        "what any password opens proves no password",
    )?;
    g.made(&wish).await?;
    demand(
        !g.bench.lets_in("open", "anything").await?,
        "it still lets anybody in",
    )?;
    g.again_changes_nothing(&wish).await
}

pub(super) async fn h22_without_a_password_presence_and_mark_are_told(g: &Ground<'_>) -> Ended {
    let with = g.wish("known")?;
    let without = g.wish_with("known", |p| p.password = None)?;
    let lost = g.lost(&without).await?;
    demand(
        lost.differences.contains(Difference::Absent),
        format!("{lost:?}"),
    )?;
    g.made(&with).await?;
    let lost = g.lost(&without).await?;
    demand(
        !lost.differences.contains(Difference::Absent),
        format!("{lost:?}"),
    )?;
    demand(
        lost.mark == MarkSeen::Ours && !lost.password_fits,
        format!("{lost:?}"),
    )?;
    // Nothing is written for a wish without a password.
    demand(
        g.create(&without).await.is_err(),
        "it was created without a password",
    )?;
    g.held(&with).await
}

pub(super) async fn h13_healthy_looks_write_nothing_and_fail_no_login(g: &Ground<'_>) -> Ended {
    let mut wishes = Vec::new();
    for n in 0..20 {
        let wish = g.wish(&format!("calm-{n}"))?;
        g.made(&wish).await?;
        wishes.push(wish);
    }
    let writes = g.bench.writes().await?;
    let failed = g.bench.failed_logins().await?;
    for _ in 0..10 {
        for answer in g.holds_all(&g.cx, &wishes).await? {
            demand(
                matches!(answer?, Answer::Held(_)),
                "a healthy one is not held",
            )?;
        }
        g.held(&wishes[0]).await?;
    }
    demand(g.bench.writes().await? == writes, "healthy looks wrote")?;
    demand(
        g.bench.failed_logins().await? == failed,
        "healthy looks failed logins",
    )?;
    // A password that is not right any more is one failed login at most.
    let wrong = g.wish_with("calm-0", |p| {
        p.password = Some(Secret::from("planted-wrong"))
    })?;
    g.lost(&wrong).await?;
    let more = g.bench.failed_logins().await? - failed;
    demand(more <= 1, format!("one look failed {more} logins"))
}
