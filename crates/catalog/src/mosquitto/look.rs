//! Looking: at clients and roles, and at what the broker lets in. Nothing here writes.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use mesh_sdk::adapter::{Found, Listed, Sink};
use mesh_sdk::{Answer, Class, Cx, Error, Login, Marker};
use tokio::task::JoinSet;

use super::adapter::Mosquitto;
use super::check;
use super::compare::{Fit, Known, Wish, as_values, diff, listed_mark, mark_text, role_of};
use super::control::{Client, Control, Role};
use super::values::MosquittoValues;
use super::wire::{enter, is_encrypted};
use crate::offered;

/// How many are logged in as at each bulk look; the next look takes the next ones.
const LOGINS_A_LOOK: usize = 1000;
/// How many of them at the same time.
const AT_ONCE: usize = 8;

/// Everything that the broker has.
pub(super) struct Everything {
    clients: HashMap<String, Client>,
    roles: HashMap<String, Role>,
}

impl Everything {
    pub(super) async fn read(cx: &Cx, control: &mut Control) -> Result<Self, Error> {
        let clients = control.clients(cx).await?;
        let roles = control.roles(cx).await?;
        let by_name = |client: Client| (client.username.clone(), client);
        let by_role = |role: Role| (role.rolename.clone(), role);
        Ok(Self {
            clients: clients.into_iter().map(by_name).collect(),
            roles: roles.into_iter().map(by_role).collect(),
        })
    }
    /// The one login alone.
    pub(super) async fn one(cx: &Cx, control: &mut Control, login: &str) -> Result<Self, Error> {
        let (client, role) = control.look(cx, login, &role_of(login)).await?;
        Ok(Self {
            clients: client.into_iter().map(|c| (login.to_owned(), c)).collect(),
            roles: role.into_iter().map(|r| (role_of(login), r)).collect(),
        })
    }
    pub(super) fn of(&self, login: &str) -> (Option<&Client>, Option<&Role>) {
        (self.clients.get(login), self.roles.get(&role_of(login)))
    }
}

/// A login that was tried: whose, and how it went.
type Tried = (usize, Result<Fit, Error>);

impl Mosquitto {
    /// Whether a consumer's own password may go over a connection (H-17).
    fn may_carry_passwords(&self) -> bool {
        self.settings
            .may_carry_passwords(is_encrypted(&self.settings))
    }

    /// Whether logging in would prove something, and could neither fail for another reason nor end
    /// anybody's session.
    pub(super) fn can_prove(&self, wish: &Wish<'_>, client: Option<&Client>) -> bool {
        let open = client.is_some_and(|one| !one.disabled && one.clientid.is_none());
        open && wish.password().is_some() && self.may_carry_passwords()
    }

    /// Logs in as consumers, some at a time, each on a connection of its own.
    pub(super) async fn prove(
        &self,
        cx: &Cx,
        wishes: &[Wish<'_>],
        which: Vec<usize>,
        mut told: impl FnMut(Tried),
    ) {
        let mut which = which.into_iter();
        let mut running = JoinSet::new();
        loop {
            while running.len() < AT_ONCE {
                let Some(at) = which.next() else { break };
                let login = wishes[at].login().clone();
                let password = wishes[at].password().cloned();
                let settings = self.settings.clone();
                running.spawn(async move {
                    let password = password.as_ref().map(|p| p.expose());
                    let entered = enter(&settings, Some(login.as_str().as_bytes()), password).await;
                    let fit = match entered {
                        Ok(Some(wire)) => {
                            wire.leave().await;
                            Ok(Fit::Proven)
                        }
                        Ok(None) => Ok(Fit::Not),
                        // It is there, and has no room for one more connection.
                        Err(error) if error.class() == Class::Busy => Ok(Fit::Untried),
                        Err(error) => Err(error),
                    };
                    (at, fit)
                });
            }
            let Some(done) = running.join_next().await else {
                return;
            };
            let Ok((at, fit)) = done else { continue };
            cx.progress();
            if let Ok(fits @ (Fit::Proven | Fit::Not)) = fit {
                Known::of(&wishes[at]).note(fits == Fit::Proven);
            }
            // Nothing is tried any more on a broker that does not answer (H-9).
            if fit.is_err() {
                which.by_ref().for_each(drop);
            }
            told((at, fit));
        }
    }

    /// One look, with a login as the consumer.
    pub(super) async fn look_at_one(&self, cx: &Cx, wish: &Wish<'_>) -> Result<Answer, Error> {
        let mut control = Control::open(&self.settings, cx).await?;
        let seen = Everything::one(cx, &mut control, wish.login().as_str()).await?;
        control.leave().await;
        let (client, role) = seen.of(wish.login().as_str());
        let Some(client) = client else {
            return Ok(Answer::absent());
        };
        let mut fit = Ok(untried(wish));
        if self.can_prove(wish, Some(client)) {
            let wishes = std::slice::from_ref(wish);
            self.prove(cx, wishes, vec![0], |(_, tried)| fit = tried)
                .await;
        }
        Ok(diff(wish, client, role, fit?).answer(wish))
    }

    /// All clients and roles, page by page, and a login for as many as a look takes.
    pub(super) async fn look_at_all(
        &self,
        cx: &Cx,
        wishes: &[Wish<'_>],
        answers: &Sink<Answer>,
    ) -> Result<(), Error> {
        let mut control = Control::open(&self.settings, cx).await?;
        let seen = Everything::read(cx, &mut control).await?;
        control.leave().await;
        let provable = |at: &usize| {
            let wish = &wishes[*at];
            self.can_prove(wish, seen.of(wish.login().as_str()).0)
        };
        let mut which: Vec<usize> = (0..wishes.len()).filter(provable).collect();
        if which.len() > LOGINS_A_LOOK {
            let first = self.next_login.load(Ordering::Relaxed) % which.len();
            which.rotate_left(first);
            which.truncate(LOGINS_A_LOOK);
            let next = first.wrapping_add(LOGINS_A_LOOK);
            self.next_login.store(next, Ordering::Relaxed);
        }
        let judge = |at: usize, fit: Fit| {
            let wish = &wishes[at];
            match seen.of(wish.login().as_str()) {
                (None, _) => Answer::absent(),
                (Some(client), role) => diff(wish, client, role, fit).answer(wish),
            }
        };
        let mut waits = vec![false; wishes.len()];
        which.iter().for_each(|at| waits[*at] = true);
        let others = (0..wishes.len()).filter(|at| !waits[*at]);
        answers.put_each(others.map(|at| (at, Ok(judge(at, untried(&wishes[at]))))));
        let mut failed = None;
        let told = |(at, fit): Tried| match fit {
            Ok(fit) => answers.put(at, Ok(judge(at, fit))),
            Err(error) => failed = Some(error),
        };
        self.prove(cx, wishes, which, told).await;
        failed.map_or(Ok(()), Err)
    }

    /// Every client that the broker has.
    pub(super) async fn list_all(&self, cx: &Cx, marker: &Marker) -> Result<Vec<Listed>, Error> {
        let mut control = Control::open(&self.settings, cx).await?;
        let seen = Everything::read(cx, &mut control).await?;
        control.leave().await;
        let listed = seen.clients.values().filter_map(|client| {
            let (_, role) = seen.of(&client.username);
            let mark = listed_mark(marker, mark_text(client, role));
            let login = Login::new(&client.username).ok()?;
            Some(Listed::new(login, mark, !client.disabled))
        });
        Ok(listed.collect())
    }
}

impl Mosquitto {
    /// Every client that a wish could have made as it stands.
    pub(super) async fn find_all(
        &self,
        cx: &Cx,
        marker: &Marker,
    ) -> Result<Vec<Found<MosquittoValues>>, Error> {
        let mut control = Control::open(&self.settings, cx).await?;
        let seen = Everything::read(cx, &mut control).await?;
        control.leave().await;
        let offer = |client: &Client| {
            let (_, role) = seen.of(&client.username);
            let login = Login::new(&client.username).ok()?;
            check::login(&login, &self.settings).ok()?;
            if !offered::may_be(&listed_mark(marker, mark_text(client, role))) {
                return None;
            }
            let (values, beyond) = as_values(client, role);
            Some(offered::found(login, values, !client.disabled, beyond))
        };
        Ok(seen.clients.values().filter_map(offer).collect())
    }
}

/// What is known of a password that is not tried.
pub(super) fn untried(wish: &Wish<'_>) -> Fit {
    match wish.password() {
        Some(_) => Fit::Untried,
        None => Fit::Unknown,
    }
}
