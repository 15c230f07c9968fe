//! Conditions that stand, with what people said about them.

use mesh_sdk::Time;
use mesh_sdk::book;
use mesh_sdk::bus::{Bucket, Bus, Fault, Key};
use mesh_sdk::decide::conditions::Kept;
use mesh_sdk::harness::LoopRecord;

use super::{ConditionView, LoopView, PictureFault};
use crate::wiring::shapes::Word;
use crate::wiring::words;

/// Conditions that stand, worst first, with what people said.
pub async fn conditions(
    bus: &dyn Bus,
    loops: &[(LoopView, Option<LoopRecord>)],
    now: Time,
) -> Result<Vec<ConditionView>, PictureFault> {
    let said: Vec<Word> = words::read(bus).await?.words().cloned().collect();
    let mut all = Vec::new();
    for entry in bus
        .list(Bucket::Condition, &Key::everything())
        .await?
        .entries
    {
        let kept: Kept = serde_json::from_slice(&entry.value)
            .map_err(|error| Fault::Corrupt(format!("condition {}: {error}", entry.key)))?;
        if !kept.raised {
            continue;
        }
        let key = book::key_of(&kept.condition.id);
        let owner = loops
            .iter()
            .find(|(view, _)| view.name == kept.condition.id.owner);
        let stale = owner.is_some_and(|(view, _)| view.hangs());
        let until = |silence: bool| until(&said, &key, silence, now);
        all.push(ConditionView {
            acknowledged_until: until(false),
            silenced_until: until(true),
            condition: kept.condition,
            stale,
            key,
        });
    }
    all.sort_by(|a, b| {
        let weight = |c: &ConditionView| std::cmp::Reverse(c.condition.severity);
        (weight(a), &a.condition.id).cmp(&(weight(b), &b.condition.id))
    });
    Ok(all)
}

fn until(said: &[Word], key: &str, silence: bool, now: Time) -> Option<Time> {
    let ends = said.iter().filter_map(|word| match word {
        Word::Silence {
            condition, until, ..
        } if silence && condition == key => Some(*until),
        Word::Ack {
            condition, until, ..
        } if !silence && condition == key => Some(*until),
        _ => None,
    });
    ends.filter(|until| *until > now).max()
}
