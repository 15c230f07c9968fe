//! The shape of every loop: woken by a timer, a hint or a word; it looks, decides, acts, looks again.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

pub use super::declared::Declared;
use super::{PassReport, ProviderWish, Provisioner, StoreFault};
use crate::adapter::Cx;
use crate::clock::Clock;
use crate::decide::backoff;
use crate::decide::hints::HintGate;
use crate::error::Class;
use crate::handle::AdapterHandle;
use crate::time::Time;

/// One loop.
#[async_trait]
pub trait Loop: Send + 'static {
    /// What people and other loops may tell it.
    type Word: Send + 'static;

    /// Its name.
    fn name(&self) -> &str;
    /// Takes a word in. Returns whether a pass is wanted at once.
    fn hear(&mut self, word: Self::Word) -> bool;
    /// Something hints that a look is worth its while (H-14).
    fn hint(&mut self);
    /// One pass. Errors: the store; the loop goes on and tries again.
    async fn pass(&mut self) -> Result<PassReport, StoreFault>;
    /// It rests until then, unless something wakes it before (B-8).
    fn rests_until(&mut self, _next: Time) {}
}

/// What comes in through a loop's door.
#[derive(Debug)]
pub enum Message<W> {
    /// A word.
    Word(W),
    /// A hint.
    Hint,
    /// Make a pass now, and answer when it is done.
    Pass(oneshot::Sender<Result<PassReport, StoreFault>>),
}

/// How long a loop waits after its store failed; doubling, up to its own period.
const AFTER_FAULT: Duration = Duration::from_secs(5);

/// Who waits for a pass to end.
type Waiting = Vec<oneshot::Sender<Result<PassReport, StoreFault>>>;

/// Runs a loop until `stop`; nothing else ends it. The timer is the promise; hints only save time, and
/// one that comes during a pass waits in the inbox for the end of it. The first pass starts at once, also
/// where many loops start together: what is missing then should not wait; from the second on they are
/// spread by their jitter (H-4). A stop during a pass lets it finish its step.
pub async fn run<L: Loop>(
    mut this: L,
    clock: Clock,
    longest: Duration,
    mut inbox: mpsc::Receiver<Message<L::Word>>,
    stop: CancellationToken,
) -> L {
    let mut gate = HintGate::new(longest);
    let mut next = clock.now();
    let mut waiting = Waiting::new();
    let mut faults = 0;
    let mut open = true;
    loop {
        let now = clock.now();
        let at = gate.ready_at(now).map_or(next, |at| at.min(next));
        if at > now && waiting.is_empty() {
            tokio::select! {
                biased;
                () = stop.cancelled() => return this,
                message = inbox.recv(), if open => match message {
                    None => open = false,
                    Some(message) => take(&mut this, message, &mut gate, &mut next, &mut waiting, now),
                },
                () = tokio::time::sleep(at.since(now)) => {}
            }
            continue;
        }
        while let Ok(message) = inbox.try_recv() {
            take(&mut this, message, &mut gate, &mut next, &mut waiting, now);
        }
        if stop.is_cancelled() {
            return this;
        }
        let hinted = gate.pass_starts(now);
        if hinted {
            this.hint();
        }
        let outcome = this.pass().await;
        match &outcome {
            Ok(report) => (faults, next) = (0, report.next_at),
            Err(fault) => {
                error!(name = this.name(), "the pass could not be kept: {fault}");
                let wait = backoff(AFTER_FAULT, faults, longest);
                (faults, next) = (faults + 1, clock.now() + wait);
            }
        }
        this.rests_until(next);
        if let Some(found) = found(&outcome).filter(|_| hinted) {
            gate.hinted_pass_ended(found);
        }
        // Who waits for a pass waits for a whole one.
        if !matches!(&outcome, Ok(report) if report.rests) {
            for one in waiting.drain(..) {
                drop(one.send(outcome.clone()));
            }
        }
    }
}

/// Whether a pass found something lost. One that could not ask says nothing: while a server restarts,
/// the hint that tells of its return must not be held back by those that came too early.
fn found(outcome: &Result<PassReport, StoreFault>) -> Option<bool> {
    let summary = outcome.as_ref().ok()?.summary;
    match (summary.lost, summary.unknown + summary.not_asked) {
        (0, 0) => Some(false),
        (0, _) => None,
        _ => Some(true),
    }
}

fn take<L: Loop>(
    this: &mut L,
    message: Message<L::Word>,
    gate: &mut HintGate,
    next: &mut Time,
    waiting: &mut Waiting,
    now: Time,
) {
    match message {
        Message::Word(word) => {
            if this.hear(word) {
                *next = now;
            }
        }
        Message::Hint => gate.hint(),
        Message::Pass(answer) => {
            this.hint();
            waiting.push(answer);
        }
    }
}

/// Words for a provisioner.
#[derive(Debug)]
pub enum Word {
    /// A wish that was read whole; the same one again confirms it.
    Wish(Box<ProviderWish>),
    /// Anything that changes the core: what a person said.
    Say(Said),
}

/// What a person said to a provisioner, as what it does; it answers whether a pass is wanted at once.
pub struct Said(pub Box<dyn FnOnce(&mut Provisioner) -> bool + Send>);

impl std::fmt::Debug for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Said(…)")
    }
}

#[async_trait]
impl Loop for Provisioner {
    type Word = Word;

    fn name(&self) -> &str {
        Provisioner::name(self)
    }
    fn hear(&mut self, word: Word) -> bool {
        match word {
            Word::Wish(wish) => {
                let changed = wish.whole.generation != self.core().generation();
                self.set_wish(*wish);
                changed
            }
            Word::Say(said) => (said.0)(self),
        }
    }
    fn hint(&mut self) {
        self.core_mut().hint();
    }
    async fn pass(&mut self) -> Result<PassReport, StoreFault> {
        Provisioner::pass(self).await
    }
    fn rests_until(&mut self, next: Time) {
        Provisioner::rests_until(self, next);
    }
}

impl Provisioner {
    /// What a provisioner declares.
    pub fn declared() -> Declared {
        use crate::condition::ConditionType as T;
        let raises = [
            T::BackendUnreachable,
            T::LookUnknown,
            T::ApplyFailed,
            T::HealFailed,
            T::Braked,
            T::TugOfWar,
            T::LoginTaken,
            T::Refused,
            T::ServerChanged,
            T::SecretLost,
            T::WaitsForWritable,
            T::NotDurable,
            T::MassLoss,
            T::PasswordNotEnforced,
            T::GrantsSurplus,
            T::SwitchedOnAgain,
            T::DisabledOnPurpose,
            T::RemovalHeld,
            T::RemovalStuck,
            T::OrphanInUse,
            T::ListDoubted,
            T::MarkDamaged,
            T::Paused,
        ];
        Declared {
            class: "provisioner",
            compares_against: "the backend",
            repairs: "login, password, grants, mark, and whether it is enabled, by the ordinary create",
            may_take_away: "a login with our mark that no wish names: disabled after `remove_after`, \
                            dropped after `grace`; never data",
            blind_spots: "what changes and changes back between two looks; rights that `values` cannot \
                          express; consumers of adapters that cannot be asked",
            raises: raises.iter().map(|t| t.as_str()).collect(),
            period: "verify_every, 60 s unless set; a hint starts a pass at once",
        }
    }
}

/// Between two hints of a server that gives them without end.
const BETWEEN_HINTS: Duration = Duration::from_secs(1);
/// After the first failed wait for a hint, doubling to the other.
const AFTER_ERROR: Duration = Duration::from_secs(1);
const AFTER_ERRORS: Duration = Duration::from_secs(60);

/// Listens for an adapter's hints and hands them on, for as long as the loop lives (H-14). What it hears
/// too often it says less often; the loop's timer is the promise.
pub async fn listen_for_hints<W: Send + 'static>(
    adapter: AdapterHandle,
    door: mpsc::Sender<Message<W>>,
    stop: CancellationToken,
) {
    if !adapter.capabilities().hint {
        return;
    }
    let mut errors = 0;
    loop {
        let cx = Cx::default();
        let asked_at = tokio::time::Instant::now();
        let heard = tokio::select! {
            heard = AssertUnwindSafe(adapter.hint(&cx)).catch_unwind() => heard,
            () = stop.cancelled() => return,
            () = door.closed() => return,
        };
        let failed = match heard {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.class()),
            Err(_) => Some(Class::Bug),
        };
        let pause = match failed {
            Some(Class::Cannot) => return,
            None => {
                errors = 0;
                if door.send(Message::Hint).await.is_err() {
                    return;
                }
                BETWEEN_HINTS.saturating_sub(asked_at.elapsed())
            }
            Some(class) => {
                if errors == 0 {
                    warn!("no hints from the server for now: {class}");
                } else {
                    debug!("still no hints from the server: {class}");
                }
                errors += 1;
                backoff(AFTER_ERROR, errors - 1, AFTER_ERRORS)
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// A doorbell that anything may ring; many rings before it is heard are one.
#[derive(Debug, Clone, Default)]
pub struct Doorbell(Arc<Notify>);

impl Doorbell {
    /// Rings.
    pub fn ring(&self) {
        self.0.notify_one();
    }
    /// Waits for a ring.
    pub async fn heard(&self) {
        self.0.notified().await;
    }
}
