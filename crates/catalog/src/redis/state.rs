//! What the adapter remembers of one run of the server. It saves work and is never the truth.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::commands::Table;
use super::cost::Counted;

/// All of it is about the run that it names, and is forgotten when that ends.
#[derive(Default)]
pub(super) struct State(Mutex<Run>);

/// About one run of the server.
#[derive(Default, Clone)]
pub(super) struct Run {
    id: String,
    /// Commands and categories.
    pub(super) table: Option<Arc<Table>>,
    /// Whether the server has an ACL file; `None` where it would not tell.
    pub(super) aclfile: Option<bool>,
    /// Why the ACL file is behind, if it is.
    pub(super) unsaved: Option<String>,
    /// What the server counted at the last reading.
    pub(super) counted: Option<Counted>,
    /// How many changes of users the server had counted when every user's text was last worked out.
    pub(super) warm_at: Option<u64>,
    /// What working out one user's text takes, by the last sample.
    pub(super) per_user: Option<Duration>,
    /// How many users there were when they were last counted.
    pub(super) users: u64,
    /// The login after which the next slice begins.
    pub(super) cursor: String,
}

impl State {
    /// What is known about this run.
    pub(super) fn of(&self, run: &str) -> Run {
        match self.0.lock() {
            Ok(known) if known.id == run => known.clone(),
            _ => Run {
                id: run.to_owned(),
                ..Run::default()
            },
        }
    }
    /// Changes what is known about this run.
    pub(super) fn change(&self, run: &str, change: impl FnOnce(&mut Run)) {
        if let Ok(mut known) = self.0.lock() {
            if known.id != run {
                *known = Run {
                    id: run.to_owned(),
                    ..Run::default()
                };
            }
            change(&mut known);
        }
    }
}
