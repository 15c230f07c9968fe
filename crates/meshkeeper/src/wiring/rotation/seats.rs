//! What a journal asks of a provider: one login with one or two passwords, or two logins that take turns.

use mesh_loops::rotation::journal::{Journal, Seat, Way};
use mesh_sdk::decide::SecretState;
use mesh_sdk::{Secret, Wish};

use crate::manifest::Needed;
use crate::wiring::secrets::Known;

/// One login that is asked for.
pub struct Asked {
    /// The table of the manifest, as it is for this login.
    pub needed: Needed,
    /// Its password.
    pub password: Option<Secret>,
    /// Another one that is valid beside it.
    pub second: Option<Secret>,
    /// Whether the password can be had.
    pub state: SecretState,
}

impl Asked {
    /// One login with one password.
    pub fn of(needed: Needed, password: Option<Secret>, state: SecretState) -> Self {
        Self {
            needed,
            password,
            second: None,
            state,
        }
    }
    /// The wish of it.
    pub fn wish(&self, key: &Secret) -> Wish {
        self.needed
            .wish_beside(self.password.clone(), self.second.clone(), key)
    }
}

/// A seat's login.
pub fn seat_of(needed: &Needed, seat: Seat) -> Needed {
    match seat {
        Seat::First => needed.clone(),
        Seat::Second => needed.second(),
    }
}

/// What is asked for. `current` and `other`: the passwords that the journal names.
pub fn asked(
    needed: &Needed,
    journal: &Journal,
    current: Known,
    other: Option<Known>,
) -> Vec<Asked> {
    let (password, state) = ready(current);
    let beside = journal.beside().is_some();
    let needed_now = seat_of(needed, journal.in_use());
    if journal.way == Way::TwoPasswords {
        let second = match other.filter(|_| beside) {
            Some(Known::Version(secret)) if password.as_ref() != Some(&secret) => Some(secret),
            _ => None,
        };
        return vec![Asked {
            needed: needed_now,
            password,
            second,
            state,
        }];
    }
    let mut all = vec![Asked {
        needed: needed_now,
        password,
        second: None,
        state,
    }];
    if let (Some(held), Some(other)) = (&journal.other, other) {
        let mut needed = seat_of(needed, held.seat);
        needed.enabled &= beside;
        let (password, state) = ready(other);
        // To keep a login switched off no password is needed.
        let state = match needed.enabled {
            true => state,
            false => SecretState::Ready,
        };
        all.push(Asked {
            needed,
            password,
            second: None,
            state,
        });
    }
    all
}

fn ready(known: Known) -> (Option<Secret>, SecretState) {
    match known {
        Known::Version(secret) => (Some(secret), SecretState::Ready),
        Known::Missing(why) => (None, SecretState::Lost(why)),
        Known::Nothing => (
            None,
            SecretState::Lost("its journal names no password".to_owned()),
        ),
    }
}
