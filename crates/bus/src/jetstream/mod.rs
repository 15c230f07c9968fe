//! The bus beyond one machine: NATS JetStream, which keeps what the embedded store keeps.
//!
//! - **A `Done` is on the disk** (B-9) of a majority, where the servers run with `sync_interval: always`.
//! - **Nothing is ever deleted**: the streams refuse it, and a key that is missing means nothing (B-5).
//! - **A bus that was wiped, made again or restored is seen** (B-6): see [`Replaced`].
//! - **Reads ask the leader**, or a server that proves it is as far as the leader was.
//! - **Watches are doorbells** (B-7): whatever they may have missed is told as a gap.
//!
//! What is made is made by [`bootstrap`] alone; opening makes and deletes no stream.

mod adopt;
mod api;
mod assets;
mod bell;
mod caller;
mod connect;
mod desk;
mod fault;
mod inspect;
mod mark;
mod names;
mod read;
mod roles;
mod seat;
mod tls;
mod write;

use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use mesh_sdk::bus::{
    Bucket, Bus, Entry, Epoch, Fault, Health, Key, LogLine, Put, Snapshot, Watch, Write,
};
use mesh_sdk::clock::Clock;

use crate::files;
use crate::watch::PrefixWatch;
use api::Api;
use bell::Bell;
use mark::{Mark, Meta, Seen, Stream};
use seat::Seat;

pub use adopt::{Adopted, adopt, owner};
pub use assets::{Layout, Made};
pub use caller::{Caller, Rings};
pub use connect::{Link, Login, Server, Tls, greets};
pub use desk::{Reply, WORDS};
pub use fault::OpenFault;
pub use inspect::{Advisories, Finding, Inspection};
pub use mark::{Replaced, installation_of};
pub use names::Names;
pub use roles::{Lending, Role, lending, permissions};

/// The layout of keys and values that this program writes.
const SCHEMA: u32 = 1;
/// The longest value that is ever taken; a server may take less.
pub const LIMIT: usize = 1 << 20;

/// What a bus was found to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// The one that this data folder used last.
    Known,
    /// Not that one, or nobody can tell. Told at every opening until
    /// [`JetstreamBus::replacement_told`].
    Replaced(Replaced),
}

/// An open bus.
pub struct Opened {
    /// The bus.
    pub bus: JetstreamBus,
    /// What it was found to be.
    pub found: Found,
}

/// The bus on NATS servers. Dropping it ends its tasks.
pub struct JetstreamBus {
    seat: Arc<Seat>,
    bell: Mutex<Option<Arc<Bell>>>,
    guard: tokio::task::JoinHandle<()>,
    missing: inspect::Missing,
    reads_only: bool,
}

/// Makes the streams of a mesh, or finds them in order, and remembers in the data folder that this is the
/// bus that it uses. What is there is never changed.
pub async fn bootstrap(
    link: &Link,
    mesh: &str,
    folder: &Path,
    installation: &str,
    layout: &Layout,
    clock: Clock,
) -> Result<Made, OpenFault> {
    let names = Names::of(mesh);
    let api = reach(link).await?;
    let seen = mark::read(folder).map_err(|error| io_fault(&error))?;
    let before = match &seen {
        Seen::Mark(mark) => mark.epoch,
        _ => 0,
    };
    let meta = Meta {
        installation: installation.to_owned(),
        epoch: before + 1,
        schema: SCHEMA,
    };
    // A stream that is made again begins above all that an earlier one can have given out, so that no
    // number ever names two things.
    let first = u64::try_from(clock.now().as_millis()).unwrap_or(1).max(1);
    let made = assets::bootstrap(&api, &names, layout, &meta, first).await?;
    if !made.streams.is_empty() && seen == Seen::Missing {
        let info = assets::existing(&api, &names.state).await?;
        files::make_folder(folder).map_err(|error| io_fault(&error))?;
        let mark = Mark {
            installation: made.installation.clone(),
            epoch: made.epoch,
            created: info.created,
            reached: info.state.last_seq,
            replaced: None,
        };
        mark::write(folder, &mark).map_err(|error| io_fault(&error))?;
    }
    Ok(made)
}

/// Connects to servers that can do what the bus needs.
async fn reach(link: &Link) -> Result<Api, OpenFault> {
    let (client, signals) = connect::connect(link).await?;
    let api = Api {
        client,
        signals: Arc::new(signals),
    };
    assets::able(&api, &link.shown()).await?;
    Ok(api)
}

impl JetstreamBus {
    /// Opens the bus of a mesh for a data folder. Nothing is made but, on a bus that was replaced, the
    /// value that says so.
    pub async fn open(link: &Link, mesh: &str, folder: &Path) -> Result<Opened, OpenFault> {
        Self::begin(link, mesh, folder, false).await
    }
    /// Opens it for reading only: nothing is written, neither there nor in the folder.
    pub async fn open_read_only(
        link: &Link,
        mesh: &str,
        folder: &Path,
    ) -> Result<Opened, OpenFault> {
        Self::begin(link, mesh, folder, true).await
    }

    async fn begin(
        link: &Link,
        mesh: &str,
        folder: &Path,
        reads_only: bool,
    ) -> Result<Opened, OpenFault> {
        let names = Names::of(mesh);
        let api = reach(link).await?;
        let info = assets::existing(&api, &names.state).await?;
        assets::safe(&names, &info, &assets::existing(&api, &names.log).await?)?;
        let stored = assets::read_meta(&api, &names).await?;
        let mark = mark::read(folder).map_err(|error| io_fault(&error))?;
        let (meta, at) = match stored {
            Some((meta, at)) => (Some(meta), at),
            None => (None, 0),
        };
        if let (Some(meta), Seen::Mark(mark)) = (&meta, &mark)
            && meta.installation != mark.installation
        {
            return Err(OpenFault::Taken {
                found: meta.installation.clone(),
                ours: mark.installation.clone(),
            });
        }
        let stream = Stream {
            created: &info.created,
            last_seq: info.state.last_seq,
        };
        let Some(mut verdict) = mark::judge(meta.as_ref(), &mark, stream) else {
            let stream = names.state;
            return Err(OpenFault::NotBootstrapped { stream });
        };
        let mut high = info.state.last_seq;
        if reads_only {
            // As it is, and not as a writer would make it.
            verdict.meta = meta.unwrap_or(verdict.meta);
        } else if verdict.redate {
            high = assets::say(&api, &names, &verdict.meta, at).await?;
        }
        let mut seat = Seat::new(api, names, verdict.meta, info.created, high);
        seat.limit = LIMIT.min(seat.api.client.max_payload().saturating_sub(write::ROOM));
        if !reads_only {
            files::make_folder(folder).map_err(|error| io_fault(&error))?;
            seat.folder = Some(folder.to_owned());
        }
        seat.replaced = Mutex::new(verdict.replaced.clone());
        if !seat.keep_mark() {
            let path = mark::path(folder);
            let text = format!("its mark {} cannot be written", path.display());
            return Err(OpenFault::Bus(Fault::Full(text)));
        }
        let seat = Arc::new(seat);
        let guarded = Arc::clone(&seat);
        let bus = JetstreamBus {
            guard: tokio::spawn(async move { guarded.guard().await }),
            seat,
            bell: Mutex::new(None),
            missing: inspect::Missing::default(),
            reads_only,
        };
        let found = verdict.replaced.map_or(Found::Known, Found::Replaced);
        Ok(Opened { bus, found })
    }

    /// The installation's id.
    pub fn installation(&self) -> &str {
        &self.seat.meta.installation
    }
    /// The epoch that was opened.
    pub fn epoch(&self) -> Epoch {
        self.seat.epoch()
    }
    /// The longest value that these servers take.
    pub fn limit(&self) -> usize {
        self.seat.limit
    }
    /// Notes that [`Found::Replaced`] was told where people see it, and all that follows from it is done.
    pub fn replacement_told(&self) -> Result<(), Fault> {
        if let Ok(mut why) = self.seat.replaced.lock() {
            *why = None;
        }
        if self.seat.keep_mark() {
            return Ok(());
        }
        self.seat.still()?;
        Err(Fault::Full(
            "the mark of the bus cannot be written".to_owned(),
        ))
    }

    /// Tells whoever listens now what a loop saw (B-10). A hint: it is kept nowhere, and lost without a word
    /// where nobody can be told.
    pub async fn hint(&self, of: &Key, text: String) {
        let api = &self.seat.api;
        if api.connected().is_ok() {
            let subject = self.seat.names.hint(of);
            drop(api.client.publish(subject, text.into()).await);
        }
    }

    fn may_write(&self) -> Result<(), Fault> {
        if self.reads_only {
            return Err(Fault::Full("it was opened for reading only".to_owned()));
        }
        Ok(())
    }
    fn bell(&self) -> Option<Arc<Bell>> {
        let mut bell = self.bell.lock().ok()?;
        let hung = bell.get_or_insert_with(|| Arc::new(Bell::hang(Arc::clone(&self.seat))));
        Some(Arc::clone(hung))
    }
}

impl Drop for JetstreamBus {
    fn drop(&mut self) {
        self.guard.abort();
        self.seat.keep_mark();
    }
}

#[async_trait]
impl Bus for JetstreamBus {
    async fn get(&self, bucket: Bucket, key: &Key) -> Result<Option<Entry>, Fault> {
        self.seat.get(bucket, key).await
    }
    async fn put_if(&self, bucket: Bucket, write: Write) -> Result<Put, Fault> {
        let puts = self.put_each(bucket, vec![write]).await?;
        let none = || Fault::Unreachable("no outcome was given".to_owned());
        puts.first().copied().ok_or_else(none)
    }
    async fn put_each(&self, bucket: Bucket, writes: Vec<Write>) -> Result<Vec<Put>, Fault> {
        self.may_write()?;
        self.seat.put_each(bucket, &writes).await
    }
    async fn list(&self, bucket: Bucket, prefix: &Key) -> Result<Snapshot, Fault> {
        self.seat.list(bucket, prefix).await
    }
    async fn list_part(
        &self,
        bucket: Bucket,
        prefix: &Key,
        after: Option<&Key>,
        most: usize,
    ) -> Result<Snapshot, Fault> {
        self.seat
            .list_part(bucket, prefix, after, most.max(1))
            .await
    }
    async fn watch(&self, bucket: Bucket, prefix: &Key) -> Result<Box<dyn Watch>, Fault> {
        self.seat.still()?;
        let none = || Fault::Unreachable("its doorbell broke".to_owned());
        let bell = self.bell().ok_or_else(none)?;
        let changes = bell.changes.subscribe();
        bell.listens().await;
        Ok(Box::new(PrefixWatch::new(bucket, prefix.clone(), changes)))
    }
    async fn append(&self, lines: Vec<(Key, String)>) -> Result<(), Fault> {
        self.may_write()?;
        self.seat.append(&lines).await
    }
    async fn history(&self, prefix: &Key, after: u64, limit: usize) -> Result<Vec<LogLine>, Fault> {
        self.seat.history(prefix, after, limit).await
    }
    async fn health(&self) -> Health {
        let readable = self.seat.look().await.is_ok();
        Health {
            readable,
            writable: readable && !self.reads_only && self.seat.writable(),
            epoch: self.epoch(),
            seq: self.seat.high(),
        }
    }
}

fn io_fault(error: &std::io::Error) -> Fault {
    Fault::Unreachable(format!("the data folder: {error}"))
}
