//! Whether the server asks for passwords at all (O-43): by its own list of rules where that may be read,
//! else by one login of the canary's, once for each start and each reading of the configuration.

use std::sync::{Arc, Mutex};

use mesh_sdk::Error;

use super::adapter::Postgres;
use super::check::CANARY;
use super::roles::column;
use super::session::Session;

/// What is known of the rules, and of which reading of the configuration.
#[derive(Default)]
pub(super) struct Known(Mutex<Option<(String, Arc<Rules>)>>);

/// How logins are let in.
#[derive(Debug)]
pub(super) enum Rules {
    Read {
        rules: Vec<Rule>,
        loopback: bool,
    },
    /// The canary got in, or was refused.
    Tried {
        open: bool,
    },
    /// Neither could be done.
    Untold,
}

/// A line of `pg_hba.conf` for connections by network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    line: i32,
    databases: Vec<String>,
    users: Vec<String>,
    from: Origin,
    trust: bool,
    address: String,
}

/// From where a rule lets in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Anywhere,
    AllV4,
    AllV6,
    LoopbackV4,
    LoopbackV6,
    /// A part of the network, or names.
    Part,
}

impl Origin {
    fn of(address: Option<&str>, mask: Option<&str>) -> Self {
        match (address, mask) {
            (Some("all"), _) => Origin::Anywhere,
            (Some("0.0.0.0"), Some("0.0.0.0")) => Origin::AllV4,
            (Some("::"), Some("::")) => Origin::AllV6,
            (Some(v4), _) if v4.starts_with("127.") => Origin::LoopbackV4,
            (Some("::1"), _) => Origin::LoopbackV6,
            (Some("localhost" | "samehost"), _) => Origin::LoopbackV4,
            _ => Origin::Part,
        }
    }
    fn is_loopback(self) -> bool {
        matches!(self, Origin::LoopbackV4 | Origin::LoopbackV6)
    }
    /// Whether whoever comes from `other` meets this rule first.
    fn covers(self, other: Origin) -> bool {
        self == other && self != Origin::Part
            || self == Origin::Anywhere
            || self == Origin::AllV4 && other == Origin::LoopbackV4
            || self == Origin::AllV6 && other == Origin::LoopbackV6
    }
}

impl Rules {
    /// Why a login needs no password, if it needs none.
    pub(super) fn unenforced(&self, login: &str, database: &str) -> Option<String> {
        match self {
            Rules::Untold | Rules::Tried { open: false } => None,
            Rules::Tried { open: true } => Some(
                "password not enforced: the server lets in whoever comes from here, with any password; \
                 change `trust` in its pg_hba.conf"
                    .to_owned(),
            ),
            Rules::Read { rules, loopback } => open_line(rules, *loopback, login, database),
        }
    }
}

fn open_line(rules: &[Rule], loopback: bool, login: &str, database: &str) -> Option<String> {
    let mut met: Vec<Origin> = Vec::new();
    for rule in rules.iter().filter(|rule| rule.is_about(login, database)) {
        let counts = !rule.from.is_loopback() || loopback;
        let first = !met.iter().any(|before| before.covers(rule.from));
        if rule.trust && counts && first {
            return Some(format!(
                "password not enforced: line {} of pg_hba.conf (`trust`) lets it in from {} with any \
                 password",
                rule.line, rule.address
            ));
        }
        met.push(rule.from);
    }
    None
}

impl Rule {
    fn is_about(&self, login: &str, database: &str) -> bool {
        // Groups (`+name`, `samerole`) and patterns are not judged.
        let of_database = |word: &String| match word.as_str() {
            "all" => true,
            "sameuser" => login == database,
            name => name == database,
        };
        self.databases.iter().any(of_database)
            && self.users.iter().any(|word| word == "all" || word == login)
    }
}

impl Postgres {
    /// The rules of the configuration that the server runs with now.
    pub(super) async fn rules(&self, session: &Session) -> Result<Arc<Rules>, Error> {
        let configured = &session.facts.configured;
        if let Ok(known) = self.hba.0.lock()
            && let Some((of, rules)) = known.as_ref()
            && of == configured
        {
            return Ok(Arc::clone(rules));
        }
        let rules = match self.read_rules(session).await? {
            Some(rules) => Rules::Read {
                rules,
                loopback: self.endpoint.settings().is_loopback(),
            },
            None => return Ok(Arc::new(Rules::Untold)),
        };
        Ok(self.keep_rules(configured, rules))
    }

    /// The same where the rules cannot be read. Needs a connection of its own, so none may be held.
    pub(super) async fn try_canary(
        &self,
        configured: &str,
        rules: Arc<Rules>,
    ) -> Result<Arc<Rules>, Error> {
        if !matches!(*rules, Rules::Untold) {
            return Ok(rules);
        }
        let endpoint = &self.endpoint;
        let tried = endpoint.try_login(CANARY, b"meshkeeper", endpoint.home());
        let open = match tried.await? {
            Ok(()) => true,
            Err(error) => match error
                .as_db_error()
                .map(|db| (db.code().code(), db.routine()))
            {
                // It was let in, and is not there: who is let in comes first.
                Some(("28000", Some("InitializeSessionUserId"))) => true,
                Some(("28000" | "28P01", _)) => false,
                // Too many connections, or something else that tells nothing: the next look tries again.
                _ => return Ok(rules),
            },
        };
        Ok(self.keep_rules(configured, Rules::Tried { open }))
    }

    fn keep_rules(&self, configured: &str, rules: Rules) -> Arc<Rules> {
        let rules = Arc::new(rules);
        if let Ok(mut known) = self.hba.0.lock() {
            *known = Some((configured.to_owned(), Arc::clone(&rules)));
        }
        rules
    }

    /// The rules, if they may be read.
    async fn read_rules(&self, session: &Session) -> Result<Option<Vec<Rule>>, Error> {
        const WHAT: &str = "look at the access rules";
        let sql = "SELECT has_table_privilege('pg_catalog.pg_hba_file_rules', 'SELECT') \
                     AND has_function_privilege('pg_catalog.pg_hba_file_rules()', 'EXECUTE')";
        let may = session.query(WHAT, sql, &[]).await?;
        let may = may
            .first()
            .is_some_and(|row| row.try_get(0).unwrap_or(false));
        if !may {
            return Ok(None);
        }
        let sql = "SELECT line_number, database, user_name, address, netmask, auth_method \
                   FROM pg_hba_file_rules WHERE type LIKE 'host%' AND error IS NULL";
        let mut rules = Vec::new();
        for row in session.query(WHAT, sql, &[]).await? {
            let address: Option<String> = column(&row, 3, WHAT)?;
            let mask: Option<String> = column(&row, 4, WHAT)?;
            rules.push(Rule {
                line: column::<Option<i32>>(&row, 0, WHAT)?.unwrap_or(0),
                databases: column::<Option<_>>(&row, 1, WHAT)?.unwrap_or_default(),
                users: column::<Option<_>>(&row, 2, WHAT)?.unwrap_or_default(),
                from: Origin::of(address.as_deref(), mask.as_deref()),
                trust: column::<Option<String>>(&row, 5, WHAT)?.as_deref() == Some("trust"),
                address: address.unwrap_or_default(),
            });
        }
        Ok(Some(rules))
    }
}

#[cfg(test)]
mod tests {
    //! Which line lets whom in.
    use super::*;

    fn rule(line: i32, users: &str, address: &str, mask: &str, trust: bool) -> Rule {
        Rule {
            line,
            databases: vec!["all".to_owned()],
            users: vec![users.to_owned()],
            from: Origin::of(Some(address), (!mask.is_empty()).then_some(mask)),
            trust,
            address: address.to_owned(),
        }
    }

    #[test]
    fn o43_the_first_rule_that_is_met_counts() {
        let of = |rules: &[Rule], loopback| open_line(rules, loopback, "web", "shop");
        let local = rule(1, "all", "127.0.0.1", "255.255.255.255", true);
        let secret = rule(2, "all", "all", "", false);
        let open = rule(3, "web", "0.0.0.0", "0.0.0.0", true);
        // What is open to the server's own machine only is no matter to one far away.
        assert_eq!(of(&[local.clone(), secret.clone()], false), None);
        assert!(
            of(&[local.clone(), secret.clone()], true)
                .expect("open")
                .contains("line 1")
        );
        assert!(
            of(std::slice::from_ref(&open), false)
                .expect("open")
                .contains("line 3")
        );
        assert_eq!(
            of(&[secret, open.clone(), local.clone()], true),
            None,
            "never met"
        );
        let v4 = rule(4, "all", "0.0.0.0", "0.0.0.0", false);
        assert_eq!(of(&[v4, local], true), None);
        assert_eq!(open_line(&[open], true, "api", "shop"), None);
    }
}
