//! Passwd-files of Dovecot.

mod bench;
mod reading;
mod reverse;
mod suite;

use mesh_catalog::dovecot::DovecotKind;
use mesh_conformance::servers::{DovecotOptions, DovecotServer};
use mesh_sdk::Wish;
use mesh_sdk::provision::WishParts;
use serde_json::Value;

use crate::wishes::wish_of;

type Ours = crate::ours::Ours<DovecotKind>;

/// A server, and an adapter for its file.
async fn server(options: DovecotOptions) -> (DovecotServer, Ours) {
    let server = match DovecotServer::start(options.clone()).await {
        Ok(server) => server,
        Err(error) => panic!("{error}"),
    };
    let settings = bench::settings(&server.file(), options.any_login);
    (server, Ours::on(settings))
}

fn wish(name: &str, values: Value, change: impl FnOnce(&mut WishParts)) -> Wish {
    wish_of(&DovecotKind, name, values, change)
}
