//! Where journals lie: on the bus, and mirrored in the data folder of each host that read them (B-6).
//!
//! Of two copies the one with the greater revision counts. What the bus lost, or has older after a restore, is put
//! back from the mirror; nothing is begun, promoted or retired twice on its account. A mirror holds what the bus
//! does: names, and sealed copies.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use mesh_sdk::bus::{Bucket, Bus, Expect, Fault, Key, Put, Rev, Write};
use mesh_sdk::{ConsumerName, ProviderName};

use super::journal::Journal;

/// Whose.
pub type Of = (ProviderName, ConsumerName);

/// Every journal, as far as it is known here.
pub type All = BTreeMap<Of, Journal>;

/// The folder of the mirror, in the data folder.
pub const FOLDER: &str = "rotations";

/// The mirror in one data folder.
pub struct Journals {
    folder: PathBuf,
    may_write: bool,
    /// Read when it is needed first.
    mirror: Mutex<Option<All>>,
}

/// A journal could not be kept.
#[derive(Debug, Clone, thiserror::Error)]
pub enum JournalFault {
    /// The bus.
    #[error(transparent)]
    Bus(#[from] Fault),
    /// The mirror.
    #[error("the journal of a rotation in {path} cannot be used: {why}")]
    Mirror {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
}

impl Journals {
    /// The mirror of a data folder; one that is not there is empty. With `may_write` false nothing is ever written,
    /// on the bus neither. Reads nothing yet.
    pub fn of(data: &Path, may_write: bool) -> Self {
        Self {
            folder: data.join(FOLDER),
            may_write,
            mirror: Mutex::new(None),
        }
    }

    /// Where one is kept.
    pub fn key(of: &Of) -> Key {
        Key::of(&["rotation", of.0.as_str(), of.1.as_str()])
    }

    /// Every journal that the bus or the mirror has. What either lacks is put there.
    pub async fn read(&self, bus: &dyn Bus) -> Result<All, JournalFault> {
        let listed = bus.list(Bucket::Meta, &Key::of(&["rotation"])).await?;
        let mut on_the_bus: BTreeMap<Of, (Rev, Journal)> = BTreeMap::new();
        for entry in listed.entries {
            let journal: Journal = serde_json::from_slice(&entry.value)
                .map_err(|error| Fault::Corrupt(format!("{}: {error}", entry.key)))?;
            on_the_bus.insert(of(&journal), (entry.rev, journal));
        }
        let mut all = All::new();
        let mut back = Vec::new();
        for (of, mine) in self.mirrored(|all| all.clone())? {
            let theirs = on_the_bus.get(&of);
            if theirs.is_none_or(|(_, theirs)| theirs.revision < mine.revision) {
                let expect = theirs.map_or(Expect::Absent, |(rev, _)| Expect::At(*rev));
                back.push(write(&mine, expect)?);
                all.insert(of, mine);
            }
        }
        for (of, (_, theirs)) in on_the_bus {
            all.entry(of).or_insert(theirs);
        }
        if self.may_write {
            for journal in all.values() {
                self.mirror(journal)?;
            }
            if !back.is_empty() {
                // Whoever writes one meanwhile knows more.
                bus.put_each(Bucket::Meta, back).await?;
            }
        }
        Ok(all)
    }

    /// One journal.
    pub async fn one(&self, bus: &dyn Bus, of: &Of) -> Result<Option<Journal>, JournalFault> {
        let found = bus.get(Bucket::Meta, &Self::key(of)).await?;
        let theirs: Option<Journal> = match found {
            Some(entry) => Some(
                serde_json::from_slice(&entry.value)
                    .map_err(|error| Fault::Corrupt(format!("{}: {error}", entry.key)))?,
            ),
            None => None,
        };
        let mine = self.mirrored(|all| all.get(of).cloned())?;
        Ok(match (mine, theirs) {
            (Some(mine), Some(theirs)) if mine.revision > theirs.revision => Some(mine),
            (mine, theirs) => theirs.or(mine),
        })
    }

    /// Puts the next state of a journal in the place of the one it follows from. `false`: somebody else wrote it
    /// meanwhile, and that counts. The mirror has it before the bus does.
    pub async fn put(
        &self,
        bus: &dyn Bus,
        before: Option<&Journal>,
        next: &mut Journal,
    ) -> Result<bool, JournalFault> {
        next.revision = before.map_or(0, |before| before.revision) + 1;
        let of = of(next);
        let key = Self::key(&of);
        let found = bus.get(Bucket::Meta, &key).await?;
        let theirs = found
            .as_ref()
            .map(|entry| serde_json::from_slice::<Journal>(&entry.value));
        let theirs = theirs
            .transpose()
            .map_err(|e| Fault::Corrupt(format!("{key}: {e}")))?;
        if theirs.as_ref() != before {
            return Ok(false);
        }
        self.mirror(next)?;
        let expect = found.map_or(Expect::Absent, |entry| Expect::At(entry.rev));
        match bus.put_if(Bucket::Meta, write(next, expect)?).await {
            Ok(Put::Done(_)) => Ok(true),
            Ok(Put::Conflict | Put::Unknown) => {
                let found = bus.get(Bucket::Meta, &key).await?;
                let theirs = found.and_then(|e| serde_json::from_slice::<Journal>(&e.value).ok());
                Ok(theirs.as_ref() == Some(&*next))
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// Keeps one here, on the disk before it returns.
    fn mirror(&self, journal: &Journal) -> Result<(), JournalFault> {
        let of = of(journal);
        if !self.may_write || self.mirrored(|all| all.get(&of) == Some(journal))? {
            return Ok(());
        }
        let path = self.folder.join(format!("{}.{}.json", of.0, of.1));
        write_whole(&self.folder, &path, journal).map_err(|error| mirror_fault(&path, &error))?;
        self.mirrored(|all| drop(all.insert(of, journal.clone())))
    }
    fn mirrored<T>(&self, with: impl FnOnce(&mut All) -> T) -> Result<T, JournalFault> {
        let mut mirror = self.mirror.lock().unwrap_or_else(PoisonError::into_inner);
        let all = match mirror.take() {
            Some(all) => mirror.insert(all),
            None => mirror.insert(read_folder(&self.folder)?),
        };
        Ok(with(all))
    }
}

fn of(journal: &Journal) -> Of {
    (journal.provider.clone(), journal.consumer.clone())
}

fn write(journal: &Journal, expect: Expect) -> Result<Write, Fault> {
    Ok(Write {
        key: Journals::key(&of(journal)),
        expect,
        value: serde_json::to_vec(journal).map_err(|e| Fault::Corrupt(e.to_string()))?,
    })
}

fn mirror_fault(path: &Path, why: &dyn std::fmt::Display) -> JournalFault {
    JournalFault::Mirror {
        path: path.display().to_string(),
        why: why.to_string(),
    }
}

fn read_folder(folder: &Path) -> Result<All, JournalFault> {
    let mut all = All::new();
    let listed = match std::fs::read_dir(folder) {
        Ok(listed) => listed,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(all),
        Err(error) => return Err(mirror_fault(folder, &error)),
    };
    for entry in listed {
        let path = entry.map_err(|e| mirror_fault(folder, &e))?.path();
        if path.extension().is_none_or(|end| end != "json") {
            continue;
        }
        let text = std::fs::read(&path).map_err(|e| mirror_fault(&path, &e))?;
        let journal: Journal =
            serde_json::from_slice(&text).map_err(|e| mirror_fault(&path, &e))?;
        all.insert(of(&journal), journal);
    }
    Ok(all)
}

fn write_whole(folder: &Path, path: &Path, journal: &Journal) -> std::io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let beside = path.with_extension("new");
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&beside)?;
    file.write_all(&serde_json::to_vec(journal)?)?;
    file.sync_all()?;
    std::fs::rename(&beside, path)?;
    std::fs::File::open(folder)?.sync_all()
}
