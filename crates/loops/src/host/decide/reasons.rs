//! Why something is restarted, back to the wish.

use std::fmt;

use super::{Asked, Credentials, Image, Seen, Stands};
use crate::delivery::record::Version;
use crate::host::record::Record;

/// One reason for a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// It never was there.
    New,
    /// It was there, and is no more.
    Vanished,
    /// It is there and does not run.
    Stopped(String),
    /// Somebody made it otherwise.
    ByHand(String),
    /// The manifest asks for something else.
    Asked,
    /// The image's name means another image now, or another one is asked for.
    Image(String),
    /// Other credentials were brought.
    Credentials(String),
}

impl Reason {
    /// Whether it is none that a person or another loop waits for: nothing else is to be expected with it.
    pub fn is_sudden(&self) -> bool {
        matches!(
            self,
            Reason::New | Reason::Vanished | Reason::Stopped(_) | Reason::ByHand(_)
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::New => f.write_str("new"),
            Reason::Vanished => f.write_str("vanished"),
            Reason::Stopped(how) => write!(f, "stopped: {how}"),
            Reason::ByHand(what) => write!(f, "changed by hand: {what}"),
            Reason::Asked => f.write_str("the manifest asks for something else"),
            Reason::Image(what) => write!(f, "image changed: {what}"),
            Reason::Credentials(what) => write!(f, "credentials of {what}"),
        }
    }
}

/// Every reason of this moment.
pub(super) fn of(asked: &Asked, seen: Option<&Seen>, record: &Record) -> Vec<Reason> {
    let Some(seen) = seen else {
        return match record.made {
            Some(_) => vec![Reason::Vanished],
            None => vec![Reason::New],
        };
    };
    let mut all = Vec::new();
    if let Stands::Stopped(how) = &seen.stands {
        all.push(Reason::Stopped(how.clone()));
    }
    if asked.digest.is_some() && asked.digest != seen.asked {
        all.push(Reason::Asked);
    } else if !seen.by_hand.is_empty() {
        all.push(Reason::ByHand(seen.by_hand.join(", ")));
    }
    if let Image::Here { name, id } = &asked.image
        && Some(id) != seen.image.as_ref()
    {
        let ran = seen.image.as_deref().map_or("another", short);
        all.push(Reason::Image(format!(
            "{name} is {}, and it ran {ran}",
            short(id)
        )));
    }
    if let Credentials::There {
        version,
        of,
        places,
        ..
    } = &asked.credentials
        && Some(version) != seen.credentials.as_ref()
    {
        let before = record.made.as_ref();
        let before = before.filter(|made| made.credentials == seen.credentials);
        let other =
            |sign: &Version, name| before.is_none_or(|made| made.of.get(name) != Some(sign));
        let mut names: Vec<&str> = of
            .iter()
            .filter(|(name, sign)| other(sign, *name))
            .map(|(name, _)| name.as_str())
            .collect();
        if names.is_empty() {
            names = of.keys().map(|name| name.as_str()).collect();
        }
        let names = match names[..] {
            [] => "all providers".to_owned(),
            _ => names.join(", "),
        };
        all.push(Reason::Credentials(format!(
            "{names}, version {} ← delivery to {places}",
            version.0
        )));
    }
    all
}

/// As people know an image's id.
fn short(id: &str) -> &str {
    let id = id.strip_prefix("sha256:").unwrap_or(id);
    id.get(..12).unwrap_or(id)
}
