//! The server itself: whether it answers, which one it is, and whether it restarted (H-11, H-20).

use super::core::Core;
use super::departure::Departure;
use super::record::{Record, Unknown};
use super::slot::Why;
use crate::adapter::Server;
use crate::error::Error;
use crate::time::Time;

impl Core {
    /// What the server said of itself, or that it did not answer; before [`Core::begin`]. After an
    /// error the pass asks nobody, and everyone who was due is unknown (H-7).
    pub fn server_seen(&mut self, now: Time, seen: Result<Server, Error>) {
        match seen {
            Err(error) => self.not_seen(now, &error),
            Ok(server) => self.server_there(server),
        }
    }

    fn not_seen(&mut self, now: Time, error: &Error) {
        self.down = true;
        let before = self.server.down.as_ref();
        self.server_dirty |= before.is_none_or(|down| down.class != error.class());
        self.server.down = Some(Unknown {
            since: before.map_or(now, |down| down.since),
            class: error.class(),
            why: error.message().into(),
        });
    }

    fn server_there(&mut self, server: Server) {
        self.down = false;
        self.server_dirty |= self.server.down.take().is_some();
        if server.run.is_some() && server.run != self.server.run {
            self.restarted(&server);
        }
        let known = self.server.identity.clone();
        match (&server.identity, known) {
            (Some(new), None) => {
                self.server.identity = Some(new.clone());
                self.server_dirty = true;
            }
            (Some(new), Some(old)) => {
                let changed_to = (*new != old).then(|| new.clone());
                self.server_dirty |= changed_to != self.server.changed_to;
                self.server.changed_to = changed_to;
            }
            (None, _) => {}
        }
        self.seen = Some(server);
    }

    /// A restart explains losses: everyone is looked at now, the braked too. Their strikes stay.
    fn restarted(&mut self, server: &Server) {
        let first = self.server.run.is_none();
        self.server.run.clone_from(&server.run);
        self.server.run_no = self.server.run_no.wrapping_add(1);
        self.server_dirty = true;
        self.all_due = true;
        for slot in &mut self.slots {
            let record = &mut slot.record;
            if record.is_braked() && record.taken.is_none() && record.not_before.take().is_some() {
                slot.dirty = true;
            }
            if !first && !self.caps.holds && slot.wanted.is_some() {
                slot.blind = Some(Why::ServerRestarted);
            }
        }
    }

    /// A person accepts the server that answers under the address now (H-20). What was known of
    /// consumers belongs to the other server: each is asked first, as without a record (H-2), and what
    /// is leaving begins to leave anew.
    pub fn approve_server(&mut self) {
        let Some(identity) = self.server.changed_to.take() else {
            return;
        };
        self.server.identity = Some(identity);
        self.server_dirty = true;
        self.all_due = true;
        for slot in &mut self.slots {
            let blank = Record::new(slot.record.login.clone());
            let old = std::mem::replace(&mut slot.record, blank);
            slot.record.superseded = old.superseded;
            slot.record.elders = old.elders;
            slot.record.adopted = old.adopted;
            for (login, departure) in old.others {
                // What a person said of a login was said of the other server's.
                if departure.retired {
                    slot.record.superseded.push(login);
                } else {
                    let anew = Departure::new(self.pass.at);
                    slot.record.others.insert(login, anew);
                }
            }
            if old.departure.is_some() {
                // Without a list nothing says that it is ours there: a person does, or it stays (H-18).
                slot.record.adopted |= !self.caps.list;
                slot.record.departure = Some(Box::new(Departure::new(self.pass.at)));
            }
            slot.dirty = true;
        }
    }

    /// Whether another server than the known one answers: it is only read (H-20).
    pub(super) fn is_other_server(&self) -> bool {
        self.server.changed_to.is_some()
    }
}
