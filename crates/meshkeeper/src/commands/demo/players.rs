//! The consumers of the demo, and its manifest.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// How often each is looked at.
pub(super) const VERIFY_EVERY: Duration = Duration::from_secs(2);

/// A consumer of the demo.
pub(super) struct Player {
    pub(super) name: &'static str,
    /// Its `needs` table.
    needs: &'static str,
    /// A command that its rules allow.
    pub(super) may: &'static [&'static str],
}

/// Five with different rules, such as any server of any version takes.
pub(super) const PLAYERS: [Player; 5] = [
    Player {
        name: "chat",
        needs: "keys = [\"chat:*\"]\nchannels = [\"chat:*\"]\ncommands = [\"+@pubsub\", \"+@read\"]\n",
        may: &["PUBLISH", "chat:room", "hello"],
    },
    Player {
        name: "nightly",
        needs: "login = \"nightly-job\"\nkeys = [\"lock:*\"]\ncommands = [\"+get\", \"+set\", \"+del\"]\n",
        may: &["SET", "lock:nightly", "1"],
    },
    Player {
        name: "reports",
        needs: "keys = [\"web:*\"]\ncommands = [\"+@read\", \"-keys\"]\n",
        may: &["GET", "web:greeting"],
    },
    Player {
        name: "web",
        needs: "keys = [\"web:*\", \"session:*\"]\ncommands = [\"+@read\", \"+@write\", \"-@dangerous\"]\n",
        may: &["SET", "web:greeting", "hello"],
    },
    Player {
        name: "worker",
        needs: "keys = [\"queue:*\"]\ncommands = [\"+@list\"]\n",
        may: &["LPUSH", "queue:mail", "1"],
    },
];

/// The manifest, as a person would write it.
pub(super) fn manifest(port: u16, admin: &Path) -> String {
    let mut text = format!(
        "[mesh]\nid = \"demo\"\n\n\
         [provider.cache]\nkind = \"redis\"\nurl = \"redis://127.0.0.1:{port}\"\n\
         admin = {{ user = \"default\", password = {{ file = {:?} }} }}\n\
         verify_every = \"{}s\"\n",
        admin.display().to_string(),
        VERIFY_EVERY.as_secs(),
    );
    for player in &PLAYERS {
        let _ = write!(
            text,
            "\n[consumer.{}.needs.cache]\n{}",
            player.name, player.needs
        );
    }
    text
}
