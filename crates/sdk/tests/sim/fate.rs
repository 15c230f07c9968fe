//! What befalls an installation: servers, people, clocks and other tools, by the seed.

use std::collections::BTreeSet;
use std::time::Duration;

use mesh_sdk::decide::SecretState;
use mesh_sdk::{Class, Time};

use crate::backend::{Account, CreateFault, ListLie, LookFault, Mark, named};
use crate::check::Broken;
use crate::world::{Disk, PassLog, Sloppy, World};

/// A second writer: keeps changing one login's password.
#[derive(Debug, Clone)]
struct Writer {
    login: String,
    every: u64,
}

/// The run of one seed.
pub(crate) struct Run {
    /// The installation.
    pub(crate) world: World,
    writers: Vec<Writer>,
    snapshots: Vec<std::collections::BTreeMap<String, Account>>,
    wiped: std::collections::BTreeMap<String, u32>,
    put_aside: std::collections::BTreeMap<String, crate::backend::Want>,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// What was broken.
    pub(crate) broken: Vec<(Broken, String)>,
    /// What happened.
    pub(crate) trace: Vec<String>,
    /// Passes made.
    pub(crate) passes: usize,
}

/// Runs one seed to its end.
pub(crate) fn run(seed: u64, sloppy: Option<Sloppy>, traced: bool) -> Outcome {
    let mut run = Run {
        world: World::new(seed, sloppy, traced),
        writers: Vec::new(),
        snapshots: Vec::new(),
        wiped: Default::default(),
        put_aside: Default::default(),
    };
    let mut passes = 0;
    let troubled = 80 + run.world.rng.below(120);
    // Some seeds are wild, some have one trouble at a time.
    let often = 5 + run.world.rng.below(40);
    for number in 0..troubled {
        if run.world.rng.percent(often) {
            run.befall();
        }
        run.write(number);
        run.pass();
        passes += 1;
        if !run.world.judge.broken.is_empty() {
            break;
        }
    }
    if run.world.judge.broken.is_empty() {
        passes += run.rest();
    }
    Outcome {
        broken: std::mem::take(&mut run.world.judge.broken),
        trace: run.world.trace.take().unwrap_or_default(),
        passes,
    }
}

impl Run {
    fn pass(&mut self) -> PassLog {
        let world = &mut self.world;
        let soonest = world.now + Duration::from_secs(1);
        world.now = world.next_at.max(soonest);
        if world.rng.percent(85) {
            world.read_wish();
        }
        let log = world.pass();
        if log.died {
            world.restart(None, 0);
        }
        log
    }

    fn write(&mut self, number: u64) {
        for writer in &self.writers {
            if number.is_multiple_of(writer.every)
                && let Some(account) = self.world.back.accounts.get_mut(&writer.login)
            {
                account.password = 7;
            }
        }
    }

    /// All faults end, and people do what the conditions ask them to. Then everyone is held, and nothing
    /// happens any more.
    fn rest(&mut self) -> usize {
        self.world.note(|| "all faults end".to_owned());
        self.world.back.heal();
        self.writers.clear();
        let world = &mut self.world;
        world.dies_at = None;
        world.refused.clear();
        world.wish_unreadable = false;
        world.wish_partial = false;
        world.elsewhere.clear();
        world.paused_until = None;
        world.pauses.clear();
        world.vault_closed = false;
        for (consumer, password) in std::mem::take(&mut self.wiped) {
            world.vault.entry(consumer).or_insert(password);
        }
        if world.manifest.is_empty() {
            world.manifest = std::mem::take(&mut self.put_aside);
        }
        let end = self.world.now + Duration::from_secs(5 * 3600);
        let (mut passes, mut calm, mut last) = (0, 0, PassLog::default());
        while self.world.now < end && calm < 10 {
            if passes % 30 == 0 {
                self.people_help();
            }
            self.world.read_wish();
            last = self.pass();
            passes += 1;
            if !self.world.judge.broken.is_empty() {
                return passes;
            }
            let restless = last.steps + last.dirty > 0 || self.world.is_busy();
            calm = if restless || !self.world.unrest(&last).is_empty() {
                0
            } else {
                calm + 1
            };
        }
        self.world.expect_rest(&last);
        passes
    }

    fn people_help(&mut self) {
        self.approve_server();
        self.approve_removals();
        let world = &mut self.world;
        let wanted: Vec<String> = world.manifest.values().map(|w| w.login.clone()).collect();
        // A password that is lost is handed back.
        let lost = world.core.slots().iter().filter(|s| {
            let secret = s.wanted.as_ref().map(|w| &w.secret);
            matches!(secret, Some(SecretState::Lost(_)))
        });
        for consumer in lost.map(|s| s.consumer.to_string()).collect::<Vec<_>>() {
            world.passwords += 1;
            let given = world.passwords;
            world.vault.entry(consumer).or_insert(given);
        }
        // Logins of strangers that are in the way are taken away by hand.
        let strange = |a: &Account| !matches!(a.mark, Mark::Ours(_));
        world
            .back
            .accounts
            .retain(|login, a| !(strange(a) && wanted.contains(login)));
        // So are those with a mark that is damaged.
        world.back.accounts.retain(|_, a| a.mark != Mark::Damaged);
        let leaving = world.core.leavers();
        let leaving = leaving.filter(|one| one.departure.left_alone.is_some());
        let stuck: Vec<(String, String)> = leaving
            .map(|one| (one.consumer.to_string(), one.login.as_str().to_owned()))
            .collect();
        for (consumer, login) in stuck {
            let account = world.back.accounts.get(&login);
            let other = !matches!(account.map(|a| &a.mark), Some(Mark::Ours(c)) if *c == consumer);
            if other && !wanted.contains(&login) {
                world.back.accounts.remove(&login);
            }
            // Whatever is there now is judged anew by a person's word.
            world.core.release(Some(&named(&consumer)), world.now);
            world.judge.word(Some(&consumer));
        }
        let handed: Vec<String> = world
            .manifest
            .values()
            .filter(|w| matches!(world.back.accounts.get(&w.login), Some(a) if a.mark != Mark::Ours(w.consumer.clone())))
            .map(|w| w.login.clone())
            .collect();
        for login in handed {
            world.back.accounts.remove(&login);
        }
        if !world.caps.holds {
            world.core.release(None, world.now);
            world.judge.word(None);
        }
    }

    fn approve_server(&mut self) {
        let world = &mut self.world;
        let Some(shown) = world.core.server().changed_to.clone() else {
            return;
        };
        world.note(|| format!("a person approves the server {shown}"));
        world.core.approve_server();
        world.approved_identity = shown.strip_prefix("id").and_then(|n| n.parse().ok());
        world.judge.server_restarted();
    }
    fn approve_removals(&mut self) {
        let world = &mut self.world;
        let leaving = world.core.leaving();
        let these: BTreeSet<(String, String)> = leaving
            .removals
            .iter()
            .map(|(c, l)| (c.to_string(), l.as_str().to_owned()))
            .collect();
        world.note(|| format!("a person lets go {these:?}"));
        world.judge.approved(these);
        world.core.approve_removals(leaving);
    }

    fn befall(&mut self) {
        match self.world.rng.below(32) {
            0..=4 => self.server_event(),
            5..=9 => self.fault_event(),
            10..=14 => self.tamper(),
            15..=21 => self.wish_event(),
            22..=25 => self.process_event(),
            26..=28 => self.word(),
            29 => self.store_event(),
            _ => self.second_writer(),
        }
    }

    fn server_event(&mut self) {
        let world = &mut self.world;
        let back = &mut world.back;
        let what = world.rng.below(7);
        match what {
            0 => {
                self.snapshots.push(back.accounts.clone());
                back.accounts.clear();
            }
            1 => back.accounts.retain(|login, _| login.len() % 2 == 0),
            2 => {}
            3 => {
                if let Some(older) = world.rng.pick(&self.snapshots) {
                    back.accounts = older.clone();
                }
            }
            4 => {
                back.identity += 1;
                if world.rng.percent(50) {
                    back.accounts.clear();
                    if world.has_identity {
                        back.ever_ours.clear();
                    }
                    self.snapshots.clear();
                }
            }
            5 => return self.approve_server(),
            _ => {
                self.snapshots.push(back.accounts.clone());
                return;
            }
        }
        back.run += 1;
        if world.caps.server {
            world.judge.server_restarted();
        }
        world.note(|| format!("the server restarts ({what})"));
    }

    fn some_login(&mut self) -> Option<String> {
        let world = &mut self.world;
        let logins: Vec<String> = world.manifest.values().map(|w| w.login.clone()).collect();
        world.rng.pick(&logins).cloned()
    }

    fn fault_event(&mut self) {
        let login = self.some_login();
        let world = &mut self.world;
        let class = [
            Class::Busy,
            Class::Denied,
            Class::Unreachable,
            Class::Bug,
            Class::RefusedValue,
        ][world.rng.below(5) as usize];
        let (kind, on) = (world.rng.below(12), world.rng.percent(60));
        let lies = [
            ListLie::Empty,
            ListLie::FirstHalf,
            ListLie::SecondHalf,
            ListLie::EveryOther,
            ListLie::Twice,
            ListLie::Contradicts,
            ListLie::WithoutCanary,
        ];
        let lie = lies[world.rng.below(7) as usize];
        let looks = [
            LookFault::Fails(class),
            LookFault::Hangs,
            LookFault::Hangs,
            LookFault::SaysHeld,
            LookFault::SaysLost,
        ];
        let creates = [
            CreateFault::Fails(class),
            CreateFault::NoEffect,
            CreateFault::EffectButFails,
        ];
        let look = looks[world.rng.below(5) as usize];
        let create = creates[world.rng.below(3) as usize];
        world.note(|| format!("fault {kind} {on} at {login:?}: {look:?} {create:?}"));
        let back = &mut world.back;
        match (kind, login) {
            (0, _) => back.down = on,
            (1, _) => back.read_only = on,
            (2, _) => back.list_fails = on,
            (3 | 10, _) => back.list_lies = on.then_some(lie),
            (11, _) => back.uses_fail = on,
            (4, _) => back.remove_fails = on,
            (5..=7, Some(login)) if on => {
                back.looks.insert(login, look);
            }
            (8..=9, Some(login)) if on => {
                back.creates.insert(login, create);
            }
            (5..=7, _) => back.looks.clear(),
            _ => back.creates.clear(),
        }
    }

    fn tamper(&mut self) {
        let Some(mut login) = self.some_login() else {
            return;
        };
        let world = &mut self.world;
        let kind = world.rng.below(12);
        if world.rng.percent(30) {
            // A name that some consumer may come to ask for.
            login = format!("c{}-{}", world.rng.below(7), 2 * world.rng.below(2));
        }
        if kind >= 8 {
            return self.tamper_with_ours(kind == 8, login);
        }
        world.note(|| format!("somebody tampers with {login} ({kind})"));
        let fitting = world.rng.percent(40).then(|| {
            let wants = world.manifest.values();
            let mut of_login = wants.filter(|w| w.login == login);
            of_login
                .next()
                .and_then(|w| world.vault.get(&w.consumer).copied())
        });
        let back = &mut world.back;
        let elder = !back.ever_ours.contains(&login);
        let Some(account) = back.accounts.get_mut(&login) else {
            let account = Account {
                password: fitting.flatten().unwrap_or(9),
                grants: 1,
                enabled: true,
                mark: if kind < 3 { Mark::Foreign } else { Mark::Bare },
                elder,
            };
            back.accounts.insert(login, account);
            return;
        };
        match kind {
            0 | 1 => account.password = 8,
            2 => account.grants = 200,
            3 => account.enabled = !account.enabled,
            4 => account.mark = Mark::Bare,
            5 => account.mark = Mark::Foreign,
            6 => account.mark = Mark::Damaged,
            _ => {
                back.accounts.remove(&login);
            }
        }
    }

    /// A login with our mark that no record knows of; or one that leaves is used.
    fn tamper_with_ours(&mut self, makes: bool, login: String) {
        let world = &mut self.world;
        if !makes {
            let leavers = world.core.leavers();
            let logins: Vec<String> = leavers.map(|one| one.login.to_string()).collect();
            let used = world.rng.pick(&logins).cloned().unwrap_or(login);
            world.note(|| format!("{used} is used"));
            world.back.used.insert(used, world.now);
            return;
        }
        let n = world.rng.below(3);
        let (owner, login) = if world.rng.percent(50) {
            (format!("g{n}"), format!("g{n}-{}", world.rng.below(2)))
        } else {
            let owner = format!("c{}", world.rng.below(7));
            (owner.clone(), format!("{owner}-x{n}"))
        };
        world.note(|| format!("{login} is there, with our mark for {owner}"));
        let account = Account {
            password: 9,
            grants: 1,
            enabled: true,
            mark: Mark::Ours(owner),
            elder: false,
        };
        world.back.ever_ours.insert(login.clone());
        world.back.accounts.entry(login).or_insert(account);
    }

    fn wish_event(&mut self) {
        let kind = self.world.rng.below(18);
        let names: Vec<String> = self.world.manifest.keys().cloned().collect();
        let one = self.world.rng.pick(&names).cloned();
        let world = &mut self.world;
        world.note(|| format!("the manifest changes ({kind}) at {one:?}"));
        match (kind, one) {
            (0..=1, _) => {
                let fresh = format!("c{}", world.rng.below(9));
                if !world.manifest.contains_key(&fresh) {
                    world.wish_for_new(&fresh);
                }
            }
            (2..=4, Some(one)) => {
                world.manifest.remove(&one);
            }
            (5, _) => {
                if world.manifest.is_empty() {
                    world.manifest = std::mem::take(&mut self.put_aside);
                } else {
                    self.put_aside = std::mem::take(&mut world.manifest);
                }
            }
            (6, _) => world.wish_unreadable = !world.wish_unreadable,
            (7, Some(one)) if world.refused.contains(&one) => {
                world.refused.remove(&one);
            }
            (7, Some(one)) => {
                world.refused.insert(one);
            }
            (8, Some(one)) => {
                world.passwords += 1;
                let fresh = world.passwords;
                world.vault.entry(one).and_modify(|p| *p = fresh);
            }
            (14, _) => world.wish_partial = !world.wish_partial,
            (15, _) => world.canary = world.rng.percent(80),
            (16, _) => {
                let leavers = world.core.leavers();
                let leaving: Vec<String> = leavers.map(|one| one.login.to_string()).collect();
                let name = match world.rng.pick(&leaving) {
                    Some(one) if world.rng.percent(60) => one.clone(),
                    _ => format!("c{}", world.rng.below(9)),
                };
                if !world.elsewhere.remove(&name) {
                    world.elsewhere.insert(name);
                }
            }
            (kind, Some(one)) => {
                if let Some(want) = world.manifest.get_mut(&one) {
                    match kind {
                        9 => want.grants = want.grants % 3 + 1,
                        10 => want.login = format!("{one}-{}", want.login.len() % 4),
                        11 if world.caps.disable => want.enabled = !want.enabled,
                        12 => want.adopt = !want.adopt,
                        _ => want.login = one,
                    }
                }
            }
            _ => {}
        }
        world.read_wish();
    }

    fn process_event(&mut self) {
        let world = &mut self.world;
        let kind = world.rng.below(8);
        let jump = match world.rng.below(10) {
            0 => 60_000 * (world.rng.below(360) as i64 - 180),
            1 => 3_600_000 * (world.rng.below(60) as i64 - 30),
            _ => 0,
        };
        world.note(|| format!("a process ends ({kind}), the clock jumps by {jump} ms"));
        let other = match kind {
            0 => Some(Disk::default()),
            1 => world.rng.pick(&world.older).cloned(),
            2..=4 => {
                world.dies_at = Some(1 + world.rng.below(4));
                return;
            }
            _ => None,
        };
        world.restart(other, jump);
    }

    fn word(&mut self) {
        let names: Vec<String> = self.world.manifest.keys().cloned().collect();
        let one = self.world.rng.pick(&names).cloned();
        let kind = self.world.rng.below(8);
        let world = &mut self.world;
        world.note(|| format!("a person says ({kind}) {one:?}"));
        let until: Time = world.now + Duration::from_secs(60 * (1 + world.rng.below(40)));
        match (kind, one) {
            (0, _) => {
                world.core.release(None, world.now);
                world.judge.word(None);
            }
            (1, Some(one)) => {
                world.core.release(Some(&named(&one)), world.now);
                world.judge.word(Some(&one));
            }
            (2, _) => world.paused_until = Some(until),
            (3, Some(one)) => {
                world.pauses.insert(one, until);
            }
            (4, _) => self.approve_removals(),
            (5, _) => self.approve_server(),
            (7, _) => {
                let all = world.superseded();
                if let Some((consumer, login)) = world.rng.pick(&all).cloned() {
                    world.judge.retires(consumer.as_str(), login.as_str());
                    world.core.retire(&consumer, &login, world.now);
                }
            }
            _ => {
                world.core.hint();
                world.next_at = world.now;
            }
        }
    }

    fn store_event(&mut self) {
        let world = &mut self.world;
        let kind = world.rng.below(3);
        world.note(|| format!("the secret store ({kind})"));
        match kind {
            0 => {
                let gone = std::mem::take(&mut world.vault);
                self.wiped.extend(gone);
            }
            1 => world.vault_closed = true,
            _ => world.vault_closed = false,
        }
    }

    fn second_writer(&mut self) {
        if self.world.rng.percent(50) {
            self.writers.clear();
            return;
        }
        let every = [1, 1, 2, 5, 10, 20][self.world.rng.below(6) as usize];
        if let Some(login) = self.some_login() {
            self.world
                .note(|| format!("a second writer at {login}, every {every}"));
            self.writers.push(Writer { login, every });
        }
    }
}
