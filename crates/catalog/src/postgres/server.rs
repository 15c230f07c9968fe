//! What the server says of itself, and what hints that it restarted.

use std::sync::atomic::Ordering;
use std::time::Duration;

use mesh_sdk::adapter::Server;
use mesh_sdk::{Cx, Error};
use tokio::time::{sleep, timeout};

use super::adapter::Postgres;
use super::classify;
use super::session::Session;

/// The first wait before a connection is tried again, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// How often an idle connection is asked for a sign of life, and how long that may take.
const PING: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(5));

impl Postgres {
    /// Version, identity, run, and whether it takes writes.
    pub(super) async fn describe(&self, cx: &Cx) -> Result<Server, Error> {
        const WHAT: &str = "ask who the server is";
        let sql =
            "SELECT system_identifier, (SELECT count(*) FROM pg_roles) FROM pg_control_system()";
        let endpoint = &self.endpoint;
        let (session, rows) = endpoint.admin_asking(endpoint.home(), sql).await?;
        cx.progress();
        let identity = rows.first().and_then(|row| row.get(0));
        let identity = identity.ok_or_else(|| classify::garbled(WHAT))?;
        let roles = rows.first().and_then(|row| row.get(1)?.parse().ok());
        self.roles
            .store(roles.unwrap_or(usize::MAX), Ordering::Relaxed);
        let mut server = Server::default();
        server.version = format!("PostgreSQL {}", session.facts.version);
        server.identity = Some(identity.to_owned());
        server.run = Some(session.facts.started.clone());
        server.read_only = session.facts.read_only.map(str::to_owned);
        session.close();
        Ok(server)
    }

    /// Holds an idle connection, and returns when a new one is there after it broke, or at once when
    /// the server runs anew since the last time.
    pub(super) async fn wait_for_hint(&self, _cx: &Cx) -> Result<(), Error> {
        let (mut session, waited) = self.connected_again().await;
        if self.is_another_run(&session) || waited {
            return Ok(());
        }
        while is_alive(&mut session).await {}
        drop(session);
        let (session, _) = self.connected_again().await;
        self.is_another_run(&session);
        Ok(())
    }

    /// Keeps the run of a connection; whether the one before was another.
    fn is_another_run(&self, session: &Session) -> bool {
        let run = session.facts.started.clone();
        match self.hinted.lock() {
            Ok(mut hinted) => hinted
                .replace(run.clone())
                .is_some_and(|before| before != run),
            Err(_) => false,
        }
    }

    /// A connection, however long it takes; and whether it took more than one try.
    async fn connected_again(&self) -> (Session, bool) {
        let (mut wait, mut waited) = (RETRY.0, false);
        loop {
            match self.endpoint.watcher().await {
                Ok(session) => return (session, waited),
                Err(_) => sleep(wait).await,
            }
            waited = true;
            wait = (wait * 2).min(RETRY.1);
        }
    }
}

/// Whether the server still answers on this connection. Waits a while first; an end of the connection
/// ends the waiting.
async fn is_alive(session: &mut Session) -> bool {
    if timeout(PING.0, session.over()).await.is_ok() {
        return false;
    }
    matches!(
        timeout(PING.1, session.simple("ping", "SELECT 1")).await,
        Ok(Ok(_))
    )
}
