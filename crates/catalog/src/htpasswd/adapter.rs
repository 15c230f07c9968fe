//! The format of the file, as its readers take it.

use mesh_sdk::adapter::{Finding, FindingLevel, Refusal};
use mesh_sdk::{Login, Marker};

use super::values::HtpasswdValues;
use super::{check, lines};
use crate::password_file::{Entries, Entry, Format, Lines, Wanted, Wish, cost_of};

/// Lines of `login:hash`, each with its mark in a comment above.
pub struct Htpasswd;

impl Format for Htpasswd {
    type Values = HtpasswdValues;
    const SCHEME: &'static str = "";
    const READ_BY_SECOND: bool = false;

    fn check(&self, wish: &Wish<'_, Self>) -> Result<(), Refusal> {
        check::wish(wish)
    }
    fn cost(values: &HtpasswdValues) -> Option<u32> {
        values.cost
    }
    fn name(line: &[u8]) -> Option<&[u8]> {
        lines::split(line).map(|(login, ..)| login)
    }
    fn entry(lines: &Lines, at: usize) -> Option<Entry<'_>> {
        lines::entry(lines, at)
    }
    fn set(lines: &mut Lines, login: &str, wanted: &Wanted<HtpasswdValues>, marker: &Marker) {
        lines::set(lines, login, wanted, marker);
    }
    fn remove(lines: &mut Lines, login: &str, marker: &Marker) {
        lines::remove(lines, login, marker);
    }
    fn offer(&self, login: &Login, _: &Entry<'_>) -> Option<(HtpasswdValues, Vec<String>)> {
        check::login(login).ok()?;
        Some((HtpasswdValues::default(), Vec::new()))
    }
    /// Entries of others whose hashes are quick to guess.
    fn doctor(entries: &Entries<'_>) -> Vec<Finding> {
        let is_weak = |hash: &[u8]| !hash.is_empty() && cost_of(hash).is_none();
        let count = entries
            .values()
            .filter(|one| !one.off && is_weak(one.hash))
            .count();
        let weak = (count > 0).then(|| {
            let message = format!(
                "{count} entries have another hash than bcrypt, and most such are quick to guess"
            );
            Finding::new(FindingLevel::Warning, "hashes", message)
                .with_action("htpasswd -B FILE LOGIN")
        });
        weak.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    //! A first look at many does not hold up whoever needs no proof.
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::password_file::Keeper;
    use crate::password_file::testing::{marker, settings};
    use mesh_sdk::adapter::Sink;
    use mesh_sdk::provision::WishParts;
    use mesh_sdk::{Adapter, Answer, ConsumerName, Cx, Provision, Secret, Wish};

    const MANY: usize = 10;

    fn wish(n: usize) -> Wish {
        let consumer = ConsumerName::new(&format!("app-{n}")).expect("a name");
        let parts = WishParts {
            login: Login::from(&consumer),
            consumer,
            password: Some(Secret::from(format!("password-of-{n}"))),
            values: Arc::new(HtpasswdValues::default()),
            canonical_values: Vec::new(),
            enabled: true,
            adopt: false,
            exact: false,
            second: None,
            base: None,
            generated: true,
        };
        Wish::new(parts, &Secret::from("key"))
    }

    /// One look at these: who was answered whether it is held, and whether the look rests.
    async fn look(
        keeper: &Keeper<Htpasswd>,
        wishes: &[Wish],
        which: &[usize],
    ) -> (BTreeMap<usize, bool>, bool) {
        let (marker, cx) = (marker("i1"), Cx::default());
        let asked = which
            .iter()
            .map(|at| Provision::of(&wishes[*at], false, &marker).expect("typed"));
        let asked: Vec<Provision<'_, HtpasswdValues>> = asked.collect();
        let sink = Sink::new(asked.len());
        let look = keeper.holds_all(&cx, &asked, &sink).await;
        look.expect("a look");
        let answers = which.iter().copied().zip(sink.take());
        let answers = answers.filter_map(|(at, answer)| {
            let answer = answer?.expect("not unknown");
            Some((at, matches!(answer, Answer::Held(_))))
        });
        (answers.collect(), cx.signs_of_life().rests())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn h16_a_first_look_at_many_rests_and_goes_on_where_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("users");
        let settings = settings("htpasswd", path.to_str().expect("a path"));
        let keeper = Keeper::open(&settings, Htpasswd, None).expect("a keeper");
        // Generated passwords have cost 5: four of them in a look.
        let keeper = keeper.with_rounds_a_look(4 << 5);
        let all: Vec<usize> = (0..MANY).collect();
        let made: Vec<Wish> = all.iter().map(|n| wish(*n)).collect();
        for wish in &made[1..] {
            let marker = marker("i1");
            let asked = Provision::of(wish, false, &marker).expect("typed");
            keeper.create(&Cx::default(), &asked).await.expect("made");
        }
        // Whoever wrote a hash knows it.
        let (answers, rests) = look(&keeper, &made, &all).await;
        assert_eq!((answers.len(), rests), (MANY, false));

        // After a start each is worked out, a few in a look; who is not there is told with the first.
        let anew: Vec<Wish> = all.iter().map(|n| wish(*n)).collect();
        let (mut left, mut looks) = (all.clone(), Vec::new());
        while !left.is_empty() {
            let (answers, rests) = look(&keeper, &anew, &left).await;
            assert!(answers.iter().all(|(at, held)| *held == (*at != 0)));
            left.retain(|at| !answers.contains_key(at));
            looks.push((answers.len(), rests));
        }
        assert_eq!(looks, [(5, true), (4, true), (1, false)]);
        // Again nothing is worked out, and nothing rests.
        let (answers, rests) = look(&keeper, &anew, &all).await;
        assert_eq!((answers.len(), rests), (MANY, false));
    }
}
