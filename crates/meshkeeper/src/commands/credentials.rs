//! `mesh credentials CONSUMER PROVIDER`: login, password and URL, on request.

use mesh_loops::rotation::journal::Seat;
use mesh_sdk::bus::{Bucket, Key};
use mesh_sdk::{ConsumerName, Login, ProviderName, Secret};
use serde::Serialize;

use super::Context;
use super::online::{Online, store_fault};
use super::words::parse;
use crate::cli::CredentialsArgs;
use crate::errors::Fault;
use crate::status;
use crate::wiring;
use crate::wiring::installation::Installation;
use crate::wiring::rotation::seats::seat_of;
use crate::wiring::secrets::Known;
use crate::wiring::services::{Address, services, url};
use crate::wiring::shapes::{Standing, WishEntry};

/// What is shown. The one place where a password is printed: a person asked for it.
#[derive(Serialize)]
struct Answer {
    consumer: String,
    provider: String,
    login: String,
    password: String,
    urls: Vec<String>,
}

/// Whose password it is, and where it is good.
struct Place {
    login: Login,
    /// Addresses, and a path behind each.
    addresses: Vec<Address>,
}

/// From the manifest, or from the store while that cannot be used: an app may need it just then.
async fn place(
    cx: &Context<'_>,
    installation: &Installation,
    provider: &ProviderName,
    consumer: &ConsumerName,
) -> Result<Option<Place>, mesh_sdk::bus::Fault> {
    let of = (provider.clone(), consumer.clone());
    let journal = installation.secrets.journal(&of).await;
    let in_use = match journal {
        Ok(journal) => journal.map_or(Seat::First, |journal| journal.in_use()),
        Err(fault) => return Err(mesh_sdk::bus::Fault::Unreachable(fault.to_string())),
    };
    if let Some(manifest) = cx.manifest_if_usable() {
        let known = manifest.providers.get(provider);
        let needed = wiring::needed(&manifest, provider, consumer);
        return Ok(known.zip(needed).map(|(provider, needed)| Place {
            login: seat_of(needed, in_use).login,
            addresses: services(&manifest, provider, needed),
        }));
    }
    let bus = installation.bus.as_ref();
    let known = status::providers(bus).await?;
    let known = known.into_iter().find(|known| known.provider == *provider);
    let seat = match in_use {
        Seat::First => consumer.clone(),
        Seat::Second => consumer.second(),
    };
    let key = Key::of(&[provider.as_str(), seat.as_str()]);
    let wish = bus.get(Bucket::Wish, &key).await?;
    let wish: Option<WishEntry> = wish.and_then(|e| serde_json::from_slice(&e.value).ok());
    let login = wish.filter(|w| w.standing != Standing::Retired);
    let login = login.and_then(|wish| wish.login);
    Ok(login.zip(known).map(|(login, known)| Place {
        login,
        addresses: known
            .addresses
            .into_iter()
            .map(|a| (a, String::new()))
            .collect(),
    }))
}

/// Runs it.
pub(super) fn run(args: &CredentialsArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    let consumer: ConsumerName = parse("consumer", &args.consumer)?;
    let provider: ProviderName = parse("provider", &args.provider)?;
    let online = Online::start(cx)?;
    let (installation, _) = online.open_to_read(&cx.settings.data)?;
    let place = online
        .run(place(cx, &installation, &provider, &consumer))
        .map_err(store_fault)?;
    let place = place.ok_or_else(|| {
        Fault::failed(
            format!("nobody asks anything of {provider} for {consumer}"),
            "`mesh status` lists who asks what",
        )
    })?;
    let known = online
        .run(installation.secrets.current(&provider, &consumer))
        .map_err(store_fault)?;
    let secret = match known {
        Known::Version(secret) => secret,
        Known::Missing(why) => {
            return Err(Fault::failed(
                format!("the password of {consumer} on {provider} cannot be had: {why}"),
                "hand it back with `password = { file = … }`; it still lies where it was delivered",
            ));
        }
        Known::Nothing => {
            return Err(Fault::failed(
                format!("{consumer} has no password on {provider} yet"),
                "`mesh apply` makes one",
            ));
        }
    };
    show(cx, (consumer, provider), &place, &secret)
}

fn show(
    cx: &Context<'_>,
    (consumer, provider): (ConsumerName, ProviderName),
    place: &Place,
    secret: &Secret,
) -> Result<u8, Fault> {
    let password = secret.expose_str().ok_or_else(|| {
        Fault::failed(
            "the password is not UTF-8",
            "give another one in the manifest",
        )
    })?;
    // What lies on this machine has no URL that an app could log in with.
    let urls = place.addresses.iter();
    let urls = urls.filter_map(|address| url(address, place.login.as_str(), password));
    let answer = Answer {
        consumer: consumer.to_string(),
        provider: provider.to_string(),
        login: place.login.to_string(),
        password: password.to_owned(),
        urls: urls.collect(),
    };
    if cx.printer.is_json() {
        cx.printer.json(&answer);
    } else {
        cx.printer.answer(&format!(
            "login     {}\npassword  {}",
            answer.login, answer.password
        ));
        answer
            .urls
            .iter()
            .for_each(|url| cx.printer.answer(&format!("url       {url}")));
    }
    Ok(0)
}
