//! The secret store: sealed, bound to its place, and never without its key.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use mesh_bus::vault::{FILE, KEY_FILE, KeySource, SealedVault};
use mesh_sdk::name::{ConsumerName, ProviderName};
use mesh_sdk::secret::Secret;
use mesh_sdk::vault::{SecretId, Vault, VaultFault};

use crate::contents;

const PLANTED: &str = "planted-3f9c/ä+password?";

fn provider(name: &str) -> ProviderName {
    ProviderName::new(name).expect("name")
}
fn consumer(name: &str) -> ConsumerName {
    ConsumerName::new(name).expect("name")
}
fn open(folder: &Path) -> SealedVault {
    SealedVault::open(folder, &KeySource::Folder).expect("the vault opens")
}
fn why_not(folder: &Path, source: &KeySource) -> VaultFault {
    match SealedVault::open(folder, source) {
        Ok(_) => panic!("it opens"),
        Err(fault) => fault,
    }
}
async fn keep(vault: &SealedVault, name: &str, secret: &str) -> SecretId {
    let (cache, name, secret) = (provider("cache"), consumer(name), Secret::from(secret));
    vault.keep(&cache, &name, &secret).await.expect("kept")
}

#[tokio::test]
async fn s7_a_secret_comes_back_also_after_reopening() {
    let folder = tempfile::tempdir().expect("folder");
    let (cache, web) = (provider("cache"), consumer("web"));
    let vault = open(folder.path());
    let first = keep(&vault, "web", "first-password").await;
    let second = keep(&vault, "web", PLANTED).await;
    assert_ne!(first, second);
    drop(vault);
    let vault = open(folder.path());
    assert_eq!(
        vault.ids(&cache, &web).await,
        Ok(vec![second.clone(), first])
    );
    assert_eq!(
        vault.open(&cache, &web, &second).await,
        Ok(Some(Secret::from(PLANTED)))
    );
    let unknown = SecretId("0".repeat(32));
    assert_eq!(vault.open(&cache, &web, &unknown).await, Ok(None));
    assert_eq!(vault.ids(&cache, &consumer("api")).await, Ok(vec![]));
    assert_eq!(vault.ids(&provider("cache2"), &web).await, Ok(vec![]));
}

#[tokio::test]
async fn s3_a_planted_secret_is_in_no_file_in_any_form() {
    let folder = tempfile::tempdir().expect("folder");
    let vault = open(folder.path());
    let id = keep(&vault, "web", PLANTED).await;
    vault
        .keep_many(
            &provider("cache"),
            vec![(consumer("api"), Secret::from(PLANTED))],
        )
        .await
        .expect("kept");
    let key = fs::read(folder.path().join(KEY_FILE)).expect("key");
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let mut forms = vec![
        PLANTED.as_bytes().to_vec(),
        hex(PLANTED.as_bytes()).into_bytes(),
        hex(PLANTED.as_bytes()).to_uppercase().into_bytes(),
    ];
    for lead in ["", "a", "ab"] {
        // At each alignment, without the characters that share bits with what is around.
        let text = format!("{lead}{PLANTED}");
        for form in [STANDARD.encode(&text), URL_SAFE.encode(&text)] {
            let inner = form.trim_end_matches('=');
            let from = if lead.is_empty() { 0 } else { 4 };
            forms.push(inner.as_bytes()[from..inner.len() - 1].to_vec());
        }
    }
    let check = |when: &str| {
        for (name, bytes) in contents(folder.path()) {
            for form in &forms {
                let found = bytes.windows(form.len()).any(|window| window == form);
                assert!(
                    !found,
                    "{when}: {name} holds {:?}",
                    String::from_utf8_lossy(form)
                );
            }
            if name != KEY_FILE {
                assert!(
                    !bytes.windows(32).any(|window| window == key),
                    "{name} holds the key"
                );
            }
        }
    };
    check("while it is open");
    vault
        .discard(&provider("cache"), &consumer("web"), &id)
        .await
        .expect("discarded");
    drop(vault);
    check("after it was closed");
}

#[tokio::test]
async fn s3_a_lost_key_is_told_and_never_made_anew() {
    let folder = tempfile::tempdir().expect("folder");
    let id = keep(&open(folder.path()), "web", PLANTED).await;
    let path = folder.path().join(KEY_FILE);
    let key = fs::read(&path).expect("key");
    fs::remove_file(&path).expect("lose");
    let lost = VaultFault::KeyLost(path.display().to_string());
    assert_eq!(why_not(folder.path(), &KeySource::Folder), lost);
    let read_only = SealedVault::open_read_only(folder.path(), &KeySource::Folder).err();
    assert_eq!(read_only, Some(lost));
    assert!(!path.exists(), "a key was made");
    // The documented recovery: it is put back.
    fs::write(&path, key).expect("put back");
    let opened = open(folder.path())
        .open(&provider("cache"), &consumer("web"), &id)
        .await;
    assert_eq!(opened, Ok(Some(Secret::from(PLANTED))));
}

#[tokio::test]
async fn s3_a_key_is_lost_even_if_nothing_was_sealed_yet() {
    // Marks and digests hang on it as well.
    let folder = tempfile::tempdir().expect("folder");
    drop(open(folder.path()));
    fs::remove_file(folder.path().join(KEY_FILE)).expect("lose");
    assert!(matches!(
        why_not(folder.path(), &KeySource::Folder),
        VaultFault::KeyLost(_)
    ));
}

#[tokio::test]
async fn s3_a_file_that_is_not_the_key_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().expect("folder");
    keep(&open(folder.path()), "web", PLANTED).await;
    let path = folder.path().join(KEY_FILE);
    for wrong in [vec![], vec![1; 31], vec![1; 32], vec![1; 33]] {
        fs::write(&path, &wrong).expect("write");
        let fault = why_not(folder.path(), &KeySource::Folder);
        assert!(matches!(fault, VaultFault::Unusable(_)), "{fault:?}");
        assert_eq!(fs::read(&path).expect("key"), wrong);
    }
}

#[tokio::test]
async fn s3_a_key_kept_elsewhere_is_used_and_never_made() {
    let folder = tempfile::tempdir().expect("folder");
    let data = folder.path().join("data");
    let elsewhere = KeySource::File(folder.path().join("credential"));
    assert!(matches!(
        why_not(&data, &elsewhere),
        VaultFault::Unusable(_)
    ));
    fs::write(folder.path().join("credential"), [7; 32]).expect("key");
    let vault = SealedVault::open(&data, &elsewhere).expect("open");
    let id = keep(&vault, "web", PLANTED).await;
    let opened = vault.open(&provider("cache"), &consumer("web"), &id).await;
    assert_eq!(opened, Ok(Some(Secret::from(PLANTED))));
    drop(vault);
    assert!(!data.join(KEY_FILE).exists());
    fs::remove_file(folder.path().join("credential")).expect("lose");
    assert!(matches!(why_not(&data, &elsewhere), VaultFault::KeyLost(_)));
}

#[tokio::test]
async fn s3_key_and_store_are_their_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("folder");
    let data = folder.path().join("data");
    let vault = open(&data);
    keep(&vault, "web", PLANTED).await;
    let mode = |path: PathBuf| fs::metadata(path).expect("meta").permissions().mode() & 0o777;
    assert_eq!(mode(data.clone()), 0o700);
    for (name, _) in contents(&data) {
        assert_eq!(mode(data.join(&name)), 0o600, "{name}");
    }
    drop(vault);
    let key = data.join(KEY_FILE);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("widen");
    drop(open(&data));
    assert_eq!(mode(key), 0o600);
}

fn change(folder: &Path, sql: &str) {
    let conn = rusqlite::Connection::open(folder.join(FILE)).expect("open");
    assert!(conn.execute(sql, []).expect("change") > 0, "{sql}");
}

#[tokio::test]
async fn s4_an_envelope_that_was_moved_or_damaged_does_not_open_and_is_not_empty() {
    let changes = [
        "UPDATE secret SET consumer = 'api' WHERE consumer = 'web'",
        "UPDATE secret SET envelope = zeroblob(length(envelope))",
        "UPDATE secret SET envelope = substr(envelope, 1, length(envelope) - 1)",
        "UPDATE secret SET envelope = substr(envelope, 1, 3)",
        "UPDATE secret SET envelope = x''",
        "UPDATE secret SET envelope = (SELECT envelope FROM secret ORDER BY n DESC LIMIT 1)",
    ];
    for sql in changes {
        let folder = tempfile::tempdir().expect("folder");
        let id = {
            let vault = open(folder.path());
            let id = keep(&vault, "web", PLANTED).await;
            keep(&vault, "other", "another-password").await;
            id
        };
        change(folder.path(), sql);
        let vault = open(folder.path());
        let owner = if sql.contains("'api'") { "api" } else { "web" };
        let opened = vault.open(&provider("cache"), &consumer(owner), &id).await;
        let sealed = VaultFault::Sealed {
            provider: provider("cache"),
            consumer: consumer(owner),
        };
        assert_eq!(opened, Err(sealed.clone()), "{sql}");
        let which = [(consumer(owner), id.clone())];
        let these = vault.open_these(&provider("cache"), &which).await;
        assert_eq!(these.expect("read"), [Err(sealed.clone())], "{sql}");
        // One that does not open does not stop the others.
        let all = vault.open_many(&provider("cache")).await.expect("read");
        assert_eq!(all.len(), 2, "{sql}");
        assert!(
            all.iter().any(|kept| kept.secret == Err(sealed.clone())),
            "{sql}"
        );
    }
}

#[tokio::test]
async fn s4_an_empty_secret_is_not_kept() {
    let folder = tempfile::tempdir().expect("folder");
    let vault = open(folder.path());
    let kept = vault
        .keep(&provider("cache"), &consumer("web"), &Secret::from(""))
        .await;
    assert!(matches!(kept, Err(VaultFault::Unusable(_))));
    assert_eq!(
        vault.ids(&provider("cache"), &consumer("web")).await,
        Ok(vec![])
    );
}

#[tokio::test]
async fn s7_discarding_a_loser_takes_it_alone() {
    let folder = tempfile::tempdir().expect("folder");
    let vault = open(folder.path());
    let (cache, web) = (provider("cache"), consumer("web"));
    let (winner, loser) = (
        keep(&vault, "web", "winner-secret").await,
        keep(&vault, "web", PLANTED).await,
    );
    vault
        .discard(&cache, &consumer("api"), &loser)
        .await
        .expect("nothing");
    assert_eq!(
        vault.ids(&cache, &web).await,
        Ok(vec![loser.clone(), winner.clone()])
    );
    vault
        .discard(&cache, &web, &loser)
        .await
        .expect("discarded");
    vault
        .discard(&cache, &web, &loser)
        .await
        .expect("again is fine");
    assert_eq!(vault.ids(&cache, &web).await, Ok(vec![winner.clone()]));
    assert_eq!(vault.open(&cache, &web, &loser).await, Ok(None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h22_many_are_kept_at_once_and_opened_at_once() {
    let folder = tempfile::tempdir().expect("folder");
    let vault = std::sync::Arc::new(open(folder.path()));
    let name = |n: usize| consumer(&format!("c{n}"));
    let secrets = (0..500)
        .map(|n| (name(n), Secret::from(format!("password-{n}"))))
        .collect();
    let ids = vault
        .keep_many(&provider("cache"), secrets)
        .await
        .expect("kept");
    let singles: Vec<_> = (500..600)
        .map(|n| {
            let vault = std::sync::Arc::clone(&vault);
            tokio::spawn(async move {
                let secret = Secret::from(format!("password-{n}"));
                vault.keep(&provider("cache"), &name(n), &secret).await
            })
        })
        .collect();
    for single in singles {
        single.await.expect("task").expect("kept");
    }
    keep(&vault, "c0", "password-0-later").await;
    let all = vault.open_many(&provider("cache")).await.expect("read");
    assert_eq!(all.len(), 601);
    assert!(all[..500].iter().zip(&ids).all(|(kept, id)| kept.id == *id));
    for kept in &all[..600] {
        let text = kept.consumer.as_str().replace('c', "password-");
        assert_eq!(kept.secret, Ok(Secret::from(text)));
    }
    assert_eq!(all[600].secret, Ok(Secret::from("password-0-later")));
    // Some by name, and in the order that was asked for: whoever has none is told so.
    let asked = ["c7", "none", "c0", "c599"].map(consumer);
    let newest = vault.newest_of(&provider("cache"), &asked).await;
    let newest = newest.expect("read");
    for (consumer, id) in asked.iter().zip(&newest) {
        let ids = vault.ids(&provider("cache"), consumer).await.expect("read");
        assert_eq!(ids.first(), id.as_ref(), "{consumer}");
    }
    let id = |at: usize| newest[at].clone().expect("one");
    let which = [
        (consumer("c0"), id(2)),
        (consumer("c7"), id(2)),
        (consumer("c7"), id(0)),
    ];
    let opened = vault.open_these(&provider("cache"), &which).await;
    let wanted = [
        Ok(Some(Secret::from("password-0-later"))),
        // Another's.
        Ok(None),
        Ok(Some(Secret::from("password-7"))),
    ];
    assert_eq!(opened.expect("read"), wanted);
    assert!(
        vault
            .open_many(&provider("other"))
            .await
            .expect("read")
            .is_empty()
    );
}

#[tokio::test]
async fn s3_marks_and_digests_have_keys_of_their_own_that_last() {
    let folder = tempfile::tempdir().expect("folder");
    let vault = open(folder.path());
    let (mark, digest) = (vault.mark_key(), vault.digest_key());
    assert_ne!(mark, digest);
    assert_eq!((mark.len(), digest.len()), (32, 32));
    let key = Secret::new(fs::read(folder.path().join(KEY_FILE)).expect("key"));
    assert!(key != mark && key != digest);
    drop(vault);
    let vault = open(folder.path());
    assert_eq!((vault.mark_key(), vault.digest_key()), (mark, digest));
    let other = tempfile::tempdir().expect("folder");
    assert_ne!(open(other.path()).mark_key(), vault.mark_key());
}

#[tokio::test]
async fn h18_the_installations_id_lies_beside_its_secrets() {
    let folder = tempfile::tempdir().expect("folder");
    let vault = open(folder.path());
    assert_eq!(vault.installation(), None);
    vault.belong("inst1").await.expect("kept");
    drop(vault);
    let before = contents(folder.path());
    let vault = open(folder.path());
    assert_eq!(vault.installation(), Some("inst1"));
    vault.belong("inst1").await.expect("again");
    drop(vault);
    assert_eq!(contents(folder.path()), before, "again changes nothing");
    let look = SealedVault::open_read_only(folder.path(), &KeySource::Folder);
    let look = look.expect("look").expect("it is there");
    assert_eq!(look.installation(), Some("inst1"));
    assert!(look.belong("inst2").await.is_err(), "only for reading");
    open(folder.path()).belong("inst2").await.expect("kept");
    assert_eq!(open(folder.path()).installation(), Some("inst2"));
}

#[tokio::test]
async fn s7_reading_only_makes_nothing_and_reads_everything() {
    let folder = tempfile::tempdir().expect("folder");
    let data = folder.path().join("data");
    let glimpse = || SealedVault::open_read_only(&data, &KeySource::Folder).expect("look");
    assert!(glimpse().is_none());
    assert!(!data.exists());
    let id = keep(&open(&data), "web", PLANTED).await;
    let before = contents(&data);
    let vault = glimpse().expect("it is there");
    let opened = vault.open(&provider("cache"), &consumer("web"), &id).await;
    assert_eq!(opened, Ok(Some(Secret::from(PLANTED))));
    assert_eq!(
        vault
            .open_many(&provider("cache"))
            .await
            .expect("read")
            .len(),
        1
    );
    let kept = vault
        .keep(
            &provider("cache"),
            &consumer("web"),
            &Secret::from("password"),
        )
        .await;
    assert!(matches!(kept, Err(VaultFault::Unusable(_))));
    drop(vault);
    assert_eq!(contents(&data), before);
    // The store was lost, the key was not: it still judges marks, and knows no secret.
    fs::remove_file(data.join(FILE)).expect("lose");
    let vault = glimpse().expect("the key is there");
    assert_eq!(
        vault.ids(&provider("cache"), &consumer("web")).await,
        Ok(vec![])
    );
}

#[tokio::test]
async fn s7_a_store_that_is_exchanged_under_a_running_program_keeps_nothing_new() {
    let folder = tempfile::tempdir().expect("folder");
    let vault = open(folder.path());
    keep(&vault, "web", PLANTED).await;
    fs::remove_file(folder.path().join(FILE)).expect("wipe");
    let kept = vault
        .keep(
            &provider("cache"),
            &consumer("web"),
            &Secret::from("password"),
        )
        .await;
    assert!(matches!(kept, Err(VaultFault::Unusable(_))), "{kept:?}");
    let ids = vault.ids(&provider("cache"), &consumer("web")).await;
    assert!(matches!(ids, Err(VaultFault::Unusable(_))), "{ids:?}");
}

#[tokio::test]
async fn s7_a_sealed_copy_opens_at_its_place_with_the_same_key_and_nowhere_else() {
    let (one, two) = (tempfile::tempdir(), tempfile::tempdir());
    let (one, two) = (one.expect("folder"), two.expect("folder"));
    let (cache, web) = (provider("cache"), consumer("web"));
    let vault = open(one.path());
    let id = keep(&vault, "web", PLANTED).await;
    let copy = vault.sealed(&cache, &web, &id).await.expect("read");
    let copy = copy.expect("it is here");
    let bytes = STANDARD.decode(&copy).expect("base64");
    assert!(!String::from_utf8_lossy(&bytes).contains("planted"));
    // Another host of the installation.
    fs::copy(one.path().join(KEY_FILE), two.path().join(KEY_FILE)).expect("copied");
    let other = open(two.path());
    assert_eq!(other.key_name(), vault.key_name());
    assert_eq!(other.sealed(&cache, &web, &id).await, Ok(None));
    let opened = other.open_copy(&cache, &web, &id, &copy);
    assert_eq!(opened, Ok(Secret::from(PLANTED)));
    assert!(
        other
            .open_copy(&cache, &consumer("api"), &id, &copy)
            .is_err()
    );
    assert!(other.open_copy(&cache, &web, &id, "no base64").is_err());
    let moved = (consumer("api"), id.clone(), copy.clone());
    for n in [1, 1] {
        // Again changes nothing, and what is moved to another place is left out.
        let copies = vec![(web.clone(), id.clone(), copy.clone()), moved.clone()];
        assert_eq!(other.keep_copies(&cache, copies).await, Ok(n));
    }
    assert_eq!(other.ids(&cache, &web).await, Ok(vec![id.clone()]));
    assert_eq!(other.ids(&cache, &consumer("api")).await, Ok(vec![]));
    drop(other);
    let other = open(two.path());
    assert_eq!(
        other.open(&cache, &web, &id).await,
        Ok(Some(Secret::from(PLANTED)))
    );
    // A stranger's key opens nothing.
    let three = tempfile::tempdir().expect("folder");
    let stranger = open(three.path());
    assert_ne!(stranger.key_name(), vault.key_name());
    assert!(stranger.open_copy(&cache, &web, &id, &copy).is_err());
    let copies = vec![(web.clone(), id.clone(), copy)];
    assert_eq!(stranger.keep_copies(&cache, copies).await, Ok(0));
}
