//! How an agent's words reach the tasks: the store of the data folder, a socket, or a service on NATS servers.

use mesh_bus::jetstream::{Caller, Role};
use mesh_sdk::MeshId;

use super::Context;
use super::online::Online;
use crate::cli::ReachArgs;
use crate::desk::message::{Code, Question};
use crate::desk::{AskFault, Desk, Way};
use crate::errors::Fault;
use crate::manifest::{self, BusLogin, Machine, NatsBus, SecretRef, TlsSource};
use crate::wiring::link::link;

/// Whether a command only looks, and so makes and writes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    Look,
    Write,
}

/// The way that the options name; without one, the store.
pub(super) fn reach(
    args: &ReachArgs,
    cx: &Context<'_>,
    online: &Online,
    does: Does,
) -> Result<Way, Fault> {
    if let Some(path) = &args.socket {
        return Ok(Way::Socket(path.clone()));
    }
    if !args.service.is_empty() {
        return service(args, online);
    }
    let (readable, mesh) = online.open_to_read(&cx.settings.data)?;
    let installation = match does {
        Does::Look => readable,
        Does::Write => {
            drop(readable);
            online.open(&cx.settings.data, &mesh)?
        }
    };
    let desk = Desk::of(&installation, online.clock, &online.scrubber);
    Ok(Way::Store(Box::new(desk)))
}

fn service(args: &ReachArgs, online: &Online) -> Result<Way, Fault> {
    let mesh = args.mesh.as_deref().unwrap_or_default();
    let mesh = MeshId::new(mesh).map_err(|error| Fault::Usage(format!("--mesh: {error}")))?;
    let bus = servers(args)?;
    let link = link(&bus, mesh.as_str(), Role::Agent, &Machine, &online.scrubber);
    let link = link.map_err(|troubles| {
        let troubles: Vec<String> = troubles.iter().map(ToString::to_string).collect();
        Fault::failed(troubles.join("; "), "bring the file or variable back")
    })?;
    let caller = online.run(Caller::connect(&link, mesh.as_str()));
    let caller = caller.map_err(|fault| {
        Fault::failed(
            fault.to_string(),
            "look at the NATS servers and the way to them",
        )
    })?;
    Ok(Way::Service(Box::new(caller)))
}

/// What the options say, as a manifest says it in `bus`.
fn servers(args: &ReachArgs) -> Result<NatsBus, Fault> {
    let usage = |text: String| Fault::Usage(text);
    let address = |url: &String| {
        let server = manifest::bus_server(url, args.dangerously_plain);
        server.map_err(|why| usage(format!("--service: {why}")))
    };
    let servers = args.service.iter().map(address);
    let servers = servers.collect::<Result<Vec<_>, _>>()?;
    let tls = TlsSource {
        ca: args.ca.clone(),
        client: args.client_cert.clone().zip(args.client_key.clone()),
        ..TlsSource::default()
    };
    if tls != TlsSource::default() && servers.iter().all(|server| !server.tls) {
        let text = "a certificate is given, but `nats` is not encrypted: use tls://";
        return Err(usage(text.to_owned()));
    }
    let inbox = args.inbox.clone();
    if inbox
        .as_deref()
        .is_some_and(|text| !manifest::is_subject(text))
    {
        let text = "--inbox is the beginning of a subject: letters, digits, `_` and `-`, with dots between";
        return Err(usage(text.to_owned()));
    }
    Ok(NatsBus {
        servers,
        login: login(args),
        tls,
        dangerously_plain: args.dangerously_plain,
        inbox,
    })
}

fn login(args: &ReachArgs) -> BusLogin {
    let file = |path: &std::path::PathBuf| SecretRef::File(path.clone());
    let password = args.password_file.as_ref().map(file);
    let password = password.or(args.password_env.clone().map(SecretRef::Env));
    match (&args.creds, &args.nkey, &args.user, password) {
        (Some(creds), ..) => BusLogin::Creds(file(creds)),
        (_, Some(seed), ..) => BusLogin::Nkey(file(seed)),
        (_, _, Some(user), Some(password)) => BusLogin::Password {
            user: user.clone(),
            password,
            weak: true,
        },
        _ => BusLogin::Open,
    }
}

/// Says what can be said before anybody is asked. Errors: it cannot be asked so.
pub(super) fn checked(question: Question) -> Result<Question, Fault> {
    match question.check() {
        Ok(()) => Ok(question),
        Err(refusal) => Err(told(refusal.into())),
    }
}

/// Why there is no answer, with what to do.
pub(super) fn told(fault: AskFault) -> Fault {
    let refusal = match fault {
        AskFault::Refused(refusal) => refusal,
        AskFault::Unreachable(why) => {
            let help = "tasks are handed out by `mesh up`; what was asked may have happened, and `mesh tasks` shows it";
            return Fault::failed(why, help);
        }
    };
    let help = match refusal.code {
        Code::BadRequest => return Fault::Usage(refusal.message),
        Code::Claimed | Code::NotOpen | Code::Over => "`mesh tasks` shows who has what",
        Code::NoSuchTask | Code::NoneOpen => "`mesh tasks` lists them",
        Code::Version => "use the same version of `mesh` on both sides",
        Code::TooLarge | Code::Other => "ask for less at once, or with another version of `mesh`",
        Code::Busy => "ask again",
        Code::Unavailable => "look at the store: its disk and rights, or the NATS servers",
    };
    Fault::failed(refusal.message, help)
}
