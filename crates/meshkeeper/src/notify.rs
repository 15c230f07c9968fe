//! What the service manager hears: ready, alive, stopping (systemd's `sd_notify`). Without one it is silent.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;

/// The way to the service manager.
#[derive(Debug, Clone, Default)]
pub struct Notify(Option<Arc<UnixDatagram>>);

impl Notify {
    /// By the address that the manager gave; a path, or an abstract name after `@`.
    pub fn to(address: Option<&OsStr>) -> Self {
        let connect = |address: &OsStr| -> std::io::Result<UnixDatagram> {
            let socket = UnixDatagram::unbound()?;
            let to = match address.as_bytes() {
                [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
                _ => SocketAddr::from_pathname(address)?,
            };
            socket.connect_addr(&to)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let socket = address.map(connect).transpose();
        let socket = socket.inspect_err(|error| {
            tracing::warn!("the service manager cannot be told anything: {error}");
        });
        Self(socket.unwrap_or_default().map(Arc::new))
    }
    /// It serves.
    pub fn ready(&self) {
        self.say("READY=1");
    }
    /// It made progress.
    pub fn alive(&self) {
        self.say("WATCHDOG=1");
    }
    /// It was told to stop.
    pub fn stopping(&self) {
        self.say("STOPPING=1");
    }
    /// What it does now, for people.
    pub fn status(&self, what: &str) {
        self.say(&format!("STATUS={what}"));
    }
    fn say(&self, what: &str) {
        if let Some(socket) = &self.0 {
            // A manager that does not listen is no reason to do anything else.
            drop(socket.send(what.as_bytes()));
        }
    }
}
