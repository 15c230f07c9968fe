//! An account as the server's tables show it.

use std::borrow::Cow;

use serde::Deserialize;

use super::mark::{self, Piece};
use super::rights::Rights;
use super::verifier::NATIVE;

/// One row of `mysql.global_priv`, with the rows of other tables that belong to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) user: String,
    pub(super) host: String,
    pub(super) methods: Vec<Method>,
    pub(super) locked: bool,
    /// Its password is over its age, or was declared so: it may log in and do nothing.
    pub(super) expired: bool,
    /// The last second of the server's in which its password is not too old.
    pub(super) good_until: i64,
    pub(super) global: Rights,
    pub(super) max_connections: i64,
    pub(super) databases: Vec<(String, Rights)>,
    pub(super) pieces: Vec<Piece>,
    /// What else is kept with it, that values have no word for.
    pub(super) beyond: Vec<String>,
}

/// One way in which an account may log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Method {
    pub(super) plugin: Cow<'static, str>,
    pub(super) verifier: String,
}

/// What the server's clock and settings make of an age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Age {
    /// Seconds since 1970.
    pub(super) now: i64,
    /// `default_password_lifetime`, in days; 0 for none.
    pub(super) lifetime: i64,
}

/// The JSON of `global_priv.Priv`, as far as it matters here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Kept<'a> {
    access: u64,
    #[serde(borrow)]
    plugin: Cow<'a, str>,
    #[serde(borrow)]
    authentication_string: Cow<'a, str>,
    #[serde(borrow)]
    auth_or: Vec<Way<'a>>,
    account_locked: bool,
    password_last_changed: Option<i64>,
    password_lifetime: Option<i64>,
    max_user_connections: i64,
    is_role: bool,
    #[serde(borrow)]
    default_role: Cow<'a, str>,
    ssl_type: u64,
    max_questions: u64,
    max_updates: u64,
    max_connections: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Way<'a> {
    #[serde(borrow)]
    plugin: Option<Cow<'a, str>>,
    #[serde(borrow)]
    authentication_string: Cow<'a, str>,
}

impl Account {
    /// From a row. `None` for a role; an error for what cannot be read.
    pub(super) fn read(
        user: &str,
        host: &str,
        kept: &str,
        age: Age,
    ) -> Result<Option<Self>, serde_json::Error> {
        let kept: Kept<'_> = serde_json::from_str(kept)?;
        if kept.is_role {
            return Ok(None);
        }
        let good_until = kept.good_until(age);
        Ok(Some(Self {
            user: user.to_owned(),
            host: host.to_owned(),
            locked: kept.account_locked,
            expired: good_until < age.now,
            good_until,
            global: Rights::of_access(kept.access),
            max_connections: kept.max_user_connections,
            methods: kept.methods(),
            databases: Vec::new(),
            pieces: Vec::new(),
            beyond: kept.beyond(),
        }))
    }
    /// The texts of its marks.
    pub(super) fn marks(&self) -> Vec<String> {
        mark::texts(&self.pieces)
    }
    /// Whether it lets in without a password.
    pub(super) fn is_open(&self) -> bool {
        self.methods.iter().any(Method::is_open)
    }
}

impl Method {
    fn new(plugin: &str, verifier: &str) -> Self {
        // An account from before there were plugins names none.
        let plugin = match plugin {
            "" | NATIVE => Cow::Borrowed(NATIVE),
            other => Cow::Owned(other.to_owned()),
        };
        Self {
            plugin,
            verifier: verifier.to_owned(),
        }
    }
    /// Whether it asks for no password. `unix_socket` and its like ask for something else.
    pub(super) fn is_open(&self) -> bool {
        self.verifier.is_empty() && matches!(&*self.plugin, NATIVE | "mysql_old_password")
    }
}

impl Kept<'_> {
    /// The alternatives of `auth_or`; an empty one stands for the account's own plugin.
    fn methods(&self) -> Vec<Method> {
        let own = Method::new(&self.plugin, &self.authentication_string);
        if self.auth_or.is_empty() {
            return vec![own];
        }
        let ways = self.auth_or.iter().map(|way| match &way.plugin {
            Some(plugin) => Method::new(plugin, &way.authentication_string),
            None => own.clone(),
        });
        ways.collect()
    }
    fn beyond(&self) -> Vec<String> {
        let tls = match self.ssl_type {
            0 => None,
            1 => Some("REQUIRE SSL".to_owned()),
            2 => Some("REQUIRE X509".to_owned()),
            _ => Some("REQUIRE of a certificate of its own".to_owned()),
        };
        let limit = |name: &str, limit: u64| (limit > 0).then(|| format!("{name} {limit}"));
        let role = &self.default_role;
        let all = [
            tls,
            limit("MAX_QUERIES_PER_HOUR", self.max_questions),
            limit("MAX_UPDATES_PER_HOUR", self.max_updates),
            limit("MAX_CONNECTIONS_PER_HOUR", self.max_connections),
            (!role.is_empty()).then(|| format!("default role {role}")),
        ];
        all.into_iter().flatten().collect()
    }
    fn good_until(&self, age: Age) -> i64 {
        const DAY: i64 = 24 * 60 * 60;
        let Some(changed) = self.password_last_changed else {
            return i64::MAX;
        };
        // -1 is the server's default, 0 for ever.
        let days = match self.password_lifetime {
            None | Some(-1) => age.lifetime,
            Some(days) => days,
        };
        match (changed, days) {
            (0, _) => i64::MIN,
            (_, 1..) => changed.saturating_add(days.saturating_mul(DAY)),
            _ => i64::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rows as MariaDB 10.11.19 wrote them.
    use super::*;

    fn read(kept: &str) -> Option<Account> {
        let age = Age {
            now: 1_796_047_900,
            lifetime: 0,
        };
        Account::read("a", "%", kept, age).expect("json")
    }

    #[test]
    fn h5_rows_of_the_real_server_are_read() {
        let plain = read(
            r#"{"access":0,"version_id":101119,"plugin":"mysql_native_password","authentication_string":"*24","max_user_connections":5,"account_locked":true,"password_last_changed":1796047843}"#,
        )
        .expect("an account");
        assert!(plain.locked && !plain.expired && !plain.is_open());
        assert_eq!((plain.max_connections, plain.methods.len()), (5, 1));
        let two = read(
            r#"{"access":256,"plugin":"mysql_native_password","authentication_string":"*74","auth_or":[{"plugin":"ed25519","authentication_string":"Gv"},{}],"password_last_changed":1796047843}"#,
        )
        .expect("an account");
        let plugins: Vec<&str> = two.methods.iter().map(|m| &*m.plugin).collect();
        assert_eq!(plugins, ["ed25519", "mysql_native_password"]);
        assert_eq!(two.global.names(), ["PROCESS"]);
        let open = read(r#"{"access":18446744073709551615}"#).expect("an account");
        assert!(open.is_open() && !open.locked);
        let socket = read(r#"{"access":0,"plugin":"unix_socket","authentication_string":""}"#);
        assert!(!socket.expect("an account").is_open());
        assert_eq!(read(r#"{"access":0,"is_role":true}"#), None);
    }

    #[test]
    fn a_password_that_is_too_old_is_expired() {
        let of = |rest: &str| {
            read(&format!(r#"{{"access":0{rest}}}"#))
                .expect("one")
                .expired
        };
        assert!(of(r#","password_last_changed":0"#));
        assert!(of(
            r#","password_last_changed":1795000000,"password_lifetime":3"#
        ));
        assert!(!of(
            r#","password_last_changed":1795000000,"password_lifetime":0"#
        ));
        assert!(!of(
            r#","password_last_changed":1795000000,"password_lifetime":-1"#
        ));
        assert!(!of(""));
    }
}
