//! The manual's words, said: every command block of every page is run, in order, and its output compared.
//!
//! A page is played from an empty folder, by one bash, in namespaces of its own: the usual ports are free, and what it
//! started ends with it. In a block ```` ```console ```` a line `$ COMMAND` is run (`> ` goes on with it), must end with 0,
//! and must say the lines that follow; `...` alone stands for any lines, `[..]` for anything within one. A block
//! ```` ```toml FILE ```` is that file; ```` ```toml FILE + ```` is what is appended to it.

mod block;
mod play;

use std::path::{Path, PathBuf};
use std::time::Duration;

use block::Step;
use tokio::time::Instant;

/// The page that people meet first.
const FIRST: &str = "first-heal.md";

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Plays a page; answers what differs.
fn play(page: &str) {
    let text = std::fs::read_to_string(docs().join("manual").join(page)).expect(page);
    let steps = block::steps(&text).unwrap_or_else(|wrong| panic!("{page}: {wrong}"));
    let runs = steps.iter().any(|step| matches!(step, Step::Run { .. }));
    assert!(runs, "{page} has nothing to run");
    let differing = play::differing(&steps);
    assert!(differing.is_empty(), "{page}:\n{}", differing.join("\n"));
}

macro_rules! pages {
    ($($name:ident $page:literal)*) => {
        $(#[test]
        fn $name() {
            play($page);
        })*
        const PLAYED: &[&str] = &[FIRST, $($page),*];
    };
}

pages! {
    the_words_of_takeover "takeover.md"
    the_words_of_systemd "systemd.md"
    the_words_of_recovery "recovery.md"
    the_words_of_three_hosts "three-hosts.md"
    the_words_of_adapters "adapters.md"
}

/// From an empty folder, with the program present: the manual's words alone bring the first heal, in under a minute.
#[test]
fn the_words_of_first_heal_take_less_than_a_minute() {
    let began = Instant::now();
    play(FIRST);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?}");
}

/// A page with a command that nobody runs would rot.
#[test]
fn every_page_with_commands_is_played() {
    let mut pages: Vec<String> = std::fs::read_dir(docs().join("manual"))
        .expect("the manual")
        .map(|entry| {
            entry
                .expect("entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    pages.sort();
    for page in &pages {
        let text = std::fs::read_to_string(docs().join("manual").join(page)).expect("page");
        let steps = block::steps(&text).unwrap_or_else(|wrong| panic!("{page}: {wrong}"));
        let runs = steps.iter().any(|step| matches!(step, Step::Run { .. }));
        assert_eq!(runs, PLAYED.contains(&page.as_str()), "{page}");
    }
    let contents = std::fs::read_to_string(docs().join("README.md")).expect("contents");
    for page in &pages {
        assert!(
            contents.contains(&format!("(manual/{page})")),
            "{page} is not in docs/README.md"
        );
    }
}
