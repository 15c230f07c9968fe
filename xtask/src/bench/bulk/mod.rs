//! `cargo xtask bench`: 10,000 logins on PostgreSQL, MariaDB and RabbitMQ beside what a bare client does.

mod child;
mod mariadb;
mod pair;
mod postgres;
mod rabbitmq;
mod scene;
mod side;

use super::page::Row;
use super::runs::Bench;
use crate::servers;
use anyhow::Result;
use mariadb::Mariadb;
pub(super) use pair::{Pair, USERS};
use postgres::{DATABASES, Postgres};
use rabbitmq::Rabbit;
use scene::{Scene, Size};
use side::Side;
use std::path::{Path, PathBuf};

/// Which server, with how many rounds of its verifiers where it has rounds.
#[derive(Debug, Clone, Copy)]
enum On {
    Postgres(u32),
    Mariadb,
    Rabbit,
}

/// The scenes by name.
const SCENES: [(&str, On); 4] = [
    ("bulk-postgres-15-1-round", On::Postgres(1)),
    ("bulk-postgres-15-4096-rounds", On::Postgres(4096)),
    ("bulk-mariadb-10.11", On::Mariadb),
    ("bulk-rabbitmq-3.10", On::Rabbit),
];

/// Runs those that are wanted.
pub(super) fn all(
    bench: &Bench<'_>,
    root: &Path,
    quick: bool,
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (name, on) in SCENES.iter().filter(|(name, _)| wanted(name)) {
        let folder = bench.folder.join(name);
        rows.extend(run(bench, root, &folder, *on, quick)?);
        let _ = std::fs::remove_dir_all(&folder);
    }
    Ok(rows)
}

fn run(bench: &Bench<'_>, root: &Path, folder: &Path, on: On, quick: bool) -> Result<Vec<Row>> {
    let dear = !matches!(on, On::Postgres(1));
    let size = match quick {
        true => Size {
            users: 300,
            makings: 1,
            heals: true,
            firsts: 1,
            verify_every: 1,
        },
        false => Size {
            users: 10_000,
            makings: if dear { 1 } else { 3 },
            // A minute of nothing but rounds, on either side: once is enough.
            heals: !matches!(on, On::Postgres(2..)),
            firsts: if matches!(on, On::Postgres(2..)) {
                1
            } else {
                3
            },
            verify_every: 3,
        },
    };
    match on {
        On::Postgres(rounds) => {
            let found = servers::found(root, "PostgreSQL 15")?;
            let start = |folder: PathBuf| Postgres::start(&found, &folder, rounds, DATABASES);
            let mut scene = scene(bench, folder, start, size)?;
            if rounds > 1 {
                scene.repaired_meanwhile(|server: &Postgres| {
                    server.lose(7)?;
                    Ok(side::name(7))
                })?;
            }
            Ok(scene.end())
        }
        On::Mariadb => {
            let (program, version) = servers::found(root, "MariaDB 10.11")?;
            let start = |folder: PathBuf| Mariadb::start(&program, &version, &folder);
            Ok(scene(bench, folder, start, size)?.end())
        }
        On::Rabbit => {
            let (program, version) = servers::found(root, "RabbitMQ")?;
            let start = |folder: PathBuf| Rabbit::start(&program, &version, &folder);
            Ok(scene(bench, folder, start, size)?.end())
        }
    }
}

/// Two servers of a kind, and all that is measured on each kind.
fn scene<'b, S: Side>(
    bench: &'b Bench<'b>,
    folder: &Path,
    start: impl Fn(PathBuf) -> Result<S>,
    size: Size,
) -> Result<Scene<'b, S>> {
    // Their users have to find their way in.
    let both = (start(folder.join("ours"))?, start(folder.join("limit"))?);
    let mut scene = Scene::begin(bench, folder.to_owned(), both, size)?;
    scene.make()?;
    scene.passes()?;
    Ok(scene)
}
