//! What can be refused without asking the server: names, passwords and values that it could never take.

use mesh_sdk::adapter::{ProviderSettings, Refusal};
use mesh_sdk::{Login, Secret};

use super::compare::Wish;
use super::connect::{admin_name, home};
use super::scram;
use super::values::{PostgresOptions, PostgresValues, Privileges};

/// The longest name. PostgreSQL cuts longer ones with no more than a notice, so that two become one (O-09).
const LONGEST_NAME: usize = 63;
/// The longest password. There is no limit in the server; poolers and clients have one.
const LONGEST_PASSWORD: usize = 16 * 1024;
/// Names that the server takes for something else even in quotes, or that hold it together.
const RESERVED: [&str; 3] = ["postgres", "public", "none"];
/// Databases that are patterns for others.
const TEMPLATES: [&str; 2] = ["template0", "template1"];
/// The canary's name: it need not be there.
pub(super) const CANARY: &str = "meshkeeper_canary";

/// Login, password and values.
pub(super) fn wish(provider: &ProviderSettings, wish: &Wish<'_>) -> Result<(), Refusal> {
    let options: PostgresOptions = provider.typed_options()?;
    login(wish.login(), provider, &options)?;
    if let Some(secret) = wish.password() {
        password(secret)?;
    }
    values(wish.values(), provider)
}

/// A provider's own settings.
pub(super) fn provider(settings: &ProviderSettings) -> Result<(), Refusal> {
    let scheme = super::SCHEMES.iter().find(|s| s.name == settings.scheme);
    let Some(scheme) = scheme else {
        let rule = "must begin with postgres://, postgresql:// or postgres+tls://";
        return Err(Refusal::new("url", rule));
    };
    if settings.host.is_empty() {
        return Err(Refusal::new("url", "must name a host"));
    }
    if let Some(rule) = wrong_name(home(settings)) {
        return Err(Refusal::new("url", format!("the database {rule}")));
    }
    if TEMPLATES.contains(&home(settings)) {
        let rule = "connections to a template database stand in the way of new databases";
        return Err(Refusal::new("url", rule));
    }
    if !scheme.encrypted && !settings.is_loopback() && !settings.tls.dangerously_plain {
        let rule = format!(
            "`{}://` to another machine is not encrypted: say `{}://`, or \
             `tls = {{ dangerously_plain = true }}`",
            scheme.name,
            super::TLS_SCHEME
        );
        return Err(Refusal::new("url", rule));
    }
    if let Some(admin) = &settings.admin {
        if let Some(rule) = wrong_name(&admin.user) {
            return Err(Refusal::new("admin.user", rule));
        }
        if admin.password.as_ref().is_some_and(Secret::is_empty) {
            return Err(Refusal::new("admin.password", "must not be empty"));
        }
    }
    options(&settings.typed_options()?)
}

fn options(options: &PostgresOptions) -> Result<(), Refusal> {
    let refuse = |field: &str, rule: &str| Err(Refusal::new(&format!("options.{field}"), rule));
    if !(1..=1_000_000).contains(&options.generated_rounds) {
        return refuse("generated_rounds", "must be 1 to 1000000");
    }
    if !(4096..=1_000_000).contains(&options.given_rounds) {
        return refuse("given_rounds", "must be 4096 to 1000000");
    }
    if !(1..=100).contains(&options.connections) {
        return refuse("connections", "must be 1 to 100");
    }
    match wrong_name(&options.keeper) {
        None if !is_system(&options.keeper) => Ok(()),
        _ => refuse(
            "keeper",
            "must be the name of a role that is not the server's own",
        ),
    }
}

/// Whether a login is never touched (H-19). Case counts: `Postgres` is another role.
pub(super) fn is_reserved(login: &str, settings: &ProviderSettings, keeper: &str) -> bool {
    is_system(login) || login == keeper || login == CANARY || login == admin_name(settings)
}

fn is_system(name: &str) -> bool {
    name.starts_with("pg_") || RESERVED.contains(&name)
}

fn login(
    login: &Login,
    provider: &ProviderSettings,
    options: &PostgresOptions,
) -> Result<(), Refusal> {
    let text = login.as_str();
    if is_reserved(text, provider, &options.keeper) {
        let rule = "`postgres`, `public`, `none`, whatever begins with `pg_`, the admin login, the keeper \
                    and the canary are reserved";
        return Err(Refusal::new("login", rule));
    }
    match wrong_name(text) {
        Some(rule) => Err(Refusal::new("login", rule)),
        None => Ok(()),
    }
}

fn wrong_name(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("must not be empty");
    }
    if name.contains('\0') {
        return Some("must not hold a NUL");
    }
    (name.len() > LONGEST_NAME)
        .then_some("must have at most 63 bytes: PostgreSQL cuts longer names off without a word")
}

fn password(secret: &Secret) -> Result<(), Refusal> {
    let refuse = |rule: &str| Err(Refusal::new("password", rule));
    match secret.expose_str() {
        None => refuse("must be UTF-8"),
        Some("") => refuse("must not be empty"),
        Some(text) if text.contains('\0') => refuse("must not hold a NUL"),
        Some(text) if text.len() > LONGEST_PASSWORD => refuse("must have at most 16384 bytes"),
        Some(text) if scram::vanishes(text) => refuse(
            "must hold a character that SASLprep (RFC 4013) leaves: clients disagree on others",
        ),
        Some(_) => Ok(()),
    }
}

fn values(values: &PostgresValues, provider: &ProviderSettings) -> Result<(), Refusal> {
    let refuse = |field: &str, rule: &str| Err(Refusal::new(field, rule));
    if let Some(rule) = wrong_name(&values.database) {
        return refuse("database", rule);
    }
    if TEMPLATES.contains(&values.database.as_str()) {
        return refuse("database", "a template database is nobody's");
    }
    let owner = values.privileges == Privileges::Owner;
    if owner && values.database == home(provider) {
        let rule = "the database that the admin login works in has no other owner: whoever owns it could \
                    have the admin run things";
        return refuse("database", rule);
    }
    if values.schemas.is_empty() && !owner {
        return refuse(
            "schemas",
            "must name one at least: privileges are about schemas",
        );
    }
    for schema in &values.schemas {
        if let Some(rule) = wrong_name(schema) {
            return refuse("schemas", rule);
        }
        if schema.starts_with("pg_") || schema == "information_schema" {
            return refuse("schemas", "the server's own schemas are nobody's");
        }
    }
    if !owner && !values.extensions.is_empty() {
        return refuse("extensions", "only an `owner` has extensions made");
    }
    for extension in &values.extensions {
        if let Some(rule) = wrong_name(extension) {
            return refuse("extensions", rule);
        }
    }
    match values.connection_limit {
        Some(0) => refuse(
            "connection_limit",
            "must not be 0: `enabled = false` switches a login off",
        ),
        Some(limit) if i32::try_from(limit).is_err() => refuse("connection_limit", "is too many"),
        _ => Ok(()),
    }
}
