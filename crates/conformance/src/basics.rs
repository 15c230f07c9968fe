//! What benches and servers have in common: an error, waiting with a bound, faults.

use std::fmt;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// What stands between the adapter and its server does with connections that are made from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Hands everything on.
    None,
    /// Takes connections and never says a word.
    Silent,
    /// Hands so many bytes of the server's answers on, and says nothing more.
    StallAfter(usize),
    /// Hands so many bytes of the server's answers on, and then closes. All that the client sent before
    /// has reached the server.
    CutAfter(usize),
}

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

#[cfg(test)]
mod tests {
    //! Waiting ends.
    use super::*;

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
