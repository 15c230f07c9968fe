//! One call on a backend: its deadline, its panic, its words; and many of them, a few at once.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio_util::sync::CancellationToken;

use super::Scrub;
use crate::adapter::{Cx, Server};
use crate::answer::Answer;
use crate::error::{Class, Error};

/// How long an effect, or a write to the store, may go on after the process was told to stop.
pub(super) const AFTER_STOP: Duration = Duration::from_secs(5);
/// A bulk call's signs of life are looked at this often within its deadline.
const TICKS: u32 = 10;

/// Runs a call until its deadline. A panic in an adapter is an error of that call, nothing more.
pub(super) async fn within<T>(
    deadline: Duration,
    what: &str,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(deadline, AssertUnwindSafe(call).catch_unwind()).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => Err(panicked(what)),
        Err(_) => Err(timed_out(what, deadline)),
    }
}

/// The same for an effect: after a stop it may finish, but not for long. `None`: it was cut off then, and
/// may have happened; that is nobody's failure.
pub(super) async fn within_or_stop<T>(
    deadline: Duration,
    what: &str,
    stop: &CancellationToken,
    call: impl Future<Output = Result<T, Error>>,
) -> Option<Result<T, Error>> {
    let call = within(deadline, what, call);
    tokio::select! {
        outcome = call => Some(outcome),
        () = patience(stop) => None,
    }
}

/// Ends a while after the stop.
pub(super) async fn patience(stop: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(AFTER_STOP).await;
}

fn timed_out(what: &str, deadline: Duration) -> Error {
    let seconds = deadline.as_secs_f32();
    Error::new(
        Class::TimedOut,
        format!("no answer to {what} within {seconds} s"),
    )
}
fn panicked(what: &str) -> Error {
    Error::new(Class::Bug, format!("the adapter panicked in {what}"))
}
pub(super) fn cut_off(what: &str) -> Error {
    Error::new(
        Class::TimedOut,
        format!("{what} was cut off: the process is stopping"),
    )
}

/// Runs a bulk call until it has shown no sign of life for the deadline (and at most a tenth more);
/// local computing is not counted (H-9). `alive` hears of each sign.
pub(super) async fn while_alive(
    deadline: Duration,
    what: &str,
    (cx, alive): (&Cx, impl Fn()),
    call: impl Future<Output = Result<(), Error>>,
) -> Result<(), Error> {
    let life = cx.signs_of_life();
    let mut call = std::pin::pin!(AssertUnwindSafe(call).catch_unwind());
    let tick = (deadline / TICKS).max(Duration::from_millis(1));
    let (mut seen, mut still) = (life.seen(), 0);
    loop {
        match tokio::time::timeout(tick, &mut call).await {
            Ok(Ok(outcome)) => return outcome,
            Ok(Err(_)) => return Err(panicked(what)),
            Err(_) => {}
        }
        let now = life.seen();
        still = if now.0 != seen.0 || now.1 {
            alive();
            0
        } else {
            still + 1
        };
        if still >= TICKS {
            return Err(timed_out(what, deadline));
        }
        seen = now;
    }
}

/// Starts a call for each, at most `width` at once, until `go_on` says no to an outcome or beforehand;
/// what is in flight then finishes. Answers the outcomes as they came. Whoever drops it cuts off what
/// is in flight.
pub(super) async fn lanes<T, F>(
    which: &[usize],
    width: usize,
    start: impl Fn(usize) -> F,
    mut go_on: impl FnMut(Option<&T>) -> bool,
    outcomes: &mut Vec<(usize, T)>,
) where
    F: Future<Output = T>,
{
    let mut waiting = which.iter().copied();
    let mut flying = FuturesUnordered::new();
    let mut open = true;
    loop {
        while open && flying.len() < width.max(1) {
            open = go_on(None);
            let next = if open { waiting.next() } else { None };
            let Some(i) = next else { break };
            let call = start(i);
            flying.push(async move { (i, call.await) });
        }
        let Some((i, outcome)) = flying.next().await else {
            return;
        };
        open = open && go_on(Some(&outcome));
        outcomes.push((i, outcome));
    }
}

pub(super) fn scrub_error(scrub: &Scrub, error: Error) -> Error {
    let message = scrub(error.message());
    error.with_message(message)
}

pub(super) fn scrub_answer(scrub: &Scrub, answer: Result<Answer, Error>) -> Result<Answer, Error> {
    match answer {
        Ok(Answer::Held(mut held)) => {
            held.warning = held.warning.map(|warning| scrub(&warning).into());
            Ok(Answer::Held(held))
        }
        Ok(Answer::Lost(mut lost)) => {
            if !lost.detail.is_empty() {
                lost.detail = scrub(&lost.detail);
            }
            Ok(Answer::Lost(lost))
        }
        Err(error) => Err(scrub_error(scrub, error)),
    }
}

/// Identity and run are compared with stored ones, and stay as they are.
pub(super) fn scrub_server(scrub: &Scrub, seen: Result<Server, Error>) -> Result<Server, Error> {
    let seen = seen.map_err(|error| scrub_error(scrub, error))?;
    Ok(Server {
        version: scrub(&seen.version),
        read_only: seen.read_only.map(|why| scrub(&why)),
        forgets: seen.forgets.map(|why| scrub(&why)),
        ..seen
    })
}
