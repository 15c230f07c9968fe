//! O-01, O-07: what is delivered is read back by the real readers: the same bytes for every hostile password, or
//! a refusal that names the reader.

#![allow(clippy::expect_used, reason = "helpers of tests fail loudly")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use mesh_loops::delivery::format::{Format, Reader, Values};
use mesh_sdk::Secret;
use proptest::prelude::*;

/// Passwords and URLs that broke something somewhere.
const HOSTILE: &[&str] = &[
    "kd83JKs9",
    "p@ss/w:rd?#[%41]&=+{x} '",
    "redis://web:p%40ss@127.0.0.1:6379/0",
    "postgres://web:x@db/web?sslmode=verify-full&application_name=web",
    "a\"b",
    "a\\b",
    "a\\\\b",
    "end\\",
    "\\'",
    "\\\"",
    "a$b",
    "a${HOME}b",
    "$HOME",
    "a`id`b",
    "$(id)",
    "a b",
    " a ",
    "\ta",
    "a#b",
    "#a",
    "a #b",
    "~root",
    "a:~root",
    "a\nb",
    "a\n",
    "a\r\nb",
    "a\tb",
    "ü€😀",
    "\u{202e}abc",
    "it's",
    "'q'",
    "\"q\"",
    "it's $5",
    "it's `so`",
    "!history",
    "a;b&c|d<e>f(g)",
    "*",
    "?",
    "[a]",
    "%h%n",
    "x\u{1}y",
    "x\u{7f}y",
    "a\\nb",
    "a\\$b",
    "=",
    "",
];

fn ok(output: &Output) {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Writes each variable of its environment, from `V0` on, into a file of its own.
const DUMP: &str = "mkdir -p out; i=0; while [ $i -lt $COUNT ]; do eval \"printf %s \\\"\\$V$i\\\" > out/$i\"; i=$((i+1)); done";

fn by_shell(shell: &str, folder: &Path, count: usize) {
    let script = format!("COUNT={count}; . ./delivered.env; {DUMP}");
    let run = Command::new(shell)
        .args(["-c", &script])
        .current_dir(folder)
        .env_clear()
        .env("HOME", "/")
        .output();
    ok(&run.expect("shell"));
}

/// A systemd of its own, for one unit: the very code that reads `EnvironmentFile=`. Its folders under /run are
/// in a mount namespace of its own.
fn by_systemd(folder: &Path, count: usize) {
    let shown = folder.display();
    fs::write(
        folder.join("dump.sh"),
        format!("cd {shown}; COUNT={count}; {DUMP}; touch done"),
    )
    .expect("script");
    let units = folder.join("config/systemd/user");
    fs::create_dir_all(&units).expect("folder");
    let unit = format!(
        "[Unit]\nDefaultDependencies=no\nSuccessAction=exit\nFailureAction=exit\n[Service]\nType=oneshot\n\
         EnvironmentFile={shown}/delivered.env\nExecStart=/bin/sh {shown}/dump.sh\n"
    );
    fs::write(units.join("read.service"), unit).expect("unit");
    let start = format!(
        "mount -t tmpfs none /run && mkdir -p /run/systemd/system /run/own && \
         HOME={shown} XDG_RUNTIME_DIR=/run/own XDG_CONFIG_HOME={shown}/config \
         timeout 60 /lib/systemd/systemd --user --unit=read.service"
    );
    let run = Command::new("unshare")
        .args(["--mount", "sh", "-c", &start])
        .output()
        .expect("unshare");
    assert!(
        folder.join("done").exists(),
        "systemd did not start the unit: {run:?}"
    );
}

fn by_dotenv(folder: &Path, count: usize) {
    let script = "import os,sys\nfrom dotenv import dotenv_values\nos.makedirs('out',exist_ok=True)\n\
        read=dotenv_values('delivered.env')\n\
        for i in range(int(sys.argv[1])): open('out/%d'%i,'wb').write(read['V%d'%i].encode())\n";
    let library = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.servers");
    let run = Command::new("python3")
        .args(["-c", script, &count.to_string()])
        .env("PYTHONPATH", library)
        .current_dir(folder)
        .output();
    ok(&run.expect("python3"));
}

/// As Docker's own `--env-file` reads it: lines, the first `=`, nothing quoted.
fn by_docker_rules(folder: &Path, _: usize) {
    let text = fs::read_to_string(folder.join("delivered.env")).expect("file");
    fs::create_dir_all(folder.join("out")).expect("folder");
    for line in text
        .lines()
        .map(str::trim_start)
        .filter(|line| !line.starts_with('#'))
    {
        let (name, value) = line.split_once('=').expect("a variable");
        let name = name.strip_prefix('V').expect("our name");
        fs::write(folder.join("out").join(name), value).expect("write");
    }
}

fn read_by(reader: Reader, folder: &Path, count: usize) {
    match reader {
        Reader::Systemd => by_systemd(folder, count),
        Reader::Shell => by_shell("dash", folder, count),
        Reader::Docker => by_docker_rules(folder, count),
        Reader::Dotenv => by_dotenv(folder, count),
    }
}

/// Delivers what these readers can take, and has it read back by each of them. Answers what was refused.
fn delivered_and_read(values: &[&str], readers: &[Reader]) -> BTreeMap<String, String> {
    let format = Format::Env(readers.to_vec());
    let mut refused = BTreeMap::new();
    let mut taken = Vec::new();
    for value in values {
        let one = Values::from([("V".to_owned(), Secret::from(*value))]);
        match format.write(&one) {
            Ok(_) => taken.push(*value),
            Err(fault) => drop(refused.insert((*value).to_owned(), fault.to_string())),
        }
    }
    let all = taken.iter().enumerate();
    let all: Values = all
        .map(|(i, value)| (format!("V{i}"), Secret::from(*value)))
        .collect();
    let file = format.write(&all).expect("each was taken");
    for reader in readers {
        let folder = tempfile::tempdir().expect("folder");
        fs::write(folder.path().join("delivered.env"), file.expose()).expect("write");
        read_by(*reader, folder.path(), taken.len());
        for (i, value) in taken.iter().enumerate() {
            let read = fs::read(folder.path().join("out").join(i.to_string())).expect("read");
            assert_eq!(
                String::from_utf8_lossy(&read),
                **value,
                "as {reader} reads it"
            );
        }
    }
    refused
}

/// All that needs a systemd is one test: two of them would meet in the same control group.
#[test]
fn o01_the_real_readers_read_what_was_delivered() {
    each_reader_reads_every_hostile_value_as_it_is_or_is_named_as_who_cannot();
    readers_that_quote_agree_on_nearly_everything_and_bash_reads_as_dash_does();
    generated_passwords_and_their_urls_are_the_same_for_all_readers();
}

fn each_reader_reads_every_hostile_value_as_it_is_or_is_named_as_who_cannot() {
    for reader in Reader::ALL {
        let refused = delivered_and_read(HOSTILE, &[reader]);
        assert!(refused.values().all(|why| why.contains(reader.as_str())));
        let refused: Vec<&str> = refused.keys().map(String::as_str).collect();
        let expected: &[&str] = match reader {
            Reader::Systemd => &["a\r\nb", "x\u{1}y", "x\u{7f}y"],
            Reader::Shell => &[],
            Reader::Docker => &["a\n", "a\nb", "a\r\nb"],
            Reader::Dotenv => &["a\r\nb", "a${HOME}b", "end\\", "it's $5", "it's `so`"],
        };
        assert_eq!(refused, expected, "{reader}");
    }
}

fn readers_that_quote_agree_on_nearly_everything_and_bash_reads_as_dash_does() {
    let quoting = [Reader::Systemd, Reader::Shell, Reader::Dotenv];
    let refused = delivered_and_read(HOSTILE, &quoting);
    let refused: Vec<&str> = refused.keys().map(String::as_str).collect();
    let expected = [
        "a\r\nb",
        "a${HOME}b",
        "end\\",
        "it's $5",
        "it's `so`",
        "x\u{1}y",
        "x\u{7f}y",
    ];
    assert_eq!(refused, expected);
    let taken: Vec<&str> = HOSTILE
        .iter()
        .filter(|value| !refused.contains(value))
        .copied()
        .collect();
    let all = taken.iter().enumerate();
    let all: Values = all
        .map(|(i, value)| (format!("V{i}"), Secret::from(*value)))
        .collect();
    let folder = tempfile::tempdir().expect("folder");
    let file = Format::Env(quoting.to_vec()).write(&all).expect("taken");
    fs::write(folder.path().join("delivered.env"), file.expose()).expect("write");
    by_shell("bash", folder.path(), taken.len());
    for (i, value) in taken.iter().enumerate() {
        let read = fs::read(folder.path().join("out").join(i.to_string())).expect("read");
        assert_eq!(String::from_utf8_lossy(&read), **value);
    }
}

fn generated_passwords_and_their_urls_are_the_same_for_all_readers() {
    let values = [
        "Zk3v9QwE7tYu1iOp5aSd8fGh2jKl4xCv",
        "redis://web:Zk3v9QwE7tYu1iOp@cache.example:6379/0",
    ];
    assert!(delivered_and_read(&values, &Reader::ALL).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn o01_whatever_the_value_a_shell_and_python_read_it_as_it_is(
        values in proptest::collection::vec("[ -~\n\t]{0,12}|[$'\"`\\\\{} a]{0,8}", 1..40)
    ) {
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        delivered_and_read(&values, &[Reader::Shell, Reader::Dotenv]);
    }
}
