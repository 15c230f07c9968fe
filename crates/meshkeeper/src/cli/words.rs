//! Every word of the command line, with its arguments.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::Shell;

use super::reach::ReachArgs;
use crate::manifest::units;

/// What to do.
#[derive(Debug, Clone, Subcommand)]
pub enum Word {
    /// Write a first manifest and make the data folder
    Init(InitArgs),
    /// Read the manifest and tell every mistake in it, without a network
    Check(CheckArgs),
    /// Show healing at work on a Redis of its own, and clean up after itself
    Demo,
    /// Show the kinds of backend: what each can do, what it cannot, and which keys it takes
    Adapters(AdaptersArgs),
    /// Print tables for the logins that a server holds already, to append to the manifest
    Import(ImportArgs),
    /// Print the manifest's JSON Schema, for editors
    Schema,
    /// Print a completion script for a shell
    Completions(CompletionsArgs),

    /// Run all loops until told to stop
    Up(UpArgs),
    /// Make one full pass of everything, then end
    Apply,
    /// Tell what `apply` would do, and write nothing
    Plan,

    /// Show the whole picture on one screen
    Status(StatusArgs),
    /// Tell why a consumer stands as it does: wish, record, last answer, history
    Explain(ExplainArgs),
    /// List what needs someone
    Conditions(ConditionsArgs),
    /// List all loops: what each compares, repairs, and cannot see
    Loops,
    /// List what happened, newest last
    Events(EventsArgs),
    /// Look for what will not work: admin rights, TLS, clocks, versions, persistence
    Doctor(DoctorArgs),
    /// Show a login with its password and URL
    Credentials(CredentialsArgs),

    /// Take over a login that exists on the backend
    Adopt(AdoptArgs),
    /// Let happen what waits for a person's word
    Approve(ApproveArgs),
    /// Let a login go that its consumer had before another one
    Retire(RetireArgs),
    /// Delete the data that a removed consumer left: the only way to delete data
    Purge(PurgeArgs),
    /// Say that a condition is known and being worked on, or that a consumer has what was delivered
    Ack(SilenceArgs),
    /// Keep a condition from counting, for a while and with a reason
    Silence(SilenceArgs),
    /// Stop writes for a consumer or provider for a while; looks go on
    Pause(PauseArgs),
    /// End a pause, a brake or a delay
    Resume(ResumeArgs),

    /// Give a consumer another password, old and new valid together until it has the new one
    Rotate(RotateArgs),
    /// Wait until a consumer has its logins, or what was brought to it: for scripts
    Wait(WaitArgs),
    /// List what an agent can take on, worst and oldest first
    Tasks(TasksArgs),
    /// Claim, extend and finish a task
    #[command(subcommand)]
    Task(TaskWord),
    /// Set up a bus on NATS servers, move an installation to it and back, take up a restored one
    Bus(BusArgs),
    /// Run a program for each task, as long as there are any and until told to stop
    Agent(AgentArgs),
    /// Run the conformance suite on an adapter that is a program of yours
    Conformance(ConformanceArgs),
}

/// `rotate`.
#[derive(Debug, Clone, Args)]
pub struct RotateArgs {
    /// The consumer
    #[arg(required_unless_present = "all")]
    pub consumer: Option<String>,
    /// One of its providers; all, if not given
    pub provider: Option<String>,
    /// Every consumer of every provider whose password is not given by a person
    #[arg(long, conflicts_with_all = ["consumer", "force", "back"])]
    pub all: bool,
    /// Spread them over this length of time
    #[arg(long, value_name = "LENGTH", requires = "all", value_parser = length)]
    pub spread: Option<Duration>,
    /// Let the old password go now, whoever has not taken up the new one: they lose their access
    #[arg(long, requires = "reason", conflicts_with = "back")]
    pub force: bool,
    /// Go back to the old password, while it is still valid
    #[arg(long, requires = "reason")]
    pub back: bool,
    /// Why, for whoever reads it next
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// `init`.
#[derive(Debug, Clone, Args)]
pub struct InitArgs {
    /// The mesh's id; unique unless you give one
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
}

/// `bus`.
#[derive(Debug, Clone, Args)]
pub struct BusArgs {
    /// What to do
    #[command(subcommand)]
    pub what: BusWord,
}

/// What to do with the bus.
#[derive(Debug, Clone, Subcommand)]
pub enum BusWord {
    /// Make the streams of this mesh on the servers that the manifest names; what is there is left as it is
    Bootstrap(BootstrapArgs),
    /// Print what each role may do, as a NATS server's configuration writes it
    Permissions(PermissionsArgs),
    /// Write everything on the bus that this data folder uses into a file; passwords stay sealed
    Export(BusFileArgs),
    /// Write such a file onto the bus that the manifest names, and use that from now on
    Import(BusFileArgs),
    /// Say that the bus that the manifest names, as it is now, is this data folder's
    Adopt,
}

/// `bus bootstrap`.
#[derive(Debug, Clone, Args)]
pub struct BootstrapArgs {
    /// How many servers keep a copy: 1, or 3 in a cluster, or 5
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = replicas)]
    pub replicas: u8,
    /// The most bytes that the values may take; without it as many as the account may
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_bytes: Option<u64>,
    /// Log in with this credentials file, and not as the manifest says
    #[arg(long, value_name = "FILE", group = "way")]
    pub creds: Option<PathBuf>,
    /// Log in with the NKey whose seed is in this file
    #[arg(long, value_name = "FILE", group = "way")]
    pub nkey: Option<PathBuf>,
    /// Log in as this user
    #[arg(long, value_name = "NAME", group = "way", requires = "password_file")]
    pub user: Option<String>,
    /// A file with its password
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,
}

/// `bus permissions`.
#[derive(Debug, Clone, Args)]
pub struct PermissionsArgs {
    /// The agents have an account of their own: print, too, what the account of this name, which has the
    /// streams, lends to it
    #[arg(long, value_name = "NAME")]
    pub account: Option<String>,
}

/// `bus export` and `bus import`.
#[derive(Debug, Clone, Args)]
pub struct BusFileArgs {
    /// The file
    pub file: PathBuf,
}

fn replicas(text: &str) -> Result<u8, String> {
    match text {
        "1" | "3" | "5" => text.parse().map_err(|_| "1, 3 or 5".to_owned()),
        _ => Err("it must be 1, 3 or 5: an even number survives no more than one less".to_owned()),
    }
}

/// `check`.
#[derive(Debug, Clone, Args)]
pub struct CheckArgs {
    /// Ask each provider too: whether it can be reached, and who it is. Reads only
    #[arg(long)]
    pub connect: bool,
}

/// `adapters`.
#[derive(Debug, Clone, Args)]
pub struct AdaptersArgs {
    /// Tell all of one kind
    pub kind: Option<String>,
}

/// `import`.
#[derive(Debug, Clone, Args)]
pub struct ImportArgs {
    /// The provider, whose table the manifest has
    pub provider: String,
}

/// `completions`.
#[derive(Debug, Clone, Args)]
pub struct CompletionsArgs {
    /// Which shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// `conformance`.
#[derive(Debug, Clone, Args)]
pub struct ConformanceArgs {
    /// The adapter: a program that speaks the protocol of docs/spec/exec-adapter.md
    #[arg(long, value_name = "PROGRAM")]
    pub exec: PathBuf,
    /// The program that does things to the backend behind its back; it never ships with the adapter
    #[arg(long, value_name = "PROGRAM")]
    pub bench: PathBuf,
    /// An argument of the adapter; may be given more than once
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub arg: Vec<String>,
    /// A JSON file with what both are told of the backend: the provider's `settings`
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// The admin login that both are handed
    #[arg(long, value_name = "USER")]
    pub admin: Option<String>,
    /// A file with its password
    #[arg(long, value_name = "FILE", requires = "admin")]
    pub admin_password_file: Option<PathBuf>,
}

/// `up`.
#[derive(Debug, Clone, Args)]
pub struct UpArgs {
    /// Serve the page, the API and the metrics there, such as 127.0.0.1:9180
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<SocketAddr>,
    /// On a bus of several hosts: a host that suits a provider better is given it once it was there for so long
    #[arg(long, value_name = "LENGTH", hide = true, default_value = "10m", value_parser = length)]
    pub hand_back: Duration,
}

/// `status`.
#[derive(Debug, Clone, Args)]
pub struct StatusArgs {
    /// Show it again and again [every 2s, unless said otherwise]
    #[arg(long, value_name = "EVERY", num_args = 0..=1, default_missing_value = "2s", value_parser = length)]
    pub watch: Option<Duration>,
    /// One line for monitors, told by the exit code
    #[arg(long, conflicts_with = "watch")]
    pub check: bool,
}

/// `wait`.
#[derive(Debug, Clone, Args)]
pub struct WaitArgs {
    /// For what
    #[arg(long = "for", value_name = "WHAT", value_enum)]
    pub what: WaitFor,
    /// The consumer
    pub consumer: String,
    /// One of its providers; all, if not given
    pub provider: Option<String>,
    /// For how long at most; 0s looks once
    #[arg(long, value_name = "LENGTH", default_value = "60s", value_parser = length_or_none)]
    pub timeout: Duration,
}

/// What can be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WaitFor {
    /// Every login is held, as the manifest asks for it
    Held,
    /// What is delivered was taken up
    Delivered,
    /// Its rotation is over: everybody has the new password, and the old one is gone
    Rotated,
}

impl WaitFor {
    /// As it is typed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Delivered => "delivered",
            Self::Rotated => "rotated",
        }
    }
}

/// `explain`.
#[derive(Debug, Clone, Args)]
pub struct ExplainArgs {
    /// The consumer
    pub consumer: String,
    /// One of its providers; all, if not given
    pub provider: Option<String>,
}

/// `conditions`.
#[derive(Debug, Clone, Args)]
pub struct ConditionsArgs {
    /// Only those about this provider, consumer or provider/consumer
    pub subject: Option<String>,
    /// Those that are over, too
    #[arg(long)]
    pub all: bool,
}

/// `events`.
#[derive(Debug, Clone, Args)]
pub struct EventsArgs {
    /// Only those about this provider, consumer or provider/consumer
    pub subject: Option<String>,
    /// Only those of the last while, such as 2h
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    pub since: Option<Duration>,
    /// At most so many, the newest
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub limit: usize,
    /// Go on showing them as they happen
    #[arg(long, short)]
    pub follow: bool,
}

/// `doctor`.
#[derive(Debug, Clone, Args)]
pub struct DoctorArgs {
    /// One provider; all, if not given
    pub provider: Option<String>,
}

/// `credentials`.
#[derive(Debug, Clone, Args)]
pub struct CredentialsArgs {
    /// The consumer
    pub consumer: String,
    /// The provider
    pub provider: String,
}

/// `adopt`.
#[derive(Debug, Clone, Args)]
pub struct AdoptArgs {
    /// The consumer
    pub consumer: String,
    /// The provider
    pub provider: String,
    /// From now on take back rights beyond what the manifest asks
    #[arg(long)]
    pub exact: bool,
}

/// `approve`.
#[derive(Debug, Clone, Args)]
pub struct ApproveArgs {
    /// What to approve
    #[arg(value_enum)]
    pub what: Approval,
    /// The provider
    pub provider: String,
    /// The set of removals, as `plan` and `status` name it. Without it they are shown, and asked about
    /// on a terminal
    #[arg(long, value_name = "SET")]
    pub set: Option<String>,
}

/// What can wait for a person's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Approval {
    /// Another server answers under the provider's address: accept it
    Server,
    /// The removals that are held back: let exactly those go
    Removals,
}

/// `tasks`.
#[derive(Debug, Clone, Args)]
pub struct TasksArgs {
    /// Only of this condition type, such as HealFailed
    #[arg(long = "type", value_name = "TYPE")]
    pub kind: Option<String>,
    /// Only those that may be claimed now
    #[arg(long)]
    pub open: bool,
    /// How the tasks are reached
    #[command(flatten)]
    pub reach: ReachArgs,
}

/// `task`.
#[derive(Debug, Clone, Subcommand)]
pub enum TaskWord {
    /// Take a task: prints it as JSON with the token that its other words need
    Claim(ClaimArgs),
    /// Keep it for longer
    Extend(ExtendArgs),
    /// Say how it ended; the loop that raised it looks again, and its look decides
    Finish(FinishArgs),
}

/// `task claim`.
#[derive(Debug, Clone, Args)]
pub struct ClaimArgs {
    /// Which; the worst open one, if not given
    pub id: Option<String>,
    /// Only of this condition type, such as HealFailed
    #[arg(long = "type", value_name = "TYPE", conflicts_with = "id")]
    pub kind: Option<String>,
    /// Who takes it, for those who look
    #[arg(long, value_name = "NAME")]
    pub by: String,
    /// For how long; at most 24h
    #[arg(long = "for", value_name = "LENGTH", default_value = "10m", value_parser = length)]
    pub length: Duration,
    /// How the tasks are reached
    #[command(flatten)]
    pub reach: ReachArgs,
}

/// `task extend`.
#[derive(Debug, Clone, Args)]
pub struct ExtendArgs {
    /// Which
    pub id: String,
    /// The token that `claim` gave
    #[arg(long, value_name = "TOKEN")]
    pub token: String,
    /// For how long from now; at most 24h
    #[arg(long = "for", value_name = "LENGTH", default_value = "10m", value_parser = length)]
    pub length: Duration,
    /// How the tasks are reached
    #[command(flatten)]
    pub reach: ReachArgs,
}

/// `task finish`.
#[derive(Debug, Clone, Args)]
pub struct FinishArgs {
    /// Which
    pub id: String,
    /// The token that `claim` gave
    #[arg(long, value_name = "TOKEN")]
    pub token: String,
    /// How it ended
    #[arg(long, value_name = "HOW", value_enum)]
    pub outcome: HowEnded,
    /// What was done or found, for whoever comes next
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub note: String,
    /// How the tasks are reached
    #[command(flatten)]
    pub reach: ReachArgs,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HowEnded {
    /// It should be well now
    Done,
    /// It could not be done; somebody else may try
    Failed,
    /// A person must decide
    Person,
}

/// `agent`.
#[derive(Debug, Clone, Args)]
pub struct AgentArgs {
    /// The program: it reads the task as JSON from standard input; its exit code is the outcome
    #[arg(long, value_name = "PROGRAM")]
    pub run: PathBuf,
    /// An argument of the program; may be given more than once
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub arg: Vec<String>,
    /// Only tasks of this condition type; may be given more than once
    #[arg(long = "type", value_name = "TYPE")]
    pub kinds: Vec<String>,
    /// Who takes them, for those who look
    #[arg(long, value_name = "NAME", default_value = "agent")]
    pub by: String,
    /// Each claim is for this long, and is made longer while the program runs; at most 24h
    #[arg(long = "for", value_name = "LENGTH", default_value = "10m", value_parser = length)]
    pub length: Duration,
    /// The program is ended after this long, and the attempt has failed
    #[arg(long, value_name = "LENGTH", default_value = "30m", value_parser = length)]
    pub timeout: Duration,
    /// Take the tasks that are open now, one after the other, and end
    #[arg(long)]
    pub once: bool,
    /// How the tasks are reached
    #[command(flatten)]
    pub reach: ReachArgs,
}

/// `retire`.
#[derive(Debug, Clone, Args)]
pub struct RetireArgs {
    /// The consumer
    pub consumer: String,
    /// The provider
    pub provider: String,
    /// The login that it had before; needed where there are several
    pub login: Option<String>,
}

/// `purge`.
#[derive(Debug, Clone, Args)]
pub struct PurgeArgs {
    /// The provider
    pub provider: String,
    /// The data: a database, a vhost
    // Not called `data`: that is the data folder, of every word.
    #[arg(value_name = "DATA")]
    pub what: String,
    /// Delete it: the name of the data, typed again. Without it, it is only shown
    #[arg(long, value_name = "DATA", allow_hyphen_values = true)]
    pub confirm: Option<String>,
}

/// `ack` and `silence`.
#[derive(Debug, Clone, Args)]
pub struct SilenceArgs {
    /// The condition's type, such as LoginTaken; for `ack` also `delivery` or `rotation`, followed by a consumer
    pub condition: String,
    /// What it is about, such as cache/web
    pub subject: String,
    /// Why, for whoever reads it next
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// For how long
    #[arg(long = "for", value_name = "LENGTH", default_value = "24h", value_parser = length)]
    pub length: Duration,
}

/// `pause`.
#[derive(Debug, Clone, Args)]
pub struct PauseArgs {
    /// A consumer or a provider
    pub target: String,
    /// For how long; a pause always has an end
    #[arg(long = "for", value_name = "LENGTH", default_value = "24h", value_parser = length)]
    pub length: Duration,
}

/// `resume`.
#[derive(Debug, Clone, Args)]
pub struct ResumeArgs {
    /// A consumer or a provider
    pub target: String,
}

fn length_or_none(text: &str) -> Result<Duration, String> {
    Ok(units::parse(text)?)
}

fn length(text: &str) -> Result<Duration, String> {
    let length = units::parse(text)?;
    if length.is_zero() {
        return Err("it must be longer than nothing".to_owned());
    }
    Ok(length)
}
