//! What was found in order is remembered by the very bytes that the server showed: whatever changes behind our
//! back is seen by the next look, in spite of it (H-17).

use mesh_conformance::servers::{MariadbOptions, MariadbServer};
use mesh_sdk::adapter::Sink;
use mesh_sdk::handle::Asked;
use mesh_sdk::{Answer, Class, Difference, Wish};
use serde_json::json;

use super::bench::{ALL, place, server as server_with, settings};
use super::{Ours, wish};

/// Whatever writes accounts, rights and marks.
const WRITES: &str = "VARIABLE_NAME IN ('Com_grant', 'Com_revoke', 'Com_create_user', 'Com_alter_user', \
    'Com_drop_user', 'Com_create_db')";

impl Ours {
    /// Demands that all are held, and that it is so when they are asked again: now from memory.
    async fn twice_in_order(&self, wishes: &[Wish]) {
        for _ in 0..2 {
            for answer in self.answers(wishes).await {
                let held = matches!(&answer, Answer::Held(held) if held.warning.is_none());
                assert!(held, "{answer:?}");
            }
        }
    }
    /// What the first lacks, by a bulk look and by one at it alone; all others are held.
    async fn first_lost(&self, wishes: &[Wish], why: &str) -> Vec<Difference> {
        let mut answers = self.answers(wishes).await.into_iter();
        let Some(Answer::Lost(first)) = answers.next() else {
            panic!("{why}: the change was overlooked");
        };
        assert!(answers.all(|one| matches!(one, Answer::Held(_))), "{why}");
        let singly = self.lost(&wishes[0]).await;
        assert_eq!(singly.differences, first.differences, "{why}");
        first.differences.iter().collect()
    }
    async fn asked_as(&self, wish: &Wish, adopted: bool) -> Answer {
        let sink = Sink::new(1);
        let asked = [Asked { wish, adopted }];
        let call = self
            .adapter
            .holds_all(&self.cx, &self.marker, &asked, &sink);
        call.await.expect("a look");
        let answer = sink.take().remove(0).expect("an answer");
        answer.expect("not unknown")
    }
}

async fn three() -> (MariadbServer, Ours, Vec<Wish>) {
    let server = server_with(ALL, MariadbOptions::default()).await;
    let ours = Ours::on(settings(server.port()));
    let wishes = vec![
        wish(
            "web",
            json!({ "database": "shop_web", "privileges": "owner" }),
        ),
        wish(
            "api",
            json!({ "database": "shop_a", "privileges": "readonly" }),
        ),
        wish("job", json!({ "host": "127.0.0.1" })),
    ];
    ours.made_all(&wishes).await;
    ours.twice_in_order(&wishes).await;
    (server, ours, wishes)
}

#[tokio::test(flavor = "multi_thread")]
async fn h17_whatever_changes_behind_our_back_is_seen_in_spite_of_the_memory() {
    let (server, ours, wishes) = three().await;
    let mark = place(ours.marker.mark(wishes[0].consumer()).as_str());
    let unmarked = format!("REVOKE CREATE ON {mark} FROM 'web'@'%'");
    let damaged = "UPDATE mysql.tables_priv SET Table_name = INSERT(Table_name, 5, 1, 'A') \
        WHERE User = 'web' AND Db LIKE 'mk1.%'; FLUSH PRIVILEGES";
    let changes = [
        (
            "ALTER USER 'web'@'%' IDENTIFIED BY 'another'",
            Difference::Password,
        ),
        (
            "ALTER USER 'web'@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('password-of-web') \
             OR mysql_native_password USING PASSWORD('another')",
            Difference::Password,
        ),
        (
            "ALTER USER 'web'@'%' IDENTIFIED BY ''",
            Difference::PasswordNotEnforced,
        ),
        ("ALTER USER 'web'@'%' PASSWORD EXPIRE", Difference::Password),
        ("ALTER USER 'web'@'%' ACCOUNT LOCK", Difference::Disabled),
        (
            "ALTER USER 'web'@'%' WITH MAX_USER_CONNECTIONS 3",
            Difference::GrantsMissing,
        ),
        (
            r"REVOKE INSERT ON `shop\_web`.* FROM 'web'@'%'",
            Difference::GrantsMissing,
        ),
        (
            r"GRANT SELECT ON `shop\_more`.* TO 'web'@'%'",
            Difference::GrantsSurplus,
        ),
        (
            "GRANT PROCESS ON *.* TO 'web'@'%'",
            Difference::GrantsSurplus,
        ),
        ("DROP DATABASE shop_web", Difference::GrantsMissing),
        ("DROP USER 'web'@'%'", Difference::Absent),
        (&unmarked, Difference::MarkMissing),
        (damaged, Difference::MarkMissing),
    ];
    for (change, difference) in changes {
        server.sql(change).await.expect(change);
        let lost = ours.first_lost(&wishes, change).await;
        assert!(lost.contains(&difference), "{change}: {lost:?}");
        ours.create(&wishes[0]).await.expect(change);
        ours.twice_in_order(&wishes).await;
    }
    // Again changes nothing.
    let before = server.counters(WRITES).await;
    ours.made_all(&wishes).await;
    ours.twice_in_order(&wishes).await;
    assert_eq!(server.counters(WRITES).await, before, "once more wrote");
}

#[tokio::test(flavor = "multi_thread")]
async fn h17_accounts_that_come_to_stand_before_ours_are_seen_in_spite_of_the_memory() {
    let (server, ours, wishes) = three().await;
    let shadow = "CREATE USER 'web'@'localhost' IDENTIFIED BY 'x'";
    server.sql(shadow).await.expect("made");
    let lost = ours.first_lost(&wishes, shadow).await;
    assert_eq!(lost, [Difference::GrantsMissing]);
    let refused = ours.create(&wishes[0]).await.expect_err("in the way");
    assert_eq!(refused.class(), Class::Exists);
    server
        .sql("DROP USER 'web'@'localhost'")
        .await
        .expect("gone");
    ours.twice_in_order(&wishes).await;
    // One without a name stands before all whose host is a pattern, and is no row of theirs.
    server
        .sql("CREATE USER ''@'localhost'")
        .await
        .expect("made");
    let answers = ours.answers(&wishes).await;
    let held: Vec<bool> = answers
        .iter()
        .map(|one| matches!(one, Answer::Held(_)))
        .collect();
    assert_eq!(held, [false, false, true]);
    server.sql("DROP USER ''@'localhost'").await.expect("gone");
    ours.twice_in_order(&wishes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h17_a_password_that_grows_too_old_is_seen_although_no_row_changed() {
    let (server, ours, wishes) = three().await;
    let old = "UPDATE mysql.global_priv SET Priv = JSON_SET(Priv, '$.password_last_changed', 1500000000) \
               WHERE User = 'web'; FLUSH PRIVILEGES";
    server.sql(old).await.expect("older");
    ours.twice_in_order(&wishes).await;
    let aging = "SET GLOBAL default_password_lifetime = 360";
    server.sql(aging).await.expect("set");
    let lost = ours.first_lost(&wishes, aging).await;
    assert_eq!(lost, [Difference::Password]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a7_what_was_held_as_adopted_is_not_held_as_made() {
    let (server, ours, wishes) = three().await;
    let more = r"GRANT INSERT ON `shop\_a`.* TO 'api'@'%'";
    server.sql(more).await.expect("granted");
    for _ in 0..2 {
        let adopted = ours.asked_as(&wishes[1], true).await;
        let warned = matches!(&adopted, Answer::Held(held) if held.warning.is_some());
        assert!(warned, "{adopted:?}");
        let made = ours.asked_as(&wishes[1], false).await;
        assert!(matches!(made, Answer::Lost(_)), "{made:?}");
    }
    // An adopted account may be kept by another plugin or under a name that was not escaped.
    let plain = r"REVOKE INSERT, SELECT, SHOW VIEW ON `shop\_a`.* FROM 'api'@'%'; \
        GRANT SELECT, SHOW VIEW ON `shop_a`.* TO 'api'@'%'";
    server.sql(plain).await.expect("granted");
    for _ in 0..2 {
        let adopted = ours.asked_as(&wishes[1], true).await;
        assert!(matches!(adopted, Answer::Held(_)), "{adopted:?}");
        let made = ours.asked_as(&wishes[1], false).await;
        assert!(matches!(made, Answer::Lost(_)), "{made:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h8_a_row_that_cannot_be_read_is_unknown_for_its_login_alone() {
    let (server, ours, wishes) = three().await;
    let broken = "UPDATE mysql.global_priv SET Priv = JSON_SET(Priv, '$.account_locked', 'perhaps') \
                  WHERE User = 'web'";
    server.sql(broken).await.expect("changed");
    let answers = ours.holds_all(&wishes).await;
    assert!(answers[0].is_err(), "{answers:?}");
    for one in &answers[1..] {
        assert!(matches!(one, Ok(Answer::Held(_))), "{answers:?}");
    }
    let mended = "UPDATE mysql.global_priv SET Priv = JSON_REMOVE(Priv, '$.account_locked') \
                  WHERE User = 'web'";
    server.sql(mended).await.expect("changed");
    ours.twice_in_order(&wishes).await;
}
