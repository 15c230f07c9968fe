//! Many at once: one reading of the whole tables, and statements that make many accounts each (H-16).

use std::collections::BTreeMap;
use std::time::Duration;

use mesh_sdk::adapter::{Listed, Sink};
use mesh_sdk::{Answer, Class, Cx, Error, MarkSeen, Marker};
use tokio::time::Instant;

use super::adapter::Mariadb;
use super::compare::{Wish, diff, listed_mark, login_of};
use super::connect::Session;
use super::memory::Judge;
use super::read::{Whose, ask_for_databases, read};
use super::statements::{Statement, whole};

/// How many accounts the first statement makes, and the least that any does. Later ones follow from what it
/// took. A statement has a cost of its own, 4 ms on a server with 10,000 accounts, so that fewer would
/// hardly be shorter: on a busy machine they went down to one each, at more than twice the work for all.
const FIRST: usize = 16;
/// The most that one statement makes.
const MOST: usize = 500;
/// How many statements go out in one packet.
const PACKET: usize = 64;
/// How many are compared before others get their turn.
const TURN: usize = 512;

impl Mariadb {
    /// Every wish, from one reading.
    pub(super) async fn look_at_all(
        &self,
        cx: &Cx,
        wishes: &[Wish<'_>],
        answers: &Sink<Answer>,
    ) -> Result<(), Error> {
        let mut session = self.session(cx).await?;
        let databases = ask_for_databases(wishes);
        let seen = read(cx, &mut session, Whose::of(wishes), databases).await?;
        drop(session);
        let judge = Judge::new(&seen, wishes, &self.fingerprints);
        for (part, some) in wishes.chunks(TURN).enumerate() {
            let found = {
                let _computing = cx.computing();
                let answer =
                    |(at, wish): (usize, &Wish<'_>)| (part * TURN + at, judge.answer(wish));
                some.iter().enumerate().map(answer).collect::<Vec<_>>()
            };
            answers.put_each(found);
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Every login that the server holds, whatever hosts its accounts have.
    pub(super) async fn list_all(&self, cx: &Cx, marker: &Marker) -> Result<Vec<Listed>, Error> {
        let mut session = self.session(cx).await?;
        let seen = read(cx, &mut session, Whose::All, false).await?;
        let mut all: BTreeMap<&str, (MarkSeen, bool)> = BTreeMap::new();
        for account in seen.accounts()? {
            let mark = listed_mark(marker, account);
            let enabled = !account.locked;
            match all.get_mut(account.user.as_str()) {
                // Removing touches only what carries our mark, so ours is what counts here.
                Some(known) if is_ours(&known.0) && is_ours(&mark) => known.1 |= enabled,
                Some(known) if is_ours(&known.0) => {}
                Some(known) if is_ours(&mark) => *known = (mark, enabled),
                Some(known) => known.1 |= enabled,
                None => drop(all.insert(&account.user, (mark, enabled))),
            }
        }
        let listed = all.into_iter().filter_map(|(user, (mark, enabled))| {
            Some(Listed::new(login_of(user)?, mark, enabled))
        });
        Ok(listed.collect())
    }

    /// Those that are not there by shared statements, all others by their differences.
    pub(super) async fn create_many(
        &self,
        cx: &Cx,
        wishes: &[Wish<'_>],
        outcomes: &Sink<()>,
    ) -> Result<(), Error> {
        let mut session = self.writer(cx).await?;
        let databases = ask_for_databases(wishes);
        let seen = read(cx, &mut session, Whose::of(wishes), databases).await?;
        let mut absent = Vec::new();
        for (index, wish) in wishes.iter().enumerate() {
            if let Err(error) = self.may_write(wish) {
                outcomes.put(index, Err(error));
                continue;
            }
            let found = match diff(wish, &seen) {
                Ok(found) => found,
                Err(error) => {
                    outcomes.put(index, Err(error));
                    continue;
                }
            };
            if found.absent && found.shadows.is_empty() {
                absent.push((index, whole(wish, &found)));
                continue;
            }
            let outcome = self.write(cx, &mut session, wish, &seen, &found).await;
            put(outcomes, index, outcome)?;
        }
        let mut batch = Batch::new(cx, &mut session, absent);
        batch.run().await?;
        let Batch { done, singly, .. } = batch;
        outcomes.put_each(done.into_iter().map(|index| (index, Ok(()))));
        // Whoever was in a statement that failed is looked at and made for itself: one bad wish stops no
        // other, and has its own error.
        for index in singly {
            let outcome = self.apply(cx, &mut session, &wishes[index]).await;
            put(outcomes, index, outcome)?;
        }
        Ok(())
    }
}

fn is_ours(mark: &MarkSeen) -> bool {
    matches!(mark, MarkSeen::OursFor(_))
}

/// Keeps an outcome; a connection that is gone ends the whole call.
fn put(outcomes: &Sink<()>, index: usize, outcome: Result<(), Error>) -> Result<(), Error> {
    if let Err(error) = &outcome
        && is_broken(error)
    {
        return Err(error.clone());
    }
    outcomes.put(index, outcome);
    Ok(())
}

fn is_broken(error: &Error) -> bool {
    matches!(error.class(), Class::Unreachable | Class::TimedOut)
}

/// Statements for many wishes, shared where they may be.
struct Batch<'a> {
    cx: &'a Cx,
    session: &'a mut Session,
    /// Of each wish, its statements in their order.
    left: Vec<(usize, std::vec::IntoIter<Statement>)>,
    done: Vec<usize>,
    singly: Vec<usize>,
    /// How many accounts a statement may have.
    size: usize,
}

/// One statement, and whose it is.
struct Shared {
    those: Vec<usize>,
    sql: String,
}

/// How many accounts a statement may have, when each took so long: with a margin, for a server that is
/// busier the next time.
fn fitting(budget: Duration, each: Duration) -> usize {
    let fit = budget.as_micros() * 3 / 5 / each.as_micros().max(1);
    usize::try_from(fit).unwrap_or(MOST).clamp(FIRST, MOST)
}

impl<'a> Batch<'a> {
    fn new(cx: &'a Cx, session: &'a mut Session, all: Vec<(usize, Vec<Statement>)>) -> Self {
        let left = all
            .into_iter()
            .map(|(index, each)| (index, each.into_iter()));
        Self {
            cx,
            session,
            left: left.collect(),
            done: Vec::new(),
            singly: Vec::new(),
            size: FIRST,
        }
    }

    /// Step by step: the first statement of each wish, then the second of each, and so on.
    async fn run(&mut self) -> Result<(), Error> {
        while !self.left.is_empty() {
            let mut shared: BTreeMap<(String, String), Vec<(usize, String)>> = BTreeMap::new();
            let mut left = Vec::with_capacity(self.left.len());
            for (index, mut statements) in std::mem::take(&mut self.left) {
                match statements.next() {
                    None => self.done.push(index),
                    Some(one) => {
                        let key = (one.head, one.tail);
                        shared.entry(key).or_default().push((index, one.item));
                        left.push((index, statements));
                    }
                }
            }
            self.left = left;
            self.step(shared).await?;
        }
        Ok(())
    }

    async fn step(
        &mut self,
        shared: BTreeMap<(String, String), Vec<(usize, String)>>,
    ) -> Result<(), Error> {
        let mut packet = Vec::new();
        for ((head, tail), items) in shared {
            // A statement about many is sent for itself, so that its time tells how many fit.
            let may_share = head.starts_with("CREATE USER ") || head.starts_with("GRANT ");
            let mut items = &items[..];
            while !items.is_empty() {
                let size = if may_share {
                    self.size.min(items.len())
                } else {
                    1
                };
                let (now, rest) = items.split_at(size);
                items = rest;
                let list: Vec<&str> = now.iter().map(|(_, item)| item.as_str()).collect();
                let one = Shared {
                    those: now.iter().map(|(index, _)| *index).collect(),
                    sql: format!("{head}{}{tail}", list.join(", ")),
                };
                if size == 1 {
                    packet.push(one);
                } else {
                    self.send_timed(one).await?;
                }
                if packet.len() == PACKET {
                    self.send(std::mem::take(&mut packet)).await?;
                }
            }
        }
        self.send(packet).await
    }

    /// A statement for many blocks logins while it runs, so the next one is as large as the budget lets it.
    async fn send_timed(&mut self, one: Shared) -> Result<(), Error> {
        let (count, begun) = (one.those.len() as u32, Instant::now());
        self.send(vec![one]).await?;
        let each = begun.elapsed() / count;
        self.size = fitting(self.cx.block_budget, each);
        Ok(())
    }

    /// Sends statements in one packet. Those of one that fails are taken out, and the rest is sent again.
    async fn send(&mut self, packet: Vec<Shared>) -> Result<(), Error> {
        let mut packet = &packet[..];
        while !packet.is_empty() {
            let text: Vec<&str> = packet.iter().map(|one| one.sql.as_str()).collect();
            let text = text.join("; ");
            let (done, failed) = self.session.run_each("make logins", &text).await;
            self.cx.progress();
            match failed {
                None => return Ok(()),
                Some(error) if is_broken(&error) => return Err(error),
                Some(_) => {
                    if let Some(bad) = packet.get(done) {
                        self.singly.extend(&bad.those);
                        self.left.retain(|(index, _)| !bad.those.contains(index));
                    }
                    packet = packet.get(done + 1..).unwrap_or_default();
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! How many accounts a statement has.
    use super::*;

    #[test]
    fn h16_a_statement_has_as_many_accounts_as_the_budget_lets_it() {
        let fit = |micros| fitting(Duration::from_millis(50), Duration::from_micros(micros));
        assert_eq!(fit(500), 60);
        assert_eq!(fit(0), MOST);
        assert_eq!(fit(20_000), FIRST, "fewer would hardly be shorter");
    }
}
