//! The dynamic security plugin: commands and answers as JSON on its control topic.

use mesh_sdk::adapter::ProviderSettings;
use mesh_sdk::{Class, Cx, Error};
use serde::Deserialize;
use serde_json::{Value, json};

use super::classify;
use super::wire::{Wire, enter, nonce};

const TOPIC: &str = "$CONTROL/dynamic-security/v1";
const ANSWERS: &str = "$CONTROL/dynamic-security/v1/response";
/// How many clients or roles are read at once: some 10 to 20 ms of the broker's time.
const PAGE: usize = 1000;

/// A client, as the plugin tells it. The verifier is never told.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Client {
    pub(super) username: String,
    #[serde(default)]
    pub(super) disabled: bool,
    /// The only session name that it may use, if there is one.
    pub(super) clientid: Option<String>,
    #[serde(default)]
    pub(super) roles: Vec<RoleName>,
    #[serde(default)]
    pub(super) groups: Vec<GroupName>,
}

/// A group that a client is in.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct GroupName {
    pub(super) groupname: String,
}

/// A role that a client has.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct RoleName {
    pub(super) rolename: String,
}

/// A role.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Role {
    pub(super) rolename: String,
    #[serde(default)]
    pub(super) textname: String,
    #[serde(default)]
    pub(super) acls: Vec<Acl>,
}

/// One rule of a role.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Acl {
    pub(super) acltype: String,
    pub(super) topic: String,
    #[serde(default)]
    pub(super) allow: bool,
}

/// An admin's connection.
///
/// The plugin sends every answer to every admin who listens, so each question carries a word that comes
/// back with its answer, and what carries another word is somebody else's.
pub(super) struct Control {
    wire: Wire,
    name: String,
    asked: u64,
}

impl Control {
    /// One that asks and hears the answers.
    pub(super) async fn open(settings: &ProviderSettings, cx: &Cx) -> Result<Self, Error> {
        const WHAT: &str = "listen for the plugin's answers";
        let mut control = Self::log_in(settings, cx).await?;
        control.wire.subscribe(WHAT, ANSWERS).await?;
        Ok(control)
    }

    /// One that asks nothing, and hears nothing.
    pub(super) async fn log_in(settings: &ProviderSettings, cx: &Cx) -> Result<Self, Error> {
        let admin = settings.admin.as_ref();
        let user = admin.map_or("", |admin| admin.user.as_str());
        let password = admin.and_then(|admin| admin.password.as_ref());
        let entered = enter(
            settings,
            Some(user.as_bytes()),
            password.map(|p| p.expose()),
        )
        .await?;
        let wire = entered.ok_or_else(|| {
            let message = format!("log in as the admin: refused ({})", settings.address());
            Error::new(Class::Denied, message)
        })?;
        cx.progress();
        Ok(Self {
            wire,
            name: nonce("control"),
            asked: 0,
        })
    }

    /// Sends commands in one message; gives each one's data, or why it was refused.
    pub(super) async fn send(
        &mut self,
        cx: &Cx,
        what: &str,
        commands: &[Value],
    ) -> Result<Vec<Result<Value, Error>>, Error> {
        self.asked += 1;
        let word = format!("{}-{}", self.name, self.asked);
        let with_word = |command: &Value| {
            let mut command = command.clone();
            command["correlationData"] = word.as_str().into();
            command
        };
        let commands: Vec<Value> = commands.iter().map(with_word).collect();
        let payload = json!({ "commands": commands }).to_string();
        self.wire.publish(what, TOPIC, payload.as_bytes()).await?;
        let responses = loop {
            let answer = self.wire.message(what, ANSWERS).await?;
            // Whoever else is answered for long counts as a sign of the broker's life, and only that.
            cx.progress();
            if !contains(&answer, word.as_bytes()) {
                continue;
            }
            let mut answer: Value =
                serde_json::from_slice(&answer).map_err(|_| classify::garbled(what))?;
            match answer["responses"].take() {
                Value::Array(all) if all.iter().all(|one| one["correlationData"] == *word) => {
                    break all;
                }
                _ => {}
            }
        };
        if responses.len() != commands.len() {
            return Err(classify::garbled(what));
        }
        let each = responses.into_iter().map(|mut one| match one.get("error") {
            Some(error) => Err(classify::answered(what, error.as_str().unwrap_or(""))),
            None => Ok(one["data"].take()),
        });
        Ok(each.collect())
    }

    /// A client and the role of ours for it; each `None` if it is not there.
    pub(super) async fn look(
        &mut self,
        cx: &Cx,
        login: &str,
        role: &str,
    ) -> Result<(Option<Client>, Option<Role>), Error> {
        const WHAT: &str = "look at a login";
        let commands = [
            json!({ "command": "getClient", "username": login }),
            json!({ "command": "getRole", "rolename": role }),
        ];
        let mut answers = self.send(cx, WHAT, &commands).await?.into_iter();
        let client = found(WHAT, answers.next(), "client")?;
        let role = found(WHAT, answers.next(), "role")?;
        Ok((client, role))
    }

    /// All clients.
    pub(super) async fn clients(&mut self, cx: &Cx) -> Result<Vec<Client>, Error> {
        self.pages(cx, "list the logins", "listClients", "clients")
            .await
    }
    /// All roles.
    pub(super) async fn roles(&mut self, cx: &Cx) -> Result<Vec<Role>, Error> {
        self.pages(cx, "list the roles", "listRoles", "roles").await
    }

    /// All of a list. Somebody who adds or removes meanwhile could hide one, so the count must stay.
    async fn pages<T: for<'de> Deserialize<'de>>(
        &mut self,
        cx: &Cx,
        what: &str,
        command: &str,
        field: &str,
    ) -> Result<Vec<T>, Error> {
        let (mut all, mut total) = (Vec::new(), None);
        loop {
            let ask = json!({
                "command": command, "verbose": true, "count": PAGE, "offset": all.len(),
            });
            let mut data = match self.send(cx, what, &[ask]).await?.pop() {
                Some(answer) => answer?,
                None => return Err(classify::garbled(what)),
            };
            let count = data["totalCount"].as_u64();
            let page: Vec<T> =
                serde_json::from_value(data[field].take()).map_err(|_| classify::garbled(what))?;
            if count.is_none() || total.is_some_and(|total| Some(total) != count) {
                let message = format!("{what}: it changes while it is read");
                return Err(Error::new(Class::Busy, message));
            }
            total = count;
            let is_last = page.is_empty();
            all.extend(page);
            let whole = count.is_some_and(|count| all.len() as u64 >= count);
            if whole {
                return Ok(all);
            }
            if is_last {
                return Err(classify::garbled(what));
            }
        }
    }

    /// What the broker says of its version.
    pub(super) async fn version(&mut self, cx: &Cx) -> Result<String, Error> {
        const WHAT: &str = "ask for the version";
        const TOPIC: &str = "$SYS/broker/version";
        self.wire.subscribe(WHAT, TOPIC).await?;
        let said = self.wire.message(WHAT, TOPIC).await?;
        cx.progress();
        Ok(String::from_utf8_lossy(&said).into_owned())
    }

    pub(super) async fn wait_for_its_end(&mut self) {
        self.wire.wait_for_its_end().await;
    }
    pub(super) async fn leave(self) {
        self.wire.leave().await;
    }
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|part| part == word)
}

/// What an answer holds, or `None` where there is nothing of that name.
fn found<T: for<'de> Deserialize<'de>>(
    what: &str,
    answer: Option<Result<Value, Error>>,
    field: &str,
) -> Result<Option<T>, Error> {
    match answer {
        None => Err(classify::garbled(what)),
        Some(Err(error)) if error.class() == Class::Gone => Ok(None),
        Some(Err(error)) => Err(error),
        Some(Ok(mut data)) => serde_json::from_value(data[field].take())
            .map(Some)
            .map_err(|_| classify::garbled(what)),
    }
}
