//! What is measured. Each run has the raw limit measured beside it, on a second server with the same users.

use super::client::{Client, command};
use super::gap::Gap;
use super::page::{Row, Target};
use super::server::Server;
use super::stopwatch::{Stopwatch, median, pause, timed};
use super::subject::{Subject, Up};
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Kinds of rules, as the manifest and as the server have them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) title: &'static str,
    manifest: &'static str,
    raw: &'static [&'static str],
}

pub(super) const PLAIN: Rules = Rules {
    title: "`+@read +@write`",
    manifest: "\"+@read\", \"+@write\"",
    raw: &["+@read", "+@write"],
};
pub(super) const DEAR: Rules = Rules {
    title: "`+@read +@write -@dangerous`",
    manifest: "\"+@read\", \"+@write\", \"-@dangerous\"",
    raw: &["+@read", "+@write", "-@dangerous"],
};

/// A server's program, and how it is called here.
#[derive(Debug, Clone)]
pub(super) struct Product {
    pub(super) title: String,
    pub(super) program: PathBuf,
    /// Marks are selectors.
    pub(super) selectors: bool,
}

/// What every run is made with.
pub(super) struct Bench<'b> {
    pub(super) mesh: &'b Path,
    pub(super) folder: &'b Path,
    /// Later passes that are measured.
    pub(super) passes: usize,
    pub(super) say: fn(&str),
}

/// One server with many consumers: first apply, heal after a restart, passes.
pub(super) struct Run<'b> {
    bench: &'b Bench<'b>,
    what: String,
    users: usize,
    product: &'b Product,
    rules: Rules,
    ours: Server,
    limit: Server,
    subject: Subject,
    raw: Vec<Vec<u8>>,
    rows: Vec<Row>,
}

impl<'b> Run<'b> {
    /// Applies a manifest to an empty server for the first time, and writes the same users to the other.
    pub(super) fn begin(
        bench: &'b Bench<'b>,
        product: &'b Product,
        rules: Rules,
        users: usize,
        verify_every: u64,
    ) -> Result<Self> {
        let what = format!("{}, {}, {users}", product.title, rules.title);
        (bench.say)(&format!("{what} consumers"));
        let folder = bench.folder.join(format!("{}-{users}", what.len()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder)?;
        let ours = Server::start(&product.program, &folder)?;
        let limit = Server::start(&product.program, &folder)?;
        let subject = Subject::new(
            bench.mesh,
            &folder,
            ours.port,
            users,
            rules.manifest,
            verify_every,
        )?;
        let ran = subject.run(&["apply"])?;
        let mut run = Self {
            bench,
            what,
            users,
            product,
            rules,
            ours,
            limit,
            subject,
            raw: Vec::new(),
            rows: Vec::new(),
        };
        run.raw = run.same_users()?;
        ensure!(
            run.raw.len() == users,
            "{} of {users} were applied",
            run.raw.len()
        );
        let written = run.write_raw()?;
        let note = format!(
            "the whole process, with a password minted and sealed for each; its pass took {}",
            ran.pass("cache")
                .map_or_else(|| "?".to_owned(), super::page::told)
        );
        run.row(
            "first `mesh apply`",
            ran.all,
            Some(written),
            Target::None,
            &note,
        );
        Ok(run)
    }

    fn row(
        &mut self,
        what: &str,
        ours: Duration,
        raw: Option<Duration>,
        target: Target,
        note: &str,
    ) {
        let row = Row {
            what: what.to_owned(),
            on: self.what.clone(),
            ours,
            raw,
            target,
            note: note.to_owned(),
        };
        (self.bench.say)(&format!("  {}", row.line()));
        self.rows.push(row);
    }

    /// The very commands that made the users on our server, for the bare client.
    fn same_users(&self) -> Result<Vec<Vec<u8>>> {
        let mut commands = Vec::new();
        let mut client = self.ours.client()?;
        client.send(&command(&[b"ACL", b"LIST"]))?;
        let (selectors, raw) = (self.product.selectors, self.rules.raw);
        client.each(|line| {
            let line = String::from_utf8_lossy(line);
            let mut words = line.split(' ').skip(1);
            let name = words.next().unwrap_or_default();
            // The server's own, and Meshkeeper's own: neither is a consumer.
            if name == "default" || name.starts_with("mesh-canary-") {
                return;
            }
            let words: Vec<&str> = words.collect();
            let hash = words
                .iter()
                .find(|w| w.starts_with('#'))
                .copied()
                .unwrap_or_default();
            let mark = words
                .iter()
                .map(|w| w.trim_start_matches('('))
                .find(|w| w.starts_with("~mk1."));
            let mark = mark.unwrap_or_default();
            let keys = format!("~{name}:*");
            let selector = format!("(resetchannels {mark})");
            let mut args: Vec<&str> = vec!["ACL", "SETUSER", name, "reset", hash, &keys];
            args.extend((!selectors).then_some(mark));
            args.push("resetchannels");
            args.extend(raw);
            args.extend(selectors.then_some(selector.as_str()));
            args.push("on");
            let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
            commands.push(command(&args));
        })?;
        Ok(commands)
    }

    /// The bare client writes all users to an empty server.
    fn write_raw(&mut self) -> Result<Duration> {
        self.limit.restart()?;
        let mut client = self.limit.client()?;
        let (done, took) = timed(|| client.pipeline(&self.raw));
        done.map(|()| took)
    }

    fn read_raw(&self) -> Result<Duration> {
        let mut client = self.limit.client()?;
        let (done, took) = timed(|| client.acl_list());
        ensure!(done?.0 == self.users + 1, "the list is not whole");
        Ok(took)
    }

    /// The server dies and comes back empty: how long until the last is healed, and the pass itself.
    pub(super) fn heal(&mut self, up: &Up) -> Result<()> {
        let before = up.metrics()?;
        self.ours.restart()?;
        let watch = Stopwatch::start();
        let mut client = self.ours.client()?;
        while client.changes()? < self.users as u64 {
            ensure!(
                watch.read() < Duration::from_secs(300),
                "not healed in time"
            );
            pause(2);
        }
        let last = watch.read();
        let mut pass = before;
        while pass.applied < before.applied + self.users as u64 {
            pass = up.metrics()?.after(pass);
            pause(10);
        }
        let raw = self.write_raw()?;
        let note = format!(
            "the whole pass, with the look before, the look after and the records on the disk; the last \
             login was back {} after the server took connections",
            super::page::told(last)
        );
        self.row(
            "healing all after a restart",
            pass.took,
            Some(raw),
            Target::Times(1.5),
            &note,
        );
        Ok(())
    }

    /// Passes over a healthy server: the first after all was written anew, and later ones.
    pub(super) fn passes(&mut self, up: &Up) -> Result<()> {
        self.ours.longest_command()?;
        let gap = Gap::watch(self.ours.port)?;
        let mut counted = up.pass_after(up.metrics()?, self.users)?;
        let first = counted.took;
        let cold = self.read_raw()?;
        let waited = gap.longest()?;
        let (longest, which) = self.ours.longest_command()?;
        let note = blocked(waited, longest, &which);
        self.row(
            "first pass after all was written anew",
            first,
            Some(cold),
            Target::None,
            &note,
        );
        let gap = Gap::watch(self.ours.port)?;
        let (mut ours, mut raw) = (Vec::new(), Vec::new());
        let cpu = (up.cpu()?, Stopwatch::start());
        for _ in 0..self.bench.passes {
            counted = up.pass_after(counted, self.users)?;
            ours.push(counted.took);
            raw.push(self.read_raw()?);
        }
        let used = (up.cpu()? - cpu.0) / u32::try_from(ours.len())?;
        let waited = gap.longest()?;
        let (longest, which) = self.ours.longest_command()?;
        let note = format!(
            "median of {}; {}; {} of processor time a pass",
            ours.len(),
            blocked(waited, longest, &which),
            super::page::told(used)
        );
        self.row(
            "later healthy passes",
            median(&ours),
            Some(median(&raw)),
            Target::Times(1.5),
            &note,
        );
        self.idle(up, used)
    }

    fn idle(&mut self, up: &Up, pass: Duration) -> Result<()> {
        let (now, highest) = up.memory()?;
        let share = pass.as_secs_f64() / 60.0 * 100.0;
        let each = now.saturating_sub(FIXED) / self.users as u64;
        let row = Row {
            what: "`mesh up` at rest, `verify_every` 60 s".to_owned(),
            on: self.what.clone(),
            ours: pass,
            raw: None,
            target: Target::Rest { memory: now, share },
            note: format!(
                "{} MiB resident ({} at its highest; about {each} bytes a consumer), {share:.1} % of a core: \
                 the processor time of a pass over 60 s",
                now >> 20,
                highest >> 20,
            ),
        };
        (self.bench.say)(&format!("  {}", row.line()));
        self.rows.push(row);
        Ok(())
    }

    /// The screen over all of it, beside the running daemon.
    pub(super) fn status(&mut self) -> Result<()> {
        let screen = self.subject.run(&["status"])?;
        let json = self.subject.run(&["status", "--json"])?;
        let note = format!("to its end {}", super::page::told(screen.all));
        self.row(
            "`mesh status`, first line",
            screen.first,
            None,
            Target::Under(100),
            &note,
        );
        let note = format!("{} MB", json.said.len() / 1_000_000);
        self.row(
            "`mesh status --json`, to its end",
            json.all,
            None,
            Target::None,
            &note,
        );
        Ok(())
    }

    pub(super) fn up(&self) -> Result<Up> {
        let (up, took) = timed(|| self.subject.up());
        let up = up?;
        up.pass_after(super::subject::Counted::default(), self.users)?;
        (self.bench.say)(&format!(
            "  `mesh up` serves after {}",
            super::page::told(took)
        ));
        Ok(up)
    }

    pub(super) fn end(self) -> Vec<Row> {
        self.rows
    }
}

/// What the program needs without any consumer, about.
const FIXED: u64 = 14 << 20;

fn blocked(waited: Duration, longest: Duration, which: &str) -> String {
    if longest.is_zero() {
        return format!(
            "others waited {} at most, no command took 1 ms",
            super::page::told(waited)
        );
    }
    format!(
        "others waited {} at most, the longest command took {} (`{which}`)",
        super::page::told(waited),
        super::page::told(longest)
    )
}

/// From a restart to the last consumer, by the hint and not by the timer.
pub(super) fn by_the_hint(bench: &Bench<'_>, product: &Product, users: usize) -> Result<Vec<Row>> {
    let mut run = Run::begin(bench, product, PLAIN, users, 60)?;
    run.rows.clear();
    let _up = run.up()?;
    let mut times = Vec::new();
    for _ in 0..3 {
        // At most one hinted pass in five seconds.
        pause(6_000);
        run.ours.restart()?;
        let watch = Stopwatch::start();
        let mut client: Client = run.ours.client()?;
        while client.changes()? < users as u64 {
            ensure!(
                watch.read() < Duration::from_secs(50),
                "the hint did not come"
            );
            pause(1);
        }
        times.push(watch.read());
    }
    let note = "from the first connection that the server takes to the last login; median of 3";
    run.row(
        "a restart, to the last login",
        median(&times),
        None,
        Target::Under(2_000),
        note,
    );
    Ok(run.end())
}
