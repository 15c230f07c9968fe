//! `mesh wait`: until a consumer has what the manifest asks for, for scripts. It only looks: who does the work
//! is `mesh up`, or a `mesh apply` that runs meanwhile.

use std::sync::Arc;
use std::time::Duration;

use mesh_sdk::{ConsumerName, ProviderName};
use serde::Serialize;

use super::Context;
use super::online::{Online, daemon_here, store_fault, told, unseen};
use super::words::parse;
use crate::cli::{WaitArgs, WaitFor};
use crate::errors::{EXIT_NOT_WELL, Fault};
use crate::manifest::{Manifest, units};
use crate::status;
use crate::wiring::delivery::awaited::{Awaited, Looking};
use crate::wiring::installation::{Installation, InstallationFault};
use crate::wiring::rotation::awaited;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// A look that began is given so long, even where the end comes sooner.
const ONE_LOOK: Duration = Duration::from_secs(2);

/// What `wait --json` answers.
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(rename = "for")]
    what: &'static str,
    consumer: &'a ConsumerName,
    reached: bool,
    /// Whether a daemon has the loops; without one only `apply` moves anything.
    daemon: bool,
    /// Everything that is waited for, reached or not.
    all: &'a [Awaited],
}

/// What is waited for.
struct Wanted<'a> {
    what: WaitFor,
    consumer: ConsumerName,
    provider: Option<ProviderName>,
    cx: &'a Context<'a>,
    online: &'a Online,
}

/// What one look came to.
struct Look {
    daemon: bool,
    all: Vec<Awaited>,
}

impl Look {
    fn is_reached(&self) -> bool {
        self.all.iter().all(|one| one.reached)
    }
}

/// Why a look told nothing.
enum Blind {
    /// It may be otherwise soon.
    Now(Fault),
    /// Waiting does not help.
    Ever(Fault),
}

/// Runs it.
pub(super) fn run(args: &WaitArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    let online = Online::start(cx)?;
    let wanted = Wanted {
        what: args.what,
        consumer: parse("consumer", &args.consumer)?,
        provider: args
            .provider
            .as_deref()
            .map(|p| parse("provider", p))
            .transpose()?,
        cx,
        online: &online,
    };
    let look = online.run(wanted.wait(args.timeout))?;
    Ok(wanted.show(&look, args.timeout))
}

impl Wanted<'_> {
    /// Looks until it is so or the time is over.
    async fn wait(&self, length: Duration) -> Result<Look, Fault> {
        let clock = &self.online.clock;
        let end = clock.now() + length;
        let mut open: Option<Installation> = None;
        let mut noted = false;
        loop {
            let left = end.since(clock.now());
            let seen = tokio::select! {
                seen = tokio::time::timeout(left.max(ONE_LOOK), self.look(&mut open)) => seen,
                () = self.online.stop.cancelled() => return Err(stopped()),
            };
            let is_over = clock.now() >= end;
            if let Ok(Ok(look)) = &seen
                && !(look.daemon || noted || look.is_reached())
            {
                let note = "no daemon has the loops: only `mesh up` or `mesh apply` moves anything";
                self.cx.printer.note(note);
                noted = true;
            }
            match seen {
                Ok(Err(Blind::Ever(fault))) => return Err(fault),
                Ok(Ok(look)) if is_over || look.is_reached() => return Ok(look),
                Ok(Ok(_)) => {}
                Ok(Err(Blind::Now(fault))) if is_over => return Err(fault),
                Err(_) if is_over => {
                    return Err(Fault::failed(
                        "the bus did not answer in time",
                        "`mesh status` tells more",
                    ));
                }
                // What was open may be of a bus that is there no more.
                Ok(Err(Blind::Now(_))) | Err(_) => open = None,
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY.min(end.since(clock.now()))) => {}
                () = self.online.stop.cancelled() => return Err(stopped()),
            }
        }
    }

    async fn look(&self, open: &mut Option<Installation>) -> Result<Look, Blind> {
        let manifest = self.cx.manifest_if_usable().map(Arc::new);
        let installation = match open {
            Some(installation) => installation,
            None => match self.open(manifest.as_deref()).await? {
                Ok(installation) => open.insert(installation),
                Err(nothing) => return Ok(nothing),
            },
        };
        let now = |fault: Fault| Blind::Now(fault);
        let daemon = daemon_here(self.cx, installation).await.map_err(now)?.runs;
        let (bus, at) = (installation.bus.as_ref(), self.online.clock.now());
        let head = status::read_head(bus, "", at, daemon).await;
        let head = head.map_err(|fault| Blind::Now(store_fault(fault)))?;
        let looking = Looking {
            installation,
            head: &head,
            manifest: manifest.as_ref(),
            source: self.cx.secrets,
            consumer: &self.consumer,
            provider: self.provider.as_ref(),
        };
        let all = match self.what {
            WaitFor::Delivered => looking.delivered().await,
            WaitFor::Held => looking.held().await,
            WaitFor::Rotated => awaited::rotated(bus, &self.consumer, self.provider.as_ref())
                .await
                .map_err(Into::into),
        };
        let all = all.map_err(|fault| Blind::Now(store_fault(fault)))?;
        if all.is_empty() {
            return Err(Blind::Ever(self.nothing(manifest.as_deref())));
        }
        Ok(Look { daemon, all })
    }

    /// Opens the data folder; where nothing was ever applied, says what is waited for if the manifest asks for it.
    async fn open(&self, manifest: Option<&Manifest>) -> Result<Result<Installation, Look>, Blind> {
        let folder = &self.cx.settings.data;
        let scrubber = Arc::clone(&self.online.scrubber);
        match Installation::open_to_read(folder, scrubber).await {
            Ok((installation, _)) => Ok(Ok(installation)),
            Err(fault @ InstallationFault::NotThere { .. }) => {
                let mut asked = manifest.iter().flat_map(|m| &m.provisions);
                if !asked.any(|one| one.consumer == self.consumer) {
                    return Err(Blind::Ever(told(fault)));
                }
                Ok(Err(Look {
                    daemon: false,
                    all: vec![Awaited {
                        subject: self.consumer.to_string(),
                        reached: false,
                        how: "nothing was ever applied here".to_owned(),
                        at: None,
                    }],
                }))
            }
            Err(fault) => Err(Blind::Now(unseen(fault, folder))),
        }
    }

    /// Nobody asks for it, so that it will never be.
    fn nothing(&self, manifest: Option<&Manifest>) -> Fault {
        let (consumer, of) = (&self.consumer, self.provider.as_ref());
        let of = of.map(|p| format!(" of {p}")).unwrap_or_default();
        if self.what == WaitFor::Held {
            return Fault::failed(
                format!("nobody asks anything for {consumer}{of}"),
                "`mesh status` lists every consumer; `mesh check` tells mistakes of the manifest",
            );
        }
        if self.what == WaitFor::Rotated {
            return Fault::failed(
                format!("{consumer} never had another password{of}, and nobody asked for one"),
                format!("`mesh rotate {consumer}` asks for one"),
            );
        }
        let mut refused = manifest.iter().flat_map(|m| &m.undelivered);
        match refused.find(|(name, _)| name == consumer) {
            Some((_, why)) => Fault::failed(
                format!("what is to be delivered to {consumer} cannot be used: {why}"),
                "`mesh check` tells where",
            ),
            None => Fault::failed(
                format!("nothing{of} is delivered to {consumer}"),
                format!("[[consumer.{consumer}.deliver]] in the manifest says where to"),
            ),
        }
    }

    fn show(&self, look: &Look, length: Duration) -> u8 {
        let reached = look.is_reached();
        let printer = self.cx.printer;
        if printer.is_json() {
            printer.json(&Answer {
                what: self.what.as_str(),
                consumer: &self.consumer,
                reached,
                daemon: look.daemon,
                all: &look.all,
            });
        } else {
            let now = self.online.clock.now();
            for one in look.all.iter().filter(|one| one.reached == reached) {
                let age = one.at.map(|at| super::status::ago(Some(at), now));
                let age = match (age, self.what) {
                    (None, _) => String::new(),
                    (Some(age), WaitFor::Delivered | WaitFor::Rotated) => format!(" (since {age})"),
                    (Some(age), WaitFor::Held) => format!(" (checked {age})"),
                };
                printer.answer(&format!("{}: {}{age}", one.subject, one.how));
            }
            if !reached {
                let (what, length) = (self.what.as_str(), units::show(length));
                printer.answer(&format!("not {what} within {length}"));
            }
        }
        if reached { 0 } else { EXIT_NOT_WELL }
    }
}

fn stopped() -> Fault {
    Fault::failed("stopped while waiting", "run it again")
}
