//! Readers of password files: Apache's own program, and nginx.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;

use super::process::Process;
use super::{Program, Result, ServerError, base64, free_port, until};

const TOOL: Program = Program {
    variable: "MESH_TEST_HTPASSWD",
    installed: None,
    on_path: Some("htpasswd"),
};
const NGINX: Program = Program {
    variable: "MESH_TEST_NGINX",
    installed: None,
    on_path: Some("nginx"),
};

/// Runs Apache's `htpasswd`, as a person would. Gives back how it ended: 0 for done, 3 for a password that
/// does not fit, 6 for a login that is not there.
pub async fn htpasswd(args: &[&str]) -> Result<i32> {
    let output = Command::new(TOOL.find("Apache's htpasswd")?)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .await?;
    match output.status.code() {
        Some(code @ (0 | 3 | 6)) => Ok(code),
        _ => {
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(ServerError::new(format!("htpasswd: {told}")))
        }
    }
}

/// An nginx that lets in whom a file names.
pub struct NginxServer {
    port: u16,
    _folder: TempDir,
    _process: Process,
}

impl NginxServer {
    /// Starts one on a file, and waits until it answers.
    pub async fn start(file: &Path) -> Result<Self> {
        let program = NGINX.find("nginx")?;
        let (port, folder) = (free_port()?, tempfile::tempdir()?);
        let at = folder.path().display().to_string();
        std::fs::create_dir(folder.path().join("site"))?;
        std::fs::write(folder.path().join("site/index.html"), "in")?;
        let config = folder.path().join("nginx.conf");
        std::fs::write(&config, configuration(&at, port, file))?;
        let args = ["-p", &at, "-c", &config.display().to_string()].map(str::to_owned);
        let mut process = Process::start(&program, &args, &folder.path().join("log"))?;
        until("an answer of nginx", Duration::from_secs(20), || {
            let ended = process.ended();
            let log = process.log();
            async move {
                if let Some(how) = ended {
                    return Err(format!("it ended ({how}): {log}"));
                }
                let answer = ask(port, None).await;
                answer.map(|_| ()).map_err(|error| error.to_string())
            }
        })
        .await?;
        Ok(Self {
            port,
            _folder: folder,
            _process: process,
        })
    }

    /// The status of a request with these: 200, or 401.
    pub async fn status(&self, login: &str, password: &str) -> Result<u16> {
        ask(self.port, Some((login, password))).await
    }
}

fn configuration(at: &str, port: u16, file: &Path) -> String {
    let user = match rustix::process::getuid().is_root() {
        true => "user root;",
        false => "",
    };
    let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let scratch = kinds
        .map(|kind| format!("{kind}_temp_path {at}/{kind};"))
        .concat();
    format!(
        "daemon off; master_process off; {user} pid {at}/pid; error_log {at}/log info; \
         events {{ worker_connections 64; }} \
         http {{ access_log off; {scratch} \
           server {{ listen 127.0.0.1:{port}; root {at}/site; \
             auth_basic closed; auth_basic_user_file {}; }} }}",
        file.display()
    )
}

async fn ask(port: u16, who: Option<(&str, &str)>) -> Result<u16> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let login = who.map(|(login, password)| {
        let both = base64(format!("{login}:{password}").as_bytes());
        format!("Authorization: Basic {both}\r\n")
    });
    let request = format!(
        "GET / HTTP/1.0\r\nHost: localhost\r\n{}\r\n",
        login.unwrap_or_default()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok());
    status.ok_or_else(|| ServerError::new(format!("no status: {answer}")))
}
