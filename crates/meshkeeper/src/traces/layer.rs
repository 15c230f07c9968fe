//! Collects the harness's spans as they end, and hands them on. It waits for nobody: where there is no room,
//! a span is let go and counted.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mesh_sdk::harness::spans::TARGET;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::Tally;
use super::otlp::Value;

/// Spans that wait to be sent; OpenTelemetry's own default.
const ROOM: usize = 2048;
/// Of each kind of call so many are told of one trace; of a pass over ten thousand the first ones say it all.
const OF_A_KIND: usize = 100;

/// A span that ended.
#[derive(Debug)]
pub struct Ended {
    pub(super) trace: u128,
    pub(super) id: u64,
    pub(super) parent: Option<u64>,
    pub(super) name: String,
    pub(super) is_call: bool,
    pub(super) began: Instant,
    pub(super) ended: Instant,
    pub(super) attributes: Vec<(String, Value)>,
    pub(super) error: Option<String>,
}

/// What all spans of a trace share.
#[derive(Debug, Default)]
struct Trace {
    id: u128,
    told: Mutex<HashMap<(String, bool), usize>>,
    left_out: AtomicUsize,
}

impl Trace {
    /// Whether there is room for one more of this kind; those that failed count for themselves.
    fn has_room(&self, kind: &str, failed: bool) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let count = told.entry((kind.to_owned(), failed)).or_default();
        *count += 1;
        *count <= OF_A_KIND
    }
}

/// A span that has not ended.
struct Open {
    trace: Arc<Trace>,
    id: u64,
    parent: Option<u64>,
    began: Instant,
    fields: Fields,
}

/// The layer.
#[derive(Debug)]
pub struct Spans {
    to: mpsc::Sender<Ended>,
    tally: Tally,
}

/// The layer, and where what it collects comes out.
pub fn collect(tally: Tally) -> (Spans, mpsc::Receiver<Ended>) {
    let (to, from) = mpsc::channel(ROOM);
    (Spans { to, tally }, from)
}

/// Whether it is one of the spans that are collected here, and that no log shows.
pub fn is_traced(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.target() == TARGET
}

#[expect(
    clippy::disallowed_methods,
    reason = "an id decides nothing, and no history is replayed by it"
)]
fn new_id() -> u128 {
    rand::random::<u128>().max(1)
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: Context<'_, S>) {
        let Some(span) = cx.span(id) else { return };
        let parent = span.parent();
        let parent = parent.as_ref().and_then(|parent| {
            let open = parent.extensions();
            let open = open.get::<Open>()?;
            Some((Arc::clone(&open.trace), open.id))
        });
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let (trace, parent) = match parent {
            Some((trace, id)) => (trace, Some(id)),
            None => {
                let id = new_id();
                let trace = Trace {
                    id,
                    ..Trace::default()
                };
                (Arc::new(trace), None)
            }
        };
        span.extensions_mut().insert(Open {
            trace,
            id: u64::try_from(new_id() >> 64).unwrap_or(1).max(1),
            parent,
            began: Instant::now(),
            fields,
        });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, cx: Context<'_, S>) {
        let Some(span) = cx.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<Open>() {
            values.record(&mut open.fields);
        }
    }

    fn on_close(&self, id: Id, cx: Context<'_, S>) {
        let Some(span) = cx.span(&id) else { return };
        let Some(open) = span.extensions_mut().remove::<Open>() else {
            return;
        };
        let Fields {
            call,
            mut attributes,
            error,
        } = open.fields;
        let is_call = call.is_some();
        let name = call.unwrap_or_else(|| span.name().to_owned());
        if is_call && !open.trace.has_room(&name, error.is_some()) {
            open.trace.left_out.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let left_out = open.trace.left_out.load(Ordering::Relaxed);
        if open.parent.is_none() && left_out > 0 {
            let left_out = i64::try_from(left_out).unwrap_or(i64::MAX);
            attributes.push(("mesh.spans_left_out".to_owned(), Value::Number(left_out)));
        }
        let ended = Ended {
            trace: open.trace.id,
            id: open.id,
            parent: open.parent,
            name,
            is_call,
            began: open.began,
            ended: Instant::now(),
            attributes,
            error,
        };
        if self.to.try_send(ended).is_err() {
            self.tally.dropped(1);
        }
    }
}

/// What was said of a span, under the names of OpenTelemetry where it has one.
#[derive(Debug, Default)]
struct Fields {
    call: Option<String>,
    attributes: Vec<(String, Value)>,
    error: Option<String>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        let name = match field.name() {
            "class" => "error.type".to_owned(),
            other => format!("mesh.{other}"),
        };
        self.attributes.push((name, value));
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "call" => self.call = Some(value.to_owned()),
            "error" => self.error = Some(value.to_owned()),
            _ => self.put(field, Value::Text(value.to_owned())),
        }
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, Value::Number(value));
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(
            field,
            Value::Number(i64::try_from(value).unwrap_or(i64::MAX)),
        );
    }
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}
