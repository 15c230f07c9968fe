//! Asking the backend: in bulk or one by one, each with its deadline (H-9).

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio_util::sync::CancellationToken;

use super::{Provisioner, Scrub};
use crate::adapter::{Cx, Sink};
use crate::answer::Answer;
use crate::error::{Class, Error};
use crate::handle::Asked;

/// How long an effect may go on after the process was told to stop.
const AFTER_STOP: Duration = Duration::from_secs(5);

/// Runs a call until its deadline. A panic in an adapter is an error of that call, nothing more.
pub(super) async fn within<T>(
    deadline: Duration,
    what: &str,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(deadline, AssertUnwindSafe(call).catch_unwind()).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => Err(Error::new(
            Class::Bug,
            format!("the adapter panicked in {what}"),
        )),
        Err(_) => Err(timed_out(what, deadline)),
    }
}

/// The same for an effect: after a stop it may finish, but not for long.
pub(super) async fn within_or_stop<T>(
    deadline: Duration,
    what: &str,
    stop: &CancellationToken,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let call = within(deadline, what, call);
    let patience = async {
        stop.cancelled().await;
        tokio::time::sleep(AFTER_STOP).await;
    };
    tokio::select! {
        outcome = call => outcome,
        () = patience => Err(Error::new(Class::TimedOut, format!("{what} was cut off: stopping"))),
    }
}

fn timed_out(what: &str, deadline: Duration) -> Error {
    Error::new(
        Class::TimedOut,
        format!("no answer to {what} within {} s", deadline.as_secs_f32()),
    )
}

/// Runs a bulk call until it has shown no sign of life for the deadline; local computing is not
/// counted (H-9).
pub(super) async fn while_alive(
    deadline: Duration,
    what: &str,
    cx: &Cx,
    call: impl Future<Output = Result<(), Error>>,
) -> Result<(), Error> {
    let life = cx.signs_of_life();
    let mut call = std::pin::pin!(AssertUnwindSafe(call).catch_unwind());
    let mut seen = life.seen();
    loop {
        match tokio::time::timeout(deadline, &mut call).await {
            Ok(Ok(outcome)) => return outcome,
            Ok(Err(_)) => {
                return Err(Error::new(
                    Class::Bug,
                    format!("the adapter panicked in {what}"),
                ));
            }
            Err(_) => {
                let now = life.seen();
                if now.0 == seen.0 && !now.1 {
                    return Err(timed_out(what, deadline));
                }
                seen = now;
            }
        }
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

impl Provisioner {
    /// What the server says of itself, if the adapter can tell.
    pub(super) async fn look_at_server(&mut self) {
        if !self.parts.adapter.capabilities().server {
            return;
        }
        let cx = Cx::new(self.parts.limits.block_budget, false);
        let deadline = self.core.settings().ask_timeout;
        let call = within(
            deadline,
            "the look at the server",
            self.parts.adapter.server(&cx),
        );
        let seen = tokio::select! {
            seen = call => seen,
            () = self.parts.stop.cancelled() => return,
        };
        let seen = seen.map_err(|error| scrub_error(&self.parts.scrub, error));
        self.core.server_seen(self.now(), seen);
    }

    /// Asks for all of them with one call (H-16). What was answered before a cut-off counts.
    pub(super) async fn ask_in_bulk(&mut self, ask: &[usize]) {
        let cx = Cx::new(self.parts.limits.block_budget, false);
        let sink = Sink::new(ask.len());
        let outcome = self.bulk_look(&cx, ask, &sink).await;
        let now = self.now();
        let Some(outcome) = outcome else { return };
        let hung = matches!(&outcome, Err(error) if error.class() == Class::TimedOut);
        let fallback = outcome.err().unwrap_or_else(|| {
            Error::new(
                Class::Bug,
                "the adapter's bulk answer left this consumer out",
            )
        });
        for (i, answer) in ask.iter().zip(sink.take()) {
            let answer = answer.unwrap_or_else(|| Err(fallback.clone()));
            self.core
                .answer(*i, now, scrub_answer(&self.parts.scrub, answer));
        }
        if hung {
            self.core.bulk_timed_out();
        }
    }

    /// One bulk call. `None` if the process is stopping.
    async fn bulk_look(
        &self,
        cx: &Cx,
        ask: &[usize],
        sink: &Sink<Answer>,
    ) -> Option<Result<(), Error>> {
        let asked: Vec<Asked<'_>> = ask.iter().filter_map(|i| self.asked(*i)).collect();
        if asked.len() != ask.len() {
            return Some(Err(Error::new(
                Class::Bug,
                "a consumer is asked for without its wish",
            )));
        }
        let call = self
            .parts
            .adapter
            .holds_all(cx, &self.parts.marker, &asked, sink);
        let call = while_alive(self.core.settings().ask_timeout, "the bulk look", cx, call);
        tokio::select! {
            outcome = call => Some(outcome),
            () = self.parts.stop.cancelled() => None,
        }
    }

    /// Asks one by one, a few at once. A time-out ends the asking; what is in flight finishes (H-9).
    pub(super) async fn ask_singly(&mut self, ask: &[usize]) {
        let mut waiting = ask.iter().copied();
        let mut answers = Vec::with_capacity(ask.len());
        {
            let this = &*self;
            let mut flying = FuturesUnordered::new();
            let mut ended = false;
            loop {
                while !ended && flying.len() < this.parts.limits.concurrency {
                    let Some(i) = waiting.next() else { break };
                    flying.push(async move { (i, this.look_at(i, false).await) });
                }
                let next = tokio::select! {
                    next = flying.next() => next,
                    () = this.parts.stop.cancelled() => break,
                };
                let Some((i, answer)) = next else { break };
                ended |= matches!(&answer, Err(error) if error.class() == Class::TimedOut);
                answers.push((i, answer));
            }
        }
        let now = self.now();
        for (i, answer) in answers {
            self.core.answer(i, now, answer);
        }
    }

    /// Looks at one consumer.
    pub(super) async fn look_at(&self, i: usize, after_effect: bool) -> Result<Answer, Error> {
        let Some(asked) = self.asked(i) else {
            return Err(Error::new(
                Class::Bug,
                "a consumer is asked for without its wish",
            ));
        };
        let cx = Cx::new(self.parts.limits.block_budget, after_effect);
        let call = self.parts.adapter.holds(&cx, &self.parts.marker, asked);
        let deadline = self.core.settings().ask_timeout;
        scrub_answer(&self.parts.scrub, within(deadline, "the look", call).await)
    }

    /// The look after effects, for many: as cheap as the effects were (H-23).
    pub(super) async fn look_again(&mut self, done: &[usize]) {
        if !self.parts.adapter.capabilities().holds || done.is_empty() {
            return;
        }
        let cx = Cx::new(self.parts.limits.block_budget, true);
        let answers = if done.len() > 1 && self.parts.adapter.capabilities().holds_all {
            let sink = Sink::new(done.len());
            let outcome = self.bulk_look(&cx, done, &sink).await;
            let unknown = || Error::new(Class::TimedOut, "not looked at again");
            let fallback = outcome.and_then(Result::err).unwrap_or_else(unknown);
            let answers = sink.take().into_iter();
            answers
                .map(|a| a.unwrap_or_else(|| Err(fallback.clone())))
                .collect::<Vec<_>>()
        } else {
            let mut answers = Vec::with_capacity(done.len());
            for i in done {
                answers.push(self.look_at(*i, true).await);
            }
            answers
        };
        let now = self.now();
        for (i, answer) in done.iter().zip(answers) {
            self.core
                .looked_again(*i, now, scrub_answer(&self.parts.scrub, answer));
        }
    }

    /// The server's list, while something is leaving.
    pub(super) async fn list(&mut self) {
        let cx = Cx::new(self.parts.limits.block_budget, false);
        let deadline = self.core.settings().apply_timeout;
        let call = self.parts.adapter.list(&cx, &self.parts.marker);
        let listed = within(deadline, "the list", call).await;
        let listed = listed.map_err(|error| scrub_error(&self.parts.scrub, error));
        self.core.listed(self.now(), listed.as_deref());
    }
}
