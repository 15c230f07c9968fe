//! S-6: what is told is what is listed, in both forms, and nothing of a loop that is gone.
use std::time::Duration;

use mesh_sdk::Time;
use mesh_sdk::decide::Summary;

use super::*;

fn report(label: &str) -> PassReport {
    PassReport {
        name: format!("provisioner/{label}"),
        label: label.to_owned(),
        summary: Summary {
            asked: 3,
            lost: 2,
            unknown: 1,
            applied: 2,
            ..Summary::default()
        },
        states: vec![(State::Held, 2), (State::Unknown, 1)],
        took: Duration::from_millis(30),
        at: Time::from_millis(5_500),
        next_at: Time::from_millis(65_500),
        rests: false,
        conditions: 0,
    }
}

fn measured() -> (Metrics, Pulse) {
    let (metrics, pulse) = (Metrics::new(Tally::default()), Pulse::default());
    metrics.opened("provisioner/cache", &pulse);
    metrics.happened("cache", &[(EventKind::Healed, 2), (EventKind::Failed, 1)]);
    metrics.passed(&report("cache"));
    (metrics, pulse)
}

fn described(text: &str) -> Vec<(String, String)> {
    let types = text.lines().filter_map(|l| l.strip_prefix("# TYPE "));
    let words = types.filter_map(|l| l.split_once(' '));
    words.map(|(n, k)| (n.to_owned(), k.to_owned())).collect()
}

#[test]
fn s6_every_metric_of_the_list_is_told_by_its_whole_name_and_no_other() {
    let (metrics, _pulse) = measured();
    let plain = metrics.text(Some(&Mesh::default()), Wanted::Plain);
    let plain = plain.expect("text");
    let listed = ALL
        .iter()
        .map(|m| (m.name.to_owned(), m.kind.as_str().to_owned()));
    let mut listed: Vec<_> = listed.collect();
    let mut told = described(&plain);
    listed.sort();
    told.sort();
    assert_eq!(told, listed);
    for told in ALL {
        let help = format!("# HELP {} {}.", told.name, told.help);
        assert!(plain.contains(&help), "{help} in {plain}");
        let of = plain.lines().filter(|l| !l.starts_with('#'));
        let name = |l: &str| {
            let name = l.split(['{', ' ']).next().unwrap_or_default().to_owned();
            let parts = ["_bucket", "_sum", "_count"];
            let part = parts.into_iter().find_map(|p| name.strip_suffix(p));
            part.filter(|_| told.kind == Kind::Histogram)
                .unwrap_or(&name)
                .to_owned()
        };
        let mut samples = of.filter(|l| name(l) == told.name).peekable();
        assert!(samples.peek().is_some(), "{} in {plain}", told.name);
        for sample in samples {
            let labels = sample.split_once('{').and_then(|(_, l)| l.split_once('}'));
            let labels = labels.map_or("", |(labels, _)| labels);
            let names = labels.split(',').filter_map(|l| l.split_once('='));
            let names: Vec<&str> = names.map(|(n, _)| n).filter(|n| *n != "le").collect();
            assert_eq!(names.join(", "), told.labels, "{sample}");
        }
    }
    for line in [
        "mesh_heals_total{provider=\"cache\"} 2",
        "mesh_losses_total{provider=\"cache\"} 2",
        "mesh_last_pass_timestamp_seconds{provider=\"cache\"} 5.5",
        "mesh_pass_duration_seconds_bucket{le=\"0.05\",provider=\"cache\"} 1",
        "mesh_pass_duration_seconds_bucket{le=\"0.025\",provider=\"cache\"} 0",
        "mesh_provisions{provider=\"cache\",state=\"held\"} 2",
        "mesh_provisions{provider=\"cache\",state=\"braked\"} 0",
        "mesh_conditions{type=\"Braked\",severity=\"error\"} 0",
        "mesh_deliveries{state=\"failed\"} 0",
        "mesh_bus_readable 1",
    ] {
        assert!(plain.lines().any(|l| l == line), "{line} in {plain}");
    }
}

#[test]
fn s6_open_metrics_is_for_who_asks_for_it() {
    let (metrics, _pulse) = measured();
    let open = metrics.text(None, Wanted::OpenMetrics).expect("text");
    assert!(open.ends_with("# EOF\n"), "{open}");
    assert!(open.contains("# TYPE mesh_heals counter\n"), "{open}");
    for (accept, wanted) in [
        (None, Wanted::Plain),
        (Some("*/*"), Wanted::Plain),
        (Some("text/plain;version=0.0.4"), Wanted::Plain),
        (
            Some("application/openmetrics-text;version=1.0.0;q=0.5,text/plain"),
            Wanted::OpenMetrics,
        ),
        (
            Some("text/plain, application/openmetrics-text;q=0"),
            Wanted::Plain,
        ),
    ] {
        assert_eq!(Wanted::by(accept), wanted, "{accept:?}");
    }
}

#[test]
fn b2_without_the_bus_nothing_is_said_of_the_mesh_and_all_that_was_counted_here() {
    let (metrics, _pulse) = measured();
    metrics
        .text(Some(&Mesh::default()), Wanted::Plain)
        .expect("text");
    let text = metrics.text(None, Wanted::Plain).expect("text");
    for name in ["mesh_conditions", "mesh_loops", "mesh_deliveries"] {
        assert!(!text.contains(name), "{name} in {text}");
    }
    assert!(text.contains("mesh_bus_readable 0\n"), "{text}");
    assert!(
        text.contains("mesh_passes_total{provider=\"cache\"} 1\n"),
        "{text}"
    );
}

#[test]
fn b4_a_loop_that_is_gone_leaves_no_numbers_behind() {
    let (metrics, pulse) = measured();
    let other = Pulse::default();
    metrics.opened("provisioner/queue", &other);
    metrics.passed(&report("queue"));
    drop(pulse);
    let text = metrics.text(None, Wanted::Plain).expect("text");
    assert!(!text.contains("provider=\"cache\""), "{text}");
    assert!(
        text.contains("mesh_provisions{provider=\"queue\""),
        "{text}"
    );
}
