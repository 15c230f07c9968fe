//! Looking at many consumers with as few calls as there can be (H-16).
//!
//! Three ways, chosen at each look: a few are looked at one by one; where the server's list is within the
//! budget, it is read once and compared line by line; and else presence comes from the names, passwords
//! are proven by logging in where that is safe, and rights are read for a slice that moves on.
//! `docs/decisions/0010-redis-bulk.md` has the figures.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mesh_sdk::adapter::Sink;
use mesh_sdk::{Answer, Cx, Error, Proof};

use super::acl::{Shown, split_line};
use super::adapter::{Redis, read_user};
use super::commands::Table;
use super::compare::{Expected, Wish, expected};
use super::connect::Session;
use super::look::{group_size, judge};
use super::wire::{Reply, Request};

/// Up to so many, each is looked at by itself.
const FEW: usize = 64;
/// How many answers are put at once.
const CHUNK: usize = 1024;
/// How many logins are tried in one go.
const LOGINS: usize = 512;
/// Where looking at each by itself takes no more than so many budgets in all, each is looked at. No single
/// go takes more than half a budget.
const ALL: u32 = 4;

impl Redis {
    /// Chooses a way and goes it.
    pub(super) async fn look_at_all(
        &self,
        cx: &Cx,
        wishes: &[Wish<'_>],
        answers: &Sink<Answer>,
    ) -> Result<(), Error> {
        let mut session = self.session(cx).await?;
        let table = self.table(cx, &mut session).await?;
        let all: Vec<usize> = (0..wishes.len()).collect();
        let mut look = Look {
            redis: self,
            cx,
            wishes,
            answers,
            table: &table,
            session: &mut session,
        };
        if wishes.len() <= FEW {
            return look.each(&all, 16).await;
        }
        if cx.after_effect && self.endpoint.may_carry_passwords() {
            // The server said yes to each whole rule a moment ago: a login proves the rest.
            return look.by_login(all, None).await;
        }
        let sample: Vec<&str> = wishes.iter().map(|w| w.login().as_str()).collect();
        let estimate = self.estimate(cx, look.session, &sample).await?;
        if estimate.fits(cx.block_budget) {
            look.list(estimate.changes).await
        } else {
            look.names_first(estimate.per_user).await
        }
    }
}

/// One bulk look.
struct Look<'a, 'w> {
    redis: &'a Redis,
    cx: &'a Cx,
    wishes: &'a [Wish<'w>],
    answers: &'a Sink<Answer>,
    table: &'a Table,
    session: &'a mut Session,
}

impl Look<'_, '_> {
    /// The whole list, compared line by line as it comes.
    async fn list(&mut self, changes: Option<u64>) -> Result<(), Error> {
        let list = Request::one(&[b"ACL", b"LIST"]);
        self.session.wire.send(&list).await?;
        // All that needs no answer is done while the server works its answer out.
        let mut join = Join::new(self.cx, self.wishes);
        let expected = self.expectations();
        let mut seen = vec![false; self.wishes.len()];
        let mut ready = Vec::with_capacity(CHUNK);
        let seed = self.seed();
        let (redis, wishes, table, answers) = (self.redis, self.wishes, self.table, self.answers);
        let take = |line: &[u8]| {
            let Some((name, description)) = split_line(line) else {
                return;
            };
            for index in join.find(name) {
                let (wish, expected) = (&wishes[*index], &expected[*index]);
                let answer = compare_line(redis, table, wish, expected, description, seed);
                seen[*index] = true;
                ready.push((*index, answer));
            }
            if ready.len() >= CHUNK {
                answers.put_each(ready.drain(..));
            }
        };
        let lines = self
            .session
            .wire
            .lines(self.cx, "list the logins", take)
            .await?;
        // Only a list that came whole proves that somebody is not in it.
        let absent = seen.iter().enumerate().filter(|(_, seen)| !**seen);
        ready.extend(absent.map(|(index, _)| (index, Ok(Answer::absent()))));
        self.answers.put_each(ready);
        self.redis.warm(self.session, changes, Some(lines));
        Ok(())
    }

    /// Names, then logins, then a slice of the rights.
    async fn names_first(&mut self, per_user: Duration) -> Result<(), Error> {
        let mut join = Join::new(self.cx, self.wishes);
        let mut present = vec![false; self.wishes.len()];
        let take = |name: &[u8]| {
            join.find(name)
                .iter()
                .for_each(|index| present[*index] = true)
        };
        let names: [&[u8]; 2] = [b"ACL", b"USERS"];
        let lines = self
            .session
            .wire
            .each_line(self.cx, "list the names", &names, take)
            .await?;
        let run = self.session.facts.run.clone();
        self.redis
            .state
            .change(&run, |known| known.users = lines as u64);
        let (there, gone): (Vec<usize>, Vec<usize>) =
            (0..self.wishes.len()).partition(|index| present[*index]);
        self.answers
            .put_each(gone.into_iter().map(|index| (index, Ok(Answer::absent()))));
        let group = group_size(self.cx, per_user);
        if there.len() <= affordable(self.cx.block_budget * ALL, per_user) && !self.cx.after_effect
        {
            return self.each(&there, group).await;
        }
        let most = affordable(self.cx.block_budget, per_user);
        let slice = (!self.cx.after_effect).then_some((most, group));
        self.by_login(there, slice).await
    }

    /// Proves passwords by logging in, and looks at the rights of those for whom that is not enough.
    async fn by_login(
        &mut self,
        mut there: Vec<usize>,
        slice: Option<(usize, usize)>,
    ) -> Result<(), Error> {
        let group = slice.map_or(16, |(_, group)| group);
        let may_log_in = self.redis.endpoint.may_carry_passwords();
        let mut doubtful = Vec::new();
        let (try_them, look_at): (Vec<usize>, Vec<usize>) = there.iter().partition(|index| {
            let wish = &self.wishes[**index];
            // One login proves one password, and no more.
            wish.enabled() && wish.password().is_some() && wish.second_password().is_none()
        });
        doubtful.extend(look_at);
        if may_log_in {
            doubtful.extend(self.log_in(&try_them).await?);
        } else {
            // Nothing cheap proves a password here, and none goes over this connection in plain.
            let held = try_them
                .iter()
                .map(|index| (*index, Ok(Answer::held(Proof::Presence))));
            self.answers.put_each(held);
        }
        if let Some((most, _)) = slice {
            there.sort_unstable_by_key(|index| self.wishes[*index].login());
            doubtful.extend(self.next_slice(&there, most));
            doubtful.sort_unstable();
            doubtful.dedup();
        }
        self.each(&doubtful, group).await
    }

    /// Logs in as each on a connection of its own. Answers for whom it worked; gives back the others.
    async fn log_in(&mut self, those: &[usize]) -> Result<Vec<usize>, Error> {
        let mut doubtful = Vec::new();
        let mut wire = self.redis.endpoint.dial().await?;
        for part in those.chunks(LOGINS) {
            let mut request = Request::with_room(part.len() * 128);
            for index in part {
                let wish = &self.wishes[*index];
                let password = wish.password().map(|p| p.expose()).unwrap_or_default();
                request.push(&[b"AUTH", wish.login().as_str().as_bytes(), password]);
            }
            wire.send(&request).await?;
            let mut held = Vec::with_capacity(part.len());
            for index in part {
                match wire.reply().await? {
                    Reply::Error(text) if text.starts_with("WRONGPASS") => doubtful.push(*index),
                    reply => {
                        reply.ok("log in as a consumer")?;
                        held.push((*index, Ok(Answer::held(Proof::Login))));
                    }
                }
            }
            self.answers.put_each(held);
            self.cx.progress();
        }
        Ok(doubtful)
    }

    /// The next so many after those of the last look, in the order of their logins.
    fn next_slice(&self, sorted: &[usize], most: usize) -> Vec<usize> {
        let run = self.session.facts.run.clone();
        let after = self.redis.state.of(&run).cursor;
        let login = |index: &usize| self.wishes[*index].login().as_str();
        let start = sorted.partition_point(|index| login(index) <= after.as_str());
        let slice: Vec<usize> = sorted[start..]
            .iter()
            .chain(&sorted[..start])
            .take(most)
            .copied()
            .collect();
        if let Some(last) = slice.last() {
            let cursor = login(last).to_owned();
            self.redis.state.change(&run, |known| known.cursor = cursor);
        }
        slice
    }

    /// Looks at each by itself, `group` in one go.
    async fn each(&mut self, those: &[usize], group: usize) -> Result<(), Error> {
        for part in those.chunks(group) {
            let mut request = Request::with_room(part.len() * 64);
            for index in part {
                let login = self.wishes[*index].login().as_str();
                request.push(&[b"ACL", b"GETUSER", login.as_bytes()]);
            }
            self.session.wire.send(&request).await?;
            for index in part {
                let shown = read_user(self.session.wire.reply().await?)?;
                let answer = judge(self.table, &self.wishes[*index], shown.as_ref());
                self.answers.put(*index, answer);
            }
            self.cx.progress();
        }
        Ok(())
    }

    fn expectations(&self) -> Vec<Arc<Expected>> {
        let _computing = self.cx.computing();
        self.wishes.iter().map(expected).collect()
    }

    /// Stands for all that a description's meaning depends on beside its text and the wish.
    fn seed(&self) -> u64 {
        let prefix = self.wishes.first().map(|wish| wish.marker().own_prefix());
        let facts = &self.session.facts;
        self.redis.fingerprints.hash_one((&facts.title, prefix))
    }
}

/// Finds the wishes for names. Both servers list names in the order of their bytes (seen on 6.2.5, 7.0.15
/// and 9.1.2), so the next name is mostly where the last one left off; any other order is found as well.
struct Join<'w> {
    logins: Vec<&'w [u8]>,
    places: Vec<usize>,
    at: usize,
}

impl<'w> Join<'w> {
    fn new(cx: &Cx, wishes: &[Wish<'w>]) -> Self {
        let _computing = cx.computing();
        let all = wishes.iter().enumerate();
        let mut all: Vec<(&[u8], usize)> = all
            .map(|(place, wish)| (wish.login().as_str().as_bytes(), place))
            .collect();
        // Quick where they are in order already.
        all.sort();
        let (logins, places) = all.into_iter().unzip();
        Self {
            logins,
            places,
            at: 0,
        }
    }

    /// Where the wishes for this name are.
    fn find(&mut self, name: &[u8]) -> &[usize] {
        let mut from = self.at;
        let before = from.checked_sub(1).and_then(|last| self.logins.get(last));
        if before.is_some_and(|last| *last >= name) {
            from = self.logins.partition_point(|login| *login < name);
        }
        from += self.logins[from..]
            .iter()
            .take_while(|login| **login < name)
            .count();
        let found = self.logins[from..]
            .iter()
            .take_while(|login| **login == name)
            .count();
        self.at = from + found;
        &self.places[from..self.at]
    }
}

/// How many looks fit into a span of the server's time.
fn affordable(span: Duration, per_user: Duration) -> usize {
    usize::try_from(span.as_micros() / per_user.as_micros().max(1)).unwrap_or(usize::MAX)
}

/// One line of the list. The same text as when it was last found held means the same.
fn compare_line(
    redis: &Redis,
    table: &Table,
    wish: &Wish<'_>,
    expected: &Expected,
    description: &[u8],
    seed: u64,
) -> Result<Answer, Error> {
    let print = redis
        .fingerprints
        .hash_one((seed, wish.exact(), description))
        .max(1);
    if expected.held_as.load(Ordering::Relaxed) == print {
        return Ok(Answer::held(Proof::Verifier));
    }
    let answer = judge(table, wish, Some(&Shown::from_description(description)))?;
    let plainly = Answer::held(Proof::Verifier);
    let kept = if answer == plainly { print } else { 0 };
    expected.held_as.store(kept, Ordering::Relaxed);
    Ok(answer)
}

#[cfg(test)]
mod tests {
    //! Names find their wishes in whatever order they come.
    use std::sync::Arc;

    use mesh_sdk::provision::WishParts;
    use mesh_sdk::{ConsumerName, Login, Marker, MeshId, ProviderName, Provision, Secret};
    use proptest::prelude::*;

    use super::super::values::RedisValues;
    use super::*;

    fn wish(login: &str) -> mesh_sdk::Wish {
        let parts = WishParts {
            consumer: ConsumerName::new("web").expect("a name"),
            login: Login::new(login).expect("a login"),
            password: None,
            values: Arc::new(RedisValues::default()),
            canonical_values: Vec::new(),
            enabled: true,
            adopt: false,
            exact: false,
            second: None,
            base: None,
            generated: false,
        };
        mesh_sdk::Wish::new(parts, &Secret::from("key"))
    }

    proptest! {
        #[test]
        fn names_find_their_wishes(
            logins in proptest::collection::vec("[a-c]{1,2}", 0..12),
            names in proptest::collection::vec("[a-d]{1,2}", 0..24),
        ) {
            let (mesh, provider) = (MeshId::new("m").expect("m"), ProviderName::new("p").expect("p"));
            let marker = Marker::new(mesh, "i", provider, Secret::from("key"));
            let all: Vec<mesh_sdk::Wish> = logins.iter().map(|login| wish(login)).collect();
            let views = all.iter().map(|one| Provision::of(one, false, &marker).expect("typed"));
            let views: Vec<Wish<'_>> = views.collect();
            let mut join = Join::new(&Cx::default(), &views);
            for name in &names {
                let mut found = join.find(name.as_bytes()).to_vec();
                found.sort_unstable();
                let there = (0..logins.len()).filter(|at| logins[*at] == *name);
                prop_assert_eq!(found, there.collect::<Vec<_>>());
            }
        }
    }
}
