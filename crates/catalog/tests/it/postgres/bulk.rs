//! Very many at once: a handful of statements, whatever their number (H-16).

use mesh_conformance::servers::PostgresFlavor;
use mesh_sdk::{Answer, Difference, Proof, Secret, Wish};
use serde_json::json;
use tokio::time::Instant;

use super::bench::{Who, settings, shop};
use super::{LOGGED, Ours, WRITES, said, wish_with, with};

/// So many, in so many databases: no table can be granted to more than some 2,000.
const MANY: usize = 10_000;
const DATABASES: usize = 10;
/// What a look may say to the server, for any number of logins, and for each database.
const HANDFUL: (usize, usize) = (8, 8);

/// With rounds that keep the server's own work small.
fn many(count: usize) -> Vec<Wish> {
    let of = |n: usize| {
        let values =
            json!({ "database": format!("shop-{}", n % DATABASES), "privileges": "readonly" });
        wish_with(&format!("app-{n:05}"), values, |p| {
            p.generated = true;
            p.password = Some(Secret::from(format!("password-of-{n}")));
        })
    };
    (0..count).map(of).collect()
}

fn all_held(answers: Vec<Result<Answer, mesh_sdk::Error>>) {
    for answer in answers {
        match answer {
            Ok(Answer::Held(held)) => assert_eq!(held.proof, Proof::Verifier),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h16_ten_thousand_are_looked_at_with_a_handful_of_statements() {
    let server = shop(PostgresFlavor::V15, Who::Super, with(&LOGGED)).await;
    let mut at = settings(server.port(), Who::Super);
    at.options
        .insert("generated_rounds".to_owned(), serde_json::json!(1));
    let ours = Ours::on(at.clone());
    for n in 0..DATABASES {
        let sql = format!("CREATE DATABASE \"shop-{n}\" TEMPLATE shop");
        server.sql("postgres", &sql).await.expect("a shop");
    }
    let wishes = many(MANY);
    let begun = Instant::now();
    for outcome in ours.create_all(&wishes).await {
        outcome.expect("created");
    }
    let made = begun.elapsed();
    let batches = said(&server, &["CREATE ROLE"]).len();
    assert!(batches <= MANY / 32, "{batches} transactions");

    let before = said(&server, &[]).len();
    let begun = Instant::now();
    all_held(ours.holds_all(&wishes).await);
    let looked = begun.elapsed();
    let statements = said(&server, &[]).len() - before;
    let most = HANDFUL.0 + DATABASES * HANDFUL.1;
    assert!(statements <= most, "{statements} statements for one look");

    // A process that starts anew has nothing in its memory: every verifier is worked out again.
    let writes = said(&server, &WRITES).len();
    let anew = Ours::on(at);
    let again = many(MANY);
    let begun = Instant::now();
    all_held(anew.holds_all(&again).await);
    let first = begun.elapsed();
    println!(
        "{MANY} logins in {DATABASES} databases: made in {made:?} and {batches} transactions, looked at in \
         {looked:?} and {statements} statements, for the first time in {first:?}"
    );
    assert_eq!(said(&server, &WRITES).len(), writes, "a look wrote");

    // A few are told apart among the many.
    server
        .sql("shop", "ALTER ROLE \"app-00007\" PASSWORD 'changed'")
        .await
        .expect("changed");
    server
        .sql("shop-8", "REVOKE SELECT ON items FROM \"app-00008\"")
        .await
        .expect("revoked");
    let answers = anew.holds_all(&again).await;
    for (index, answer) in answers.into_iter().enumerate() {
        let wanted = match index {
            7 => Some(Difference::Password),
            8 => Some(Difference::GrantsMissing),
            _ => None,
        };
        match (answer, wanted) {
            (Ok(Answer::Held(_)), None) => {}
            (Ok(Answer::Lost(lost)), Some(difference)) => {
                assert!(lost.differences.contains(difference), "{lost:?}");
            }
            (other, _) => panic!("{index}: {other:?}"),
        }
    }
}
