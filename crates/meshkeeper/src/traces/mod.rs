//! Traces of passes, sent to whoever collects them over OTLP: off unless the environment names a collector.
//!
//! [`target`] is what the environment says, [`layer`] collects spans as they end, [`otlp`] writes them as bytes,
//! [`send`] takes them there. No pass ever waits for any of it.

pub mod layer;
pub mod otlp;
pub mod send;
mod tally;
pub mod target;

use std::sync::Arc;

use mesh_sdk::clock::Clock;
use mesh_sdk::scrub::Scrubber;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use layer::{Ended, Spans, collect, is_traced};
pub use send::Sender;
pub use tally::Tally;
pub use target::Target;

/// Traces of one process, before logging is set up.
#[derive(Debug, Default)]
pub struct Tracing {
    /// What collects them, for the logging.
    pub spans: Option<Spans>,
    tally: Tally,
    to: Option<(Target, mpsc::Receiver<Ended>)>,
    cannot: Option<String>,
}

/// Traces that are being sent.
#[derive(Debug)]
pub struct Sending {
    /// What became of the spans.
    pub tally: Tally,
    ended: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl Tracing {
    /// As the settings say.
    pub fn by(settings: Option<&Result<Target, String>>) -> Self {
        let tally = Tally::default();
        match settings {
            None => Self::default(),
            Some(Err(why)) => Self {
                cannot: Some(why.clone()),
                ..Self::default()
            },
            Some(Ok(target)) => {
                let (spans, from) = collect(tally.clone());
                Self {
                    spans: Some(spans),
                    tally,
                    to: Some((target.clone(), from)),
                    cannot: None,
                }
            }
        }
    }

    /// Begins to send. It is called within a runtime, once logging is set up: what cannot be done is told, and
    /// stops nothing else.
    pub fn start(self, clock: Clock, scrubber: &Arc<Scrubber>) -> Sending {
        let (tally, ended) = (self.tally, CancellationToken::new());
        if let Some(why) = self.cannot {
            warn!("no traces are sent: {why}");
        }
        let task = self.to.and_then(|(target, from)| {
            let at = format!("{}:{}", target.host, target.port);
            match Sender::new(target, clock, scrubber, tally.clone()) {
                Ok(sender) => {
                    info!(collector = at, "traces are sent");
                    Some(tokio::spawn(sender.run(from, ended.clone())))
                }
                Err(why) => {
                    warn!("no traces are sent: {why}");
                    None
                }
            }
        });
        Sending { tally, ended, task }
    }
}

impl Sending {
    /// Everything else has ended: what was collected leaves, within two seconds.
    pub async fn end(self) {
        self.ended.cancel();
        if let Some(task) = self.task {
            // It ends by itself, and has nothing to say.
            drop(task.await);
        }
    }
}
