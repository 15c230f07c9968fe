//! What the suite needs of a kind's real server: to look, and to break things behind the adapter's back.

use async_trait::async_trait;
use mesh_sdk::adapter::ProviderSettings;
use serde_json::Value;

use crate::basics::{Fault, Result, ServerError, free_port};

/// What a bench gives where the backend has no such thing: the trial is skipped, and this says why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// It was done.
    Yes,
    /// The backend has nothing of the kind.
    Never(&'static str),
}

/// What a restart does to logins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// All are forgotten.
    Forgets,
    /// All are kept.
    Keeps,
}

/// An open session of a consumer.
#[async_trait]
pub trait Session: Send {
    /// Whether the server still serves it.
    async fn is_alive(&mut self) -> bool;
}

/// A real server with everything that the suite wants to do to it, by a way that is not the adapter's.
#[async_trait]
pub trait Bench: Send + Sync {
    /// Which server, for the report.
    fn name(&self) -> String;
    /// How the adapter reaches it, through something that can misbehave ([`Bench::fault`]).
    fn settings(&self) -> ProviderSettings;
    /// The same for a server that is not there: by default on a port where nobody listens.
    fn nowhere(&self) -> Result<ProviderSettings> {
        let mut settings = self.settings();
        settings.port = free_port()?;
        Ok(settings)
    }
    /// Values that give `consumer` something to do.
    fn values(&self, consumer: &str) -> Value;
    /// Others, with rights that the first ones lack, and without some that they have.
    fn other_values(&self, consumer: &str) -> Value;
    /// Values that the form of the wish allows and the server refuses, if there are any.
    fn values_that_the_server_refuses(&self) -> Option<Value> {
        None
    }
    /// Whether the server has a way to end a session of a consumer.
    fn ends_sessions(&self) -> Done {
        Done::Yes
    }
    /// Logins that are reserved.
    fn reserved(&self) -> Vec<String> {
        Vec::new()
    }
    /// Whether there is a server behind a connection, which can restart, hang, or be cut off. Where there is
    /// none, [`Bench::restart`], [`Bench::stop`], [`Bench::go_on`] and [`Bench::fault`] are never called.
    fn network(&self) -> Done {
        Done::Yes
    }
    /// Whether logins have rights that values can express.
    fn rights(&self) -> Done {
        Done::Yes
    }
    /// Whether the server tells something that changes with each start.
    fn tells_runs(&self) -> Done {
        Done::Yes
    }
    /// Whether the server takes a verifier, so that no plain password needs to go over an admin's
    /// connection. If it never does, [`Bench::traces`] is what the server wrote down, alone.
    fn takes_verifiers(&self) -> Done {
        Done::Yes
    }

    /// Whether these let somebody in.
    async fn lets_in(&self, login: &str, password: &str) -> Result<bool>;
    /// Logs in and stays.
    async fn open_session(&self, login: &str, password: &str) -> Result<Box<dyn Session>>;
    /// Whether there is such a login.
    async fn exists(&self, login: &str) -> Result<bool>;

    /// Makes a login by hand, as a person would, without a mark.
    async fn make(&self, login: &str, password: &str) -> Result<()>;
    /// Takes a login away.
    async fn drop_login(&self, login: &str) -> Result<()>;
    /// Gives it another password.
    async fn set_password(&self, login: &str, password: &str) -> Result<()>;
    /// Gives it one more password.
    async fn add_password(&self, login: &str, password: &str) -> Result<Done>;
    /// Lets it in with any password.
    async fn open_to_all(&self, login: &str) -> Result<Done>;
    /// Switches it off.
    async fn switch_off(&self, login: &str) -> Result<Done>;
    /// Switches it on.
    async fn switch_on(&self, login: &str) -> Result<Done>;
    /// Takes some of its rights.
    async fn take_rights(&self, login: &str) -> Result<()>;
    /// Gives it more rights, of a kind that values can express.
    async fn add_rights(&self, login: &str) -> Result<Done>;
    /// Takes its mark and nothing else.
    async fn strip_mark(&self, login: &str) -> Result<()>;
    /// Leaves another text as its mark and nothing else.
    async fn replace_mark(&self, login: &str, mark: &str) -> Result<()>;

    /// Writes something, as this consumer, that outlives its login, and gives back the name under which
    /// the adapter's `purge` knows it. `None` where the values speak of nothing of the kind.
    async fn leave_data(&self, _login: &str, _password: &str) -> Result<Option<String>> {
        Ok(None)
    }
    /// Whether what [`Bench::leave_data`] wrote for this consumer is still there.
    async fn has_data(&self, _login: &str) -> Result<bool> {
        Ok(false)
    }
    /// Whether a login can use what [`Bench::leave_data`] wrote as the consumer `owner`, and change it. `None`
    /// where the bench cannot tell.
    async fn uses_data(&self, _owner: &str, _login: &str, _pass: &str) -> Result<Option<bool>> {
        Ok(None)
    }
    /// Whether the server tells of an open session of a login.
    fn tells_sessions(&self) -> Done {
        Done::Yes
    }
    /// Whether the server tells that somebody tried to log in with a login that is switched off.
    fn tells_attempts(&self) -> Done {
        Done::Yes
    }

    /// How many consumers the bulk trials have: more than the adapter looks at one by one, and not so many
    /// that a slow server takes over 20 s to make them.
    fn many(&self) -> usize {
        300
    }
    /// How many commands of the adapter wrote something on the server up to now.
    async fn writes(&self) -> Result<u64>;
    /// How many logins failed on the server up to now.
    async fn failed_logins(&self) -> Result<u64>;
    /// What the admin's connections carried and the server wrote down, to search for secrets.
    async fn traces(&self) -> Result<Vec<u8>>;

    /// Restarts the server.
    async fn restart(&self) -> Result<Restart> {
        Err(unwritten("restart"))
    }
    /// Stops it in its tracks, with its connections open.
    async fn stop(&self) -> Result<()> {
        Err(unwritten("stop"))
    }
    /// Lets it go on.
    async fn go_on(&self) -> Result<()> {
        Err(unwritten("go_on"))
    }
    /// What happens to the adapter's later connections.
    fn fault(&self, _fault: Fault) {}
}

fn unwritten(what: &str) -> ServerError {
    ServerError::new(format!(
        "the bench says that there is a network, and has no `{what}`"
    ))
}
