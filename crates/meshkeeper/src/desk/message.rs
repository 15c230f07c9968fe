//! What an agent asks and is answered, the same on the local socket, over NATS and on the store itself.
//!
//! A question is one JSON object: `{"v":1,"word":"claim","by":"ada"}`; over NATS the subject says the word. An
//! answer is `{"v":1,"ok":{…}}` or `{"v":1,"error":{"code":"over","message":"…"}}`.

use std::time::Duration;

use mesh_sdk::condition::ConditionType;
use mesh_sdk::decide::tasks::{NotTaken, Outcome, Task};
use mesh_sdk::{Time, bus};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::status::{PictureFault, time_text};
use crate::wiring::tasks::{LEASE, TaskFault};

/// The version of what is asked and answered. Another one is refused.
pub const VERSION: u64 = 1;
/// The longest question, in bytes.
pub const LONGEST_QUESTION: usize = 64 * 1024;
/// A list is cut where its tasks take so many bytes; what was left off is counted.
pub const LONGEST_LIST: usize = 256 * 1024;
/// The longest claim.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// The longest name of an agent, in characters.
const LONGEST_NAME: usize = 80;
/// The longest id and token, in bytes.
const LONGEST_ID: usize = 64;
/// The most types, and the most ids that are passed over, in one question.
pub const MOST: usize = 1000;

/// What can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "lowercase")]
pub enum Question {
    /// Which tasks stand.
    List(List),
    /// Take one: the worst open one that fits.
    Claim(Claim),
    /// Keep it for longer.
    Extend(Extend),
    /// Say how it ended.
    Finish(Finish),
}

/// Which tasks stand, worst and oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Only of these condition types; all, if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// Only those that may be claimed now.
    #[serde(default)]
    pub open: bool,
}

/// Take a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Who takes it, for those who look.
    pub by: String,
    /// Which; the worst open one, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Only of these condition types; all, if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// Not these ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
    /// For so many seconds; 600, if not given, and at most a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

/// Keep it for longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extend {
    /// Which.
    pub id: String,
    /// What the claim gave.
    pub token: String,
    /// For so many seconds from now; 600, if not given, and at most a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

/// Say how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finish {
    /// Which.
    pub id: String,
    /// What the claim gave.
    pub token: String,
    /// How it ended.
    pub outcome: Outcome,
    /// For whoever comes next.
    #[serde(default)]
    pub note: String,
}

/// Why a question is refused, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// It cannot be asked so; the message says why.
    BadRequest,
    /// Its `v` is none that is spoken here.
    Version,
    /// It is too long.
    TooLarge,
    /// No task with this id stands.
    NoSuchTask,
    /// No task that fits is open.
    NoneOpen,
    /// Somebody else has it.
    Claimed,
    /// Its owner looks first, or it waits for a person.
    NotOpen,
    /// The claim of this token is over.
    Over,
    /// Too many ask at once.
    Busy,
    /// The store cannot be used now. What was asked may have happened.
    Unavailable,
    /// One that a newer program gives.
    #[serde(other)]
    Other,
}

impl Code {
    /// As a number, for clients of NATS services.
    pub const fn number(self) -> u16 {
        match self {
            Code::BadRequest | Code::Version | Code::Other => 400,
            Code::NoSuchTask | Code::NoneOpen => 404,
            Code::Claimed | Code::NotOpen => 409,
            Code::Over => 410,
            Code::TooLarge => 413,
            Code::Busy | Code::Unavailable => 503,
        }
    }
}

/// Why a question is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// For programs.
    pub code: Code,
    /// For people.
    pub message: String,
}

impl Refusal {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
    fn bad(message: impl Into<String>) -> Self {
        Self::new(Code::BadRequest, message)
    }
}

impl From<NotTaken> for Refusal {
    fn from(why: NotTaken) -> Self {
        let code = match &why {
            NotTaken::Claimed { .. } => Code::Claimed,
            NotTaken::NotOpen(_) => Code::NotOpen,
            NotTaken::Over => Code::Over,
        };
        Self::new(code, why.to_string())
    }
}

impl From<bus::Fault> for Refusal {
    fn from(fault: bus::Fault) -> Self {
        Self::new(Code::Unavailable, fault.to_string())
    }
}

impl From<PictureFault> for Refusal {
    fn from(fault: PictureFault) -> Self {
        Self::new(Code::Unavailable, fault.to_string())
    }
}

impl From<TaskFault> for Refusal {
    fn from(fault: TaskFault) -> Self {
        match fault {
            TaskFault::NotTaken(why) => why.into(),
            TaskFault::Store(fault) => fault.into(),
        }
    }
}

impl Question {
    /// Reads one. `word`: what the subject says, where a subject says it. Errors: it is none.
    pub fn read(word: Option<&str>, bytes: &[u8]) -> Result<Self, Refusal> {
        if bytes.len() > LONGEST_QUESTION {
            let most = format!("a question has at most {LONGEST_QUESTION} bytes");
            return Err(Refusal::new(Code::TooLarge, most));
        }
        let odd = |error: serde_json::Error| Refusal::bad(error.to_string());
        let Value::Object(mut fields) = serde_json::from_slice(bytes).map_err(odd)? else {
            return Err(Refusal::bad("a question is a JSON object"));
        };
        match fields.remove("v").and_then(|version| version.as_u64()) {
            Some(VERSION) => {}
            _ => {
                let spoken = format!("version {VERSION} is spoken here: \"v\": {VERSION}");
                return Err(Refusal::new(Code::Version, spoken));
            }
        }
        if let Some(word) = word {
            let said = fields.insert("word".to_owned(), word.into());
            if said.is_some_and(|said| said != word) {
                return Err(Refusal::bad("`word` is not that of the subject"));
            }
        }
        let question: Self = serde_json::from_value(fields.into()).map_err(odd)?;
        question.check()?;
        Ok(question)
    }
    /// As it is sent.
    pub fn text(&self) -> String {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        value["v"] = VERSION.into();
        value.to_string()
    }
    /// Its word.
    pub const fn word(&self) -> &'static str {
        match self {
            Question::List(_) => "list",
            Question::Claim(_) => "claim",
            Question::Extend(_) => "extend",
            Question::Finish(_) => "finish",
        }
    }
    /// Whether it can be asked so, whatever stands.
    pub fn check(&self) -> Result<(), Refusal> {
        match self {
            Question::List(list) => kinds(&list.types).map(drop),
            Question::Claim(claim) => {
                kinds(&claim.types)?;
                few(claim.except.len())?;
                claim
                    .id
                    .iter()
                    .chain(&claim.except)
                    .try_for_each(|id| short("id", id))?;
                name(&claim.by)?;
                lease(claim.seconds).map(drop)
            }
            Question::Extend(extend) => {
                short("id", &extend.id)?;
                short("token", &extend.token)?;
                lease(extend.seconds).map(drop)
            }
            Question::Finish(finish) => {
                short("id", &finish.id)?;
                short("token", &finish.token)
            }
        }
    }
}

/// A condition's type as it was typed. Errors: there is none.
pub fn kind_named(text: &str) -> Result<ConditionType, Refusal> {
    let mut all = ConditionType::ALL.iter().copied();
    let found = all.find(|kind| kind.as_str().eq_ignore_ascii_case(text));
    found.ok_or_else(|| Refusal::bad(format!("there is no condition type `{text}`")))
}

/// Condition types as they were typed; none means all.
pub(super) fn kinds(types: &[String]) -> Result<Vec<ConditionType>, Refusal> {
    few(types.len())?;
    types.iter().map(|text| kind_named(text)).collect()
}

/// How long a claim lasts.
pub(super) fn lease(seconds: Option<u64>) -> Result<Duration, Refusal> {
    let lease = seconds.map_or(LEASE, Duration::from_secs);
    if lease.is_zero() || lease > LONGEST {
        return Err(Refusal::bad(
            "a claim is for a second at least and for 24h at most; it can be extended",
        ));
    }
    Ok(lease)
}

/// A name that can stand in a line of the history.
fn name(by: &str) -> Result<(), Refusal> {
    let long = by.chars().count() > LONGEST_NAME;
    if by.trim().is_empty() || long || by.chars().any(char::is_control) {
        return Err(Refusal::bad(format!(
            "`by` is a name of one line, of at most {LONGEST_NAME} characters"
        )));
    }
    Ok(())
}

fn short(what: &str, text: &str) -> Result<(), Refusal> {
    if text.is_empty() || text.len() > LONGEST_ID {
        let text = format!("`{what}` has at least one byte, and at most {LONGEST_ID}");
        return Err(Refusal::bad(text));
    }
    Ok(())
}

fn few(count: usize) -> Result<(), Refusal> {
    match count {
        0..=MOST => Ok(()),
        _ => Err(Refusal::bad(format!("at most {MOST} of a kind"))),
    }
}

/// An answer, as it is sent.
pub fn answer(outcome: &Result<Value, Refusal>) -> String {
    match outcome {
        Ok(value) => json!({ "v": VERSION, "ok": value }),
        Err(refusal) => json!({ "v": VERSION, "error": refusal }),
    }
    .to_string()
}

/// Reads an answer. The outer error: it is none.
pub fn read_answer(bytes: &[u8]) -> Result<Result<Value, Refusal>, String> {
    #[derive(Deserialize)]
    struct Answer {
        ok: Option<Value>,
        error: Option<Refusal>,
    }
    let answer: Answer = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    match (answer.ok, answer.error) {
        (Some(value), None) => Ok(Ok(value)),
        (None, Some(refusal)) => Ok(Err(refusal)),
        _ => Err("it has neither `ok` nor `error`".to_owned()),
    }
}

/// A task as it is told: times are RFC 3339.
pub fn task(task: &Task) -> Value {
    let time = |at: Time| Value::String(time_text(at));
    let reports = task.reports.iter().map(|report| {
        json!({ "at": time(report.at), "by": report.by, "outcome": report.outcome, "note": report.note })
    });
    json!({
        "id": task.id, "type": task.kind, "severity": task.severity, "owner": task.owner,
        "subjects": task.subjects, "count": task.count, "meaning": task.meaning,
        "action": task.action, "evidence": task.evidence, "since": time(task.since),
        "stage": task.stage, "by": task.by, "until": task.until.map(time),
        "attempts": task.attempts, "reports": reports.collect::<Vec<_>>(),
    })
}

/// What a reader of a task needs to know of it. Whatever else is in it is passed over, so that a newer
/// program may tell more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TaskView {
    /// Which.
    pub id: String,
    /// The conditions' type.
    #[serde(rename = "type")]
    pub kind: String,
    /// How much they matter.
    pub severity: String,
    /// What they are about.
    pub subjects: Vec<String>,
    /// How many conditions it stands for.
    pub count: usize,
    /// Since when the oldest stands.
    pub since: String,
    /// How it stands.
    pub stage: String,
    /// Who works on it.
    pub by: Option<String>,
    /// Attempts that began.
    pub attempts: u32,
    /// Given with a claim alone.
    pub token: Option<String>,
}

#[cfg(test)]
mod tests {
    //! C-7: what is asked is bounded, and every refusal has a code.
    use super::*;

    fn code(word: Option<&str>, text: &str) -> Option<Code> {
        Question::read(word, text.as_bytes()).err().map(|r| r.code)
    }

    #[test]
    fn c7_what_is_sent_is_read_as_it_was() {
        let claim = Question::Claim(Claim {
            by: "ada".into(),
            id: None,
            types: vec!["LoginTaken".into()],
            except: vec!["0a1b2c3d".into()],
            seconds: Some(5),
        });
        for question in [claim, Question::List(List::default())] {
            let text = question.text();
            assert_eq!(Question::read(None, text.as_bytes()), Ok(question.clone()));
            let word = Some(question.word());
            assert_eq!(Question::read(word, text.as_bytes()), Ok(question));
        }
        assert_eq!(code(Some("list"), "{\"v\":1}"), None);
    }

    #[test]
    fn c7_what_cannot_be_asked_is_refused_with_its_code() {
        let bad = Some(Code::BadRequest);
        assert_eq!(code(None, "[]"), bad);
        assert_eq!(code(None, "{\"v\":1,\"word\":\"clear\"}"), bad);
        assert_eq!(code(Some("list"), "{\"v\":1,\"word\":\"claim\"}"), bad);
        assert_eq!(code(Some("list"), "{\"v\":1,\"more\":2}"), bad);
        assert_eq!(code(Some("list"), "{}"), Some(Code::Version));
        assert_eq!(code(Some("list"), "{\"v\":2}"), Some(Code::Version));
        assert_eq!(code(Some("claim"), "{\"v\":1}"), bad);
        let by = |more: &str| format!("{{\"v\":1,\"by\":\"ada\"{more}}}");
        assert_eq!(code(Some("claim"), &by("")), None);
        for more in [
            ",\"seconds\":0",
            ",\"seconds\":86401",
            ",\"id\":\"\"",
            ",\"types\":[\"NoSuch\"]",
        ] {
            assert_eq!(code(Some("claim"), &by(more)), bad, "{more}");
        }
        assert_eq!(code(Some("claim"), "{\"v\":1,\"by\":\"a\\nb\"}"), bad);
        let long = by(&format!(",\"id\":\"{}\"", "x".repeat(LONGEST_QUESTION)));
        assert_eq!(code(Some("claim"), &long), Some(Code::TooLarge));
    }

    #[test]
    fn c7_a_refusal_of_a_newer_program_is_a_refusal() {
        let text = br#"{"v":1,"error":{"code":"tired","message":"later"}}"#;
        let refusal = read_answer(text).expect("an answer").expect_err("refused");
        assert_eq!(refusal, Refusal::new(Code::Other, "later"));
        let refused = answer(&Err(Refusal::new(Code::NoneOpen, "none")));
        assert!(refused.contains("\"code\":\"none_open\""), "{refused}");
    }
}
