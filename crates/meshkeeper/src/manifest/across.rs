//! What only the whole manifest can tell: that two provisions want the same login of one server, or two
//! deliveries the same place.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use mesh_loops::delivery::order::Target;
use mesh_loops::delivery::place::Place;
use mesh_sdk::{ConsumerName, Login, ProviderName};

use super::{Delivered, Manifest, Needed, Provider, Refused};
use crate::errors::{Problem, Scope};

/// The second of two logins that rotation uses in turn (`LOGIN` and `LOGIN__b`): reserved with the first.
pub(crate) const TWIN: &str = "__b";

/// Refuses provisions that would fight over one login. Both sides are refused: nothing tells whose the
/// login is on the server, and leaving it as it is harms neither.
///
/// Logins meet on a server, not under a provider's name: two providers with one address share their logins.
pub(crate) fn same_logins(
    providers: &BTreeMap<ProviderName, Provider>,
    provisions: &mut Vec<Needed>,
    refused: &mut Vec<Refused>,
    problems: &mut Vec<Problem>,
) {
    let servers = servers(providers);
    let mut taken: HashMap<(usize, &str), usize> = HashMap::with_capacity(provisions.len());
    let mut clashes: Vec<(usize, usize)> = Vec::new();
    let mut twins: Vec<(usize, usize, &str)> = Vec::new();
    for (index, needed) in provisions.iter().enumerate() {
        let login = needed.login.as_str();
        for server in servers.get(&needed.provider).into_iter().flatten() {
            match taken.entry((*server, login)) {
                Entry::Occupied(first) => clashes.push((*first.get(), index)),
                Entry::Vacant(free) => {
                    free.insert(index);
                }
            }
            if let Some(base) = login.strip_suffix(TWIN) {
                twins.push((index, *server, base));
            }
        }
    }
    let bases = twins
        .into_iter()
        .filter_map(|(index, server, base)| Some((*taken.get(&(server, base))?, index)));
    clashes.extend(bases);
    let mut spoiled: HashSet<usize> = HashSet::new();
    let mut told: HashSet<(usize, usize)> = HashSet::new();
    for (a, b) in clashes {
        if a != b && told.insert((a, b)) {
            problems.push(clash(&provisions[a], &provisions[b]));
            spoiled.extend([a, b]);
        }
    }
    if spoiled.is_empty() {
        return;
    }
    let mut index = 0;
    provisions.retain(|needed| {
        let keep = !spoiled.contains(&index);
        index += 1;
        if !keep {
            refused.push(refusal(needed));
        }
        keep
    });
}

/// Whether two providers are, at least in part, one server.
pub(crate) fn share_a_server(a: &Provider, b: &Provider) -> bool {
    let kind = |provider: &Provider| provider.kind.descriptor.kind;
    let there = |name: &str| b.nodes.iter().any(|node| node.name == name);
    kind(a) == kind(b) && a.nodes.iter().any(|node| there(&node.name))
}

/// Logins that other providers' consumers ask for on the servers of each provider, as far as they can be
/// read.
pub fn asked_elsewhere(manifest: &Manifest) -> BTreeMap<ProviderName, Vec<Login>> {
    let servers = servers(&manifest.providers);
    let mut sharing: HashMap<&ProviderName, Vec<&ProviderName>> = HashMap::new();
    for (name, own) in &servers {
        let meet = |other: &Vec<usize>| other.iter().any(|server| own.contains(server));
        let others = servers
            .iter()
            .filter(|(other, numbers)| *other != name && meet(numbers));
        for (other, _) in others {
            sharing.entry(other).or_default().push(name);
        }
    }
    let mut elsewhere: BTreeMap<ProviderName, Vec<Login>> = BTreeMap::new();
    if sharing.is_empty() {
        return elsewhere;
    }
    let mut add = |asked_of: &ProviderName, login: &Login| {
        for provider in sharing.get(asked_of).into_iter().flatten() {
            let logins = elsewhere.entry((*provider).clone()).or_default();
            logins.push(login.clone());
        }
    };
    for needed in &manifest.provisions {
        add(&needed.provider, &needed.login);
        add(&needed.provider, &needed.login.second());
    }
    for refused in &manifest.refused {
        let provider = refused.provider.as_deref().map(ProviderName::new);
        let login = refused.login.as_deref().map(Login::new);
        if let (Some(Ok(provider)), Some(Ok(login))) = (provider, login) {
            add(&provider, &login);
        }
    }
    elsewhere
}

/// Numbers for the servers' addresses, by provider.
fn servers(providers: &BTreeMap<ProviderName, Provider>) -> HashMap<&ProviderName, Vec<usize>> {
    let mut numbers: HashMap<(&str, &str), usize> = HashMap::new();
    let mut of = HashMap::new();
    for (name, provider) in providers {
        let kind = provider.kind.descriptor.kind;
        let list = provider.nodes.iter().map(|node| {
            let next = numbers.len();
            *numbers.entry((kind, node.name.as_str())).or_insert(next)
        });
        let list: Vec<usize> = list.collect();
        of.insert(name, list);
    }
    of
}

fn clash(first: &Needed, second: &Needed) -> Problem {
    let (first, second) = match first.span.start <= second.span.start {
        true => (first, second),
        false => (second, first),
    };
    let (consumer, login) = (&second.consumer, second.login.as_str().escape_debug());
    let message = if first.login != second.login {
        let other = first.login.as_str().escape_debug();
        format!("the logins `{other}` and `{login}` meet: {TWIN} is kept for rotation")
    } else if first.consumer == second.consumer {
        let (one, other) = (&first.provider, &second.provider);
        format!(
            "`{one}` and `{other}` are one server, and `{consumer}` wants the login `{login}` twice there"
        )
    } else {
        let other = &first.consumer;
        format!("`{other}` and `{consumer}` want the same login `{login}` on one server")
    };
    let mut problem = Problem::error(second.span.clone(), message)
        .also(first.span.clone(), "asked for here too")
        .help("give one of them a login of its own: login = \"…\"");
    problem.scope = Scope::Need {
        consumer: second.consumer.as_str().to_owned(),
        provider: second.provider.as_str().to_owned(),
    };
    problem
}

fn refusal(needed: &Needed) -> Refused {
    Refused {
        consumer: Some(needed.consumer.as_str().to_owned()),
        provider: Some(needed.provider.as_str().to_owned()),
        login: Some(needed.login.as_str().to_owned()),
        why: format!(
            "the login `{}` is asked for twice on one server",
            needed.login.as_str().escape_debug()
        ),
        line: needed.line,
    }
}

/// Refuses places that two tables would fight over, and tables that do not say on which of several hosts.
pub(crate) fn places(
    shared: bool,
    deliveries: &mut Vec<Delivered>,
    undelivered: &mut Vec<(ConsumerName, String)>,
    problems: &mut Vec<Problem>,
) {
    let mut first: HashMap<(Option<String>, PathBuf), usize> = HashMap::new();
    let mut wrong = Vec::new();
    for (index, delivered) in deliveries.iter().enumerate() {
        let tell = |what: &str, also: Option<&Delivered>, help: &str| {
            let mut problem = Problem::error(delivered.span.clone(), what).help(help);
            if let Some(also) = also {
                problem = problem.also(also.span.clone(), "asked for here too");
            }
            problem.scope = Scope::Consumer(delivered.order.consumer.to_string());
            problem
        };
        if shared && delivered.host.is_none() {
            let what = "`host` is missing: on a bus of several hosts a place is on one of them";
            problems.push(tell(
                what,
                None,
                "host = \"…\", as that host's `mesh up` is called",
            ));
            wrong.push((index, what));
            continue;
        }
        let Target::Place(Place::File(path, _) | Place::Folder(path)) = &delivered.order.target
        else {
            continue;
        };
        match first.entry((delivered.host.clone(), path.clone())) {
            Entry::Vacant(place) => drop(place.insert(index)),
            Entry::Occupied(place) => {
                let what = "two tables deliver to one place";
                problems.push(tell(
                    what,
                    deliveries.get(*place.get()),
                    "give each a place of its own",
                ));
                wrong.extend([(index, what), (*place.get(), what)]);
            }
        }
    }
    wrong.sort_unstable();
    wrong.dedup();
    for (index, what) in wrong.into_iter().rev() {
        let delivered = deliveries.remove(index);
        undelivered.push((delivered.order.consumer, what.to_owned()));
    }
}
