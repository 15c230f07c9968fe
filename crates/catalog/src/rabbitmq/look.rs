//! Looking at one consumer or at many, and listing all logins. Nothing here writes.

use std::collections::HashMap;

use futures_util::try_join;
use mesh_sdk::adapter::{Listed, Sink};
use mesh_sdk::{Answer, Class, Cx, Error, Login, Marker};

use super::adapter::Rabbit;
use super::api::{Permission, Shown, TopicPermission, User};
use super::compare::{Wish, diff, listed_mark};
use super::hash;

/// Up to so many, each is looked at by itself: three short calls, where a list has every login of the
/// server in it.
pub(super) const FEW: usize = 8;
/// How many answers are put at once.
const CHUNK: usize = 1024;

fn judge(wish: &Wish<'_>, shown: Option<&Shown<&User>>) -> Answer {
    match shown {
        None => Answer::absent(),
        Some(shown) => diff(wish, shown).answer(wish),
    }
}

impl Rabbit {
    /// Three short calls.
    pub(super) async fn look_at_one(&self, cx: &Cx, wish: &Wish<'_>) -> Result<Answer, Error> {
        let shown = self.api()?.look(cx, wish.login().as_str()).await?;
        Ok(judge(
            wish,
            shown.as_ref().map(|one| one.part(&one.users)).as_ref(),
        ))
    }

    /// Three calls for however many.
    pub(super) async fn look_at_all(
        &self,
        cx: &Cx,
        wishes: &[Wish<'_>],
        answers: &Sink<Answer>,
    ) -> Result<(), Error> {
        if wishes.len() <= FEW {
            let mut api = self.api()?;
            for (index, wish) in wishes.iter().enumerate() {
                let shown = api.look(cx, wish.login().as_str()).await?;
                let shown = shown.as_ref().map(|one| one.part(&one.users));
                answers.put(index, Ok(judge(wish, shown.as_ref())));
            }
            return Ok(());
        }
        let all = self.look_at_everything(cx).await?;
        let _computing = cx.computing();
        let index = Index::of(&all);
        for (chunk, part) in wishes.chunks(CHUNK).enumerate() {
            let judged = part.iter().enumerate().map(|(at, wish)| {
                let shown = index.find(wish.login().as_str());
                (chunk * CHUNK + at, Ok(judge(wish, shown.as_ref())))
            });
            answers.put_each(judged.collect::<Vec<_>>());
        }
        Ok(())
    }

    /// Every user with all rights: three calls, side by side, since the server makes each list by a process
    /// of its own. One that takes fewer at once is asked one after the other.
    pub(super) async fn look_at_everything(&self, cx: &Cx) -> Result<Shown<Vec<User>>, Error> {
        let (mut one, mut two, mut three) = (self.api()?, self.api()?, self.api()?);
        let all = try_join!(one.users(cx), two.permissions(cx), three.topics(cx));
        let (users, permissions, topics) = match all {
            Err(error) if error.class() == Class::Busy => (
                one.users(cx).await?,
                one.permissions(cx).await?,
                one.topics(cx).await?,
            ),
            all => all?,
        };
        Ok(Shown {
            users,
            permissions,
            topics,
        })
    }

    /// Every login, by one call.
    pub(super) async fn list_all(&self, cx: &Cx, marker: &Marker) -> Result<Vec<Listed>, Error> {
        let users = self.api()?.users(cx).await?;
        let listed = |user: &User| {
            let usable = hash::is_usable(&user.password_hash, &user.hashing_algorithm);
            let enabled = usable && !user.is_limited_to_none();
            let mark = listed_mark(marker, user);
            Login::new(&user.name)
                .ok()
                .map(|login| Listed::new(login, mark, enabled))
        };
        Ok(users.iter().filter_map(listed).collect())
    }
}

impl Shown<User> {
    /// The same, borrowed as [`Index::find`] gives it.
    pub(super) fn part<'a>(&self, user: &'a User) -> Shown<&'a User> {
        Shown {
            users: user,
            permissions: self.permissions.clone(),
            topics: self.topics.clone(),
        }
    }
}

/// All logins by their names, each with its rights.
pub(super) struct Index<'a>(HashMap<&'a str, Entry<'a>>);

struct Entry<'a> {
    user: &'a User,
    permissions: Vec<&'a Permission>,
    topics: Vec<&'a TopicPermission>,
}

impl<'a> Index<'a> {
    pub(super) fn of(all: &'a Shown<Vec<User>>) -> Self {
        let entry = |user: &'a User| {
            let entry = Entry {
                user,
                permissions: Vec::new(),
                topics: Vec::new(),
            };
            (user.name.as_str(), entry)
        };
        let mut index: HashMap<&str, Entry<'_>> = all.users.iter().map(entry).collect();
        for one in &all.permissions {
            if let Some(entry) = index.get_mut(one.user.as_str()) {
                entry.permissions.push(one);
            }
        }
        for one in &all.topics {
            if let Some(entry) = index.get_mut(one.user.as_str()) {
                entry.topics.push(one);
            }
        }
        Self(index)
    }
    pub(super) fn find(&self, login: &str) -> Option<Shown<&'a User>> {
        self.0.get(login).map(|entry| Shown {
            users: entry.user,
            permissions: entry.permissions.iter().map(|p| (*p).clone()).collect(),
            topics: entry.topics.iter().map(|t| (*t).clone()).collect(),
        })
    }
}
