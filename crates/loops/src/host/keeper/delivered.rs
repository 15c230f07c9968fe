//! What delivery brought to a consumer on this host, from its records and the files themselves.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use mesh_sdk::mark::keyed;
use mesh_sdk::{ProviderName, Time};

use super::Parts;
use crate::delivery::record::{Record as Place, Version};
use crate::host::decide::Credentials;
use crate::host::engine::With;
use crate::host::order::{Order, hex};
use crate::host::record::Record;

/// What was brought, and when it came to lie there.
pub(super) struct Brought {
    pub(super) credentials: Credentials,
    laid: Option<Time>,
}

impl Brought {
    pub(super) fn with<'w>(&'w self, record: &'w Record) -> With<'w> {
        With {
            credentials: &self.credentials,
            laid: self.laid,
            record,
        }
    }
}

/// Of one order. `delivered`: every record of delivery.
pub(super) fn brought(order: &Order, delivered: &[Place], parts: &Parts) -> Brought {
    let nothing = |credentials| Brought {
        credentials,
        laid: None,
    };
    if order.places.is_empty() {
        return nothing(Credentials::None);
    }
    let (mut versions, mut of) = (Vec::new(), BTreeMap::<ProviderName, Version>::new());
    let mut settling = false;
    for place in order.places.keys() {
        let of_place = |one: &&Place| {
            one.consumer == order.consumer && one.host == parts.host && one.place == *place
        };
        let record = delivered.iter().find(of_place);
        let Some((record, written)) = record.and_then(|one| Some((one, one.written.as_ref()?)))
        else {
            return nothing(Credentials::Waits(format!("{place} was not brought yet")));
        };
        let wanted = record.wanted.as_ref().map(|wanted| &wanted.version);
        settling |= record.waits.is_some() || wanted != Some(&written.version);
        versions.push((place.as_str(), written.version.0.as_str()));
        of.extend(record.of.clone());
    }
    let version = match &versions[..] {
        [(_, version)] => (*version).to_owned(),
        all => {
            let parts_of = all.iter().flat_map(|(place, version)| [place, version]);
            let bytes: Vec<&[u8]> = parts_of.map(|text| text.as_bytes()).collect();
            hex(&keyed(&parts.key, b"delivered", &bytes), 4)
        }
    };
    let places: Vec<&str> = order.places.keys().map(String::as_str).collect();
    Brought {
        credentials: Credentials::There {
            version: Version(version),
            of,
            places: places.join(", "),
            settling,
        },
        laid: laid(order.places.values().flatten()),
    }
}

/// When the newest of them was written. A folder's own time changes with each file that takes its name in it.
fn laid<'p>(paths: impl Iterator<Item = &'p PathBuf>) -> Option<Time> {
    let times = paths.filter_map(|path| {
        let told = std::fs::metadata(path).ok()?;
        let millis = told.mtime() * 1000 + told.mtime_nsec() / 1_000_000;
        Some(Time::from_millis(millis))
    });
    times.max()
}
