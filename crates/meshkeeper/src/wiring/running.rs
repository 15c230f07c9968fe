//! A running loop: its door, its ears, and its end.

use std::sync::Arc;
use std::time::Duration;

use mesh_sdk::clock::Clock;
use mesh_sdk::harness::ProviderWish;
use mesh_sdk::harness::skeleton::{self, Loop, Message};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::seat::{Seat, Told};
use super::words::Said;

/// Where a loop hears.
pub type Door<L> = mpsc::Sender<Message<<L as Loop>::Word>>;

/// A running loop.
pub struct Running<L: Loop> {
    door: Door<L>,
    stop: CancellationToken,
    task: JoinHandle<L>,
    ears: Vec<JoinHandle<()>>,
}

/// Waiting words at a loop's door; a full door makes the speaker wait.
const DOOR: usize = 64;

impl<L: Loop> Running<L> {
    /// Starts a loop, whose looks are no further apart than that. `stop` is this loop's own.
    pub fn start(this: L, clock: Clock, longest: Duration, stop: CancellationToken) -> Self {
        let (door, inbox) = mpsc::channel(DOOR);
        let task = tokio::spawn(skeleton::run(this, clock, longest, inbox, stop.clone()));
        Self {
            door,
            stop,
            task,
            ears: Vec::new(),
        }
    }
    /// With somebody who listens elsewhere and says it at the door, for as long as the loop runs.
    pub fn listening<F>(mut self, ear: impl FnOnce(Door<L>) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (ear, stop) = (ear(self.door.clone()), self.stop.clone());
        self.ears.push(tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = ear => {}
            }
        }));
        self
    }
    /// Tells it a word.
    pub async fn tell(&self, word: L::Word) {
        // A loop that stopped hears nothing more; whoever stopped it knows.
        drop(self.door.send(Message::Word(word)).await);
    }
    /// Lets it finish its step, and waits for that.
    pub async fn stop(self) {
        self.stop.cancel();
        for ear in self.ears {
            drop(ear.await);
        }
        drop(self.task.await);
    }
}

impl Running<Seat> {
    /// Starts a provisioner, with an ear for its server's hints.
    pub fn provisioner(
        seat: Seat,
        clock: Clock,
        longest: Duration,
        stop: CancellationToken,
    ) -> Self {
        let (adapter, ends) = (Arc::clone(&seat.adapter), stop.clone());
        let running = Self::start(seat, clock, longest, stop);
        running.listening(|door| skeleton::listen_for_hints(adapter, door, ends))
    }
    /// Tells it a wish.
    pub async fn wish(&self, wish: ProviderWish) {
        self.tell(Told::Wish(Box::new(wish))).await;
    }
    /// Tells it what people said.
    pub async fn words(&self, said: Arc<Said>) {
        self.tell(Told::Words(said)).await;
    }
}
