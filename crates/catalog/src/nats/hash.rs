//! bcrypt, which is slow on purpose: made and proven off the loop's threads, several at a time.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use bcrypt::Version;
use mesh_sdk::{Class, Cx, Error, Secret};
use tokio::task::JoinSet;

use super::compare::Wish;

/// What a password that Meshkeeper made is hashed with: no guessing reaches 190 random bits, however
/// quick the hash.
pub(super) const QUICK: u32 = 4;
/// bcrypt uses no more bytes of a password.
pub(super) const LONGEST: usize = 72;
/// How many are worked on at the same time.
const AT_ONCE: usize = 4;

/// The hash that was made of this wish's password, or that was proven to be one of it.
#[derive(Default)]
pub(super) struct Known(Mutex<Option<String>>);

impl Known {
    pub(super) fn of(wish: &Wish<'_>) -> Arc<Self> {
        wish.memo(Known::default)
    }
    pub(super) fn is(&self, stored: &str) -> bool {
        self.0
            .lock()
            .is_ok_and(|known| known.as_deref() == Some(stored))
    }
    pub(super) fn keep(&self, stored: &str) {
        if let Ok(mut known) = self.0.lock() {
            *known = Some(stored.to_owned());
        }
    }
}

/// Whether a stored text is a hash, as the server tells it.
pub(super) fn is_hash(stored: &str) -> bool {
    let rest = stored.strip_prefix("$2");
    let rest = rest.and_then(|rest| rest.strip_prefix(['a', 'b', 'x', 'y']));
    rest.is_some_and(|rest| rest.starts_with('$') && stored.len() == 60)
}

/// Something slow.
pub(super) enum Job {
    /// Whether the password fits the hash.
    Prove(Secret, String),
    /// A new hash.
    Make(Secret, u32),
}

/// What came of it.
pub(super) enum Done {
    Proven(bool),
    Made(String),
}

/// Stops the work when whoever waits for it is gone.
struct Wanted(Arc<AtomicBool>);

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Does all of them, in their order.
pub(super) async fn work(cx: &Cx, jobs: Vec<Job>) -> Result<Vec<Done>, Error> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let _computing = cx.computing();
    let wanted = Wanted(Arc::new(AtomicBool::new(true)));
    let each = jobs.len().div_ceil(AT_ONCE);
    let mut jobs = jobs.into_iter().enumerate();
    let mut tasks = JoinSet::new();
    loop {
        let part: Vec<(usize, Job)> = jobs.by_ref().take(each).collect();
        if part.is_empty() {
            break;
        }
        let wanted = Arc::clone(&wanted.0);
        tasks.spawn_blocking(move || -> Result<Vec<(usize, Done)>, Error> {
            let go_on = |_: &(usize, Job)| wanted.load(Ordering::Relaxed);
            part.into_iter()
                .take_while(go_on)
                .map(|(at, job)| Ok((at, one(job)?)))
                .collect()
        });
    }
    let mut all = Vec::new();
    while let Some(part) = tasks.join_next().await {
        all.extend(part.map_err(|_| failed())??);
    }
    all.sort_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, done)| done).collect())
}

fn one(job: Job) -> Result<Done, Error> {
    match job {
        // A hash that cannot be read is not one of this password.
        Job::Prove(password, stored) => Ok(Done::Proven(
            bcrypt::verify(password.expose(), &stored).unwrap_or(false),
        )),
        Job::Make(password, cost) => {
            // bcrypt leaves the rest away, without a word.
            if password.len() > LONGEST {
                return Err(failed());
            }
            let made = bcrypt::hash_with_result(password.expose(), cost).map_err(|_| failed())?;
            Ok(Done::Made(made.format_for_version(Version::TwoA)))
        }
    }
}

fn failed() -> Error {
    Error::new(Class::Bug, "a password could not be hashed")
}

#[cfg(test)]
mod tests {
    //! What is made proves its password, and no other.
    use super::*;

    #[tokio::test]
    async fn h17_a_hash_proves_its_password_alone() {
        let cx = Cx::default();
        let longest = "x".repeat(72);
        let make = |text: &str| Job::Make(Secret::from(text), QUICK);
        let made = work(&cx, vec![make("one"), make(&longest), make("$2a$04$x")]).await;
        let hashes: Vec<String> = made
            .expect("made")
            .into_iter()
            .map(|done| match done {
                Done::Made(hash) => hash,
                Done::Proven(_) => panic!("not asked for"),
            })
            .collect();
        assert!(
            hashes
                .iter()
                .all(|h| is_hash(h) && h.starts_with("$2a$04$"))
        );
        let pairs = [
            ("one", 0, true),
            (longest.as_str(), 1, true),
            (&longest[..71], 1, false),
            ("$2a$04$x", 2, true),
            ("one", 2, false),
        ];
        let jobs = pairs
            .iter()
            .map(|(text, at, _)| Job::Prove(Secret::from(*text), hashes[*at].clone()));
        let proven = work(&cx, jobs.collect()).await.expect("proven");
        for ((text, at, wanted), done) in pairs.iter().zip(proven) {
            assert!(
                matches!(done, Done::Proven(fits) if fits == *wanted),
                "{text} {at}"
            );
        }
        let broken = Job::Prove(Secret::from("x"), "$2a$04$short".to_owned());
        assert!(matches!(
            work(&cx, vec![broken]).await.expect("done")[..],
            [Done::Proven(false)]
        ));
    }

    #[test]
    fn o08_more_than_72_bytes_are_never_cut() {
        assert!(one(Job::Make(Secret::from("x".repeat(73)), QUICK)).is_err());
    }
}
