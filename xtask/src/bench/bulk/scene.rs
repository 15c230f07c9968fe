//! One kind of server with very many consumers: made, healed, taken over, looked at; the bare client does
//! the same to a second server of that kind, in turns.

use super::side::{ADMIN, Script, Side, name};
use crate::bench::page::{Row, Target, told};
use crate::bench::runs::Bench;
use crate::bench::stopwatch::{Stopwatch, median, timed};
use crate::bench::subject::{Counted, Subject, Up};
use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// What the provider is called.
pub(super) const PROVIDER: &str = "it";
/// The measure, everywhere here.
const TARGET: Target = Target::Times(1.5);

/// How much is done.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) users: usize,
    /// How often everything is made.
    pub(super) makings: usize,
    /// Whether all is dropped and healed, too.
    pub(super) heals: bool,
    /// How often a first pass is made.
    pub(super) firsts: usize,
    pub(super) verify_every: u64,
}

/// Two servers, and the program on one of them.
pub(super) struct Scene<'b, S> {
    bench: &'b Bench<'b>,
    pub(super) ours: S,
    limit: S,
    size: Size,
    what: String,
    folder: PathBuf,
    pub(super) subject: Subject,
    rows: Vec<Row>,
}

impl<'b, S: Side> Scene<'b, S> {
    pub(super) fn begin(
        bench: &'b Bench<'b>,
        folder: PathBuf,
        (ours, limit): (S, S),
        size: Size,
    ) -> Result<Self> {
        let what = format!("{}, {}", ours.title(), size.users);
        (bench.say)(&format!("{what} consumers"));
        let folder = folder.join("program");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("admin.password"), ADMIN.1)?;
        let manifest = manifest(&[(PROVIDER, &ours.provider())], size, |n| {
            vec![(PROVIDER, ours.needs(n))]
        })?;
        let subject = Subject::with(bench.mesh, &folder, &manifest)?;
        Ok(Self {
            bench,
            ours,
            limit,
            size,
            what,
            folder,
            subject,
            rows: Vec::new(),
        })
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

    /// From nothing: the first `mesh apply`, and healing all that was dropped; beside each the raw writing.
    pub(super) fn make(&mut self) -> Result<()> {
        let (mut first, mut inside, mut raw) = (Vec::new(), Vec::new(), Vec::new());
        let (mut healed, mut looks) = (Vec::new(), Vec::new());
        let mut script = Vec::new();
        for turn in 0..self.size.makings {
            self.forget("")?;
            self.ours.clear()?;
            // Whoever comes second may find a warmer server: they take turns.
            if turn % 2 == 1 {
                raw.push(self.write_raw(&script)?);
            }
            let ran = self.subject.run(&["apply"])?;
            first.push(ran.all);
            inside.extend(ran.pass(PROVIDER));
            script = self.ours.script()?;
            if turn % 2 == 0 {
                raw.push(self.write_raw(&script)?);
            }
            if !self.size.heals {
                continue;
            }
            self.ours.clear()?;
            let ran = self.subject.run(&["apply"])?;
            healed.extend(ran.pass(PROVIDER));
            looks.push(ran.all);
            // Where it takes minutes, once is enough.
            if self.size.makings > 1 {
                raw.push(self.write_raw(&script)?);
            }
        }
        ensure!(
            self.ours.read()?.logins > self.size.users,
            "not all were made"
        );
        let (raw, n) = (median(&raw), first.len());
        let note = format!(
            "median of {n}; the whole process, with a password minted and sealed for each; its pass took {}",
            told(median(&inside))
        );
        self.row(
            "first `mesh apply`",
            median(&first),
            Some(raw),
            TARGET,
            &note,
        );
        if healed.is_empty() {
            return Ok(());
        }
        let note = format!(
            "median of {n}; one pass, passwords known: the look that finds the loss, the writes, the looks \
             after, the records; the whole process {}",
            told(median(&looks))
        );
        self.row(
            "healing all that was dropped",
            median(&healed),
            Some(raw),
            TARGET,
            &note,
        );
        Ok(())
    }

    fn write_raw(&self, script: &[Script]) -> Result<Duration> {
        self.limit.clear()?;
        let (done, took) = timed(|| self.limit.write(script));
        done.map(|()| took)
    }

    /// Takes files of the program's store away that begin with this.
    fn forget(&self, names: &str) -> Result<()> {
        let data = self.folder.join("mesh-data");
        for file in fs::read_dir(&data).into_iter().flatten() {
            let path = file?.path();
            let named = path
                .file_name()
                .is_some_and(|n| n.to_string_lossy().starts_with(names));
            if named && path.is_file() {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// Passes over logins that are there: the first of a new process, the first without records, later ones.
    pub(super) fn passes(&mut self) -> Result<()> {
        let (mut adopted, mut first, mut raw) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.size.firsts {
            self.forget("mesh.db")?;
            let up = self.subject.up()?;
            adopted.push(self.pass_after(&up, Counted::default())?.took);
            drop(up);
            raw.push(self.limit.read()?.took);
            let up = self.subject.up()?;
            first.push(self.pass_after(&up, Counted::default())?.took);
            drop(up);
            raw.push(self.limit.read()?.took);
        }
        let n = first.len();
        let note = format!(
            "median of {n}; `mesh.db` lost: each is adopted, and 10,000 records are written"
        );
        let note = note.replace("10,000", &self.size.users.to_string());
        self.row(
            "first pass, no records",
            median(&adopted),
            Some(median(&raw)),
            TARGET,
            &note,
        );
        let note = format!("median of {n}; a new process that has its records");
        self.row(
            "first pass of a process",
            median(&first),
            Some(median(&raw)),
            TARGET,
            &note,
        );
        self.later()
    }

    fn later(&mut self) -> Result<()> {
        let up = self.subject.up()?;
        let mut counted = self.pass_after(&up, Counted::default())?;
        let (mut ours, mut raw, mut least) = (Vec::new(), Vec::new(), Vec::new());
        let cpu = up.cpu()?;
        for _ in 0..self.bench.passes {
            counted = self.pass_after(&up, counted)?;
            ours.push(counted.took);
            let read = self.limit.read()?;
            raw.push(read.took);
            least.push(read.least);
        }
        let used = (up.cpu()? - cpu) / u32::try_from(ours.len())?;
        let (before, passes) = (self.ours.calls()?, up.metrics()?.passes);
        let more = self.pass_after(&up, up.metrics()?)?;
        let more = self.pass_after(&up, more)?;
        let calls = (self.ours.calls()? - before) as f64 / (more.passes - passes) as f64;
        let note = format!(
            "median of {}; {calls:.0} calls a pass by the server's own count; {} of processor time a pass; \
             verifiers alone over an open connection: {}",
            ours.len(),
            told(used),
            told(median(&least)),
        );
        self.row(
            "later healthy passes",
            median(&ours),
            Some(median(&raw)),
            TARGET,
            &note,
        );
        Ok(())
    }

    fn pass_after(&self, up: &Up, before: Counted) -> Result<Counted> {
        up.pass_after(before, self.size.users)
    }

    /// One login is dropped while a new process works its first pass off: until it is back.
    pub(super) fn repaired_meanwhile(&mut self, lose: impl Fn(&S) -> Result<String>) -> Result<()> {
        let up = self.subject.up()?;
        let login = lose(&self.ours)?;
        let watch = Stopwatch::start();
        let busy = up.metrics()?.passes == 0;
        while !self.ours.has(&login)? {
            ensure!(
                watch.read() < Duration::from_secs(300),
                "it is not repaired"
            );
            crate::bench::stopwatch::pause(20);
        }
        let back = watch.read();
        let first = self.pass_after(&up, Counted::default());
        let note = format!(
            "one login dropped just after the start{}; `verify_every` {} s; the process's passes so far took {} at last",
            if busy {
                ", while the first pass ran"
            } else {
                ", and the first pass was over"
            },
            self.size.verify_every,
            first.map_or_else(|_| "?".to_owned(), |pass| told(pass.took)),
        );
        self.row("lost meanwhile, and back", back, None, Target::None, &note);
        Ok(())
    }

    pub(super) fn end(self) -> Vec<Row> {
        self.rows
    }
}

/// A manifest of these providers and so many consumers.
pub(super) fn manifest(
    providers: &[(&str, &str)],
    size: Size,
    needs: impl Fn(usize) -> Vec<(&'static str, String)>,
) -> Result<String> {
    let mut text = String::from("[mesh]\nid = \"bench\"\n");
    for (provider, table) in providers {
        write!(
            text,
            "[provider.{provider}]\nadmin = {{ user = \"{}\", password = {{ file = \"admin.password\" }} }}\n\
             verify_every = \"{}s\"\n{table}\n",
            ADMIN.0, size.verify_every
        )
        .context("a manifest")?;
    }
    for n in 0..size.users {
        for (provider, needs) in needs(n) {
            writeln!(text, "[consumer.{}.needs.{provider}]\n{needs}", name(n))?;
        }
    }
    Ok(text)
}
