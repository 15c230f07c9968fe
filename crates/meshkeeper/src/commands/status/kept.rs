//! The picture as this host knew it last, in its data folder: shown while a bus beyond this machine does not
//! answer.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mesh_sdk::Time;
use mesh_sdk::clock::Clock;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ago, show};
use crate::cli::When;
use crate::commands::Context;
use crate::printer::{Printer, Stream};
use crate::settings::Nothing;
use crate::status::{self, Picture};
use crate::wiring::installation::Installation;

const FILE: &str = "picture.json";
/// The first one is kept after so long: what a daemon finds is there by then.
const FIRST: Duration = Duration::from_secs(5);
/// After that it is kept so often, and where it takes long more seldom: it may cost a two hundredth of the time.
const EVERY: Duration = Duration::from_secs(30);
const COST: u32 = 200;

/// What lies there.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    /// When the bus said so.
    pub(super) at: Time,
    text: String,
    json: Value,
}

impl Kept {
    /// What the daemon of this host kept last, if there ever was one on a bus beyond this machine.
    pub(super) fn read(folder: &Path) -> Option<Self> {
        let text = std::fs::read(folder.join(FILE)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    fn of(cx: &Context<'_>, picture: &Picture) -> Option<Self> {
        let page = Page::default();
        let printer = page.printer();
        show(
            &Context {
                printer: &printer,
                ..*cx
            },
            picture,
        );
        printer.flush();
        Some(Self {
            at: picture.at,
            text: page.text(),
            json: serde_json::to_value(picture).ok()?,
        })
    }

    /// Shows it, and says of when it is.
    pub(super) fn show(mut self, cx: &Context<'_>, now: Time) {
        if cx.printer.is_json() {
            if let Some(picture) = self.json.as_object_mut() {
                picture.insert("from_memory".to_owned(), Value::Bool(true));
            }
            cx.printer.json(&self.json);
            return;
        }
        let age = ago(Some(self.at), now);
        cx.printer.answer(&format!(
            "The bus does not answer. So it stood {age}, by what this host knew last; ages are of then."
        ));
        cx.printer.answer("");
        cx.printer.answer(self.text.trim_end());
    }
}

/// Keeps a picture, where the bus lies beyond this machine.
pub(in crate::commands) fn remember(cx: &Context<'_>, of: &Installation, picture: &Picture) {
    // What lies on this machine can be read itself, and is.
    if !of.is_shared() {
        return;
    }
    let kept = Kept::of(cx, picture).and_then(|kept| serde_json::to_vec(&kept).ok());
    let Some(text) = kept else {
        return;
    };
    let new = of.folder.join(format!("{FILE}.new"));
    // One that cannot be written is told by the age of the one before.
    let written = std::fs::write(&new, text);
    drop(written.and_then(|()| std::fs::rename(&new, of.folder.join(FILE))));
}

/// Keeps it for as long as the daemon runs on this bus.
pub(in crate::commands) async fn keep(
    cx: &Context<'_>,
    installation: Arc<Installation>,
    (mesh, clock): (&str, Clock),
) -> std::convert::Infallible {
    let mut rest = FIRST;
    loop {
        tokio::time::sleep(rest).await;
        let began = tokio::time::Instant::now();
        let read = status::read(installation.bus.as_ref(), mesh, clock.now(), true);
        // While the bus does not answer, what was kept before stays.
        if let Ok(picture) = read.await {
            remember(cx, &installation, &picture);
        }
        rest = EVERY.max(began.elapsed() * COST);
    }
}

/// Takes what is printed.
#[derive(Debug, Clone, Default)]
pub(super) struct Page(Arc<Mutex<Vec<u8>>>);

impl Page {
    /// Prints here, without colours.
    pub(super) fn printer(&self) -> Printer {
        let (out, err) = (Stream::new(self.clone()), Stream::new(std::io::sink()));
        Printer::new(out, err, When::Never, &Nothing)
    }
    pub(super) fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
