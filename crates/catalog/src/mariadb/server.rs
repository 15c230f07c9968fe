//! What the server says of itself, and what hints that it restarted.

use std::time::Duration;

use mesh_sdk::adapter::Server;
use mesh_sdk::{Cx, Error};
use tokio::time::{sleep, timeout};

use super::adapter::Mariadb;
use super::connect::Session;

/// The first wait before a connection is tried again, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// How often an idle connection is asked for a sign of life, and how long that may take.
const PING: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(5));

impl Mariadb {
    /// Version, the second of its start, and whether it takes writes.
    pub(super) async fn describe(&self, cx: &Cx) -> Result<Server, Error> {
        let session = self.session(cx).await?;
        let mut server = Server::default();
        server.version = session.facts.title();
        server.run = Some(session.facts.started.clone());
        // An admin with READ_ONLY ADMIN would pass, and a replica would then differ from its primary.
        server.read_only = session
            .facts
            .read_only
            .then(|| "the server has `read_only` set".to_owned());
        Ok(server)
    }

    /// Holds an idle connection, and returns when a new one is there after it broke, or at once when the
    /// server runs anew since the last time.
    pub(super) async fn wait_for_hint(&self, cx: &Cx) -> Result<(), Error> {
        let (mut session, waited) = self.connected_again(cx).await;
        let started = session.facts.started.clone();
        let before = match self.hinted.lock() {
            Ok(mut hinted) => hinted.replace(started.clone()),
            Err(_) => None,
        };
        if waited || before.is_some_and(|before| before != started) {
            return Ok(());
        }
        while is_alive(&mut session).await {}
        drop(session);
        let (session, _) = self.connected_again(cx).await;
        if let Ok(mut hinted) = self.hinted.lock() {
            *hinted = Some(session.facts.started.clone());
        }
        Ok(())
    }

    /// A connection, however long it takes; and whether it took more than one try.
    async fn connected_again(&self, cx: &Cx) -> (Session, bool) {
        let (mut wait, mut waited) = (RETRY.0, false);
        loop {
            match self.session(cx).await {
                Ok(session) => return (session, waited),
                Err(_) => sleep(wait).await,
            }
            waited = true;
            wait = (wait * 2).min(RETRY.1);
        }
    }
}

/// Whether the server still answers on this connection, after a while.
async fn is_alive(session: &mut Session) -> bool {
    sleep(PING.0).await;
    matches!(timeout(PING.1, session.ping()).await, Ok(Ok(())))
}
