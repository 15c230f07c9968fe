//! `mesh purge`: deletes data that a removed consumer left. The only way to delete data.
//!
//! Refused are, in this order: a manifest that is not whole, data that a wish on the same server
//! names, data that nothing says was ever a consumer's, data of a consumer that could come back, another
//! server under the address (H-20); and last the adapter looks who may still use it. What is left is shown,
//! and deleted only with the name typed again.

mod whose;

use std::time::Duration;

use mesh_sdk::adapter::Cx;
use mesh_sdk::event::{Event, EventKind};
use mesh_sdk::{ConsumerName, ProviderName};
use serde::Serialize;

use super::Context;
use super::import::of_manifest;
use super::online::{Online, store_fault};
use super::servers::{self, Server};
use super::words::parse;
use crate::cli::PurgeArgs;
use crate::errors::{EXIT_FAILED, Fault};
use crate::manifest::{Manifest, Provider};
use crate::wiring::installation::Installation;
use crate::wiring::words;

/// The longest that a server is asked about data.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest that it may take to delete it.
const DELETING: Duration = Duration::from_secs(900);

/// What `purge --json` answers.
#[derive(Serialize)]
struct Answer<'a> {
    provider: &'a ProviderName,
    data: &'a str,
    was_for: &'a [ConsumerName],
    servers: Vec<Part<'a>>,
    deleted: bool,
    confirm: Option<String>,
}

#[derive(Serialize)]
struct Part<'a> {
    server: &'a str,
    holds: Option<&'a str>,
}

/// One purge, with what was found out about it.
struct Purge<'a> {
    cx: &'a Context<'a>,
    online: &'a Online,
    provider: &'a Provider,
    data: &'a str,
    servers: Vec<Server>,
    /// What each server holds.
    holds: Vec<Option<String>>,
    was_for: Vec<ConsumerName>,
}

/// Runs it.
pub(super) fn run(args: &PurgeArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    let name: ProviderName = parse("provider", &args.provider)?;
    let data = args.what.as_str();
    if args.confirm.as_deref().is_some_and(|typed| typed != data) {
        return Err(Fault::Usage(
            "`--confirm` takes the name of the data, typed again, and this is another one"
                .to_owned(),
        ));
    }
    let manifest = cx.manifest()?;
    let provider = of_manifest(&manifest, &name)?;
    whose::nobody_asks_for_it(&manifest, provider, data)?;
    let online = Online::start(cx)?;
    let opened = online.open_if_there(&cx.settings.data, &manifest)?;
    let installation = opened.ok_or_else(|| whose::unknown(provider, data))?;
    let was_for = online.run(whose::left_by(&installation, &manifest, provider, data))?;
    let servers = servers::open(&online, provider)?;
    online.run(same_servers(&online, &installation, provider, &servers))?;
    drop(installation);
    let mut purge = Purge {
        cx,
        online: &online,
        provider,
        data,
        servers,
        holds: Vec::new(),
        was_for,
    };
    purge.look()?;
    purge.go_on(args.confirm.is_some(), &manifest)
}

/// Whether each server is the one that is known under its address (H-20).
async fn same_servers(
    online: &Online,
    installation: &Installation,
    provider: &Provider,
    servers: &[Server],
) -> Result<(), Fault> {
    let known = whose::identities(installation, provider).await?;
    for (server, known) in servers.iter().zip(known) {
        let cx = Cx::default();
        if !server.adapter.capabilities().server {
            continue;
        }
        let asked = server.adapter.server(&cx);
        let found = servers::answer(online, provider, &server.name, PATIENCE, asked).await?;
        if let (Some(known), Some(found)) = (known, found.identity)
            && known != found
        {
            let message = format!(
                "the server of {} was {known} and is now {found}: nothing is deleted on it",
                provider.name
            );
            let help = format!("if that is meant: `mesh approve server {}`", provider.name);
            return Err(Fault::failed(message, help));
        }
    }
    Ok(())
}

impl Purge<'_> {
    /// What each server holds under the name. One that is still in use is refused by its adapter, and
    /// then nothing is deleted anywhere.
    fn look(&mut self) -> Result<(), Fault> {
        self.holds = self.online.run(async {
            let mut holds = Vec::with_capacity(self.servers.len());
            for server in &self.servers {
                let cx = Cx::default();
                let asked = server.adapter.data(&cx, self.data);
                let (online, provider) = (self.online, self.provider);
                holds.push(
                    servers::answer(online, provider, &server.name, PATIENCE, asked)
                        .await?
                        .map(|what| online.scrubber.scrub(&what).into_owned()),
                );
            }
            Ok::<_, Fault>(holds)
        })?;
        Ok(())
    }

    fn go_on(&self, confirmed: bool, manifest: &Manifest) -> Result<u8, Fault> {
        let shown = self.data.escape_debug();
        let provider = &self.provider.name;
        if self.holds.iter().all(Option::is_none) {
            self.tell(false, None);
            if !self.cx.printer.is_json() {
                let line = format!("There is no `{shown}` on {provider}: nothing to delete.");
                self.cx.printer.answer(&line);
            }
            return Ok(0);
        }
        if !confirmed {
            self.show();
            let question = format!("It cannot be undone. To delete it, type `{shown}` again: ");
            match super::asking::ask(self.cx, self.online, &question) {
                Some(typed) if typed == self.data => {}
                Some(_) => {
                    self.cx.printer.answer("Nothing was deleted.");
                    return Ok(EXIT_FAILED);
                }
                None => {
                    let again = self.command();
                    self.tell(false, Some(again.clone()));
                    if !self.cx.printer.is_json() {
                        self.cx
                            .printer
                            .answer("Nothing was deleted yet. To delete it:");
                        self.cx.printer.answer(&format!("    {again}"));
                    }
                    return Ok(0);
                }
            }
        }
        self.delete(manifest)?;
        self.tell(true, None);
        Ok(0)
    }

    /// The command that deletes it.
    fn command(&self) -> String {
        let name = &self.provider.name;
        let data = super::asking::for_a_shell(self.data);
        if self.data.starts_with('-') {
            return format!("mesh purge {name} --confirm={data} -- {data}");
        }
        format!("mesh purge {name} {data} --confirm {data}")
    }

    fn show(&self) {
        if self.cx.printer.is_json() {
            return;
        }
        let provider = &self.provider.name;
        for (server, what) in self.servers.iter().zip(&self.holds) {
            let what = what.as_deref().unwrap_or("nothing of that name");
            let place = match self.servers.len() {
                1 => provider.to_string(),
                _ => format!("{provider} ({})", server.name),
            };
            self.cx.printer.answer(&format!("{place}: {what}"));
        }
        let names: Vec<String> = self.was_for.iter().map(ToString::to_string).collect();
        let whose = names.join(", ");
        self.cx.printer.answer(&format!(
            "It was for {whose}, and no login may use it any more."
        ));
    }

    fn tell(&self, deleted: bool, confirm: Option<String>) {
        if !self.cx.printer.is_json() {
            return;
        }
        let parts = self.servers.iter().zip(&self.holds);
        self.cx.printer.json(&Answer {
            provider: &self.provider.name,
            data: self.data,
            was_for: &self.was_for,
            servers: parts
                .map(|(server, holds)| Part {
                    server: &server.name,
                    holds: holds.as_deref(),
                })
                .collect(),
            deleted,
            confirm,
        });
    }

    /// Deletes it on each server. The history knows of it before and after.
    fn delete(&self, manifest: &Manifest) -> Result<(), Fault> {
        let cx = self.cx;
        let installation = self.online.open(&cx.settings.data, &manifest.mesh)?;
        let shown = self.data.escape_debug().to_string();
        self.online.run(async {
            for (server, what) in self.servers.iter().zip(&self.holds) {
                let Some(what) = what else { continue };
                let word = format!("the data `{shown}` is to be deleted: {what}");
                self.note(&installation, EventKind::Word, word).await?;
                let asking = Cx::default();
                let purging = server.adapter.purge(&asking, self.data);
                let (online, provider) = (self.online, self.provider);
                servers::answer(online, provider, &server.name, DELETING, purging).await?;
                let done = format!("the data `{shown}` was deleted: {what}");
                self.note(&installation, EventKind::Purged, done).await?;
                if !cx.printer.is_json() {
                    let name = &provider.name;
                    cx.printer.answer(&format!("Deleted from {name}: {what}."));
                }
            }
            Ok(())
        })
    }

    async fn note(
        &self,
        installation: &Installation,
        kind: EventKind,
        detail: String,
    ) -> Result<(), Fault> {
        let event = Event {
            at: self.online.clock.now(),
            kind,
            owner: "person".to_owned(),
            provider: self.provider.name.to_string(),
            consumer: String::new(),
            detail,
            count: 1,
        };
        let bus = installation.bus.as_ref();
        words::note(bus, &event).await.map_err(store_fault)
    }
}
