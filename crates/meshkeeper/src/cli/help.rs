//! The help texts: words in groups, and exit codes with each.

use std::fmt::Write as _;

use clap::Command;

const GROUPS: &[(&str, &[&str])] = &[
    (
        "To get going",
        &[
            "init",
            "check",
            "demo",
            "import",
            "adapters",
            "schema",
            "completions",
        ],
    ),
    ("The work", &["up", "apply", "plan", "wait"]),
    (
        "To look",
        &[
            "status",
            "explain",
            "conditions",
            "loops",
            "events",
            "doctor",
            "credentials",
        ],
    ),
    (
        "A person's word",
        &[
            "rotate", "adopt", "approve", "retire", "purge", "ack", "silence", "pause", "resume",
        ],
    ),
    ("For agents", &["tasks", "task", "agent"]),
    ("Several hosts", &["bus"]),
    ("For authors of adapters", &["conformance"]),
];

const EXITS: &[(&str, &str)] = &[
    (
        "init",
        "0 written · 1 could not, or there is a manifest already",
    ),
    (
        "check",
        "0 in order (warnings too) · 1 a mistake, or the file could not be read",
    ),
    ("demo", "0 it healed · 1 it could not be shown"),
    (
        "import",
        "0 printed, or nothing to import · 1 the server could not be asked",
    ),
    ("adapters", "0"),
    ("schema", "0"),
    ("completions", "0"),
    ("up", "0 stopped as told · 1 could not run"),
    (
        "apply",
        "0 all held, no warning or error stands · 3 something is unknown, pending, braked or lost · 1 could not run",
    ),
    (
        "plan",
        "0 nothing to do · 2 changes · 1 could not tell (wins over 2)",
    ),
    (
        "status",
        "0 all held, no warning or error stands · 3 something is unknown, pending, braked or lost · 1 could not tell",
    ),
    (
        "wait",
        "0 reached · 3 not within the time; it says what it waits for · 1 could not tell, or nobody asks for it",
    ),
    (
        "approve",
        "0 said · 1 nothing waits, another set waits than the named one, or none was named",
    ),
    (
        "adopt",
        "0 said · 1 it is not asked for, or nothing knows its password",
    ),
    (
        "rotate",
        "0 said · 1 nobody asks it, its password is given, or no rotation is under way",
    ),
    (
        "retire",
        "0 said · 1 there is no such login, or several and none was named",
    ),
    (
        "purge",
        "0 shown, deleted, or nothing there · 1 refused, or the server could not be asked",
    ),
    (
        "doctor",
        "0 in order · 3 something was found · 1 could not look",
    ),
    ("bus", "0 done, or there was nothing to do · 1 could not"),
    (
        "conformance",
        "0 no trial failed · 3 one did · 1 could not run",
    ),
];

const LENGTHS: &str = "Lengths of time are written with their unit: 90s, \"5 min\", 2h, 7d, PT30M.";

const AFTER: &str = "\
Every word has its own help: mesh WORD --help.
Answers go to standard output, logs to standard error.
Exit codes: 0 done · 1 could not · 2 and 3 see the word's help · 64 asked in a way that cannot be.
Variables: MESH_CONFIG, MESH_DATA, MESH_LOG (info, or mesh=debug), MESH_LOG_FORMAT, MESH_HOST (this
host's name on a bus of several), NO_COLOR.
Options win over variables.";

/// Puts groups, exit codes and the reasons of refused words into clap's command.
pub(super) fn dress(mut command: Command, connect: bool) -> Command {
    for (word, exits) in EXITS {
        command = command.mut_subcommand(*word, |sub| {
            sub.after_help(format!("Exit codes: {exits} · 64 usage error"))
        });
    }
    for word in ["status", "wait", "events", "silence", "ack", "pause"] {
        command = command.mut_subcommand(word, |sub| {
            let more = sub
                .get_after_help()
                .map(|text| format!("{text}\n"))
                .unwrap_or_default();
            sub.after_help(format!("{more}{LENGTHS}"))
        });
    }
    if !connect {
        command =
            command.mut_subcommand("check", |sub| sub.mut_arg("connect", |arg| arg.hide(true)));
    }
    let words = groups(&command);
    command
        .help_template(format!(
            "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{words}{{options}}{{after-help}}"
        ))
        .after_help(AFTER)
}

fn groups(command: &Command) -> String {
    let mut text = String::new();
    for (title, words) in GROUPS {
        let _ = writeln!(text, "{title}:");
        for word in *words {
            let about = command
                .find_subcommand(word)
                .and_then(Command::get_about)
                .map(ToString::to_string)
                .unwrap_or_default();
            let _ = writeln!(text, "  {word:<12} {about}");
        }
        text.push('\n');
    }
    text.push_str("Options:\n");
    text
}

#[cfg(test)]
mod tests {
    //! No word is forgotten in the help.
    use super::*;
    use crate::cli;

    #[test]
    fn every_word_is_in_a_group() {
        let command = cli::command(true);
        for sub in command.get_subcommands() {
            let word = sub.get_name();
            let grouped = GROUPS.iter().any(|(_, words)| words.contains(&word));
            assert!(grouped && !sub.is_hide_set(), "{word}");
        }
        command.debug_assert();
    }
}
