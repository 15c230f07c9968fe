//! A folder with a manifest, and the built program run on it.

use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::redis::Redis;
use crate::wait::{rest, until};

/// The longest that a command may take.
const PATIENCE: Duration = Duration::from_secs(90);

/// A folder of its own.
pub(crate) struct Lab {
    folder: TempDir,
    variables: Vec<(String, String)>,
}

/// What a command came to.
#[derive(Debug, Clone)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// The answer of a `--json` command.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("no JSON ({e}): {self:#?}"))
    }
    /// Every line of a `--json` command that answers many.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        let all = serde_json::Deserializer::from_str(&self.out).into_iter::<Value>();
        all.collect::<Result<_, _>>()
            .unwrap_or_else(|e| panic!("no JSON ({e}): {self:#?}"))
    }
    /// That it ended so.
    #[track_caller]
    pub(crate) fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }
    /// That a text stands in its answer.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(self.out.contains(text), "no `{text}` in {self:#?}");
        self
    }
    /// That a text stands in what it says beside the answer.
    #[track_caller]
    pub(crate) fn warns(self, text: &str) -> Self {
        assert!(self.err.contains(text), "no `{text}` in {self:#?}");
        self
    }
}

impl Lab {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().expect("folder");
        Self {
            folder,
            variables: Vec::new(),
        }
    }
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
    pub(crate) fn data(&self) -> PathBuf {
        self.path().join("mesh-data")
    }
    /// Sets a variable for every command.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }
    /// Writes a file of the folder.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    }
    /// Writes the manifest, whole: never half of it is there.
    pub(crate) fn manifest(&self, text: &str) {
        let new = self.write("mesh.toml.new", text);
        std::fs::rename(new, self.path().join("mesh.toml")).expect("renamed");
    }
    /// The manifest of one Redis named `cache`, with these lines in its table, and these consumers, each
    /// with the keys of its name.
    pub(crate) fn cache<'c>(
        &self,
        redis: &Redis,
        lines: &str,
        consumers: impl IntoIterator<Item = &'c str>,
    ) {
        self.manifest(&cache(redis, lines, consumers));
    }

    /// A command on this folder, not started yet.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mesh"));
        command
            .args(args)
            .current_dir(self.path())
            .env_clear()
            .envs(self.variables.iter().map(|(n, v)| (n, v)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
    /// Runs a command to its end.
    #[track_caller]
    pub(crate) fn mesh(&self, args: &[&str]) -> Ran {
        run(self.command(args))
    }
    /// `status --json`, whatever it ends with.
    #[track_caller]
    pub(crate) fn status(&self) -> Value {
        self.mesh(&["status", "--json"]).json()
    }
    /// The states of all provisions: `web=held`.
    pub(crate) fn states(&self) -> Vec<String> {
        let ran = self.mesh(&["status", "--json"]);
        if ran.out.is_empty() {
            return vec![format!("no status: {}", ran.err)];
        }
        states(&ran.json())
    }
    /// A consumer's password, as `credentials` shows it.
    #[track_caller]
    pub(crate) fn password(&self, consumer: &str, provider: &str) -> String {
        let ran = self.mesh(&["credentials", consumer, provider, "--json"]);
        let json = ran.clone().ends(0).json();
        json["password"].as_str().expect("password").to_owned()
    }
    /// The kinds of events about a consumer or provider, oldest first.
    pub(crate) fn events(&self, about: &str) -> Vec<String> {
        let ran = self.mesh(&["events", about, "--json", "--limit", "1000"]);
        let lines = ran.ends(0).json_lines();
        let kind = |line: &Value| line["kind"].as_str().expect("kind").to_owned();
        lines.iter().map(kind).collect()
    }
    /// Standing conditions: `Braked cache/web`.
    pub(crate) fn conditions(&self) -> Vec<String> {
        let ran = self.mesh(&["conditions", "--json"]);
        if ran.code != 0 {
            return vec![format!("none told: {}", ran.err)];
        }
        let json = ran.json();
        let standing = json["standing"].as_array().expect("standing");
        let name = |c: &Value| {
            format!(
                "{} {}",
                c["type"].as_str().unwrap_or("?"),
                c["subject"].as_str().unwrap_or("?")
            )
        };
        standing.iter().map(name).collect()
    }
    /// Lets exactly those go that are shown as leaving a provider now.
    #[track_caller]
    pub(crate) fn approve(&self, provider: &str) -> Ran {
        let set = self.removal_set(provider);
        self.mesh(&["approve", "removals", provider, "--set", &set])
    }
    /// The name of the set that is leaving a provider.
    #[track_caller]
    pub(crate) fn removal_set(&self, provider: &str) -> String {
        let status = self.status();
        let sets = status["removals"].as_array().expect("removals");
        let of = sets.iter().find(|set| set["provider"] == provider);
        let set = of.and_then(|set| set["set"].as_str());
        set.unwrap_or_else(|| panic!("nothing leaves: {status:#}"))
            .to_owned()
    }
    /// Starts `mesh up`.
    pub(crate) fn up(&self, args: &[&str]) -> Up {
        let mut all = vec!["up"];
        all.extend(args);
        let up = Up::of(self.command(&all));
        up.says("up");
        up
    }
}

/// The states of a picture's provisions: `web=held`, or `cache/web=held` where there are several providers.
pub(crate) fn states(picture: &Value) -> Vec<String> {
    let provisions = picture["provisions"].as_array().expect("provisions");
    let one = |p: &Value| {
        format!(
            "{}={}",
            p["consumer"].as_str().unwrap_or("?"),
            p["state"].as_str().unwrap_or("?")
        )
    };
    provisions.iter().map(one).collect()
}

/// The text of a manifest with one Redis named `cache`.
pub(crate) fn cache<'c>(
    redis: &Redis,
    lines: &str,
    consumers: impl IntoIterator<Item = &'c str>,
) -> String {
    let mut text = format!(
        "[mesh]\nid = \"home\"\n\n[provider.cache]\nkind = \"redis\"\nurl = \"{}\"\n{lines}\n",
        redis.url()
    );
    for name in consumers {
        need(&mut text, name, "cache", "");
    }
    text
}

/// Adds a `needs` table.
pub(crate) fn need(text: &mut String, consumer: &str, provider: &str, lines: &str) {
    write!(
        text,
        "\n[consumer.{consumer}.needs.{provider}]\nkeys = [\"{consumer}:*\"]\n\
         commands = [\"+@read\", \"+@write\"]\n{lines}\n"
    )
    .expect("text");
}

/// Reads a stream to its end, on a thread of its own.
fn drain(mut from: impl Read + Send + 'static) -> (Arc<Mutex<Vec<u8>>>, JoinHandle<()>) {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let to = Arc::clone(&kept);
    let thread = std::thread::spawn(move || {
        let mut bytes = [0; 8192];
        while let Ok(n) = from.read(&mut bytes) {
            if n == 0 {
                break;
            }
            to.lock().expect("kept").extend_from_slice(&bytes[..n]);
        }
    });
    (kept, thread)
}

fn text(kept: &Mutex<Vec<u8>>) -> String {
    String::from_utf8_lossy(&kept.lock().expect("kept")).into_owned()
}

/// Runs a command to its end, or kills it when it takes too long.
#[track_caller]
pub(crate) fn run(command: Command) -> Ran {
    let mut running = Up::of(command);
    running.ends(PATIENCE)
}

/// A running `mesh`. It is killed when this is dropped.
pub(crate) struct Up {
    child: Child,
    out: Arc<Mutex<Vec<u8>>>,
    err: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
}

impl Up {
    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command.spawn().expect("mesh runs");
        let (out, a) = drain(child.stdout.take().expect("stdout"));
        let (err, b) = drain(child.stderr.take().expect("stderr"));
        Self {
            child,
            out,
            err,
            readers: vec![a, b],
        }
    }
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
    /// What it logged so far.
    pub(crate) fn log(&self) -> String {
        text(&self.err)
    }
    /// What it answered so far.
    pub(crate) fn out(&self) -> String {
        text(&self.out)
    }
    /// Waits for a text in its log.
    pub(crate) fn says(&self, what: &str) {
        until(&format!("the log says `{what}`"), 30, || {
            let log = self.log();
            if log.contains(what) { Ok(()) } else { Err(log) }
        });
    }
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("signal");
    }
    /// SIGSTOP, and waits until each of its threads stands still.
    pub(crate) fn halt(&self) {
        self.signal(Signal::STOP);
        let tasks = format!("/proc/{}/task", self.child.id());
        until("it stands still", 10, || {
            let tasks = std::fs::read_dir(&tasks).into_iter().flatten().flatten();
            let stats = tasks.filter_map(|t| std::fs::read_to_string(t.path().join("stat")).ok());
            let still = |stat: &String| {
                let rest = stat.rsplit_once(") ");
                rest.is_some_and(|(_, rest)| rest.starts_with('T'))
            };
            match stats.filter(|stat| !still(stat)).count() {
                0 => Ok(()),
                running => Err(running),
            }
        });
    }
    /// SIGTERM, and how it ended.
    #[track_caller]
    pub(crate) fn stop(&mut self) -> Ran {
        self.signal(Signal::TERM);
        self.ends(Duration::from_secs(20))
    }
    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
    pub(crate) fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("wait")
    }
    /// Waits for its end.
    #[track_caller]
    pub(crate) fn ends(&mut self, patience: Duration) -> Ran {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.has_ended() {
                break status;
            }
            if began.elapsed() > patience {
                self.kill();
                let (out, err) = (text(&self.out), text(&self.err));
                panic!("it did not end within {patience:?}\n── out\n{out}\n── err\n{err}");
            }
            rest();
        };
        for reader in self.readers.drain(..) {
            reader.join().expect("read");
        }
        Ran {
            code: status.code().unwrap_or(-1),
            out: text(&self.out),
            err: text(&self.err),
        }
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        self.kill();
    }
}
