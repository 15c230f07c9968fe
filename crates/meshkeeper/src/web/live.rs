//! Tells readers that there is something new, by server-sent events. What is new they ask for themselves: a
//! reader that is behind has nothing waiting for it here.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;

use super::Page;

/// A stream ends after so long; the browser opens another one.
const LONGEST: Duration = Duration::from_secs(600);
/// Between two changes that are told.
const PACE: Duration = Duration::from_millis(300);
/// Readers are told one after the other, so long apart: what they ask for then is made here, beside passes.
const APART: Duration = Duration::from_millis(25);
/// A stream without changes shows that it lives.
const ALIVE: Duration = Duration::from_secs(15);

struct Reader {
    page: Arc<Page>,
    /// How many came before it.
    number: usize,
    changes: watch::Receiver<u64>,
    until: Instant,
    told: bool,
    _place: OwnedSemaphorePermit,
}

impl Reader {
    /// How long it waits until those before it were told.
    fn turn(&self) -> Duration {
        let all = self.page.snapshots.readers().max(1);
        APART * u32::try_from(self.number % all).unwrap_or_default()
    }
    /// The next number; `None` at the end.
    async fn next(&mut self) -> Option<u64> {
        if !self.told {
            // The page that is shown may be older than this stream.
            self.told = true;
            return Some(*self.changes.borrow_and_update());
        }
        tokio::select! {
            () = self.page.stop.cancelled() => return None,
            () = tokio::time::sleep_until(self.until) => return None,
            changed = self.changes.changed() => changed.ok()?,
        }
        tokio::select! {
            () = self.page.stop.cancelled() => return None,
            () = tokio::time::sleep(PACE + self.turn()) => {}
        }
        Some(*self.changes.borrow_and_update())
    }
}

/// `/changes`.
pub(super) async fn changes(State(page): State<Arc<Page>>) -> Response {
    let Ok(place) = Arc::clone(&page.readers).try_acquire_owned() else {
        let later = [(header::RETRY_AFTER, "30")];
        let text = "too many readers; load the page again for what is new\n";
        return (StatusCode::SERVICE_UNAVAILABLE, later, text).into_response();
    };
    let reader = Reader {
        number: page.arrivals.fetch_add(1, Ordering::Relaxed),
        changes: page.snapshots.changes(),
        until: Instant::now() + LONGEST,
        told: false,
        _place: place,
        page,
    };
    let events = stream::unfold(reader, |mut reader| async move {
        let number = reader.next().await?;
        let event = Event::default().event("changed").data(number.to_string());
        Some((Ok::<_, Infallible>(event), reader))
    });
    Sse::new(events)
        .keep_alive(KeepAlive::new().interval(ALIVE))
        .into_response()
}
