//! Who is in use although nobody asks for it any more.

use super::core::Core;
use super::departure::Phase;
use super::record::Unknown;
use crate::adapter::Use;
use crate::error::Error;
use crate::name::Login;
use crate::time::Time;

impl Core {
    /// The logins whose use is to be asked for on this pass, with their slots: those that are switched
    /// off, and those whose next step is due. After [`Core::listed`], before [`Core::steps`].
    pub fn uses_to_ask(&self, now: Time) -> Vec<(usize, Login)> {
        if !self.caps.uses || self.down || !self.wish_whole || self.is_other_server() {
            return Vec::new();
        }
        let mut asked: Vec<(usize, Login)> = Vec::new();
        for i in &self.departing {
            let slot = &self.slots[*i];
            let off = slot.record.departures().filter(|(_, departure)| {
                departure.phase() == Phase::Off && departure.left_alone.is_none()
            });
            asked.extend(off.map(|(login, _)| (*i, login.clone())));
        }
        for (i, login, _) in self.due_now(now, false) {
            if !asked.contains(&(i, login.clone())) {
                asked.push((i, login));
            }
        }
        asked
    }

    /// How these were used, in the order of [`Core::uses_to_ask`]. An error says nothing: then nothing is
    /// dropped on this pass.
    pub fn used(
        &mut self,
        now: Time,
        asked: &[(usize, Login)],
        uses: Result<&[Option<Use>], &Error>,
    ) {
        let uses = match uses {
            Ok(uses) => uses,
            Err(error) => {
                let fails = &mut self.server.uses_fail;
                self.server_dirty |= Unknown::note(fails, now, error);
                return;
            }
        };
        self.server_dirty |= self.server.uses_fail.take().is_some();
        self.pass.uses_asked.extend(asked.iter().cloned());
        for ((i, login), used) in asked.iter().zip(uses) {
            let (Some(used), Some(slot)) = (used, self.slots.get_mut(*i)) else {
                continue;
            };
            if let Some(departure) = slot.record.departure_of_mut(login) {
                slot.dirty |= departure.note_use(now - used.ago, &used.how);
            }
        }
    }
}
