//! Sends what was collected, in batches, beside everything else: a collector that is slow, full or gone costs
//! spans, and nothing else.

use std::time::Duration;

use mesh_sdk::ProviderName;
use mesh_sdk::adapter::ProviderSettings;
use mesh_sdk::clock::Clock;
use mesh_sdk::scrub::Scrubber;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::layer::Ended;
use super::otlp::{self, Span};
use super::{Tally, Target};

/// Spans in one request, and how long one waits for others; OpenTelemetry's own defaults.
const BATCH: usize = 512;
const EVERY: Duration = Duration::from_secs(5);
/// How long the collector has for an answer.
const DEADLINE: Duration = Duration::from_secs(10);
/// A batch that was not taken for now is tried so often, after this wait, doubling.
const TRIES: u32 = 5;
const WAIT: Duration = Duration::from_secs(1);
/// What is collected when everything else has stopped has so long to leave.
const AT_THE_END: Duration = Duration::from_secs(2);

/// What came of one request.
enum Sent {
    Taken,
    /// Perhaps later.
    NotNow(String),
    /// Never.
    Refused(String),
}

/// A sender.
pub struct Sender {
    target: Target,
    settings: ProviderSettings,
    clock: Clock,
    tally: Tally,
    failing: bool,
}

impl Sender {
    /// Towards this collector. `scrubber` learns what lets this process in there.
    /// Errors, for people: the authority to trust cannot be read.
    pub fn new(
        target: Target,
        clock: Clock,
        scrubber: &Scrubber,
        tally: Tally,
    ) -> Result<Self, String> {
        for (_, value) in &target.headers {
            scrubber.add(value.clone());
        }
        let name = ProviderName::new("collector").map_err(|error| error.to_string())?;
        let scheme = if target.tls { "https" } else { "http" };
        let mut settings = ProviderSettings::new(name, scheme, &target.host, target.port);
        if let Some(file) = &target.ca {
            let pem = std::fs::read(file);
            let told = |error| format!("{}: {error}", file.display());
            settings.tls.ca_pem = Some(pem.map_err(told)?);
        }
        Ok(Self {
            settings,
            target,
            clock,
            tally,
            failing: false,
        })
    }

    /// Sends until `ended`; then what is still there.
    pub async fn run(mut self, mut from: mpsc::Receiver<Ended>, ended: CancellationToken) {
        let (wall, instant) = (self.clock.now(), Instant::now());
        let at = |moment: Instant| {
            let wall = u64::try_from(wall.as_millis()).unwrap_or(0) * 1_000_000;
            let nanos = |length: Duration| u64::try_from(length.as_nanos()).unwrap_or(0);
            match moment.checked_duration_since(instant) {
                Some(after) => wall.saturating_add(nanos(after)),
                None => wall.saturating_sub(nanos(instant.duration_since(moment))),
            }
        };
        loop {
            let mut batch = Vec::new();
            let stopped = tokio::select! {
                () = fill(&mut from, &mut batch) => false,
                () = ended.cancelled() => true,
            };
            if stopped {
                while let Ok(one) = from.try_recv() {
                    batch.push(one);
                }
            }
            let spans: Vec<Span> = batch.into_iter().map(|one| span_of(one, &at)).collect();
            if stopped {
                let left = spans.len();
                let last = async {
                    for part in spans.chunks(BATCH) {
                        self.send(part, 1).await;
                    }
                };
                if timeout(AT_THE_END, last).await.is_err() {
                    debug!("{left} spans at the end were not all taken");
                }
                return;
            }
            tokio::select! {
                () = self.send(&spans, TRIES) => {}
                () = over(&ended) => self.tally.dropped(spans.len()),
            }
        }
    }

    /// One batch, tried again while that may help.
    async fn send(&mut self, spans: &[Span], tries: u32) {
        if spans.is_empty() {
            return;
        }
        let body = otlp::request(&self.target.resource, spans);
        for attempt in 1..=tries {
            match self.post(body.clone()).await {
                Sent::Taken => {
                    if std::mem::take(&mut self.failing) {
                        info!("the collector takes traces again");
                    }
                    return self.tally.sent(spans.len());
                }
                Sent::Refused(why) => {
                    self.tell(&why);
                    break;
                }
                Sent::NotNow(why) => {
                    self.tell(&why);
                    if attempt < tries {
                        tokio::time::sleep(WAIT * 2_u32.pow(attempt - 1)).await;
                    }
                }
            }
        }
        self.tally.dropped(spans.len());
    }

    fn tell(&mut self, why: &str) {
        if std::mem::replace(&mut self.failing, true) {
            debug!("the collector takes no traces: {why}");
        } else {
            warn!("the collector takes no traces; nothing else waits for it: {why}");
        }
    }

    async fn post(&self, body: Vec<u8>) -> Sent {
        let (settings, tls) = (self.settings.clone(), self.target.tls);
        let (path, headers) = (&self.target.path, &self.target.headers);
        let kind = "application/x-protobuf";
        let call = mesh_catalog::http_post(settings, tls, path, headers, (kind, body));
        match timeout(DEADLINE, call).await {
            Err(_) => Sent::NotNow(format!("no answer within {} s", DEADLINE.as_secs())),
            Ok(Err(error)) if error.class().is_transient() => {
                Sent::NotNow(error.message().to_owned())
            }
            Ok(Err(error)) => Sent::Refused(error.message().to_owned()),
            Ok(Ok(200..=299)) => Sent::Taken,
            Ok(Ok(status @ (429 | 502..=504))) => Sent::NotNow(format!("it answers {status}")),
            Ok(Ok(status)) => Sent::Refused(format!("it answers {status}")),
        }
    }
}

/// What is under way when everything else has stopped has as long.
async fn over(ended: &CancellationToken) {
    ended.cancelled().await;
    tokio::time::sleep(AT_THE_END).await;
}

/// A whole batch, or what came within the time.
async fn fill(from: &mut mpsc::Receiver<Ended>, batch: &mut Vec<Ended>) {
    let end = Instant::now() + EVERY;
    while batch.len() < BATCH {
        match tokio::time::timeout_at(end, from.recv()).await {
            Ok(Some(one)) => batch.push(one),
            // Nothing comes any more: the end of the process does.
            Ok(None) => std::future::pending().await,
            Err(_) => return,
        }
    }
}

fn span_of(one: Ended, at: &impl Fn(Instant) -> u64) -> Span {
    Span {
        trace: one.trace,
        id: one.id,
        parent: one.parent,
        name: one.name,
        is_call: one.is_call,
        began: at(one.began),
        ended: at(one.ended),
        attributes: one.attributes,
        error: one.error,
    }
}
