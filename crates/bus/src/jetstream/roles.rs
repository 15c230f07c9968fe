//! Who may do what on the servers, as a piece of their configuration.

use super::names::Names;

/// What a process does on the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// `mesh bus bootstrap`: makes the streams.
    Bootstrap,
    /// `mesh up`, `mesh apply` and all words: reads and writes values, and makes or deletes no stream.
    Loops,
    /// `mesh status` and its like: reads.
    Reader,
}

impl Role {
    /// Every role.
    pub const ALL: [Role; 3] = [Role::Bootstrap, Role::Loops, Role::Reader];

    /// Its name, for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::Bootstrap => "bootstrap",
            Role::Loops => "loops",
            Role::Reader => "reader",
        }
    }
    /// The prefix of the subjects on which its answers come.
    pub fn inbox(self, names: &Names) -> String {
        format!("_INBOX_{}_{}", names.bucket, self.as_str())
    }

    /// What it may publish.
    pub fn publish(self, names: &Names) -> Vec<String> {
        let (state, log) = (&names.state, &names.log);
        let mut allowed = vec!["$JS.API.INFO".to_owned()];
        for stream in [state, log] {
            allowed.push(format!("$JS.API.STREAM.INFO.{stream}"));
            allowed.push(format!("$JS.API.STREAM.MSG.GET.{stream}"));
            allowed.push(format!("$JS.API.DIRECT.GET.{stream}"));
        }
        allowed.push(format!(
            "$JS.API.CONSUMER.CREATE.{state}.*.{}",
            names.all_state()
        ));
        allowed.push(format!("$JS.API.CONSUMER.DELETE.{state}.*"));
        if self != Role::Reader {
            allowed.push(names.all_state());
            allowed.push(names.all_log());
            allowed.push(names.all_hints());
        }
        if self == Role::Bootstrap {
            allowed.push(format!("$JS.API.STREAM.CREATE.{state}"));
            allowed.push(format!("$JS.API.STREAM.CREATE.{log}"));
        }
        allowed
    }
    /// What it may subscribe to: its own answers, and what the servers tell of our streams.
    pub fn subscribe(self, names: &Names) -> Vec<String> {
        let mut allowed = vec![format!("{}.>", self.inbox(names))];
        if self == Role::Loops {
            allowed.extend(names.advisories());
        }
        allowed
    }
}

/// The permissions of a role, as a NATS server reads them.
pub fn permissions(names: &Names, role: Role) -> String {
    let quoted = |subjects: Vec<String>| {
        let lines: Vec<String> = subjects
            .iter()
            .map(|subject| format!("      {subject:?}\n"))
            .collect();
        lines.concat()
    };
    format!(
        "permissions {{\n    publish {{ allow: [\n{}    ] }}\n    subscribe {{ allow: [\n{}    ] }}\n  }}\n",
        quoted(role.publish(names)),
        quoted(role.subscribe(names))
    )
}

#[cfg(test)]
mod tests {
    //! No role may do what the streams' lock is there to refuse.
    use super::*;

    #[test]
    fn b9_no_role_may_change_delete_or_purge_a_stream() {
        let names = Names::of("home");
        for role in Role::ALL {
            for subject in role.publish(&names) {
                for never in [
                    "STREAM.DELETE",
                    "STREAM.UPDATE",
                    "PURGE",
                    "RESTORE",
                    "MSG.DELETE",
                ] {
                    assert!(!subject.contains(never), "{role:?} may {subject}");
                }
                assert!(!subject.starts_with("$JS.API.>"), "{role:?} may {subject}");
            }
        }
        let reader = permissions(&names, Role::Reader);
        assert!(!reader.contains("\"$KV.mesh_home.>\""), "{reader}");
        assert!(permissions(&names, Role::Loops).contains("\"$KV.mesh_home.>\""));
    }
}
