//! Writing: compare-and-set with three outcomes, many writes in atomic batches, and lines for the history.

use std::collections::HashSet;

use async_nats::{HeaderMap, Message};
use mesh_sdk::bus::{Bucket, Expect, Fault, Key, Put, Write};
use serde::Deserialize;

use super::api::{self, Trouble};
use super::fault::{Meaning, Refused};
use super::seat::Seat;

/// So many writes go into one batch; the server takes 1000.
const BATCH: usize = 250;
/// About so many bytes go into one batch.
const BATCH_BYTES: usize = 4 << 20;
/// What a message needs beside its value: its headers and the name of its place.
pub(super) const ROOM: usize = 512;
/// The longest subject that is sent; a server closes the connection over longer ones.
const SUBJECT: usize = 2048;

#[derive(Deserialize)]
struct Acknowledged {
    seq: u64,
    #[serde(default)]
    stream: String,
    #[serde(default)]
    count: Option<u64>,
}

/// A message to be stored.
struct Letter<'w> {
    subject: String,
    /// What must be the newest sequence of its subject.
    expected: Option<u64>,
    value: &'w [u8],
}

/// What came of a batch.
enum Outcome {
    /// Stored, with these numbers in order.
    Done(Vec<u64>),
    /// Nothing was stored: one of them met something else, or the server would not take them together.
    Apart,
    /// It may have happened.
    Unknown(String),
}

impl Seat {
    fn letter<'w>(&self, bucket: Bucket, write: &'w Write) -> Result<Letter<'w>, Fault> {
        let subject = self.names.subject(bucket, &write.key);
        self.fits(&subject, write.value.len())?;
        let expected = Some(match write.expect {
            Expect::Absent => 0,
            Expect::At(rev) => rev.seq,
        });
        Ok(Letter {
            subject,
            expected,
            value: &write.value,
        })
    }
    fn fits(&self, subject: &str, size: usize) -> Result<(), Fault> {
        if subject.len() > SUBJECT {
            let (size, limit) = (subject.len(), SUBJECT);
            return Err(Fault::TooLarge { size, limit });
        }
        // A server of a cluster may take less than the one that was asked first.
        let limit = self
            .limit
            .min(self.api.client.max_payload().saturating_sub(ROOM));
        if size > limit {
            return Err(Fault::TooLarge { size, limit });
        }
        Ok(())
    }

    /// Independent writes, in batches. The order of two writes of one key is kept.
    pub(super) async fn put_each(
        &self,
        bucket: Bucket,
        writes: &[Write],
    ) -> Result<Vec<Put>, Fault> {
        self.still()?;
        let letters = writes
            .iter()
            .map(|write| self.letter(bucket, write))
            .collect::<Result<Vec<_>, _>>()?;
        let mut puts = vec![Put::Unknown; writes.len()];
        let mut sendable = Vec::new();
        for (n, write) in writes.iter().enumerate() {
            match write.expect {
                // Numbers of another epoch name nothing here.
                Expect::At(rev) if rev.epoch != self.epoch() => puts[n] = Put::Conflict,
                // A sequence of zero would mean "absent" to the server.
                Expect::At(rev) if rev.seq == 0 => puts[n] = Put::Conflict,
                _ => sendable.push(n),
            }
        }
        let mut answered = false;
        for group in groups(&sendable, writes) {
            let sent = self.put_group(bucket, writes, &letters, group, &mut puts);
            match sent.await {
                Ok(true) => answered = true,
                // No answer: what comes after is not sent, and stays unknown like this.
                Ok(false) => break,
                Err(fault) if answered && fault != Fault::EpochChanged => {
                    tracing::warn!(target: "mesh_bus", "of {} writes some are not known: {fault}", writes.len());
                    break;
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(puts)
    }

    /// One group: together, and one by one if that is refused. `false` if an answer did not come.
    async fn put_group(
        &self,
        bucket: Bucket,
        writes: &[Write],
        letters: &[Letter<'_>],
        group: &[usize],
        puts: &mut [Put],
    ) -> Result<bool, Fault> {
        if group.len() > 1 {
            let together: Vec<&Letter<'_>> = group.iter().map(|n| &letters[*n]).collect();
            match self.together(&self.names.state, &together).await? {
                Outcome::Done(seqs) => {
                    for (n, seq) in group.iter().zip(seqs) {
                        self.wrote(bucket, &writes[*n].key, seq);
                        puts[*n] = Put::Done(self.rev(seq));
                    }
                    return Ok(true);
                }
                Outcome::Unknown(why) => {
                    self.set_writable(false);
                    tracing::warn!(target: "mesh_bus", "{} writes are not known: {why}", group.len());
                    return Ok(false);
                }
                Outcome::Apart => {}
            }
        }
        for n in group {
            puts[*n] = self.put_one(bucket, &writes[*n].key, &letters[*n]).await?;
            if puts[*n] == Put::Unknown {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn put_one(&self, bucket: Bucket, key: &Key, letter: &Letter<'_>) -> Result<Put, Fault> {
        let before = self.high();
        let headers = headers(&self.names.state, letter.expected);
        let sent = self
            .api
            .request(letter.subject.clone(), Some(headers), letter.value.to_vec());
        match read(sent.await, &self.names.state) {
            Ok(ack) => {
                self.acknowledged(before, ack.seq)?;
                self.wrote(bucket, key, ack.seq);
                Ok(Put::Done(self.rev(ack.seq)))
            }
            Err(Trouble::Refused(refused)) if refused.meaning() == Meaning::Conflict => {
                Ok(Put::Conflict)
            }
            Err(Trouble::Silence(why)) => {
                self.set_writable(false);
                tracing::warn!(target: "mesh_bus", "a write is not known: {why}");
                Ok(Put::Unknown)
            }
            Err(trouble) => Err(self.refused(trouble)),
        }
    }

    /// All or nothing, with one answer.
    async fn together(&self, stream: &str, letters: &[&Letter<'_>]) -> Result<Outcome, Fault> {
        let Some((last, others)) = letters.split_last() else {
            return Ok(Outcome::Done(Vec::new()));
        };
        self.api.connected().map_err(Trouble::fault)?;
        let state = stream == self.names.state;
        let before = self.high();
        let inbox = self.api.client.new_inbox();
        let id = inbox.rsplit('.').next().unwrap_or(&inbox).to_owned();
        for (n, letter) in others.iter().enumerate() {
            let headers = batched(headers(stream, letter.expected), &id, n + 1);
            let sent = self.api.client.publish_with_headers(
                letter.subject.clone(),
                headers,
                letter.value.to_vec().into(),
            );
            if let Err(error) = sent.await {
                // Without its last message a batch is thrown away by the server.
                return Err(Fault::Unreachable(format!("a write was not sent: {error}")));
            }
        }
        let mut headers = batched(headers(stream, last.expected), &id, letters.len());
        headers.insert("Nats-Batch-Commit", "1");
        let sent = self
            .api
            .request(last.subject.clone(), Some(headers), last.value.to_vec());
        match read(sent.await, stream) {
            Ok(ack) => {
                let count = u64::try_from(letters.len()).unwrap_or(u64::MAX);
                if ack.count != Some(count) || ack.seq < count {
                    let text = "a batch was acknowledged with another count";
                    return Err(Fault::Corrupt(text.to_owned()));
                }
                if state {
                    self.acknowledged(before, ack.seq)?;
                }
                Ok(Outcome::Done((ack.seq - count + 1..=ack.seq).collect()))
            }
            Err(Trouble::Refused(refused)) if refused.apart() => Ok(Outcome::Apart),
            Err(Trouble::Silence(why)) => Ok(Outcome::Unknown(why)),
            Err(trouble) => Err(self.refused(trouble)),
        }
    }

    fn refused(&self, trouble: Trouble) -> Fault {
        self.set_writable(false);
        trouble.fault()
    }

    /// Adds lines to the history, in order. An error means that some may be there.
    pub(super) async fn append(&self, lines: &[(Key, String)]) -> Result<(), Fault> {
        self.still()?;
        let mut letters = Vec::new();
        for (subject, text) in lines {
            let subject = self.names.line(subject);
            self.fits(&subject, text.len())?;
            letters.push(Letter {
                subject,
                expected: None,
                value: text.as_bytes(),
            });
        }
        let all: Vec<&Letter<'_>> = letters.iter().collect();
        let sizes: Vec<usize> = all.iter().map(|letter| letter.value.len()).collect();
        let mut rest = all.as_slice();
        for count in chunks(&sizes) {
            let (now, later) = rest.split_at(count);
            rest = later;
            self.append_some(now).await?;
        }
        Ok(())
    }
    async fn append_some(&self, letters: &[&Letter<'_>]) -> Result<(), Fault> {
        let unknown =
            |why: String| Fault::Unreachable(format!("lines of the history are not known: {why}"));
        if letters.len() > 1 {
            match self.together(&self.names.log, letters).await? {
                Outcome::Done(_) => return Ok(()),
                Outcome::Unknown(why) => return Err(unknown(why)),
                Outcome::Apart => {}
            }
        }
        for letter in letters {
            let headers = headers(&self.names.log, None);
            let sent =
                self.api
                    .request(letter.subject.clone(), Some(headers), letter.value.to_vec());
            read(sent.await, &self.names.log).map_err(|trouble| self.refused(trouble))?;
        }
        Ok(())
    }
}

impl Refused {
    /// Whether the writes of a refused batch may be tried one by one: one of them lost, or the server
    /// does not take them as a batch now (10174 to 10178, 10199 to 10211).
    fn apart(&self) -> bool {
        self.meaning() == Meaning::Conflict
            || (10174..=10178).contains(&self.err_code)
            || (10199..=10211).contains(&self.err_code)
    }
}

/// Groups of what is to be sent, so that no key is twice in one, and none is too large.
fn groups<'s>(sendable: &'s [usize], writes: &[Write]) -> Vec<&'s [usize]> {
    let (mut groups, mut start) = (Vec::new(), 0);
    let (mut keys, mut bytes) = (HashSet::new(), 0);
    for (at, n) in sendable.iter().enumerate() {
        let write = &writes[*n];
        let full = at - start >= BATCH || bytes + write.value.len() > BATCH_BYTES;
        if at > start && (full || keys.contains(&write.key)) {
            groups.push(&sendable[start..at]);
            start = at;
            keys.clear();
            bytes = 0;
        }
        keys.insert(&write.key);
        bytes += write.value.len();
    }
    if start < sendable.len() {
        groups.push(&sendable[start..]);
    }
    groups
}

/// How many of these go together, again and again.
fn chunks(sizes: &[usize]) -> Vec<usize> {
    let (mut counts, mut count, mut bytes) = (Vec::new(), 0, 0);
    for size in sizes {
        if count > 0 && (count >= BATCH || bytes + size > BATCH_BYTES) {
            counts.push(count);
            (count, bytes) = (0, 0);
        }
        count += 1;
        bytes += size;
    }
    if count > 0 {
        counts.push(count);
    }
    counts
}

fn headers(stream: &str, expected: Option<u64>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Expected-Stream", stream);
    if let Some(seq) = expected {
        headers.insert("Nats-Expected-Last-Subject-Sequence", seq.to_string());
    }
    headers
}
fn batched(mut headers: HeaderMap, id: &str, n: usize) -> HeaderMap {
    headers.insert("Nats-Batch-Id", id);
    headers.insert("Nats-Batch-Sequence", n.to_string());
    headers
}

fn read(sent: Result<Message, Trouble>, stream: &str) -> Result<Acknowledged, Trouble> {
    let ack: Acknowledged = api::read(&sent?)?;
    if ack.stream != stream {
        return Err(Trouble::Odd(format!(
            "a write was taken by the stream {}",
            ack.stream
        )));
    }
    Ok(ack)
}

#[cfg(test)]
mod tests {
    //! Groups keep the order of a key's writes, and a bound.
    use super::*;

    fn write(key: &str, size: usize) -> Write {
        Write {
            key: Key::of(&[key]),
            expect: Expect::Absent,
            value: vec![0; size],
        }
    }

    #[test]
    fn b5_no_group_has_a_key_twice_or_is_too_large() {
        let writes = [
            write("a", 1),
            write("b", 1),
            write("a", 1),
            write("c", BATCH_BYTES),
            write("d", 1),
        ];
        let all: Vec<usize> = (0..writes.len()).collect();
        let found = groups(&all, &writes);
        assert_eq!(found, [&[0, 1][..], &[2], &[3], &[4]]);
        assert!(groups(&[], &writes).is_empty());
        let many: Vec<Write> = (0..BATCH + 1).map(|n| write(&n.to_string(), 1)).collect();
        let all: Vec<usize> = (0..many.len()).collect();
        let sizes: Vec<usize> = groups(&all, &many).iter().map(|g| g.len()).collect();
        assert_eq!(sizes, [BATCH, 1]);
        assert_eq!(chunks(&[1, BATCH_BYTES, 1]), [1, 1, 1]);
        assert_eq!(chunks(&[]), Vec::<usize>::new());
    }
}
