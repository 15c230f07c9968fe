//! The file itself: replaced whole, with its owner and mode, and nobody's change lost.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mesh_conformance::servers::htpasswd;
use mesh_sdk::adapter::FindingLevel;
use mesh_sdk::{Class, Difference};

use super::bench::settings;
use super::{Ours, in_folder, read, wish, wish_with};

#[tokio::test(flavor = "multi_thread")]
async fn owner_mode_and_all_other_lines_stay() {
    let (_folder, path, ours) = in_folder();
    let web = wish("web");
    ours.made(&web).await;
    let mode = |path: &std::path::Path| std::fs::metadata(path).expect("it").mode() & 0o7777;
    assert_eq!(mode(&path), 0o640, "a new file");

    let others = b"# first\r\nann:{SHA}x:Ann\r\n\n  odd\n\xff\xfe:$apr1$x$y\nlast:no end";
    std::fs::write(&path, others).expect("written");
    let private = std::fs::Permissions::from_mode(0o604);
    std::fs::set_permissions(&path, private).expect("set");
    // Another owner can only be kept by root, as which the tests run where it matters.
    let is_root = std::os::unix::fs::chown(&path, Some(12345), Some(23456)).is_ok();
    ours.made(&web).await;
    let bytes = std::fs::read(&path).expect("the file");
    assert!(bytes.starts_with(others));
    let data = std::fs::metadata(&path).expect("it");
    assert_eq!(data.mode() & 0o7777, 0o604);
    if is_root {
        assert_eq!((data.uid(), data.gid()), (12345, 23456));
    }
    ours.remove(&web).await.expect("removed");
    let left = std::fs::read(&path).expect("the file");
    assert_eq!(left, [&others[..], b"\n"].concat());
    let findings = ours.adapter.doctor(&ours.cx).await.expect("doctor");
    let warned = |about: &str| {
        findings
            .iter()
            .any(|one| one.about == about && one.level == FindingLevel::Warning)
    };
    assert!(warned("mode") && warned("hashes"), "{findings:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_is_followed_and_stays_a_link() {
    let (folder, path, ours) = in_folder();
    let target = folder.path().join("elsewhere");
    std::fs::create_dir(&target).expect("a folder");
    std::fs::write(target.join("real"), "ann:x\n").expect("written");
    symlink("elsewhere/real", &path).expect("a link");
    ours.made(&wish("web")).await;
    assert!(path.is_symlink());
    assert!(read(&target.join("real")).starts_with("ann:x\n# mk1."));
    let left = std::fs::read_dir(&target).expect("it").count();
    assert_eq!(left, 1, "something was left beside it");
    // A link to nothing is not guessed at.
    std::fs::remove_file(target.join("real")).expect("gone");
    let error = ours.holds(&wish("web")).await.expect_err("unknown");
    assert_eq!(error.class(), Class::Unreachable, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn h7_a_folder_that_is_not_there_is_unknown_and_a_file_is_empty() {
    let (folder, path, ours) = in_folder();
    match ours.holds(&wish("web")).await {
        Ok(mesh_sdk::Answer::Lost(lost)) => assert!(lost.differences.contains(Difference::Absent)),
        other => panic!("{other:?}"),
    }
    assert!(!path.exists(), "a look wrote");
    let nowhere = Ours::on(settings(&folder.path().join("away/users")));
    for error in [
        nowhere.holds(&wish("web")).await.expect_err("unknown"),
        nowhere.create(&wish("web")).await.expect_err("unknown"),
    ] {
        assert_eq!(error.class(), Class::Unreachable, "{error}");
    }
    let a_folder = Ours::on(settings(folder.path()));
    let error = a_folder.holds(&wish("web")).await.expect_err("unknown");
    assert_eq!(error.class(), Class::RefusedValue, "{error}");
}

/// The new content cannot be put beside the file: the file stays as it is, and the error says why.
#[tokio::test(flavor = "multi_thread")]
async fn a6_nothing_is_half_written_where_nothing_can_be_written() {
    let (folder, path, ours) = in_folder();
    let web = wish("web");
    ours.made(&web).await;
    let before = read(&path);
    let in_the_way = folder.path().join(".users.mesh-new");
    std::fs::create_dir(&in_the_way).expect("a folder");
    let other = wish_with("api", |_| ());
    let error = ours.create(&other).await.expect_err("refused");
    assert!(error.message().contains(".users.mesh-new"), "{error}");
    assert_eq!(read(&path), before);
    std::fs::remove_dir(&in_the_way).expect("gone");
    // What a writer that was killed left there is no more in the way.
    std::fs::write(&in_the_way, "half").expect("written");
    ours.made(&other).await;
    assert!(!in_the_way.exists() && read(&path).starts_with(&before));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_never_sees_half_and_writers_lose_nothing_of_each_other() {
    const EACH: usize = 40;
    let (_folder, path, ours) = in_folder();
    ours.made(&wish("first")).await;
    let done = Arc::new(AtomicBool::new(false));
    let (stop, seen) = (Arc::clone(&done), path.clone());
    let reader = std::thread::spawn(move || {
        let mut looks = 0_u64;
        while !stop.load(Ordering::Relaxed) {
            let text = read(&seen);
            assert!(
                text.contains("\nfirst:$2y$") && text.ends_with('\n'),
                "{text}"
            );
            looks += 1;
        }
        looks
    });
    let writers: Vec<_> = ["a", "b", "c"]
        .into_iter()
        .map(|who| {
            let ours = Ours::on(settings(&path));
            tokio::spawn(async move {
                for n in 0..EACH {
                    let one = wish(&format!("{who}-{n}"));
                    ours.create(&one).await.expect("created");
                    if n % 2 == 0 {
                        ours.remove(&one).await.expect("removed");
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("no panic");
    }
    done.store(true, Ordering::Relaxed);
    let looks = reader.join().expect("no half file");
    assert!(looks > 10, "{looks} looks");
    let text = read(&path);
    for who in ["a", "b", "c"] {
        for n in 0..EACH {
            let line = format!("\n{who}-{n}:$2y$");
            assert_eq!(text.contains(&line), n % 2 == 1, "{who}-{n}");
        }
    }
    assert_eq!(text.matches("mk1.").count(), 1 + 3 * EACH / 2);
}

/// Somebody replaces the file as editors do, as often as possible, while we write.
#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_replaces_meanwhile_is_built_upon() {
    let (folder, path, ours) = in_folder();
    std::fs::write(&path, "theirs-0:x\n").expect("written");
    let (file, beside) = (path.clone(), folder.path().join("edited"));
    let done = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&done);
    let other = std::thread::spawn(move || {
        let mut edits = 0_u64;
        while !stop.load(Ordering::Relaxed) {
            // They change their own line and keep all others, by what they read last.
            let text = read(&file);
            let old = format!("theirs-{edits}:x\n");
            assert!(
                text.contains(&old),
                "their own change {edits} was lost: {text}"
            );
            edits += 1;
            let text = text.replace(&old, &format!("theirs-{edits}:x\n"));
            std::fs::write(&beside, text).expect("written");
            std::fs::rename(&beside, &file).expect("renamed");
            std::thread::park_timeout(std::time::Duration::from_millis(3));
        }
        edits
    });
    for n in 0..30 {
        let one = wish(&format!("app-{n}"));
        // They take no lock, so now and then they put an older content of ours back: law 1 sees it.
        while !matches!(ours.holds(&one).await, Ok(mesh_sdk::Answer::Held(_))) {
            match ours.create(&one).await {
                Ok(()) => {}
                Err(error) => assert_eq!(error.class(), Class::Busy, "{error}"),
            }
        }
    }
    done.store(true, Ordering::Relaxed);
    let edits = other.join().expect("nothing of theirs was lost");
    assert!(edits > 5, "{edits} edits");
}

#[tokio::test(flavor = "multi_thread")]
async fn r11_apaches_program_keeps_the_mark_and_takes_none_over() {
    let (_folder, path, ours) = in_folder();
    let (web, api) = (wish("web"), wish("api"));
    ours.made(&web).await;
    ours.made(&api).await;
    let file = path.display().to_string();
    htpasswd(&["-b", "-B", &file, "web", "other"])
        .await
        .expect("set");
    match ours.holds(&web).await {
        Ok(mesh_sdk::Answer::Lost(lost)) => {
            assert_eq!(lost.mark, mesh_sdk::MarkSeen::Ours);
            assert_eq!(lost.differences, Difference::Password.into());
        }
        other => panic!("{other:?}"),
    }
    htpasswd(&["-D", &file, "web"]).await.expect("dropped");
    htpasswd(&["-b", "-B", &file, "web", "other"])
        .await
        .expect("set");
    match ours.holds(&web).await {
        Ok(mesh_sdk::Answer::Lost(lost)) => assert_eq!(lost.mark, mesh_sdk::MarkSeen::None),
        other => panic!("{other:?}"),
    }
    ours.made(&api).await;
    assert_eq!(read(&path).matches("mk1.").count(), 2);
}
