//! Servers that are away, silent, stalled, hung, cut off, restarted.

use std::time::Duration;

use mesh_sdk::handle::Asked;
use mesh_sdk::{Answer, Class, Difference};
use tokio::time::timeout;

use super::super::bench::{Done, Restart};
use super::super::ground::{Ended, Ground, Stop, demand, fail, needed};
use crate::basics::Fault;

/// Long enough for any answer of a healthy local server, and short of any adapter's own patience.
const PATIENCE: Duration = Duration::from_millis(500);
/// How many places in the answers are tried for a cut.
const CUTS: usize = 48;

pub(super) async fn h7_a_server_that_is_not_there_is_unknown(g: &Ground<'_>) -> Ended {
    let nowhere = g.kind.open(g.bench.nowhere()?)?;
    let wish = g.wish("away")?;
    let asked = Asked {
        wish: &wish,
        adopted: false,
    };
    let answer = nowhere.holds(&g.cx, &g.marker, asked).await;
    g.hear(format!("{answer:?}"));
    let class = answer.map_err(|error| error.class());
    demand(class == Err(Class::Unreachable), format!("{class:?}"))
}

/// A look that does not end is dropped, and leaves nothing that a later one could stumble over.
async fn cut_off(g: &Ground<'_>, wish: &mesh_sdk::Wish) -> Ended {
    match timeout(PATIENCE, g.holds(wish)).await {
        Err(_) => Ok(()),
        // The client itself may say that it was too long.
        Ok(Err(error)) if error.class() == Class::TimedOut => Ok(()),
        Ok(other) => fail(format!("a server that says nothing: {other:?}")),
    }
}

pub(super) async fn h9_a_server_that_says_nothing_can_be_cut_off(g: &Ground<'_>) -> Ended {
    needed(g.bench.network())?;
    let wish = g.wish("silent")?;
    g.made(&wish).await?;
    g.bench.fault(Fault::Silent);
    cut_off(g, &wish).await?;
    g.bench.fault(Fault::None);
    g.held(&wish).await
}

pub(super) async fn o26_a_server_that_stalls_can_be_cut_off(g: &Ground<'_>) -> Ended {
    needed(g.bench.network())?;
    let wish = g.wish("stall")?;
    g.made(&wish).await?;
    g.bench.fault(Fault::StallAfter(3));
    cut_off(g, &wish).await?;
    g.bench.fault(Fault::None);
    g.held(&wish).await
}

pub(super) async fn h9_a_server_that_hangs_can_be_cut_off_and_answers_later(
    g: &Ground<'_>,
) -> Ended {
    needed(g.bench.network())?;
    let wish = g.wish("hang")?;
    g.made(&wish).await?;
    g.bench.stop().await?;
    let cut = cut_off(g, &wish).await;
    g.bench.go_on().await?;
    cut?;
    g.held(&wish).await?;
    g.again_changes_nothing(&wish).await
}

pub(super) async fn o42_a_connection_cut_anywhere_in_create_is_finished_next_time(
    g: &Ground<'_>,
) -> Ended {
    needed(g.bench.network())?;
    let mut failed = 0;
    for cut in 0..CUTS {
        let wish = g.wish(&format!("cut-{cut}"))?;
        // Dense at first, then far into longer answers.
        g.bench.fault(Fault::CutAfter(cut * (cut + 1)));
        let outcome = g.create(&wish).await;
        g.bench.fault(Fault::None);
        if let Err(error) = outcome {
            failed += 1;
            demand(
                error.class().is_transient(),
                format!("cut at {cut}: {error}"),
            )?;
        }
        g.made(&wish).await?;
        g.again_changes_nothing(&wish).await?;
    }
    demand(failed > 0, "no cut ever came in the middle")
}

pub(super) async fn h7_a_look_that_is_cut_off_is_never_an_answer(g: &Ground<'_>) -> Ended {
    needed(g.bench.network())?;
    let mut wishes = Vec::new();
    for n in 0..100 {
        wishes.push(g.wish(&format!("look-{n}"))?);
    }
    for wish in &wishes {
        g.create(wish).await?;
    }
    let mut unknown = 0;
    for cut in 0..CUTS {
        g.bench.fault(Fault::CutAfter(cut * cut * 16));
        for answer in [g.holds(&wishes[0]).await]
            .into_iter()
            .chain(g.holds_all(&g.cx, &wishes).await?)
        {
            match answer {
                Ok(Answer::Held(_)) => {}
                Ok(Answer::Lost(lost)) => return fail(format!("cut at {cut}: {lost:?}")),
                Err(error) => {
                    unknown += 1;
                    demand(
                        error.class().is_transient(),
                        format!("cut at {cut}: {error}"),
                    )?;
                }
            }
        }
    }
    g.bench.fault(Fault::None);
    demand(unknown > 0, "no cut ever came in the middle")
}

pub(super) async fn h14_a_restart_is_hinted(g: &Ground<'_>) -> Ended {
    let can = g.adapter.capabilities();
    if !can.hint {
        return Err(Stop::Skip("not declared: hint".to_owned()));
    }
    let mut hint = Box::pin(g.adapter.hint(&g.cx));
    let early = timeout(PATIENCE, &mut hint).await;
    demand(early.is_err(), "a hint where there is nothing")?;
    let before = if can.server {
        g.adapter.server(&g.cx).await?.run
    } else {
        None
    };
    g.bench.restart().await?;
    match timeout(Duration::from_secs(5), hint).await {
        Ok(hinted) => hinted?,
        Err(_) => return fail("no hint within 5 s of the restart"),
    }
    if can.server {
        let after = g.adapter.server(&g.cx).await?.run;
        match g.bench.tells_runs() {
            Done::Yes => demand(
                before != after,
                "the run is told as the same after a restart",
            )?,
            Done::Never(why) => demand(
                before.is_none() && after.is_none(),
                format!("a run is told, though {why}"),
            )?,
        }
    }
    Ok(())
}

pub(super) async fn o18_after_a_restart_all_is_as_before_or_healed(g: &Ground<'_>) -> Ended {
    needed(g.bench.network())?;
    let mut wishes = Vec::new();
    for n in 0..3 {
        let wish = g.wish(&format!("boot-{n}"))?;
        g.made(&wish).await?;
        wishes.push(wish);
    }
    let told = match g.adapter.capabilities().server {
        true => Some(g.adapter.server(&g.cx).await?),
        false => None,
    };
    let restart = g.bench.restart().await?;
    let warned = told.map(|server| server.forgets);
    if restart == Restart::Forgets {
        demand(
            warned != Some(None),
            "it forgot, and had not said that it would",
        )?;
    }
    for wish in &wishes {
        match restart {
            Restart::Forgets => {
                let lost = g.lost(wish).await?;
                demand(
                    lost.differences.contains(Difference::Absent),
                    format!("{lost:?}"),
                )?;
            }
            // Where it said that it is behind with saving, what comes back is older.
            Restart::Keeps if matches!(warned, Some(Some(_))) => {}
            Restart::Keeps => g.held(wish).await?,
        }
        g.made(wish).await?;
        g.again_changes_nothing(wish).await?;
    }
    Ok(())
}
