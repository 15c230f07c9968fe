//! How an agent's words reach the mesh: options that stand for a manifest.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

/// For `tasks`, `task` and `agent`.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Without a data folder")]
#[command(group = ArgGroup::new("login").args(["creds", "nkey", "user"]).requires("service"))]
#[command(group = ArgGroup::new("secret").args(["password_file", "password_env"]).requires("user"))]
pub struct ReachArgs {
    /// Ask a `mesh up` through its socket: tasks.sock in its data folder
    #[arg(long, value_name = "PATH", conflicts_with = "service")]
    pub socket: Option<PathBuf>,
    /// Ask the service on these NATS servers, such as tls://nats.example:4222; may be given more than once
    #[arg(long, value_name = "URL", requires = "mesh")]
    pub service: Vec<String>,
    /// The id of the mesh
    #[arg(long, value_name = "ID", requires = "service")]
    pub mesh: Option<String>,
    /// Log in with this credentials file
    #[arg(long, value_name = "FILE")]
    pub creds: Option<PathBuf>,
    /// Log in with the NKey whose seed is in this file
    #[arg(long, value_name = "FILE")]
    pub nkey: Option<PathBuf>,
    /// Log in as this user
    #[arg(long, value_name = "NAME", requires = "secret")]
    pub user: Option<String>,
    /// A file with its password
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// The variable with its password
    #[arg(long, value_name = "VARIABLE")]
    pub password_env: Option<String>,
    /// PEM of the authorities to trust; the system's, if not given
    #[arg(long, value_name = "FILE", requires = "service")]
    pub ca: Option<PathBuf>,
    /// PEM of our certificate, where the servers want one
    #[arg(long, value_name = "FILE", requires_all = ["service", "client_key"])]
    pub client_cert: Option<PathBuf>,
    /// PEM of its key
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    pub client_key: Option<PathBuf>,
    /// Answers come below this subject [default: that of the role `agent`]
    #[arg(long, value_name = "SUBJECT", requires = "service")]
    pub inbox: Option<String>,
    /// Allow a connection without TLS to another machine
    #[arg(long, requires = "service")]
    pub dangerously_plain: bool,
}
