//! Looking: at one consumer or at very many, by the same few queries; and listing all logins. Nothing here
//! writes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use mesh_sdk::adapter::{Listed, Sink};
use mesh_sdk::{Answer, Class, Cx, Error, Login, Marker};

use super::adapter::Postgres;
use super::compare::{View, Wish, listed_mark};
use super::hba::Rules;
use super::inside::{Ask, Inside};
use super::measure::doubtful;
use super::proof::{self, Fit, Job};
use super::roles::{self, Shared};
use super::session::{Facts, Session};
use super::values::Privileges;

/// What a look knows of the server as a whole.
pub(super) struct Look<'a> {
    pub(super) shared: Shared,
    pub(super) facts: Facts,
    pub(super) rules: Arc<Rules>,
    pub(super) keeper: &'a str,
}

impl Look<'_> {
    /// What was found about a wish. The reason for an open door has to live as long.
    pub(super) fn view<'v>(
        &'v self,
        wish: &'v Wish<'_>,
        inside: Option<&'v Inside>,
        unenforced: Option<&'v str>,
    ) -> View<'v> {
        View {
            shared: &self.shared,
            role: self.shared.roles.get(wish.login().as_str()),
            database: self.shared.databases.get(&wish.values().database),
            inside,
            superuser: self.facts.superuser,
            verifiers: self.facts.verifiers,
            keeper: self.keeper,
            unenforced,
        }
    }

    /// Looks into one database of the server that was looked at, and of no other.
    async fn inside_of(
        &self,
        cx: &Cx,
        session: &Session,
        wishes: &[Wish<'_>],
    ) -> Result<Inside, Error> {
        let same = session.must_be_of(&self.facts.started);
        let (_, inside) = tokio::try_join!(same, self.inside(cx, session, wishes))?;
        Ok(inside)
    }

    /// Looks into one database, for some wishes.
    pub(super) async fn inside(
        &self,
        cx: &Cx,
        session: &Session,
        wishes: &[Wish<'_>],
    ) -> Result<Inside, Error> {
        let each = wishes.iter().flat_map(|wish| &wish.values().schemas);
        let schemas: BTreeSet<&str> = each.map(String::as_str).collect();
        let schemas: Vec<&str> = schemas.into_iter().collect();
        let role = |wish: &Wish<'_>| self.shared.roles.get(wish.login().as_str());
        let owned = wishes
            .iter()
            .any(|wish| wish.values().privileges == Privileges::Owner);
        let ask = Ask {
            schemas: schemas.clone(),
            roles: wishes
                .iter()
                .filter_map(role)
                .map(|role| role.oid)
                .collect(),
            extensions: wishes
                .iter()
                .any(|wish| !wish.values().extensions.is_empty()),
            absent: wishes.iter().any(|wish| role(wish).is_none()),
            keeper: self.shared.keeper.filter(|_| owned),
        };
        let mut inside = Inside::read(cx, session, &ask).await?;
        let (mut lacking, mut beyond) = (Vec::new(), BTreeSet::new());
        for wish in wishes {
            let doubts = doubtful(&self.view(wish, Some(&inside), None), wish);
            lacking.extend(doubts.lacking);
            beyond.extend(doubts.beyond.into_iter().map(|(role, _)| role));
        }
        inside.read_lacking(session, &lacking).await?;
        let beyond: Vec<u32> = beyond.into_iter().collect();
        inside.read_beyond(session, &schemas, &beyond).await?;
        cx.progress();
        Ok(inside)
    }
}

/// Which databases to look into, and for which wishes.
pub(super) fn by_database<'w>(
    shared: &Shared,
    wishes: &'w [Wish<'_>],
    indices: impl Iterator<Item = usize>,
) -> BTreeMap<&'w str, Vec<usize>> {
    let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for index in indices {
        let name = wishes[index].values().database.as_str();
        if shared
            .databases
            .get(name)
            .is_some_and(|database| database.open)
        {
            groups.entry(name).or_default().push(index);
        }
    }
    groups
}

impl Postgres {
    /// The look at the server as a whole.
    pub(super) async fn look<'a>(
        &'a self,
        cx: &Cx,
        session: &Session,
        wishes: &[Wish<'_>],
    ) -> Result<Look<'a>, Error> {
        let total = self.roles.load(Ordering::Relaxed);
        let shared = roles::look(cx, session, wishes, self.keeper(), total);
        let (shared, rules) = tokio::try_join!(shared, self.rules(session))?;
        let facts = session.facts.clone();
        Ok(Look {
            shared,
            facts,
            rules,
            keeper: self.keeper(),
        })
    }

    /// Answers for all; each as soon as it is known.
    pub(super) async fn look_at_all(
        &self,
        cx: &Cx,
        wishes: &[Wish<'_>],
        answers: &Sink<Answer>,
    ) -> Result<(), Error> {
        let session = self.endpoint.admin().await?;
        cx.progress();
        let mut look = self.look(cx, &session, wishes).await?;
        session.close();
        look.rules = self
            .try_canary(&look.facts.configured, Arc::clone(&look.rules))
            .await?;
        let there = |index: &usize| {
            look.shared
                .roles
                .contains_key(wishes[*index].login().as_str())
        };
        let (there, absent): (Vec<usize>, Vec<usize>) = (0..wishes.len()).partition(there);
        answers.put_each(
            absent
                .into_iter()
                .map(|index| (index, Ok(Answer::absent()))),
        );
        let mut asking = Asking {
            postgres: self,
            cx,
            wishes,
            answers,
            look: &look,
            insides: HashMap::new(),
        };
        let groups = by_database(&look.shared, wishes, there.iter().copied());
        let outside = there.iter().copied().filter(|index| {
            let database = wishes[*index].values().database.as_str();
            !groups.contains_key(database)
        });
        let mut left: Vec<usize> = outside
            .filter(|index| !asking.put_outside(*index))
            .collect();
        left.extend(asking.databases(groups).await?);
        asking.prove(left).await
    }

    /// Every login, with its mark judged.
    pub(super) async fn list_all(&self, cx: &Cx, marker: &Marker) -> Result<Vec<Listed>, Error> {
        let session = self.endpoint.admin().await?;
        let all = roles::all(&session).await?;
        session.close();
        cx.progress();
        let listed = |(name, role): (String, roles::Role)| {
            let mark = listed_mark(marker, role.comment.as_deref().unwrap_or_default());
            Some(Listed::new(
                Login::new(&name).ok()?,
                mark,
                role.login && !role.expired,
            ))
        };
        Ok(all.into_iter().filter_map(listed).collect())
    }
}

/// One look at many.
struct Asking<'a, 'w> {
    postgres: &'a Postgres,
    cx: &'a Cx,
    wishes: &'a [Wish<'w>],
    answers: &'a Sink<Answer>,
    look: &'a Look<'a>,
    insides: HashMap<&'a str, Inside>,
}

impl<'a> Asking<'a, '_> {
    fn judge(&self, index: usize, fit: Option<Fit>) -> Option<Answer> {
        let wish = &self.wishes[index];
        let database = wish.values().database.as_str();
        let open = self.look.rules.unenforced(wish.login().as_str(), database);
        let view = self
            .look
            .view(wish, self.insides.get(database), open.as_deref());
        let Some(role) = view.role else {
            return Some(Answer::absent());
        };
        let fit = fit.unwrap_or_else(|| view.fit(wish));
        let tries = fit == Fit::Untold && self.tries_login(wish);
        (fit != Fit::Unknown && !tries).then(|| view.diff(wish, role, fit).answer(wish))
    }

    /// The same for one whose database cannot be looked into: what is in it is not known.
    fn put_outside(&self, index: usize) -> bool {
        let name = &self.wishes[index].values().database;
        if self.look.shared.databases.contains_key(name) {
            let message = format!("database `{name}` takes no connections");
            self.answers
                .put(index, Err(Error::new(Class::Busy, message)));
            return true;
        }
        self.put(index)
    }

    /// Puts the answer, if nothing has to be worked out or tried for it.
    fn put(&self, index: usize) -> bool {
        match self.judge(index, None) {
            Some(answer) => self.answers.put(index, Ok(answer)),
            None => return false,
        }
        true
    }

    /// Whether logging in as this consumer can tell more than the catalogues do.
    fn tries_login(&self, wish: &Wish<'_>) -> bool {
        let role = self.look.shared.roles.get(wish.login().as_str());
        let may = role.is_some_and(|role| role.login && !role.expired && role.limit != 0);
        let database = &wish.values().database;
        !self.look.facts.verifiers
            && may
            && wish.password().is_some()
            && self.postgres.endpoint.may_carry_passwords()
            && self
                .look
                .rules
                .unenforced(wish.login().as_str(), database)
                .is_none()
    }

    /// Looks into the databases, a few at once. Gives those that are left to be proven.
    async fn databases(
        &mut self,
        groups: BTreeMap<&'a str, Vec<usize>>,
    ) -> Result<Vec<usize>, Error> {
        let most = usize::try_from(self.postgres.endpoint.options.connections).unwrap_or(1);
        let (mut left, mut waiting) = (Vec::new(), groups.into_iter());
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < most
                && let Some((database, indices)) = waiting.next()
            {
                running.push(look_inside(
                    self.postgres,
                    self.cx,
                    self.look,
                    self.wishes,
                    database,
                    indices,
                ));
            }
            let Some((database, indices, found)) = running.next().await else {
                return Ok(left);
            };
            match found {
                Ok(inside) => {
                    self.insides.insert(database, inside);
                    left.extend(indices.into_iter().filter(|index| !self.put(*index)));
                }
                Err(error) if ends_all(&error) => return Err(error),
                Err(error) => {
                    let unknown = indices.into_iter().map(|index| (index, Err(error.clone())));
                    self.answers.put_each(unknown);
                }
            }
        }
    }

    /// Works out verifiers that were not seen before, or logs in where none can be read.
    async fn prove(&self, left: Vec<usize>) -> Result<(), Error> {
        if !self.look.facts.verifiers {
            return self.log_in(left).await;
        }
        let job = |index: &usize| {
            let wish = &self.wishes[*index];
            let role = self.look.shared.roles.get(wish.login().as_str())?;
            Job::prove(*index, wish, role.verifier.as_deref()?)
        };
        let (jobs, rests) = proof::of_one_look(left.iter().filter_map(job).collect());
        if rests {
            self.cx.rest();
        }
        proof::work(self.cx, jobs, |index| {
            self.put(index);
        })
        .await
    }

    async fn log_in(&self, mut left: Vec<usize>) -> Result<(), Error> {
        left.sort_unstable();
        let tried = self.postgres.next_slice(&left);
        for index in left.iter().filter(|index| !tried.contains(index)) {
            self.put_as(*index, Fit::Untold);
        }
        for (index, fit) in self.postgres.try_logins(self.cx, self.wishes, tried).await {
            match fit {
                Ok(fit) => self.put_as(index, fit),
                Err(error) if ends_all(&error) => return Err(error),
                Err(error) => self.answers.put(index, Err(error)),
            }
        }
        Ok(())
    }

    fn put_as(&self, index: usize, fit: Fit) {
        let wish = &self.wishes[index];
        let view_inside = self.insides.get(wish.values().database.as_str());
        let view = self.look.view(wish, view_inside, None);
        if let Some(role) = view.role {
            let answer = view.diff(wish, role, fit).answer(wish);
            self.answers.put(index, Ok(answer));
        }
    }
}

async fn look_inside<'a>(
    postgres: &'a Postgres,
    cx: &Cx,
    look: &Look<'_>,
    wishes: &[Wish<'_>],
    database: &'a str,
    indices: Vec<usize>,
) -> (&'a str, Vec<usize>, Result<Inside, Error>) {
    let some: Vec<Wish<'_>> = indices.iter().map(|index| wishes[*index]).collect();
    let found = async {
        let endpoint = &postgres.endpoint;
        let mut session = endpoint.unasked_in(database).await?;
        cx.progress();
        let mut found = look.inside_of(cx, &session, &some).await;
        // A kept session that is dead says nothing of the server.
        if session.was_kept() && found.as_ref().is_err_and(ends_all) {
            session = endpoint.instead_of(session, database).await?;
            found = look.inside_of(cx, &session, &some).await;
        }
        let inside = found?;
        session.close();
        Ok(inside)
    };
    let found = found.await;
    (database, indices, found)
}

/// Whether an error says that nobody else will be answered either.
pub(super) fn ends_all(error: &Error) -> bool {
    matches!(error.class(), Class::Unreachable | Class::TimedOut)
}
