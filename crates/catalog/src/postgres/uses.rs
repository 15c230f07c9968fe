//! Who is in use: sessions that are open now. Refused logins are in the server's log alone.

use std::collections::HashMap;
use std::time::Duration;

use mesh_sdk::adapter::Use;
use mesh_sdk::provision::Departing;
use mesh_sdk::{Cx, Error};
use tokio_postgres::types::Type;

use super::adapter::Postgres;
use super::roles::column;

impl Postgres {
    /// What the server tells of each, in one query.
    pub(super) async fn uses_of(
        &self,
        cx: &Cx,
        logins: &[Departing],
    ) -> Result<Vec<Option<Use>>, Error> {
        const WHAT: &str = "look at the open sessions";
        let session = self.endpoint.admin().await?;
        let names: Vec<&str> = logins.iter().map(|going| going.login.as_str()).collect();
        // Everybody sees whose each session is and what it calls itself; of what kind it is, only some: a
        // session that works in parallel is several here. Our own, with which a password was tried, may not
        // be over yet.
        let sql = "SELECT usename::text, count(*) FROM pg_stat_activity \
                   WHERE usename::text = ANY($1) AND application_name <> 'meshkeeper' GROUP BY 1";
        let rows = session
            .query(WHAT, sql, &[(&names, Type::TEXT_ARRAY)])
            .await?;
        session.close();
        cx.progress();
        let mut open: HashMap<String, i64> = HashMap::new();
        for row in &rows {
            open.insert(column(row, 0, WHAT)?, column(row, 1, WHAT)?);
        }
        let told = |name: &&str| {
            let how = match open.get(*name)? {
                1 => "a session is open".to_owned(),
                more => format!("{more} server processes work for it"),
            };
            Some(Use::new(Duration::ZERO, how))
        };
        Ok(names.iter().map(told).collect())
    }
}
