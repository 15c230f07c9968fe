//! Dovecot as an IMAP server of its own, under one user and in one folder, and the plainest client for it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::timeout;

use super::process::Process;
use super::{Program, Result, ServerError, base64, free_port, until};

const DOVECOT: Program = Program {
    variable: "MESH_TEST_DOVECOT",
    installed: None,
    on_path: Some("dovecot"),
};
const DOVEADM: Program = Program {
    variable: "MESH_TEST_DOVEADM",
    installed: None,
    on_path: Some("doveadm"),
};
/// As root it becomes this user, whom Debian's package makes.
const USER: &str = "dovecot";
const WAIT: Duration = Duration::from_secs(20);

/// How to start it.
#[derive(Debug, Clone, Default)]
pub struct DovecotOptions {
    /// Take any name of a login, as it is written. By itself Dovecot takes `a-z0-9.-_@` and makes letters small.
    pub any_login: bool,
    /// Keep answers of its user databases, up to a mebibyte.
    pub cache: bool,
}

/// A running server.
pub struct DovecotServer {
    port: u16,
    folder: TempDir,
    process: Process,
    /// The second of the last login, and what its file looked like then.
    looked: Mutex<(i64, Stamp)>,
}

/// A file's number, time of change and size.
type Stamp = Option<(u64, i64, i64, u64)>;

/// A password as Dovecot's own program hashes it: `{BLF-CRYPT}…`.
pub async fn dovecot_hash(password: &str) -> Result<String> {
    let output = Command::new(DOVEADM.find("Dovecot's doveadm")?)
        .args(["pw", "-s", "BLF-CRYPT", "-r", "5", "-p", password])
        .stdin(Stdio::null())
        .output()
        .await?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(ServerError::new(String::from_utf8_lossy(&output.stderr))),
    }
}

impl DovecotServer {
    /// Starts one and waits until it greets. Its file of logins is there, and empty.
    pub async fn start(options: DovecotOptions) -> Result<Self> {
        let program = DOVECOT.find("Dovecot")?;
        let (port, folder) = (free_port()?, tempfile::tempdir()?);
        let who = Who::find()?;
        std::fs::create_dir_all(folder.path().join("etc"))?;
        let at = folder.path().to_owned();
        std::fs::write(file_in(&at), "")?;
        let config = at.join("dovecot.conf");
        std::fs::write(&config, configuration(&at, port, &who, &options))?;
        if who.is_other {
            for path in [&at, &at.join("etc"), &file_in(&at), &config] {
                std::os::unix::fs::chown(path, Some(who.user), Some(who.group))?;
            }
        }
        let args = ["-F", "-c", &config.display().to_string()].map(str::to_owned);
        let user = who.is_other.then_some((who.user, who.group));
        let mut process = Process::start_as(user, &program, &args, &at.join("out"))?;
        until("a greeting of Dovecot", WAIT, || {
            let ended = process.ended();
            let log = process.log();
            async move {
                if let Some(how) = ended {
                    return Err(format!("it ended ({how}): {log}"));
                }
                let greeted = ImapClient::connect(port).await;
                greeted.map(|_| ()).map_err(|error| error.to_string())
            }
        })
        .await?;
        Ok(Self {
            port,
            folder,
            process,
            looked: Mutex::default(),
        })
    }

    /// Logs in; `None` if that was refused. If its file changed since the last login, waits for the second in
    /// which Dovecot looks at it again.
    pub async fn log_in(&self, login: &str, password: &str) -> Result<Option<ImapClient>> {
        let poisoned = |_| ServerError::new("poisoned");
        let (last, stamp) = *self.looked.lock().map_err(poisoned)?;
        if stamp != stamp_of(&self.file()) {
            until("the next second", WAIT, || {
                let now = second(self.folder.path()).unwrap_or(last);
                async move { (now > last).then_some(()).ok_or("the same".to_owned()) }
            })
            .await?;
        }
        let stamp = stamp_of(&self.file());
        let client = ImapClient::log_in(self.port, login, password).await;
        *self.looked.lock().map_err(poisoned)? = (second(self.folder.path())?, stamp);
        client
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }
    /// The folder of its file of logins, with nothing else in it.
    pub fn folder(&self) -> PathBuf {
        self.folder.path().join("etc")
    }
    /// Its file of logins, for passwords and for users.
    pub fn file(&self) -> PathBuf {
        file_in(self.folder.path())
    }
    /// All that it wrote to its log.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.folder.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for DovecotServer {
    fn drop(&mut self) {
        // It takes its children with it only when it is asked to end.
        self.process.finish(rustix::process::Signal::TERM);
    }
}

/// The machine's second, by which Dovecot goes, as a file that is written now has it.
fn second(folder: &Path) -> Result<i64> {
    let file = folder.join("second");
    std::fs::write(&file, "now")?;
    Ok(std::fs::metadata(&file)?.mtime())
}

fn stamp_of(file: &Path) -> Stamp {
    let data = std::fs::metadata(file).ok()?;
    Some((data.ino(), data.ctime(), data.ctime_nsec(), data.size()))
}

fn file_in(folder: &Path) -> PathBuf {
    folder.join("etc/users")
}

/// Whom it runs as: it refuses to give root's mail to anybody.
struct Who {
    name: String,
    group_name: String,
    user: u32,
    group: u32,
    is_other: bool,
}

impl Who {
    fn find() -> Result<Self> {
        let is_other = rustix::process::getuid().is_root();
        let (passwd, groups) = (
            std::fs::read_to_string("/etc/passwd")?,
            std::fs::read_to_string("/etc/group")?,
        );
        let own = rustix::process::getuid().as_raw().to_string();
        let of = |line: &&str| {
            let mut fields = line.split(':');
            match is_other {
                true => fields.next() == Some(USER),
                false => fields.nth(2) == Some(own.as_str()),
            }
        };
        let missing = || ServerError::new("no user for Dovecot in /etc/passwd: run `scripts/test`");
        let fields: Vec<&str> = passwd
            .lines()
            .find(of)
            .map(|line| line.split(':').collect())
            .ok_or_else(missing)?;
        let number = |at: usize| fields.get(at).and_then(|text| text.parse().ok());
        let (user, group): (u32, u32) = number(2).zip(number(3)).ok_or_else(missing)?;
        let in_group = |line: &&str| line.split(':').nth(2) == Some(group.to_string().as_str());
        let group_name = groups
            .lines()
            .find(in_group)
            .and_then(|line| line.split(':').next());
        Ok(Self {
            name: fields[0].to_owned(),
            group_name: group_name.ok_or_else(missing)?.to_owned(),
            user,
            group,
            is_other,
        })
    }
}

/// As <https://doc.dovecot.org/2.3/configuration_manual/howto/rootless/> has it: nothing changes its root, and
/// all is one user's. Failures are not delayed, and cost nobody anything later.
fn configuration(at: &Path, port: u16, who: &Who, options: &DovecotOptions) -> String {
    let at = at.display();
    let names = match options.any_login {
        true => "auth_username_chars =\nauth_username_format = %u\n",
        false => "",
    };
    let cache = match options.cache {
        true => "auth_cache_size = 1M\n",
        false => "",
    };
    let Who {
        name,
        group_name,
        user,
        group,
        ..
    } = who;
    format!(
        "base_dir = {at}/run\nstate_dir = {at}/run\nlog_path = {at}/log\nprotocols = imap\n\
         listen = 127.0.0.1\nssl = no\ndisable_plaintext_auth = no\nauth_verbose = yes\n\
         auth_failure_delay = 0\nfirst_valid_uid = 1\nmail_location = maildir:{at}/mail\n\
         default_internal_user = {name}\ndefault_internal_group = {group_name}\n\
         default_login_user = {name}\n{names}{cache}\
         passdb {{\n  driver = passwd-file\n  args = {at}/etc/users\n}}\n\
         userdb {{\n  driver = passwd-file\n  args = {at}/etc/users\n  \
           default_fields = uid={user} gid={group} home={at}/home\n}}\n\
         service anvil {{\n  chroot =\n  unix_listener anvil-auth-penalty {{\n    mode = 0\n  }}\n}}\n\
         service imap-login {{\n  chroot =\n  inet_listener imap {{\n    port = {port}\n  }}\n  \
           inet_listener imaps {{\n    port = 0\n  }}\n}}\n"
    )
}

/// An IMAP client that logs in and stays.
pub struct ImapClient {
    stream: BufStream<TcpStream>,
}

impl ImapClient {
    async fn connect(port: u16) -> Result<Self> {
        let mut client = Self {
            stream: BufStream::new(TcpStream::connect(("127.0.0.1", port)).await?),
        };
        match client.line().await? {
            greeting if greeting.starts_with("* OK") => Ok(client),
            other => Err(ServerError::new(format!("a greeting: {other}"))),
        }
    }

    /// Logs in; `None` if that was refused.
    pub async fn log_in(port: u16, login: &str, password: &str) -> Result<Option<Self>> {
        let mut client = Self::connect(port).await?;
        let both = base64(format!("\0{login}\0{password}").as_bytes());
        let told = client.say("AUTHENTICATE PLAIN ", &both).await?;
        match told.as_str() {
            // The second answer comes from the process that has the mail.
            _ if told.starts_with("a OK") => match client.is_alive().await {
                true => Ok(Some(client)),
                false => Err(ServerError::new("let in, and then dropped: see its log")),
            },
            _ if told.starts_with("a NO [AUTHENTICATIONFAILED]") => Ok(None),
            _ if told.starts_with("a NO [CONTACTADMIN]") => Ok(None),
            _ => Err(ServerError::new(format!("logging in: {told}"))),
        }
    }

    /// Whether the server still serves it.
    pub async fn is_alive(&mut self) -> bool {
        let told = self.say("NOOP", "").await;
        told.is_ok_and(|told| told.starts_with("a OK"))
    }

    /// Says a command, and gives the line that ends its answer.
    async fn say(&mut self, command: &str, more: &str) -> Result<String> {
        let line = format!("a {command}{more}\r\n");
        self.stream.write_all(line.as_bytes()).await?;
        self.stream.flush().await?;
        loop {
            let line = self.line().await?;
            if line.starts_with("a ") {
                return Ok(line);
            }
        }
    }

    async fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        let read = timeout(WAIT, self.stream.read_line(&mut line)).await;
        match read.map_err(|_| ServerError::new("no line within 20 s"))?? {
            0 => Err(ServerError::new("it hung up")),
            _ => Ok(line),
        }
    }
}
