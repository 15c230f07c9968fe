//! The other way round: our own login, the server's lists, and who is in use, as the driver tells them.

use std::collections::BTreeSet;

use mesh_sdk::adapter::Listed;
use mesh_sdk::{ConsumerName, Login, MarkSeen};

use super::{Sloppy, World};
use crate::backend::{CANARY, CANARY_PASSWORD, Want};

impl World {
    /// What is asked for as our own login.
    pub(super) fn own_want(&self) -> Want {
        Want {
            consumer: ConsumerName::CANARY.to_owned(),
            login: CANARY.to_owned(),
            password: Some(CANARY_PASSWORD),
            grants: 0,
            enabled: !self.caps.disable,
            adopt: false,
        }
    }

    pub(super) fn list(&mut self) {
        let list = self.back.list();
        if let Ok(list) = &list {
            let mut logins = BTreeSet::new();
            let once = list.iter().all(|one| logins.insert(one.login.as_str()));
            let own = list.iter().any(|one| {
                let mark = MarkSeen::OursFor(ConsumerName::canary());
                one.login.as_str() == CANARY && one.mark == mark
            });
            if once && own {
                let ours = list.iter().filter_map(|one| match &one.mark {
                    MarkSeen::OursFor(c) => Some((c.to_string(), one.login.to_string())),
                    _ => None,
                });
                let ours: Vec<(String, String)> = ours.collect();
                self.judge.lists(self.now, &ours);
            }
            self.note(|| format!("list {list:?}"));
        }
        let list = list.map(|list| self.tell_list(list));
        if self.is(Sloppy::RepeatsTheList) {
            match (&list, &self.last_list) {
                (Ok(list), _) if list.iter().any(|one| one.login.as_str() == CANARY) => {
                    self.last_list = Some(list.clone());
                }
                (_, Some(last)) => {
                    self.core.listed(self.now, Ok(last));
                    return;
                }
                _ => {}
            }
        }
        self.core.listed(self.now, list.as_deref());
    }
    fn tell_list(&self, mut list: Vec<Listed>) -> Vec<Listed> {
        if self.is(Sloppy::ForgesTheCanary) {
            list.retain(|one| one.login.as_str() != CANARY);
            let own = Login::new(CANARY).expect("a login");
            let mark = MarkSeen::OursFor(ConsumerName::canary());
            list.push(Listed::new(own, mark, false));
        }
        list
    }

    pub(super) fn ask_for_uses(&mut self) {
        let going = self.core.uses_to_ask(self.now);
        if going.is_empty() {
            return;
        }
        let logins = going.iter().map(|(_, login)| login.as_str());
        let mut uses = self.back.uses(self.now, logins);
        if self.is(Sloppy::HearsNoUse) {
            uses = Ok(vec![None; going.len()]);
        }
        self.core.used(self.now, &going, uses.as_deref());
    }

    /// Every login that was superseded.
    pub(crate) fn superseded(&self) -> Vec<(ConsumerName, Login)> {
        let slots = self.core.slots().iter();
        let all = slots.flat_map(|s| {
            let logins = s.record.superseded.iter();
            logins.map(|login| (s.consumer.clone(), login.clone()))
        });
        all.collect()
    }
}
