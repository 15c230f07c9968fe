//! Logging: to standard error, for people or as JSON, never above what a secret can stand.

use std::io::Write;
use std::sync::Arc;

use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::{FilterExt, FilterFn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::cli::LogFormat;
use crate::errors::Fault;
use crate::settings::LogSettings;
use crate::traces::{Spans, is_traced};

/// Libraries that print statements or addresses with passwords in them when asked for more: no variable
/// and no option lifts them above info (S-2).
const CEILINGS: &[&str] = &[
    "tokio_postgres",
    "async_nats",
    "redis",
    "hyper",
    "hyper_util",
    "h2",
    "rustls",
    "reqwest",
    "mysql_async",
    "ldap3",
    "rumqttc",
];

fn below_ceiling(metadata: &Metadata<'_>) -> bool {
    let target = metadata.target();
    let capped = CEILINGS.iter().any(|name| {
        target
            .strip_prefix(name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    });
    (!capped || *metadata.level() <= Level::INFO) && !is_traced(metadata)
}

fn ceilings() -> FilterFn {
    let below: fn(&Metadata<'_>) -> bool = below_ceiling;
    FilterFn::new(below).with_max_level_hint(LevelFilter::TRACE)
}

/// Rewrites what is about to be written: the second net against secrets.
pub type Scrub = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// Gives each event a writer that scrubs it as a whole.
#[derive(Clone)]
pub struct Scrubbing<M> {
    inner: M,
    scrub: Scrub,
}

/// A maker of writers to standard error that passes each event through `scrub`.
pub fn make_writer(
    scrub: impl Fn(&str) -> String + Send + Sync + 'static,
) -> Scrubbing<fn() -> std::io::Stderr> {
    scrubbing(std::io::stderr, scrub)
}

/// The same for any maker of writers.
pub fn scrubbing<M>(
    inner: M,
    scrub: impl Fn(&str) -> String + Send + Sync + 'static,
) -> Scrubbing<M> {
    let scrub: Scrub = Arc::new(scrub);
    Scrubbing { inner, scrub }
}

/// Collects one event, and writes it scrubbed when it is dropped.
pub struct ScrubbedEvent<W: Write> {
    to: W,
    event: Vec<u8>,
    scrub: Scrub,
}

impl<W: Write> Write for ScrubbedEvent<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.event.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<W: Write> Drop for ScrubbedEvent<W> {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.event);
        let scrubbed = (self.scrub)(&text);
        // There is nobody left to tell that a log line could not be written.
        let _ = self.to.write_all(scrubbed.as_bytes());
    }
}

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for Scrubbing<M> {
    type Writer = ScrubbedEvent<M::Writer>;
    fn make_writer(&'a self) -> Self::Writer {
        ScrubbedEvent {
            to: self.inner.make_writer(),
            event: Vec::new(),
            scrub: Arc::clone(&self.scrub),
        }
    }
}

/// The layer that writes log lines.
pub fn layer<S, W>(
    settings: &LogSettings,
    colours: bool,
    writer: W,
) -> Result<Box<dyn Layer<S> + Send + Sync>, Fault>
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let chosen = EnvFilter::try_new(&settings.filter)
        .map_err(|error| Fault::Usage(format!("what to log cannot be understood: {error}")))?;
    let filter = chosen.and(ceilings());
    Ok(match settings.format {
        LogFormat::Human => tracing_subscriber::fmt::layer()
            .with_ansi(colours)
            .with_writer(writer)
            .with_filter(filter)
            .boxed(),
        LogFormat::Json => tracing_subscriber::fmt::layer()
            .json()
            .flatten_event(true)
            .with_writer(writer)
            .with_filter(filter)
            .boxed(),
    })
}

/// Sets logging up for the process, once. `scrub` sees every event before it is written. `spans`: who collects
/// those of traces, where somebody does.
pub fn start(
    settings: &LogSettings,
    colours: bool,
    spans: Option<Spans>,
    scrub: impl Fn(&str) -> String + Send + Sync + 'static,
) -> Result<(), Fault> {
    let layer = layer(settings, colours, make_writer(scrub))?;
    tracing_subscriber::registry()
        .with(layer)
        .with(spans.map(|spans| spans.with_filter(FilterFn::new(is_traced))))
        .try_init()
        .map_err(|error| Fault::Failed {
            message: format!("logging could not be started: {error}"),
            help: None,
        })
}

#[cfg(test)]
mod tests {
    //! S-2: ceilings hold against every filter, and the scrubber sees whole events.
    use super::*;
    use std::sync::Mutex;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);
    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("kept").extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(filter: &str, format: LogFormat, log: impl FnOnce()) -> String {
        let kept = Kept::default();
        let to = kept.clone();
        let writer = scrubbing(move || to.clone(), |text| text.replace("planted", "***"));
        let filter = filter.to_owned();
        let layer = layer(&LogSettings { filter, format }, false, writer).expect("layer");
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, log);
        let bytes = kept.0.lock().expect("kept").clone();
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn s2_no_filter_lifts_a_ceiling() {
        for filter in [
            "trace",
            "tokio_postgres=trace",
            "redis::client=trace,async_nats=trace,trace",
        ] {
            let text = logged(filter, LogFormat::Human, || {
                tracing::debug!(target: "tokio_postgres::query", "statement");
                tracing::trace!(target: "redis::client", "command");
                tracing::debug!(target: "async_nats", "url");
                tracing::info!(target: "tokio_postgres", "connected");
            });
            for word in ["statement", "command", "url"] {
                assert!(!text.contains(word), "{filter}: {text}");
            }
        }
        let text = logged("trace", LogFormat::Human, || {
            tracing::info!(target: "tokio_postgres", "connected");
            tracing::trace!(target: "redis_like", "mine");
        });
        assert!(
            text.contains("connected") && text.contains("mine"),
            "{text}"
        );
    }

    #[test]
    fn s2_the_scrubber_sees_every_event_whole() {
        for format in [LogFormat::Human, LogFormat::Json] {
            let text = logged("info", format, || {
                tracing::info!(password = "planted", "said")
            });
            assert!(text.contains("***") && !text.contains("planted"), "{text}");
        }
        let json = logged("info", LogFormat::Json, || tracing::info!("said"));
        assert!(
            serde_json::from_str::<serde_json::Value>(&json).is_ok(),
            "{json}"
        );
    }
}
