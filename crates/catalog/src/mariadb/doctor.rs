//! What a person should know of the server and of the admin login (S-8).

use mesh_sdk::adapter::{Finding, FindingLevel};
use mesh_sdk::{Class, Cx, Error};

use super::adapter::Mariadb;
use super::connect::{Facts, Session, text};
use super::read::{Whose, read};
use super::sql;

/// What the admin login must be given. The sixth is for each database that consumers are given rights
/// on, or for `*.*`, and names those rights.
pub(super) const RIGHTS: [&str; 8] = [
    "GRANT CREATE USER, CONNECTION ADMIN, PROCESS ON *.* TO …",
    "GRANT SELECT ON mysql.global_priv TO …",
    "GRANT SELECT ON mysql.db TO …",
    "GRANT SELECT ON mysql.tables_priv TO …",
    "GRANT CREATE ON `mk1.%`.* TO … WITH GRANT OPTION",
    "for each database: GRANT ALL PRIVILEGES ON `shop`.* TO … WITH GRANT OPTION",
    "for `mesh import` only: GRANT SELECT ON mysql.roles_mapping TO …",
    "for `mesh import` and `mesh purge` only: GRANT SELECT ON mysql.procs_priv TO …",
];

const ABOUT: &str = "admin rights";

/// One line of `SHOW GRANTS`, as far as it matters.
#[derive(Debug, PartialEq, Eq)]
struct Given<'a> {
    rights: Vec<&'a str>,
    place: &'a str,
    hands_on: bool,
}

impl Mariadb {
    /// The findings of `mesh doctor`.
    pub(super) async fn examine(&self, cx: &Cx) -> Result<Vec<Finding>, Error> {
        let mut session = match self.session(cx).await {
            Ok(session) => session,
            Err(error) => {
                let finding = Finding::new(FindingLevel::Error, "connection", error.to_string());
                return Ok(vec![finding]);
            }
        };
        let mut findings = vec![version(&session.facts), self.encryption()];
        if session.facts.open {
            let message = "the server runs with --skip-grant-tables: whoever connects is let in";
            let open = Finding::new(FindingLevel::Error, "passwords", message);
            findings.push(open.with_action("start it without that option"));
            return Ok(findings);
        }
        findings.extend(rights(&mut session).await?);
        findings.extend(accounts(cx, &mut session).await?);
        findings.push(Finding::new(
            FindingLevel::Ok,
            "persistence",
            "accounts are in the server's own tables, and each change is kept at once",
        ));
        Ok(findings)
    }

    fn encryption(&self) -> Finding {
        let settings = self.endpoint.settings();
        let warn = |message: &str| Finding::new(FindingLevel::Warning, "tls", message);
        let fine = |message: &str| Finding::new(FindingLevel::Ok, "tls", message);
        match (self.endpoint.is_encrypted(), settings.is_loopback()) {
            (true, _) if settings.tls.dangerously_unverified => {
                warn("the server's certificate is not verified: anybody could be at the other end")
            }
            (true, _) => fine("encrypted, and the server's certificate is verified"),
            (false, true) => fine("plain, and on this machine only"),
            (false, false) => warn(
                "plain, over a network: what the admin does can be read and changed on the way",
            ),
        }
    }
}

fn version(facts: &Facts) -> Finding {
    let title = facts.title();
    if title.starts_with("MariaDB 10.11.") {
        let message = format!("{title} is one that the tests run");
        return Finding::new(FindingLevel::Ok, "version", message);
    }
    if title.starts_with("MariaDB ") {
        let message = format!("{title} was never tried; MariaDB 10.11 was");
        return Finding::new(FindingLevel::Warning, "version", message);
    }
    let message = format!("this is no MariaDB but {title}: nothing here was tried on it");
    Finding::new(FindingLevel::Error, "version", message)
}

/// What the admin login lacks, and what it has too much of.
async fn rights(session: &mut Session) -> Result<Vec<Finding>, Error> {
    let rows = session
        .rows("look at our own rights", "SHOW GRANTS", || ())
        .await?;
    let lines: Vec<String> = rows.iter().filter_map(|row| text(row, 0)).collect();
    let given: Vec<Given<'_>> = lines.iter().filter_map(|line| given(line)).collect();
    let who = whoami(&session.facts.whoami);
    let mut findings: Vec<Finding> = lacking(&given)
        .into_iter()
        .map(|(right, why)| lacks(right, why, &who))
        .collect();
    for table in ["global_priv", "db", "tables_priv"] {
        let probe = format!("SELECT 1 FROM mysql.{table} LIMIT 0");
        match session.run("look at the server's tables", &probe).await {
            Ok(()) => {}
            Err(error) if error.class() == Class::Denied => {
                let right = format!("SELECT ON mysql.{table}");
                findings.push(lacks(&right, "look at the accounts", &who));
            }
            Err(error) => return Err(error),
        }
    }
    if findings.is_empty() {
        let fine = "the admin login may do all that is needed";
        findings.push(Finding::new(FindingLevel::Ok, ABOUT, fine));
    }
    let hands = given
        .iter()
        .filter(|one| one.hands_on && one.place != "`mk1.%`.*");
    let hands: Vec<&str> = hands.map(|one| one.place).collect();
    findings.push(match hands.is_empty() {
        true => Finding::new(
            FindingLevel::Warning,
            ABOUT,
            "the admin login may hand out rights on no database",
        )
        .with_action(format!(
            "GRANT ALL PRIVILEGES ON `shop`.* TO {who} WITH GRANT OPTION"
        )),
        false => {
            let message = format!(
                "the admin login may hand out rights on {}",
                hands.join(", ")
            );
            Finding::new(FindingLevel::Ok, ABOUT, message)
        }
    });
    let all = given
        .iter()
        .any(|one| one.place == "*.*" && one.has("ALL PRIVILEGES"));
    if all {
        let message = "the admin login may do everything on the server, which nothing here needs";
        let more = Finding::new(FindingLevel::Warning, ABOUT, message);
        findings.push(more.with_action("make one with the rights on this kind's page"));
    }
    Ok(findings)
}

fn lacks(right: &str, why: &str, who: &str) -> Finding {
    let message = format!("the admin login lacks `{right}`: it cannot {why}");
    let finding = Finding::new(FindingLevel::Error, ABOUT, message);
    finding.with_action(match right.split_once(" WITH ") {
        Some((right, with)) => format!("GRANT {right} TO {who} WITH {with}"),
        None => format!("GRANT {right} TO {who}"),
    })
}

fn lacking(given: &[Given<'_>]) -> Vec<(&'static str, &'static str)> {
    let global = |right: &str| {
        let mut places = given.iter().filter(|one| one.place == "*.*");
        places.any(|one| one.has(right))
    };
    let marks = given
        .iter()
        .any(|one| matches!(one.place, "*.*" | "`mk1.%`.*") && one.hands_on && one.has("CREATE"));
    let needed = [
        (global("CREATE USER"), "CREATE USER ON *.*", "make logins"),
        (
            global("CONNECTION ADMIN"),
            "CONNECTION ADMIN ON *.*",
            "end the sessions of a login that is switched off, or of an earlier holder of the lease",
        ),
        (
            global("PROCESS"),
            "PROCESS ON *.*",
            "tell whether a login that leaves is still in use",
        ),
        (
            marks,
            "CREATE ON `mk1.%`.* WITH GRANT OPTION",
            "mark its logins and keep the fence",
        ),
    ];
    let missing = needed.into_iter().filter(|(has, ..)| !has);
    missing.map(|(_, right, why)| (right, why)).collect()
}

/// Whether the admin login was given a privilege on the whole server.
pub(super) async fn has_global(session: &mut Session, right: &str) -> Result<bool, Error> {
    let what = "look at our own rights";
    let rows = session.rows(what, "SHOW GRANTS", || ()).await?;
    let lines: Vec<String> = rows.iter().filter_map(|row| text(row, 0)).collect();
    let mut given = lines.iter().filter_map(|line| given(line));
    Ok(given.any(|one| one.place == "*.*" && one.has(right)))
}

impl Given<'_> {
    fn has(&self, right: &str) -> bool {
        self.rights
            .iter()
            .any(|one| *one == right || *one == "ALL PRIVILEGES")
    }
}

/// ``GRANT CREATE USER, PROCESS ON *.* TO `mesh`@`%` … WITH GRANT OPTION``; roles have no place.
fn given(line: &str) -> Option<Given<'_>> {
    let (rights, rest) = line.strip_prefix("GRANT ")?.split_once(" ON ")?;
    let (place, rest) = rest.split_once(" TO ")?;
    Some(Given {
        rights: rights.split(", ").collect(),
        place,
        hands_on: rest.ends_with("WITH GRANT OPTION"),
    })
}

/// `mesh@%` as SQL writes it. A host holds no `@`.
fn whoami(account: &str) -> String {
    match account.rsplit_once('@') {
        Some((user, host)) => sql::account(user, host),
        None => sql::text(account),
    }
}

/// Accounts that anybody can use.
async fn accounts(cx: &Cx, session: &mut Session) -> Result<Option<Finding>, Error> {
    let seen = match read(cx, session, Whose::All, false).await {
        Ok(seen) => seen,
        // Told already, with the rights.
        Err(error) if error.class() == Class::Denied => return Ok(None),
        Err(error) => return Err(error),
    };
    let is_open = |account: &&super::account::Account| {
        !account.locked && (account.is_open() || account.user.is_empty())
    };
    let mut open: Vec<String> = seen
        .accounts()?
        .into_iter()
        .filter(is_open)
        .map(|account| sql::account(&account.user, &account.host))
        .collect();
    open.sort();
    if open.is_empty() {
        return Ok(None);
    }
    let count = open.len();
    open.truncate(5);
    let message = format!(
        "{count} accounts ask for no password or have no name, and stand before others: {}",
        open.join(", ")
    );
    let finding = Finding::new(FindingLevel::Warning, "open accounts", message);
    Ok(Some(finding.with_action(
        "drop them, or give them a password: `mariadb-secure-installation`",
    )))
}

#[cfg(test)]
mod tests {
    //! What `SHOW GRANTS` says.
    use super::*;

    #[test]
    fn s8_what_the_admin_was_given_is_read() {
        let lines = [
            "GRANT CREATE USER, PROCESS, CONNECTION ADMIN ON *.* TO `mesh`@`%` IDENTIFIED BY PASSWORD '*3B'",
            "GRANT CREATE ON `mk1.%`.* TO `mesh`@`%` WITH GRANT OPTION",
        ];
        let all: Vec<Given<'_>> = lines.iter().filter_map(|line| given(line)).collect();
        assert_eq!(lacking(&all), []);
        assert_eq!(lacking(&all[..1]).len(), 1);
        assert_eq!(lacking(&all[1..]).len(), 3);
        let root = given("GRANT ALL PRIVILEGES ON *.* TO `root`@`%` WITH GRANT OPTION");
        assert_eq!(lacking(&[root.expect("a line")]), []);
        assert_eq!(given("GRANT `r1` TO `mesh`@`%`"), None);
        assert_eq!(whoami("a@b@10.0.%"), "'a@b'@'10.0.%'");
    }
}
