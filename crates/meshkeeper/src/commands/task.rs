//! `mesh task claim | extend | finish`: what an agent says.

use std::time::Duration;

use mesh_sdk::decide::tasks::Outcome;

use super::Context;
use super::online::Online;
use super::reach::{Does, checked, reach, told};
use crate::cli::{HowEnded, TaskWord};
use crate::desk::AskFault;
use crate::desk::message::{Claim, Code, Extend, Finish, Question};
use crate::errors::{EXIT_NOT_WELL, Fault};

/// Runs it.
pub(super) fn run(word: &TaskWord, cx: &Context<'_>) -> Result<u8, Fault> {
    let (question, reached) = match word {
        TaskWord::Claim(args) => {
            let claim = Claim {
                by: args.by.clone(),
                id: args.id.clone(),
                types: args.kind.iter().cloned().collect(),
                except: Vec::new(),
                seconds: Some(seconds(args.length)),
            };
            (Question::Claim(claim), &args.reach)
        }
        TaskWord::Extend(args) => {
            let extend = Extend {
                id: args.id.clone(),
                token: args.token.clone(),
                seconds: Some(seconds(args.length)),
            };
            (Question::Extend(extend), &args.reach)
        }
        TaskWord::Finish(args) => {
            let finish = Finish {
                id: args.id.clone(),
                token: args.token.clone(),
                outcome: outcome(args.outcome),
                note: args.note.clone(),
            };
            (Question::Finish(finish), &args.reach)
        }
    };
    let question = checked(question)?;
    let online = Online::start(cx)?;
    let way = reach(reached, cx, &online, Does::Write)?;
    let answer = match online.run(way.ask(&question)) {
        Err(AskFault::Refused(refusal)) if refusal.code == Code::NoneOpen => {
            let all = "`mesh tasks` shows all";
            cx.printer.note(&format!("{}; {all}", refusal.message));
            return Ok(EXIT_NOT_WELL);
        }
        answer => answer.map_err(told)?,
    };
    match question {
        Question::Extend(extend) if !cx.printer.is_json() => {
            let until = answer["until"].as_str().unwrap_or_default();
            let text = format!("Task {} is yours until {until}.", extend.id);
            cx.printer.answer(&text);
        }
        Question::Finish(finish) if !cx.printer.is_json() => {
            let what = match finish.outcome {
                Outcome::Done => "its owner looks again, and that look decides",
                Outcome::Failed => "the next agent reads what was tried",
                Outcome::Person => "it waits for a person",
            };
            cx.printer.answer(&format!("Task {}: {what}.", finish.id));
        }
        // What was claimed is for programs, whatever is asked for.
        _ => cx.printer.json(&answer),
    }
    Ok(0)
}

/// Whole seconds, and never less than was asked for.
pub(super) fn seconds(length: Duration) -> u64 {
    length.as_secs() + u64::from(length.subsec_nanos() > 0)
}

fn outcome(how: HowEnded) -> Outcome {
    match how {
        HowEnded::Done => Outcome::Done,
        HowEnded::Failed => Outcome::Failed,
        HowEnded::Person => Outcome::Person,
    }
}
