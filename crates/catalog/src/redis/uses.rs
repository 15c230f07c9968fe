//! Who is in use, and who tried: open connections, and the server's own log of what it refused.

use std::collections::HashMap;
use std::time::Duration;

use mesh_sdk::adapter::Use;
use mesh_sdk::provision::Departing;
use mesh_sdk::{Cx, Error};

use super::adapter::Redis;
use super::classify;
use super::connect::Session;
use super::wire::Reply;

/// More entries than the server keeps unless it is told to.
const LOG: &[u8] = b"1024";

impl Redis {
    /// Two commands for however many.
    pub(super) async fn uses_of(
        &self,
        cx: &Cx,
        logins: &[Departing],
    ) -> Result<Vec<Option<Use>>, Error> {
        let mut session = self.session(cx).await?;
        let open = connections(&mut session).await?;
        cx.progress();
        let refused = refusals(&mut session).await?;
        cx.progress();
        let told = |going: &Departing| {
            let login = going.login.as_str();
            match open.get(login) {
                Some(1) => Some(Use::new(Duration::ZERO, "a connection is open")),
                Some(more) => Some(Use::new(Duration::ZERO, format!("{more} open connections"))),
                None => refused.get(login).cloned(),
            }
        };
        Ok(logins.iter().map(told).collect())
    }
}

/// How many connections each login has. No name of a login holds a space.
async fn connections(session: &mut Session) -> Result<HashMap<String, u32>, Error> {
    let list: [&[u8]; 2] = [b"CLIENT", b"LIST"];
    let text = session.text("look at the open sessions", &list).await?;
    let mut open = HashMap::new();
    for line in text.lines() {
        let user = line.split(' ').find_map(|part| part.strip_prefix("user="));
        if let Some(user) = user {
            *open.entry(user.to_owned()).or_insert(0) += 1;
        }
    }
    Ok(open)
}

/// The last refusal of each login.
async fn refusals(session: &mut Session) -> Result<HashMap<String, Use>, Error> {
    const WHAT: &str = "look at refused logins";
    let log: [&[u8]; 3] = [b"ACL", b"LOG", LOG];
    let reply = session.wire.ask(WHAT, &log).await?;
    let entries = reply.list().ok_or_else(|| classify::garbled(WHAT))?;
    let mut last: HashMap<String, Use> = HashMap::new();
    for entry in entries.iter().filter_map(Reply::list) {
        let field = |name: &[u8]| {
            let mut pairs = entry.chunks(2);
            let found = pairs.find(|pair| pair[0].text() == Some(name))?;
            Some(String::from_utf8_lossy(found.get(1)?.text()?).into_owned())
        };
        let (user, age) = (field(b"username"), field(b"age-seconds"));
        let ago = age.and_then(|age| Duration::try_from_secs_f64(age.parse().ok()?).ok());
        let (Some(user), Some(ago)) = (user, ago) else {
            return Err(classify::garbled(WHAT));
        };
        let how = match field(b"reason").as_deref() {
            Some("auth") => "a login was refused",
            _ => "it was refused something that it may not do",
        };
        if last.get(&user).is_none_or(|known| ago < known.ago) {
            last.insert(user, Use::new(ago, how));
        }
    }
    Ok(last)
}
