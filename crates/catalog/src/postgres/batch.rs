//! Carrying statements out: many logins in one transaction; where that is refused, each in its own.

use std::sync::atomic::Ordering;
use std::time::Duration;

use mesh_sdk::{Class, Error};
use tokio::time::{Instant, sleep};
use tokio_postgres::types::Type;

use super::apply::{Making, together};
use super::rights::Step;
use super::session::{Failed, Session};

/// How many logins go into the first transaction of a process. Later ones follow from what it took: a new verifier takes
/// the server 4 ms with 4,096 rounds, and next to nothing with one.
pub(super) const FIRST: usize = 64;
/// How long a transaction is meant to take: others who change rights on the same tables wait for it.
const MEANT: Duration = Duration::from_millis(250);
/// The least and the most logins of one transaction.
const LEAST: usize = 16;
const MOST: usize = 1_000;
/// How often a statement is said again that met somebody else's change of the same row (O-30), and the
/// first wait, which doubles.
const TRIES: u32 = 7;
const WAIT: Duration = Duration::from_millis(10);
/// Our own transactions that change rights in a database go one after the other, whoever runs them.
const ONE_AT_A_TIME: &str = "SELECT pg_advisory_xact_lock(1835365224, 1)";
/// Who of ours is in such a transaction, in whatever database: each has its turn before it asks for the fence.
/// Anybody may hold a lock of that number, and is not waited for.
pub(super) const AT_IT: &str = "SELECT l.pid, l.virtualtransaction FROM pg_locks l \
     JOIN pg_stat_activity a ON a.pid = l.pid AND a.usename = current_user \
     WHERE l.locktype = 'advisory' AND l.classid = 1835365224 AND l.objid = 1 AND l.objsubid = 2 \
       AND l.granted AND l.pid <> pg_backend_pid()";

/// What has to be said for one wish.
pub(super) struct Work {
    pub(super) index: usize,
    pub(super) steps: Vec<Step>,
    /// The role whose sessions end with it.
    pub(super) ends_sessions: Option<u32>,
    /// The role was not there when it was looked for.
    pub(super) is_new: bool,
}

impl Making<'_, '_> {
    /// Carries out; gives those that failed, whose errors are told.
    pub(super) async fn carry_out(
        &mut self,
        session: &Session,
        work: Vec<Work>,
    ) -> Result<Vec<usize>, Error> {
        let mut failed = Vec::new();
        let mut left = &work[..];
        while !left.is_empty() {
            let (part, rest) = left.split_at(self.size.min(left.len()));
            left = rest;
            let begun = Instant::now();
            let said = self.say(session, part).await;
            if said.is_ok() {
                self.size = fitting(part.len(), begun.elapsed());
                self.postgres.fits.store(self.size, Ordering::Relaxed);
            }
            match said {
                Ok(()) => {}
                // One alone was said already: nothing else would come of saying it again.
                Err(error) if part.len() == 1 && !error.is_concurrent() => {
                    if !self.judge(&part[0], Err(error))? {
                        failed.push(part[0].index);
                    }
                }
                Err(error) if error.is_refusal() => {
                    for one in part {
                        if !self.say_alone(session, one).await? {
                            failed.push(one.index);
                        }
                    }
                }
                Err(error) => return Err(error.told("make the logins")),
            }
            for one in part.iter().filter(|one| !failed.contains(&one.index)) {
                if let Some(role) = one.ends_sessions {
                    end_sessions(session, role).await?;
                }
            }
            self.cx.progress();
        }
        Ok(failed)
    }

    async fn say(&self, session: &Session, work: &[Work]) -> Result<(), Failed> {
        let said = together(self.wishes, work);
        self.postgres.transaction(self.cx, session, &said).await
    }

    /// One alone. Whether it was done.
    async fn say_alone(&mut self, session: &Session, work: &Work) -> Result<bool, Error> {
        let mut wait = WAIT;
        for _ in 1..TRIES {
            match self.say(session, std::slice::from_ref(work)).await {
                Err(error) if error.is_concurrent() => sleep(wait).await,
                other => return self.judge(work, other),
            }
            wait *= 2;
        }
        let last = self.say(session, std::slice::from_ref(work)).await;
        self.judge(work, last)
    }

    fn judge(&mut self, work: &Work, done: Result<(), Failed>) -> Result<bool, Error> {
        let Err(failed) = done else { return Ok(true) };
        let what = format!("make `{}`", self.wishes[work.index].login());
        let error = failed.told(&what);
        if !failed.is_refusal() {
            return Err(error);
        }
        if error.class() == Class::Exists && work.is_new {
            self.again.push(work.index);
        }
        self.fail(work.index, error);
        Ok(false)
    }
}

/// How many fit into the next transaction, when so many took so long. A few say little of many.
fn fitting(count: usize, took: Duration) -> usize {
    let each = (took.as_micros() / count.max(1) as u128).max(1);
    let fit = usize::try_from(MEANT.as_micros() / each).unwrap_or(MOST);
    fit.clamp(LEAST, MOST.min(4 * count.max(LEAST)))
}

/// Some statements as one transaction, in one round trip. A refusal leaves the connection usable.
pub(super) async fn transaction(session: &Session, statements: &[String]) -> Result<(), Failed> {
    // Whoever owns a database may have set another level: the fence is looked at behind the lock, not before.
    let statements = statements.join("; ");
    let sql =
        format!("BEGIN ISOLATION LEVEL READ COMMITTED; {ONE_AT_A_TIME}; {statements}; COMMIT");
    let done = session.run(&sql).await;
    if let Err(error) = &done
        && error.is_refusal()
    {
        session.run("ROLLBACK").await?;
    }
    done
}

/// Ends the sessions of a role, and waits until they are over.
pub(super) async fn end_sessions(session: &Session, role: u32) -> Result<(), Error> {
    const WHAT: &str = "end the sessions of a login";
    let end = match session.facts.major {
        14.. => "pg_terminate_backend(pid, 5000)",
        _ => "pg_terminate_backend(pid)",
    };
    // Whoever was just being let in shows up a moment later.
    for _ in 0..3 {
        let sql = format!("SELECT {end} FROM pg_stat_activity WHERE usesysid = $1");
        let ended = session.query(WHAT, &sql, &[(&role, Type::OID)]).await?;
        if ended.is_empty() {
            return Ok(());
        }
    }
    let sql = "SELECT FROM pg_stat_activity WHERE usesysid = $1";
    let left = session.query(WHAT, sql, &[(&role, Type::OID)]).await?;
    if left.is_empty() {
        return Ok(());
    }
    let message = format!("{WHAT}: {} are still open", left.len());
    Err(Error::new(Class::Busy, message))
}

#[cfg(test)]
mod tests {
    //! How many logins a transaction has.
    use super::*;

    #[test]
    fn h16_a_transaction_has_as_many_logins_as_the_server_makes_in_its_time() {
        let fit = |count, millis| fitting(count, Duration::from_millis(millis));
        assert_eq!(fit(64, 256), 62, "4 ms each: 4,096 rounds");
        assert_eq!(fit(64, 6_400), LEAST, "a server that is busy");
        assert_eq!(fit(64, 1), 256, "no more than four times as many as before");
        assert_eq!(fit(500, 1), MOST);
        assert_eq!(fit(1, 0), 64, "one that took no time");
    }
}
