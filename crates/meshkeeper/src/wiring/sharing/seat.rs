//! This host's own beat among the members.

use std::sync::Arc;

use mesh_bus::claim::{BEAT, Holder, STOP_AFTER};
use mesh_sdk::bus::{Bucket, Bus, Expect, Fault, Put, Rev, Write};
use tokio::time::Instant;
use tracing::warn;

use super::Mine;
use crate::wiring::members::MemberEntry;

/// Where this host's entry stands.
pub(super) struct Seat {
    entry: MemberEntry,
    rev: Option<Rev>,
    /// When the last beat that is surely there was sent.
    sure: Instant,
    due: Instant,
    told: bool,
}

impl Seat {
    /// Of a host that has not beaten yet.
    pub(super) fn of(me: &Holder, now: Instant) -> Self {
        Self {
            entry: MemberEntry {
                host: me.host.clone(),
                start: me.start.clone(),
                beat: 0,
                fits: false,
                cannot: Default::default(),
                gone: false,
            },
            rev: None,
            sure: now,
            due: now,
            told: false,
        }
    }
    /// What this host says of itself from the next beat on, which is due now.
    pub(super) fn says(&mut self, mine: &Mine, now: Instant) {
        self.entry.fits = mine.fits;
        self.entry.cannot.clone_from(&mine.cannot);
        self.due = now;
    }
    /// Whether a beat is due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.due
    }
    /// Whether no beat could be written for so long that this host must take itself for cut off.
    pub(super) fn is_cut_off(&self, now: Instant) -> bool {
        now - self.sure >= STOP_AFTER
    }
    /// One beat. A fault says nothing of whether it is there.
    pub(super) async fn beat(&mut self, bus: &Arc<dyn Bus>) -> Result<(), Fault> {
        let sent = Instant::now();
        // One that fails is tried again soon.
        self.due = sent + BEAT / 4;
        self.entry.beat += 1;
        let write = Write {
            key: MemberEntry::key(&self.entry.host),
            expect: self.rev.map_or(Expect::Absent, Expect::At),
            value: serde_json::to_vec(&self.entry).map_err(|e| Fault::Corrupt(e.to_string()))?,
        };
        let (key, value) = (write.key.clone(), write.value.clone());
        if let Put::Done(rev) = bus.put_if(Bucket::Loop, write).await? {
            self.there(rev, sent);
            return Ok(());
        }
        let found = bus.get(Bucket::Loop, &key).await?;
        match found {
            Some(entry) if entry.value == value => self.there(entry.rev, sent),
            found => {
                let first = self.rev.is_none();
                let other = found.as_ref().and_then(|entry| {
                    let other: MemberEntry = serde_json::from_slice(&entry.value).ok()?;
                    (other.start != self.entry.start && !first).then_some(other.host)
                });
                if let Some(host) = other.filter(|_| !self.told) {
                    warn!(
                        "another `mesh up` calls itself {host}, too: give each host a name of its own with MESH_HOST"
                    );
                    self.told = true;
                }
                self.rev = found.map(|entry| entry.rev);
                self.due = sent;
            }
        }
        Ok(())
    }
    fn there(&mut self, rev: Rev, sent: Instant) {
        (self.rev, self.sure, self.due) = (Some(rev), sent, sent + BEAT);
    }
    /// The last beat: this host is gone.
    pub(super) async fn leave(&mut self, bus: &Arc<dyn Bus>) -> Result<(), Fault> {
        (self.entry.gone, self.entry.fits) = (true, false);
        self.beat(bus).await
    }
}
