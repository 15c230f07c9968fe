//! One Ansible play over 20 PostgreSQL and 20 MariaDB users, beside `mesh apply` on the same servers.

use super::bulk::{Pair, USERS};
use super::page::{Row, Target, told};
use super::runs::Bench;
use super::stopwatch::timed;
use super::subject::Subject;
use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// What is put into an environment of its own under `.servers`; some 600 MB.
const PACKAGES: [&str; 3] = ["ansible==12.*", "psycopg2-binary", "PyMySQL"];
/// Two users each: one on either server.
const ITEMS: usize = 2 * USERS;

/// Both, to make and to find nothing to change.
pub(super) fn all(bench: &Bench<'_>, root: &Path) -> Result<Vec<Row>> {
    let player = player(root, bench)?;
    let folder = bench.folder.join("ansible");
    let pair = Pair::start(root, &folder)?;
    let here = folder.join("program");
    fs::create_dir_all(&here)?;
    let (manifest, password) = pair.manifest()?;
    fs::write(here.join("admin.password"), password)?;
    let subject = Subject::with(bench.mesh, &here, &manifest)?;
    let play = Play {
        player,
        folder: here,
    };
    play.write(&pair)?;
    (bench.say)(&format!("Ansible, {USERS} users each on {}", pair.title()));

    let made = subject.run(&["apply"])?.all;
    let (mut again, mut nothing) = (Vec::new(), Vec::new());
    for _ in 0..bench.passes {
        again.push(subject.run(&["apply"])?.all);
    }
    pair.clear()?;
    let (theirs, changed) = play.run()?;
    ensure!(changed, "the play made nothing");
    nothing.push(play.nothing()?);
    if bench.passes > 2 {
        nothing.push(play.nothing()?);
        nothing.push(play.nothing()?);
    }
    let again = super::stopwatch::median(&again);
    let nothing = super::stopwatch::median(&nothing);
    let rows = [
        row("making all", &pair, made, theirs),
        row("finding nothing to change", &pair, again, nothing),
    ];
    for row in &rows {
        (bench.say)(&format!("  {}", row.line()));
    }
    Ok(rows.into())
}

fn row(what: &str, pair: &Pair, ours: Duration, theirs: Duration) -> Row {
    let each = |time: Duration| told(time / ITEMS as u32);
    let note = format!(
        "whole processes; {} for each user beside {}",
        each(ours),
        each(theirs)
    );
    Row {
        what: what.to_owned(),
        on: pair.title(),
        ours,
        raw: Some(theirs),
        target: Target::Faster(100.0),
        note,
    }
}

/// Ansible's player, which is installed the first time.
fn player(root: &Path, bench: &Bench<'_>) -> Result<PathBuf> {
    let place = root.join(".servers/ansible/venv");
    let player = place.join("bin/ansible-playbook");
    if !player.is_file() {
        (bench.say)("Ansible is put into .servers/ansible, which takes some minutes");
        let made = Command::new("python3")
            .args(["-m", "venv"])
            .arg(&place)
            .status()?;
        ensure!(made.success(), "python3 makes no environment");
        let fetched = Command::new(place.join("bin/pip"))
            .args(["install", "--quiet", "--disable-pip-version-check"])
            .args(PACKAGES)
            .status()?;
        ensure!(fetched.success(), "pip does not install Ansible");
    }
    Ok(player)
}

struct Play {
    player: PathBuf,
    folder: PathBuf,
}

impl Play {
    fn write(&self, pair: &Pair) -> Result<()> {
        let mut text = String::from(
            "- hosts: localhost\n  connection: local\n  gather_facts: false\n  tasks:\n",
        );
        for (module, settings, item) in pair.tasks() {
            writeln!(text, "    - {module}:").context("a play")?;
            for (name, value) in settings {
                writeln!(text, "        {name}: \"{value}\"").context("a play")?;
            }
            writeln!(text, "      loop: \"{{{{ range(0, {USERS}) | list }}}}\"")
                .context("a play")?;
            writeln!(text, "      loop_control: {{ label: \"{item}\" }}").context("a play")?;
        }
        Ok(fs::write(self.folder.join("play.yml"), text)?)
    }

    /// Plays it: how long it took, and whether it changed anything.
    fn run(&self) -> Result<(Duration, bool)> {
        let python = self.player.with_file_name("python");
        let mut command = Command::new(&self.player);
        command
            .args(["-i", "localhost,", "play.yml", "-e"])
            .arg(format!("ansible_python_interpreter={}", python.display()))
            .current_dir(&self.folder)
            // What makes it fastest on one machine.
            .env("ANSIBLE_PIPELINING", "True")
            .env("ANSIBLE_HOME", self.folder.join("home"))
            .env("ANSIBLE_NOCOLOR", "1")
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null());
        let (output, took) = timed(|| command.output());
        let output = output?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(output.status.success(), "the play failed: {said}");
        Ok((took, !said.contains("changed=0")))
    }

    fn nothing(&self) -> Result<Duration> {
        let (took, changed) = self.run()?;
        ensure!(!changed, "the play changed something again");
        Ok(took)
    }
}
