//! The package on a bare Debian, booted with its own systemd: installed, first heal, upgraded, removed, purged.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mesh_conformance::servers::{Flavor, Options, RedisServer};
use tempfile::TempDir;

const ADMIN: &str = "the-admins-own-password";

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a command that must succeed; answers what it said.
#[track_caller]
fn ran(command: &mut Command) -> String {
    let output = command.output().expect("it can be started");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

/// `scripts/release` on the program under test, as this version.
fn release(version: &str, out: &Path) {
    ran(Command::new(workspace().join("scripts/release"))
        .args(["--binary", env!("CARGO_BIN_EXE_mesh"), "--version", version])
        .args(["--compress", "none", "--out"])
        .arg(out));
}

/// The .deb of a release.
fn deb(folder: &Path) -> PathBuf {
    let files = fs::read_dir(folder).expect("the folder").flatten();
    let mut debs = files
        .map(|f| f.path())
        .filter(|p| p.extension().is_some_and(|e| e == "deb"));
    debs.next().expect("a .deb")
}

/// A Debian of its own, as `scripts/test` fetched it, with a unit that tells the story.
fn bare_root(folder: &Path, port: u16) -> PathBuf {
    let archive = workspace().join(".servers/bare-root.tar");
    assert!(
        archive.is_file(),
        "no bare Debian: run `scripts/test`, which fetches it"
    );
    let root = folder.join("root");
    fs::create_dir(&root).expect("root");
    ran(Command::new("tar")
        .arg("-xf")
        .arg(archive)
        .args(["--exclude=./dev/*", "-C"])
        .arg(&root));
    let units = root.join("etc/systemd/system");
    fs::write(
        units.join("story.target"),
        "[Unit]\nRequires=basic.target story.service\nAfter=basic.target\n",
    )
    .expect("target");
    fs::write(
        units.join("story.service"),
        format!(
            "[Unit]\nAfter=basic.target\nSuccessAction=exit-force\nFailureAction=exit-force\n\
             [Service]\nType=oneshot\nTimeoutStartSec=450\n\
             ExecStart=/bin/bash /story.sh {port}\nStandardOutput=file:/story.out\nStandardError=inherit\n"
        ),
    )
    .expect("unit");
    fs::write(root.join("story.sh"), include_str!("story.sh")).expect("story");
    fs::write(root.join("admin.password"), ADMIN).expect("password");
    root
}

#[tokio::test]
async fn the_package_is_installed_heals_is_upgraded_removed_and_purged() {
    let folder = TempDir::new().expect("folder");
    let options = Options {
        requirepass: Some(ADMIN.to_owned()),
        ..Options::default()
    };
    let redis = RedisServer::start(Flavor::Redis7, options)
        .await
        .expect("redis");
    let root = bare_root(folder.path(), redis.port());
    for (version, name) in [("0.1.0~1", "one"), ("0.1.0~2", "two")] {
        let out = folder.path().join(name);
        release(version, &out);
        fs::rename(deb(&out), root.join(format!("{name}.deb"))).expect("moved");
        fs::write(root.join(format!("{name}.version")), version).expect("version");
    }
    let boot = folder.path().join("boot.sh");
    fs::write(&boot, include_str!("boot.sh")).expect("boot");
    let booted = Command::new("timeout")
        .args([
            "--signal=KILL",
            "500",
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--cgroup",
            "--ipc",
            "--uts",
            "sh",
        ])
        .arg(&boot)
        .arg(&root)
        .stdin(Stdio::null())
        .output()
        .expect("unshare");
    let told = fs::read_to_string(root.join("story.out")).unwrap_or_default();
    assert!(told.ends_with("== THE END\n"), "{told}\n{booted:#?}");
}

/// What is in a release's list of sums.
fn sums(folder: &Path) -> String {
    let files = fs::read_dir(folder).expect("the folder").flatten();
    let mut lists = files
        .map(|f| f.path())
        .filter(|p| p.extension().is_some_and(|e| e == "sha256"));
    fs::read_to_string(lists.next().expect("a list")).expect("read")
}

#[test]
fn a_release_made_twice_is_the_same_to_the_byte() {
    let folder = TempDir::new().expect("folder");
    let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
    release("1.2.3", &one);
    release("1.2.3", &two);
    assert_eq!(sums(&one), sums(&two));
    assert_eq!(sums(&one).lines().count(), 2);
    ran(Command::new("sha256sum")
        .args(["--check", "meshkeeper-1.2.3.sha256"])
        .current_dir(&one));
    let inside = ran(Command::new("tar")
        .arg("-tf")
        .arg(one.join("meshkeeper-1.2.3-linux-amd64.tar")));
    for file in [
        "bin/mesh",
        "share/man/man1/mesh.1",
        "share/doc/meshkeeper/LICENSE-MIT",
    ] {
        assert!(
            inside.contains(&format!("meshkeeper-1.2.3-linux-amd64/{file}\n")),
            "{inside}"
        );
    }
}
