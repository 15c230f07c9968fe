//! The processes of a program under test, as the relay wrote them down.

use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// How often, a millisecond apart, it is looked whether they are gone.
const LOOKS: u32 = 5_000;

/// The process ids in a file, one a line.
pub(super) fn read(list: &Path) -> Vec<i32> {
    let text = std::fs::read_to_string(list).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

pub(super) fn kill(programs: &[i32], program: &Path) {
    signal(programs, program, Signal::KILL);
}
pub(super) fn stop(programs: &[i32], program: &Path) {
    signal(programs, program, Signal::STOP);
}
pub(super) fn go_on(programs: &[i32], program: &Path) {
    signal(programs, program, Signal::CONT);
}

/// Only to processes that run this program: an id may be another's by now.
fn signal(programs: &[i32], program: &Path, signal: Signal) {
    let name = program.display().to_string();
    for pid in programs {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&words).contains(&name)
            && let Some(pid) = Pid::from_raw(*pid)
        {
            // An error says that it is gone.
            let _ = kill_process(pid, signal);
        }
    }
}

/// Returns when none of them runs any more, or after a few seconds.
pub(super) fn wait_for_end(all: impl Iterator<Item = i32>) {
    let mut open: Vec<i32> = all.collect();
    for _ in 0..LOOKS {
        open.retain(|pid| runs(*pid));
        if open.is_empty() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// Whether there is such a process, and it is more than an entry that nobody fetched yet.
fn runs(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or("").trim_start();
    // Its first thread may be over before the others are.
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    !state.is_empty() && (threads > 1 || !state.starts_with(['Z', 'X']))
}

/// What anybody on this machine, or its own user, can see of a process.
pub(super) fn shown(pid: i32) -> Vec<u8> {
    let of = |what: &str| std::fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
    [of("cmdline"), of("environ")].concat()
}
