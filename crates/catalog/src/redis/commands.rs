//! What a list of command rules allows: a set of commands, so that two lists compare by meaning.
//!
//! Redis 6.2 and 7.0 show other rules than they were given (measured on 6.2.5 and 7.0.15: a few
//! categories become many and a long tail of commands). The set that a list allows is the same, and it
//! can be worked out here: `ACL CAT` tells which commands each category holds, and `ACL SETUSER` applies
//! rules one after the other. Nothing is written for it, and it is fetched once per start of the server.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

/// How many different lists are remembered; consumers mostly share a few.
const REMEMBERED: usize = 4096;

/// The commands of one server and their categories.
pub(super) struct Table {
    names: HashMap<Vec<u8>, u16>,
    by_id: Vec<String>,
    categories: HashMap<Vec<u8>, Vec<u16>>,
    /// Subcommands by their container. A container's own bit means nothing: what runs is a subcommand.
    subs: HashMap<u16, Vec<u16>>,
    known: Mutex<HashMap<Vec<u8>, Evaluated>>,
}

/// What a list allows, or the rule in it that the server does not know.
type Evaluated = Result<Arc<CommandSet>, String>;

/// The commands that a list of rules allows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct CommandSet {
    bits: Vec<u64>,
    /// Commands that are allowed with some first arguments only: `+select|0`, and on 6.2 `+config|get`.
    firsts: BTreeMap<u16, BTreeSet<Vec<u8>>>,
}

impl CommandSet {
    /// Whether nothing is allowed.
    pub(super) fn is_empty(&self) -> bool {
        self.firsts.is_empty() && self.bits.iter().all(|word| *word == 0)
    }
    fn has(&self, id: u16) -> bool {
        let (word, bit) = (usize::from(id / 64), id % 64);
        self.bits.get(word).is_some_and(|w| w & (1 << bit) != 0)
    }
    fn set(&mut self, id: u16, on: bool) {
        let (word, bit) = (usize::from(id / 64), id % 64);
        if let Some(w) = self.bits.get_mut(word) {
            *w = if on {
                *w | (1 << bit)
            } else {
                *w & !(1 << bit)
            };
        }
        self.firsts.remove(&id);
    }
}

impl Table {
    /// From the replies to `ACL CAT <category>`.
    pub(super) fn new(replies: Vec<(Vec<u8>, Vec<Vec<u8>>)>) -> Self {
        let all: BTreeSet<&Vec<u8>> = replies.iter().flat_map(|(_, names)| names).collect();
        let mut table = Self {
            names: HashMap::with_capacity(all.len()),
            by_id: Vec::with_capacity(all.len()),
            categories: HashMap::with_capacity(replies.len()),
            subs: HashMap::new(),
            known: Mutex::default(),
        };
        for (id, name) in (0u16..).zip(all) {
            table.by_id.push(String::from_utf8_lossy(name).into_owned());
            table.names.insert(name.to_ascii_lowercase(), id);
        }
        let parents: Vec<(u16, u16)> = table
            .names
            .iter()
            .filter_map(|(name, id)| {
                let bar = name.iter().position(|b| *b == b'|')?;
                Some((*table.names.get(&name[..bar])?, *id))
            })
            .collect();
        for (parent, id) in parents {
            table.subs.entry(parent).or_default().push(id);
        }
        for (category, names) in replies {
            let ids = names
                .iter()
                .filter_map(|name| table.names.get(&name.to_ascii_lowercase()).copied())
                .collect();
            table.categories.insert(category.to_ascii_lowercase(), ids);
        }
        table
    }

    /// What `rules` allow, in their order and starting from nothing. An error names the rule that this
    /// server does not know. The same list is worked out once.
    pub(super) fn evaluate(&self, rules: &[Vec<u8>]) -> Evaluated {
        let text = rules.join(&b' ');
        let Ok(mut known) = self.known.lock() else {
            return self.work_out(rules).map(Arc::new);
        };
        if let Some(result) = known.get(&text) {
            return result.clone();
        }
        if known.len() >= REMEMBERED {
            known.clear();
        }
        let result = self.work_out(rules).map(Arc::new);
        known.insert(text, result.clone());
        result
    }

    /// Names of the commands in `one` that `other` lacks.
    pub(super) fn beyond(&self, one: &CommandSet, other: &CommandSet) -> Vec<String> {
        let mut names: Vec<String> = (0u16..)
            .zip(&self.by_id)
            .filter(|(id, _)| one.has(*id) && !other.has(*id))
            .map(|(_, name)| name.clone())
            .collect();
        for (id, firsts) in &one.firsts {
            let theirs = other.firsts.get(id);
            for first in firsts {
                let there = other.has(*id) || theirs.is_some_and(|t| t.contains(first));
                if let (false, Some(name)) = (there, self.by_id.get(usize::from(*id))) {
                    names.push(format!("{name}|{}", String::from_utf8_lossy(first)));
                }
            }
        }
        names
    }

    fn work_out(&self, rules: &[Vec<u8>]) -> Result<CommandSet, String> {
        let mut set = CommandSet {
            bits: vec![0; self.by_id.len().div_ceil(64)],
            firsts: BTreeMap::new(),
        };
        for rule in rules {
            self.apply(&mut set, &rule.to_ascii_lowercase())
                .ok_or_else(|| String::from_utf8_lossy(rule).into_owned())?;
        }
        // What runs is a subcommand, so a container is not compared.
        for parent in self.subs.keys() {
            set.set(*parent, false);
        }
        Ok(set)
    }

    /// Applies one rule as `ACL SETUSER` does. `None` if this server does not know it.
    fn apply(&self, set: &mut CommandSet, rule: &[u8]) -> Option<()> {
        let rule = match rule {
            b"allcommands" => b"+@all",
            b"nocommands" => b"-@all",
            other => other,
        };
        let (sign, name) = rule.split_first()?;
        let on = match sign {
            b'+' => true,
            b'-' => false,
            _ => return None,
        };
        if name == b"@all" {
            let all = if on { u64::MAX } else { 0 };
            set.bits.fill(all);
            set.firsts.clear();
            // No bits beyond the last command, so that equal sets are equal.
            let spare = set.bits.len() * 64 - self.by_id.len();
            if let (Some(last), true) = (set.bits.last_mut(), on && spare > 0) {
                *last >>= spare;
            }
            return Some(());
        }
        if let Some(category) = name.strip_prefix(b"@") {
            for id in self.categories.get(category)? {
                self.change(set, *id, on);
            }
            return Some(());
        }
        if let Some(id) = self.names.get(name) {
            self.change(set, *id, on);
            return Some(());
        }
        self.first_argument(set, name, on)
    }

    fn change(&self, set: &mut CommandSet, id: u16, on: bool) {
        set.set(id, on);
        for sub in self.subs.get(&id).into_iter().flatten() {
            set.set(*sub, on);
        }
    }

    /// `+select|0`: only that first argument. It says nothing where the whole command is allowed.
    fn first_argument(&self, set: &mut CommandSet, name: &[u8], on: bool) -> Option<()> {
        let bar = name.iter().position(|b| *b == b'|')?;
        let id = *self.names.get(&name[..bar])?;
        if !on || self.subs.contains_key(&id) {
            return None;
        }
        if !set.has(id) {
            set.firsts
                .entry(id)
                .or_default()
                .insert(name[bar + 1..].to_vec());
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    //! Lists that mean the same give the same set.
    use super::*;

    fn table() -> Table {
        let cat = |name: &str, commands: &[&str]| {
            let commands = commands.iter().map(|c| c.as_bytes().to_vec()).collect();
            (name.as_bytes().to_vec(), commands)
        };
        Table::new(vec![
            cat("read", &["get", "mget", "keys"]),
            cat("write", &["set", "flushall"]),
            cat(
                "dangerous",
                &["flushall", "keys", "config|get", "config|set"],
            ),
            cat(
                "slow",
                &[
                    "config",
                    "config|get",
                    "config|set",
                    "keys",
                    "flushall",
                    "mget",
                ],
            ),
            cat("fast", &["get", "set", "select"]),
        ])
    }

    fn rules(text: &str) -> Vec<Vec<u8>> {
        text.split_whitespace()
            .map(|r| r.as_bytes().to_vec())
            .collect()
    }

    fn same(one: &str, other: &str) -> bool {
        let table = table();
        table.evaluate(&rules(one)).expect(one) == table.evaluate(&rules(other)).expect(other)
    }

    #[test]
    fn a7_lists_compare_by_what_they_allow() {
        assert!(same("+@read -keys", "-@all +get +mget"));
        assert!(same("+@read +@write -@dangerous", "+MGET +set +get"));
        assert!(same("allcommands", "+@slow +@fast"));
        assert!(same("+@all -config", "+@all -config|get -config|set"));
        assert!(same("+config", "+config|get +config|set"));
        assert!(same("", "+get -@all"));
        assert!(same("+select|0 +select", "+select"));
        assert!(same("+select +select|0", "+select"));
        assert!(!same("+select|0", "+select"));
        assert!(!same("+select|0", "+select|1"));
        assert!(same("+select|0 -select", ""));
        assert!(!same("+get -@all", "-@all +get"));
    }

    #[test]
    fn what_this_server_does_not_know_is_named() {
        let table = table();
        for bad in [
            "+nosuch",
            "+@nosuch",
            "-select|0",
            "+config|nosuch",
            "get",
            "+",
            "+get|x|y -",
        ] {
            assert!(table.evaluate(&rules(bad)).is_err(), "{bad}");
        }
        assert_eq!(
            table.evaluate(&rules("+get +nosuch")),
            Err("+nosuch".to_owned())
        );
    }

    #[test]
    fn the_difference_is_told_by_name() {
        let table = table();
        let want = table.evaluate(&rules("+@read +select|0")).expect("want");
        let have = table.evaluate(&rules("+get +flushall")).expect("have");
        assert_eq!(table.beyond(&want, &have), ["keys", "mget", "select|0"]);
        assert_eq!(table.beyond(&have, &want), ["flushall"]);
        assert!(!want.is_empty() && table.evaluate(&rules("-@all")).expect("none").is_empty());
    }
}
