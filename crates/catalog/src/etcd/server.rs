//! What the cluster says of itself, and what a person should know of it.

use mesh_sdk::adapter::{Finding, FindingLevel, Server};
use mesh_sdk::{Cx, Error};

use super::adapter::Etcd;
use super::api::version;

/// What the admin login needs. etcd has no lesser right that may see users.
pub(super) const RIGHTS: [&str; 1] = ["the role `root`"];

/// The versions that the conformance suite runs.
const TRIED: [&str; 2] = ["3.4.", "3.5."];

impl Etcd {
    /// Version, the cluster's id, and whether it takes writes.
    pub(super) async fn describe(&self, cx: &Cx) -> Result<Server, Error> {
        let (version, _) = version(cx, &self.client).await?;
        let status = self.api(cx).await?.status(cx).await?;
        let mut server = Server::default();
        server.version = format!("etcd {version}");
        server.identity = status["header"]["cluster_id"].as_str().map(str::to_owned);
        let errors = status["errors"].as_array().into_iter().flatten();
        let full = errors
            .filter_map(|e| e.as_str())
            .any(|error| error.contains("NOSPACE"));
        server.read_only = full.then(|| {
            "its space is used up: compact and defragment it, then `etcdctl alarm disarm`"
                .to_owned()
        });
        Ok(server)
    }

    /// The findings of `mesh doctor`.
    pub(super) async fn examine(&self, cx: &Cx) -> Result<Vec<Finding>, Error> {
        let error = |about: &str, error: &Error| {
            Finding::new(FindingLevel::Error, about, error.to_string())
        };
        let (told, cluster) = match version(cx, &self.client).await {
            Ok(version) => version,
            Err(failed) => return Ok(vec![error("connection", &failed)]),
        };
        let mut findings = vec![judge_version(&told), self.encryption()];
        if cluster < (3, 5) {
            let message = "etcd before 3.5 takes plain passwords only, and does not count changes: each pass \
                 looks at every login";
            findings.push(Finding::new(FindingLevel::Warning, "passwords", message));
        }
        let mut api = match self.api(cx).await {
            Ok(api) => api,
            Err(failed) => {
                findings.push(error("authentication", &failed).with_action("etcdctl auth enable"));
                return Ok(findings);
            }
        };
        findings.push(match api.users(cx).await {
            Ok(_) => ok("rights", "the admin login may see and change users"),
            Err(failed) => {
                let admin = self.client.settings().admin.as_ref();
                let admin = admin.map_or("", |admin| &admin.user);
                error("rights", &failed)
                    .with_action(format!("etcdctl user grant-role {admin} root"))
            }
        });
        findings.push(ok("persistence", "logins are kept over a restart"));
        Ok(findings)
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

fn judge_version(version: &str) -> Finding {
    let told = format!("etcd {version}");
    if TRIED.iter().any(|tried| version.starts_with(tried)) {
        return ok("version", &told);
    }
    let message = format!("{told} was not tried; the conformance suite runs 3.4 and 3.5");
    Finding::new(FindingLevel::Warning, "version", message)
}

fn ok(about: &str, message: &str) -> Finding {
    Finding::new(FindingLevel::Ok, about, message)
}
