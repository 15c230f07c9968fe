//! How long one of our commands would block the server (H-16), found out before it is sent.
//!
//! `ACL LIST` and `ACL SAVE` work out the text of every user. Redis from 7.0 on and Valkey keep a text
//! until its user changes; 6.2 works all of them out each time. What one text takes is sampled with a few
//! `ACL GETUSER`, by the server's own account of its time, so that neither the network nor a busy machine
//! of ours counts. How many texts are to be worked out follows from the server's count of `ACL SETUSER`
//! and `ACL LOAD` calls, which includes everybody's.

use std::time::Duration;

use mesh_sdk::{Cx, Error};

use super::adapter::Redis;
use super::classify;
use super::connect::{Session, field};
use super::wire::Request;

/// How many looks one sample has, and how many samples are taken. The quickest counts, since the server's
/// account of its time includes the moments in which the machine ran something else.
const SAMPLE: usize = 8;
const SAMPLES: usize = 2;
/// What one text takes where the server keeps rules as they were given (Valkey 9.1.2: 15 us).
const KEPT: Duration = Duration::from_micros(15);
/// What one text is taken to cost where nobody could be sampled: more than was ever measured.
const UNKNOWN: Duration = Duration::from_millis(1);
/// A reload counts as so many changes: all users.
const RELOAD: u64 = 1 << 40;

/// What the server counted up to now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counted {
    /// Changes of users, by anybody.
    pub(super) changes: u64,
    /// Time spent on `ACL GETUSER`, in microseconds; before 7.0 on any `ACL` command.
    looked: u64,
    /// `ACL LIST` and `ACL SAVE` that succeeded, by anybody: each worked every text out.
    warmed: u64,
    /// `ACL SAVE` that succeeded, by anybody.
    saved: u64,
}

/// What working out every text that is not kept would take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Estimate {
    /// All of it.
    pub(super) block: Duration,
    /// One text.
    pub(super) per_user: Duration,
    /// The count that this was worked out with; none where nobody has to count.
    pub(super) changes: Option<u64>,
}

impl Estimate {
    /// Whether a list may be read, or saved, now.
    pub(super) fn fits(&self, budget: Duration) -> bool {
        self.block <= budget
    }
}

impl Counted {
    /// From the text of `INFO commandstats`.
    fn read(info: &str) -> Self {
        let of = |command: &str, name: &str| -> Option<u64> {
            let all = field(info, &format!("cmdstat_{command}"))?;
            let number = all
                .split(',')
                .find_map(|f| f.strip_prefix(name)?.strip_prefix('='))?;
            number.parse().ok()
        };
        let calls = |command: &str| of(command, "calls").unwrap_or(0);
        let fine =
            |command: &str| calls(command).saturating_sub(of(command, "failed_calls").unwrap_or(0));
        let looked = of("acl|getuser", "usec").or_else(|| of("acl", "usec"));
        Self {
            changes: calls("acl|setuser") + calls("acl|load").saturating_mul(RELOAD),
            looked: looked.unwrap_or(0),
            warmed: fine("acl|list") + fine("acl|save"),
            saved: fine("acl|save"),
        }
    }
}

impl Redis {
    /// What the server counted. Where somebody listed or saved since the last time and nobody changed a
    /// user, every text is worked out.
    pub(super) async fn counted(&self, session: &mut Session) -> Result<Counted, Error> {
        let args: [&[u8]; 2] = [b"INFO", b"commandstats"];
        let info = session.text("read the server's counters", &args).await?;
        let now = Counted::read(&info);
        self.state.change(&session.facts.run, |known| {
            let before = known.counted.replace(now);
            let Some(before) = before.filter(|before| before.changes == now.changes) else {
                return;
            };
            if now.warmed > before.warmed {
                known.warm_at = Some(now.changes);
            }
            if now.saved > before.saved {
                known.unsaved = None;
            }
        });
        Ok(now)
    }

    /// What a list or a save would take now. `sample` names users to look at where the cost of one is
    /// not known yet.
    ///
    /// A server that keeps rules as they were given is not asked: its list is read as it is. The first
    /// one after a start or a mass change works texts out there too, at a fiftieth of the cost.
    pub(super) async fn estimate(
        &self,
        cx: &Cx,
        session: &mut Session,
        sample: &[&str],
    ) -> Result<Estimate, Error> {
        if session.facts.keeps_rules {
            return Ok(Estimate {
                block: Duration::ZERO,
                per_user: KEPT,
                changes: None,
            });
        }
        let run = session.facts.run.clone();
        let counted = self.counted(session).await?;
        let known = self.state.of(&run);
        let keeps = session.facts.selectors;
        let fresh = known.warm_at.and_then(|at| counted.changes.checked_sub(at));
        let cold = match fresh {
            Some(changed) if keeps => changed.min(known.users + changed % RELOAD),
            _ if known.users > 0 => known.users,
            _ => self.count_users(cx, session).await?,
        };
        let block =
            |per_user: Duration| per_user.saturating_mul(u32::try_from(cold).unwrap_or(u32::MAX));
        let is_known = known
            .per_user
            .filter(|cost| block(*cost) <= cx.block_budget);
        let per_user = match is_known {
            Some(cost) => cost,
            // Not known, or too dear by the last sample: it may have been a bad moment.
            None => self
                .sample(cx, session, sample)
                .await?
                .or(known.per_user)
                .unwrap_or(UNKNOWN),
        };
        Ok(Estimate {
            block: block(per_user),
            per_user,
            changes: Some(counted.changes),
        })
    }

    /// The time that the server takes for one `ACL GETUSER`, which is about that for one text.
    async fn sample(
        &self,
        cx: &Cx,
        session: &mut Session,
        names: &[&str],
    ) -> Result<Option<Duration>, Error> {
        let mut best: Option<Duration> = None;
        let step = names.len().div_ceil(SAMPLE * SAMPLES).max(1);
        let mut names = names.iter().step_by(step).cycle();
        let mut before = self.counted(session).await?;
        for _ in 0..SAMPLES {
            let mut request = Request::with_room(1024);
            for name in names.by_ref().take(SAMPLE) {
                request.push(&[b"ACL", b"GETUSER", name.as_bytes()]);
            }
            session.wire.send(&request).await?;
            let mut there = 0;
            for _ in 0..request.commands() {
                let reply = session.wire.reply().await?.ok("look at a login")?;
                there += u32::from(reply.list().is_some());
            }
            cx.progress();
            let after = self.counted(session).await?;
            let spent = Duration::from_micros(after.looked.saturating_sub(before.looked).max(1));
            if let Some(each) = spent.checked_div(there) {
                best = Some(best.map_or(each, |best| best.min(each)));
            }
            before = after;
        }
        if best.is_some() {
            self.state
                .change(&session.facts.run, |known| known.per_user = best);
        }
        Ok(best)
    }

    async fn count_users(&self, cx: &Cx, session: &mut Session) -> Result<u64, Error> {
        let names: [&[u8]; 2] = [b"ACL", b"USERS"];
        let users = session
            .wire
            .each_line(cx, "count the logins", &names, |_| ())
            .await?;
        let users = u64::try_from(users).map_err(|_| classify::garbled("count the logins"))?;
        let run = session.facts.run.clone();
        self.state.change(&run, |known| known.users = users);
        Ok(users)
    }

    /// Notes that every text was worked out: at the count that was read before, so that a change in
    /// between counts as one more.
    pub(super) fn warm(&self, session: &Session, changes: Option<u64>, users: Option<usize>) {
        let run = session.facts.run.clone();
        self.state.change(&run, |known| {
            known.warm_at = changes;
            if let Some(users) = users {
                known.users = users as u64;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    //! The server's counters, as 7.0 and 6.2 write them.
    use super::*;

    #[test]
    fn h16_counters_are_read_from_both_forms() {
        let seven = "# Commandstats\r\ncmdstat_acl|setuser:calls=12,usec=100,usec_per_call=8.33\r\n\
                     cmdstat_acl|load:calls=1,usec=5\r\ncmdstat_acl|getuser:calls=3,usec=2400,x=1\r\n\
                     cmdstat_acl|save:calls=3,usec=9,usec_per_call=3.0,rejected_calls=0,failed_calls=2\r\n";
        let read = Counted::read(seven);
        assert_eq!((read.changes, read.looked), (12 + RELOAD, 2400));
        assert_eq!((read.warmed, read.saved), (1, 1));
        let six = Counted::read("cmdstat_acl:calls=7,usec=70,usec_per_call=10.00\r\n");
        assert_eq!((six.changes, six.looked), (0, 70));
        assert_eq!(Counted::read(""), Counted::default());
    }
}
