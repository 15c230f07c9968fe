//! The arguments of `ACL SETUSER`: a whole user, or only what differs. Passwords go as hashes.

use mesh_sdk::{Class, Difference, Error, MarkSeen};

use super::acl::{Part, Patterns, Shown};
use super::compare::{Diff, Rights, Wish, verifiers};
use super::connect::Facts;
use super::values::{RedisValues, Selector};

/// Rules, each one argument, one after the other in one buffer: thousands of users are made at a time.
#[derive(Default)]
pub(super) struct Rules {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Rules {
    /// Adds one, put together from parts.
    fn push(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.ends.push(self.bytes.len());
    }
    /// How many.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }
    /// Each of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts
            .zip(&self.ends)
            .map(|(start, end)| &self.bytes[*start..*end])
    }
    /// The one that switches a login off.
    pub(super) fn off() -> Self {
        let mut rules = Self::default();
        rules.push(&[b"off"]);
        rules
    }
}

/// A whole user, whatever was there: one command, so no moment without a password, and nothing of an
/// earlier life left.
pub(super) fn whole(wish: &Wish<'_>, facts: &Facts) -> Result<Rules, Error> {
    fits(wish, facts)?;
    let values = wish.values();
    let mut rules = Rules {
        bytes: Vec::with_capacity(384),
        ends: Vec::with_capacity(16),
    };
    rules.push(&[b"reset"]);
    password(wish, &mut rules)?;
    wanted_keys(wish, facts, &mut rules);
    // Before 7.0, and where `acl-pubsub-default` says so, a new user starts with every channel.
    rules.push(&[b"resetchannels"]);
    wanted_channels(&values.channels, &mut rules);
    wanted_commands(values, &mut rules);
    if facts.selectors {
        wanted_selectors(wish, &mut rules);
    }
    rules.push(&[switch(wish)]);
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
    let mut rules = Rules::default();
    if diff.password || diff.nopass {
        rules.push(&[b"resetpass"]);
        password(wish, &mut rules)?;
    }
    if wish.exact() {
        exact(wish, facts, diff, &mut rules);
    } else {
        added(wish, facts, shown, diff, &mut rules);
    }
    if diff.switch.is_some() {
        rules.push(&[switch(wish)]);
    }
    Ok(rules)
}

/// Whether the repair switches a login off, so that its sessions have to be ended.
pub(super) fn switches_off(diff: &Diff) -> bool {
    diff.switch == Some(Difference::Enabled)
}

/// Brings each kind that differs to what is asked, and nothing more.
fn exact(wish: &Wish<'_>, facts: &Facts, diff: &Diff, rules: &mut Rules) {
    let differs = |pick: fn(&Rights) -> &Patterns| {
        !pick(&diff.missing).is_empty() || !pick(&diff.surplus).is_empty()
    };
    let values = wish.values();
    let mark = diff.mark != MarkSeen::Ours || diff.other_marks;
    if differs(|r| &r.read) || differs(|r| &r.write) || (mark && !facts.selectors) {
        rules.push(&[b"resetkeys"]);
        wanted_keys(wish, facts, rules);
    }
    if differs(|r| &r.channels) {
        rules.push(&[b"resetchannels"]);
        wanted_channels(&values.channels, rules);
    }
    if !diff.missing.commands.is_empty() || !diff.surplus.commands.is_empty() {
        rules.push(&[b"-@all"]);
        wanted_commands(values, rules);
    }
    let selectors_differ = !diff.missing.selectors.is_empty() || !diff.surplus.selectors.is_empty();
    if facts.selectors && (mark || selectors_differ) {
        rules.push(&[b"clearselectors"]);
        wanted_selectors(wish, rules);
    }
}

/// Adds what is missing and takes nothing back: for adopted logins. Only a mark of somebody else
/// goes, since the login is ours from here on.
fn added(wish: &Wish<'_>, facts: &Facts, shown: &Shown, diff: &Diff, rules: &mut Rules) {
    let missing = &diff.missing;
    let marks = diff.other_marks || diff.mark != MarkSeen::Ours;
    if !facts.selectors && diff.other_marks {
        rules.push(&[b"resetkeys"]);
        keys(&shown.root.read, &shown.root.write, rules);
    }
    keys(&missing.read, &missing.write, rules);
    if !facts.selectors && marks {
        key_mark(wish, rules);
    }
    missing
        .channels
        .iter()
        .for_each(|pattern| rules.push(&[b"&", pattern]));
    missing
        .commands
        .iter()
        .for_each(|command| rules.push(&[b"+", command.as_bytes()]));
    if facts.selectors && diff.other_marks {
        rules.push(&[b"clearselectors"]);
        shown
            .selectors
            .iter()
            .for_each(|part| selector_again(part, rules));
    }
    missing
        .selectors
        .iter()
        .for_each(|part| selector_again(part, rules));
    if facts.selectors && marks {
        mark_selector(wish, rules);
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
    if wish.password().is_none() && wish.enabled() {
        return Err(Error::new(Class::Bug, "there is no password to set"));
    }
    verifiers(wish).for_each(|hash| rules.push(&[b"#", &hash]));
    Ok(())
}

fn wanted_keys(wish: &Wish<'_>, facts: &Facts, rules: &mut Rules) {
    let values = wish.values();
    let lists = [&values.keys, &values.read_keys, &values.write_keys];
    key_lists(lists, |sign, pattern| rules.push(&[sign, pattern]));
    if !facts.selectors {
        key_mark(wish, rules);
    }
}

/// Keys as a wish has them: to read and write, to read, to write. Redis refuses whatever comes after
/// `~*`, which leaves nothing to add.
fn key_lists(lists: [&Vec<String>; 3], mut each: impl FnMut(&[u8], &[u8])) {
    if lists[0].iter().any(|pattern| pattern == "*") {
        return each(b"~", b"*");
    }
    for (sign, list) in [&b"~"[..], b"%R~", b"%W~"].into_iter().zip(lists) {
        list.iter()
            .for_each(|pattern| each(sign, pattern.as_bytes()));
    }
}

fn wanted_channels(channels: &[String], rules: &mut Rules) {
    channel_list(channels, |pattern| rules.push(&[b"&", pattern]));
}

fn channel_list(channels: &[String], mut each: impl FnMut(&[u8])) {
    if channels.iter().any(|pattern| pattern == "*") {
        return each(b"*");
    }
    channels.iter().for_each(|pattern| each(pattern.as_bytes()));
}

fn wanted_commands(values: &RedisValues, rules: &mut Rules) {
    values
        .commands
        .iter()
        .for_each(|rule| rules.push(&[rule.as_bytes()]));
}

fn wanted_selectors(wish: &Wish<'_>, rules: &mut Rules) {
    for selector in &wish.values().selectors {
        rules.push(&[&wanted_selector(selector)]);
    }
    mark_selector(wish, rules);
}

fn wanted_selector(selector: &Selector) -> Vec<u8> {
    let mut text = b"(resetchannels".to_vec();
    let lists = [&selector.keys, &selector.read_keys, &selector.write_keys];
    key_lists(lists, |sign, pattern| {
        text.extend([b" ", sign, pattern].concat())
    });
    channel_list(&selector.channels, |pattern| {
        text.extend([b" &", pattern].concat())
    });
    for rule in &selector.commands {
        text.extend([b" ", rule.as_bytes()].concat());
    }
    text.push(b')');
    text
}

/// Keys as they were read from the server.
fn keys(read: &Patterns, write: &Patterns, rules: &mut Rules) {
    if *read == Patterns::All && *write == Patterns::All {
        return rules.push(&[b"~", b"*"]);
    }
    for pattern in read.iter() {
        let both = *write != Patterns::All && write.contains(pattern);
        rules.push(&[if both { b"~" } else { b"%R~" }, pattern]);
    }
    for pattern in write.iter() {
        if *read == Patterns::All || !read.contains(pattern) {
            rules.push(&[b"%W~", pattern]);
        }
    }
}

/// A selector as it was read from the server.
fn selector_again(part: &Part, rules: &mut Rules) {
    let mut inner = Rules::default();
    inner.push(&[b"resetchannels"]);
    keys(&part.read, &part.write, &mut inner);
    part.channels
        .iter()
        .for_each(|pattern| inner.push(&[b"&", pattern]));
    part.rules.iter().for_each(|rule| inner.push(&[rule]));
    let text = inner.iter().collect::<Vec<_>>().join(&b' ');
    rules.push(&[b"(", &text, b")"]);
}

/// The mark from Redis 7.0 on: a selector with a key pattern and no command grants nothing.
fn mark_selector(wish: &Wish<'_>, rules: &mut Rules) {
    rules.push(&[b"(resetchannels ~", wish.mark().as_str().as_bytes(), b")"]);
}

/// The mark on Redis 6.2: a pattern that fits one key only, whose name nobody can guess.
fn key_mark(wish: &Wish<'_>, rules: &mut Rules) {
    rules.push(&[b"~", wish.mark().as_str().as_bytes()]);
}
