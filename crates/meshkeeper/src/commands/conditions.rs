//! `mesh conditions`: what needs someone.

use mesh_sdk::bus::{Bucket, Key};
use mesh_sdk::decide::conditions::Kept;

use super::Context;
use super::online::{Online, is_running, store_fault};
use crate::cli::ConditionsArgs;
use crate::errors::Fault;
use crate::printer::Tone;
use crate::status::{self, ConditionView, time_text};

/// Whether a subject is the one that was asked for, or lies under it.
pub(super) fn is_about(subject: &str, asked: &str) -> bool {
    subject == asked
        || subject.split_once('/').is_some_and(|(provider, consumer)| {
            consumer == asked || provider == asked || provider.split('@').next() == Some(asked)
        })
        || subject.split('@').next() == Some(asked)
}

/// Runs it.
pub(super) fn run(args: &ConditionsArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    let online = Online::start(cx)?;
    let (installation, _) = online.open_to_read(&cx.settings.data)?;
    let daemon = is_running(cx, &online, &installation)?;
    let bus = installation.bus.as_ref();
    let now = online.clock.now();
    let wanted = |subject: &str| {
        args.subject
            .as_deref()
            .is_none_or(|asked| is_about(subject, asked))
    };
    let standing = online.run(async {
        let providers = status::providers(bus).await.map_err(store_fault)?;
        let loops = status::loops(bus, &providers, now, daemon)
            .await
            .map_err(store_fault)?;
        status::conditions(bus, &loops, now)
            .await
            .map_err(store_fault)
    })?;
    let standing: Vec<ConditionView> = standing
        .into_iter()
        .filter(|c| wanted(&c.condition.id.subject))
        .collect();
    let over = if args.all {
        online.run(over(&installation)).map_err(store_fault)?
    } else {
        Vec::new()
    };
    let over: Vec<Kept> = over
        .into_iter()
        .filter(|k| wanted(&k.condition.id.subject))
        .collect();
    if cx.printer.is_json() {
        let over: Vec<_> = over.iter().map(|k| &k.condition).collect();
        cx.printer
            .json(&serde_json::json!({ "standing": standing, "over": over }));
        return Ok(0);
    }
    super::status::conditions(cx, &standing, now);
    for kept in &over {
        let condition = &kept.condition;
        let line = format!(
            "{} {} over since {} ({:?})",
            condition.id.kind,
            condition.id.subject,
            time_text(condition.since),
            condition.reason
        );
        cx.printer.answer(&cx.printer.paint(Tone::Dim, &line));
    }
    if standing.is_empty() {
        cx.printer.answer("No condition stands.");
    }
    Ok(0)
}

async fn over(
    installation: &crate::wiring::installation::Installation,
) -> Result<Vec<Kept>, mesh_sdk::bus::Fault> {
    let snapshot = installation
        .bus
        .list(Bucket::Condition, &Key::everything())
        .await?;
    let parsed = snapshot
        .entries
        .iter()
        .filter_map(|e| serde_json::from_slice::<Kept>(&e.value).ok());
    Ok(parsed
        .filter(|kept| !kept.raised && kept.condition.count == 0)
        .collect())
}

#[cfg(test)]
mod tests {
    //! A subject is found by provider, by node's provider, and by consumer.
    use super::*;

    #[test]
    fn c2_a_subject_is_found_by_its_parts_and_not_by_beginnings() {
        for asked in ["cache/web", "web", "cache"] {
            assert!(is_about("cache/web", asked), "{asked}");
        }
        assert!(is_about("cache@10.0.0.1:6379/web", "cache"));
        assert!(is_about("cache@10.0.0.1:6379", "cache"));
        for asked in ["we", "cach", "cache/we", ""] {
            assert!(!is_about("cache/web", asked), "{asked}");
        }
    }
}
