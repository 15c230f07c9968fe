//! What a program tells of logins that nobody asked for yet, and of those that leave.

use std::time::Duration;

use mesh_sdk::adapter::{Found, Use};
use mesh_sdk::provision::Departing;
use mesh_sdk::{Cx, Error, Login, Marker};

use super::adapter::Exec;
use super::ask::item;
use super::protocol::{FoundLine, Nothing, UseLine, UsesLine};
use super::values::ExecValues;
use super::{classify, judge};
use crate::offered;

/// Logins in one line.
const PART: usize = 500;

impl Exec {
    /// Every login that the program tells, but for those that are never touched or are another mesh's.
    pub(super) async fn find_all(
        &self,
        cx: &Cx,
        marker: &Marker,
    ) -> Result<Vec<Found<ExecValues>>, Error> {
        let process = self.able(cx, "find", "tell what its logins may do").await?;
        let mut flight = process.send("find", Nothing {}).await?;
        let mut all = Vec::new();
        while let Some(one) = item::<FoundLine>(cx, &mut flight, "find").await? {
            let login = Login::new(&one.login)
                .map_err(|_| classify::odd("find", "has a login that cannot be one"))?;
            let mark = judge::listed_mark(marker, one.mark.as_deref());
            if self.may_touch(&process, login.as_str()).is_err() || !offered::may_be(&mark) {
                continue;
            }
            let values = ExecValues {
                values: one.values,
                data: one.data,
            };
            all.push(offered::found(login, values, one.enabled, one.beyond));
        }
        Ok(all)
    }

    /// What the program tells of each; who has no item was not seen.
    pub(super) async fn uses_of(
        &self,
        cx: &Cx,
        going: &[Departing],
    ) -> Result<Vec<Option<Use>>, Error> {
        let process = self.able(cx, "uses", "tell who is in use").await?;
        let mut all = vec![None; going.len()];
        for (part, seen) in going.chunks(PART).zip(all.chunks_mut(PART)) {
            let logins = part.iter().map(|one| one.login.as_str()).collect();
            let mut flight = process.send("uses", UsesLine { logins }).await?;
            while let Some(one) = item::<UseLine>(cx, &mut flight, "uses").await? {
                let Some(slot) = seen.get_mut(one.index) else {
                    return Err(classify::odd("uses", "has an index that was not asked for"));
                };
                let ago = Duration::try_from_secs_f64(one.seconds)
                    .map_err(|_| classify::odd("uses", "has a time that cannot be one"))?;
                *slot = Some(Use::new(ago, classify::line(&one.how)));
            }
        }
        Ok(all)
    }
}
