//! Connections: the admin's, one a call, and those that only prove a password.

use std::sync::Arc;
use std::time::Duration;

use ldap3::{Ldap as Client, LdapConnAsync, LdapConnSettings, Scope};
use mesh_sdk::adapter::ProviderSettings;
use mesh_sdk::{Class, Error, Secret};
use tokio::task::JoinHandle;

use super::classify;
use super::entry::{Entry, text_of};

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);

/// One connection. Dropped, it is closed, whatever it was at (H-9).
pub(super) struct Session {
    pub(super) client: Client,
    driver: JoinHandle<()>,
    /// The lasting identity of the base.
    pub(super) identity: Option<String>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Connects, and says nothing yet.
async fn connect(settings: &ProviderSettings) -> Result<Session, Error> {
    const WHAT: &str = "connect";
    settings.may_connect(settings.scheme == "ldaps")?;
    let mut how = LdapConnSettings::new().set_conn_timeout(CONNECT);
    if settings.scheme == "ldaps" {
        how = how.set_config(Arc::new(crate::tls::client_config(settings)?));
    }
    let address = settings.address();
    let made = tokio::time::timeout(CONNECT, LdapConnAsync::with_settings(how, &address)).await;
    let (connection, client) = made
        .map_err(|_| classify::late(WHAT))?
        .map_err(|error| classify::broken(WHAT, &error))?;
    // How it ends is told to whoever waits for an answer on it.
    let driver = tokio::spawn(async move { drop(connection.drive().await) });
    Ok(Session {
        client,
        driver,
        identity: None,
    })
}

/// A connection of the admin's, on which the base was seen: from one that may not see it, "nothing found"
/// would be no answer (H-7).
pub(super) async fn admin(settings: &ProviderSettings) -> Result<Session, Error> {
    let mut session = connect(settings).await?;
    let Some(admin) = &settings.admin else {
        return Err(Error::new(Class::Denied, "there is no admin login"));
    };
    let password = admin.password.as_ref().and_then(Secret::expose_str);
    let bound = session
        .client
        .simple_bind(&admin.user, password.unwrap_or(""))
        .await
        .map_err(|error| classify::broken("log in as the admin", &error))?;
    if bound.rc != 0 {
        return Err(classify::refused("log in as the admin", &bound));
    }
    let base = settings.path.as_str();
    let read = session
        .client
        .search(base, Scope::Base, "(objectClass=*)", vec!["entryUUID"]);
    let found = read
        .await
        .map_err(|error| classify::broken("look at the base", &error))?
        .success()
        .map_err(|error| classify::broken("look at the base", &error))?;
    let Some(entry) = found.0.into_iter().next() else {
        let message = format!("the admin may not see the base `{base}`");
        return Err(Error::new(Class::Denied, message));
    };
    let entry = ldap3::SearchEntry::construct(entry);
    session.identity = text_of(&entry, "entryUUID").into_iter().next();
    Ok(session)
}

/// Whether a login may be shown a password: on this machine, or where the server is verified.
pub(super) fn may_prove(settings: &ProviderSettings) -> bool {
    settings.may_carry_passwords(settings.scheme == "ldaps")
}

/// Logs in as a consumer, on a connection of its own: once, since each failure counts (O-23).
pub(super) async fn lets_in(
    settings: &ProviderSettings,
    dn: &str,
    password: &Secret,
) -> Result<bool, Error> {
    const WHAT: &str = "log in as the consumer";
    let Some(password) = password.expose_str().filter(|text| !text.is_empty()) else {
        return Ok(false);
    };
    let mut session = connect(settings).await?;
    let bound = session.client.simple_bind(dn, password).await;
    let bound = bound.map_err(|error| classify::broken(WHAT, &error))?;
    match bound.rc {
        0 => Ok(true),
        // invalidCredentials, and no password to compare with
        48 | 49 => Ok(false),
        _ => Err(classify::refused(WHAT, &bound)),
    }
}

/// What a look sees of the entries below the base, or of one.
pub(super) async fn entries(
    cx: &mesh_sdk::Cx,
    session: &Session,
    settings: &ProviderSettings,
    filter: &str,
) -> Result<Vec<Entry>, Error> {
    const ATTRIBUTES: [&str; 3] = ["userPassword", "description", "pwdAccountLockedTime"];
    let found = search(cx, session, &settings.path, filter, &ATTRIBUTES).await?;
    let base = settings.path.as_str();
    Ok(found
        .iter()
        .filter_map(|one| Entry::of(one, base))
        .collect())
}

/// A search right below an entry, page by page.
pub(super) async fn search(
    cx: &mesh_sdk::Cx,
    session: &Session,
    base: &str,
    filter: &str,
    attributes: &[&str],
) -> Result<Vec<ldap3::SearchEntry>, Error> {
    use ldap3::adapters::{Adapter, EntriesOnly, PagedResults};
    const WHAT: &str = "search";
    const PAGE: i32 = 500;
    let broken = |error| classify::broken(WHAT, &error);
    let attributes: Vec<String> = attributes.iter().map(|name| (*name).to_owned()).collect();
    let steps: Vec<Box<dyn Adapter<'_, String, Vec<String>>>> = vec![
        Box::new(EntriesOnly::new()),
        Box::new(PagedResults::new(PAGE)),
    ];
    let mut client = session.client.clone();
    let started = client.streaming_search_with(steps, base, Scope::OneLevel, filter, attributes);
    let mut stream = started.await.map_err(broken)?;
    let mut all = Vec::new();
    while let Some(entry) = stream.next().await.map_err(broken)? {
        cx.progress();
        all.push(ldap3::SearchEntry::construct(entry));
    }
    let ended = stream.finish().await;
    // A list that was cut short is no list.
    match ended.rc {
        0 => Ok(all),
        _ => Err(classify::refused(WHAT, &ended)),
    }
}
