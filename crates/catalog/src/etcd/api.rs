//! The JSON gateway's calls, as far as they are needed here.

use std::sync::Mutex;

use mesh_sdk::{Class, Cx, Error, Secret};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::classify;
use super::grants::{Permission, Range};
use crate::http::{Answer, Ask, Client, Method, Session};

/// The most bytes that an answer may have: a list of a million names.
const MOST: usize = 64 * 1024 * 1024;

/// What identifies a cluster, in every answer.
#[derive(Deserialize, Default)]
pub(super) struct Header {
    #[serde(default)]
    pub(super) cluster_id: String,
}

/// The state of authentication; from 3.5 on.
#[derive(Deserialize)]
pub(super) struct AuthStatus {
    #[serde(default)]
    pub(super) header: Header,
    /// Counts every change of users, roles and permissions.
    #[serde(default, rename = "authRevision")]
    pub(super) revision: String,
}

#[derive(Deserialize)]
struct Token {
    token: String,
}

#[derive(Deserialize)]
struct Roles {
    #[serde(default)]
    roles: Vec<String>,
}

#[derive(Deserialize)]
struct Users {
    #[serde(default)]
    users: Vec<String>,
}

#[derive(Deserialize)]
struct Permissions {
    #[serde(default)]
    perm: Vec<Permission>,
}

/// How a login attempt ended.
pub(super) enum Login {
    /// With a token.
    In(Secret),
    /// Refused: no such user, another password, or none.
    Refused,
}

/// Speaks to the gateway as the admin.
pub(super) struct Api<'c> {
    session: Session<'c>,
    /// The admin's token, kept between calls: each login costs the server a slow hash.
    token: &'c Mutex<Option<Secret>>,
    /// How many changes of users, roles and permissions it made.
    pub(super) changes: u64,
}

impl<'c> Api<'c> {
    /// Connects, and makes sure that the server asks for a login at all (O-43).
    pub(super) async fn open(
        cx: &Cx,
        client: &'c Client,
        token: &'c Mutex<Option<Secret>>,
    ) -> Result<Self, Error> {
        let mut api = Self {
            session: client.session(None)?,
            token,
            changes: 0,
        };
        let what = "look whether authentication is enabled";
        let answer = api.send(cx, what, "auth/user/list", &json!({})).await?;
        if answer.is_fine() {
            let message = "authentication is not enabled: whoever connects may do everything, and no \
                 password is asked for; run `etcdctl auth enable`";
            return Err(Error::new(Class::Denied, message));
        }
        let (code, text) = classify::reason(&answer.body);
        if code != Some(3) || !text.contains("user name is empty") {
            return Err(classify::refused(what, &answer));
        }
        api.log_in(cx).await?;
        Ok(api)
    }

    /// With the kept token, or a new one.
    async fn log_in(&mut self, cx: &Cx) -> Result<(), Error> {
        let kept = self.token.lock().ok().and_then(|token| token.clone());
        let token = match kept {
            Some(token) => token,
            None => self.new_token(cx).await?,
        };
        self.session
            .authorize(token.expose_str().unwrap_or_default())
    }

    async fn new_token(&mut self, cx: &Cx) -> Result<Secret, Error> {
        let settings = self.session.settings();
        let admin = settings.admin.as_ref();
        let name = admin.map(|admin| admin.user.clone()).unwrap_or_default();
        let password = admin.and_then(|admin| admin.password.clone());
        let password = password.unwrap_or_else(|| Secret::from(""));
        self.session.unauthorize();
        match self.authenticate(cx, &name, &password).await? {
            Login::In(token) => {
                if let Ok(mut kept) = self.token.lock() {
                    *kept = Some(token.clone());
                }
                Ok(token)
            }
            Login::Refused => {
                let message = "log in as the admin: the login or its password was refused";
                Err(Error::new(Class::Denied, message))
            }
        }
    }

    async fn send(
        &mut self,
        cx: &Cx,
        what: &str,
        path: &str,
        body: &Value,
    ) -> Result<Answer, Error> {
        let path = format!("/v3/{path}");
        let json = Some(body.to_string().into_bytes());
        self.session
            .ask(
                cx,
                Ask {
                    what,
                    method: Method::POST,
                    path: &path,
                    json,
                    most: MOST,
                },
            )
            .await
    }

    /// Asks as the admin. A token that is no longer good is replaced once: what was refused for it had no
    /// effect.
    pub(super) async fn call<T: DeserializeOwned>(
        &mut self,
        cx: &Cx,
        what: &str,
        path: &str,
        body: &Value,
    ) -> Result<T, Error> {
        let mut answer = self.send(cx, what, path, body).await?;
        let (code, text) = classify::reason(&answer.body);
        if code == Some(16) || text.contains("revision of auth store is old") {
            if let Ok(mut kept) = self.token.lock() {
                *kept = None;
            }
            self.log_in(cx).await?;
            answer = self.send(cx, what, path, body).await?;
        }
        if !answer.is_fine() {
            return Err(classify::refused(what, &answer));
        }
        serde_json::from_slice(&answer.body).map_err(|_| classify::garbled(what))
    }

    /// The same where "there is none" is an answer.
    async fn find<T: DeserializeOwned>(
        &mut self,
        cx: &Cx,
        what: &str,
        path: &str,
        body: &Value,
    ) -> Result<Option<T>, Error> {
        match self.call(cx, what, path, body).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.class() == Class::Gone => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes; what is so already is as good as written.
    async fn write(
        &mut self,
        cx: &Cx,
        what: &str,
        path: &str,
        body: &Value,
        already: Option<Class>,
    ) -> Result<(), Error> {
        match self.call::<Value>(cx, what, path, body).await {
            Ok(_) => {
                self.changes += 1;
                Ok(())
            }
            Err(error) if Some(error.class()) == already => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Tries a login, on a session of its own or before there is a token.
    async fn authenticate(
        &mut self,
        cx: &Cx,
        name: &str,
        password: &Secret,
    ) -> Result<Login, Error> {
        const WHAT: &str = "log in";
        let body = json!({ "name": name, "password": password.expose_str().unwrap_or_default() });
        let answer = self.send(cx, WHAT, "auth/authenticate", &body).await?;
        if answer.is_fine() {
            let token: Token =
                serde_json::from_slice(&answer.body).map_err(|_| classify::garbled(WHAT))?;
            return Ok(Login::In(Secret::from(token.token)));
        }
        let error = classify::refused(WHAT, &answer);
        match error.message().contains("authentication failed") {
            true => Ok(Login::Refused),
            false => Err(error),
        }
    }

    /// The state of authentication; `None` before 3.5.
    pub(super) async fn auth_status(&mut self, cx: &Cx) -> Result<Option<AuthStatus>, Error> {
        match self
            .call(
                cx,
                "ask for the state of authentication",
                "auth/status",
                &json!({}),
            )
            .await
        {
            Ok(status) => Ok(Some(status)),
            Err(error) if error.class() == Class::Cannot => Ok(None),
            Err(error) => Err(error),
        }
    }
    /// What the member says of itself.
    pub(super) async fn status(&mut self, cx: &Cx) -> Result<Value, Error> {
        self.call(
            cx,
            "ask who the server is",
            "maintenance/status",
            &json!({}),
        )
        .await
    }
    /// The names of all users.
    pub(super) async fn users(&mut self, cx: &Cx) -> Result<Vec<String>, Error> {
        let users: Users = self
            .call(cx, "list the logins", "auth/user/list", &json!({}))
            .await?;
        Ok(users.users)
    }
    /// A user's roles; `None` if there is none of that name.
    pub(super) async fn user(
        &mut self,
        cx: &Cx,
        login: &str,
    ) -> Result<Option<Vec<String>>, Error> {
        let body = json!({ "name": login });
        let found: Option<Roles> = self
            .find(cx, "look at a login", "auth/user/get", &body)
            .await?;
        Ok(found.map(|found| found.roles))
    }
    /// A role's permissions; `None` if there is none of that name.
    pub(super) async fn role(
        &mut self,
        cx: &Cx,
        role: &str,
    ) -> Result<Option<Vec<Permission>>, Error> {
        let body = json!({ "role": role });
        let found: Option<Permissions> = self
            .find(cx, "look at a role", "auth/role/get", &body)
            .await?;
        Ok(found.map(|found| found.perm))
    }
    /// The names of all roles.
    pub(super) async fn roles(&mut self, cx: &Cx) -> Result<Vec<String>, Error> {
        let roles: Roles = self
            .call(cx, "list the roles", "auth/role/list", &json!({}))
            .await?;
        Ok(roles.roles)
    }
    pub(super) async fn add_user(
        &mut self,
        cx: &Cx,
        login: &str,
        password: &str,
    ) -> Result<(), Error> {
        let body = json!({ "name": login, "password": password });
        self.write(
            cx,
            "make a login",
            "auth/user/add",
            &body,
            Some(Class::Exists),
        )
        .await
    }
    pub(super) async fn change_password(
        &mut self,
        cx: &Cx,
        login: &str,
        (field, value): (&str, &str),
    ) -> Result<(), Error> {
        let body = json!({ "name": login, field: value });
        self.write(cx, "set a password", "auth/user/changepw", &body, None)
            .await
    }
    pub(super) async fn delete_user(&mut self, cx: &Cx, login: &str) -> Result<(), Error> {
        let body = json!({ "name": login });
        self.write(
            cx,
            "remove a login",
            "auth/user/delete",
            &body,
            Some(Class::Gone),
        )
        .await
    }
    pub(super) async fn grant(&mut self, cx: &Cx, login: &str, role: &str) -> Result<(), Error> {
        let body = json!({ "user": login, "role": role });
        self.write(cx, "grant a role", "auth/user/grant", &body, None)
            .await
    }
    pub(super) async fn revoke(&mut self, cx: &Cx, login: &str, role: &str) -> Result<(), Error> {
        let body = json!({ "name": login, "role": role });
        self.write(
            cx,
            "revoke a role",
            "auth/user/revoke",
            &body,
            Some(Class::Gone),
        )
        .await
    }
    /// Whether it is a new one.
    pub(super) async fn add_role(&mut self, cx: &Cx, role: &str) -> Result<bool, Error> {
        let (body, before) = (json!({ "name": role }), self.changes);
        self.write(
            cx,
            "make a role",
            "auth/role/add",
            &body,
            Some(Class::Exists),
        )
        .await?;
        Ok(self.changes > before)
    }
    pub(super) async fn delete_role(&mut self, cx: &Cx, role: &str) -> Result<(), Error> {
        let body = json!({ "role": role });
        self.write(
            cx,
            "remove a role",
            "auth/role/delete",
            &body,
            Some(Class::Gone),
        )
        .await
    }
    pub(super) async fn permit(
        &mut self,
        cx: &Cx,
        role: &str,
        permission: &Permission,
    ) -> Result<(), Error> {
        let body = json!({ "name": role, "perm": permission });
        self.write(cx, "grant a permission", "auth/role/grant", &body, None)
            .await
    }
    pub(super) async fn forbid(&mut self, cx: &Cx, role: &str, range: &Range) -> Result<(), Error> {
        let body = json!({ "role": role, "key": range.key, "range_end": range.end });
        self.write(
            cx,
            "take a permission",
            "auth/role/revoke",
            &body,
            Some(Class::Gone),
        )
        .await
    }
}

/// Speaks as a consumer, or as nobody yet, on a connection of its own (H-17).
pub(super) struct Door<'c>(Api<'c>);

impl<'c> Door<'c> {
    pub(super) fn new(client: &'c Client, token: &'c Mutex<Option<Secret>>) -> Result<Self, Error> {
        Ok(Self(Api {
            session: client.session(None)?,
            token,
            changes: 0,
        }))
    }
    /// Tries a login.
    pub(super) async fn knock(
        &mut self,
        cx: &Cx,
        login: &str,
        password: &Secret,
    ) -> Result<Login, Error> {
        self.0.session.unauthorize();
        self.0.authenticate(cx, login, password).await
    }
    /// Whether a token that a login gave is still taken. etcd forgets the tokens of a user whose password
    /// changes, so that one that is taken proves that the password is the one that it was given for.
    pub(super) async fn knows(
        &mut self,
        cx: &Cx,
        login: &str,
        token: &Secret,
    ) -> Result<bool, Error> {
        const WHAT: &str = "look as a consumer";
        self.0
            .session
            .authorize(token.expose_str().unwrap_or_default())?;
        let answer = self
            .0
            .send(cx, WHAT, "auth/user/get", &json!({ "name": login }))
            .await?;
        if answer.is_fine() {
            return Ok(true);
        }
        let error = classify::refused(WHAT, &answer);
        if matches!(error.class(), Class::Denied | Class::Gone) {
            return Ok(false);
        }
        Err(error)
    }
}

/// The version of the cluster, which is that of its oldest member: needs no login.
pub(super) async fn version(cx: &Cx, client: &Client) -> Result<(String, (u32, u32)), Error> {
    const WHAT: &str = "ask for the version";
    let mut session = client.session(None)?;
    let ask = Ask {
        what: WHAT,
        method: Method::GET,
        path: "/version",
        json: None,
        most: 4096,
    };
    let answer = session.ask(cx, ask).await?;
    if !answer.is_fine() {
        return Err(classify::refused(WHAT, &answer));
    }
    let told: Value = serde_json::from_slice(&answer.body).map_err(|_| classify::garbled(WHAT))?;
    let (server, cluster) = (told["etcdserver"].as_str(), told["etcdcluster"].as_str());
    let (Some(server), Some(cluster)) = (server, cluster) else {
        return Err(classify::garbled(WHAT));
    };
    let mut numbers = cluster.split('.').map(|n| n.parse().unwrap_or(0));
    let pair = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    Ok((server.to_owned(), pair))
}
