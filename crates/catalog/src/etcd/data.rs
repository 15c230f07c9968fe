//! Keys that a login left, and deleting them by a person's word (R-5).

use mesh_sdk::{Class, Cx, Error};
use serde::Deserialize;
use serde_json::{Value, json};

use super::adapter::{Etcd, is_reserved};
use super::api::Api;
use super::classify;
use super::grants::{Range, may_be_said};
use super::values::EtcdValues;

/// How many keys are deleted by one command, so that none blocks the server for long (H-16).
const AT_ONCE: u32 = 1000;
/// The role of admins.
const ROOT: &str = "root";
/// What is before the text in a name.
const PREFIX: &str = "prefix:";
const KEY: &str = "key:";

/// What the values let a login write, but for everything: that is nobody's own.
pub(super) fn names(values: &EtcdValues) -> Vec<String> {
    let prefixes = values.prefixes.iter().chain(&values.write_prefixes);
    let prefixes = prefixes.filter(|text| !text.is_empty());
    let keys = values.keys.iter().chain(&values.write_keys);
    let prefixes = prefixes.map(|text| format!("{PREFIX}{text}"));
    prefixes
        .chain(keys.map(|text| format!("{KEY}{text}")))
        .collect()
}

fn range(name: &str) -> Result<Range, Error> {
    let prefix = name.strip_prefix(PREFIX).map(|text| (text, true));
    let named = prefix.or_else(|| name.strip_prefix(KEY).map(|text| (text, false)));
    match named {
        Some((text, is_prefix)) if !text.is_empty() && may_be_said(text) => Ok(match is_prefix {
            true => Range::prefix(text),
            false => Range::single(text),
        }),
        _ => {
            let message = format!(
                "no keys are called so: write `{PREFIX}/web/` for those that begin so, or `{KEY}/web/lock`"
            );
            Err(Error::new(Class::RefusedValue, message))
        }
    }
}

impl Etcd {
    /// `12 keys`; `None` where there are none.
    pub(super) async fn look_at_data(&self, cx: &Cx, name: &str) -> Result<Option<String>, Error> {
        let range = range(name)?;
        self.nobody_may_use(cx, &range).await?;
        let count = self.api(cx).await?.count(cx, &range).await?;
        let s = if count == 1 { "" } else { "s" };
        Ok((count > 0).then(|| format!("{count} key{s}")))
    }

    /// From the first key on, some at a time. One that is cut off goes on the next time.
    pub(super) async fn delete_data(&self, cx: &Cx, name: &str) -> Result<(), Error> {
        let range = range(name)?;
        self.nobody_may_use(cx, &range).await?;
        let mut api = self.api(cx).await?;
        while api.delete_some(cx, &range, AT_ONCE).await? {}
        Ok(())
    }

    /// Refuses while any role has a permission on any of these keys, unless only admins have it. One that
    /// nobody has counts: somebody made it for somebody.
    async fn nobody_may_use(&self, cx: &Cx, range: &Range) -> Result<(), Error> {
        let names = self.api(cx).await?.roles(cx).await?;
        let mut roles = self.roles(cx, &names).await?;
        roles.retain(|(name, grants)| {
            name != ROOT && grants.ranges().any(|other| other.overlaps(range))
        });
        if roles.is_empty() {
            return Ok(());
        }
        let users = self.users(cx).await?;
        let is_admin = |login: &str, has: &[String]| {
            is_reserved(login, self.client.settings()) || has.iter().any(|role| role == ROOT)
        };
        for (role, _) in &roles {
            let mut holders = users
                .iter()
                .filter(|(_, has)| has.contains(role))
                .peekable();
            let is_nobodys = holders.peek().is_none();
            if let Some((login, _)) = holders.find(|(login, has)| !is_admin(login, has)) {
                let message = format!("`{login}` may use these keys, by its role `{role}`");
                return Err(Error::new(Class::Exists, message));
            }
            if is_nobodys {
                let message = format!("the role `{role}` may use these keys, and no login has it");
                return Err(Error::new(Class::Exists, message));
            }
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Keys {
    #[serde(default)]
    kvs: Vec<Key>,
    /// A number as text; left out for none.
    #[serde(default)]
    count: Option<String>,
}

#[derive(Deserialize)]
struct Key {
    key: String,
}

impl Api<'_> {
    /// How many keys are in a range.
    async fn count(&mut self, cx: &Cx, range: &Range) -> Result<u64, Error> {
        const WHAT: &str = "count keys";
        let body = json!({ "key": range.key, "range_end": range.end, "count_only": true });
        let keys: Keys = self.call(cx, WHAT, "kv/range", &body).await?;
        let count = keys.count.as_deref().unwrap_or("0");
        count.parse().map_err(|_| classify::garbled(WHAT))
    }
    /// Deletes the first keys of a range, no more than `most`; whether there were any.
    async fn delete_some(&mut self, cx: &Cx, range: &Range, most: u32) -> Result<bool, Error> {
        let (key, end) = (&range.key, &range.end);
        let body = json!({ "key": key, "range_end": end, "keys_only": true, "limit": most });
        let keys: Keys = self.call(cx, "look for keys", "kv/range", &body).await?;
        let Some(last) = keys.kvs.last() else {
            return Ok(false);
        };
        let upto = Range::behind(&last.key).ok_or_else(|| classify::garbled("look for keys"))?;
        let body = json!({ "key": key, "range_end": upto });
        let _: Value = self
            .call(cx, "delete keys", "kv/deleterange", &body)
            .await?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    //! Names there and back.
    use serde_json::json;

    use super::*;

    #[test]
    fn r5_data_is_what_may_be_written_and_never_everything() {
        let values = json!({
            "prefixes": ["/web/", ""], "read_prefixes": ["/shared/"], "write_prefixes": ["w"],
            "keys": ["k"], "read_keys": ["r"], "write_keys": ["prefix:x"],
        });
        let values: EtcdValues = serde_json::from_value(values).expect("values");
        let all = names(&values);
        assert_eq!(all, ["prefix:/web/", "prefix:w", "key:k", "key:prefix:x"]);
        assert_eq!(range(&all[0]).ok(), Some(Range::prefix("/web/")));
        assert_eq!(range(&all[3]).ok(), Some(Range::single("prefix:x")));
        for bad in ["prefix:", "key:", "/web/", "", "key:a\0"] {
            let class = range(bad).err().map(|error| error.class());
            assert_eq!(class, Some(Class::RefusedValue), "{bad}");
        }
    }
}
