//! Finding: every user of the server as the values under which it would be held as it stands. Nothing here
//! writes.

use mesh_sdk::adapter::Found;
use mesh_sdk::{Cx, Error, Login, MarkSeen, Marker};

use super::acl::{Part, Patterns, Shown};
use super::adapter::Redis;
use super::check;
use super::compare::listed_mark;
use super::values::{RedisValues, Selector};

impl Redis {
    /// Every login with its values, from the reading that lists them.
    pub(super) async fn find_all(
        &self,
        cx: &Cx,
        marker: &Marker,
    ) -> Result<Vec<Found<RedisValues>>, Error> {
        let mut session = self.session(cx).await?;
        let selectors = session.facts.selectors;
        let mut all = Vec::new();
        let take = |name: &[u8], shown: Shown| {
            let Ok(name) = std::str::from_utf8(name) else {
                return;
            };
            let foreign = match listed_mark(marker, &shown) {
                MarkSeen::Foreign => true,
                MarkSeen::OursFor(consumer) => consumer.is_canary(),
                _ => false,
            };
            if !foreign && self.may_touch(name).is_ok() {
                all.extend(found(name, &shown, selectors));
            }
        };
        self.each_user(cx, &mut session, take).await?;
        Ok(all)
    }
}

/// None for one that could not be held as it stands: that any password opens, or one of several.
fn found(name: &str, shown: &Shown, selectors: bool) -> Option<Found<RedisValues>> {
    if shown.nopass || shown.hashes.len() > 1 {
        return None;
    }
    let mut beyond = shown.beyond.clone();
    let root = lists(&shown.root, &mut beyond);
    let mut values = RedisValues {
        keys: root.keys,
        read_keys: root.read_keys,
        write_keys: root.write_keys,
        channels: root.channels,
        commands: root.commands,
        selectors: Vec::new(),
    };
    for part in &shown.selectors {
        let one = lists(part, &mut beyond);
        if one.commands.is_empty() {
            continue;
        }
        values.selectors.push(one);
        if check::values(&values).is_err() {
            values.selectors.pop();
            beyond.push("a selector that no value can say".to_owned());
        }
    }
    if check::values(&values).is_err() {
        values = RedisValues::default();
        beyond.push("rules that no value can say".to_owned());
    }
    let every = values.keys.iter().any(|key| key == "*");
    if !selectors && (every || values.keys.is_empty() && !values.commands.is_empty()) {
        beyond.push(
            "Redis before 7.0 has no room for a mark beside `*` or no key pattern: it cannot be adopted"
                .to_owned(),
        );
    }
    let mut one = Found::new(Login::new(name).ok()?, values);
    one.enabled = shown.on && !shown.hashes.is_empty();
    one.beyond = beyond;
    Some(one)
}

/// A part of a user as values say it.
fn lists(part: &Part, beyond: &mut Vec<String>) -> Selector {
    let every = part.read == Patterns::All && part.write == Patterns::All;
    let both =
        |pattern: &&[u8]| every || (part.write.contains(pattern) && part.read != Patterns::All);
    let keys: Vec<&[u8]> = part.read.iter().filter(both).collect();
    let others = |patterns: &Patterns| {
        let those = patterns.iter().filter(|pattern| !keys.contains(pattern));
        those.map(<[u8]>::to_vec).collect::<Vec<_>>()
    };
    let (reads, writes) = (others(&part.read), others(&part.write));
    let keys = keys.into_iter().map(<[u8]>::to_vec).collect();
    let mut text = |patterns: Vec<Vec<u8>>| {
        let mut kept = Vec::new();
        for pattern in patterns {
            match String::from_utf8(pattern) {
                Ok(pattern) => kept.push(pattern),
                Err(_) => beyond.push("a pattern that is not UTF-8".to_owned()),
            }
        }
        kept
    };
    Selector {
        keys: text(keys),
        read_keys: text(reads),
        write_keys: text(writes),
        channels: text(part.channels.iter().map(<[u8]>::to_vec).collect()),
        commands: commands(part),
    }
}

/// Its rules. Values start from no command, and so need not say that.
fn commands(part: &Part) -> Vec<String> {
    let from_nothing = |rule: &&Vec<u8>| matches!(rule.as_slice(), b"-@all" | b"nocommands");
    let rules = part.rules.iter().skip_while(from_nothing);
    rules
        .map(|rule| String::from_utf8_lossy(rule).into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    //! What is shown comes back as values.
    use super::*;
    use serde_json::json;

    fn of(description: &str) -> Option<(serde_json::Value, Vec<String>)> {
        let shown = Shown::from_description(description.as_bytes());
        let one = found("web", &shown, true)?;
        Some((serde_json::to_value(one.values).expect("json"), one.beyond))
    }

    #[test]
    fn h18_a_description_comes_back_as_values() {
        let (values, beyond) = of(
            "on ~a:* %R~r:* %W~w:* &news -@all +@read -hget (%R~s:* -@all +get) \
             (~mk1.h.i.p.c.m -@all)",
        )
        .expect("one");
        let wanted = json!({ "keys": ["a:*"], "read_keys": ["r:*"], "write_keys": ["w:*"],
            "channels": ["news"], "commands": ["+@read", "-hget"],
            "selectors": [{ "read_keys": ["s:*"], "commands": ["+get"] }] });
        assert_eq!((values, beyond.len()), (wanted, 0));
        let (values, _) = of("on ~* &* +@all").expect("one");
        assert_eq!(
            values,
            json!({ "keys": ["*"], "channels": ["*"], "commands": ["+@all"] })
        );
        let (values, _) = of("on %R~* ~w:* -@all +get").expect("one");
        assert_eq!(
            values,
            json!({ "read_keys": ["*"], "write_keys": ["w:*"], "commands": ["+get"] })
        );
        let (values, beyond) = of("off resetchannels db=0,1 -@all").expect("one");
        assert_eq!((values, beyond), (json!({}), vec!["db=0,1".to_owned()]));
        assert_eq!(of("on nopass ~* +@all"), None);
    }
}
