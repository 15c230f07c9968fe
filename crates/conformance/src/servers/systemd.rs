//! A systemd of one test: a user's manager with an own folder of units, in namespaces of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::process::Process;
use super::{Program, Result};

const SYSTEMD: Program = Program {
    variable: "MESH_TEST_SYSTEMD",
    installed: None,
    on_path: Some("../lib/systemd/systemd"),
};
/// Where hierarchies of control groups are mounted, by all of systemd's ways.
const HIERARCHIES: [&str; 3] = [
    "/sys/fs/cgroup",
    "/sys/fs/cgroup/systemd",
    "/sys/fs/cgroup/unified",
];

/// Two managers in one control group end each other's units: this one has its own. Processes are not in a namespace of
/// their own: a manager does not answer to whom it cannot see.
const INIT: &str = "group=$1; shift; for at in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do \
    if [ -f $at/cgroup.procs ]; then mkdir -p $at/$group && echo $$ > $at/$group/cgroup.procs || exit 1; fi; done; \
    mount -t tmpfs none /run && mkdir -p /run/systemd/system && exec \"$@\"";

/// A running manager.
pub struct SystemdManager {
    folder: TempDir,
    group: String,
    process: Option<Process>,
}

impl SystemdManager {
    /// Starts one that has these units: names and texts. Nothing of them is started.
    pub async fn start(units: &[(&str, &str)]) -> Result<Self> {
        let program = SYSTEMD.find("systemd")?;
        let folder = tempfile::tempdir()?;
        let at = |name: &str| folder.path().join(name);
        let place = at("config/systemd/user");
        fs::create_dir_all(&place)?;
        fs::create_dir(at("run"))?;
        fs::write(
            place.join("idle.target"),
            "[Unit]\nDefaultDependencies=no\n",
        )?;
        for (name, text) in units {
            fs::write(place.join(name), text)?;
        }
        let inner = folder.path().file_name().unwrap_or_default();
        let group = format!(
            "mesh-test-{}",
            inner.to_string_lossy().trim_start_matches('.')
        );
        let shown = |name: &str| at(name).display().to_string();
        let args = ["--mount", "sh", "-c", INIT, "sh", &group, "env"];
        let mut args: Vec<String> = args.map(str::to_owned).to_vec();
        args.extend([
            format!("HOME={}", folder.path().display()),
            format!("XDG_RUNTIME_DIR={}", shown("run")),
            format!("XDG_CONFIG_HOME={}", shown("config")),
            program.display().to_string(),
            "--user".to_owned(),
            "--unit=idle.target".to_owned(),
        ]);
        let mut process = Process::start(Path::new("unshare"), &args, &at("out"))?;
        process
            .listens("systemd", &at("run/systemd/private"))
            .await?;
        Ok(Self {
            folder,
            group,
            process: Some(process),
        })
    }
    /// What `XDG_RUNTIME_DIR` is for who speaks with it.
    pub fn runtime(&self) -> PathBuf {
        self.folder.path().join("run")
    }
}

impl Drop for SystemdManager {
    #[allow(clippy::disallowed_methods, reason = "a drop cannot wait otherwise")]
    fn drop(&mut self) {
        self.process.take();
        // What it started is in its groups, and ends with them.
        for _ in 0..200 {
            let mut left = false;
            for at in HIERARCHIES {
                let group = Path::new(at).join(&self.group);
                left |= group.exists() && end(&group).is_err();
            }
            if !left {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Ends everything in a control group and in those in it, and removes them. Errors: something has not ended yet.
fn end(group: &Path) -> std::io::Result<()> {
    for pid in fs::read_to_string(group.join("cgroup.procs"))?.lines() {
        if let Some(pid) = pid.parse().ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    for inner in fs::read_dir(group)? {
        let inner = inner?;
        if inner.file_type()?.is_dir() {
            end(&inner.path())?;
        }
    }
    fs::remove_dir(group)
}
