//! Who is in use: sessions that are open now. Refused logins are counted for the whole server alone.

use std::collections::HashMap;
use std::time::Duration;

use mesh_sdk::adapter::Use;
use mesh_sdk::provision::Departing;
use mesh_sdk::{Class, Cx, Error};

use super::adapter::Mariadb;
use super::connect::text;
use super::doctor::has_global;

impl Mariadb {
    /// What the process list tells of each. Without `PROCESS` it would show our own sessions and no others,
    /// as if nobody were there.
    pub(super) async fn uses_of(
        &self,
        cx: &Cx,
        logins: &[Departing],
    ) -> Result<Vec<Option<Use>>, Error> {
        let mut session = self.session(cx).await?;
        if !has_global(&mut session, "PROCESS").await? {
            let message =
                "the admin login lacks `PROCESS ON *.*`: it cannot see the sessions of others";
            return Err(Error::new(Class::Denied, message));
        }
        let all = "SELECT USER, COUNT(*) FROM information_schema.PROCESSLIST GROUP BY BINARY USER";
        let rows = session
            .rows("look at the open sessions", all, || cx.progress())
            .await?;
        let counted = |row| Some((text(row, 0)?, text(row, 1)?));
        let open: HashMap<String, String> = rows.iter().filter_map(counted).collect();
        let told = |going: &Departing| {
            let how = match open.get(going.login.as_str())?.as_str() {
                "1" => "a session is open".to_owned(),
                more => format!("{more} open sessions"),
            };
            Some(Use::new(Duration::ZERO, how))
        };
        Ok(logins.iter().map(told).collect())
    }
}
