//! What can be taken over as it stands. Nothing here writes.

use std::collections::HashMap;

use mesh_sdk::adapter::Found;
use mesh_sdk::mark::Owner;
use mesh_sdk::{Cx, Error, Login, Marker};

use super::adapter::Etcd;
use super::check;
use super::compare::listed_mark;
use super::grants::Grants;
use super::values::EtcdValues;
use crate::offered;

impl Etcd {
    /// Every user that a wish could have made as it stands: two calls for names, and one for each user and each
    /// role.
    pub(super) async fn find_all(
        &self,
        cx: &Cx,
        marker: &Marker,
    ) -> Result<Vec<Found<EtcdValues>>, Error> {
        let users = self.users(cx).await?;
        let names = self.api(cx).await?.roles(cx).await?;
        let roles: HashMap<String, Grants> = self.roles(cx, &names).await?.into_iter().collect();
        let offer = |(login, has): &(String, Vec<String>)| self.offer(marker, login, has, &roles);
        Ok(users.iter().filter_map(offer).collect())
    }

    /// What the role of ours grants is what values say; what a person's roles grant stays beside it.
    fn offer(
        &self,
        marker: &Marker,
        login: &str,
        has: &[String],
        roles: &HashMap<String, Grants>,
    ) -> Option<Found<EtcdValues>> {
        let login = Login::new(login).ok()?;
        check::login(&login, self.client.settings()).ok()?;
        if !offered::may_be(&listed_mark(marker, has)) {
            return None;
        }
        let (mut values, mut beyond) = (EtcdValues::default(), Vec::new());
        let others = has.iter().filter(|name| !name.starts_with(Marker::PREFIX));
        for name in others {
            let grants = roles.get(name).cloned().unwrap_or_default();
            if !is_ours(marker, name) {
                beyond.push(match grants.is_empty() {
                    true => format!("role {name}"),
                    false => format!("role {name}: {}", grants.told()),
                });
                continue;
            }
            let (said, rest) = grants.as_values();
            values = said;
            if !rest.is_empty() {
                beyond.push(rest.told());
            }
        }
        // etcd has no switch.
        Some(offered::found(login, values, true, beyond))
    }
}

/// Whether it is the role that carries what a wish of this installation asks for.
fn is_ours(marker: &Marker, role: &str) -> bool {
    let mark = role.strip_prefix("mesh.");
    mark.is_some_and(|mark| matches!(marker.owner(mark), Owner::Ours { .. }))
}
