//! Who is in use: connections that are open now. Refused logins are counted for a node as a whole.

use std::time::Duration;

use mesh_sdk::adapter::Use;
use mesh_sdk::provision::Departing;
use mesh_sdk::{Cx, Error};

use super::adapter::Rabbit;

impl Rabbit {
    /// One short call for each that leaves: the list of all connections is some seconds old.
    pub(super) async fn uses_of(
        &self,
        cx: &Cx,
        logins: &[Departing],
    ) -> Result<Vec<Option<Use>>, Error> {
        let mut api = self.api()?;
        let mut told = Vec::with_capacity(logins.len());
        for going in logins {
            let how = match api.sessions(cx, going.login.as_str()).await? {
                0 => None,
                1 => Some("a connection is open".to_owned()),
                more => Some(format!("{more} open connections")),
            };
            told.push(how.map(|how| Use::new(Duration::ZERO, how)));
        }
        Ok(told)
    }
}
