//! What the server says of itself, and what a person should know of it.

use mesh_sdk::adapter::{Finding, FindingLevel, Server};
use mesh_sdk::{Cx, Error, Secret};
use serde::Deserialize;

use super::adapter::Rabbit;
use super::api::{Api, Permission, User};
use super::hash;

/// What the admin login needs. There is no lesser tag that may see users.
pub(super) const RIGHTS: [&str; 1] =
    ["the tag `administrator`, and no permission in any virtual host"];

/// The version that the conformance suite runs.
const TRIED: &str = "3.10.";

/// How far two readings of one start may be apart, in seconds: a node's uptime is taken every five.
const BLUR: i64 = 15;

#[derive(Deserialize)]
struct Overview {
    rabbitmq_version: String,
}

#[derive(Deserialize)]
struct Node {
    #[serde(default)]
    name: String,
    #[serde(default)]
    os_pid: String,
    #[serde(default)]
    running: bool,
    /// In milliseconds.
    uptime: Option<i64>,
}

#[derive(Deserialize)]
struct Parameter {
    value: String,
}

#[derive(Deserialize)]
struct Whoami {
    tags: serde_json::Value,
}

impl Rabbit {
    /// Version, the cluster's own id, and since when it runs.
    pub(super) async fn describe(&self, cx: &Cx) -> Result<Server, Error> {
        let mut api = self.api()?;
        let mut server = Server::default();
        server.version = format!("RabbitMQ {}", version(cx, &mut api).await?);
        let id = "/global-parameters/internal_cluster_id";
        let id: Option<Parameter> = api.maybe(cx, "ask for the cluster's id", id).await?;
        server.identity = id.map(|id| id.value);
        server.run = self.run(cx, &mut api).await?;
        Ok(server)
    }

    /// The node that runs longest, and since when: while one runs, the cluster forgets nobody. The start
    /// is the server's clock less its uptime, which is taken every few seconds only; so one that is near
    /// the last one is the same.
    async fn run(&self, cx: &Cx, api: &mut Api<'_>) -> Result<Option<String>, Error> {
        let path = "/nodes?columns=name,os_pid,running,uptime";
        let (nodes, date): (Vec<Node>, _) = api.dated(cx, "look at the nodes", path).await?;
        let oldest = nodes.into_iter().filter(|node| node.running);
        let oldest = oldest.max_by_key(|node| node.uptime);
        let now = date.as_deref().and_then(seconds);
        let (Some(node), Some(now)) = (oldest, now) else {
            return Ok(None);
        };
        let Some(uptime) = node.uptime else {
            return Ok(None);
        };
        let started = self.settle(now - uptime / 1000);
        Ok(Some(format!(
            "{} pid {} since {started}",
            node.name, node.os_pid
        )))
    }

    fn settle(&self, started: i64) -> i64 {
        let Ok(mut known) = self.started.lock() else {
            return started;
        };
        match *known {
            Some(before) if (before - started).abs() <= BLUR => before,
            _ => *known.insert(started),
        }
    }

    /// The findings of `mesh doctor`.
    pub(super) async fn examine(&self, cx: &Cx) -> Result<Vec<Finding>, Error> {
        let mut api = self.api()?;
        let version = match version(cx, &mut api).await {
            Ok(version) => version,
            Err(error) => {
                let finding = Finding::new(FindingLevel::Error, "connection", error.to_string());
                return Ok(vec![finding]);
            }
        };
        let mut findings = vec![judge_version(&version), self.encryption()];
        let administers = self.administers(cx, &mut api).await?;
        findings.push(administers.1);
        if !administers.0 {
            return Ok(findings);
        }
        findings.extend(self.data_rights(cx, &mut api).await?);
        findings.extend(default_user(cx, &mut api).await?);
        findings.push(ok("persistence", "logins are kept over a restart"));
        Ok(findings)
    }

    async fn administers(&self, cx: &Cx, api: &mut Api<'_>) -> Result<(bool, Finding), Error> {
        let who: Whoami = api.get(cx, "ask who the admin is", "/whoami").await?;
        let tags = match &who.tags {
            serde_json::Value::Array(tags) => tags
                .iter()
                .filter_map(|tag| tag.as_str())
                .map(str::to_owned)
                .collect(),
            one => {
                let text = one.as_str().unwrap_or_default();
                text.split(',')
                    .map(|tag| tag.trim().to_owned())
                    .collect::<Vec<_>>()
            }
        };
        if tags.iter().any(|tag| tag == "administrator") {
            return Ok((true, ok("rights", "the admin login is an administrator")));
        }
        let message =
            "the admin login lacks the tag `administrator`: without it no users are shown";
        let action = format!("rabbitmqctl set_user_tags {} administrator", self.admin());
        Ok((
            false,
            Finding::new(FindingLevel::Error, "rights", message).with_action(action),
        ))
    }

    /// An administrator needs no permission anywhere to make logins.
    async fn data_rights(&self, cx: &Cx, api: &mut Api<'_>) -> Result<Option<Finding>, Error> {
        let path = format!("/users/{}/permissions", crate::http::part(self.admin()));
        let held: Option<Vec<Permission>> = api.maybe(cx, "look at the admin", &path).await?;
        let Some(first) = held.unwrap_or_default().into_iter().next() else {
            return Ok(None);
        };
        let message = "the admin login may also read or write messages, which nothing here needs";
        let action = format!(
            "rabbitmqctl clear_permissions -p {} {}",
            first.vhost,
            self.admin()
        );
        Ok(Some(
            Finding::new(FindingLevel::Warning, "rights", message).with_action(action),
        ))
    }

    fn encryption(&self) -> Finding {
        let settings = self.client.settings();
        let warn = |message: &str| Finding::new(FindingLevel::Warning, "tls", message);
        match (self.client.is_encrypted(), settings.is_loopback()) {
            (true, _) if settings.tls.dangerously_unverified => {
                warn("the server's certificate is not verified: anybody could be at the other end")
            }
            (true, _) => ok(
                "tls",
                "the connection is encrypted and the certificate verified",
            ),
            (false, true) => ok("tls", "not encrypted, and the server is on this machine"),
            (false, false) => warn("the connection to another machine is not encrypted"),
        }
    }
}

async fn version(cx: &Cx, api: &mut Api<'_>) -> Result<String, Error> {
    let path = "/overview?columns=rabbitmq_version";
    let (overview, _): (Overview, _) = api.dated(cx, "ask who the server is", path).await?;
    Ok(overview.rabbitmq_version)
}

fn judge_version(version: &str) -> Finding {
    let told = format!("RabbitMQ {version}");
    if version.starts_with(TRIED) {
        return ok("version", &told);
    }
    let message = format!("{told} was not tried; the conformance suite runs {TRIED}x");
    Finding::new(FindingLevel::Warning, "version", message)
}

/// The user that a fresh server has, with the password that everybody knows.
async fn default_user(cx: &Cx, api: &mut Api<'_>) -> Result<Option<Finding>, Error> {
    let guest: Option<User> = api.user(cx, "guest").await?;
    let open = guest.is_some_and(|guest| {
        hash::is_usable(&guest.password_hash, &guest.hashing_algorithm)
            && hash::fits(&guest.password_hash, &Secret::from("guest"))
    });
    Ok(open.then(|| {
        let message = "the default user `guest` still has the password `guest`";
        Finding::new(FindingLevel::Warning, "default user", message)
            .with_action("rabbitmqctl delete_user guest")
    }))
}

fn ok(about: &str, message: &str) -> Finding {
    Finding::new(FindingLevel::Ok, about, message)
}

/// The seconds since 1970 of a date as HTTP has it: `Mon, 30 Nov 2026 14:10:38 GMT`.
fn seconds(date: &str) -> Option<i64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let mut parts = date.split_once(", ")?.1.split(' ');
    let day: i64 = parts.next()?.parse().ok()?;
    let month = i64::try_from(MONTHS.find(parts.next()?)? / 3).ok()? + 1;
    let year: i64 = parts.next()?.parse().ok()?;
    let mut clock = parts
        .next()?
        .split(':')
        .map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    // Years that begin in March have their leap day at their end.
    let (year, month) = if month < 3 {
        (year - 1, month + 9)
    } else {
        (year, month - 3)
    };
    let days =
        year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 719_469;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    //! The server's clock, and what counts as one start.
    use super::*;
    use mesh_sdk::ProviderName;
    use mesh_sdk::adapter::ProviderSettings;

    #[test]
    fn a_date_is_read_as_seconds() {
        for (date, wanted) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Tue, 29 Feb 2000 12:00:01 GMT", 951_825_601),
            ("Mon, 30 Nov 2026 14:10:38 GMT", 1_796_047_838),
        ] {
            assert_eq!(seconds(date), Some(wanted), "{date}");
        }
        for other in [
            "",
            "yesterday",
            "Mon, 30 Nov 2026",
            "Mon, xx Nov 2026 14:10:38 GMT",
        ] {
            assert_eq!(seconds(other), None, "{other}");
        }
    }

    #[test]
    fn h11_a_blurred_start_is_one_start() {
        let provider = ProviderName::new("queue").expect("a name");
        let rabbit = Rabbit::new(ProviderSettings::new(provider, "http", "localhost", 1));
        assert_eq!(rabbit.settle(1000), 1000);
        assert_eq!(rabbit.settle(1005), 1000);
        assert_eq!(rabbit.settle(990), 1000);
        assert_eq!(rabbit.settle(1030), 1030);
    }
}
