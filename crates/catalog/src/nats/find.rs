//! What can be taken over as it stands, and who is in use. Nothing here writes.

use std::time::Duration;

use mesh_sdk::adapter::{Found, Use};
use mesh_sdk::provision::Departing;
use mesh_sdk::{Cx, Error, Login, Marker};
use serde::Deserialize;
use serde_json::json;

use super::adapter::Nats;
use super::compare::listed_mark;
use super::file::Entry;
use super::hash::is_hash;
use super::values::NatsValues;
use super::wire::{NAME, Wire};
use super::{check, classify, stamp};
use crate::offered;

/// More connections than a server remembers when they are over (10,000), and more open ones of one login.
const CONNECTIONS: u32 = 65_536;

/// A connection as the server tells it. Its start and end are told in the server's local time; these are not.
#[derive(Deserialize)]
struct Connection {
    #[serde(default)]
    name: String,
    last_activity: String,
    /// Why it is over; none while it is open.
    reason: Option<String>,
    /// None for one that never came in.
    account: Option<String>,
}

#[derive(Deserialize)]
struct Connections {
    now: String,
    connections: Vec<Connection>,
}

impl Nats {
    /// Every user of the file that a wish could have made as it stands.
    pub(super) async fn find_all(
        &self,
        cx: &Cx,
        marker: &Marker,
    ) -> Result<Vec<Found<NatsValues>>, Error> {
        let seen = self.see(cx).await?;
        let entries = seen.file.entries().iter();
        Ok(entries.filter_map(|one| self.offer(marker, one)).collect())
    }

    /// A user without a password, or with rights that cannot be read, is none that a manifest could ask for.
    fn offer(&self, marker: &Marker, entry: &Entry) -> Option<Found<NatsValues>> {
        let login = Login::new(&entry.login).ok()?;
        let stored = entry.stored.as_deref().filter(|text| !text.is_empty())?;
        let values = entry.rights.as_ref()?.as_values()?;
        check::login(&login, &self.settings).ok()?;
        check::values(&values).ok()?;
        if !offered::may_be(&listed_mark(marker, entry)) {
            return None;
        }
        let mut beyond = entry.beyond.clone();
        if !is_hash(stored) {
            let plain = "its password stands there in plain text; adopting it writes a hash";
            beyond.push(plain.to_owned());
        }
        Some(offered::found(login, values, entry.on, beyond))
    }

    /// What the server tells of each one's connections: those that are open, and the last 10,000 that are
    /// over, those that were refused with them. A restart forgets them.
    pub(super) async fn uses_of(
        &self,
        cx: &Cx,
        going: &[Departing],
    ) -> Result<Vec<Option<Use>>, Error> {
        let mut wire = self.admin(cx).await?;
        let mut all = Vec::with_capacity(going.len());
        for one in going {
            let told = connections(&mut wire, one.login.as_str()).await?;
            all.push(told.judged()?);
            cx.progress();
        }
        Ok(all)
    }
}

async fn connections(wire: &mut Wire, login: &str) -> Result<Connections, Error> {
    const WHAT: &str = "ask who is connected";
    // Open ones and those that are over, by the name that was logged in with.
    let wanted = json!({ "auth": true, "user": login, "state": 2, "limit": CONNECTIONS });
    let subject = format!("$SYS.REQ.SERVER.{}.CONNZ", wire.info.server_id);
    let mut answer = wire.ask_for(WHAT, &subject, &wanted.to_string()).await?;
    serde_json::from_value(answer["data"].take()).map_err(|_| classify::garbled(WHAT))
}

impl Connections {
    /// The last use; ours, which only prove a password, are none.
    fn judged(&self) -> Result<Option<Use>, Error> {
        let theirs = || self.connections.iter().filter(|one| one.name != NAME);
        let open = theirs().filter(|one| one.reason.is_none()).count();
        if open > 0 {
            let s = if open == 1 { "" } else { "s" };
            let how = format!("{open} open connection{s}");
            return Ok(Some(Use::new(Duration::ZERO, how)));
        }
        let at = |text: &str| stamp::nanos(text).ok_or_else(|| classify::garbled("read a time"));
        let now = at(&self.now)?;
        let mut last: Option<(i128, &Connection)> = None;
        for one in theirs() {
            let when = at(&one.last_activity)?;
            if last.is_none_or(|(before, _)| when > before) {
                last = Some((when, one));
            }
        }
        Ok(last.map(|(when, one)| {
            let ago = u64::try_from(now.saturating_sub(when)).unwrap_or(0);
            let how = match one.account {
                Some(_) => "a connection that is over",
                None => "a login was refused",
            };
            Use::new(Duration::from_nanos(ago), how)
        }))
    }
}

#[cfg(test)]
mod tests {
    //! What a server's list of connections says.
    use serde_json::Value;

    use super::*;

    fn judged(connections: Value) -> Option<Use> {
        let told = json!({ "now": "2026-11-30T17:00:10Z", "connections": connections });
        let told: Connections = serde_json::from_value(told).expect("a list");
        told.judged().expect("times")
    }

    #[test]
    fn r6_the_last_use_counts_and_our_own_proofs_do_not() {
        let over = |name: &str, at: &str, account: Option<&str>| {
            json!({
                "name": name, "last_activity": format!("2026-11-30T17:00:{at}Z"),
                // Told in local time, and not looked at.
                "start": "2026-11-30T12:00:00-05:00", "stop": "2026-11-30T12:00:09-05:00",
                "reason": "Client Closed", "account": account,
            })
        };
        assert_eq!(judged(json!([])), None);
        assert_eq!(judged(json!([over(NAME, "09", Some("APP"))])), None);
        let seen = judged(json!([
            over("app", "01.5", Some("APP")),
            over("app", "08", None),
            over("app", "04", Some("APP")),
        ]));
        let wanted = Use::new(Duration::from_secs(2), "a login was refused");
        assert_eq!(seen, Some(wanted));
        let open = json!({ "last_activity": "2026-11-30T16:00:00Z", "account": "APP" });
        let seen = judged(json!([over("app", "08", None), open]));
        assert_eq!(seen, Some(Use::new(Duration::ZERO, "1 open connection")));
    }
}
