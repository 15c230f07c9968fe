//! Looking at one consumer, and listing all logins. Nothing here writes.

use mesh_sdk::adapter::Listed;
use mesh_sdk::{Answer, Cx, Error, Login, MarkSeen, Marker};

use super::acl::{Shown, split_line};
use super::adapter::{Redis, get_user, read_user};
use super::commands::Table;
use super::compare::{Wish, diff, listed_mark};
use super::connect::Session;
use super::wire::Request;

/// What a user that was looked at means for a wish.
pub(super) fn judge(
    table: &Table,
    wish: &Wish<'_>,
    shown: Option<&Shown>,
) -> Result<Answer, Error> {
    match shown {
        None => Ok(Answer::absent()),
        Some(shown) => Ok(diff(table, wish, shown)?.answer(wish)),
    }
}

impl Redis {
    /// One `ACL GETUSER`.
    pub(super) async fn look_at_one(&self, cx: &Cx, wish: &Wish<'_>) -> Result<Answer, Error> {
        let mut session = self.session(cx).await?;
        let table = self.table(cx, &mut session).await?;
        let shown = get_user(&mut session, wish.login().as_str()).await?;
        judge(&table, wish, shown.as_ref())
    }

    /// Every login.
    pub(super) async fn list_all(&self, cx: &Cx, marker: &Marker) -> Result<Vec<Listed>, Error> {
        let mut session = self.session(cx).await?;
        let mut all = Vec::new();
        let take = |name: &[u8], shown: Shown| all.extend(listed(name, &shown, marker));
        self.each_user(cx, &mut session, take).await?;
        Ok(all)
    }

    /// Every user, by one `ACL LIST` where that is within the budget, and else one by one.
    pub(super) async fn each_user(
        &self,
        cx: &Cx,
        session: &mut Session,
        mut take: impl FnMut(&[u8], Shown) + Send,
    ) -> Result<(), Error> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        let users: [&[u8]; 2] = [b"ACL", b"USERS"];
        let keep = |name: &[u8]| names.push(name.to_vec());
        session
            .wire
            .each_line(cx, "list the logins", &users, keep)
            .await?;
        let run = session.facts.run.clone();
        let count = names.len() as u64;
        self.state.change(&run, |known| known.users = count);
        let sample: Vec<&str> = names
            .iter()
            .filter_map(|n| std::str::from_utf8(n).ok())
            .collect();
        let estimate = self.estimate(cx, session, &sample).await?;
        if estimate.fits(cx.block_budget) {
            let count = whole_list(cx, session, take).await?;
            self.warm(session, estimate.changes, Some(count));
            return Ok(());
        }
        let group = group_size(cx, estimate.per_user);
        one_by_one(cx, session, &names, group, &mut take).await
    }
}

/// How many looks may be in one go. The server works a go off without serving anybody else, so it counts
/// as one command; half the budget leaves room for texts that are dearer than the sample.
pub(super) fn group_size(cx: &Cx, per_user: std::time::Duration) -> usize {
    let per_user = per_user.as_micros().max(1);
    let fit = cx.block_budget.as_micros() / 2 / per_user;
    usize::try_from(fit).unwrap_or(usize::MAX).clamp(1, 256)
}

async fn whole_list(
    cx: &Cx,
    session: &mut Session,
    mut take: impl FnMut(&[u8], Shown) + Send,
) -> Result<usize, Error> {
    let mut count = 0;
    let list: [&[u8]; 2] = [b"ACL", b"LIST"];
    let line = |line: &[u8]| {
        if let Some((name, description)) = split_line(line) {
            take(name, Shown::from_description(description));
            count += 1;
        }
    };
    session
        .wire
        .each_line(cx, "list the logins", &list, line)
        .await?;
    Ok(count)
}

async fn one_by_one(
    cx: &Cx,
    session: &mut Session,
    names: &[Vec<u8>],
    group: usize,
    take: &mut (impl FnMut(&[u8], Shown) + Send),
) -> Result<(), Error> {
    for part in names.chunks(group) {
        let mut request = Request::with_room(part.len() * 64);
        for name in part {
            request.push(&[b"ACL", b"GETUSER", name]);
        }
        session.wire.send(&request).await?;
        for name in part {
            // One that went meanwhile is not in the list.
            if let Some(shown) = read_user(session.wire.reply().await?)? {
                take(name, shown);
            }
        }
        cx.progress();
    }
    Ok(())
}

/// A name that is not UTF-8 was made by somebody else: it is told with its odd bytes replaced, and never
/// as ours.
fn listed(name: &[u8], shown: &Shown, marker: &Marker) -> Option<Listed> {
    let text = String::from_utf8_lossy(name);
    let mark = match std::str::from_utf8(name) {
        Ok(_) => listed_mark(marker, shown),
        Err(_) => MarkSeen::None,
    };
    Some(Listed::new(Login::new(&text).ok()?, mark, shown.on))
}
