//! Rotations, as their journals tell.

use mesh_loops::rotation::journal::{Journal, Seat, Step};
use mesh_loops::rotation::keeper::{NAME, PERIOD};
use mesh_sdk::bus::{Bucket, Bus, Fault, Key};
use mesh_sdk::harness::LoopRecord;
use mesh_sdk::{ConsumerName, ProviderName, Time};
use serde::Serialize;

use super::{LoopView, record, rfc3339, rfc3339_option};

/// One consumer's rotation on one provider.
#[derive(Debug, Clone, Serialize)]
pub struct RotationView {
    /// Whose.
    pub consumer: ConsumerName,
    /// From whom.
    pub provider: ProviderName,
    /// Which: so many began.
    pub number: u64,
    /// `resting`, `proving`, `waiting`, `retiring`.
    pub step: Step,
    /// Since when.
    #[serde(serialize_with = "rfc3339")]
    pub since: Time,
    /// When it began.
    #[serde(serialize_with = "rfc3339_option")]
    pub began: Option<Time>,
    /// Why it began.
    pub cause: Option<String>,
    /// Which of the consumer's two logins is in use.
    pub seat: Seat,
    /// It goes back to the password before.
    pub back: bool,
    /// Why the old one went before everybody had the new one.
    pub forced: Option<String>,
    /// Who is waited for.
    pub waits_on: Vec<WaitView>,
}

/// Who is waited for.
#[derive(Debug, Clone, Serialize)]
pub struct WaitView {
    /// Who or what.
    pub on: String,
    /// Since when.
    #[serde(serialize_with = "rfc3339")]
    pub since: Time,
    /// What would unblock it.
    pub unblock: String,
}

/// Every consumer that ever had another password, by consumer and provider.
pub async fn rotations(bus: &dyn Bus) -> Result<Vec<RotationView>, Fault> {
    let listed = bus.list(Bucket::Meta, &Key::of(&[NAME])).await?;
    let mut all = Vec::new();
    for entry in listed.entries {
        let journal: Journal = serde_json::from_slice(&entry.value)
            .map_err(|error| Fault::Corrupt(format!("{}: {error}", entry.key)))?;
        if journal.number > 0 {
            all.push(view(journal));
        }
    }
    all.sort_by(|a, b| (&a.consumer, &a.provider).cmp(&(&b.consumer, &b.provider)));
    Ok(all)
}

fn view(journal: Journal) -> RotationView {
    let waits = journal.waits_on.iter().map(|one| WaitView {
        on: one.on.clone(),
        since: one.since,
        unblock: one.unblock.clone(),
    });
    RotationView {
        waits_on: waits.collect(),
        number: journal.number,
        step: journal.step,
        since: journal.since,
        began: journal.began,
        cause: journal.cause.as_ref().map(ToString::to_string),
        seat: journal.in_use(),
        back: journal.back,
        forced: journal.forced.clone(),
        consumer: journal.consumer,
        provider: journal.provider,
    }
}

/// The loop, once there was a rotation.
pub(super) async fn the_loop(
    bus: &dyn Bus,
    now: Time,
    daemon: bool,
) -> Result<Option<(LoopView, Option<LoopRecord>)>, Fault> {
    let journals = bus.list(Bucket::Meta, &Key::of(&[NAME])).await?;
    let found = record(bus, NAME).await?;
    let Some(found) = found.filter(|_| !journals.entries.is_empty()) else {
        return Ok(None);
    };
    let next_pass = found.next_pass.filter(|_| daemon);
    let state = match next_pass {
        None => "stopped",
        Some(at) if now > at + PERIOD * 2 => "late",
        Some(_) => "running",
    };
    let view = LoopView::of_owner(&found, NAME.to_owned(), state, next_pass);
    Ok(Some((view, Some(found))))
}
