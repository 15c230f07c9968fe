//! What can be taken over as it stands. Nothing here writes.

use mesh_sdk::adapter::Found;
use mesh_sdk::{Cx, Error, Login, Marker};

use super::adapter::Ldap;
use super::check;
use super::look;
use super::values::LdapValues;
use crate::offered;

impl Ldap {
    /// Every entry below the base that a wish could have made as it stands, by the two searches of a look.
    pub(super) async fn offers(
        &self,
        cx: &Cx,
        marker: &Marker,
    ) -> Result<Vec<Found<LdapValues>>, Error> {
        let session = self.session(cx).await?;
        let found = self.find_all(cx, &session).await?;
        drop(session);
        let offers = found.values();
        Ok(offers.filter_map(|one| self.offer(marker, one)).collect())
    }

    /// A name that the server would fold is none that a manifest could ask for.
    fn offer(&self, marker: &Marker, found: &look::Found) -> Option<Found<LdapValues>> {
        let look::Found { entry, groups } = found;
        let login = Login::new(&entry.login).ok()?;
        check::login(&self.settings, &entry.login).ok()?;
        if !offered::may_be(&entry.listed_mark(marker)) {
            return None;
        }
        let mut values = LdapValues::default();
        let mut beyond = Vec::new();
        for group in groups {
            match check::plain("groups", group) {
                Ok(()) => values.groups.push(group.clone()),
                Err(_) => beyond.push(format!("group {group}")),
            }
        }
        if entry.passwords.len() > 1 {
            beyond.push("a second password, which goes when it is adopted".to_owned());
        }
        Some(offered::found(login, values, entry.enabled(), beyond))
    }
}
