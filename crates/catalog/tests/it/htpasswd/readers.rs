//! What real readers make of the file.

use mesh_conformance::servers::{NginxServer, htpasswd};
use mesh_sdk::{Login, Secret};

use super::{in_folder, read, wish, wish_with};

#[tokio::test(flavor = "multi_thread")]
async fn a8_nginx_lets_in_whom_the_file_names_and_nobody_who_is_off() {
    let (_folder, path, ours) = in_folder();
    // Whom nginx knows before us: a comment, another kind of hash, an entry with a third field.
    let others = "# people\nann:{PLAIN}secret:Ann A.\n";
    std::fs::write(&path, others).expect("written");
    let nginx = match NginxServer::start(&path).await {
        Ok(nginx) => nginx,
        Err(error) => panic!("{error}"),
    };
    let odd = wish_with("odd", |parts| {
        parts.login = Login::new("-n a'b\"ü ").expect("a login");
        parts.password = Some(Secret::from("-D p@ss/w:rd?#[%41]&=+{x} 'Ω"));
    });
    let long = wish_with("long", |parts| {
        parts.password = Some(Secret::from("a".repeat(72)));
    });
    let web = wish("web");
    for one in [&web, &odd, &long] {
        ours.made(one).await;
    }
    let status = |login: &'static str, password: String| {
        let nginx = &nginx;
        async move { nginx.status(login, &password).await }
    };
    let right = || "password-of-web".to_owned();
    assert_eq!(status("web", right()).await, Ok(200));
    assert_eq!(status("web", "password-of-we".to_owned()).await, Ok(401));
    let odd_password = "-D p@ss/w:rd?#[%41]&=+{x} 'Ω".to_owned();
    assert_eq!(status("-n a'b\"ü ", odd_password).await, Ok(200));
    assert_eq!(status("long", "a".repeat(72)).await, Ok(200));
    assert_eq!(status("ann", "secret".to_owned()).await, Ok(200));
    let file = path.display().to_string();
    let most = "a".repeat(72);
    assert_eq!(htpasswd(&["-v", "-b", &file, "long", &most]).await, Ok(0));

    // Off: neither reader lets anybody in, with whatever is sent.
    let off = wish_with("web", |parts| parts.enabled = false);
    ours.made(&off).await;
    let line = read(&path);
    let hash = line
        .lines()
        .find_map(|line| line.strip_prefix("web:"))
        .expect("an entry");
    assert!(hash.starts_with("!$2y$"), "{hash}");
    for password in [
        right(),
        format!("!{}", right()),
        hash.to_owned(),
        String::new(),
        "!".to_owned(),
    ] {
        assert_eq!(status("web", password.clone()).await, Ok(401), "{password}");
        let told = htpasswd(&["-v", "-b", &file, "web", &password]).await;
        assert_eq!(told, Ok(3), "{password}");
    }
    ours.made(&web).await;
    assert_eq!(status("web", right()).await, Ok(200));
    ours.remove(&web).await.expect("removed");
    assert_eq!(status("web", right()).await, Ok(401));
    assert!(read(&path).starts_with(others));
}

#[tokio::test(flavor = "multi_thread")]
async fn h5_a_second_entry_is_told_and_goes_before_it_could_count() {
    let (_folder, path, ours) = in_folder();
    let web = wish("web");
    ours.made(&web).await;
    let more = read(&path) + "web:{PLAIN}other\n";
    std::fs::write(&path, more).expect("written");
    let answer = ours.holds(&web).await;
    assert!(format!("{answer:?}").contains("second entry"), "{answer:?}");
    ours.made(&web).await;
    assert!(!read(&path).contains("{PLAIN}"));
    // And where it was not seen before the login goes: none of its entries is left.
    std::fs::write(&path, read(&path) + "web:{PLAIN}other\n").expect("written");
    ours.remove(&web).await.expect("removed");
    assert_eq!(read(&path), "");
}
