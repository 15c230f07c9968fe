//! `mesh bus`: sets up a bus on NATS servers, moves an installation there and back, and takes up one that
//! was restored.

use std::path::Path;
use std::sync::Arc;

use mesh_bus::jetstream::{Adopted, Layout};
use serde::Serialize;

use super::Context;
use super::online::{Online, told};
use crate::cli::{BootstrapArgs, BusArgs, BusWord, PermissionsArgs};
use crate::errors::Fault;
use crate::manifest::{BusChoice, BusLogin, Manifest, NatsBus, SecretRef};
use crate::wiring::installation::{Runner, Turn, take_turn};
use crate::wiring::moving::{self, MoveFault, Mover};

/// Runs it.
pub(super) fn run(args: &BusArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    let manifest = cx.manifest()?;
    if let BusWord::Permissions(args) = &args.what {
        return permissions(cx, &manifest, args);
    }
    let online = Online::start(cx)?;
    let mover = Mover {
        folder: &cx.settings.data,
        manifest: &manifest,
        clock: online.clock,
        scrubber: Arc::clone(&online.scrubber),
        me: online.holder(cx, Runner::OneShot)?,
    };
    online.run(async {
        let turn = take_turn(&cx.settings.data, Runner::OneShot).await;
        let Turn::Mine(_turn) = turn.map_err(told)? else {
            return Err(Fault::failed(
                "`mesh up` or `mesh apply` runs on this data folder",
                "stop it first: the bus is set up and moved while nothing runs",
            ));
        };
        match &args.what {
            BusWord::Bootstrap(args) => bootstrap(cx, &mover, args).await,
            BusWord::Export(args) => export(cx, &mover, &args.file).await,
            BusWord::Import(args) => import(cx, &mover, &args.file).await,
            BusWord::Adopt => adopt(cx, &mover).await,
            BusWord::Permissions(_) => Ok(0),
        }
    })
}

fn permissions(cx: &Context<'_>, manifest: &Manifest, args: &PermissionsArgs) -> Result<u8, Fault> {
    let account = args.account.as_deref();
    if account.is_some_and(|name| name.is_empty() || name.contains(['"', '\\', '\n', '.', ' '])) {
        let text = "--account is the name of an account in the servers' configuration";
        return Err(Fault::Usage(text.to_owned()));
    }
    let roles = moving::permissions(manifest.mesh.as_str());
    let lending = account.map(|name| moving::lending(manifest.mesh.as_str(), name));
    if cx.printer.is_json() {
        match lending {
            None => cx.printer.json(&roles),
            Some(lending) => cx.printer.json(&Lent {
                roles,
                exports: lending.exports,
                imports: lending.imports,
            }),
        }
        return Ok(0);
    }
    for role in roles {
        cx.printer.answer(&format!(
            "# {}: its answers come below {}",
            role.role, role.inbox
        ));
        cx.printer.answer(&role.text);
    }
    if let Some(lending) = lending {
        cx.printer
            .answer("# exports: in the account with the streams");
        cx.printer.answer(&lending.exports);
        let theirs = "# imports: in the account of the agents, which has no JetStream";
        cx.printer.answer(theirs);
        cx.printer.answer(&lending.imports);
    }
    Ok(0)
}

#[derive(Serialize)]
struct Lent {
    roles: Vec<moving::RoleText>,
    exports: String,
    imports: String,
}

#[derive(Serialize)]
struct Bootstrapped<'a> {
    made: &'a [String],
    installation: &'a str,
    epoch: u64,
    replicas: u8,
}

async fn bootstrap(cx: &Context<'_>, mover: &Mover<'_>, args: &BootstrapArgs) -> Result<u8, Fault> {
    let BusChoice::Nats(nats) = &mover.manifest.bus else {
        return Err(failed(MoveFault::Embedded));
    };
    let layout = Layout {
        replicas: args.replicas,
        max_bytes: args.max_bytes,
    };
    let made = mover.bootstrap(&login(nats, args), &layout).await;
    let made = made.map_err(failed)?;
    if cx.printer.is_json() {
        cx.printer.json(&Bootstrapped {
            made: &made.streams,
            installation: &made.installation,
            epoch: made.epoch,
            replicas: args.replicas,
        });
        return Ok(0);
    }
    if made.streams.is_empty() {
        cx.printer
            .answer("there was nothing to make: the streams are there and in order");
    } else {
        let copies = match args.replicas {
            1 => "one copy".to_owned(),
            n => format!("{n} copies"),
        };
        let streams = made.streams.join(" and ");
        cx.printer
            .answer(&format!("made {streams}, with {copies} of each"));
    }
    let uses = matches!(
        crate::wiring::memory::Memory::read(mover.folder),
        Ok(Some(_))
    );
    cx.printer.note(match uses {
        true => "this data folder uses it from now on: `mesh apply` or `mesh up`",
        false => {
            "this data folder has a store of its own: bring it over with `mesh bus export` and `mesh bus import`"
        }
    });
    Ok(0)
}

/// The servers as the manifest names them, with the login of the command line where there is one.
fn login(nats: &NatsBus, args: &BootstrapArgs) -> NatsBus {
    let file = |path: &Path| SecretRef::File(path.to_owned());
    let login = match (&args.creds, &args.nkey, &args.user, &args.password_file) {
        (Some(creds), ..) => BusLogin::Creds(file(creds)),
        (_, Some(seed), ..) => BusLogin::Nkey(file(seed)),
        (_, _, Some(user), Some(password)) => BusLogin::Password {
            user: user.clone(),
            password: file(password),
            weak: true,
        },
        _ => return nats.clone(),
    };
    // Who logs in otherwise has the role's own subjects for answers.
    NatsBus {
        login,
        inbox: None,
        ..nats.clone()
    }
}

#[derive(Serialize)]
struct Carried<'a> {
    installation: &'a str,
    values: usize,
    lines: usize,
}

async fn export(cx: &Context<'_>, mover: &Mover<'_>, file: &Path) -> Result<u8, Fault> {
    let (moved, installation) = mover.export(file).await.map_err(failed)?;
    if cx.printer.is_json() {
        cx.printer.json(&Carried {
            installation: &installation,
            values: moved.values,
            lines: moved.lines,
        });
    } else {
        cx.printer.answer(&format!(
            "wrote {} values and {} lines of history of installation {installation} to {}",
            moved.values,
            moved.lines,
            file.display()
        ));
    }
    Ok(0)
}

async fn import(cx: &Context<'_>, mover: &Mover<'_>, file: &Path) -> Result<u8, Fault> {
    let (moved, installation) = mover.import(file).await.map_err(failed)?;
    if cx.printer.is_json() {
        cx.printer.json(&Carried {
            installation: &installation,
            values: moved.values,
            lines: moved.lines,
        });
        return Ok(0);
    }
    let onto = match &mover.manifest.bus {
        BusChoice::Nats(nats) => format!("the bus at {}", nats.shown()),
        BusChoice::Embedded => "this data folder's own store".to_owned(),
    };
    cx.printer.answer(&format!(
        "{} values and {} lines of history of installation {installation} are on {onto}, which is used from now on",
        moved.values, moved.lines
    ));
    if matches!(mover.manifest.bus, BusChoice::Nats(_)) && moving::leaves_behind(mover.folder) {
        cx.printer
            .note("mesh.db stays as it was, and is not used any more");
    }
    Ok(0)
}

#[derive(Serialize)]
struct Taken<'a> {
    installation: &'a str,
    changed: bool,
    epoch: Option<u64>,
    why: Option<String>,
}

async fn adopt(cx: &Context<'_>, mover: &Mover<'_>) -> Result<u8, Fault> {
    let (adopted, installation) = mover.adopt().await.map_err(failed)?;
    if cx.printer.is_json() {
        let (epoch, why) = match &adopted {
            Adopted::Replaced { epoch, why } => (Some(*epoch), Some(why.to_string())),
            Adopted::Known | Adopted::Joined => (None, None),
        };
        cx.printer.json(&Taken {
            installation: &installation,
            changed: adopted != Adopted::Known,
            epoch,
            why,
        });
        return Ok(0);
    }
    let text = match adopted {
        Adopted::Known => {
            "this data folder uses that bus already, and it is in the state that was used last"
                .to_owned()
        }
        Adopted::Joined => {
            format!("this data folder uses it from now on, for installation {installation}")
        }
        Adopted::Replaced { epoch, why } => format!(
            "{why}; it counts as it is now, in epoch {epoch}. The next run makes no new password and removes nothing"
        ),
    };
    cx.printer.answer(&text);
    Ok(0)
}

/// Why it could not be done, with what to do.
fn failed(fault: MoveFault) -> Fault {
    let help = match &fault {
        MoveFault::Installation(_) => {
            let MoveFault::Installation(inner) = fault else {
                return Fault::failed("a bug", "tell us");
            };
            return told(inner);
        }
        MoveFault::Embedded => {
            "the embedded store is made by `mesh apply`; to use NATS servers, name them: bus = \"nats://…\""
        }
        MoveFault::InUse { .. } => {
            "to join it, copy installation.key from a host of it into this data folder, and then `mesh bus adopt`; for a mesh of its own, choose another id"
        }
        MoveFault::Busy { .. } => "stop it there first: a bus is moved while nothing runs on it",
        MoveFault::ClaimLost => "do it again once the servers answer; again changes nothing",
        MoveFault::Exists(_) => "name another file, or remove it",
        MoveFault::Transfer(_) => "nothing that was there was changed",
    };
    Fault::failed(fault.to_string(), help)
}
