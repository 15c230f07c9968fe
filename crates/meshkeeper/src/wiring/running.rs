//! A running loop: its door, its ear for hints, and its end.

use std::sync::Arc;
use std::time::Duration;

use mesh_sdk::ProviderName;
use mesh_sdk::clock::Clock;
use mesh_sdk::harness::ProviderWish;
use mesh_sdk::harness::skeleton::{self, Message};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::seat::{Seat, Told};
use super::words::Said;

/// A running loop.
pub struct Running {
    /// The provider.
    pub provider: ProviderName,
    /// Its door.
    pub door: mpsc::Sender<Message<Told>>,
    stop: CancellationToken,
    task: JoinHandle<Seat>,
    hints: JoinHandle<()>,
}

/// Waiting words at a loop's door; a full door makes the speaker wait.
const DOOR: usize = 64;

impl Running {
    /// Starts a loop. `stop` is this loop's own.
    pub fn start(seat: Seat, clock: Clock, longest: Duration, stop: CancellationToken) -> Self {
        let (door, inbox) = mpsc::channel(DOOR);
        let adapter = Arc::clone(&seat.adapter);
        let hints = tokio::spawn(skeleton::listen_for_hints(
            adapter,
            door.clone(),
            stop.clone(),
        ));
        let provider = seat.provider.clone();
        let task = tokio::spawn(skeleton::run(seat, clock, longest, inbox, stop.clone()));
        Self {
            provider,
            door,
            stop,
            task,
            hints,
        }
    }
    /// Tells it a wish.
    pub async fn wish(&self, wish: ProviderWish) {
        self.tell(Told::Wish(Box::new(wish))).await;
    }
    /// Tells it what people said.
    pub async fn words(&self, said: Arc<Said>) {
        self.tell(Told::Words(said)).await;
    }
    async fn tell(&self, told: Told) {
        // A loop that stopped hears nothing more; whoever stopped it knows.
        drop(self.door.send(Message::Word(told)).await);
    }
    /// Lets it finish its step, and waits for that.
    pub async fn stop(self) {
        self.stop.cancel();
        drop(self.hints.await);
        drop(self.task.await);
    }
}
