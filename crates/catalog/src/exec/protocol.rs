//! The lines of the protocol, as types: `docs/spec/exec-adapter.md` says what each means.

use mesh_sdk::Capabilities;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The versions of the protocol that are spoken here.
pub(super) const VERSIONS: [u32; 1] = [1];

/// Our first line.
#[derive(Serialize)]
pub(super) struct Greeting<'a> {
    pub(super) op: &'static str,
    pub(super) versions: [u32; 1],
    pub(super) provider: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) admin: Option<AdminLine<'a>>,
    pub(super) settings: &'a Map<String, Value>,
}

/// The admin login in it.
#[derive(Serialize)]
pub(super) struct AdminLine<'a> {
    pub(super) user: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) password: Option<&'a str>,
}

/// The program's first line.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Hello {
    pub(super) version: u32,
    pub(super) name: String,
    pub(super) capabilities: Vec<String>,
    pub(super) reserved: Vec<String>,
    pub(super) error: Option<Trouble>,
}

impl Hello {
    /// Whether it declared that ability.
    pub(super) fn can(&self, word: &str) -> bool {
        self.capabilities.iter().any(|one| one == word)
    }
    /// What the adapter can do with this program: what the program declared, and what follows from it. Who
    /// can be asked for one can be asked for many, down one pipe.
    pub(super) fn capabilities(&self) -> Capabilities {
        let mut all = Capabilities::none();
        all.server = true;
        all.create_all = true;
        all.holds = self.can("holds");
        all.holds_all = all.holds;
        all.disable = self.can("disable");
        all.list = self.can("list");
        all.hint = self.can("hint");
        all.uses = self.can("uses");
        all.find = self.can("find");
        all.purge = self.can("purge");
        all.two_passwords = self.can("two_passwords");
        all
    }
}

/// One request.
#[derive(Serialize)]
pub(super) struct Request<'a, B> {
    pub(super) id: u64,
    pub(super) op: &'a str,
    #[serde(flatten)]
    pub(super) body: B,
}

/// A request with nothing in it.
#[derive(Serialize)]
pub(super) struct Nothing {}

/// A wish, as the program is handed it.
#[derive(Serialize)]
pub(super) struct WishLine<'a> {
    pub(super) consumer: &'a str,
    pub(super) login: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) password: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) second_password: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) base: Option<&'a str>,
    pub(super) values: &'a Map<String, Value>,
    pub(super) enabled: bool,
    pub(super) exact: bool,
    pub(super) generated: bool,
    pub(super) mark: String,
    pub(super) take_over: bool,
}

/// Many of them.
#[derive(Serialize)]
pub(super) struct ManyLine<'a> {
    pub(super) wishes: Vec<WishLine<'a>>,
}

/// A login that loses its access.
#[derive(Serialize)]
pub(super) struct LeavingLine<'a> {
    pub(super) consumer: &'a str,
    pub(super) login: &'a str,
    pub(super) mark: String,
}

/// Logins that leave, of which it is asked whether they are in use.
#[derive(Serialize)]
pub(super) struct UsesLine<'a> {
    pub(super) logins: Vec<&'a str>,
}

/// Data by its name.
#[derive(Serialize)]
pub(super) struct NameLine<'a> {
    pub(super) name: &'a str,
}

/// One line of the program after its hello.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Line {
    /// Of which request; none for a hint.
    #[serde(default)]
    pub(super) id: Option<u64>,
    /// A part of an answer that comes in parts.
    #[serde(default)]
    pub(super) item: Option<Value>,
    /// The end of an answer, well.
    #[serde(default)]
    pub(super) ok: Option<Value>,
    /// The end of an answer, not well.
    #[serde(default)]
    pub(super) error: Option<Trouble>,
    /// Still at work.
    #[serde(default)]
    pub(super) progress: bool,
    /// Logins may have been forgotten (H-14).
    #[serde(default)]
    pub(super) hint: bool,
}

/// Why a request failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Trouble {
    pub(super) class: String,
    pub(super) message: String,
    pub(super) field: Option<String>,
}

/// What the program found of one login.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Facts {
    pub(super) found: bool,
    #[serde(default)]
    pub(super) enabled: Option<bool>,
    #[serde(default)]
    pub(super) password: PasswordSeen,
    #[serde(default)]
    pub(super) proof: ProofSaid,
    #[serde(default)]
    pub(super) missing: Vec<String>,
    #[serde(default)]
    pub(super) surplus: Vec<String>,
    #[serde(default)]
    pub(super) mark: Option<String>,
}

/// Whether the password that was asked for is the login's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PasswordSeen {
    /// It fits.
    Fits,
    /// It does not.
    Differs,
    /// It fits, and another one does too.
    FitsAmongOthers,
    /// Of two that were asked for, one does.
    OneFits,
    /// Any password does.
    NotEnforced,
    /// The backend does not tell, or none was asked for.
    #[default]
    Unknown,
}

/// How that was proven.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ProofSaid {
    #[default]
    Verifier,
    Login,
}

/// One answer among many: which one, and the facts or the trouble.
#[derive(Debug, Deserialize)]
pub(super) struct ItemLine {
    pub(super) index: usize,
    #[serde(default)]
    pub(super) ok: Option<Value>,
    #[serde(default)]
    pub(super) error: Option<Trouble>,
}

/// One login of a list.
#[derive(Debug, Deserialize)]
pub(super) struct ListedLine {
    pub(super) login: String,
    #[serde(default)]
    pub(super) mark: Option<String>,
    pub(super) enabled: bool,
}

/// One login as it stands.
#[derive(Debug, Deserialize)]
pub(super) struct FoundLine {
    pub(super) login: String,
    #[serde(default)]
    pub(super) mark: Option<String>,
    pub(super) enabled: bool,
    pub(super) values: Map<String, Value>,
    #[serde(default)]
    pub(super) data: Vec<String>,
    #[serde(default)]
    pub(super) beyond: Vec<String>,
}

/// That one of the logins was used, or that somebody tried.
#[derive(Debug, Deserialize)]
pub(super) struct UseLine {
    pub(super) index: usize,
    pub(super) seconds: f64,
    pub(super) how: String,
}

/// What there is of data.
#[derive(Debug, Deserialize)]
pub(super) struct DataLine {
    #[serde(default)]
    pub(super) data: Option<String>,
}

/// What the program says of its server.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ServerLine {
    pub(super) version: String,
    pub(super) identity: Option<String>,
    pub(super) run: Option<String>,
    pub(super) read_only: Option<String>,
    pub(super) forgets: Option<String>,
}

/// What it found worth telling a person.
#[derive(Debug, Deserialize)]
pub(super) struct FindingLine {
    pub(super) level: LevelSaid,
    pub(super) about: String,
    pub(super) message: String,
    #[serde(default)]
    pub(super) action: Option<String>,
}

/// How it is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LevelSaid {
    Ok,
    Warning,
    Error,
}
