//! Finding: every user of the server as the values under which it would be held as it stands. Nothing here
//! writes.

use mesh_sdk::adapter::Found;
use mesh_sdk::{Cx, Error, Login, MarkSeen, Marker};

use super::adapter::Rabbit;
use super::api::{Permission, Shown, TopicPermission, User};
use super::check;
use super::compare::listed_mark;
use super::hash;
use super::look::Index;
use super::values::{Access, RabbitValues, Topic};

impl Rabbit {
    /// Three calls for however many, as for a look.
    pub(super) async fn find_all(
        &self,
        cx: &Cx,
        marker: &Marker,
    ) -> Result<Vec<Found<RabbitValues>>, Error> {
        let all = self.look_at_everything(cx).await?;
        let _computing = cx.computing();
        let index = Index::of(&all);
        let found = all.users.iter().filter_map(|user| {
            let foreign = match listed_mark(marker, user) {
                MarkSeen::Foreign => true,
                MarkSeen::OursFor(consumer) => consumer.is_canary(),
                _ => false,
            };
            if foreign || self.may_touch(&user.name).is_err() {
                return None;
            }
            found(&index.find(&user.name)?)
        });
        Ok(found.collect())
    }
}

fn found(shown: &Shown<&User>) -> Option<Found<RabbitValues>> {
    let user = shown.users;
    let login = Login::new(&user.name).ok()?;
    let mut beyond = Vec::new();
    let values = values(shown, &mut beyond);
    let usable = hash::is_usable(&user.password_hash, &user.hashing_algorithm);
    let mut one = Found::new(login, values);
    one.enabled = usable && !user.is_limited_to_none();
    if user.password_hash.is_empty() {
        beyond.push("it has no password: whoever logs in as it does so by another way".to_owned());
    }
    for (limit, value) in user.limits.as_object().into_iter().flatten() {
        beyond.push(format!("limit {limit} {value}"));
    }
    one.beyond = beyond;
    Some(one)
}

/// Everything that values have a word for; the rest is told.
fn values(shown: &Shown<&User>, beyond: &mut Vec<String>) -> RabbitValues {
    let login = &shown.users.name;
    let mut values = RabbitValues::default();
    let mut permissions: Vec<&Permission> = shown.permissions.iter().collect();
    // The one that is called like the login comes first, then the one that every server has.
    permissions.sort_by_key(|p| (p.vhost != *login, p.vhost != "/", p.vhost.clone()));
    for one in permissions {
        let told = || format!("permissions in virtual host {}", one.vhost);
        keep(&mut values, beyond, told, |values| {
            add_permission(values, one)
        });
    }
    for one in shown
        .topics
        .iter()
        .filter(|topic| !topic.exchange.is_empty())
    {
        let told = || format!("topic permissions on {} in {}", one.exchange, one.vhost);
        keep(&mut values, beyond, told, |values| add_topic(values, one));
    }
    for tag in shown.users.tags() {
        if !tag.starts_with(Marker::PREFIX) {
            let told = || format!("tag {tag}");
            keep(&mut values, beyond, told, |values| {
                values.tags.push(tag.clone())
            });
        }
    }
    values
}

/// Adds something, unless values with it would be refused: then it is told.
fn keep(
    values: &mut RabbitValues,
    beyond: &mut Vec<String>,
    told: impl Fn() -> String,
    add: impl Fn(&mut RabbitValues),
) {
    let mut with = values.clone();
    add(&mut with);
    match check::values(&with) {
        Ok(()) => *values = with,
        Err(_) => beyond.push(told().chars().filter(|c| !c.is_control()).collect()),
    }
}

fn add_permission(values: &mut RabbitValues, one: &Permission) {
    let (configure, write, read) = (one.configure.clone(), one.write.clone(), one.read.clone());
    if values.vhost.is_none() {
        values.vhost = Some(one.vhost.clone());
        (values.configure, values.write, values.read) = (configure, write, read);
        return;
    }
    values.also.push(Access {
        vhost: one.vhost.clone(),
        configure,
        write,
        read,
    });
}

fn add_topic(values: &mut RabbitValues, one: &TopicPermission) {
    values.topics.push(Topic {
        exchange: one.exchange.clone(),
        vhost: (values.vhost.as_ref() != Some(&one.vhost)).then(|| one.vhost.clone()),
        write: one.write.clone(),
        read: one.read.clone(),
    });
}
