//! Real servers as child processes: an own free port, an own folder, killed on drop, restartable.
//!
//! A server that is not installed is a failure that names `scripts/test`, never a silent skip.

mod jetstream;
mod process;
mod proxy;
mod redis;
mod resp;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Instant, sleep};

pub use jetstream::{JetCluster, JetOptions, RawNats};
pub use proxy::{Fault, Proxy};
pub use redis::{Flavor, Options, RedisServer, TlsFiles};
pub use resp::{Reply, RespClient, encode};

/// Why a server could not be used; for a test's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError(String);

impl ServerError {
    /// With a message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}
impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for ServerError {}
impl From<std::io::Error> for ServerError {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

/// What the functions here give.
pub type Result<T> = std::result::Result<T, ServerError>;

/// Waits until `state` gives something, looking every few milliseconds. When `limit` is over, the error
/// has `what` and the last reason that `state` gave.
pub async fn until<T, F>(what: &str, limit: Duration, mut state: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = std::result::Result<T, String>>,
{
    let end = Instant::now() + limit;
    loop {
        let last = match state().await {
            Ok(value) => return Ok(value),
            Err(reason) => reason,
        };
        if Instant::now() >= end {
            let message = format!("{what}: not within {limit:?}; the last state was: {last}");
            return Err(ServerError::new(message));
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// A free port on the loopback address. Nothing keeps it free; whoever fails to bind it asks again.
pub fn free_port() -> Result<u16> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    Ok(listener.local_addr()?.port())
}

/// A server's program: the variable names one, or it lies under `.servers` of the workspace, or it is on
/// the PATH.
struct Program {
    variable: &'static str,
    installed: Option<&'static str>,
    on_path: Option<&'static str>,
}

impl Program {
    #[allow(
        clippy::disallowed_methods,
        reason = "the tests' variables are the only settings of this crate"
    )]
    fn find(&self, name: &str) -> Result<PathBuf> {
        if let Some(named) = std::env::var_os(self.variable).filter(|n| !n.is_empty()) {
            return Ok(PathBuf::from(named));
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let installed = self.installed.map(|path| root.join(path));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let on_path = self.on_path;
        let on_path =
            std::env::split_paths(&path).filter_map(|folder| on_path.map(|name| folder.join(name)));
        let mut candidates = installed.into_iter().chain(on_path);
        candidates.find(|program| program.is_file()).ok_or_else(|| {
            let message = format!(
                "{name} is not installed: run `scripts/test`, which installs it, or name a program in {}",
                self.variable
            );
            ServerError::new(message)
        })
    }
}

#[cfg(test)]
mod tests {
    //! What a test's author reads when something is missing or does not come.
    use super::*;

    #[test]
    fn a8_a_missing_server_is_a_failure_that_names_the_script() {
        let nowhere = Program {
            variable: "MESH_TEST_NO_SUCH_VARIABLE",
            installed: Some(".servers/no/such/server"),
            on_path: Some("no-such-server-anywhere"),
        };
        let error = nowhere
            .find("No server")
            .expect_err("not there")
            .to_string();
        assert!(
            error.contains("scripts/test") && error.contains("No server"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn waiting_is_bounded_and_tells_the_last_state() {
        let mut left = 3;
        let soon = until("soon", Duration::from_secs(5), || {
            left -= 1;
            let now = left;
            async move {
                if now == 0 {
                    Ok(7)
                } else {
                    Err(format!("{now} left"))
                }
            }
        });
        assert_eq!(soon.await, Ok(7));
        let never = || async { Err::<(), _>("grey".to_owned()) };
        let error = until("green", Duration::from_millis(20), never).await;
        let error = error.expect_err("never").to_string();
        assert!(error.contains("green") && error.contains("grey"), "{error}");
    }
}
