//! Whole commands, with everything that they print and their exit codes.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::manifest::GOOD;
use crate::program::{Variables, built, mesh, mesh_with};

fn folder_with(manifest: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mesh.toml"), manifest).unwrap();
    folder
}

fn with_secret(folder: &Path, content: &[u8]) {
    std::fs::create_dir_all(folder.join("secrets")).unwrap();
    std::fs::write(folder.join("secrets/api"), content).unwrap();
}

#[test]
fn help_is_for_a_tired_operator() {
    let folder = tempfile::tempdir().unwrap();
    insta::assert_snapshot!(
        "help",
        built(folder.path(), &["--help"]).whole(folder.path())
    );
    for word in [
        "check", "status", "rotate", "import", "approve", "retire", "purge",
    ] {
        let ran = built(folder.path(), &[word, "--help"]);
        insta::assert_snapshot!(format!("help_{word}"), ran.whole(folder.path()));
    }
}

#[test]
fn usage_errors_exit_64_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    for args in [
        &[][..],
        &["chekc"],
        &["check", "--nope"],
        &["explain"],
        &["status", "--watch", "soon"],
        &["pause", "web", "--for", "0s"],
        &["approve", "everything", "cache"],
        &["check", "--color", "blue"],
        &["-v", "--quiet", "check"],
        &["adapters", "nope"],
        &["init", "--id", "Not A Name"],
    ] {
        let ran = built(folder.path(), args);
        assert_eq!(
            (ran.code, ran.out.as_str()),
            (64, ""),
            "{args:?}: {}",
            ran.err
        );
        assert!(!ran.err.is_empty(), "{args:?}");
    }
    assert!(!folder.path().join("mesh.toml").exists());
}

#[test]
fn check_says_that_a_good_manifest_is_in_order() {
    let folder = folder_with(GOOD);
    with_secret(folder.path(), b"long enough\n");
    let set = Variables::of(&[("SHELF_ADMIN", "long enough too")]);
    let ran = mesh_with(&set, folder.path(), &["check"]);
    insta::assert_snapshot!(ran.whole(folder.path()));
    let ran = mesh_with(&set, folder.path(), &["check", "--json"]);
    insta::assert_snapshot!(ran.whole(folder.path()));
}

#[test]
fn s4_o28_check_warns_of_a_secret_that_is_not_there_and_refuses_one_that_cannot_be() {
    let folder = folder_with(GOOD);
    let ran = mesh(folder.path(), &["check"]);
    insta::assert_snapshot!("check_missing_secrets", ran.whole(folder.path()));
    let set = Variables::of(&[("SHELF_ADMIN", "short")]);
    with_secret(folder.path(), b"two lines\nplanted-7f3a");
    let ran = mesh_with(&set, folder.path(), &["check"]);
    insta::assert_snapshot!("check_bad_secrets", ran.whole(folder.path()));
    assert!(!ran.out.contains("planted"));
    for content in [
        &b""[..],
        b"\n",
        b"a\0bcdefghij",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ] {
        with_secret(folder.path(), content);
        assert_eq!(mesh(folder.path(), &["check"]).code, 1, "{content:?}");
    }
}

#[test]
fn check_tells_every_mistake_and_exits_1() {
    let text = GOOD
        .replace("boards = [\"web:*\"]", "bords = [\"web:*\"]")
        .replace("5 min", "5");
    let folder = folder_with(&text);
    let ran = mesh(folder.path(), &["check"]);
    insta::assert_snapshot!(ran.whole(folder.path()));
    let ran = mesh(folder.path(), &["check", "--json"]);
    insta::assert_snapshot!(ran.whole(folder.path()));
}

#[test]
fn r8_check_of_what_is_no_manifest_exits_1() {
    let folder = tempfile::tempdir().unwrap();
    insta::assert_snapshot!(
        "check_no_file",
        mesh(folder.path(), &["check"]).whole(folder.path())
    );
    let ran = mesh(folder.path(), &["check", "--json"]);
    insta::assert_snapshot!("check_no_file_json", ran.whole(folder.path()));
    std::fs::write(
        folder.path().join("mesh.toml"),
        "[mesh]\nid = \"home\npassword = \"planted\"\n",
    )
    .unwrap();
    let ran = mesh(folder.path(), &["check"]);
    insta::assert_snapshot!("check_no_toml", ran.whole(folder.path()));
}

#[test]
fn colours_are_used_when_asked_for_and_never_in_a_pipe() {
    let folder = folder_with(&GOOD.replace("5 min", "5"));
    assert!(!mesh(folder.path(), &["check"]).out.contains('\u{1b}'));
    assert!(
        mesh(folder.path(), &["check", "--color", "always"])
            .out
            .contains('\u{1b}')
    );
    let usage = built(folder.path(), &["chekc"]);
    assert!(!usage.err.contains('\u{1b}'));
}

#[test]
fn init_writes_a_manifest_that_is_in_order_once() {
    let folder = tempfile::tempdir().unwrap();
    let ran = mesh(folder.path(), &["init", "--id", "home"]);
    insta::assert_snapshot!("init", ran.whole(folder.path()));
    let manifest = folder.path().join("mesh.toml");
    let text = std::fs::read_to_string(&manifest).unwrap();
    insta::assert_snapshot!("init_manifest", text);
    let data = std::fs::metadata(folder.path().join("mesh-data")).unwrap();
    assert_eq!(data.permissions().mode() & 0o777, 0o700);
    let ran = mesh(folder.path(), &["check"]);
    assert_eq!(ran.code, 0, "{}", ran.out);
    let ran = mesh(folder.path(), &["init"]);
    insta::assert_snapshot!("init_again", ran.whole(folder.path()));
    assert_eq!(std::fs::read_to_string(&manifest).unwrap(), text);
}

#[test]
fn init_makes_ids_that_differ_and_a_private_folder() {
    let ids: Vec<String> = (0..2)
        .map(|_| {
            let folder = tempfile::tempdir().unwrap();
            let ran = built(folder.path(), &["init", "--json"]);
            assert_eq!(ran.code, 0, "{}", ran.err);
            let told: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
            told["mesh"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_ne!(ids[0], ids[1]);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("open");
    std::fs::create_dir(&data).unwrap();
    std::fs::set_permissions(&data, PermissionsExt::from_mode(0o755)).unwrap();
    let ran = mesh(folder.path(), &["init", "--data", data.to_str().unwrap()]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("chmod 700"), "{}", ran.err);
    assert!(!folder.path().join("mesh.toml").exists());
}

#[test]
fn the_manifest_that_init_shows_is_in_order_once_uncommented() {
    let folder = tempfile::tempdir().unwrap();
    mesh(folder.path(), &["init", "--id", "home"]);
    let path = folder.path().join("mesh.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let keys = [
        "[provider",
        "[consumer",
        "kind",
        "url",
        "admin",
        "verify_every",
    ];
    let open = |line: &str| match line.strip_prefix("# ") {
        Some(code) if keys.iter().any(|key| code.starts_with(key)) => code.to_owned(),
        _ => line.to_owned(),
    };
    let text: Vec<String> = text.lines().map(open).collect();
    std::fs::write(
        &path,
        text.join("\n").replace("\"default\"", "\"keeper\"") + "\nboards = []\n",
    )
    .unwrap();
    let set = Variables::of(&[("CACHE_ADMIN", "long enough")]);
    let ran = mesh_with(&set, folder.path(), &["check"]);
    assert_eq!(ran.code, 0, "{}", ran.out);
    assert!(ran.out.contains("1 provision on 1 provider"), "{}", ran.out);
}

#[test]
fn a1_adapters_shows_what_each_can_and_cannot() {
    let folder = tempfile::tempdir().unwrap();
    insta::assert_snapshot!(
        "adapters",
        mesh(folder.path(), &["adapters"]).whole(folder.path())
    );
    let ran = mesh(folder.path(), &["adapters", "shelf"]);
    insta::assert_snapshot!("adapters_shelf", ran.whole(folder.path()));
    let ran = mesh(folder.path(), &["adapters", "shef"]);
    insta::assert_snapshot!("adapters_unknown", ran.whole(folder.path()));
    let ran = mesh(folder.path(), &["adapters", "--json", "--quiet"]);
    let told: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(told[0]["kind"], "shelf");
    assert_eq!(told[0]["capabilities"]["holds"], true);
    assert!(
        told[0]["cannot"]
            .as_array()
            .unwrap()
            .contains(&"two_passwords".into())
    );
    assert_eq!(ran.err, "");
}

#[test]
fn completions_are_written_for_every_shell() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = built(folder.path(), &["completions", shell]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{shell}");
        assert!(ran.out.contains("conditions"), "{shell}");
    }
}
