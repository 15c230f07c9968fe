//! Making, changing and taking away clients and their roles.

use std::collections::BTreeSet;
use std::time::Duration;

use mesh_sdk::adapter::Sink;
use mesh_sdk::provision::Departing;
use mesh_sdk::{Class, Cx, Difference, Error, MarkSeen, Marker};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::adapter::Mosquitto;
use super::check;
use super::compare::{Diff, Fit, Known, Right, Wish, diff, mark_text, role_of, wanted};
use super::control::{Client, Control, Role};
use super::look::{Everything, untried};

/// From so many on, everything is read instead of each one alone.
const MANY: usize = 16;
/// How many commands go out in one message at first, and at most. The broker serves nobody while it
/// works them off, and writes its whole file for each.
const MESSAGE: (usize, usize) = (2, 64);

/// The commands for one wish.
struct Plan {
    at: usize,
    commands: Vec<Value>,
    /// Our role is new: it goes again if the client cannot be made.
    new_role: bool,
}

impl Mosquitto {
    /// Makes all of them. The plugin has no transactions: what is left half done is finished next time.
    pub(super) async fn create_many(
        &self,
        cx: &Cx,
        wishes: &[Wish<'_>],
        outcomes: &Sink<()>,
    ) -> Result<(), Error> {
        let mut control = Control::open(&self.settings, cx).await?;
        let mut all = None;
        if wishes.len() >= MANY {
            all = Some(Everything::read(cx, &mut control).await?);
        }
        let mut plans = Vec::new();
        for (at, wish) in wishes.iter().enumerate() {
            if let Err(error) = self.may_create(wish) {
                outcomes.put(at, Err(error));
                continue;
            }
            let login = wish.login().as_str();
            let alone;
            let seen = match &all {
                Some(all) => all,
                None => {
                    alone = Everything::one(cx, &mut control, login).await?;
                    &alone
                }
            };
            let (client, role) = seen.of(login);
            let fit = self.fit(cx, wish, client).await?;
            let plan = plan(at, wish, client, role, fit);
            match plan.commands.is_empty() {
                true => outcomes.put(at, Ok(())),
                false => plans.push(plan),
            }
        }
        let done = carry_out(cx, &mut control, plans, |at, outcome| {
            if outcome.is_ok() && wishes[at].password().is_some() {
                Known::of(&wishes[at]).note(true);
            }
            outcomes.put(at, outcome);
        });
        done.await?;
        control.leave().await;
        Ok(())
    }

    /// Whether the password is the one that the broker has. One that a look has just found to be wrong is
    /// not tried again (O-23).
    async fn fit(&self, cx: &Cx, wish: &Wish<'_>, client: Option<&Client>) -> Result<Fit, Error> {
        if Known::of(wish).is_wrong() {
            return Ok(Fit::Not);
        }
        if !self.can_prove(wish, client) {
            return Ok(untried(wish));
        }
        let mut fit = Ok(Fit::Untried);
        let wishes = std::slice::from_ref(wish);
        self.prove(cx, wishes, vec![0], |(_, tried)| fit = tried)
            .await;
        fit
    }

    fn may_create(&self, wish: &Wish<'_>) -> Result<(), Error> {
        self.may_touch(wish.login().as_str())?;
        check::wish(&self.settings, wish)
            .map_err(|refusal| Error::new(Class::RefusedValue, refusal.to_string()))?;
        if wish.password().is_none() && wish.enabled() {
            let message = "there is no password to make this login with";
            return Err(Error::new(Class::RefusedValue, message));
        }
        Ok(())
    }

    fn may_touch(&self, login: &str) -> Result<(), Error> {
        if check::is_reserved(login, &self.settings) {
            let message = format!("`{login}` is reserved and never touched");
            return Err(Error::new(Class::RefusedValue, message));
        }
        Ok(())
    }

    /// Deletes the client, and the role that was its alone.
    pub(super) async fn remove_one(
        &self,
        cx: &Cx,
        marker: &Marker,
        going: &Departing,
    ) -> Result<(), Error> {
        let login = going.login.as_str();
        let client = json!({ "command": "deleteClient", "username": login });
        let role = json!({ "command": "deleteRole", "rolename": role_of(login) });
        self.depart(cx, marker, going, |seen, ours| match seen {
            (Some(_), _) => vec![client.clone(), role.clone()],
            // An earlier removal was cut off between the two.
            (None, Some(_)) if ours => vec![role.clone()],
            (None, _) => Vec::new(),
        })
        .await
    }

    /// Switches the client off, which ends its sessions.
    pub(super) async fn switch_off(
        &self,
        cx: &Cx,
        marker: &Marker,
        going: &Departing,
    ) -> Result<(), Error> {
        let off = json!({ "command": "disableClient", "username": going.login.as_str() });
        self.depart(cx, marker, going, |(client, _), _| {
            let is_on = client.is_some_and(|client| !client.disabled);
            is_on.then(|| off.clone()).into_iter().collect()
        })
        .await
    }

    async fn depart(
        &self,
        cx: &Cx,
        marker: &Marker,
        going: &Departing,
        commands: impl Fn((Option<&Client>, Option<&Role>), bool) -> Vec<Value>,
    ) -> Result<(), Error> {
        const WHAT: &str = "take a login away";
        self.may_touch(going.login.as_str())?;
        let mut control = Control::open(&self.settings, cx).await?;
        let seen = Everything::one(cx, &mut control, going.login.as_str()).await?;
        let (client, role) = seen.of(going.login.as_str());
        let text = match client {
            Some(client) => mark_text(client, role),
            None => role.map_or("", |role| role.textname.as_str()),
        };
        let ours = marker.read(text, &going.consumer) == MarkSeen::Ours;
        if client.is_some() && !ours {
            let message = "this login does not carry our mark for this consumer: it is left alone";
            return Err(Error::new(Class::Exists, message));
        }
        let commands = commands((client, role), ours);
        if !commands.is_empty() {
            for outcome in control.send(cx, WHAT, &commands).await? {
                match outcome {
                    // Somebody else was quicker.
                    Err(error) if error.class() != Class::Gone => return Err(error),
                    _ => {}
                }
            }
        }
        control.leave().await;
        Ok(())
    }
}

/// What has to be done for a wish; nothing if it is in order.
fn plan(
    at: usize,
    wish: &Wish<'_>,
    client: Option<&Client>,
    role: Option<&Role>,
    fit: Fit,
) -> Plan {
    let commands = match client {
        None => create(wish, role),
        Some(client) => change(wish, role, &diff(wish, client, role, fit)),
    };
    Plan {
        at,
        commands,
        new_role: role.is_none(),
    }
}

fn create(wish: &Wish<'_>, role: Option<&Role>) -> Vec<Value> {
    let login = wish.login().as_str();
    let own = role_of(login);
    let mut roles = vec![json!({ "rolename": own })];
    let more: BTreeSet<&String> = wish.values().roles.iter().collect();
    roles.extend(more.into_iter().map(|name| json!({ "rolename": name })));
    let mut client = json!({ "command": "createClient", "username": login, "roles": roles });
    if let Some(password) = wish.password().and_then(|p| p.expose_str()) {
        client["password"] = password.into();
    }
    let mut all = vec![set_role(wish, role, &wanted(wish.values())), client];
    if !wish.enabled() {
        all.push(json!({ "command": "disableClient", "username": login }));
    }
    all
}

fn change(wish: &Wish<'_>, role: Option<&Role>, diff: &Diff) -> Vec<Value> {
    let login = wish.login().as_str();
    let mut all = Vec::new();
    let marked = role.is_some_and(|role| role.textname == wish.mark().as_str());
    match &diff.rights {
        Some(rights) => all.push(set_role(wish, role, rights)),
        None if diff.lacks_mark() && !marked => all.push(json!({
            "command": "modifyRole", "rolename": role_of(login), "textname": wish.mark().as_str(),
        })),
        None => {}
    }
    let of_role = |command: &str, role: &String| json!({ "command": command, "username": login, "rolename": role });
    all.extend(diff.give.iter().map(|role| of_role("addClientRole", role)));
    all.extend(
        diff.take
            .iter()
            .map(|role| of_role("removeClientRole", role)),
    );
    // A password that cannot be tried is set once, and then taken to be what was set.
    let unsure = diff.fit == Fit::Untried && !Known::of(wish).is_ours();
    if let Some(password) = wish.password().and_then(|p| p.expose_str())
        && (diff.fit == Fit::Not || unsure)
    {
        let set = json!({ "command": "modifyClient", "username": login, "password": password });
        all.push(set);
    }
    let switch = match diff.switch {
        Some(Difference::Disabled) => Some("enableClient"),
        Some(Difference::Enabled) => Some("disableClient"),
        _ => None,
    };
    all.extend(switch.map(|command| json!({ "command": command, "username": login })));
    all
}

/// Our role, with the mark and these rights. Changing it ends no session.
fn set_role(wish: &Wish<'_>, role: Option<&Role>, rights: &BTreeSet<Right>) -> Value {
    let acls = rights
        .iter()
        .filter(|(kind, _)| *kind != "another right")
        .map(|(kind, topic)| json!({ "acltype": kind, "topic": topic, "allow": true }));
    json!({
        "command": if role.is_some() { "modifyRole" } else { "createRole" },
        "rolename": role_of(wish.login().as_str()),
        "textname": wish.mark().as_str(),
        "acls": acls.collect::<Vec<Value>>(),
    })
}

/// Sends all, as many in a message as the broker's budget bears; whoever fails stops no other.
async fn carry_out(
    cx: &Cx,
    control: &mut Control,
    plans: Vec<Plan>,
    mut told: impl FnMut(usize, Result<(), Error>),
) -> Result<(), Error> {
    const WHAT: &str = "make a login";
    let mut room = MESSAGE.0;
    let mut plans = plans.into_iter().peekable();
    while plans.peek().is_some() {
        let (mut part, mut commands) = (Vec::new(), Vec::new());
        while let Some(plan) =
            plans.next_if(|plan| part.is_empty() || commands.len() + plan.commands.len() <= room)
        {
            commands.extend(plan.commands.iter().cloned());
            part.push(plan);
        }
        let began = Instant::now();
        let mut outcomes = control.send(cx, WHAT, &commands).await?.into_iter();
        room = next_room(commands.len(), began.elapsed(), cx.block_budget);
        for plan in part {
            let own: Vec<Result<Value, Error>> =
                outcomes.by_ref().take(plan.commands.len()).collect();
            let failed = own.into_iter().find_map(Result::err);
            if failed.is_some() && plan.new_role {
                let role = plan.commands.first().map(|role| role["rolename"].clone());
                let delete = json!({ "command": "deleteRole", "rolename": role });
                control.send(cx, WHAT, &[delete]).await?;
            }
            told(plan.at, failed.map_or(Ok(()), |error| Err(refused(error))));
        }
    }
    Ok(())
}

/// A role that the wish names and the broker does not have.
fn refused(error: Error) -> Error {
    match error.message().contains("Role not found") {
        true => Error::new(
            Class::RefusedValue,
            "`roles`: the broker has no role of that name",
        ),
        false => error,
    }
}

/// How many commands the next message may have: as many as fit into the budget, at the pace of the last.
fn next_room(sent: usize, took: Duration, budget: Duration) -> usize {
    let each = took.as_micros() / sent.max(1) as u128;
    let fit = budget.as_micros() / 2 / each.max(1);
    usize::try_from(fit)
        .unwrap_or(usize::MAX)
        .clamp(1, MESSAGE.1)
}

#[cfg(test)]
mod tests {
    //! Messages get as long as the broker's pace allows.
    use super::*;

    #[test]
    fn h16_a_message_takes_no_longer_than_half_the_budget() {
        let ms = Duration::from_millis;
        assert_eq!(next_room(10, ms(10), ms(50)), 25);
        assert_eq!(next_room(2, ms(600), ms(50)), 1);
        assert_eq!(next_room(2, ms(0), ms(50)), MESSAGE.1);
        assert_eq!(next_room(0, ms(5), ms(50)), 5);
    }
}
