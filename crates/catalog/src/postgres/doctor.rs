//! What a person should know of a server and of the admin login (S-8).

use mesh_sdk::adapter::{Finding, FindingLevel};
use mesh_sdk::{Class, Cx, Error};

use super::adapter::Postgres;
use super::hba::Rules;
use super::session::{Facts, Session};
use super::sql::ident;

/// What the admin login needs, as the adapter's page lists it.
pub(super) const RIGHTS: [&str; 6] = [
    "CREATEROLE",
    "CREATEDB, where an `owner` is asked for",
    "SELECT on pg_catalog.pg_authid, in the admin's database: to compare verifiers",
    "membership in pg_signal_backend: to end the sessions of what is switched off",
    "from PostgreSQL 16 on, for logins that it did not make: ADMIN on each",
    "for databases and tables that no login of Meshkeeper owns: membership in their owner",
];

/// The versions that the conformance suite runs.
const TRIED: [u32; 3] = [15, 16, 18];

impl Postgres {
    /// The findings of `mesh doctor`.
    pub(super) async fn examine(&self, cx: &Cx) -> Result<Vec<Finding>, Error> {
        let session = match self.endpoint.admin().await {
            Ok(session) => session,
            Err(error) => {
                let finding = Finding::new(FindingLevel::Error, "connection", error.to_string());
                return Ok(vec![finding]);
            }
        };
        cx.progress();
        let mut findings = vec![version(&session.facts), self.encryption()];
        findings.extend(self.rights(&session).await?);
        findings.extend(persistence(&session).await?);
        findings.extend(self.door(&session).await?);
        findings.extend(self.same_port(&session).await?);
        findings.push(self.room(&session).await?);
        session.close();
        Ok(findings)
    }

    fn encryption(&self) -> Finding {
        let settings = self.endpoint.settings();
        match (self.endpoint.is_encrypted(), settings.is_loopback()) {
            (true, _) if settings.tls.dangerously_unverified => warn(
                "tls",
                "the server's certificate is not verified: anybody could be at the other end",
            ),
            (true, _) => ok("tls", "encrypted, and the server's certificate is verified"),
            (false, true) => ok("tls", "plain, and on this machine only"),
            (false, false) => warn(
                "tls",
                "plain, over a network: what is said can be read on the way",
            ),
        }
    }

    /// What the admin login lacks, and what it has too much of.
    async fn rights(&self, session: &Session) -> Result<Vec<Finding>, Error> {
        let about = "admin rights";
        let admin = ident(self.endpoint.admin_name());
        if session.facts.superuser {
            let finding = warn(
                about,
                "the admin login is a superuser, which nothing here needs",
            );
            let action = format!(
                "CREATE ROLE mesh LOGIN CREATEROLE CREATEDB; GRANT pg_signal_backend TO mesh; \
                 GRANT SELECT ON pg_catalog.pg_authid TO mesh; -- in database {}",
                self.endpoint.home()
            );
            return Ok(vec![finding.with_action(action)]);
        }
        let sql = "SELECT rolcreaterole, rolcreatedb, pg_has_role('pg_signal_backend', 'USAGE'), \
                     rolreplication OR rolbypassrls FROM pg_roles WHERE rolname = current_user";
        let rows = session.simple("look at the admin login", sql).await?;
        let is = |at: usize| rows.first().and_then(|row| row.get(at)) == Some("t");
        let lacks = |level, what: &str, action: String| {
            Finding::new(level, about, what).with_action(action)
        };
        let mut findings = Vec::new();
        if !is(0) {
            let what = "the admin login lacks CREATEROLE: it cannot make logins";
            let action = format!("ALTER ROLE {admin} CREATEROLE");
            findings.push(lacks(FindingLevel::Error, what, action));
        }
        if !is(1) {
            let what = "the admin login lacks CREATEDB: it cannot make databases for owners";
            let action = format!("ALTER ROLE {admin} CREATEDB");
            findings.push(lacks(FindingLevel::Warning, what, action));
        }
        if !is(2) {
            let what = "the admin login is no member of pg_signal_backend: it cannot end sessions";
            let action = format!("GRANT pg_signal_backend TO {admin}");
            findings.push(lacks(FindingLevel::Error, what, action));
        }
        if !session.facts.verifiers {
            let what = "the admin login may not read pg_authid: passwords are proven by logging in, and \
                        only a part of many at each look";
            let action = format!(
                "GRANT SELECT ON pg_catalog.pg_authid TO {admin}; -- in database {}",
                self.endpoint.home()
            );
            findings.push(lacks(FindingLevel::Warning, what, action));
        }
        if is(3) {
            let what = "the admin login has REPLICATION or BYPASSRLS, which nothing here needs";
            let action = format!("ALTER ROLE {admin} NOREPLICATION NOBYPASSRLS");
            findings.push(lacks(FindingLevel::Warning, what, action));
        }
        if findings.is_empty() {
            findings.push(ok(
                about,
                "the admin login may do all that is needed, and little else",
            ));
        }
        Ok(findings)
    }

    /// Whether the server asks for passwords.
    async fn door(&self, session: &Session) -> Result<Option<Finding>, Error> {
        let rules = self.rules(session).await?;
        let open = rules.unenforced("meshkeeper_canary", self.endpoint.home());
        Ok(match (&*rules, open) {
            (_, Some(why)) => Some(warn("access rules", &why)),
            (Rules::Read { .. }, None) => Some(ok("access rules", "passwords are asked for")),
            // A look tries it once.
            (Rules::Tried { .. } | Rules::Untold, None) => None,
        })
    }

    /// How many sessions are ours at most, and whether the server has room for them.
    async fn room(&self, session: &Session) -> Result<Finding, Error> {
        let sql = "SELECT current_setting('max_connections')::int \
                     - current_setting('superuser_reserved_connections')::int - count(datid) \
                   FROM pg_stat_activity";
        let rows = session.simple("count the sessions", sql).await?;
        let free = rows.first().and_then(|row| row.get(0)?.parse::<i64>().ok());
        let (work, keep) = (self.endpoint.options.connections, session.most_kept());
        let ours = format!(
            "Meshkeeper has {work} sessions that work at most, one that waits for hints, and {keep} idle \
             ones that it keeps for the next pass"
        );
        let most = i64::from(work) + 1 + i64::try_from(keep).unwrap_or(0);
        Ok(match free {
            Some(free) if free < most => {
                let message = format!("{ours}; the server has {free} free");
                let action = "raise `max_connections` of the server, or lower `connections` and \
                              `kept_sessions` in the provider's options";
                warn("connections", &message).with_action(action)
            }
            _ => ok("connections", &ours),
        })
    }

    /// A pooler's answers are not the server's: what it remembers of passwords may be old (O-35).
    async fn same_port(&self, session: &Session) -> Result<Option<Finding>, Error> {
        let rows = session
            .simple("ask for the port", "SELECT inet_server_port()")
            .await?;
        let port = rows.first().and_then(|row| row.get(0)).unwrap_or_default();
        let ours = self.endpoint.settings().port.to_string();
        Ok((port != ours).then(|| {
            let message = format!(
                "the server listens on port {port}, and we come by port {ours}: if a pooler stands between, \
                 give the server's own address"
            );
            warn("address", &message)
        }))
    }
}

async fn persistence(session: &Session) -> Result<Option<Finding>, Error> {
    let sql = "SELECT name FROM pg_settings WHERE name IN ('fsync', 'full_page_writes') \
               AND setting = 'off' ORDER BY 1";
    match session.simple("look at persistence", sql).await {
        Ok(rows) => {
            let off: Vec<&str> = rows.iter().filter_map(|row| row.get(0)).collect();
            Ok(Some(match off[..] {
                [] => ok("persistence", "what is committed is kept"),
                _ => {
                    let message = format!(
                        "{} off: a crash may lose logins, and all else",
                        off.join(", ")
                    );
                    warn("persistence", &message)
                }
            }))
        }
        Err(error) if error.class() == Class::Denied => Ok(None),
        Err(error) => Err(error),
    }
}

fn ok(about: &str, message: &str) -> Finding {
    Finding::new(FindingLevel::Ok, about, message)
}

fn warn(about: &str, message: &str) -> Finding {
    Finding::new(FindingLevel::Warning, about, message)
}

fn version(facts: &Facts) -> Finding {
    if TRIED.contains(&facts.major) {
        return ok(
            "version",
            &format!("PostgreSQL {} is one that the tests run", facts.version),
        );
    }
    let message = format!(
        "PostgreSQL {} was never tried; 15, 16 and 18 were",
        facts.version
    );
    warn("version", &message)
}
