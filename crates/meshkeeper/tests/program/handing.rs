//! Conditions handed to agents as tasks: claimed, lost, done and not true, done and seen (C-6, C-7).

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::Value;

use crate::lab::{Lab, Up};
use crate::redis::Redis;
use crate::wait::{until, until_true};

const QUICK: &str = "verify_every = \"1s\"";

/// A daemon that finds a login of somebody else's under the name that it needs.
fn with_a_taken_login() -> (Lab, Redis, Up) {
    let (lab, redis) = (Lab::new(), Redis::start());
    redis.ask(&["ACL", "SETUSER", "web", "on", ">theirs", "~*", "+@all"]);
    lab.cache(&redis, QUICK, ["web", "api"]);
    let up = lab.up(&[]);
    until_true("it is a task", 30, || {
        let all = tasks(&lab);
        (all.iter().any(|t| t["type"] == "LoginTaken"), all)
    });
    (lab, redis, up)
}

fn tasks(lab: &Lab) -> Vec<Value> {
    let json = lab.mesh(&["tasks", "--json"]).ends(0).json();
    json["tasks"].as_array().expect("tasks").clone()
}

fn taken(lab: &Lab) -> Option<Value> {
    tasks(lab).into_iter().find(|t| t["type"] == "LoginTaken")
}

fn claim(lab: &Lab, by: &str, length: &str) -> Value {
    let claimed = lab.mesh(&[
        "task",
        "claim",
        "--type",
        "logintaken",
        "--by",
        by,
        "--for",
        length,
    ]);
    claimed.ends(0).json()
}

fn text<'v>(task: &'v Value, field: &str) -> &'v str {
    task[field].as_str().unwrap_or_default()
}

#[test]
fn c7_a_task_goes_from_agent_to_agent_until_its_owner_sees_it_gone() {
    let (lab, redis, _up) = with_a_taken_login();
    // The first agent dies: its time runs out, and its word counts no more.
    let first = claim(&lab, "one", "2s");
    let id = text(&first, "id").to_owned();
    assert_eq!(text(&first, "stage"), "claimed");
    lab.mesh(&["task", "claim", &id, "--by", "two"])
        .ends(1)
        .warns("one works on it");
    until_true("it is open again", 20, || {
        let task = taken(&lab);
        (task.as_ref().is_some_and(|t| t["stage"] == "open"), task)
    });
    let token = text(&first, "token");
    let late = ["task", "finish", &id, "--token", token, "--outcome", "done"];
    lab.mesh(&late).ends(1).warns("this claim is over");
    // The second says that it is done, and that is not true.
    let second = claim(&lab, "two", "10m");
    assert_eq!(second["attempts"], 2);
    let token = text(&second, "token");
    lab.mesh(&["task", "extend", &id, "--token", token]).ends(0);
    let done = [
        "task",
        "finish",
        &id,
        "--token",
        token,
        "--outcome",
        "done",
        "--note",
        "tried",
    ];
    lab.mesh(&done).ends(0);
    until_true("its owner looked and it is open again", 20, || {
        let task = taken(&lab);
        (task.as_ref().is_some_and(|t| t["stage"] == "open"), task)
    });
    let conditions = lab.conditions();
    assert!(
        conditions.contains(&"LoginTaken cache/web".to_owned()),
        "{conditions:?}"
    );
    // The third does it.
    let third = claim(&lab, "three", "10m");
    assert_eq!(
        third["reports"][0]["note"], "tried",
        "it reads what was tried"
    );
    redis.ask(&["ACL", "DELUSER", "web"]);
    let token = text(&third, "token");
    lab.mesh(&["task", "finish", &id, "--token", token, "--outcome", "done"])
        .ends(0);
    until_true("its owner sees it gone", 20, || {
        let task = taken(&lab);
        (task.is_none(), task)
    });
    until("web is held", 20, || {
        let states = lab.states();
        if states.contains(&"web=held".to_owned()) {
            Ok(())
        } else {
            Err(states)
        }
    });
    let told = lab
        .mesh(&["events", "cache", "--json", "--limit", "1000"])
        .ends(0)
        .out;
    for line in [
        "claimed",
        "says that it is done; its owner looks again: tried",
    ] {
        assert!(told.contains(line), "no `{line}` in {told}");
    }
}

fn script(lab: &Lab, name: &str, body: &str) -> PathBuf {
    let path = lab.write(name, &format!("#!/bin/sh\n{body}\n"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("rights");
    path
}

#[test]
fn c7_an_agents_program_gets_the_task_and_its_exit_code_is_the_outcome() {
    let (lab, redis, _up) = with_a_taken_login();
    script(&lab, "fails", "echo 'no idea'; exit 3");
    let agent = |program: &str| {
        let run = format!("./{program}");
        lab.mesh(&["agent", "--run", &run, "--type", "LoginTaken", "--once"])
            .ends(0)
    };
    agent("fails");
    let task = taken(&lab).expect("it stands");
    assert_eq!(task["reports"][0]["note"], "no idea; it ended with 3");
    // One that reads its task, and hands it on to whoever can.
    script(&lab, "asks", "cat > task.json; exit 10");
    agent("asks");
    let given = std::fs::read_to_string(lab.path().join("task.json")).expect("task");
    let given: Value = serde_json::from_str(&given).expect("json");
    assert_eq!(given["subjects"][0], "cache/web");
    assert!(
        given.get("token").is_none(),
        "the token is the agent's alone: {given}"
    );
    until_true("it waits for a person", 20, || {
        let task = taken(&lab);
        (task.as_ref().is_some_and(|t| t["stage"] == "person"), task)
    });
    lab.mesh(&["tasks"]).ends(0).says("waits for a person");
    let none = lab.mesh(&["task", "claim", "--by", "three", "--type", "LoginTaken"]);
    none.ends(3).warns("no such task is open");
    drop(redis);
}

#[test]
fn c7_a_program_that_hangs_is_ended_with_all_that_it_started() {
    let (lab, _redis, _up) = with_a_taken_login();
    script(&lab, "hangs", "sleep 1000 & echo $! > child; sleep 1000");
    let agent = [
        "agent",
        "--run",
        "./hangs",
        "--type",
        "LoginTaken",
        "--once",
        "--timeout",
        "1s",
    ];
    lab.mesh(&agent).ends(0);
    let child = std::fs::read_to_string(lab.path().join("child")).expect("child");
    let child = child.trim().to_owned();
    until("its child is gone", 10, || {
        let state = std::fs::read_to_string(format!("/proc/{child}/stat"));
        match state {
            Ok(state) if !state.contains(") Z ") => Err(state),
            _ => Ok(()),
        }
    });
    let task = taken(&lab).expect("it stands");
    assert_eq!(task["reports"][0]["note"], "it took too long");
}

#[test]
fn c7_what_a_person_knows_of_and_what_cannot_be_named_is_not_handed_out() {
    let (lab, _redis, _up) = with_a_taken_login();
    let known = ["ack", "LoginTaken", "cache/web", "--reason", "I am at it"];
    lab.mesh(&known).ends(0);
    let all = tasks(&lab);
    assert!(!all.iter().any(|t| t["type"] == "LoginTaken"), "{all:?}");
    lab.mesh(&["task", "claim", "--by", "two\nlines"]).ends(64);
    lab.mesh(&["task", "claim", "nothere", "--by", "x"]).ends(1);
    lab.mesh(&["tasks", "--type", "NoSuch"]).ends(64);
}
