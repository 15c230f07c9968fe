//! Many at once: the same answers as one by one.

use mesh_sdk::{Answer, Cx, Difference, Secret, Wish};

use super::super::bench::Done;
use super::super::ground::{Ended, Ground, Stop, demand};

/// How many looks may be needed to see all of them.
const LOOKS: usize = 16;

/// Those that something was done to.
const DIFFERENT: [&str; 11] = [
    "mix-0001", "mix-0002", "mix-0003", "mix-0004", "mix-0005", "mix-0006", "mix-0007", "mix-0008",
    "mix-0009", "mix-0010", "mix-0011",
];

fn declared(g: &Ground<'_>) -> Ended {
    let can = g.adapter.capabilities();
    if can.holds_all && can.create_all {
        return Ok(());
    }
    Err(Stop::Skip(
        "not declared: holds_all and create_all".to_owned(),
    ))
}

fn many(g: &Ground<'_>, prefix: &str) -> Result<Vec<Wish>, Stop> {
    (0..g.bench.many())
        .map(|n| g.wish(&format!("{prefix}-{n:04}")))
        .collect()
}

async fn all_held(g: &Ground<'_>, cx: &Cx, wishes: &[Wish]) -> Ended {
    for (wish, answer) in wishes.iter().zip(g.holds_all(cx, wishes).await?) {
        match answer {
            Ok(Answer::Held(_)) => {}
            other => return Err(Stop::Fail(format!("{wish:?}: {other:?}"))),
        }
    }
    Ok(())
}

pub(super) async fn h16_many_are_made_and_looked_at_together(g: &Ground<'_>) -> Ended {
    declared(g)?;
    let wishes = many(g, "many")?;
    for answer in g.holds_all(&g.cx, &wishes).await? {
        let absent = |lost: &mesh_sdk::Lost| lost.differences.contains(Difference::Absent);
        let is_absent = matches!(&answer, Ok(Answer::Lost(lost)) if absent(lost));
        demand(is_absent, format!("before: {answer:?}"))?;
    }
    for outcome in g.create_all(&wishes).await? {
        outcome?;
    }
    let after = Cx::new(g.cx.block_budget, true);
    all_held(g, &after, &wishes).await?;
    let (writes, failed) = (g.bench.writes().await?, g.bench.failed_logins().await?);
    for _ in 0..3 {
        all_held(g, &g.cx, &wishes).await?;
    }
    demand(
        g.bench.writes().await? == writes,
        "healthy bulk looks wrote",
    )?;
    demand(
        g.bench.failed_logins().await? == failed,
        "healthy bulk looks failed logins",
    )?;
    for wish in wishes.iter().step_by(97) {
        g.held(wish).await?;
        g.again_changes_nothing(wish).await?;
    }
    Ok(())
}

pub(super) async fn h16_one_bad_wish_stops_no_other(g: &Ground<'_>) -> Ended {
    declared(g)?;
    let Some(bad) = g.bench.values_that_the_server_refuses() else {
        return Err(Stop::Skip(
            "the server refuses nothing that the form allows".to_owned(),
        ));
    };
    let mut wishes = many(g, "bad")?;
    let mut set = Ok(());
    wishes[7] = g.wish_with("bad-0007", |p| set = g.set_values(p, bad))?;
    set?;
    let outcomes = g.create_all(&wishes).await?;
    for (index, outcome) in outcomes.iter().enumerate() {
        demand(
            outcome.is_err() == (index == 7),
            format!("{index}: {outcome:?}"),
        )?;
    }
    let answers = g.holds_all(&g.cx, &wishes).await?;
    for (index, answer) in answers.iter().enumerate() {
        let held = matches!(answer, Ok(Answer::Held(_)));
        demand(held == (index != 7), format!("{index}: {answer:?}"))?;
    }
    Ok(())
}

pub(super) async fn h16_each_kind_of_loss_is_told_in_bulk_as_singly(g: &Ground<'_>) -> Ended {
    declared(g)?;
    let mut wishes = many(g, "mix")?;
    for outcome in g.create_all(&wishes).await? {
        outcome?;
    }
    all_held(g, &g.cx, &wishes).await?;
    let bench = g.bench;
    bench.drop_login("mix-0001").await?;
    bench.set_password("mix-0002", "changed by hand").await?;
    bench.switch_off("mix-0003").await?;
    if bench.rights() == Done::Yes {
        bench.take_rights("mix-0004").await?;
    }
    bench.add_rights("mix-0005").await?;
    bench.strip_mark("mix-0006").await?;
    bench.open_to_all("mix-0007").await?;
    bench.add_password("mix-0008", "one more").await?;
    if g.adapter.capabilities().disable {
        wishes[9] = g.wish_with("mix-0009", |p| p.enabled = false)?;
    }
    wishes[10] = g.wish_with("mix-0010", |p| p.password = None)?;
    wishes[11] = g.wish_with("mix-0011", |p| {
        p.password = Some(Secret::from("planted-11"))
    })?;
    // Where one look cannot read everything within its budget, a few looks do.
    let mut open: Vec<&str> = DIFFERENT.to_vec();
    let mut last = String::new();
    for _ in 0..LOOKS {
        for (wish, answer) in wishes.iter().zip(g.holds_all(&g.cx, &wishes).await?) {
            let name = wish.consumer().as_str();
            let answer = answer?;
            if !DIFFERENT.contains(&name) {
                demand(
                    matches!(answer, Answer::Held(_)),
                    format!("{name}: {answer:?}"),
                )?;
                continue;
            }
            let single = g.holds(wish).await?;
            if same(&single, &answer) {
                open.retain(|other| *other != name);
            } else if open.contains(&name) {
                last = format!("{wish:?}: singly {single:?}, in bulk {answer:?}");
            }
        }
        if open.is_empty() {
            break;
        }
    }
    demand(open.is_empty(), last)?;
    for outcome in g.create_all(&wishes[..10]).await? {
        outcome?;
    }
    all_held(g, &g.cx, &wishes[..10]).await
}

fn same(single: &Answer, bulk: &Answer) -> bool {
    match (single, bulk) {
        // How it was proven may differ.
        (Answer::Held(one), Answer::Held(two)) => one.warning == two.warning,
        (one, two) => one == two,
    }
}
