//! Deleting a virtual host that consumers of ours left: the one way, by a person's word.
//!
//! A virtual host has no owner. One that was made here says so in its description, and no other is deleted.

use std::collections::BTreeSet;

use mesh_sdk::{Class, Cx, Error};
use serde::Deserialize;

use super::adapter::Rabbit;
use super::api::Api;

/// The virtual host that every server has.
pub(super) const DEFAULT: &str = "/";

/// A connection, as the statistics have it.
#[derive(Deserialize)]
struct Connection {
    #[serde(default)]
    user: String,
    #[serde(default)]
    vhost: String,
}

impl Rabbit {
    /// What would go, in one line.
    pub(super) async fn data_named(&self, cx: &Cx, name: &str) -> Result<Option<String>, Error> {
        may_purge(name)?;
        self.left(cx, &mut self.api()?, name).await
    }

    /// Looks again, and deletes it.
    pub(super) async fn purge_named(&self, cx: &Cx, name: &str) -> Result<(), Error> {
        may_purge(name)?;
        let mut api = self.api()?;
        match self.left(cx, &mut api, name).await? {
            Some(_) => api.delete_vhost(cx, name).await,
            None => Ok(()),
        }
    }

    /// A virtual host that was made here and that nobody may use, in words; nothing where there is none.
    async fn left(&self, cx: &Cx, api: &mut Api<'_>, name: &str) -> Result<Option<String>, Error> {
        let Some(vhost) = api.vhost(cx, name).await? else {
            return Ok(None);
        };
        if !vhost.is_ours() {
            return Err(stays(name, "Meshkeeper did not make it"));
        }
        let permissions = api.permissions_in(cx, name).await?;
        let mut users: BTreeSet<String> = permissions.into_iter().map(|p| p.user).collect();
        let path = "/connections?columns=user,vhost";
        let open: Vec<Connection> = api.get(cx, "look at the open sessions", path).await?;
        let here = open.into_iter().filter(|one| one.vhost == name);
        users.extend(here.map(|one| one.user));
        let mut who = Vec::new();
        for user in users {
            if !self.is_admin(cx, api, &user).await? {
                who.push(format!("`{user}`"));
            }
            if who.len() == 4 {
                break;
            }
        }
        if !who.is_empty() {
            return Err(stays(
                name,
                &format!("it may still be used by {}", who.join(", ")),
            ));
        }
        let messages = match vhost.messages {
            Some(messages) => format!("with {messages} messages some seconds ago"),
            None => "with an unknown number of messages".to_owned(),
        };
        Ok(Some(format!(
            "virtual host `{name}`, its queues and exchanges, {messages}"
        )))
    }

    async fn is_admin(&self, cx: &Cx, api: &mut Api<'_>, user: &str) -> Result<bool, Error> {
        if user == self.admin() {
            return Ok(true);
        }
        let shown = api.user(cx, user).await?;
        let administers = |tag: &String| tag == "administrator";
        Ok(shown.is_some_and(|user| user.tags().iter().any(administers)))
    }
}

fn may_purge(name: &str) -> Result<(), Error> {
    let rule = match name {
        DEFAULT => "is the one that every server has, and never deleted",
        "" | "." | ".." => "is no name of one that could be deleted",
        _ => return Ok(()),
    };
    Err(Error::new(
        Class::RefusedValue,
        format!("virtual host `{name}` {rule}"),
    ))
}

fn stays(name: &str, why: &str) -> Error {
    Error::new(Class::Exists, format!("virtual host `{name}` stays: {why}"))
}
