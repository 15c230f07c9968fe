//! Many at once: worked out once, and then compared.

use std::time::Instant;

use super::{in_folder, wish};

#[tokio::test(flavor = "multi_thread")]
#[allow(
    clippy::disallowed_methods,
    reason = "a figure for people, not a decision"
)]
async fn h16_what_was_proven_once_is_not_worked_out_again() {
    const MANY: usize = 1_000;
    let (_folder, _path, ours) = in_folder();
    let of = || {
        (0..MANY)
            .map(|n| wish(&format!("app-{n:04}")))
            .collect::<Vec<_>>()
    };
    let wishes = of();
    let begun = Instant::now();
    ours.made_all(&wishes).await;
    let made = begun.elapsed();
    // Whoever wrote a hash knows it; whoever starts anew has to work each one out, once.
    let anew = of();
    let mut took = Vec::new();
    for wishes in [&wishes, &anew, &anew] {
        let begun = Instant::now();
        assert!(ours.all_held(wishes).await);
        took.push(begun.elapsed());
    }
    println!("{MANY} at cost 5: made in {made:?}, looked at in {took:?}");
    assert!(
        took[0] * 4 < took[1],
        "what was just written was proven: {took:?}"
    );
    assert!(took[2] * 4 < took[1], "it was proven again: {took:?}");
}
