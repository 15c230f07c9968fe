//! The tables that say who we are and whom we trust: `admin`, `password`, `tls`.

use std::path::{Path, PathBuf};

use mesh_sdk::Secret;
use toml::de::DeValue;

use super::fields::Fields;
use super::provider::{AdminSource, TlsSource};
use super::secrets::SecretRef;
use crate::errors::Problem;

/// Stands for a password that is not read or not made yet, where only its form matters.
pub(super) fn placeholder() -> Secret {
    Secret::from("0123456789abcdefghijklmnopqrstuv")
}

/// Reads `admin`.
pub(super) fn admin(
    base: &Path,
    fields: &Fields<'_, '_>,
    problems: &mut Vec<Problem>,
) -> Option<AdminSource> {
    let item = fields.item("admin")?;
    let wanted = "a table: { user = …, password = { env = … } or { file = … } }";
    let inner = Fields::of("admin", item, wanted, problems)?;
    inner.refuse_unknown("`admin`", &["user", "password", "weak"], problems);
    let password = password(base, &inner, problems);
    let weak = weak(&inner, password.is_some(), problems);
    let user = match inner.item("user") {
        Some(_) => inner.text("user", "a login in quotes", problems)?,
        None => {
            problems.push(Problem::error(
                inner.span.clone(),
                "`admin` names no `user`",
            ));
            return None;
        }
    };
    if user.get_ref().is_empty() || user.get_ref().contains('\0') {
        problems.push(Problem::error(
            user.span(),
            "the admin's login must not be empty or hold a NUL",
        ));
    }
    Some(AdminSource {
        user: (*user.get_ref()).to_owned(),
        password,
        weak,
    })
}

/// Reads `weak`, which only speaks of a given password.
pub(super) fn weak(fields: &Fields<'_, '_>, given: bool, problems: &mut Vec<Problem>) -> bool {
    let weak = fields.flag("weak", false, problems);
    if weak && !given && fields.item("password").is_none() {
        let problem = Problem::error(
            fields.span_of("weak"),
            "`weak` speaks of a given password, and none is given",
        );
        problems.push(problem.help("leave it out, or give `password = { file = … }`"));
    }
    weak
}

/// Reads `password = { env | file }`. A literal is refused and not repeated.
pub(super) fn password(
    base: &Path,
    fields: &Fields<'_, '_>,
    problems: &mut Vec<Problem>,
) -> Option<SecretRef> {
    place(base, fields, "password", problems)
}

/// Reads where a secret is: `KEY = { env | file }`. A literal is refused and not repeated.
pub(super) fn place(
    base: &Path,
    fields: &Fields<'_, '_>,
    key: &str,
    problems: &mut Vec<Problem>,
) -> Option<SecretRef> {
    let help = format!("name its place: {key} = {{ file = \"…\" }} or {{ env = \"NAME\" }}");
    let item = fields.item(key)?;
    let DeValue::Table(table) = item.get_ref() else {
        let message = match key {
            "password" => "a password does not stand in the manifest".to_owned(),
            _ => format!("`{key}` names a place, and no secret stands in the manifest"),
        };
        problems.push(Problem::error(item.span(), message).help(help));
        return None;
    };
    let inner = Fields {
        table,
        span: item.span(),
    };
    if let Some(other) = table
        .keys()
        .find(|other| !["env", "file"].contains(&other.get_ref().as_ref()))
    {
        let message = format!("`{key}` takes `env` or `file`, and nothing else");
        problems.push(Problem::error(other.span(), message).help(help));
        return None;
    }
    match (inner.item("env"), inner.item("file")) {
        (Some(_), None) => env(&inner, problems),
        (None, Some(_)) => path(base, &inner, "file", problems).map(SecretRef::File),
        _ => {
            let message = format!("`{key}` takes one of `env` and `file`");
            problems.push(Problem::error(item.span(), message).help(help));
            None
        }
    }
}

/// A variable's name. What is no such name is not repeated: it may be the password itself.
fn env(fields: &Fields<'_, '_>, problems: &mut Vec<Problem>) -> Option<SecretRef> {
    let text = fields.text("env", "the name of a variable, in quotes", problems)?;
    let name = text.get_ref();
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if name.is_empty() || !plain || name.starts_with(|c: char| c.is_ascii_digit()) {
        let problem = Problem::error(text.span(), "`env` takes the name of a variable");
        problems.push(problem.meant("letters, digits and `_`, and no digit first"));
        return None;
    }
    Some(SecretRef::Env((*name).to_owned()))
}

/// A path, taken from the manifest's folder.
pub(super) fn path(
    base: &Path,
    fields: &Fields<'_, '_>,
    key: &str,
    problems: &mut Vec<Problem>,
) -> Option<PathBuf> {
    let text = fields.text(key, "a path in quotes", problems)?;
    if text.get_ref().is_empty() || text.get_ref().contains('\0') {
        problems.push(Problem::error(text.span(), format!("`{key}` is no path")));
        return None;
    }
    Some(base.join(text.get_ref()))
}

/// Reads `tls`.
pub(super) fn tls(base: &Path, fields: &Fields<'_, '_>, problems: &mut Vec<Problem>) -> TlsSource {
    let wanted = "a table: { ca = \"ca.pem\" }";
    let Some(inner) = fields
        .item("tls")
        .and_then(|item| Fields::of("tls", item, wanted, problems))
    else {
        return TlsSource::default();
    };
    let known = ["ca", "client_cert", "client_key", "dangerously_unverified"];
    inner.refuse_unknown("`tls`", &known, problems);
    let ca = path(base, &inner, "ca", problems);
    let cert = path(base, &inner, "client_cert", problems);
    let key = path(base, &inner, "client_key", problems);
    let dangerously_unverified = inner.flag("dangerously_unverified", false, problems);
    if inner.item("client_cert").is_some() != inner.item("client_key").is_some() {
        let message = "`client_cert` and `client_key` go together, and one is missing";
        problems.push(Problem::error(inner.span.clone(), message));
    }
    if dangerously_unverified && ca.is_some() {
        let message =
            "`ca` says how to verify the server, and `dangerously_unverified` says not to";
        problems.push(
            Problem::error(inner.span_of("dangerously_unverified"), message)
                .help("drop one of the two"),
        );
    }
    TlsSource {
        ca,
        client: cert.zip(key),
        dangerously_unverified,
    }
}
