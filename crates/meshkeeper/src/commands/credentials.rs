//! `mesh credentials CONSUMER PROVIDER`: login, password and URL, on request.

use mesh_sdk::{ConsumerName, ProviderName, Secret};
use serde::Serialize;

use super::Context;
use super::online::{Online, store_fault};
use super::words::parse;
use crate::cli::CredentialsArgs;
use crate::errors::Fault;
use crate::manifest::{Manifest, Needed};
use crate::wiring;
use crate::wiring::secrets::Known;

/// What is shown. The one place where a password is printed: a person asked for it.
#[derive(Serialize)]
struct Answer {
    consumer: String,
    provider: String,
    login: String,
    password: String,
    urls: Vec<String>,
}

/// Runs it.
pub(super) fn run(args: &CredentialsArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    let manifest = cx.manifest()?;
    let consumer: ConsumerName = parse("consumer", &args.consumer)?;
    let provider: ProviderName = parse("provider", &args.provider)?;
    let needed = wiring::needed(&manifest, &provider, &consumer).ok_or_else(|| {
        Fault::failed(
            format!("the manifest asks nothing of {provider} for {consumer}"),
            "`mesh status` lists who asks what",
        )
    })?;
    let online = Online::start(cx)?;
    let installation = online.open_to_read(&cx.settings.data, &manifest.mesh)?;
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
    show(cx, &manifest, needed, &secret)
}

fn show(
    cx: &Context<'_>,
    manifest: &Manifest,
    needed: &Needed,
    secret: &Secret,
) -> Result<u8, Fault> {
    let password = secret.expose_str().ok_or_else(|| {
        Fault::failed(
            "the password is not UTF-8",
            "give another one in the manifest",
        )
    })?;
    let nodes = manifest
        .providers
        .get(&needed.provider)
        .map(|p| p.nodes.as_slice())
        .unwrap_or_default();
    let urls = nodes.iter().map(|node| {
        let settings = &node.settings;
        let address = settings.address();
        let (scheme, place) = address.split_once("://").unwrap_or(("", &address));
        let path = if settings.path.is_empty() {
            String::new()
        } else {
            format!("/{}", settings.path)
        };
        format!(
            "{scheme}://{}:{}@{place}{path}",
            encode(needed.login.as_str()),
            encode(password)
        )
    });
    let answer = Answer {
        consumer: needed.consumer.to_string(),
        provider: needed.provider.to_string(),
        login: needed.login.to_string(),
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

/// Percent-encodes what is not unreserved in a URL, once (O-01).
fn encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(byte as char)
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    //! O-01: each part of a URL is encoded once.
    use super::*;

    #[test]
    fn a5_reserved_characters_are_encoded_once() {
        assert_eq!(
            encode("p@ss/w:rd?#[%41]&=+{x} '"),
            "p%40ss%2Fw%3Ard%3F%23%5B%2541%5D%26%3D%2B%7Bx%7D%20%27"
        );
        assert_eq!(encode("aZ09-._~"), "aZ09-._~");
        assert_eq!(encode("ü"), "%C3%BC");
    }
}
