//! Whose a login is: taken, adopted, and two installations on one server (H-18, O-12, A-7).

use crate::lab::{Lab, cache, need};
use crate::redis::Redis;

fn given(redis: &Redis, lines: &str) -> String {
    let mut text = cache(redis, "", []);
    need(&mut text, "web", "cache", lines);
    text
}

#[test]
fn h18_o12_a_login_that_exists_is_left_alone_and_told() {
    let (lab, redis) = (Lab::new(), Redis::start());
    redis.set_user("web on >the-old-password ~* +@all");
    let before = redis.user("web");
    lab.cache(&redis, "", ["web", "api"]);
    lab.mesh(&["plan"]).ends(2).says("api");
    lab.mesh(&["apply"]).ends(3);
    lab.mesh(&["apply"]).ends(3);
    assert_eq!(redis.user("web"), before);
    assert!(
        redis.users().contains("api"),
        "no failure of one stops another"
    );
    let conditions = lab.conditions();
    assert!(
        conditions
            .iter()
            .any(|c| c == "LoginTaken cache/web" || c == "SecretLost cache/web"),
        "{conditions:?}"
    );
    assert!(
        conditions.contains(&"LoginTaken cache/web".to_owned()),
        "{conditions:?}"
    );
    lab.mesh(&["conditions"]).ends(0).says("adopt = true");
    // No second password was made, and none is shown.
    lab.mesh(&["credentials", "web", "cache"]).ends(1);
    let minted = lab.events("web").iter().filter(|k| *k == "minted").count();
    assert_eq!(minted, 0);
}

#[test]
fn h18_with_adopt_and_the_right_password_it_is_taken_over_and_never_changed() {
    let (lab, redis) = (Lab::new(), Redis::start());
    redis.set_user("web on >the-old-password ~web:* ~more:* +@read +@write");
    lab.write("web.password", "the-old-password\n");
    let password = "password = { file = \"web.password\" }";
    lab.manifest(&given(&redis, &format!("{password}\nadopt = true")));
    lab.mesh(&["plan"]).ends(2).says("take over");
    lab.mesh(&["apply"]);
    assert!(redis.lets_in("web", "the-old-password"));
    assert_eq!(lab.states(), ["web=held"]);
    assert_eq!(lab.password("web", "cache"), "the-old-password");
    // Rights that others gave it are left, and told.
    let user = redis.user("web").expect("web");
    assert!(user.contains("more:*"), "{user}");
    lab.mesh(&["apply"]);
    let conditions = lab.conditions();
    assert!(
        conditions.contains(&"GrantsSurplus cache/web".to_owned()),
        "{conditions:?}"
    );
    let writes = redis.writes();
    lab.mesh(&["apply"]);
    assert_eq!(redis.writes(), writes, "again changes nothing");
    // Until a person says so.
    lab.mesh(&["adopt", "web", "cache", "--exact"]).ends(0);
    lab.mesh(&["apply"]);
    lab.mesh(&["apply"]);
    lab.mesh(&["apply"]).ends(0);
    let user = redis.user("web").expect("web");
    assert!(!user.contains("more:*"), "{user}");
    assert!(redis.lets_in("web", "the-old-password"));
}

#[test]
fn h18_with_adopt_and_a_wrong_password_nothing_is_touched() {
    let (lab, redis) = (Lab::new(), Redis::start());
    redis.set_user("web on >the-old-password ~* +@all");
    let before = redis.user("web");
    lab.write("web.password", "quite-another-one");
    let lines = "password = { file = \"web.password\" }\nadopt = true";
    lab.manifest(&given(&redis, lines));
    lab.mesh(&["apply"]).ends(3);
    assert_eq!(redis.user("web"), before);
    lab.mesh(&["conditions"])
        .ends(0)
        .says("needs the password that it has");
    // Tried once per password: with the right one it goes on.
    lab.write("web.password", "the-old-password");
    lab.mesh(&["apply"]);
    assert!(redis.lets_in("web", "the-old-password"));
    assert_eq!(lab.states(), ["web=held"]);
}

#[test]
fn h18_a_word_adopts_without_a_change_of_the_manifest() {
    let (lab, redis) = (Lab::new(), Redis::start());
    redis.set_user("web on >the-old-password ~* +@all");
    lab.write("web.password", "the-old-password");
    lab.manifest(&given(&redis, "password = { file = \"web.password\" }"));
    lab.mesh(&["apply"]);
    let taken_at_first = lab.states();
    lab.mesh(&["adopt", "web", "cache"]).ends(0);
    lab.mesh(&["apply"]);
    assert_eq!(lab.states(), ["web=held"], "before: {taken_at_first:?}");
    assert!(redis.lets_in("web", "the-old-password"));
}

#[test]
fn h18_two_installations_with_the_same_id_never_touch_each_others_logins() {
    let (one, two, redis) = (Lab::new(), Lab::new(), Redis::start());
    one.cache(&redis, "", ["web", "api"]);
    two.cache(&redis, "", ["web", "job"]);
    one.mesh(&["apply"]).ends(0);
    let (password, before) = (one.password("web", "cache"), redis.user("web"));
    two.mesh(&["apply"]).ends(3);
    two.mesh(&["apply"]).ends(3);
    assert_eq!(redis.user("web"), before);
    let conditions = two.conditions();
    assert!(
        conditions.contains(&"LoginTaken cache/web".to_owned()),
        "{conditions:?}"
    );
    assert!(redis.users().contains("job"));
    // Nor does the second one take away what the first asks for.
    let short = "remove_after = \"1s\"\ngrace = \"1s\"\nlist_every = \"1s\"";
    two.cache(&redis, short, ["job"]);
    for _ in 0..4 {
        two.mesh(&["apply"]);
    }
    assert_eq!(redis.user("web"), before);
    one.mesh(&["apply"]).ends(0);
    assert!(redis.lets_in("web", &password));
}

#[test]
fn h19_reserved_logins_are_refused_before_anything_is_written() {
    let (lab, redis) = (Lab::new(), Redis::start());
    let mut text = cache(&redis, "", ["web"]);
    need(&mut text, "all", "cache", "login = \"default\"");
    lab.manifest(&text);
    lab.mesh(&["check"]).ends(1);
    lab.mesh(&["apply"]).ends(3).warns("default");
    let default = redis.user("default").expect("default");
    assert!(default.contains("nopass"), "{default}");
    assert!(redis.users().contains("web"));
    let states = lab.states();
    assert_eq!(states, ["all=refused", "web=held"]);
}
