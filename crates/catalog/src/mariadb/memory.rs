//! What was found in order is remembered, so that rows that are the same as before cost their comparison and
//! nothing else. What was not in order is never remembered: it is judged anew each time.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, DefaultHasher, Hasher};
use std::sync::{Arc, Mutex, OnceLock};

use mesh_sdk::{Answer, Error, Held, Marker, Proof};

use super::compare::{Wish, diff, owned};
use super::read::Seen;
use super::verifier::Verifiers;

/// What is kept for each wish as long as it does not change.
#[derive(Default)]
pub(super) struct Expected {
    verifiers: OnceLock<Verifiers>,
    /// The fingerprint under which it was last found as asked, and the server's second up to which that
    /// judgement stands: then a password is too old.
    held: Mutex<Option<(u64, i64)>>,
}

/// The memory of a wish.
pub(super) fn expected(wish: &Wish<'_>) -> Arc<Expected> {
    wish.memo(Expected::default)
}

impl Expected {
    /// The verifiers of the wish's password, worked out once.
    pub(super) fn verifiers(&self, wish: &Wish<'_>) -> Option<&Verifiers> {
        let password = wish.password()?;
        Some(self.verifiers.get_or_init(|| Verifiers::of(password)))
    }
    fn is_held(&self, print: u64, now: i64) -> bool {
        let known = self.held.lock().ok().and_then(|held| *held);
        known.is_some_and(|(known, until)| known == print && now <= until)
    }
    fn remember(&self, found: Option<(u64, i64)>) {
        if let Ok(mut held) = self.held.lock() {
            *held = found;
        }
    }
}

/// One look that may remember: what holds for all wishes in it is in its fingerprints already.
///
/// A fingerprint is SipHash under a key that this process drew for itself and tells nobody, so that no
/// rows can be made to look like others: a change has one chance in 2^64 to be overlooked.
pub(super) struct Judge<'a> {
    seen: &'a Seen,
    marker: Option<&'a Marker>,
    begun: DefaultHasher,
}

impl<'a> Judge<'a> {
    /// For wishes of one provider.
    pub(super) fn new(seen: &'a Seen, wishes: &[Wish<'a>], keys: &RandomState) -> Self {
        let marker = wishes.first().map(|wish| wish.marker());
        let mut begun = keys.build_hasher();
        if let Some(marker) = marker {
            begun.write(marker.own_prefix().as_bytes());
        }
        begun.write_u8(u8::MAX);
        seen.hash_common(&mut begun);
        Self {
            seen,
            marker,
            begun,
        }
    }

    /// Whether a wish is held: as it was, where all that it was judged by is the same, byte by byte.
    pub(super) fn answer(&self, wish: &Wish<'_>) -> Result<Answer, Error> {
        let may_remember = self
            .marker
            .is_some_and(|marker| std::ptr::eq(marker, wish.marker()));
        if !may_remember {
            return Ok(diff(wish, self.seen)?.answer(wish, self.seen.open()));
        }
        let expected = expected(wish);
        let (print, now) = (self.print(wish), self.seen.age().now);
        let plain = Held {
            proof: match wish.password() {
                Some(_) => Proof::Verifier,
                None => Proof::Presence,
            },
            warning: None,
        };
        // Databases are no rows of the login's.
        let has = |database: &str| self.seen.has_database(database);
        if expected.is_held(print, now) && owned(wish.values()).all(has) {
            return Ok(Answer::Held(plain));
        }
        let found = diff(wish, self.seen)?;
        let until = found.stands_until;
        let answer = found.answer(wish, self.seen.open());
        let is_plain = answer == Answer::Held(plain);
        expected.remember(is_plain.then_some((print, until)));
        Ok(answer)
    }

    fn print(&self, wish: &Wish<'_>) -> u64 {
        let mut state = self.begun.clone();
        state.write_u8(u8::from(wish.exact()));
        self.seen.hash_of(wish.login().as_str(), &mut state);
        state.finish()
    }
}
