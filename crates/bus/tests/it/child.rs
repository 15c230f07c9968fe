//! This test program as a child process that writes and is killed, or meets a limit.

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use mesh_bus::embedded::EmbeddedBus;
use mesh_sdk::bus::{Bucket, Bus, Expect, Fault, Key, Put, Write};

use crate::{put, settings};

const FOLDER: &str = "MESH_BUS_CHILD_FOLDER";

/// Runs this program again as a writer on a folder, under a limit on the size of files if one is given
/// (in blocks of 512 bytes).
pub(crate) fn writer(folder: &Path, blocks: Option<u32>) -> (Child, BufReader<ChildStdout>) {
    let me = std::env::current_exe().expect("own path");
    let limit = blocks.map_or(String::new(), |n| format!("ulimit -f {n}; "));
    let mut child = Command::new("sh")
        .arg("-c")
        // With the signal ignored, a write over the limit fails like one on a full disk.
        .arg(format!(
            "trap '' XFSZ; {limit}exec \"$0\" --exact child::the_child --nocapture --test-threads=1"
        ))
        .arg(me)
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("child");
    let out = BufReader::new(child.stdout.take().expect("stdout"));
    (child, out)
}

/// The next line of a child that is for us; `None` at its end.
pub(crate) fn next_word(out: &mut BufReader<ChildStdout>) -> Option<String> {
    loop {
        let mut line = String::new();
        // A line that was cut off by the kill is no word.
        if out.read_line(&mut line).ok()? == 0 || !line.ends_with('\n') {
            return None;
        }
        if let Some((_, word)) = line.trim_end().split_once("child: ") {
            return Some(word.to_owned());
        }
    }
}

fn say(word: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "child: {word}").expect("say");
    out.flush().expect("say");
}

/// Does nothing unless it was started by [`writer`]: then it writes for ever, and says what is done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(
    clippy::disallowed_methods,
    reason = "the parent tells the child what it is by a variable"
)]
async fn the_child() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let bus = match EmbeddedBus::open(Path::new(&folder), &settings()) {
        Ok(opened) => opened.bus,
        Err(fault) => return say(&format!("closed {fault:?}")),
    };
    let list = bus.list(Bucket::Record, &Key::everything()).await;
    let mut n = list.expect("list").entries.len();
    loop {
        match put(&bus, &format!("n{n:06}"), Expect::Absent, &"v".repeat(700)).await {
            Ok(Put::Done(rev)) => say(&format!("done n{n:06} {}", rev.seq)),
            Err(Fault::Full(_)) => {
                say("full");
                return;
            }
            other => say(&format!("odd {other:?}")),
        }
        let many = (0..50).map(|m| Write {
            key: Key::of(&["batch", &n.to_string(), &m.to_string()]),
            expect: Expect::Absent,
            value: vec![b'b'; 300],
        });
        if n % 5 == 0 {
            match bus.put_each(Bucket::Condition, many.collect()).await {
                Ok(puts) if puts.iter().all(|put| matches!(put, Put::Done(_))) => {
                    say(&format!("batch {n} 0"));
                }
                Err(Fault::Full(_)) => {
                    say("full");
                    return;
                }
                other => say(&format!("odd {other:?}")),
            }
        }
        n += 1;
    }
}
