//! What this host knows of the mesh, in its data folder: for `status --check` while the bus does not answer.
//!
//! The daemon writes it with each look of its watchdog. It is small, holds counts and no names of consumers
//! but that of the worst condition, and is never read for anything but that one line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use mesh_sdk::Time;
use mesh_sdk::bus::Bus;
use mesh_sdk::condition::{Condition, ConditionType, Severity};
use mesh_sdk::harness::{Observer, PassReport};
use serde::{Deserialize, Serialize};

use crate::status;

const FILE: &str = "health.json";

/// What was known last.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Health {
    /// When the bus answered last, and this was so.
    pub at: Time,
    /// When the daemon tried last.
    pub tried: Time,
    /// Whether every loop makes progress, and no condition of weight stands that nobody silenced.
    pub well: bool,
    /// Provisions that are as asked, by the last pass of each loop of this host.
    pub fine: usize,
    /// All provisions of the loops of this host.
    pub all: usize,
    /// The worst condition, if one stands.
    pub worst: Option<String>,
    /// Not every loop was seen making progress, which is no condition yet.
    #[serde(default)]
    pub waits: bool,
    /// The condition of the bus itself that the daemon knows of, whether or not it can be read there.
    #[serde(default)]
    pub bus: Option<(ConditionType, String)>,
}

impl Health {
    /// What lies in a data folder, if a daemon on a shared bus ever wrote it.
    pub fn read(folder: &Path) -> Option<Self> {
        let text = std::fs::read(folder.join(FILE)).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

/// Keeps it.
#[derive(Debug)]
pub struct HealthKeeper {
    folder: PathBuf,
    counts: Mutex<BTreeMap<String, (usize, usize)>>,
    last: Mutex<Health>,
}

impl Observer for HealthKeeper {
    fn passed(&self, report: &PassReport) {
        let all = report.states.iter().map(|(_, n)| n).sum();
        let fine = report.states.iter().filter(|(state, _)| state.is_fine());
        let fine = fine.map(|(_, n)| n).sum();
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.insert(report.name.clone(), (fine, all));
    }
}

impl HealthKeeper {
    /// For a data folder.
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            counts: Mutex::default(),
            last: Mutex::new(Health {
                // That of a process that ended: this one has not looked at the bus yet.
                bus: None,
                ..Health::read(folder).unwrap_or_default()
            }),
        }
    }

    /// The watchdog looked, and the bus answered.
    pub async fn looked(&self, bus: &dyn Bus, now: Time, all_move: bool) {
        let Ok(conditions) = status::conditions(bus, &[], now).await else {
            return self.tried(now);
        };
        let worst = conditions.iter().find(|one| {
            one.condition.severity != Severity::Info
                && one.silenced_until.is_none_or(|until| until <= now)
        });
        let worst = worst.map(|one| {
            let id = &one.condition.id;
            format!("{} {}", id.kind, id.subject)
        });
        let (fine, all) = {
            let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            let sum = |(f, a): (usize, usize), (fine, all): &(usize, usize)| (f + fine, a + all);
            counts.values().fold((0, 0), sum)
        };
        self.keep(Health {
            at: now,
            tried: now,
            well: all_move && worst.is_none() && fine == all,
            fine,
            all,
            worst,
            waits: !all_move,
            bus: self.last().bus,
        });
    }
    /// The bus does not answer.
    pub fn tried(&self, now: Time) {
        self.keep(Health {
            tried: now,
            ..self.last()
        });
    }
    /// What stands of the bus itself, as soon as it is known: a monitor must not be told that all is well
    /// while the rest of the look waits for a bus that does not answer.
    pub fn bus_stands(&self, now: Time, standing: &[Condition]) {
        let worst = standing
            .iter()
            .map(|one| (one.id.kind, one.id.subject.clone()));
        let (bus, last) = (worst.min(), self.last());
        if bus != last.bus {
            let tried = now;
            self.keep(Health { tried, bus, ..last });
        }
    }

    fn last(&self) -> Health {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone()
    }

    fn keep(&self, health: Health) {
        let text = serde_json::to_vec(&health).unwrap_or_default();
        let new = self.folder.join(format!("{FILE}.new"));
        // It is of use for a minute; one that cannot be written is told by its age.
        let written = std::fs::write(&new, text);
        drop(written.and_then(|()| std::fs::rename(&new, self.folder.join(FILE))));
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = health;
    }
}
