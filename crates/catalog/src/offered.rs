//! Which of the logins on a server a manifest may be offered.

use mesh_sdk::MarkSeen;

/// Whether a login with this mark, as a list judges it, may be asked for: not another mesh's, and not the
/// canary, which is Meshkeeper's own.
pub(crate) fn may_be(mark: &MarkSeen) -> bool {
    match mark {
        MarkSeen::Foreign => false,
        MarkSeen::OursFor(consumer) => !consumer.is_canary(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    //! Ours and nobody's are offered.
    use mesh_sdk::ConsumerName;

    use super::*;

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
