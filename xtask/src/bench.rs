//! `cargo xtask bench`: what the program costs beside what its servers cost, measured in one run.

mod ansible;
mod bulk;
mod bus;
mod client;
mod gap;
mod page;
mod readers;
mod runs;
mod server;
mod stopwatch;
mod subject;
mod wire;

use crate::{printer, root, servers};
use anyhow::{Context, Result, ensure};
use page::Row;
use runs::{Bench, DEAR, PLAIN, Product, Rules, Run};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Small sizes, in about a minute, and no page is written
    #[arg(long)]
    quick: bool,
    /// Only what has this in its name: `hint`, `core`, `redis-7.0-10000`, `bulk-postgres`, `ansible`, `page`, `bus`, …
    #[arg(long)]
    only: Option<String>,
    /// Measure this program, and do not build one
    #[arg(long)]
    program: Option<PathBuf>,
    /// Write docs/performance.md and docs/scale.md even where only a part was measured
    #[arg(long)]
    page: bool,
}

/// One server with many consumers.
struct Scene {
    name: &'static str,
    server: &'static str,
    rules: Rules,
    users: usize,
    verify_every: u64,
}

const fn scene(
    name: &'static str,
    server: &'static str,
    rules: Rules,
    users: usize,
    every: u64,
) -> Scene {
    Scene {
        name,
        server,
        rules,
        users,
        verify_every: every,
    }
}

const FULL: [Scene; 6] = [
    scene("redis-7.0-10000", "Redis 7", PLAIN, 10_000, 3),
    scene("redis-7.0-dangerous-10000", "Redis 7", DEAR, 10_000, 3),
    scene("redis-7.0-100000", "Redis 7", PLAIN, 100_000, 10),
    scene("redis-6.2-10000", "Redis 6.2", PLAIN, 10_000, 3),
    scene("valkey-9-10000", "Valkey 9", PLAIN, 10_000, 3),
    scene("valkey-9-100000", "Valkey 9", PLAIN, 100_000, 10),
];
const QUICK: [Scene; 3] = [
    scene("redis-7.0-1000", "Redis 7", PLAIN, 1_000, 1),
    scene("redis-6.2-1000", "Redis 6.2", PLAIN, 1_000, 1),
    scene("valkey-9-1000", "Valkey 9", PLAIN, 1_000, 1),
];

/// Measures; every child is ended, every folder removed.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let root = root::workspace()?;
    if args.only.as_deref().is_none_or(|only| only == "bus") {
        bus(args, &root)?;
    }
    if args.only.as_deref() == Some("bus") {
        return Ok(true);
    }
    let mesh = match &args.program {
        Some(program) => program.canonicalize()?,
        None => build(&root)?,
    };
    let folder = std::env::temp_dir().join(format!("mesh-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let passes = if args.quick { 2 } else { 7 };
    let bench = Bench {
        mesh: &mesh,
        folder: &folder,
        passes,
        say: printer::line,
    };
    let measured = tables(args, &root, &bench);
    let _ = std::fs::remove_dir_all(&folder);
    let tables = measured?;
    ensure!(!tables.is_empty(), "nothing has that in its name");
    if args.page || (!args.quick && args.only.is_none()) {
        let (head, page) = (head(&root)?, root.join("docs/performance.md"));
        for (name, rows) in &tables {
            page::write(&page, name, &head, rows)?;
        }
    }
    Ok(true)
}

/// The bus alone, and its page.
fn bus(args: &Args, root: &Path) -> Result<()> {
    let figures = bus::all(root, args.quick)?;
    figures.iter().for_each(|one| printer::line(&one.line()));
    if args.page || (!args.quick && args.only.is_none()) {
        let table = bus::table(&head(root)?, &figures);
        page::put(&root.join("docs/scale.md"), "bus", &table)?;
    }
    Ok(())
}

/// Each table of the page by its name; those without a row are left as they are.
fn tables(args: &Args, root: &Path, bench: &Bench<'_>) -> Result<Vec<(&'static str, Vec<Row>)>> {
    let wanted = |name: &str| args.only.as_deref().is_none_or(|only| name.contains(only));
    let mut tables = vec![
        ("bench", all(args, root, bench)?),
        ("bulk", bulk::all(bench, root, args.quick, wanted)?),
    ];
    if wanted("ansible") {
        tables.push(("ansible", ansible::all(bench, root)?));
    }
    if wanted("page") {
        tables.push(("page", readers(args, root, bench)?));
    }
    tables.retain(|(_, rows)| !rows.is_empty());
    Ok(tables)
}

fn all(args: &Args, root: &Path, bench: &Bench<'_>) -> Result<Vec<Row>> {
    let wanted = |name: &str| args.only.as_deref().is_none_or(|only| name.contains(only));
    let mut rows = Vec::new();
    if wanted("core") {
        rows.extend(core(root, args.quick)?);
    }
    if wanted("hint") {
        let product = product(root, "Redis 7")?;
        let users = if args.quick { 200 } else { 1_000 };
        rows.extend(runs::by_the_hint(bench, &product, users)?);
    }
    let scenes: &[Scene] = if args.quick { &QUICK } else { &FULL };
    for scene in scenes.iter().filter(|scene| wanted(scene.name)) {
        let product = product(root, scene.server)?;
        let mut run = Run::begin(
            bench,
            &product,
            scene.rules,
            scene.users,
            scene.verify_every,
        )?;
        let up = run.up()?;
        run.heal(&up)?;
        run.passes(&up)?;
        run.status()?;
        drop(up);
        rows.extend(run.end());
    }
    Ok(rows)
}

/// The page, with as many consumers as one provider has.
fn readers(args: &Args, root: &Path, bench: &Bench<'_>) -> Result<Vec<Row>> {
    let product = product(root, "Valkey 9")?;
    let (users, every) = if args.quick { (1_000, 1) } else { (100_000, 5) };
    let run = Run::begin(bench, &product, PLAIN, users, every)?;
    let on = format!("{}, {users}", product.title);
    readers::all(bench, run.up()?, &on, users)
}

fn build(root: &Path) -> Result<PathBuf> {
    let built = Command::new(env!("CARGO"))
        .args([
            "build",
            "--release",
            "--locked",
            "--package",
            "meshkeeper",
            "--bin",
            "mesh",
        ])
        .current_dir(root)
        .status()?;
    ensure!(built.success(), "the program does not build");
    Ok(root.join("target/release/mesh"))
}

fn product(root: &Path, name: &str) -> Result<Product> {
    let (program, version) = servers::found(root, name)?;
    let product = name.split(' ').next().unwrap_or(name);
    Ok(Product {
        title: format!("{product} {version}"),
        program,
        selectors: !version.starts_with("6."),
    })
}

/// The pure core alone, by its own benchmark.
fn core(root: &Path, quick: bool) -> Result<Vec<Row>> {
    let mut command = Command::new(env!("CARGO"));
    command.args([
        "bench",
        "--quiet",
        "--locked",
        "--package",
        "mesh-sdk",
        "--bench",
        "decide",
        "--",
    ]);
    command.args(["--output-format", "bencher"]);
    if quick {
        command.arg("--quick");
    }
    let output = command.current_dir(root).output()?;
    ensure!(output.status.success(), "the core's benchmark fails");
    let mut rows = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        // `test NAME ... bench:   12345 ns/iter (+/- 67)`
        let Some((name, rest)) = line
            .strip_prefix("test ")
            .and_then(|l| l.split_once(" ... bench:"))
        else {
            continue;
        };
        let nanos: String = rest
            .chars()
            .take_while(|c| *c != 'n')
            .filter(char::is_ascii_digit)
            .collect();
        let ours = std::time::Duration::from_nanos(nanos.parse().context("no figure")?);
        let count: f64 = name
            .rsplit('/')
            .next()
            .and_then(|n| n.parse().ok())
            .unwrap_or(1.0);
        let each = count / ours.as_secs_f64() / 1e6;
        let row = Row {
            what: format!("the core alone: {name}"),
            on: "no server".to_owned(),
            ours,
            raw: None,
            target: page::Target::None,
            note: format!("{each:.1} million consumers a second"),
        };
        printer::line(&row.line());
        rows.push(row);
    }
    Ok(rows)
}

/// When, on what, and how.
fn head(root: &Path) -> Result<String> {
    let told = |program: &str, args: &[&str]| -> Result<String> {
        let output = Command::new(program)
            .args(args)
            .current_dir(root)
            .output()?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let date = told("date", &["-u", "+%F"])?;
    let rustc = told("rustc", &["--version"])?;
    let commit = told("git", &["rev-parse", "--short", "HEAD"])?;
    let info = std::fs::read_to_string("/proc/meminfo")?;
    let kib = info
        .split_whitespace()
        .nth(1)
        .and_then(|n| n.parse::<u64>().ok())
        .unwrap_or(0);
    let cores = std::thread::available_parallelism()?;
    let load = std::fs::read_to_string("/proc/loadavg")?;
    let load = load.split(' ').next().unwrap_or("?");
    Ok(format!(
        "Measured on {date} at commit {commit} with `cargo xtask bench`: {cores} cores, {} GiB, Linux, \
         {rustc}, release build; everything over loopback on one machine, load average {load} at the end.",
        kib >> 20,
    ))
}
