//! What can be refused without asking the server: names, passwords and rules that it could never take.

use mesh_sdk::adapter::{ProviderSettings, Refusal};
use mesh_sdk::{Login, Marker, Secret};

use super::adapter::is_reserved;
use super::compare::Wish;
use super::values::RedisValues;

/// The longest password. Before a login, Redis takes no longer argument (tried on 7.0.15 and 9.1.2), so
/// a longer one could be set and never used.
const LONGEST_PASSWORD: usize = 16 * 1024;
/// The longest login that is taken; the server itself has no limit of its own (70,000 bytes were taken).
const LONGEST_LOGIN: usize = 16 * 1024;

/// The schemes, and whether each is encrypted.
const SCHEMES: [(&str, bool); 4] = [
    ("redis", false),
    ("rediss", true),
    ("valkey", false),
    ("valkeys", true),
];

/// Login, password and values.
pub(super) fn wish(provider: &ProviderSettings, wish: &Wish<'_>) -> Result<(), Refusal> {
    login(wish.login(), provider)?;
    if let Some(secret) = wish.password() {
        password(secret)?;
    }
    values(wish.values())
}

/// A provider's own settings.
pub(super) fn provider(settings: &ProviderSettings) -> Result<(), Refusal> {
    let scheme = SCHEMES.iter().find(|(name, _)| *name == settings.scheme);
    let Some((name, encrypted)) = scheme else {
        let rule = "must begin with redis://, rediss://, valkey:// or valkeys://";
        return Err(Refusal::new("url", rule));
    };
    if settings.host.is_empty() {
        return Err(Refusal::new("url", "must name a host"));
    }
    if !matches!(settings.path.as_str(), "" | "0") {
        let rule = "logins belong to the whole server: leave out the database number";
        return Err(Refusal::new("url", rule));
    }
    if !encrypted && !settings.is_loopback() && !settings.tls.dangerously_plain {
        let rule = format!(
            "`{name}://` to another machine is not encrypted: say `{name}s://`, or \
             `tls = {{ dangerously_plain = true }}`"
        );
        return Err(Refusal::new("url", rule));
    }
    match &settings.admin {
        Some(admin) if admin.user.is_empty() || has_gap(&admin.user) => Err(Refusal::new(
            "admin.user",
            "must be a name without spaces, line breaks and NUL",
        )),
        Some(admin) if admin.password.as_ref().is_some_and(Secret::is_empty) => {
            Err(Refusal::new("admin.password", "must not be empty"))
        }
        _ => Ok(()),
    }
}

fn login(login: &Login, provider: &ProviderSettings) -> Result<(), Refusal> {
    let refuse = |rule: &str| Err(Refusal::new("login", rule));
    let text = login.as_str();
    if is_reserved(text, provider) {
        return refuse("the default user and the admin login itself are reserved");
    }
    if has_gap(text) {
        return refuse(
            "must hold no space, tab, line break or NUL: Redis takes none in a user's name",
        );
    }
    if text.len() > LONGEST_LOGIN {
        return refuse("must have at most 16384 bytes");
    }
    Ok(())
}

fn password(secret: &Secret) -> Result<(), Refusal> {
    let refuse = |rule: &str| Err(Refusal::new("password", rule));
    match secret.expose_str() {
        None => refuse("must be UTF-8"),
        Some("") => refuse("must not be empty"),
        Some(text) if text.contains('\0') => refuse("must not hold a NUL"),
        Some(text) if text.len() > LONGEST_PASSWORD => {
            refuse("must have at most 16384 bytes: Redis takes no longer one at a login")
        }
        Some(_) => Ok(()),
    }
}

fn values(values: &RedisValues) -> Result<(), Refusal> {
    lists(
        "",
        [&values.keys, &values.read_keys, &values.write_keys],
        &values.channels,
    )?;
    rules("commands", &values.commands)?;
    for (index, selector) in values.selectors.iter().enumerate() {
        let at = format!("selectors[{index}].");
        let keys = [&selector.keys, &selector.read_keys, &selector.write_keys];
        lists(&at, keys, &selector.channels)?;
        let all = keys.into_iter().chain([&selector.channels]).flatten();
        if all.clone().any(|pattern| pattern.ends_with(')')) {
            let rule = "no pattern may end with `)`: it would end the selector";
            return Err(Refusal::new(&format!("selectors[{index}]"), rule));
        }
        let field = format!("{at}commands");
        if selector.commands.is_empty() {
            return Err(Refusal::new(
                &field,
                "a selector without commands grants nothing",
            ));
        }
        rules(&field, &selector.commands)?;
    }
    Ok(())
}

fn lists(at: &str, keys: [&Vec<String>; 3], channels: &Vec<String>) -> Result<(), Refusal> {
    let fields = ["keys", "read_keys", "write_keys"].into_iter().zip(keys);
    for (field, patterns) in fields.chain([("channels", channels)]) {
        for pattern in patterns {
            let refuse = |rule: &str| Err(Refusal::new(&format!("{at}{field}"), rule));
            if pattern.is_empty() {
                return refuse("a pattern must not be empty");
            }
            if has_gap(pattern) {
                return refuse("a pattern must hold no space, tab, line break or NUL");
            }
            if pattern.starts_with(Marker::PREFIX) {
                return refuse("`mk1.` begins the mark that Meshkeeper leaves on its logins");
            }
        }
    }
    Ok(())
}

fn rules(field: &str, rules: &[String]) -> Result<(), Refusal> {
    for rule in rules {
        let plain = matches!(rule.as_str(), "allcommands" | "nocommands");
        let name = rule.strip_prefix(['+', '-']);
        let name = name.map(|name| name.strip_prefix('@').unwrap_or(name));
        let is_name = |name: &str| {
            let has_end = name.starts_with('|') || name.ends_with('|');
            !name.is_empty() && !has_end && !has_gap(name) && !name.contains(['(', ')'])
        };
        if !plain && !name.is_some_and(is_name) {
            let told: String = rule.chars().filter(|c| !c.is_control()).take(40).collect();
            let rule = format!(
                "`{told}` is no rule: write `+get`, `-flushall`, `+@read` or `allcommands`"
            );
            return Err(Refusal::new(field, rule));
        }
    }
    Ok(())
}

/// What Redis takes for a space, and NUL.
fn has_gap(text: &str) -> bool {
    text.bytes()
        .any(|b| b == 0 || b == 0x0b || b.is_ascii_whitespace())
}
