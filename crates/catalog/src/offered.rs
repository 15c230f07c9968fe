//! Which of the logins on a server a manifest may be offered.

use mesh_sdk::adapter::Found;
use mesh_sdk::{Login, MarkSeen};

/// The most characters of what values cannot say.
const LONGEST: usize = 300;

/// Whether a login with this mark, as a list judges it, may be asked for: not another mesh's, and not the
/// canary, which is Meshkeeper's own.
pub(crate) fn may_be(mark: &MarkSeen) -> bool {
    match mark {
        MarkSeen::Foreign => false,
        MarkSeen::OursFor(consumer) => !consumer.is_canary(),
        _ => true,
    }
}

/// One that is offered; what its values cannot say goes along in bounded lines, whatever is in its names.
pub(crate) fn found<V>(login: Login, values: V, enabled: bool, beyond: Vec<String>) -> Found<V> {
    let line = |text: String| -> String {
        let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        plain.take(LONGEST).collect()
    };
    let mut found = Found::new(login, values);
    found.enabled = enabled;
    found.beyond = beyond.into_iter().map(line).collect();
    found
}

#[cfg(test)]
mod tests {
    //! Ours and nobody's are offered.
    use mesh_sdk::ConsumerName;

    use super::*;

    #[test]
    fn a5_what_values_cannot_say_is_one_line_each() {
        let login = Login::new("web").expect("a login");
        let found = found(
            login,
            (),
            false,
            vec!["role a\nb".to_owned(), "x".repeat(400)],
        );
        assert_eq!(found.beyond[0], "role a b");
        assert_eq!(found.beyond[1].len(), LONGEST);
        assert!(!found.enabled);
    }

    #[test]
    fn r4_another_meshs_login_and_the_canary_are_not_offered() {
        let web = ConsumerName::new("web").expect("a name");
        for mark in [MarkSeen::None, MarkSeen::Damaged, MarkSeen::OursFor(web)] {
            assert!(may_be(&mark), "{mark:?}");
        }
        for mark in [MarkSeen::Foreign, MarkSeen::OursFor(ConsumerName::canary())] {
            assert!(!may_be(&mark), "{mark:?}");
        }
    }
}
