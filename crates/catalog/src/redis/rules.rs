//! The arguments of `ACL SETUSER`: a whole user, or only what differs. Passwords go as hashes.

use mesh_sdk::{Class, Difference, Error};

use super::acl::{Part, Patterns, Shown};
use super::compare::{Diff, Wish, expected};
use super::connect::Facts;

/// Rules, each one argument.
pub(super) type Rules = Vec<Vec<u8>>;

/// A whole user, whatever was there: one command, so no moment without a password, and nothing of an
/// earlier life left.
pub(super) fn whole(wish: &Wish<'_>, facts: &Facts) -> Result<Rules, Error> {
    fits(wish, facts)?;
    let mut rules: Rules = vec![b"reset".to_vec()];
    password(wish, &mut rules)?;
    keys_and_channels(wish, facts, &mut rules);
    rules.extend(Part::wanted(wish.values()).rules);
    if facts.selectors {
        selectors(wish, &mut rules);
    }
    rules.push(switch(wish).to_vec());
    Ok(rules)
}

/// Only what differs, in one command too. Passwords and open sessions that are in order are not touched.
pub(super) fn repair(
    wish: &Wish<'_>,
    facts: &Facts,
    shown: &Shown,
    diff: &Diff,
) -> Result<Rules, Error> {
    fits(wish, facts)?;
    let mut rules = Rules::new();
    if diff.password || diff.nopass {
        rules.push(b"resetpass".to_vec());
        password(wish, &mut rules)?;
    }
    if wish.exact() {
        exact(wish, facts, diff, &mut rules);
    } else {
        added(wish, facts, shown, diff, &mut rules);
    }
    if diff.switch.is_some() {
        rules.push(switch(wish).to_vec());
    }
    Ok(rules)
}

/// Whether the repair switches a login off, so that its sessions have to be ended.
pub(super) fn switches_off(diff: &Diff) -> bool {
    diff.switch == Some(Difference::Enabled)
}

/// Brings each kind that differs to what is asked, and nothing more.
fn exact(wish: &Wish<'_>, facts: &Facts, diff: &Diff, rules: &mut Rules) {
    let differs = |pick: fn(&super::compare::Rights) -> &Patterns| {
        !pick(&diff.missing).is_empty() || !pick(&diff.surplus).is_empty()
    };
    let mark = diff.mark != mesh_sdk::MarkSeen::Ours || diff.other_marks;
    if differs(|r| &r.read) || differs(|r| &r.write) || (mark && !facts.selectors) {
        rules.push(b"resetkeys".to_vec());
        keys(wish, facts, rules);
    }
    if differs(|r| &r.channels) {
        rules.push(b"resetchannels".to_vec());
        channels(&Part::wanted(wish.values()), rules);
    }
    if !diff.missing.commands.is_empty() || !diff.surplus.commands.is_empty() {
        rules.push(b"-@all".to_vec());
        rules.extend(Part::wanted(wish.values()).rules);
    }
    let selectors_differ = !diff.missing.selectors.is_empty() || !diff.surplus.selectors.is_empty();
    if facts.selectors && (mark || selectors_differ) {
        rules.push(b"clearselectors".to_vec());
        selectors(wish, rules);
    }
}

/// Adds what is missing and takes nothing back: for adopted logins. Only a mark of somebody else
/// goes, since the login is ours from here on.
fn added(wish: &Wish<'_>, facts: &Facts, shown: &Shown, diff: &Diff, rules: &mut Rules) {
    let missing = Part {
        read: diff.missing.read.clone(),
        write: diff.missing.write.clone(),
        channels: diff.missing.channels.clone(),
        rules: Vec::new(),
    };
    let marked = diff.mark == mesh_sdk::MarkSeen::Ours;
    let rewrite = diff.other_marks;
    if !facts.selectors && rewrite {
        rules.push(b"resetkeys".to_vec());
        key_rules(&shown.root, rules);
    }
    key_rules(&missing, rules);
    if !facts.selectors && (rewrite || !marked) {
        rules.push(key_mark(wish));
    }
    channels(&missing, rules);
    rules.extend(
        diff.missing
            .commands
            .iter()
            .map(|c| format!("+{c}").into_bytes()),
    );
    if facts.selectors && rewrite {
        rules.push(b"clearselectors".to_vec());
        rules.extend(shown.selectors.iter().map(selector));
    }
    rules.extend(diff.missing.selectors.iter().map(selector));
    if facts.selectors && (rewrite || !marked) {
        rules.push(mark_selector(wish));
    }
}

/// Refuses what this server's version has no room for.
fn fits(wish: &Wish<'_>, facts: &Facts) -> Result<(), Error> {
    if facts.selectors {
        return Ok(());
    }
    let refused = |message: &str| Err(Error::new(Class::RefusedValue, message));
    let values = wish.values();
    if !(values.read_keys.is_empty() && values.write_keys.is_empty() && values.selectors.is_empty())
    {
        return refused(
            "`read_keys`, `write_keys` and `selectors` need Redis 7.0 or later, or Valkey",
        );
    }
    let part = Part::wanted(values);
    if part.read == Patterns::All || (part.read.is_empty() && !part.rules.is_empty()) {
        return refused(
            "`keys`: Redis before 7.0 keeps our mark as one more key pattern, and has no room for it \
             beside `*` or no pattern at all; name the key patterns, or use Redis 7.0 or later",
        );
    }
    Ok(())
}

fn switch(wish: &Wish<'_>) -> &'static [u8] {
    if wish.enabled() { b"on" } else { b"off" }
}

fn password(wish: &Wish<'_>, rules: &mut Rules) -> Result<(), Error> {
    match expected(wish).hash {
        Some(hash) => rules.push([b"#", &hash[..]].concat()),
        None if wish.enabled() => {
            return Err(Error::new(Class::Bug, "there is no password to set"));
        }
        None => {}
    }
    Ok(())
}

fn keys_and_channels(wish: &Wish<'_>, facts: &Facts, rules: &mut Rules) {
    keys(wish, facts, rules);
    // Before 7.0, and where `acl-pubsub-default` says so, a new user starts with every channel.
    rules.push(b"resetchannels".to_vec());
    channels(&Part::wanted(wish.values()), rules);
}

fn keys(wish: &Wish<'_>, facts: &Facts, rules: &mut Rules) {
    key_rules(&Part::wanted(wish.values()), rules);
    if !facts.selectors {
        rules.push(key_mark(wish));
    }
}

fn key_rules(part: &Part, rules: &mut Rules) {
    let mut push = |sign: &str, pattern: &[u8]| rules.push([sign.as_bytes(), pattern].concat());
    if part.read == Patterns::All && part.write == Patterns::All {
        return push("~", b"*");
    }
    for pattern in part.read.iter() {
        let both = part.write != Patterns::All && part.write.contains(pattern);
        push(if both { "~" } else { "%R~" }, pattern);
    }
    for pattern in part.write.iter() {
        if part.read == Patterns::All || !part.read.contains(pattern) {
            push("%W~", pattern);
        }
    }
}

fn channels(part: &Part, rules: &mut Rules) {
    rules.extend(part.channels.iter().map(|pattern| [b"&", pattern].concat()));
}

fn selectors(wish: &Wish<'_>, rules: &mut Rules) {
    rules.extend(Part::wanted_selectors(wish.values()).iter().map(selector));
    rules.push(mark_selector(wish));
}

fn selector(part: &Part) -> Vec<u8> {
    let mut rules: Rules = vec![b"resetchannels".to_vec()];
    key_rules(part, &mut rules);
    channels(part, &mut rules);
    rules.extend(part.rules.iter().cloned());
    [b"(", &rules.join(&b' ')[..], b")"].concat()
}

/// The mark from Redis 7.0 on: a selector with a key pattern and no command grants nothing.
fn mark_selector(wish: &Wish<'_>) -> Vec<u8> {
    format!("(resetchannels ~{})", wish.mark()).into_bytes()
}

/// The mark on Redis 6.2: a pattern that fits one key only, whose name nobody can guess.
fn key_mark(wish: &Wish<'_>) -> Vec<u8> {
    format!("~{}", wish.mark()).into_bytes()
}
