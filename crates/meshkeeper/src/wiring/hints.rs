//! What a bus of several hosts is told of each pass, for whoever listens (B-10): `mesh.ID.obs.CLASS.PROVIDER`,
//! and of each changed look: `mesh.ID.obs.CLASS.PROVIDER.CONSUMER`.
//! Hints, never truth. What changed is in the history, whose subjects can be listened to likewise.

use std::sync::Arc;

use mesh_bus::JetstreamBus;
use mesh_sdk::bus::Key;
use mesh_sdk::harness::{Observation, Observer, PassReport};
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
    fn changed(&self, name: &str, seen: &[Observation]) {
        let class = name.split_once('/').map_or("", |(class, _)| class);
        let told = seen.iter().map(|one| {
            let text = json!({
                "loop": name,
                "consumer": one.consumer.as_str(),
                "at": time_text(one.at),
                "before": one.before,
                "state": one.state,
                "happened": one.happened,
            });
            let of = Key::of(&[class, &one.label, one.consumer.as_str()]);
            (of, text.to_string())
        });
        let told: Vec<(Key, String)> = told.collect();
        let bus = Arc::clone(&self.0);
        drop(tokio::spawn(async move {
            for (of, text) in told {
                bus.hint(&of, text).await;
            }
        }));
    }
}
