//! A wish and what the server holds, compared by meaning.

use mesh_sdk::{
    Answer, Difference, Differences, Error, Held, Login, Lost, MarkSeen, Marker, Proof,
};

use super::account::Account;
use super::hosts;
use super::memory::expected;
use super::read::Seen;
use super::rights::Rights;
use super::sql;
use super::values::{MariadbValues, Privileges, Set};
use super::verifier::{NATIVE, NOBODYS, plugin};

/// A wish of this kind.
pub(super) type Wish<'a> = mesh_sdk::Provision<'a, MariadbValues>;

/// How the password of an account stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    /// As asked, or there is none to compare with.
    Right,
    /// Ours, and something more: another way in, another plugin, an age that is over.
    Fits(&'static str),
    /// Another one.
    Other,
}

/// Rights on one database's pattern, or on the whole server.
pub(super) type Place = (Option<String>, Rights);

/// How an account differs from a wish.
#[derive(Debug)]
pub(super) struct Diff {
    /// Not there at all.
    pub(super) absent: bool,
    pub(super) pass: Pass,
    /// It lets in without a password.
    pub(super) open: bool,
    pub(super) switch: Option<Difference>,
    pub(super) missing: Vec<Place>,
    pub(super) surplus: Vec<Place>,
    /// Databases to be made for their owner.
    pub(super) databases: Vec<String>,
    /// The limit of connections to set.
    pub(super) limit: Option<i64>,
    pub(super) mark: MarkSeen,
    /// Hosts under which the same login carries our mark although the wish names another host.
    pub(super) stray: Vec<String>,
    /// Accounts of others that are met instead of this one.
    pub(super) shadows: Vec<String>,
    /// The server's second up to which all this stands by itself.
    pub(super) stands_until: i64,
}

/// Compares.
///
/// # Errors
/// What the server shows of the login cannot be read.
pub(super) fn diff(wish: &Wish<'_>, seen: &Seen) -> Result<Diff, Error> {
    let host = wish.values().account_host();
    let login = wish.login().as_str();
    let account = seen.account(login, &host)?;
    let (missing, surplus) = grants(wish, seen, account);
    let switch = match (wish.enabled(), account.map(|account| account.locked)) {
        (true, Some(true)) => Some(Difference::Disabled),
        (false, Some(false)) => Some(Difference::Enabled),
        _ => None,
    };
    let (stray, shadows) = others(wish, seen, &host)?;
    Ok(Diff {
        absent: account.is_none(),
        pass: account.map_or(Pass::Right, |account| pass(wish, account)),
        open: account.is_some_and(Account::is_open),
        switch,
        missing,
        surplus,
        databases: missing_databases(wish, seen),
        limit: account.and_then(|account| limit(wish, account)),
        mark: account.map_or(MarkSeen::None, |account| mark(wish, account)),
        stray,
        shadows,
        stands_until: account.map_or(i64::MAX, |account| account.good_until),
    })
}

fn pass(wish: &Wish<'_>, account: &Account) -> Pass {
    let known = expected(wish);
    let Some(ours) = known.verifiers(wish) else {
        return Pass::Right;
    };
    let fits = |method: &super::account::Method| ours.fits(&method.plugin, &method.verifier);
    if !account.methods.iter().any(fits) {
        return Pass::Other;
    }
    if account.methods.len() > 1 {
        return Pass::Fits("another way to log in beside the password");
    }
    if account.expired {
        return Pass::Fits("the password is expired");
    }
    let is_wanted = account.methods[0].plugin == plugin(wish.values().auth);
    // Adopting leaves the way of logging in as it is.
    match is_wanted || !wish.exact() {
        true => Pass::Right,
        false => Pass::Fits("the password is kept by another plugin"),
    }
}

fn mark(wish: &Wish<'_>, account: &Account) -> MarkSeen {
    let marks = account.marks();
    MarkSeen::strongest(
        marks
            .iter()
            .map(|text| wish.marker().read(text, wish.consumer())),
    )
}

/// Judges the marks of a listed account. Only one that this provider left names a consumer.
pub(super) fn listed_mark(marker: &Marker, account: &Account) -> MarkSeen {
    let marks = account.marks();
    MarkSeen::strongest(marks.iter().map(|text| marker.listed(text)))
}

fn grants(wish: &Wish<'_>, seen: &Seen, account: Option<&Account>) -> (Vec<Place>, Vec<Place>) {
    let (mut missing, mut surplus) = (Vec::new(), Vec::new());
    let global = wish.values().global.iter().map(String::as_str);
    let global = Rights::of_names(global);
    let held = account.map(|account| account.global).unwrap_or_default();
    add(&mut missing, None, global.beyond(held));
    add(&mut surplus, None, held.beyond(global));
    // Each database with its pattern.
    let mut asked: Vec<(String, String, Rights)> = Vec::new();
    for (database, privileges) in wish.values().databases() {
        let database = seen.stored(database);
        let rights = Rights::asked(privileges);
        match asked.iter_mut().find(|(name, ..)| *name == database) {
            Some((.., all)) => *all = all.and(rights),
            None => {
                let pattern = sql::pattern(&database);
                asked.push((database, pattern, rights));
            }
        }
    }
    let rows = account.map_or(&[][..], |account| &account.databases);
    for (database, pattern, rights) in &asked {
        let held = |name: &str| rows.iter().find(|row| row.0 == name).map(|row| row.1);
        let mut have = held(pattern).unwrap_or_default();
        if !wish.exact() {
            // A person who adopts a login may have written the name as it is, which means it too.
            have = have.and(held(database).unwrap_or_default());
        }
        add(&mut missing, Some(pattern), rights.beyond(have));
        add(&mut surplus, Some(pattern), have.beyond(*rights));
    }
    for (pattern, rights) in rows {
        let is_asked = |(name, asked, _): &(String, String, Rights)| {
            pattern == asked || (!wish.exact() && pattern == name)
        };
        if !asked.iter().any(is_asked) {
            add(&mut surplus, Some(pattern), *rights);
        }
    }
    (missing, surplus)
}

fn add(places: &mut Vec<Place>, pattern: Option<&str>, rights: Rights) {
    if !rights.is_empty() {
        places.push((pattern.map(str::to_owned), rights));
    }
}

fn missing_databases(wish: &Wish<'_>, seen: &Seen) -> Vec<String> {
    owned(wish.values())
        .filter(|database| !seen.has_database(database))
        .map(str::to_owned)
        .collect()
}

/// The databases that the login is to own.
pub(super) fn owned(values: &MariadbValues) -> impl Iterator<Item = &str> {
    let owner = Privileges::Set(Set::Owner);
    let all = values.databases();
    all.filter(move |(_, asked)| **asked == owner)
        .map(|(name, _)| name)
}

fn limit(wish: &Wish<'_>, account: &Account) -> Option<i64> {
    let asked = match wish.values().max_connections {
        Some(limit) => i64::from(limit),
        None if wish.exact() => 0,
        None => return None,
    };
    (asked != account.max_connections).then_some(asked)
}

/// Accounts of the same login at other hosts, and those without a name: ours from before, and those of
/// others that stand in the way.
fn others(wish: &Wish<'_>, seen: &Seen, host: &str) -> Result<(Vec<String>, Vec<String>), Error> {
    let (mut stray, mut shadows) = (Vec::new(), Vec::new());
    let login = wish.login().as_str();
    for other in seen
        .of(login)?
        .iter()
        .filter(|other| !other.host.eq_ignore_ascii_case(host))
    {
        if mark(wish, other) == MarkSeen::Ours {
            stray.push(other.host.clone());
        } else if hosts::shadows(&other.host, host) {
            shadows.push(sql::account(login, &other.host));
        }
    }
    for other in seen.anonymous()? {
        if hosts::shadows(&other.host, host) {
            shadows.push(sql::account("", &other.host));
        }
    }
    Ok((stray, shadows))
}

impl Diff {
    /// Whether nothing has to be written. Accounts that stand in the way are none that could be written
    /// away.
    pub(super) fn is_none(&self, exact: bool) -> bool {
        self.to_write(exact).is_empty()
    }

    fn lacks_nothing(&self) -> bool {
        self.missing.is_empty() && self.databases.is_empty() && self.limit.is_none()
    }

    /// Every difference.
    pub(super) fn differences(&self, exact: bool) -> Differences {
        let mut all = self.to_write(exact);
        if !self.absent && !self.shadows.is_empty() {
            all.insert(Difference::GrantsMissing);
        }
        all
    }

    /// The differences that writing can mend.
    fn to_write(&self, exact: bool) -> Differences {
        if self.absent {
            return Difference::Absent.into();
        }
        let surplus = exact && !self.surplus.is_empty();
        let found = [
            (self.open, Difference::PasswordNotEnforced),
            (self.pass != Pass::Right && !self.open, Difference::Password),
            (!self.lacks_nothing(), Difference::GrantsMissing),
            (surplus || !self.stray.is_empty(), Difference::GrantsSurplus),
            (self.mark != MarkSeen::Ours, Difference::MarkMissing),
        ];
        let found = found.into_iter().filter(|(is, _)| *is).map(|(_, d)| d);
        found.chain(self.switch).collect()
    }

    /// The answer to "do you hold it as asked?". `open` is a server that lets everybody in.
    pub(super) fn answer(self, wish: &Wish<'_>, open: bool) -> Answer {
        let mut differences = self.differences(wish.exact());
        let known = wish.password().is_some();
        if differences.is_empty() && (known || !wish.enabled()) {
            let proof = if known {
                Proof::Verifier
            } else {
                Proof::Presence
            };
            let warning = self.warning(open).map(Into::into);
            return Answer::Held(Held { proof, warning });
        }
        if !known && wish.enabled() && !self.absent {
            // There is no password that it could have as asked.
            differences.insert(Difference::Password);
        }
        let fits = known && !self.absent && !self.open && self.pass != Pass::Other;
        Answer::Lost(Box::new(Lost {
            differences,
            detail: self.detail(wish.exact()),
            mark: self.mark,
            password_fits: fits,
        }))
    }

    fn warning(&self, open: bool) -> Option<String> {
        if open {
            return Some(
                "password not enforced: the server runs with --skip-grant-tables".to_owned(),
            );
        }
        let surplus = told(&self.surplus);
        (!surplus.is_empty()).then(|| format!("rights in surplus: {surplus}"))
    }

    fn detail(&self, exact: bool) -> String {
        let mut parts = Vec::new();
        if self.absent {
            return String::new();
        }
        if !self.missing.is_empty() {
            parts.push(format!("missing {}", told(&self.missing)));
        }
        for database in self.databases.iter().take(3) {
            parts.push(format!("there is no database `{}`", plain(database)));
        }
        if let Some(limit) = self.limit {
            parts.push(format!("max_user_connections should be {limit}"));
        }
        if exact && !self.surplus.is_empty() {
            parts.push(format!("surplus {}", told(&self.surplus)));
        }
        if !self.stray.is_empty() {
            parts.push(format!("also there for {}", self.stray.join(", ")));
        }
        if !self.shadows.is_empty() {
            parts.push(self.shadowed());
        }
        if let Pass::Fits(more) = self.pass {
            parts.push(more.to_owned());
        }
        parts.join("; ")
    }

    /// Who stands in the way.
    pub(super) fn shadowed(&self) -> String {
        let who: Vec<String> = self.shadows.iter().take(3).map(|one| plain(one)).collect();
        let who = who.join(" and ");
        format!("{who} has a more exact host: who connects from there meets that account instead")
    }
}

/// `SELECT, INSERT on my_db.*, PROCESS`, and how many more.
pub(super) fn told(places: &[Place]) -> String {
    const MOST: usize = 4;
    let one = |(pattern, rights): &Place| {
        let names = rights.names();
        let names = match names.len() {
            0..=8 => names.join(", "),
            more => format!("{more} privileges"),
        };
        match pattern {
            Some(pattern) => format!("{names} on {}.*", plain(pattern)),
            None => format!("{names} on *.*"),
        }
    };
    let mut all = places
        .iter()
        .take(MOST)
        .map(one)
        .collect::<Vec<_>>()
        .join(", ");
    if places.len() > MOST {
        all.push_str(&format!(" and {} more", places.len() - MOST));
    }
    all
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(80).collect()
}

/// A login from a text that the server showed; none for the anonymous account.
pub(super) fn login_of(user: &str) -> Option<Login> {
    Login::new(user).ok()
}

/// How an account is made to log in: `IDENTIFIED VIA … USING …`. Without a password, in no way.
pub(super) fn identified(wish: &Wish<'_>) -> String {
    let auth = wish.values().auth;
    let known = expected(wish);
    let (plugin, verifier) = match known.verifiers(wish) {
        Some(ours) => (plugin(auth), ours.wanted(auth).to_owned()),
        None => (NATIVE, NOBODYS.to_owned()),
    };
    format!("IDENTIFIED VIA {plugin} USING {}", sql::text(&verifier))
}
