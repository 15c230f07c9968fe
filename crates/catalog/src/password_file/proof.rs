//! Bcrypt: made, proven, and not proven twice. It is dear by design, so it is spread over all processors.

use std::sync::{Arc, Mutex};
use std::thread::available_parallelism;

use mesh_sdk::{Class, Error, Provision, Secret};

use super::Wish;
use super::file::blocking;
use super::format::Format;

/// The longest password that bcrypt looks at whole, in bytes.
pub(super) const LONGEST: usize = 72;
/// The least cost for a password that was made from random bits, and for one that a person chose.
const COSTS: (u32, u32) = (5, 10);
/// The costs that may be asked for.
pub(super) const ALLOWED_COSTS: std::ops::RangeInclusive<u32> = 5..=14;
/// Dearer ones are not worked out: somebody else's line must not hold us up for minutes.
const DEAREST: u32 = 15;
/// How many hashes one task works out before the next answer can be given.
const PART: usize = 4;
/// Rounds of bcrypt that one look works out before it rests: 64 hashes of cost 10, about two seconds on two
/// cores, so that no other login's repair waits for a first pass over many.
pub(super) const ROUNDS_A_LOOK: u64 = 64 << 10;

/// The hash that was last proven to be of a wish's password.
#[derive(Default)]
pub(super) struct Proven(Mutex<Option<Vec<u8>>>);

/// What is remembered for a wish.
pub(super) fn proven<V: 'static>(wish: &Provision<'_, V>) -> Arc<Proven> {
    wish.memo(Proven::default)
}

impl Proven {
    pub(super) fn is(&self, hash: &[u8]) -> bool {
        self.0
            .lock()
            .is_ok_and(|kept| kept.as_deref() == Some(hash))
    }
    pub(super) fn keep(&self, hash: &[u8]) {
        if let Ok(mut kept) = self.0.lock() {
            *kept = Some(hash.to_vec());
        }
    }
}

/// The least cost that a wish asks for, and whether exactly that.
pub(super) fn asked_cost<F: Format>(wish: &Wish<'_, F>) -> (u32, bool) {
    match F::cost(wish.values()) {
        Some(cost) => (cost, true),
        None if wish.is_generated() => (COSTS.0, false),
        None => (COSTS.1, false),
    }
}

/// The cost that a hash shows, if it is bcrypt's.
pub(crate) fn cost_of(hash: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(hash).ok()?;
    let mut parts = text.strip_prefix('$')?.split('$');
    let is_bcrypt = matches!(parts.next()?, "2a" | "2b" | "2x" | "2y");
    let cost = parts.next()?.parse().ok()?;
    (is_bcrypt && text.len() == 60).then_some(cost)
}

/// What working a hash out costs: none if it is not worked out at all.
pub(super) fn rounds(hash: &[u8]) -> u64 {
    let cost = cost_of(hash).filter(|cost| *cost <= DEAREST);
    cost.map_or(0, |cost| 1 << cost)
}

/// How many of the first one look works out, given what each takes. One at least.
pub(super) fn fit(each: impl Iterator<Item = u64>, most: u64) -> usize {
    let mut sum = 0;
    let fits = |rounds: &u64| {
        let fits = sum < most;
        sum += rounds;
        fits
    };
    each.take_while(fits).count()
}

/// Whether each hash is of its password, in the order of the questions.
pub(super) async fn prove(questions: Vec<(Secret, Vec<u8>)>) -> Result<Vec<bool>, Error> {
    each(questions, |(password, hash)| Ok(fits(&password, &hash))).await
}

/// Whether a hash is of a kind that is worked out here.
pub(super) fn can_be_proven(hash: &[u8]) -> bool {
    cost_of(hash).is_some_and(|cost| cost <= DEAREST)
}

fn fits(password: &Secret, hash: &[u8]) -> bool {
    if password.len() > LONGEST || !can_be_proven(hash) {
        return false;
    }
    let text = std::str::from_utf8(hash).unwrap_or_default();
    bcrypt::verify(password.expose(), text).unwrap_or(false)
}

/// A new hash for each password, in their order.
pub(super) async fn make(passwords: Vec<(Secret, u32)>) -> Result<Vec<Vec<u8>>, Error> {
    each(passwords, |(password, cost)| {
        let refused = || {
            let message = "`password`: bcrypt takes 1 to 72 bytes without NUL";
            Error::new(Class::RefusedValue, message)
        };
        // The library would cut a longer one, and its way not to takes 71 bytes only.
        if password.len() > LONGEST || password.expose().contains(&0) {
            return Err(refused());
        }
        let made = bcrypt::hash_with_result(password.expose(), cost).map_err(|_| refused())?;
        Ok(made.format_for_version(bcrypt::Version::TwoY).into_bytes())
    })
    .await
}

/// Works all off, as many at a time as there are processors. Whoever stops waiting leaves no more behind
/// than the few that are being worked out.
async fn each<I: Send + 'static, O: Send + 'static>(
    items: Vec<I>,
    work: fn(I) -> Result<O, Error>,
) -> Result<Vec<O>, Error> {
    let workers = available_parallelism().map_or(1, usize::from);
    let mut all = Vec::with_capacity(items.len());
    let mut items = items.into_iter();
    loop {
        let mut running = Vec::new();
        for _ in 0..workers {
            let part: Vec<I> = items.by_ref().take(PART).collect();
            if !part.is_empty() {
                let task = move || {
                    part.into_iter()
                        .map(work)
                        .collect::<Result<Vec<O>, Error>>()
                };
                running.push(tokio::spawn(blocking(task)));
            }
        }
        if running.is_empty() {
            return Ok(all);
        }
        for task in running {
            match task.await {
                Ok(part) => all.extend(part?),
                Err(_) => return Err(Error::new(Class::Bug, "a hash was not worked out")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Hashes that other programs read, and those that they made.
    use super::*;

    #[tokio::test]
    async fn h17_hashes_are_made_for_every_reader_and_proven_from_any() {
        let secret = || Secret::from("Zürich\"'\\%41");
        let made = make(vec![(secret(), 5), (Secret::from("x"), 6)]).await;
        let made = made.expect("hashes");
        assert!(
            made.iter()
                .all(|hash| hash.starts_with(b"$2y$") && hash.len() == 60)
        );
        assert_eq!((cost_of(&made[0]), cost_of(&made[1])), (Some(5), Some(6)));
        // Made by `htpasswd -nbB -C 5 web secret`.
        let theirs = b"$2y$05$XIgpPCI3XE9sF71..3HIcezdt6XJvE1WkyS4QHsumg7S51lvstS.a".to_vec();
        let told = prove(vec![
            (secret(), made[0].clone()),
            (secret(), made[1].clone()),
            (Secret::from("secret"), theirs.clone()),
            (Secret::from("Secret"), theirs),
            (Secret::from("x"), b"{SHA}x".to_vec()),
            (Secret::from("x"), b"".to_vec()),
            (
                Secret::from("x"),
                b"$2y$31$XIgpPCI3XE9sF71..3HIcezdt6XJvE1WkyS4QHsumg7S51lvstS.a".to_vec(),
            ),
        ]);
        assert_eq!(
            told.await,
            Ok(vec![true, false, true, false, false, false, false])
        );
    }

    #[test]
    fn h16_a_look_works_out_what_it_has_time_for_and_one_at_least() {
        let fit = |each: &[u64]| fit(each.iter().copied(), ROUNDS_A_LOOK);
        assert_eq!(fit(&[1 << 10; 100]), 64);
        assert_eq!(fit(&[1 << 5; 3_000]), 2_048);
        assert_eq!(
            fit(&[0; 3_000]),
            3_000,
            "what is not worked out costs nothing"
        );
        assert_eq!(fit(&[1 << 20, 1]), 1);
        assert_eq!(fit(&[]), 0);
        let hash =
            |cost| format!("$2y${cost}$XIgpPCI3XE9sF71..3HIcezdt6XJvE1WkyS4QHsumg7S51lvstS.a");
        let told = ["05", "10", "31"].map(|cost| rounds(hash(cost).as_bytes()));
        assert_eq!(told, [1 << 5, 1 << 10, 0]);
    }

    #[tokio::test]
    async fn o08_no_more_than_bcrypt_looks_at() {
        let long = |end: &str| Secret::from(format!("{}{end}", "a".repeat(72)));
        let refused = make(vec![(long("X"), 5)])
            .await
            .map_err(|error| error.class());
        assert_eq!(refused, Err(Class::RefusedValue));
        let most = make(vec![(long(""), 5)]).await.expect("a hash");
        let told = prove(vec![
            (long(""), most[0].clone()),
            (long("Y"), most[0].clone()),
        ]);
        assert_eq!(told.await, Ok(vec![true, false]));
    }
}
