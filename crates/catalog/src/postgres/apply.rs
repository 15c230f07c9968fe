//! Making logins as asked: many in one transaction where that can be, each in one of its own where it
//! cannot, and only what differs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering;

use mesh_sdk::adapter::Sink;
use mesh_sdk::{Class, Cx, Difference, Error};

use super::adapter::Postgres;
use super::batch::Work;
use super::compare::{Diff, View, Wish, marked};
use super::inside::Inside;
use super::look::{Look, by_database, ends_all};
use super::proof::{self, Fit, Job, expected};
use super::rights::{Right, Step, act_for};
use super::roles::column;
use super::session::Session;
use super::sql::{ident, literal};
use super::values::Privileges;

/// What is being made, and what is known of each so far.
pub(super) struct Making<'a, 'w> {
    pub(super) postgres: &'a Postgres,
    pub(super) cx: &'a Cx,
    pub(super) wishes: &'a [Wish<'w>],
    pub(super) outcomes: &'a Sink<()>,
    /// Passwords that had to be worked out or tried.
    fits: HashMap<usize, Fit>,
    /// Those that somebody else made meanwhile: they are looked at once more.
    pub(super) again: Vec<usize>,
    /// How many logins the next transaction has.
    pub(super) size: usize,
}

impl Postgres {
    /// Makes all of them; one that fails stops no other.
    pub(super) async fn create_many(
        &self,
        cx: &Cx,
        wishes: &[Wish<'_>],
        outcomes: &Sink<()>,
    ) -> Result<(), Error> {
        let mut making = Making {
            postgres: self,
            cx,
            wishes,
            outcomes,
            fits: HashMap::new(),
            again: Vec::new(),
            size: self.fits.load(Ordering::Relaxed),
        };
        let good: Vec<usize> = (0..wishes.len())
            .filter(|index| making.may_make(*index))
            .collect();
        // The second of two logins in turn is made to act as the first, which has to be there.
        let (second, first): (Vec<usize>, Vec<usize>) = good
            .into_iter()
            .partition(|index| wishes[*index].base().is_some());
        making.make(first).await?;
        making.make(second).await?;
        let again = std::mem::take(&mut making.again);
        making.make(again).await
    }
}

impl Making<'_, '_> {
    pub(super) fn fail(&self, index: usize, error: Error) {
        self.outcomes.put(index, Err(error));
    }

    fn may_make(&self, index: usize) -> bool {
        let wish = &self.wishes[index];
        let mut checked = self.postgres.may_touch(wish.login().as_str());
        if checked.is_ok() && wish.enabled() && wish.password().is_none() {
            checked = Err(Error::new(Class::Bug, "there is no password to set"));
        }
        match checked {
            Ok(()) => true,
            Err(error) => {
                self.fail(index, error);
                false
            }
        }
    }

    async fn make(&mut self, indices: Vec<usize>) -> Result<(), Error> {
        if indices.is_empty() {
            return Ok(());
        }
        let some: Vec<Wish<'_>> = indices.iter().map(|index| self.wishes[*index]).collect();
        let session = self.postgres.endpoint.admin().await?;
        let mut look = self.postgres.look(self.cx, &session, &some).await?;
        let mut indices = self
            .without_the_impossible(&session, &look, indices)
            .await?;
        session.close();
        self.find_fits(&look, &indices).await?;
        self.make_verifiers(&look, &indices).await?;
        // Nobody but an owner has a database made; readers of it wait until it is there.
        let new = |index: &usize| {
            let values = self.wishes[*index].values();
            values.privileges == Privileges::Owner
                && self.wishes[*index].base().is_none()
                && !look.shared.databases.contains_key(&values.database)
        };
        let new: Vec<usize> = indices.iter().copied().filter(new).collect();
        if !new.is_empty() {
            let session = self.postgres.endpoint.admin().await?;
            let failed = self.make_databases(&session, &look, &new).await?;
            indices.retain(|index| !failed.contains(index));
            look = self.postgres.look(self.cx, &session, &some).await?;
            session.close();
        }
        let groups = by_database(&look.shared, self.wishes, indices.iter().copied());
        for index in indices {
            let name = &self.wishes[index].values().database;
            if !groups.contains_key(name.as_str()) {
                let rule = format!("`database`: `{name}` could not be made for its owner");
                self.fail(index, Error::new(Class::RefusedValue, rule));
            }
        }
        for (database, indices) in groups {
            if let Err(error) = self.make_in(&look, database, &indices).await {
                if ends_all(&error) || matches!(error.class(), Class::ReadOnly | Class::Fenced) {
                    return Err(error);
                }
                indices
                    .iter()
                    .for_each(|index| self.fail(*index, error.clone()));
            }
        }
        Ok(())
    }

    /// Turns down what cannot become true, before anything is written.
    async fn without_the_impossible(
        &self,
        session: &Session,
        look: &Look<'_>,
        mut indices: Vec<usize>,
    ) -> Result<Vec<usize>, Error> {
        let asked = indices
            .iter()
            .any(|i| !self.wishes[*i].values().extensions.is_empty());
        let available = if asked {
            available(session).await?
        } else {
            BTreeSet::new()
        };
        let owners = indices.iter().map(|index| self.wishes[*index].values());
        let owners = owners.filter(|values| values.privileges == Privileges::Owner);
        let to_come: BTreeSet<&str> = owners.map(|values| values.database.as_str()).collect();
        indices.retain(|index| {
            match impossible(look, &self.wishes[*index], &available, &to_come) {
                None => true,
                Some(rule) => {
                    self.fail(*index, Error::new(Class::RefusedValue, rule));
                    false
                }
            }
        });
        Ok(indices)
    }

    /// What the stored passwords are, where that is not known.
    async fn find_fits(&mut self, look: &Look<'_>, indices: &[usize]) -> Result<(), Error> {
        let (mut jobs, mut tried) = (Vec::new(), Vec::new());
        for index in indices {
            let wish = &self.wishes[*index];
            let Some(role) = look.shared.roles.get(wish.login().as_str()) else {
                continue;
            };
            let fit = look.view(wish, None, None).fit(wish);
            if fit == Fit::Unknown
                && let Some(stored) = &role.verifier
            {
                jobs.extend(Job::prove(*index, wish, stored));
            }
            if look.facts.verifiers || wish.password().is_none() {
                continue;
            }
            // What cannot be told is written, since something made somebody ask for it; but for a login
            // that stays switched off it is told once that is switched on.
            if wish.enabled() {
                self.fits.insert(*index, Fit::Unknown);
            }
            if role.login && !role.expired && self.postgres.endpoint.may_carry_passwords() {
                tried.push(*index);
            }
        }
        for (index, fit) in self.postgres.try_logins(self.cx, self.wishes, tried).await {
            match fit? {
                Fit::Untold => {}
                fit => drop(self.fits.insert(index, fit)),
            }
        }
        proof::work(self.cx, jobs, |_| ()).await
    }

    /// Makes the verifiers that will be stored.
    async fn make_verifiers(&self, look: &Look<'_>, indices: &[usize]) -> Result<(), Error> {
        let options = &self.postgres.endpoint.options;
        let job = |index: &usize| {
            let wish = &self.wishes[*index];
            let view = look.view(wish, None, None);
            let needed = match view.role {
                None => true,
                Some(role) => {
                    let fit = self.fit(*index, &view, wish);
                    view.diff(wish, role, fit).password(wish.exact())
                }
            };
            if needed {
                Job::make(*index, wish, options)
            } else {
                None
            }
        };
        let jobs = indices.iter().filter_map(job).collect();
        proof::work(self.cx, jobs, |_| ()).await
    }

    fn fit(&self, index: usize, view: &View<'_>, wish: &Wish<'_>) -> Fit {
        self.fits
            .get(&index)
            .copied()
            .unwrap_or_else(|| view.fit(wish))
    }

    /// Owners first, then their databases: no transaction can hold both. Gives those that failed.
    async fn make_databases(
        &mut self,
        session: &Session,
        look: &Look<'_>,
        indices: &[usize],
    ) -> Result<Vec<usize>, Error> {
        session.must_write()?;
        let mut work = Vec::new();
        for index in indices {
            let wish = &self.wishes[*index];
            let mut steps = self.role_steps(look, *index)?.0;
            let role = look.shared.roles.get(wish.login().as_str());
            if !look.facts.superuser && !role.is_some_and(|role| role.acted) {
                let act = act_for(wish.login().as_str(), look.facts.major);
                steps.push(Step::Plain(act));
            }
            work.push(Work {
                index: *index,
                steps,
                ends_sessions: None,
                is_new: role.is_none(),
            });
        }
        let mut failed = self.carry_out(session, work).await?;
        for index in indices
            .iter()
            .filter(|index| !failed.contains(index))
            .collect::<Vec<_>>()
        {
            let wish = &self.wishes[*index];
            let (name, owner) = (ident(&wish.values().database), ident(wish.login().as_str()));
            let sql = format!("CREATE DATABASE {name} OWNER {owner}");
            // No transaction can hold it: between the two, the lease may be lost.
            let made = match self.postgres.demand_fence(self.cx, session).await {
                Ok(()) => session.run(&sql).await,
                Err(failed) => Err(failed),
            };
            if let Err(error) = made {
                let error = error.told("make the database");
                if ends_all(&error) || error.class() == Class::Fenced {
                    return Err(error);
                }
                if error.class() != Class::Exists {
                    self.fail(*index, error);
                    failed.push(*index);
                }
            }
            self.cx.progress();
        }
        Ok(failed)
    }

    /// All that is left to do in one database, for all that are about it.
    async fn make_in(
        &mut self,
        look: &Look<'_>,
        database: &str,
        indices: &[usize],
    ) -> Result<(), Error> {
        let session = self.postgres.endpoint.admin_in(database).await?;
        session.must_be_of(&look.facts.started).await?;
        self.cx.progress();
        let some: Vec<Wish<'_>> = indices.iter().map(|index| self.wishes[*index]).collect();
        let inside = look.inside(self.cx, &session, &some).await?;
        let (mut work, mut keeps) = (Vec::new(), false);
        for index in indices {
            match self.plan(look, &inside, *index) {
                Ok((planned, keep)) => {
                    keeps |= keep;
                    work.push(planned);
                }
                Err(error) => self.fail(*index, error),
            }
        }
        let (idle, work): (Vec<Work>, Vec<Work>) =
            work.into_iter().partition(|work| work.steps.is_empty());
        self.outcomes
            .put_each(idle.into_iter().map(|work| (work.index, Ok(()))));
        if !work.is_empty() {
            session.must_write()?;
            if keeps && look.shared.keeper.is_none() {
                self.postgres.make_keeper(self.cx, &session).await?;
            }
            let all: Vec<usize> = work.iter().map(|work| work.index).collect();
            let failed = self.carry_out(&session, work).await?;
            let done = all.into_iter().filter(|index| !failed.contains(index));
            self.outcomes.put_each(done.map(|index| (index, Ok(()))));
        }
        session.close();
        Ok(())
    }

    /// What has to be said for one wish, and whether the keeper is needed for it.
    fn plan(&self, look: &Look<'_>, inside: &Inside, index: usize) -> Result<(Work, bool), Error> {
        let wish = &self.wishes[index];
        let login = wish.login().as_str();
        let view = look.view(wish, Some(inside), None);
        let (mut steps, diff) = self.role_steps(look, index)?;
        let rights = super::measure::measure(&view, wish);
        let owner = wish.values().privileges == Privileges::Owner;
        if !steps.is_empty() || !rights.missing.is_empty() {
            let aside = rights.aside.iter();
            steps.extend(aside.flat_map(|right| right.give(login, look.facts.major)));
        }
        for right in &rights.missing {
            if let (Right::NewSchema(name), false) = (right, owner) {
                let rule = format!("`schemas`: there is no schema `{name}` in the database");
                return Err(Error::new(Class::RefusedValue, rule));
            }
            steps.extend(right.give(login, look.facts.major));
        }
        let mut keeps = false;
        if wish.exact() {
            for right in &rights.surplus {
                keeps |= matches!(right, Right::OwnDatabase(_));
                steps.extend(right.take(login, look.keeper));
            }
        }
        let off = diff.is_some_and(|diff| diff.switch == Some(Difference::Enabled));
        let ends_sessions = view.role.filter(|_| off).map(|role| role.oid);
        let is_new = view.role.is_none();
        Ok((
            Work {
                index,
                steps,
                ends_sessions,
                is_new,
            },
            keeps,
        ))
    }

    /// The role itself: that it is there, its password, its switch and its mark.
    fn role_steps(
        &self,
        look: &Look<'_>,
        index: usize,
    ) -> Result<(Vec<Step>, Option<Diff>), Error> {
        let wish = &self.wishes[index];
        let view = look.view(wish, None, None);
        let who = ident(wish.login().as_str());
        let password = || -> Result<String, Error> {
            let made = expected(wish).made()?;
            Ok(format!(" PASSWORD {}", literal(&made)))
        };
        let comment =
            |text: &str| Step::Plain(format!("COMMENT ON ROLE {who} IS {}", literal(text)));
        let mark = wish.mark();
        let Some(role) = view.role else {
            let switch = if wish.enabled() { "LOGIN" } else { "NOLOGIN" };
            let secret = if wish.password().is_some() {
                password()?
            } else {
                String::new()
            };
            let made = Step::Plain(format!("CREATE ROLE {who} {switch}{secret}"));
            return Ok((vec![made, comment(mark.as_str())], None));
        };
        let diff = view.diff(wish, role, self.fit(index, &view, wish));
        let mut options = String::new();
        if diff.password(wish.exact()) && wish.password().is_some() {
            options.push_str(&password()?);
        }
        match diff.switch {
            Some(Difference::Disabled) => {
                options.push_str(" LOGIN");
                if role.expired {
                    options.push_str(" VALID UNTIL 'infinity'");
                }
                if role.limit == 0 && wish.values().connection_limit.is_none() {
                    options.push_str(" CONNECTION LIMIT -1");
                }
            }
            Some(_) => options.push_str(" NOLOGIN"),
            None => {}
        }
        let mut steps = Vec::new();
        if !options.is_empty() {
            steps.push(Step::Plain(format!("ALTER ROLE {who}{options}")));
        }
        if diff.mark != mesh_sdk::MarkSeen::Ours || diff.other_marks {
            steps.push(comment(&marked(role.comment.as_deref(), mark.as_str())));
        }
        Ok((steps, Some(diff)))
    }
}

/// Extensions that could be made on this server.
async fn available(session: &Session) -> Result<BTreeSet<String>, Error> {
    const WHAT: &str = "look at the available extensions";
    let sql = "SELECT name::text FROM pg_available_extensions";
    let rows = session.query(WHAT, sql, &[]).await?;
    rows.iter().map(|row| column(row, 0, WHAT)).collect()
}

/// Why a wish cannot become true on this server as it is.
fn impossible(
    look: &Look<'_>,
    wish: &Wish<'_>,
    available: &BTreeSet<String>,
    to_come: &BTreeSet<&str>,
) -> Option<String> {
    let values = wish.values();
    if let Some(base) = wish.base() {
        let there = look.shared.roles.contains_key(base.as_str());
        return (!there)
            .then(|| format!("the login `{base}`, with which it takes turns, is not there"));
    }
    let (name, owner) = (&values.database, values.privileges == Privileges::Owner);
    if let Some(missing) = values
        .extensions
        .iter()
        .find(|name| !available.contains(*name))
    {
        return Some(format!(
            "`extensions`: `{missing}` is not installed on the server's machine"
        ));
    }
    let Some(database) = look.shared.databases.get(name) else {
        let comes = owner || to_come.contains(name.as_str());
        return (!comes).then(|| {
            format!("`database`: there is no database `{name}`, and no owner to make it for")
        });
    };
    if !database.open {
        return Some(format!("`database`: `{name}` takes no connections"));
    }
    let role = look.shared.roles.get(wish.login().as_str());
    let owns = role.is_some_and(|role| look.shared.owns(role, database));
    let free = Some(database.owner) == look.shared.keeper || database.owner == look.shared.admin;
    (owner && !owns && !free).then(|| {
        let of = &database.owner_name;
        format!(
            "`privileges`: database `{name}` is owned by `{of}`; hand it to the admin login first \
             (`ALTER DATABASE … OWNER TO …`), or ask for `readwrite`"
        )
    })
}

/// Statements for many logins at once, where only the login differs.
pub(super) fn together(wishes: &[Wish<'_>], work: &[Work]) -> Vec<String> {
    let mut all = Vec::new();
    let mut shared: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    for one in work {
        for step in &one.steps {
            match step {
                Step::Plain(text) => all.push(text.clone()),
                Step::For(text) => {
                    let logins = shared.entry(text).or_insert_with(|| {
                        order.push(text);
                        Vec::new()
                    });
                    logins.push(wishes[one.index].login().as_str());
                }
            }
        }
    }
    for text in order {
        let logins = shared.remove(text).unwrap_or_default();
        all.push(format!("{text} {}", super::sql::idents(logins)));
    }
    all
}
