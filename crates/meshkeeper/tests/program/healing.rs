//! What `apply` heals, what `plan` says before and `events` and `explain` after, and that it then rests.

use crate::lab::Lab;
use crate::redis::Redis;

/// One consumer, applied and at rest.
fn applied() -> (Lab, Redis, String) {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, "", ["web"]);
    lab.mesh(&["apply"]).ends(0);
    // The check after an apply is the brake's (H-11): a loss found by that one is another story.
    lab.mesh(&["apply"]).ends(0);
    let password = lab.password("web", "cache");
    assert!(redis.lets_in("web", &password));
    (lab, redis, password)
}

/// Every file of the data folder that holds a record, as `explain --json` shows it.
fn record(lab: &Lab) -> serde_json::Value {
    let story = lab.mesh(&["explain", "web", "--json"]).ends(0).json();
    story[0]["records"].clone()
}

/// A way of losing `web`, what `plan` says of it, and that everything heals and then rests.
fn heals(lab: &Lab, redis: &Redis, password: &str, words: &str) {
    lab.mesh(&["plan"]).ends(2).says("heal").says(words);
    let before = lab.events("web").len();
    lab.mesh(&["apply"]).ends(0).says("applied 1");
    assert!(redis.lets_in("web", password), "{:?}", redis.user("web"));
    assert_eq!(lab.events("web")[before..], ["healed"]);
    lab.mesh(&["explain", "web"])
        .ends(0)
        .says("held")
        .says(words);
    assert_eq!(lab.password("web", "cache"), password);
    rests(lab, redis);
}

/// H-13: a healthy pass writes nothing on the backend, and no record.
fn rests(lab: &Lab, redis: &Redis) {
    lab.mesh(&["apply"]).ends(0);
    let (writes, record_before) = (redis.writes(), record(lab));
    let events = lab.events("web").len();
    lab.mesh(&["apply"]).ends(0).says("asked 1").says("held 1");
    lab.mesh(&["plan"]).ends(0).says("Nothing to do.");
    assert_eq!(redis.writes(), writes, "{:?}", redis.calls());
    assert_eq!(record(lab), record_before);
    assert_eq!(lab.events("web").len(), events);
}

#[test]
fn h1_a_new_consumer_is_planned_applied_and_then_left_alone() {
    let (lab, redis) = (Lab::new(), Redis::start());
    lab.cache(&redis, "", ["web"]);
    lab.mesh(&["plan"]).ends(2).says("create").says("new");
    assert!(redis.users().is_empty());
    lab.mesh(&["apply"]).ends(0).says("applied 1");
    assert_eq!(lab.events("web"), ["minted", "applied"]);
    let user = redis.user("web").expect("web");
    assert!(user.contains("~web:*") && user.contains(" on "), "{user}");
    rests(&lab, &redis);
}

#[test]
fn h6_a_login_deleted_behind_our_back_is_healed() {
    let (lab, redis, password) = applied();
    redis.ask(&["ACL", "DELUSER", "web"]);
    heals(&lab, &redis, &password, "absent");
}

#[test]
fn h6_another_password_is_healed() {
    let (lab, redis, password) = applied();
    redis.ask(&["ACL", "SETUSER", "web", "resetpass", ">other-password"]);
    heals(&lab, &redis, &password, "other password");
    assert!(!redis.lets_in("web", "other-password"));
}

#[test]
fn h6_a_second_password_is_a_loss() {
    let (lab, redis, password) = applied();
    redis.ask(&["ACL", "SETUSER", "web", ">one-more-password"]);
    heals(&lab, &redis, &password, "a second password");
    assert!(!redis.lets_in("web", "one-more-password"));
}

#[test]
fn o43_a_login_that_any_password_opens_is_healed() {
    let (lab, redis, password) = applied();
    redis.ask(&["ACL", "SETUSER", "web", "nopass"]);
    heals(&lab, &redis, &password, "password not enforced");
    assert!(!redis.lets_in("web", "anything"));
}

#[test]
fn h25_a_login_switched_off_by_somebody_is_switched_on_and_told() {
    let (lab, redis, _) = applied();
    redis.ask(&["ACL", "SETUSER", "web", "off"]);
    lab.mesh(&["plan"]).ends(2).says("disabled");
    lab.mesh(&["apply"]).ends(0).says("applied 1");
    let events = lab.events("web");
    assert!(events.contains(&"healed".to_owned()), "{events:?}");
    assert!(events.contains(&"switched_on".to_owned()), "{events:?}");
    lab.mesh(&["events", "web"]).says("enabled = false");
    rests_after_told(&lab, &redis);
}

/// As `rests`, where an info condition about `web` still runs out.
fn rests_after_told(lab: &Lab, redis: &Redis) {
    for _ in 0..3 {
        lab.mesh(&["apply"]).ends(0);
    }
    rests(lab, redis);
}

#[test]
fn o15_missing_grants_are_healed_and_the_password_is_not_written() {
    let (lab, redis, password) = applied();
    redis.ask(&["ACL", "SETUSER", "web", "resetkeys", "-@write"]);
    heals(&lab, &redis, &password, "grants missing");
    lab.mesh(&["explain", "web"]).says("~web:*");
}

#[test]
fn a7_surplus_grants_on_a_login_of_ours_are_taken_back() {
    let (lab, redis, password) = applied();
    redis.ask(&["ACL", "SETUSER", "web", "~secret:*", "+flushall"]);
    heals(&lab, &redis, &password, "grants in surplus");
    let user = redis.user("web").expect("web");
    assert!(
        !user.contains("secret") && !user.contains("flushall"),
        "{user}"
    );
}

#[test]
fn h18_a_stripped_mark_is_put_back() {
    let (lab, redis, password) = applied();
    redis.ask(&["ACL", "SETUSER", "web", "clearselectors"]);
    heals(&lab, &redis, &password, "mark missing");
}

#[test]
fn h1_a_changed_wish_is_an_update() {
    let (lab, redis, password) = applied();
    let text = crate::lab::cache(&redis, "", ["web"]).replace("web:*", "shop:*");
    lab.manifest(&text);
    lab.mesh(&["plan"]).ends(2).says("update");
    lab.mesh(&["apply"]).ends(0);
    let user = redis.user("web").expect("web");
    assert!(
        user.contains("~shop:*") && !user.contains("~web:*"),
        "{user}"
    );
    assert!(redis.lets_in("web", &password));
    rests(&lab, &redis);
}
