//! The management interface's calls, as far as they are needed here.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mesh_sdk::adapter::ProviderSettings;
use mesh_sdk::{Class, Cx, Error};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::classify;
use crate::http::{Answer, Ask, Client, Method, Session, part};

/// The most that one user's answers and a list's may have: some 200 bytes a user.
const SHORT: usize = 1024 * 1024;
const LONG: usize = 256 * 1024 * 1024;
/// What a virtual host that was made here says of itself: only such a one is ever deleted.
const MADE: &str = "Made by Meshkeeper for its consumers";

/// A user as the server shows it. It has no `Debug`: it holds a verifier.
#[derive(Deserialize)]
pub(super) struct User {
    pub(super) name: String,
    #[serde(default)]
    pub(super) password_hash: String,
    #[serde(default)]
    pub(super) hashing_algorithm: String,
    #[serde(default)]
    tags: Tags,
    #[serde(default)]
    pub(super) limits: Value,
}

impl User {
    /// Its tags. Up to RabbitMQ 3.10 at least, what was sent as UTF-8 is shown as if each byte were a
    /// character; sent back like that it would grow with each write.
    pub(super) fn tags(&self) -> Vec<String> {
        let plain = |tag: &str| -> Option<String> {
            let bytes: Option<Vec<u8>> = tag
                .chars()
                .map(|c| u8::try_from(u32::from(c)).ok())
                .collect();
            String::from_utf8(bytes?).ok()
        };
        let read = |tag: &str| plain(tag).unwrap_or_else(|| tag.to_owned());
        match &self.tags {
            Tags::List(tags) => tags.iter().map(|tag| read(tag)).collect(),
            Tags::Text(text) => {
                let tags = text.split(',').map(str::trim).filter(|tag| !tag.is_empty());
                tags.map(read).collect()
            }
        }
    }
    /// Whether it may have no connection at all.
    pub(super) fn is_limited_to_none(&self) -> bool {
        self.limits["max-connections"] == 0
    }
}

/// A list, or one text with commas.
#[derive(Deserialize)]
#[serde(untagged)]
enum Tags {
    List(Vec<String>),
    Text(String),
}

impl Default for Tags {
    fn default() -> Self {
        Tags::List(Vec::new())
    }
}

/// A permission as the server shows it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Permission {
    pub(super) user: String,
    pub(super) vhost: String,
    pub(super) configure: String,
    pub(super) write: String,
    pub(super) read: String,
}

/// A topic permission as the server shows it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct TopicPermission {
    pub(super) user: String,
    pub(super) vhost: String,
    pub(super) exchange: String,
    pub(super) write: String,
    pub(super) read: String,
}

/// A virtual host as the server shows it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Vhost {
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    metadata: Value,
    /// As the statistics had it some seconds ago; nothing before they had any.
    #[serde(default)]
    pub(super) messages: Option<u64>,
}

impl Vhost {
    /// Whether it was made here.
    pub(super) fn is_ours(&self) -> bool {
        let about = self.description.as_deref();
        about.or(self.metadata["description"].as_str()) == Some(MADE)
    }
}

/// One login with its rights, or all of them.
pub(super) struct Shown<U> {
    pub(super) users: U,
    pub(super) permissions: Vec<Permission>,
    pub(super) topics: Vec<TopicPermission>,
}

/// Speaks to the management interface as the admin.
pub(super) struct Api<'c> {
    session: Session<'c>,
    prefix: String,
}

impl<'c> Api<'c> {
    /// Connects when it is first used.
    pub(super) fn new(client: &'c Client) -> Result<Self, Error> {
        let settings = client.settings();
        Ok(Self {
            session: client.session(authorization(settings))?,
            prefix: prefix(settings),
        })
    }

    async fn call(
        &mut self,
        cx: &Cx,
        what: &str,
        (method, path): (Method, &str),
        body: Option<&Value>,
        most: usize,
    ) -> Result<Answer, Error> {
        let path = format!("{}{path}", self.prefix);
        let json = body.map(|body| body.to_string().into_bytes());
        self.session
            .ask(
                cx,
                Ask {
                    what,
                    method,
                    path: &path,
                    json,
                    most,
                },
            )
            .await
    }

    /// Reads; `None` if there is no such thing.
    async fn find<T: DeserializeOwned>(
        &mut self,
        cx: &Cx,
        what: &str,
        path: &str,
        most: usize,
    ) -> Result<Option<T>, Error> {
        let answer = self.call(cx, what, (Method::GET, path), None, most).await?;
        if answer.status == 404 {
            return Ok(None);
        }
        if !answer.is_fine() {
            return Err(classify::refused(what, &answer));
        }
        let _computing = cx.computing();
        serde_json::from_slice(&answer.body)
            .map(Some)
            .map_err(|_| classify::garbled(what))
    }

    /// Reads what must be there.
    pub(super) async fn get<T: DeserializeOwned>(
        &mut self,
        cx: &Cx,
        what: &str,
        path: &str,
    ) -> Result<T, Error> {
        let found = self.find(cx, what, path, LONG).await?;
        found.ok_or_else(|| {
            Error::new(
                Class::Cannot,
                format!("{what}: the server has no such page"),
            )
        })
    }

    /// Writes. The reason of a refusal is told by the error.
    async fn write(
        &mut self,
        cx: &Cx,
        what: &str,
        (method, path): (Method, &str),
        body: Option<&Value>,
    ) -> Result<(), Error> {
        let taking_away = method == Method::DELETE;
        let answer = self.call(cx, what, (method, path), body, SHORT).await?;
        match answer.status {
            // Already gone.
            404 if taking_away => Ok(()),
            _ if answer.is_fine() => Ok(()),
            _ => Err(classify::refused(what, &answer)),
        }
    }

    /// One user; `None` if there is none of that name.
    pub(super) async fn user(&mut self, cx: &Cx, login: &str) -> Result<Option<User>, Error> {
        let path = format!("/users/{}", part(login));
        self.find(cx, "look at a login", &path, SHORT).await
    }

    /// One user with its rights.
    pub(super) async fn look(
        &mut self,
        cx: &Cx,
        login: &str,
    ) -> Result<Option<Shown<User>>, Error> {
        const WHAT: &str = "look at a login";
        let Some(users) = self.user(cx, login).await? else {
            return Ok(None);
        };
        let user = format!("/users/{}", part(login));
        let permissions = self
            .find(cx, WHAT, &format!("{user}/permissions"), SHORT)
            .await?;
        let topics = self
            .find(cx, WHAT, &format!("{user}/topic-permissions"), SHORT)
            .await?;
        // It may have gone between the questions.
        let (Some(permissions), Some(topics)) = (permissions, topics) else {
            return Ok(None);
        };
        Ok(Some(Shown {
            users,
            permissions,
            topics,
        }))
    }

    /// Every user.
    pub(super) async fn users(&mut self, cx: &Cx) -> Result<Vec<User>, Error> {
        self.get(cx, "list the logins", "/users").await
    }

    /// Every permission.
    pub(super) async fn permissions(&mut self, cx: &Cx) -> Result<Vec<Permission>, Error> {
        self.get(cx, "list the permissions", "/permissions").await
    }

    /// Every topic permission.
    pub(super) async fn topics(&mut self, cx: &Cx) -> Result<Vec<TopicPermission>, Error> {
        self.get(cx, "list the topic permissions", "/topic-permissions")
            .await
    }

    /// Every user; and all rights, if any of the users is one of these: whoever is not there has none.
    pub(super) async fn look_for(
        &mut self,
        cx: &Cx,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Shown<Vec<User>>, Error> {
        let users = self.users(cx).await?;
        let (mut permissions, mut topics) = (Vec::new(), Vec::new());
        if users.iter().any(|user| wanted(&user.name)) {
            permissions = self.permissions(cx).await?;
            topics = self.topics(cx).await?;
        }
        Ok(Shown {
            users,
            permissions,
            topics,
        })
    }

    /// The names of all virtual hosts.
    pub(super) async fn vhosts(&mut self, cx: &Cx) -> Result<BTreeSet<String>, Error> {
        #[derive(Deserialize)]
        struct Named {
            name: String,
        }
        let path = "/vhosts?columns=name";
        let all: Vec<Named> = self.get(cx, "list the virtual hosts", path).await?;
        Ok(all.into_iter().map(|vhost| vhost.name).collect())
    }

    /// Sets many users and rights; the server touches nothing that is not named. One that is refused is
    /// told for all, when others were written, and more still are (read and tried on RabbitMQ 3.10.8).
    pub(super) async fn import(&mut self, cx: &Cx, definitions: &Value) -> Result<(), Error> {
        let call = (Method::POST, "/definitions");
        self.write(cx, "make logins", call, Some(definitions)).await
    }

    /// Makes or changes a user. All three are always sent: what is left out would be cleared.
    pub(super) async fn put_user(
        &mut self,
        cx: &Cx,
        login: &str,
        (hash, algorithm): (&str, &str),
        tags: &[String],
    ) -> Result<(), Error> {
        let body = json!({ "password_hash": hash, "hashing_algorithm": algorithm, "tags": tags });
        let path = format!("/users/{}", part(login));
        self.write(cx, "set a login", (Method::PUT, &path), Some(&body))
            .await
    }

    /// Drops a user; the server ends its connections.
    pub(super) async fn delete_user(&mut self, cx: &Cx, login: &str) -> Result<(), Error> {
        let path = format!("/users/{}", part(login));
        self.write(cx, "remove a login", (Method::DELETE, &path), None)
            .await
    }

    /// Sets a permission.
    pub(super) async fn put_permission(&mut self, cx: &Cx, p: &Permission) -> Result<(), Error> {
        let body = json!({ "configure": p.configure, "write": p.write, "read": p.read });
        let path = format!("/permissions/{}/{}", part(&p.vhost), part(&p.user));
        self.write(cx, "set a permission", (Method::PUT, &path), Some(&body))
            .await
    }

    /// Takes a permission away.
    pub(super) async fn delete_permission(
        &mut self,
        cx: &Cx,
        vhost: &str,
        user: &str,
    ) -> Result<(), Error> {
        let path = format!("/permissions/{}/{}", part(vhost), part(user));
        self.write(cx, "take a permission", (Method::DELETE, &path), None)
            .await
    }

    /// Sets a topic permission.
    pub(super) async fn put_topic(&mut self, cx: &Cx, t: &TopicPermission) -> Result<(), Error> {
        let body = json!({ "exchange": t.exchange, "write": t.write, "read": t.read });
        let path = format!("/topic-permissions/{}/{}", part(&t.vhost), part(&t.user));
        self.write(
            cx,
            "set a topic permission",
            (Method::PUT, &path),
            Some(&body),
        )
        .await
    }

    /// Takes one topic permission away. Without the exchange all of the virtual host would go.
    pub(super) async fn delete_topic(&mut self, cx: &Cx, t: &TopicPermission) -> Result<(), Error> {
        let (vhost, user) = (part(&t.vhost), part(&t.user));
        let path = format!("/topic-permissions/{vhost}/{user}/{}", part(&t.exchange));
        self.write(cx, "take a topic permission", (Method::DELETE, &path), None)
            .await
    }

    /// Lifts the limit on a user's connections.
    pub(super) async fn delete_limit(&mut self, cx: &Cx, login: &str) -> Result<(), Error> {
        let path = format!("/user-limits/{}/max-connections", part(login));
        self.write(cx, "lift a limit", (Method::DELETE, &path), None)
            .await
    }

    /// Makes a virtual host. The server gives whoever makes it every right there, which is taken back.
    pub(super) async fn make_vhost(
        &mut self,
        cx: &Cx,
        vhost: &str,
        admin: &str,
    ) -> Result<(), Error> {
        let path = format!("/vhosts/{}", part(vhost));
        let about = json!({ "description": MADE });
        self.write(
            cx,
            "make a virtual host",
            (Method::PUT, &path),
            Some(&about),
        )
        .await?;
        self.delete_permission(cx, vhost, admin).await
    }

    /// Whether there is a virtual host.
    pub(super) async fn has_vhost(&mut self, cx: &Cx, vhost: &str) -> Result<bool, Error> {
        let found = self.vhost(cx, vhost).await?;
        Ok(found.is_some())
    }

    /// What is known of a virtual host; `None` if there is none of that name.
    pub(super) async fn vhost(&mut self, cx: &Cx, vhost: &str) -> Result<Option<Vhost>, Error> {
        let path = format!("/vhosts/{}", part(vhost));
        self.find(cx, "look at a virtual host", &path, SHORT).await
    }

    /// Every permission in a virtual host.
    pub(super) async fn permissions_in(
        &mut self,
        cx: &Cx,
        vhost: &str,
    ) -> Result<Vec<Permission>, Error> {
        let path = format!("/vhosts/{}/permissions", part(vhost));
        let found = self.find(cx, "list the permissions", &path, LONG).await?;
        Ok(found.unwrap_or_default())
    }

    /// Deletes a virtual host with all that is in it.
    pub(super) async fn delete_vhost(&mut self, cx: &Cx, vhost: &str) -> Result<(), Error> {
        let path = format!("/vhosts/{}", part(vhost));
        self.write(cx, "delete a virtual host", (Method::DELETE, &path), None)
            .await
    }

    /// How many connections a user has: the broker's own count, not the statistics', which lag.
    pub(super) async fn sessions(&mut self, cx: &Cx, login: &str) -> Result<usize, Error> {
        let path = format!("/connections/username/{}", part(login));
        let open: Vec<Value> = self.get(cx, "look at the open sessions", &path).await?;
        Ok(open.len())
    }

    /// Ends a user's connections, if it has any.
    pub(super) async fn end_sessions(&mut self, cx: &Cx, login: &str) -> Result<(), Error> {
        const WHAT: &str = "end a login's sessions";
        let path = format!("/connections/username/{}", part(login));
        let open: Vec<Value> = self.get(cx, WHAT, &path).await?;
        if open.is_empty() {
            return Ok(());
        }
        self.write(cx, WHAT, (Method::DELETE, &path), None).await
    }

    /// Reads a page together with the server's clock.
    pub(super) async fn dated<T: DeserializeOwned>(
        &mut self,
        cx: &Cx,
        what: &str,
        path: &str,
    ) -> Result<(T, Option<String>), Error> {
        let answer = self
            .call(cx, what, (Method::GET, path), None, SHORT)
            .await?;
        if !answer.is_fine() {
            return Err(classify::refused(what, &answer));
        }
        let value = serde_json::from_slice(&answer.body).map_err(|_| classify::garbled(what))?;
        Ok((value, answer.date))
    }

    /// Reads something that an older server may not have.
    pub(super) async fn maybe<T: DeserializeOwned>(
        &mut self,
        cx: &Cx,
        what: &str,
        path: &str,
    ) -> Result<Option<T>, Error> {
        self.find(cx, what, path, SHORT).await
    }
}

fn authorization(settings: &ProviderSettings) -> Option<String> {
    let admin = settings.admin.as_ref()?;
    let mut both = admin.user.clone().into_bytes();
    both.push(b':');
    both.extend(
        admin
            .password
            .as_ref()
            .map(|p| p.expose())
            .unwrap_or_default(),
    );
    Some(format!("Basic {}", STANDARD.encode(both)))
}

/// `/api`, behind the server's own prefix if it has one.
fn prefix(settings: &ProviderSettings) -> String {
    match settings.path.trim_matches('/') {
        "" => "/api".to_owned(),
        path => format!("/{path}/api"),
    }
}

#[cfg(test)]
mod tests {
    //! Users in the forms that servers show them in.
    use super::*;

    #[test]
    fn tags_are_read_in_each_form() {
        let tags = |tags: &str| {
            let json = format!(r#"{{"name":"web","tags":{tags}}}"#);
            serde_json::from_str::<User>(&json).expect("a user").tags()
        };
        assert_eq!(tags(r#"["a","b c"]"#), ["a", "b c"]);
        assert_eq!(tags(r#""a, b,""#), ["a", "b"]);
        assert_eq!(tags("[]"), Vec::<String>::new());
        assert_eq!(
            tags(r#"["Ã¼nÃ¯","æ¼¢"]"#),
            ["ünï", "漢"],
            "as 3.10.8 shows them"
        );
        assert_eq!(tags(r#"["ünï","漢"]"#), ["ünï", "漢"]);
    }
}
