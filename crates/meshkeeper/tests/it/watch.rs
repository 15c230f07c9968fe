//! The watch on real folders: what changes is told once, and what cannot be read is never an empty wish.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use meshkeeper::watch::{Cause, Change, Pace, Unreadable, Watch};

use crate::manifest::{GOOD, kinds};

const PACE: Pace = Pace {
    poll: Duration::from_millis(100),
    quiet: Duration::from_millis(15),
    patience: Duration::from_secs(2),
};

async fn next(watch: &mut Watch) -> Change {
    let change = tokio::time::timeout(Duration::from_secs(10), watch.next()).await;
    change.expect("a change within ten seconds")
}

async fn nothing(watch: &mut Watch) {
    let change = tokio::time::timeout(Duration::from_millis(400), watch.next()).await;
    if let Ok(change) = change {
        panic!("nothing changed, and yet: {change:?}");
    }
}

fn cause(change: &Change) -> Cause {
    match change {
        Change::Reloaded { cause, .. } => *cause,
        Change::Unreadable(why) => panic!("unreadable: {}", why.summary()),
    }
}

fn unreadable(change: Change) -> Unreadable {
    match change {
        Change::Unreadable(why) => why,
        Change::Reloaded { .. } => panic!("it was read"),
    }
}

fn write(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(&beside, path).unwrap();
}

async fn begun(folder: &Path) -> Watch {
    begun_at(folder, PACE).await
}

async fn begun_at(folder: &Path, pace: Pace) -> Watch {
    let path = folder.join("mesh.toml");
    std::fs::create_dir_all(folder.join("secrets")).unwrap();
    std::fs::write(folder.join("secrets/api"), "long enough").unwrap();
    write(&path, GOOD);
    let mut watch = Watch::start(path, kinds(), pace);
    assert_eq!(cause(&next(&mut watch).await), Cause::First);
    watch
}

#[tokio::test]
async fn a_manifest_that_was_read_already_is_not_told_again_and_what_is_new_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mesh.toml");
    std::fs::create_dir_all(folder.path().join("secrets")).unwrap();
    let secret = folder.path().join("secrets/api");
    std::fs::write(&secret, "long enough").unwrap();
    write(&path, GOOD);
    let read = || {
        meshkeeper::manifest::read(&path, &kinds())
            .unwrap()
            .manifest
            .unwrap()
    };
    let mut watch = Watch::start_with(Arc::new(read()), kinds(), PACE);
    nothing(&mut watch).await;
    watch.trigger().fire();
    assert_eq!(cause(&next(&mut watch).await), Cause::Asked);
    std::fs::write(&secret, "another one, and longer").unwrap();
    assert_eq!(cause(&next(&mut watch).await), Cause::Files);
    write(&path, &format!("{GOOD}\n# more\n"));
    assert_eq!(cause(&next(&mut watch).await), Cause::Text);

    let early = Arc::new(read());
    write(&path, &format!("{GOOD}\n# before it was watched\n"));
    let mut watch = Watch::start_with(early, kinds(), PACE);
    assert_eq!(cause(&next(&mut watch).await), Cause::Text);
}

#[tokio::test]
async fn a_changed_text_is_told_once_and_a_touched_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mesh.toml");
    let mut watch = begun(folder.path()).await;
    nothing(&mut watch).await;
    write(&path, &GOOD.replace("web:*", "www:*"));
    assert_eq!(cause(&next(&mut watch).await), Cause::Text);
    nothing(&mut watch).await;
    write(&path, &GOOD.replace("web:*", "www:*"));
    nothing(&mut watch).await;
    std::fs::write(&path, GOOD).unwrap();
    assert_eq!(cause(&next(&mut watch).await), Cause::Text);
    std::fs::write(folder.path().join("other"), "x").unwrap();
    nothing(&mut watch).await;
}

#[tokio::test]
async fn r8_o36_what_cannot_be_read_is_told_as_such_once_and_the_way_back_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mesh.toml");
    let mut watch = begun(folder.path()).await;
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(
        unreadable(next(&mut watch).await),
        Unreadable::File(_)
    ));
    nothing(&mut watch).await;
    write(&path, GOOD);
    assert_eq!(cause(&next(&mut watch).await), Cause::Text);
    for broken in ["", "[mesh]\nid = \"home\"\n[consumer.web", "consumer = 3"] {
        write(&path, broken);
        let why = unreadable(next(&mut watch).await);
        assert!(matches!(why, Unreadable::Mistakes(_)), "{broken}");
        assert!(why.summary().contains("mesh.toml:"), "{}", why.summary());
    }
    nothing(&mut watch).await;
    write(&path, GOOD);
    assert_eq!(cause(&next(&mut watch).await), Cause::Text);
}

#[tokio::test]
async fn h3_a_bad_entry_is_a_reading_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let mut watch = begun(folder.path()).await;
    write(
        &folder.path().join("mesh.toml"),
        &GOOD.replace("[\"web:*\"]", "[\"\"]"),
    );
    match next(&mut watch).await {
        Change::Reloaded {
            manifest, problems, ..
        } => {
            assert_eq!((manifest.provisions.len(), manifest.refused.len()), (1, 1));
            assert_eq!(problems.errors(), 1);
        }
        Change::Unreadable(why) => panic!("{}", why.summary()),
    }
}

#[tokio::test]
async fn a_changed_secret_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secrets/api");
    let mut watch = begun(folder.path()).await;
    std::fs::write(&secret, "another, longer one").unwrap();
    assert_eq!(cause(&next(&mut watch).await), Cause::Files);
    nothing(&mut watch).await;
    std::fs::remove_file(&secret).unwrap();
    assert_eq!(cause(&next(&mut watch).await), Cause::Files);
}

#[tokio::test]
async fn a_reading_that_is_asked_for_is_told_without_a_change() {
    let folder = tempfile::tempdir().unwrap();
    let mut watch = begun(folder.path()).await;
    watch.trigger().fire();
    assert_eq!(cause(&next(&mut watch).await), Cause::Asked);
    nothing(&mut watch).await;
}

#[tokio::test]
async fn a_folder_that_is_replaced_is_followed_by_the_poll() {
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("etc");
    std::fs::create_dir(&folder).unwrap();
    let mut watch = begun(&folder).await;
    std::fs::rename(&folder, base.path().join("old")).unwrap();
    std::fs::create_dir_all(folder.join("secrets")).unwrap();
    std::fs::write(folder.join("secrets/api"), "long enough").unwrap();
    std::fs::write(folder.join("mesh.toml"), GOOD.replace("web:*", "new:*")).unwrap();
    loop {
        // In between there was no file, which may have been seen.
        match next(&mut watch).await {
            Change::Unreadable(Unreadable::File(_)) => {}
            change => break assert_eq!(cause(&change), Cause::Text),
        }
    }
    write(&folder.join("mesh.toml"), GOOD);
    assert_eq!(cause(&next(&mut watch).await), Cause::Text);
}

#[tokio::test]
async fn o36_a_file_that_is_still_being_written_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mesh.toml");
    let calm = Pace {
        quiet: Duration::from_millis(500),
        patience: Duration::from_secs(9),
        ..PACE
    };
    let mut watch = begun_at(folder.path(), calm).await;
    let text = GOOD.replace("web:*", "www:*");
    let writer = tokio::spawn(async move {
        for end in (0..=text.len())
            .step_by(text.len() / 40)
            .chain([text.len()])
        {
            std::fs::write(&path, &text[..end]).unwrap();
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    });
    match next(&mut watch).await {
        Change::Reloaded {
            manifest, cause, ..
        } => {
            assert_eq!((cause, manifest.provisions.len()), (Cause::Text, 2));
        }
        Change::Unreadable(why) => panic!("half a file was read: {}", why.summary()),
    }
    writer.await.unwrap();
}
