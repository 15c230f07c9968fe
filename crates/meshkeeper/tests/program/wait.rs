//! Waiting for a state, for at most so long; the last state stands in the failure.

use std::fmt::Debug;
use std::time::Duration;

use tokio::time::Instant;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

#[expect(
    clippy::disallowed_methods,
    reason = "the only sleep of these tests: between two looks at a state"
)]
pub(crate) fn rest() {
    std::thread::sleep(LOOK);
}

/// Looks until it is as wanted. `look` answers what was wanted, or the state as it is.
pub(crate) fn until<T, S: Debug>(
    what: &str,
    seconds: u64,
    mut look: impl FnMut() -> Result<T, S>,
) -> T {
    let began = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(state) if began.elapsed() >= Duration::from_secs(seconds) => {
                panic!("{what}: not within {seconds} s; the last state: {state:#?}")
            }
            Err(_) => rest(),
        }
    }
}

/// The same for a yes or no, with a state to tell.
pub(crate) fn until_true<S: Debug>(what: &str, seconds: u64, mut look: impl FnMut() -> (bool, S)) {
    until(what, seconds, || match look() {
        (true, _) => Ok(()),
        (false, state) => Err(state),
    });
}

/// That something stays so for a while: the only way to see that nothing happens.
pub(crate) fn stays<S: Debug>(what: &str, length: Duration, mut look: impl FnMut() -> (bool, S)) {
    let began = Instant::now();
    while began.elapsed() < length {
        let (fine, state) = look();
        assert!(
            fine,
            "{what}: not so after {:?}; the state: {state:#?}",
            began.elapsed()
        );
        rest();
    }
}
