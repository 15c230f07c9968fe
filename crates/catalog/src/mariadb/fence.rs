//! The fence: an earlier holder of the lease writes nothing once a later one wrote (B-4).
//!
//! No transaction holds account statements, so what writes has its turn: a lock of the server's that bears the
//! name of our own login there, the canary, for as long as the connection lasts. Behind it the holder sees to
//! it that its fence, which is one more right of the canary that grants nothing, is the last one. Who has the lock
//! and does not go on loses its connection to a holder that may write, and with it whatever it would still send.
//!
//! Without a canary there is no fence. The lock is one of each server: nodes of a cluster do not share it.

use std::sync::Arc;

use mesh_sdk::adapter::{Fence, Standing};
use mesh_sdk::{Class, Cx, Error, Login};

use super::adapter::Mariadb;
use super::connect::{Session, text};
use super::sql;

const WHAT: &str = "keep the fence";
/// What the names of databases begin with that stand for a fence. No mark has such a part.
const PLACE: &str = "mk1.=fence.";
/// For so many seconds a turn is waited for; then whoever has it is looked at.
const WAIT: u32 = 3;
/// How often somebody else may have it.
const TRIES: u32 = 5;

/// A fence as a right on a table that does not exist, in a database that does not.
fn place(fence: &Fence) -> Option<String> {
    let word = fence.to_string();
    let mut parts = word.strip_prefix(Fence::PREFIX)?.splitn(3, '.');
    let (epoch, number, holder) = (parts.next()?, parts.next()?, parts.next()?);
    let database = format!("{PLACE}{epoch}.{number}");
    Some(format!("{}.{}", sql::name(&database), sql::name(holder)))
}

/// The same backwards.
fn read(database: &str, table: &str) -> Option<Fence> {
    let number = database.strip_prefix(PLACE)?;
    Fence::find(&format!("{}{number}.{table}", Fence::PREFIX))
}

/// What stands on the server; none if there is no canary.
async fn standing(
    cx: &Cx,
    session: &mut Session,
    canary: &Login,
) -> Result<Option<Vec<Fence>>, Error> {
    let ask = format!(
        "SELECT g.User, t.Db, t.Table_name FROM mysql.global_priv g LEFT JOIN mysql.tables_priv t \
           ON t.User = g.User AND t.Host = g.Host AND t.Db LIKE '{PLACE}%' \
         WHERE g.User = {} AND g.Host = '%'",
        sql::text(canary.as_str())
    );
    let rows = session.rows(WHAT, &ask, || cx.progress()).await?;
    let fence = |row: &mysql_async::Row| read(&text(row, 1)?, &text(row, 2)?);
    let found: Vec<Fence> = rows.iter().filter_map(fence).collect();
    Ok((!rows.is_empty()).then_some(found))
}

/// The error for a fence that a later one outdid.
fn refuse(fence: &Fence, kept: &[Fence]) -> Result<(), Error> {
    let outdone = |kept: &&Fence| fence.standing(Some(kept)) == Standing::Outdone;
    match kept.iter().find(outdone) {
        Some(by) => Err(fence.outdone(by)),
        None => Ok(()),
    }
}

impl Mariadb {
    /// A connection that may write until it is dropped.
    pub(super) async fn writer(&self, cx: &Cx) -> Result<Session, Error> {
        let (Some(fence), Some(canary)) = (&cx.fence, &cx.canary) else {
            return self.session(cx).await;
        };
        // Calls of this process do not take each other for somebody who stands still.
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let mut session = self.session(cx).await?;
        session.turn = Some(turn);
        // A server may keep names in lower case.
        let fence = Fence::find(&fence.to_string().to_ascii_lowercase());
        let fence = fence.ok_or_else(|| Error::new(Class::Bug, format!("{WHAT}: no fence")))?;
        let name = sql::text(canary.as_str());
        for _ in 0..TRIES {
            let Some(kept) = standing(cx, &mut session, canary).await? else {
                return Ok(session);
            };
            refuse(&fence, &kept)?;
            if locked(cx, &mut session, &name).await? {
                raise(cx, &mut session, &fence, canary).await?;
                return Ok(session);
            }
            // It may be a later holder, which has written by now what it is.
            let kept = standing(cx, &mut session, canary).await?;
            refuse(&fence, &kept.unwrap_or_default())?;
            end_turn(cx, &mut session, &name).await?;
        }
        let message = format!("{WHAT}: somebody else has the lock {name} all the time");
        Err(Error::new(Class::Busy, message))
    }
}

async fn locked(cx: &Cx, session: &mut Session, name: &str) -> Result<bool, Error> {
    let lock = format!("SELECT GET_LOCK({name}, {WAIT})");
    let rows = session.rows(WHAT, &lock, || cx.progress()).await?;
    let got = rows.first().and_then(|row| text(row, 0));
    Ok(got.as_deref() == Some("1"))
}

/// Ends the connection that has the lock.
async fn end_turn(cx: &Cx, session: &mut Session, name: &str) -> Result<(), Error> {
    let whose = format!("SELECT IS_USED_LOCK({name})");
    let rows = session.rows(WHAT, &whose, || cx.progress()).await?;
    let Some(whose) = rows.first().and_then(|row| text(row, 0)) else {
        return Ok(());
    };
    let kill = format!("KILL HARD CONNECTION {whose}");
    match session.run(WHAT, &kill).await {
        Err(error) if error.class() == Class::Gone => Ok(()),
        other => other,
    }
}

/// Behind the lock: the fence stands there, and no earlier one.
async fn raise(cx: &Cx, session: &mut Session, fence: &Fence, canary: &Login) -> Result<(), Error> {
    let kept = standing(cx, session, canary).await?.unwrap_or_default();
    refuse(fence, &kept)?;
    let account = sql::account(canary.as_str(), "%");
    // The new one first: half done, there is no moment without any.
    if !kept.contains(fence)
        && let Some(place) = place(fence)
    {
        let grant = format!("GRANT CREATE ON {place} TO {account}");
        session.run(WHAT, &grant).await?;
    }
    for place in kept.iter().filter(|kept| *kept != fence).filter_map(place) {
        let revoke = format!("REVOKE CREATE ON {place} FROM {account}");
        match session.run(WHAT, &revoke).await {
            Err(error) if error.class() == Class::Gone => {}
            other => other?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! A fence comes back as it went in.
    use super::*;

    #[test]
    fn b4_a_fence_is_a_right_that_grants_nothing() {
        let fence = Fence::new(2, 17, "host-a-x1");
        let text = place(&fence).expect("a place");
        assert_eq!(text, "`mk1.=fence.2.17`.`host-a-x1`");
        assert_eq!(read("mk1.=fence.2.17", "host-a-x1"), Some(fence));
        let long = Fence::new(u64::MAX, u64::MAX, &"x".repeat(90));
        let text = place(&long).expect("a place");
        assert!(
            text.split("`.`")
                .all(|part| part.trim_matches('`').len() <= 64)
        );
        for (database, table) in [
            ("mk1.home.i1.cache.web", "1-1.mac"),
            ("mk1.=fence.x.1", "a"),
        ] {
            assert_eq!(read(database, table), None);
        }
    }
}
