//! What is read from the bus for an answer: conditions, loops and deliveries of the whole mesh.

use std::collections::BTreeMap;

use mesh_loops::delivery::read_all;
use mesh_loops::delivery::record::{Record, Why};
use mesh_sdk::Time;
use mesh_sdk::bus::Bus;
use mesh_sdk::condition::{Condition, ConditionId, ConditionType};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{CONDITIONS, DELIVERIES, LOOPS, READABLE, list};
use crate::status::{self, PictureFault};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByType {
    r#type: &'static str,
    severity: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfState {
    state: &'static str,
}

/// How a loop runs, by the words of `mesh status`.
const RUN: [&str; 6] = ["running", "late", "stuck", "stopped", "waiting", "closed"];
/// How a place stands that credentials are brought to.
const BROUGHT: [&str; 4] = ["settled", "waiting", "outstanding", "failed"];

/// What was read.
#[derive(Debug, Default)]
pub struct Mesh {
    conditions: BTreeMap<ConditionType, usize>,
    loops: BTreeMap<&'static str, usize>,
    deliveries: BTreeMap<&'static str, usize>,
}

impl Mesh {
    /// Reads it. `local`: conditions that stand in this process, whether the bus knows of them or not.
    pub async fn read(
        bus: &dyn Bus,
        mesh: &str,
        now: Time,
        local: &[Condition],
    ) -> Result<Self, PictureFault> {
        let head = status::read_head(bus, mesh, now, true).await?;
        let standing = status::read_conditions(bus, &head).await?;
        let silenced = |at: Option<Time>| at.is_some_and(|at| at > now);
        let mut read = Self::default();
        let known: Vec<&ConditionId> = standing.iter().map(|c| &c.condition.id).collect();
        for condition in local.iter().filter(|c| !known.contains(&&c.id)) {
            *read.conditions.entry(condition.id.kind).or_default() += 1;
        }
        for one in standing.iter().filter(|c| !silenced(c.silenced_until)) {
            *read.conditions.entry(one.condition.id.kind).or_default() += 1;
        }
        for one in head.loops() {
            *read.loops.entry(one.state).or_default() += 1;
        }
        for record in read_all(bus).await?.iter().filter(|r| !r.retired) {
            *read.deliveries.entry(brought(record)).or_default() += 1;
        }
        Ok(read)
    }
}

fn brought(record: &Record) -> &'static str {
    match &record.why {
        _ if record.is_settled() => "settled",
        Some(Why::Waits(_)) => "waiting",
        Some(Why::Refused(_) | Why::Unwritten(_) | Why::Untold(_) | Why::Contested(_)) => "failed",
        None => "outstanding",
    }
}

/// The gauges of it.
pub(super) struct Gauges {
    conditions: Family<ByType, Gauge>,
    loops: Family<OfState, Gauge>,
    deliveries: Family<OfState, Gauge>,
    readable: Gauge,
}

impl Gauges {
    pub(super) fn on(registry: &mut Registry) -> Self {
        Self {
            conditions: list(registry, CONDITIONS),
            loops: list(registry, LOOPS),
            deliveries: list(registry, DELIVERIES),
            readable: list(registry, READABLE),
        }
    }

    /// Every member of each list is told, also with none: an alarm on a series that is not there never ends.
    /// What could not be read is not told at all.
    pub(super) fn set(&self, mesh: Option<&Mesh>) {
        self.readable.set(i64::from(mesh.is_some()));
        let Some(mesh) = mesh else {
            self.conditions.clear();
            self.loops.clear();
            self.deliveries.clear();
            return;
        };
        for kind in ConditionType::ALL {
            let by = ByType {
                r#type: kind.as_str(),
                severity: kind.severity().as_str(),
            };
            let count = mesh.conditions.get(kind).copied().unwrap_or(0);
            self.conditions.get_or_create(&by).set(count as i64);
        }
        for (family, states, counted) in [
            (&self.loops, RUN.as_slice(), &mesh.loops),
            (&self.deliveries, BROUGHT.as_slice(), &mesh.deliveries),
        ] {
            for state in states.iter().copied().chain(counted.keys().copied()) {
                let count = counted.get(state).copied().unwrap_or(0);
                family.get_or_create(&OfState { state }).set(count as i64);
            }
        }
    }
}
