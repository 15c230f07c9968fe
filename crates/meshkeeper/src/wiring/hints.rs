//! What a bus of several hosts is told of each pass, for whoever listens (B-10): `mesh.ID.obs.CLASS.PROVIDER`.
//! Hints, never truth. What changed is in the history, whose subjects can be listened to likewise.

use std::sync::Arc;

use mesh_bus::JetstreamBus;
use mesh_sdk::bus::Key;
use mesh_sdk::harness::{Observer, PassReport};
use serde_json::json;

use crate::status::time_text;

/// Tells of passes.
pub struct Hints(pub Arc<JetstreamBus>);

impl Observer for Hints {
    fn passed(&self, report: &PassReport) {
        let text = json!({
            "loop": report.name,
            "at": time_text(report.at),
            "ms": report.took.as_millis() as u64,
            "summary": report.summary,
        });
        let (class, label) = report.name.split_once('/').unwrap_or(("", &report.name));
        let of = Key::of(&[class, label]);
        let bus = Arc::clone(&self.0);
        // Who observes must not wait.
        drop(tokio::spawn(async move {
            bus.hint(&of, text.to_string()).await;
        }));
    }
}
