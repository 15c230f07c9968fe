//! Whether a stored verifier is the wish's password: remembered where it was worked out before, and worked
//! out aside where it was not, so that nobody's answer waits for anybody else's (H-17).

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, OnceLock};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use mesh_sdk::{Class, Cx, Error, Secret};
use tokio::task::{JoinHandle, spawn_blocking};

use super::compare::Wish;
use super::scram;
use super::values::PostgresOptions;

/// How many are worked out in one go. A go cannot be broken off: this many take some 20 ms.
const GO: usize = 16;
/// Never more cores than this: the apps of this machine want some too.
const MOST_CORES: usize = 4;

/// What is kept for each wish as long as it does not change.
#[derive(Default)]
pub(super) struct Expected {
    /// The verifier that was last worked out, and whether it is this password's.
    seen: Mutex<Option<(Box<str>, bool)>>,
    /// Our own, once it is needed.
    made: OnceLock<Result<String, Error>>,
    /// The comment that was last found to hold our mark and no other, and for whom.
    marked: Mutex<Option<(String, Box<str>)>>,
}

/// What is known of a login's password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// The stored verifier is this password's.
    Verified,
    /// It is of the old kind, and this password's.
    Old,
    /// A login with this password went well.
    LoggedIn,
    /// It is another password's, or there is none.
    Other,
    /// There is nothing to compare, or no way to.
    Untold,
    /// It has to be worked out.
    Unknown,
}

/// The memory of a wish.
pub(super) fn expected(wish: &Wish<'_>) -> Arc<Expected> {
    wish.memo(Expected::default)
}

impl Expected {
    fn remember(&self, stored: &str, fits: bool) {
        if let Ok(mut seen) = self.seen.lock() {
            *seen = Some((stored.into(), fits));
        }
    }
    fn known(&self, stored: &str) -> Option<bool> {
        let seen = self.seen.lock().ok()?;
        let (text, fits) = seen.as_ref()?;
        (text.as_ref() == stored).then_some(*fits)
    }
    /// Whether this comment was found to hold our mark and no other before.
    pub(super) fn is_marked(&self, by: &str, comment: &str) -> bool {
        self.marked.lock().is_ok_and(|marked| {
            let known = marked.as_ref();
            known.is_some_and(|(who, text)| who == by && text.as_ref() == comment)
        })
    }
    /// It was.
    pub(super) fn remember_mark(&self, by: String, comment: &str) {
        if let Ok(mut marked) = self.marked.lock() {
            *marked = Some((by, comment.into()));
        }
    }
    /// What is known without any work.
    pub(super) fn fit(&self, stored: &str) -> Fit {
        match self.known(stored) {
            None => Fit::Unknown,
            Some(false) => Fit::Other,
            Some(true) if scram::is_md5(stored) => Fit::Old,
            Some(true) => Fit::Verified,
        }
    }
    /// The verifier to store, once it was made.
    pub(super) fn made(&self) -> Result<String, Error> {
        let none = || Error::new(Class::Bug, "there is no verifier to store");
        self.made.get().cloned().ok_or_else(none)?
    }
    fn make(&self, password: &str, rounds: NonZeroU32) {
        let made = self.made.get_or_init(|| scram::make(password, rounds));
        if let Ok(made) = made {
            // Nobody has to work out what we made ourselves.
            self.remember(made, true);
        }
    }
}

/// One verifier to work out, or to make.
pub(super) struct Job {
    /// Which wish.
    pub(super) index: usize,
    expected: Arc<Expected>,
    password: Secret,
    what: What,
}

enum What {
    Prove { login: String, stored: String },
    Make { rounds: NonZeroU32 },
}

/// Rounds that one look works out before it rests: about two seconds on two cores, so that no other
/// login's repair waits for a first pass over many.
const ROUNDS_A_LOOK: u64 = 4 * 1024 * 1024;

/// As many of the first as one look works out; the others are for the next. One at least.
pub(super) fn of_one_look(mut jobs: Vec<Job>) -> (Vec<Job>, bool) {
    let mut rounds = 0;
    let fit = jobs.iter().take_while(|job| {
        let fits = rounds < ROUNDS_A_LOOK;
        rounds += job.rounds();
        fits
    });
    let fit = fit.count();
    let rests = fit < jobs.len();
    jobs.truncate(fit);
    (jobs, rests)
}

impl Job {
    fn rounds(&self) -> u64 {
        match &self.what {
            What::Prove { stored, .. } => u64::from(scram::rounds(stored).unwrap_or(1)),
            What::Make { rounds } => u64::from(rounds.get()),
        }
    }
    /// To find out whether a stored verifier is the wish's.
    pub(super) fn prove(index: usize, wish: &Wish<'_>, stored: &str) -> Option<Self> {
        Some(Self {
            index,
            expected: expected(wish),
            password: wish.password()?.clone(),
            what: What::Prove {
                login: wish.login().as_str().to_owned(),
                stored: stored.to_owned(),
            },
        })
    }
    /// To make one, unless it was made before.
    pub(super) fn make(index: usize, wish: &Wish<'_>, options: &PostgresOptions) -> Option<Self> {
        let expected = expected(wish);
        if expected.made.get().is_some() {
            return None;
        }
        let rounds = match wish.is_generated() {
            true => options.generated_rounds,
            false => options.given_rounds,
        };
        Some(Self {
            index,
            expected,
            password: wish.password()?.clone(),
            what: What::Make {
                rounds: NonZeroU32::new(rounds)?,
            },
        })
    }
    fn work(self) -> usize {
        // What is not UTF-8 was refused by the check; it fits nothing.
        let password = self.password.expose_str();
        match (self.what, password) {
            (What::Prove { login, stored }, Some(password)) => {
                let fits = scram::fits(password, &login, &stored);
                self.expected.remember(&stored, fits);
            }
            (What::Prove { stored, .. }, None) => self.expected.remember(&stored, false),
            (What::Make { rounds }, Some(password)) => self.expected.make(password, rounds),
            (What::Make { .. }, None) => {}
        }
        self.index
    }
}

/// Works all out on threads of their own, a few at once, and tells of each that is done.
pub(super) async fn work(
    cx: &Cx,
    jobs: Vec<Job>,
    mut done: impl FnMut(usize),
) -> Result<(), Error> {
    if jobs.is_empty() {
        return Ok(());
    }
    let cores = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(MOST_CORES);
    let _computing = cx.computing();
    // A few are shared out evenly, too: no core is done while another has most of them left.
    let most = GO.min(jobs.len().div_ceil(cores));
    let mut waiting = jobs.into_iter();
    let mut running: FuturesUnordered<JoinHandle<Vec<usize>>> = FuturesUnordered::new();
    loop {
        while running.len() < cores {
            let go: Vec<Job> = waiting.by_ref().take(most).collect();
            if go.is_empty() {
                break;
            }
            running.push(spawn_blocking(|| go.into_iter().map(Job::work).collect()));
        }
        let Some(finished) = running.next().await else {
            return Ok(());
        };
        let finished =
            finished.map_err(|_| Error::new(Class::Bug, "a verifier was not worked out"))?;
        finished.into_iter().for_each(&mut done);
    }
}
