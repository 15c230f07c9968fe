//! A person's word that a bus is the one that a data folder uses (B-6): a host joins, or goes on with a bus
//! that was restored.

use std::path::Path;

use super::api::Trouble;
use super::connect::Link;
use super::fault::{Meaning, OpenFault};
use super::mark::{self, Mark, Replaced, Seen, Stream};
use super::names::Names;
use super::{assets, io_fault, reach};
use crate::files;

/// Whose the streams of a mesh are, if they are there and say so. Makes and writes nothing.
pub async fn owner(link: &Link, mesh: &str) -> Result<Option<String>, OpenFault> {
    let names = Names::of(mesh);
    let api = reach(link).await?;
    match api.info(&names.state).await {
        Ok(_) => {}
        Err(Trouble::Refused(refused)) if refused.meaning() == Meaning::NoStream => {
            return Ok(None);
        }
        Err(trouble) => return Err(trouble.fault().into()),
    }
    let meta = assets::read_meta(&api, &names).await?;
    Ok(meta.map(|(meta, _)| meta.installation))
}

/// What [`adopt`] came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Adopted {
    /// It is the bus that this data folder used last: nothing was done.
    Known,
    /// This data folder did not use it before, and does from now on.
    Joined,
    /// It is not the state that this data folder used last, and counts from now on, in this epoch.
    Replaced {
        /// The epoch.
        epoch: u64,
        /// What it was found to be.
        why: Replaced,
    },
}

/// A person's word that the bus of a mesh, as it is now, is the one of this data folder (B-6). `ours`: the
/// installation that the folder belongs to already, on whatever bus. Nothing on it is changed but, where
/// it is not the newest state, its epoch. Answers the installation, too.
pub async fn adopt(
    link: &Link,
    mesh: &str,
    folder: &Path,
    ours: Option<&str>,
) -> Result<(Adopted, String), OpenFault> {
    let names = Names::of(mesh);
    let api = reach(link).await?;
    let info = assets::existing(&api, &names.state).await?;
    assets::safe(&names, &info, &assets::existing(&api, &names.log).await?)?;
    let stored = assets::read_meta(&api, &names).await?;
    let seen = mark::read(folder).map_err(|error| io_fault(&error))?;
    let before = match &seen {
        Seen::Mark(mark) => Some(mark.installation.as_str()),
        _ => None,
    };
    let (meta, at) = match stored {
        Some((meta, at)) => (Some(meta), at),
        None => (None, 0),
    };
    if let (Some(meta), Some(ours)) = (&meta, before.or(ours))
        && meta.installation != ours
    {
        return Err(OpenFault::Taken {
            found: meta.installation.clone(),
            ours: ours.to_owned(),
        });
    }
    let stream = Stream {
        created: &info.created,
        last_seq: info.state.last_seq,
    };
    let Some(verdict) = mark::judge(meta.as_ref(), &seen, stream) else {
        let stream = names.state;
        return Err(OpenFault::NotBootstrapped { stream });
    };
    let fresh = seen == Seen::Missing && ours.is_none();
    let installation = verdict.meta.installation.clone();
    if let Seen::Mark(mark) = &seen
        && !verdict.redate
        && verdict.replaced == mark.replaced
    {
        return Ok((Adopted::Known, installation));
    }
    let (adopted, replaced) = match verdict.replaced {
        None => return Ok((Adopted::Known, installation)),
        Some(_) if fresh => (Adopted::Joined, None),
        Some(why) => {
            let epoch = verdict.meta.epoch;
            let adopted = match (&why, &seen) {
                (Replaced::NoMark, Seen::Missing) => Adopted::Joined,
                _ => Adopted::Replaced {
                    epoch,
                    why: why.clone(),
                },
            };
            (adopted, Some(why))
        }
    };
    let mut reached = info.state.last_seq;
    if verdict.redate {
        reached = assets::say(&api, &names, &verdict.meta, at).await?;
    }
    files::make_folder(folder).map_err(|error| io_fault(&error))?;
    let mark = Mark {
        installation: installation.clone(),
        epoch: verdict.meta.epoch,
        created: info.created,
        reached,
        replaced,
    };
    mark::write(folder, &mark).map_err(|error| io_fault(&error))?;
    Ok((adopted, installation))
}
