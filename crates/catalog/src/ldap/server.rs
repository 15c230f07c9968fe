//! What the directory says of itself, and what a person should know.

use ldap3::{Scope, SearchEntry};
use mesh_sdk::adapter::{Finding, FindingLevel, Server};
use mesh_sdk::{Cx, Error};

use super::adapter::Ldap;
use super::connect::{self, Session};
use super::entry::text_of;

/// What the admin login needs, as rules of OpenLDAP.
pub(super) const RIGHTS: [&str; 3] = [
    "to dn.subtree=\"BASE\": write, `userPassword` with it (write holds read)",
    "to dn.subtree=\"GROUPS\": write, if memberships are asked for",
    "limits: size=unlimited, or a directory with more than 500 logins cannot be listed",
];

/// The control of password policies, which slapd announces once the overlay is loaded.
const POLICY: &str = "1.3.6.1.4.1.42.2.27.8.5.1";

impl Ldap {
    pub(super) async fn describe(&self, cx: &Cx) -> Result<Server, Error> {
        let session = self.session(cx).await?;
        let mut server = Server::default();
        server.identity.clone_from(&session.identity);
        let of = |entry: &Option<SearchEntry>, name: &str| {
            let entry = entry.as_ref()?;
            text_of(entry, name).into_iter().next()
        };
        let monitor = base(&session, "cn=Monitor", &["monitoredInfo"]).await;
        let root = base(
            &session,
            "",
            &["vendorName", "vendorVersion", "structuralObjectClass"],
        )
        .await;
        let open = of(&root, "structuralObjectClass").filter(|c| c == "OpenLDAProotDSE");
        server.version = of(&monitor, "monitoredInfo")
            .or_else(|| of(&root, "vendorVersion"))
            .or_else(|| open.map(|_| "OpenLDAP".to_owned()))
            .unwrap_or_else(|| "an LDAP directory".to_owned());
        let start = base(
            &session,
            "cn=Start,cn=Time,cn=Monitor",
            &["monitorTimestamp"],
        )
        .await;
        server.run = of(&start, "monitorTimestamp");
        Ok(server)
    }

    pub(super) async fn examine(&self, cx: &Cx) -> Result<Vec<Finding>, Error> {
        let session = self.session(cx).await?;
        let mut all = vec![Finding::new(
            FindingLevel::Ok,
            "base",
            format!("`{}` is there", self.settings.path),
        )];
        let found = connect::entries(cx, &session, &self.settings, "(objectClass=*)").await?;
        let hidden = found.iter().filter(|one| one.passwords.is_empty()).count();
        if hidden > 0 {
            let message = format!("{hidden} of {} logins show no `userPassword`", found.len());
            all.push(
                Finding::new(FindingLevel::Warning, "rights", message).with_action(
                    "let the admin read it, so that passwords are proven without logging in",
                ),
            );
        }
        if let Some(groups) = &self.options.groups {
            let seen = base(&session, groups, &["entryUUID"]).await.is_some();
            all.push(match seen {
                true => Finding::new(FindingLevel::Ok, "groups", format!("`{groups}` is there")),
                false => {
                    let message = format!("`{groups}` is not there, or the admin may not see it");
                    Finding::new(FindingLevel::Error, "groups", message)
                }
            });
        }
        let root = base(&session, "", &["supportedControl"]).await;
        let policy = root.is_some_and(|root| {
            text_of(&root, "supportedControl")
                .iter()
                .any(|oid| oid == POLICY)
        });
        if policy && !self.options.one_password {
            let message = "the overlay `ppolicy` is loaded: where a policy holds, an entry takes one password";
            all.push(
                Finding::new(FindingLevel::Warning, "two passwords", message).with_action(
                    "say `one_password = true` in the provider's options: a rotation uses two logins in turn then",
                ),
            );
        }
        all.push(
            Finding::new(
                FindingLevel::Warning,
                "sessions",
                "a directory cannot end an open connection: it outlives a removed or switched-off login",
            )
            .with_action("set an idle time-out on the server, or restart it after taking access away"),
        );
        Ok(all)
    }
}

/// One entry, if it is there and may be read. What is only nice to know fails nothing.
async fn base(session: &Session, dn: &str, attributes: &[&str]) -> Option<SearchEntry> {
    let mut client = session.client.clone();
    let found = client
        .search(dn, Scope::Base, "(objectClass=*)", attributes)
        .await;
    let (entries, _) = found.ok()?.success().ok()?;
    entries.into_iter().next().map(SearchEntry::construct)
}
