//! The stage: a server, a manifest, the daemon that `mesh up` runs, and what can be seen of them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mesh_sdk::bus::Key;
use mesh_sdk::decide::Summary;
use mesh_sdk::event::Event;
use mesh_sdk::harness::{Observer, PassReport};
use mesh_sdk::{ConsumerName, ProviderName, Secret, Time};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::folder::Folder;
use super::players::{PLAYERS, Player, manifest};
use super::server::Server;
use super::teller::Teller;
use super::wire::{Command, Said, Wire};
use crate::commands::Context;
use crate::commands::online::{Online, run_fault, store_fault, told};
use crate::errors::Fault;
use crate::manifest::{self, Manifest};
use crate::status::{self, Picture};
use crate::wiring::daemon::{Daemon, Outside};
use crate::wiring::installation::{Installation, Runner, Turn, take_turn};
use crate::wiring::oneshot::RunFault;
use crate::wiring::secrets::Known;

/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long the daemon may take to stop.
const STOPPING: Duration = Duration::from_secs(8);

/// A pass that ended.
#[derive(Clone)]
pub(super) struct Pass {
    pub(super) began: Time,
    pub(super) next_at: Time,
    pub(super) summary: Summary,
}

/// Hears of every pass.
#[derive(Default)]
struct Passes(Mutex<Vec<Pass>>);

impl Observer for Passes {
    fn passed(&self, report: &PassReport) {
        let pass = Pass {
            began: report.at - report.took,
            next_at: report.next_at,
            summary: report.summary,
        };
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(pass);
    }
}

/// A consumer with the password that Meshkeeper made for it.
pub(super) struct Login {
    pub(super) player: &'static Player,
    pub(super) login: String,
    secret: Secret,
}

impl Login {
    /// Logging in as it.
    pub(super) fn auth(&self) -> Command<'_> {
        vec![b"AUTH", self.login.as_bytes(), self.secret.expose()]
    }
    /// A command that its rules allow.
    pub(super) fn work(&self) -> Command<'static> {
        self.player.may.iter().map(|part| part.as_bytes()).collect()
    }
}

/// Everything that is on.
pub(super) struct Stage<'s> {
    pub(super) server: Server,
    pub(super) teller: Teller<'s>,
    pub(super) logins: Vec<Login>,
    online: &'s Online,
    manifest: Arc<Manifest>,
    installation: Arc<Installation>,
    passes: Arc<Passes>,
    daemon: JoinHandle<Result<(), RunFault>>,
    // While it is open, the daemon waits for a manifest that changes.
    _door: mpsc::Sender<Outside>,
    _turn: std::fs::File,
    stop: CancellationToken,
}

impl<'s> Stage<'s> {
    /// Writes the manifest and starts the daemon on it, by the same wiring as `mesh up`.
    pub(super) async fn open(
        cx: &Context<'_>,
        online: &'s Online,
        folder: &Folder,
        server: Server,
        teller: Teller<'s>,
    ) -> Result<Self, Fault> {
        let admin = folder.write("admin.password", server.admin.expose())?;
        let text = manifest(server.port, &admin);
        let path = folder.write("mesh.toml", text.as_bytes())?;
        let reading = manifest::read(&path, cx.kinds).map_err(crate::commands::unread)?;
        let manifest = Arc::new(reading.manifest.ok_or(Fault::Manifest)?);
        let data = folder.path().join("mesh-data");
        let turn = take_turn(&data, Runner::Daemon).await;
        let Turn::Mine(turn) = turn.map_err(told)? else {
            return Err(Fault::failed(
                "somebody uses the demo's folder",
                "run it again",
            ));
        };
        let (clock, scrubber) = (online.clock, Arc::clone(&online.scrubber));
        let installation = online.open_for(&data, &manifest).await.map_err(told)?;
        let installation = Arc::new(installation);
        let (passes, stop) = (Arc::new(Passes::default()), online.stop.child_token());
        let observers: Vec<Arc<dyn Observer>> = vec![Arc::clone(&passes) as Arc<dyn Observer>];
        let shared = Arc::clone(&installation);
        let wanted = Arc::clone(&manifest);
        let daemon = Daemon::start(
            shared,
            wanted,
            clock,
            (scrubber, observers),
            None,
            stop.clone(),
        );
        let daemon = daemon.await.map_err(run_fault)?;
        let (door, outside) = mpsc::channel(1);
        let daemon = tokio::spawn(daemon.run(outside, Box::new(|| {}), None));
        Ok(Self {
            server,
            teller,
            logins: Vec::new(),
            online,
            manifest,
            installation,
            passes,
            daemon,
            _door: door,
            _turn: turn,
            stop,
        })
    }

    /// Asks for each consumer's password, as `mesh credentials` does. `None` while one is missing.
    pub(super) async fn credentials(&self) -> Result<Option<Vec<Login>>, Fault> {
        let wrong = |error: mesh_sdk::name::NameError| Fault::failed(error.to_string(), "a bug");
        let provider = ProviderName::new("cache").map_err(wrong)?;
        let mut logins = Vec::new();
        for player in &PLAYERS {
            let consumer = ConsumerName::new(player.name).map_err(wrong)?;
            let needed = crate::wiring::needed(&self.manifest, &provider, &consumer);
            let known = self
                .installation
                .secrets
                .current(&provider, &consumer)
                .await;
            match (needed, known.map_err(store_fault)?) {
                (Some(needed), Known::Version(secret)) => logins.push(Login {
                    player,
                    login: needed.login.as_str().to_owned(),
                    secret,
                }),
                _ => return Ok(None),
            }
        }
        Ok(Some(logins))
    }

    /// Runs commands on a connection of their own, in one write. `None` if there is no server.
    pub(super) async fn ask(&self, commands: &[Command<'_>]) -> Option<Vec<Said>> {
        let mut wire = Wire::connect(self.server.port).await.ok()?;
        wire.ask(commands).await.ok()
    }
    /// Logging in as the server's admin.
    pub(super) fn admin(&self) -> Command<'_> {
        vec![b"AUTH", b"default", self.server.admin.expose()]
    }
    /// How many log in now and may do what their rules allow.
    pub(super) async fn working(&self) -> usize {
        let mut working = 0;
        for login in &self.logins {
            let said = self.ask(&[login.auth(), login.work()]).await;
            let works = said.is_some_and(|said| said.iter().all(Said::is_yes));
            working += usize::from(works);
        }
        working
    }

    /// The passes so far.
    pub(super) fn passes(&self) -> Vec<Pass> {
        self.passes
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
    /// The number of the newest line of history.
    pub(super) async fn history_end(&self) -> Result<u64, Fault> {
        let lines = self
            .installation
            .bus
            .history(&Key::everything(), 0, 1)
            .await;
        Ok(lines
            .map_err(store_fault)?
            .last()
            .map_or(0, |line| line.seq))
    }
    /// What Meshkeeper wrote into its history after a line.
    pub(super) async fn history(&self, after: u64) -> Result<Vec<Event>, Fault> {
        let lines = self
            .installation
            .bus
            .history(&Key::everything(), after, 1_000)
            .await;
        let lines = lines.map_err(store_fault)?;
        let events = lines
            .iter()
            .filter_map(|line| serde_json::from_str(&line.value).ok());
        Ok(events.collect())
    }
    /// The picture that `mesh status` shows.
    pub(super) async fn picture(&self) -> Result<Picture, Fault> {
        let (bus, mesh) = (self.installation.bus.as_ref(), self.manifest.mesh.as_str());
        status::read(bus, mesh, self.now(), true)
            .await
            .map_err(store_fault)
    }
    pub(super) fn now(&self) -> Time {
        self.online.clock.now()
    }

    /// Looks again and again until there is something to see. Errors: it did not come, or a signal did.
    pub(super) async fn until<T>(
        &self,
        what: &str,
        mut look: impl AsyncFnMut(&Self) -> Result<Option<T>, Fault>,
    ) -> Result<T, Fault> {
        self.teller.waiting(what);
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(seen) = look(self).await? {
                return Ok(seen);
            }
            if self.online.stop.is_cancelled() {
                return Err(Fault::failed("stopped before the end", "run it again"));
            }
            if self.daemon.is_finished() || Instant::now() > end {
                return Err(not_seen(what));
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Ends everything: the daemon finishes its step first.
    pub(super) async fn close(mut self) {
        self.teller.rest();
        self.stop.cancel();
        if timeout(STOPPING, &mut self.daemon).await.is_err() {
            self.daemon.abort();
        }
        self.server.kill();
    }
}

/// A step that could not be shown.
pub(super) fn not_seen(what: &str) -> Fault {
    Fault::failed(
        format!("not seen: {what}"),
        "run it again with `-v`; if it fails again, that is a bug worth telling",
    )
}
