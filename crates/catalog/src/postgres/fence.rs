//! The fence: what an earlier holder of the lease still writes is refused by the server itself (B-4).
//!
//! It is one word in the comment of our own login there, the canary, so it needs no right and no object more
//! than we have. Each transaction demands that the word stands there before anything else, in the same packet. The
//! first one of a holder puts it there, in a transaction of its own, and then waits until every transaction
//! is over that may have asked for it before: the lock by which they wait for each other is one of each database.
//!
//! Without a canary there is no fence; while the canary is not there, nothing is demanded.

use std::time::Duration;

use mesh_sdk::adapter::{Fence, Standing};
use mesh_sdk::{Class, Cx, Error, Login};
use tokio::time::sleep;

use super::adapter::Postgres;
use super::batch::{AT_IT, transaction};
use super::roles::{self, column};
use super::session::{Failed, Session};
use super::sql::{ident, literal};

const WHAT: &str = "keep the fence";
/// What the server says of a demand that is not met: it takes this word for a number, and refuses that.
const NOT_SO: &str = "meshkeeper-fence";
/// How often the comment may change under our hands.
const TRIES: u32 = 5;
/// How often it is looked for transactions from before, and for how long: the server ends each after 60 s.
const LOOK: Duration = Duration::from_millis(20);
const LOOKS: u32 = 3_000;

/// Where the fence is kept.
struct Place<'a> {
    fence: &'a Fence,
    canary: &'a Login,
}

impl Place<'_> {
    /// A statement that fails unless the comment fulfils a condition on `c`.
    fn demand(&self, condition: &str) -> String {
        let canary = literal(self.canary.as_str());
        format!(
            "SELECT CASE WHEN {condition} THEN 0 ELSE ('{NOT_SO}' || coalesce(length(c), 0))::int4 END \
             FROM (SELECT (SELECT d.description FROM pg_catalog.pg_roles r \
               JOIN pg_catalog.pg_shdescription d ON d.objoid = r.oid \
                 AND d.classoid = 'pg_catalog.pg_authid'::regclass \
               WHERE r.rolname = {canary}) AS c OFFSET 0) kept"
        )
    }
    /// The fence stands there.
    fn stands(&self) -> String {
        let word = literal(&self.fence.to_string());
        self.demand(&format!("{word} = ANY (regexp_split_to_array(c, '\\s+'))"))
    }
    /// The comment with the fence, and no other one. What a person wrote stays.
    fn comment(&self, before: &str) -> String {
        let old = |word: &&str| word.starts_with(Fence::PREFIX);
        let mut kept = before.to_owned();
        for word in before.split_whitespace().filter(old) {
            kept = kept.replacen(word, "", 1);
        }
        let word = self.fence;
        let (who, kept) = (ident(self.canary.as_str()), kept.trim());
        let text = if kept.is_empty() {
            word.to_string()
        } else {
            format!("{word} {kept}")
        };
        format!("COMMENT ON ROLE {who} IS {}", literal(&text))
    }
}

impl Postgres {
    /// Some statements as one transaction, which writes nothing once a later holder wrote. The first of a
    /// holder takes some round trips more, all others none.
    pub(super) async fn transaction(
        &self,
        cx: &Cx,
        session: &Session,
        statements: &[String],
    ) -> Result<(), Failed> {
        let (Some(fence), Some(canary)) = (&cx.fence, &cx.canary) else {
            return transaction(session, statements).await;
        };
        let place = Place { fence, canary };
        let mut demanding = vec![place.stands()];
        demanding.extend(statements.iter().cloned());
        for _ in 0..TRIES {
            if !self.keeps(fence) && !self.raise(cx, session, &place).await? {
                return transaction(session, statements).await;
            }
            match transaction(session, &demanding).await {
                Err(failed) if failed.says(NOT_SO) => self.keep(None),
                other => return other,
            }
        }
        Err(restless().into())
    }

    /// The same demand for what cannot be in a transaction, right before it.
    pub(super) async fn demand_fence(&self, cx: &Cx, session: &Session) -> Result<(), Failed> {
        match (&cx.fence, &cx.canary) {
            (Some(_), Some(_)) => {
                self.transaction(cx, session, &["SELECT 1".to_owned()])
                    .await
            }
            _ => Ok(()),
        }
    }

    fn keeps(&self, fence: &Fence) -> bool {
        self.fence
            .lock()
            .is_ok_and(|kept| kept.as_ref() == Some(fence))
    }
    fn keep(&self, fence: Option<Fence>) {
        if let Ok(mut kept) = self.fence.lock() {
            *kept = fence;
        }
    }

    /// Has the server keep the fence, if no later one stands there. Answers whether there is a place for it.
    async fn raise(&self, cx: &Cx, session: &Session, place: &Place<'_>) -> Result<bool, Failed> {
        for _ in 0..TRIES {
            let name = place.canary.as_str();
            let Some(canary) = roles::named(session, &[name]).await?.remove(name) else {
                return Ok(false);
            };
            cx.progress();
            let comment = canary.comment.unwrap_or_default();
            let kept = Fence::find(&comment);
            if place.fence.standing(kept.as_ref()) == Standing::Newer {
                let same = format!("coalesce(c, '') = {}", literal(&comment));
                // Changing the role's own row first waits for whoever does the same in another database, and
                // fails if that was done meanwhile.
                let mine = format!("ALTER ROLE {} NOLOGIN", ident(name));
                let raising = [mine, place.demand(&same), place.comment(&comment)];
                match transaction(session, &raising).await {
                    Ok(()) => {}
                    Err(failed) if failed.says(NOT_SO) || failed.is_concurrent() => continue,
                    Err(failed) => return Err(failed),
                }
            } else if let Some(by) = kept.filter(|kept| kept != place.fence) {
                return Err(place.fence.outdone(&by).into());
            }
            self.wait_for_earlier(cx, session).await?;
            self.keep(Some(place.fence.clone()));
            return Ok(true);
        }
        Err(restless().into())
    }

    /// Returns when every transaction is over that may have found an earlier fence.
    async fn wait_for_earlier(&self, cx: &Cx, session: &Session) -> Result<(), Error> {
        let mut earlier: Option<Vec<(i32, String)>> = None;
        for _ in 0..LOOKS {
            let mut now = Vec::new();
            for row in session.query(WHAT, AT_IT, &[]).await? {
                now.push((column(&row, 0, WHAT)?, column::<String>(&row, 1, WHAT)?));
            }
            let left: Vec<_> = match earlier {
                None => now,
                Some(earlier) => earlier
                    .into_iter()
                    .filter(|one| now.contains(one))
                    .collect(),
            };
            if left.is_empty() {
                return Ok(());
            }
            earlier = Some(left);
            cx.progress();
            sleep(LOOK).await;
        }
        let message = format!("{WHAT}: a transaction from before it does not end");
        Err(Error::new(Class::Busy, message))
    }
}

fn restless() -> Error {
    let message = format!("{WHAT}: the canary's comment changes all the time");
    Error::new(Class::Busy, message)
}
