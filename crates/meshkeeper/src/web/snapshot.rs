//! The whole picture, kept: with many consumers it takes longer to read than anybody waits for a page.
//!
//! A small one is read for whoever asks. A big one is answered as it was read last, and read again behind that,
//! at most a twentieth of the time, so that passes do not wait for readers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mesh_sdk::clock::Clock;
use mesh_sdk::{ConsumerName, Time};
use tokio::sync::{Mutex as Turn, Notify, watch};
use tokio_util::sync::CancellationToken;

use super::Page;
use crate::status::{self, Picture, PictureFault, ProvisionView};

/// One that is younger than this is good for everybody.
const FRESH: Duration = Duration::from_millis(250);
/// One that takes longer to read than this is not waited for, unless there is none.
const QUICK: Duration = Duration::from_millis(40);
/// So many times as long as reading takes, it is not read again.
const REST: u32 = 20;
/// How often to look whether there is something new, while somebody reads.
const LOOK: Duration = Duration::from_millis(500);
/// What follows from the time alone is read anew after so long.
const AGED: Duration = Duration::from_secs(10);
/// Nobody asked for so long: nobody reads.
const IDLE: Duration = Duration::from_secs(60);

/// The picture, and the order in which it is shown.
pub(super) struct Whole {
    pub(super) picture: Picture,
    /// The provisions by consumer, then provider.
    order: Vec<u32>,
    took: Duration,
    seq: u64,
}

impl Whole {
    fn new(picture: Picture, took: Duration, seq: u64) -> Self {
        let mut order: Vec<u32> = (0..picture.provisions.len())
            .filter_map(|i| u32::try_from(i).ok())
            .collect();
        let name = |i: &u32| {
            let one = &picture.provisions[*i as usize];
            (&one.consumer, &one.provider)
        };
        order.sort_by(|a, b| name(a).cmp(&name(b)));
        Self {
            picture,
            order,
            took,
            seq,
        }
    }
    /// Each consumer with what it has of each provider.
    pub(super) fn consumers(&self) -> impl Iterator<Item = (&ConsumerName, Vec<&ProvisionView>)> {
        let all = &self.picture.provisions;
        let same = |a: &u32, b: &u32| all[*a as usize].consumer == all[*b as usize].consumer;
        self.order.chunk_by(same).filter_map(move |of| {
            let of: Vec<_> = of.iter().map(|i| &all[*i as usize]).collect();
            Some((&of.first()?.consumer, of))
        })
    }
}

/// Keeps it.
pub(super) struct Snapshots {
    kept: Mutex<Option<Arc<Whole>>>,
    turn: Turn<()>,
    asked: Mutex<Option<Time>>,
    wanted: Notify,
    number: watch::Sender<u64>,
    clock: Clock,
}

impl Snapshots {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            kept: Mutex::default(),
            turn: Turn::default(),
            asked: Mutex::default(),
            wanted: Notify::new(),
            number: watch::Sender::new(0),
            clock,
        }
    }
    fn kept(&self) -> Option<Arc<Whole>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clone()
    }
    fn touch(&self) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        *asked = Some(self.clock.now());
        self.wanted.notify_one();
    }
    fn is_read(&self) -> bool {
        let asked = *self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        self.number.receiver_count() > 0
            || asked.is_some_and(|at| self.clock.now().since(at) < IDLE)
    }
    /// Keeps a new reading, or none where what was read no longer stands for what is; and says so.
    fn put(&self, kept: Option<Arc<Whole>>) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = kept;
        self.number.send_modify(|number| *number += 1);
    }
    /// Hears of each new reading.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.touch();
        self.number.subscribe()
    }
    /// How many hear of them.
    pub(super) fn readers(&self) -> usize {
        self.number.receiver_count()
    }
    /// What is kept is of before what somebody just said: the next reader waits for a new one.
    pub(super) fn forget_small(&self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref().is_some_and(|kept| kept.took <= QUICK) {
            *kept = None;
        }
    }
}

impl Page {
    /// The picture, as new as it can be had without waiting long.
    pub(super) async fn whole(&self) -> Result<Arc<Whole>, PictureFault> {
        let shots = &self.snapshots;
        shots.touch();
        if let Some(kept) = shots.kept().filter(|kept| self.is_good(kept)) {
            return Ok(kept);
        }
        let _turn = shots.turn.lock().await;
        match shots.kept().filter(|kept| self.is_good(kept)) {
            Some(kept) => Ok(kept),
            None => self.read().await,
        }
    }
    fn is_good(&self, kept: &Whole) -> bool {
        kept.took > QUICK || self.clock.now().since(kept.picture.at) < FRESH
    }
    /// Reads it. The caller has the turn.
    async fn read(&self) -> Result<Arc<Whole>, PictureFault> {
        let bus = self.bus();
        let began = tokio::time::Instant::now();
        let seq = bus.health().await.seq;
        let picture = status::read(bus.as_ref(), &self.mesh, self.clock.now(), true).await?;
        let whole = Arc::new(Whole::new(picture, began.elapsed(), seq));
        self.snapshots.put(Some(Arc::clone(&whole)));
        Ok(whole)
    }
    /// Reads again whenever there is something new and somebody reads, until the stop.
    pub(super) async fn keep(self: Arc<Self>, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.keep_for_ever() => {}
        }
    }
    async fn keep_for_ever(&self) {
        let shots = &self.snapshots;
        loop {
            let rest = shots
                .kept()
                .map_or(LOOK, |kept| (kept.took * REST).max(LOOK));
            tokio::time::sleep(rest).await;
            if !shots.is_read() && shots.kept().is_some() {
                // A small one is read when it is asked for; a big one is there for whoever comes.
                let by_then = shots.kept().map_or(LOOK, |kept| kept.took * REST * 10);
                drop(tokio::time::timeout(by_then.max(IDLE), shots.wanted.notified()).await);
            }
            let seq = self.bus().health().await.seq;
            let is_same = |kept: &Arc<Whole>| {
                kept.seq == seq && self.clock.now().since(kept.picture.at) < AGED
            };
            if shots.kept().as_ref().is_some_and(is_same) {
                continue;
            }
            let _turn = shots.turn.lock().await;
            // Not readable now: whoever asks is told.
            if self.read().await.is_err() {
                shots.put(None);
            }
        }
    }
}
