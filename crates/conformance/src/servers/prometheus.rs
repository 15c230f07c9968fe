//! Prometheus, as Debian has it: it scrapes, evaluates rules and answers queries; and its tool, which judges.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::http::http;
use super::process::Process;
use super::{Program, Result, ServerError, free_port, until};

const SERVER: Program = Program {
    variable: "MESH_TEST_PROMETHEUS",
    installed: None,
    on_path: Some("prometheus"),
};
const TOOL: Program = Program {
    variable: "MESH_TEST_PROMTOOL",
    installed: None,
    on_path: Some("promtool"),
};

/// Runs `promtool` with this on its standard input. Gives back whether it was content, and all that it said.
pub async fn promtool(args: &[&str], input: &str) -> Result<(bool, String)> {
    let mut child = Command::new(TOOL.find("Prometheus' promtool")?)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).await?;
    }
    let output = child.wait_with_output().await?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    Ok((output.status.success(), said))
}

/// A server that scrapes one address each second, and evaluates one file of rules as often.
pub struct PrometheusServer {
    port: u16,
    _folder: TempDir,
    _process: Process,
}

impl PrometheusServer {
    /// Starts one, and waits until it is ready. `target`: a port of this machine.
    pub async fn start(target: u16, rules: &Path) -> Result<Self> {
        let program = SERVER.find("Prometheus")?;
        let (port, folder) = (free_port()?, tempfile::tempdir()?);
        let config = folder.path().join("prometheus.yml");
        std::fs::write(&config, configuration(target, rules))?;
        let args = [
            format!("--config.file={}", config.display()),
            format!(
                "--storage.tsdb.path={}",
                folder.path().join("tsdb").display()
            ),
            format!("--web.listen-address=127.0.0.1:{port}"),
        ];
        let mut process = Process::start(&program, &args, &folder.path().join("log"))?;
        until("Prometheus to be ready", Duration::from_secs(60), || {
            let (ended, log) = (process.ended(), process.log());
            async move {
                if let Some(how) = ended {
                    return Err(format!("it ended ({how}): {log}"));
                }
                match http(port, "GET", "/-/ready", &[], "").await {
                    Ok((200, _)) => Ok(()),
                    Ok((status, body)) => Err(format!("{status}: {body}")),
                    Err(error) => Err(error.to_string()),
                }
            }
        })
        .await?;
        Ok(Self {
            port,
            _folder: folder,
            _process: process,
        })
    }

    /// What its API answers, the `data` of it.
    pub async fn api(&self, path: &str) -> Result<Value> {
        let (status, body) = http(self.port, "GET", &format!("/api/v1/{path}"), &[], "").await?;
        let answer: Value = serde_json::from_str(&body)
            .map_err(|error| ServerError::new(format!("{path}: {status}, {error}: {body}")))?;
        match answer["status"].as_str() {
            Some("success") => Ok(answer["data"].clone()),
            _ => Err(ServerError::new(format!("{path}: {answer}"))),
        }
    }
}

fn configuration(target: u16, rules: &Path) -> String {
    format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n\
         rule_files: [{:?}]\n\
         scrape_configs:\n\
         - {{ job_name: mesh, static_configs: [ {{ targets: [\"127.0.0.1:{target}\"] }} ] }}\n",
        rules.display().to_string()
    )
}
