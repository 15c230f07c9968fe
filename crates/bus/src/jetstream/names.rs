//! What the bus's assets are called on a NATS server.

use mesh_sdk::bus::{Bucket, Key};

/// The names of one mesh's assets.
///
/// All buckets lie in one stream, so that its sequence is the revision over all of them. It is named
/// and addressed like a key-value bucket, so that any KV client can read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// The key-value bucket.
    pub bucket: String,
    /// The stream of all buckets.
    pub state: String,
    /// The stream of the history.
    pub log: String,
    log_root: String,
    hint_root: String,
}

impl Names {
    /// Of a mesh. Its id holds only what may stand in a subject.
    pub fn of(mesh: &str) -> Self {
        let bucket = format!("mesh_{mesh}");
        Self {
            state: format!("KV_{bucket}"),
            bucket,
            log: format!("MESH_LOG_{mesh}"),
            log_root: format!("mesh.{mesh}.log"),
            hint_root: format!("mesh.{mesh}.obs"),
        }
    }
    /// Where the store says what it is; no bucket has this name.
    pub(super) fn meta(&self) -> String {
        format!("$KV.{}._store", self.bucket)
    }
    /// Everything in the stream of the buckets.
    pub fn all_state(&self) -> String {
        format!("$KV.{}.>", self.bucket)
    }
    /// Everything in the history.
    pub fn all_log(&self) -> String {
        format!("{}.>", self.log_root)
    }
    /// Everything that is told to who listens, and kept nowhere.
    pub fn all_hints(&self) -> String {
        format!("{}.>", self.hint_root)
    }
    /// What the servers tell of each of the streams, as it happens.
    pub fn advisories(&self) -> [String; 2] {
        [&self.state, &self.log].map(|stream| format!("$JS.EVENT.ADVISORY.STREAM.*.{stream}"))
    }
    /// The subject of what a loop tells of its passes.
    pub(super) fn hint(&self, of: &Key) -> String {
        format!("{}.{of}", self.hint_root)
    }
    /// A key's subject.
    pub(super) fn subject(&self, bucket: Bucket, key: &Key) -> String {
        format!("$KV.{}.{}.{key}", self.bucket, bucket.as_str())
    }
    /// The key of a subject, if it is one.
    pub(super) fn key(&self, subject: &str) -> Option<(Bucket, Key)> {
        let rest = subject.strip_prefix("$KV.")?.strip_prefix(&self.bucket)?;
        let (bucket, key) = rest.strip_prefix('.')?.split_once('.')?;
        let bucket = Bucket::ALL.into_iter().find(|b| b.as_str() == bucket)?;
        Some((bucket, Key::from_stored(key.to_owned())))
    }
    /// What lies below a prefix in a bucket, the prefix itself not among it.
    pub(super) fn below(&self, bucket: Bucket, prefix: &Key) -> String {
        if *prefix == Key::everything() {
            return format!("$KV.{}.{}.>", self.bucket, bucket.as_str());
        }
        format!("{}.>", self.subject(bucket, prefix))
    }
    /// A line's subject.
    pub(super) fn line(&self, subject: &Key) -> String {
        format!("{}.{subject}", self.log_root)
    }
    /// The line's own subject.
    pub(super) fn of_line<'s>(&self, subject: &'s str) -> Option<&'s str> {
        subject.strip_prefix(&self.log_root)?.strip_prefix('.')
    }
}

#[cfg(test)]
mod tests {
    //! Names lead there and back, and a mesh's never meet another's.
    use super::*;

    #[test]
    fn b2_a_subject_leads_back_to_its_key_and_no_other_meshs_does() {
        let names = Names::of("home");
        let key = Key::of(&["cache", "a.b"]);
        let subject = names.subject(Bucket::Record, &key);
        assert_eq!(subject, "$KV.mesh_home.record.cache.x-612e62");
        assert_eq!(names.key(&subject), Some((Bucket::Record, key)));
        for other in [
            "$KV.mesh_home2.record.cache",
            "$KV.mesh_home.other.cache",
            &names.meta(),
        ] {
            assert_eq!(names.key(other), None, "{other}");
        }
        assert_eq!(
            names.below(Bucket::Record, &Key::everything()),
            "$KV.mesh_home.record.>"
        );
        let line = names.line(&Key::of(&["adv", "apply"]));
        assert_eq!(names.of_line(&line), Some("adv.apply"));
    }
}
