//! What containers and units ask across tables: names of their own, a host, env files that are brought.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;

use mesh_loops::delivery::format::{Format, Reader};
use mesh_loops::delivery::order::Target;
use mesh_loops::delivery::place::Place;
use mesh_loops::host::order::Thing;
use mesh_sdk::ConsumerName;

use super::{Delivered, Hosted};
use crate::errors::{Problem, Scope};

/// Refuses what two tables would fight over, tables that do not say on which of several hosts, and env files that
/// nobody brings.
pub(super) fn things(
    shared: bool,
    deliveries: &[Delivered],
    hosted: &mut Vec<Hosted>,
    unhosted: &mut Vec<(ConsumerName, String)>,
    problems: &mut Vec<Problem>,
) {
    let mut first: HashMap<(Option<String>, String), usize> = HashMap::new();
    let mut wrong = Vec::new();
    for (index, one) in hosted.iter().enumerate() {
        let mut tell = |what: String, also: Option<&Hosted>, help: &str| {
            let mut problem = Problem::error(one.span.clone(), what.clone()).help(help);
            if let Some(also) = also {
                problem = problem.also(also.span.clone(), "asked for here too");
            }
            problem.scope = Scope::Consumer(one.order.consumer.to_string());
            problems.push(problem);
            what
        };
        if shared && one.host.is_none() {
            let what = "`host` is missing: on a bus of several hosts it runs on one of them";
            let help = "host = \"…\", as that host's `mesh up` is called";
            wrong.push((index, tell(what.to_owned(), None, help)));
            continue;
        }
        if let Thing::Container(container) = &one.order.thing {
            let mut files = container.env_files.iter();
            if let Some(file) = files.find(|file| !is_brought(file, one, deliveries)) {
                let what = format!(
                    "nothing delivers the env file {} for Docker",
                    file.display()
                );
                let help = "the same path as `env_file` in a table of `deliver` of this consumer and host, with \"docker\" among its readers";
                wrong.push((index, tell(what, None, help)));
                continue;
            }
        }
        match first.entry((one.host.clone(), one.order.thing.to_string())) {
            Entry::Vacant(place) => drop(place.insert(index)),
            Entry::Occupied(place) => {
                let what = format!("two tables ask for the {}", one.order.thing);
                let what = tell(
                    what,
                    hosted.get(*place.get()),
                    "give each a name of its own",
                );
                wrong.extend([(index, what.clone()), (*place.get(), what)]);
            }
        }
    }
    wrong.sort_unstable();
    wrong.dedup_by_key(|(index, _)| *index);
    for (index, what) in wrong.into_iter().rev() {
        let one = hosted.remove(index);
        unhosted.push((one.order.consumer, what));
    }
}

fn is_brought(file: &Path, one: &Hosted, deliveries: &[Delivered]) -> bool {
    let mut own = deliveries.iter().filter(|delivered| {
        delivered.order.consumer == one.order.consumer
            && (delivered.host.is_none() || delivered.host == one.host)
    });
    own.any(|delivered| match &delivered.order.target {
        Target::Place(Place::File(path, Format::Env(readers))) => {
            path == file && readers.contains(&Reader::Docker)
        }
        _ => false,
    })
}
