//! Podman as the engine of one test: an own socket, an own store, containers that end with it.
//!
//! It runs as root in namespaces of its own: what it mounts is nobody else's, and the end of its first process is the
//! end of every container. Containers have no control groups and share the machine's network, since neither can be
//! had everywhere; what that leaves out (limits, networks, published ports) is not tested here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tempfile::TempDir;
use tokio::process::Command;

use super::process::Process;
use super::{Program, Result, ServerError};

const PODMAN: Program = Program {
    variable: "MESH_TEST_PODMAN",
    installed: None,
    on_path: Some("podman"),
};
const BUSYBOX: Program = Program {
    variable: "MESH_TEST_BUSYBOX",
    installed: None,
    on_path: Some("busybox"),
};

/// `crun` wants one hierarchy of control groups, whatever the machine has; the tests' engines share no lock and no
/// state. The shell stays, and waits for every orphan.
const INIT: &str = "mount -t tmpfs none /run && mount -t tmpfs none /dev/shm && \
    { umount -l /sys/fs/cgroup 2>/dev/null || true; } && mount -t cgroup2 none /sys/fs/cgroup && \
    { \"$@\" & wait $!; }";

/// The shell inside its images.
const TOOLS: [&str; 7] = ["sh", "sleep", "cat", "echo", "env", "true", "false"];

/// A running engine.
pub struct PodmanServer {
    program: PathBuf,
    folder: TempDir,
    _process: Process,
}

impl PodmanServer {
    /// Starts one and waits until it answers.
    pub async fn start() -> Result<Self> {
        let program = PODMAN.find("Podman")?;
        let folder = tempfile::tempdir()?;
        let at = |name: &str| folder.path().join(name);
        let config = "[containers]\ncgroups = \"disabled\"\nnetns = \"host\"\n\
            default_ulimits = [\"nofile=1024:1024\", \"nproc=1024:1024\"]\n\
            [engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n";
        fs::write(at("containers.conf"), config)?;
        let variable = format!("CONTAINERS_CONF={}", at("containers.conf").display());
        let shown = |name: &str| at(name).display().to_string();
        let namespaces = [
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            "-c",
            INIT,
            "sh",
        ];
        let engine = [
            "env".to_owned(),
            variable,
            program.display().to_string(),
            "--root".to_owned(),
            shown("store"),
            "--runroot".to_owned(),
            shown("run"),
            "--tmpdir".to_owned(),
            shown("tmp"),
            "--storage-driver=vfs".to_owned(),
            "--runtime=crun".to_owned(),
            "system".to_owned(),
            "service".to_owned(),
            "--time=0".to_owned(),
            format!("unix://{}", shown("engine.sock")),
        ];
        let namespaces = namespaces.into_iter().map(str::to_owned);
        let args: Vec<String> = namespaces.chain(engine).collect();
        let mut process = Process::start(Path::new("unshare"), &args, &at("out"))?;
        process.listens("Podman", &at("engine.sock")).await?;
        Ok(Self {
            program,
            folder,
            _process: process,
        })
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("engine.sock")
    }
    /// A command of Podman on this engine; what it prints. Errors: it failed.
    pub async fn run(&self, args: &[&str]) -> Result<String> {
        let output = Command::new(&self.program)
            .args(["--remote", "--url"])
            .arg(format!("unix://{}", self.socket().display()))
            .args(args)
            .env(
                "CONTAINERS_CONF",
                self.folder.path().join("containers.conf"),
            )
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            false => Err(ServerError::new(format!(
                "podman {args:?}: {}",
                String::from_utf8_lossy(&output.stderr)
            ))),
        }
    }
    /// Makes an image with a shell and a file `/release` with this text; an earlier one of the name loses it.
    pub async fn import(&self, name: &str, release: &str) -> Result<()> {
        let root = tempfile::tempdir()?;
        for inner in ["bin", "proc", "dev", "sys", "tmp", "etc", "run"] {
            fs::create_dir(root.path().join(inner))?;
        }
        fs::copy(
            BUSYBOX.find("a static busybox")?,
            root.path().join("bin/busybox"),
        )?;
        for tool in TOOLS {
            std::os::unix::fs::symlink("busybox", root.path().join("bin").join(tool))?;
        }
        fs::write(root.path().join("release"), release)?;
        let tar = self.folder.path().join("image.tar");
        let packed = Command::new("tar")
            .arg("-cf")
            .arg(&tar)
            .arg("-C")
            .arg(root.path())
            .arg(".")
            .status()
            .await?;
        if !packed.success() {
            return Err(ServerError::new("tar failed"));
        }
        self.run(&["import", &tar.display().to_string(), name])
            .await
            .map(drop)
    }
}
