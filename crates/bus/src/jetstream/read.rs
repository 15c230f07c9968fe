//! Reading: one key from the leader, whole lists, and the newest lines of the history.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::Message;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{StreamExt, TryStreamExt, stream};
use mesh_sdk::bus::{Bucket, Entry, Fault, Key, LogLine, Snapshot};
use serde::Deserialize;
use serde_json::{Value, json};

use super::api::{ANSWER, Api, StreamInfo, Trouble};
use super::fault::Meaning;
use super::mark::Meta;
use super::names::Names;
use super::seat::Seat;

/// So many keys are read with one request; the server takes 1024.
const PAGE: usize = 500;
/// So many requests of one list are on their way at once.
const AT_ONCE: usize = 4;
/// So often a page is asked for again when what came was old or short.
const TRIES: usize = 8;
/// A server that stands still is still handed questions by the others, for minutes. So one that is silent for so
/// long is not waited for: the question goes out again, and the patience doubles up to [`ANSWER`].
const SILENT: Duration = Duration::from_millis(700);

fn patience(attempt: usize) -> Duration {
    let doubled = SILENT.saturating_mul(1 << attempt.min(8));
    doubled.min(ANSWER)
}

#[derive(Deserialize)]
struct Stored {
    message: StoredMessage,
}
#[derive(Deserialize)]
struct StoredMessage {
    seq: u64,
    #[serde(default)]
    data: String,
}

/// The newest message under a subject, as the leader has it.
pub(super) async fn last(
    api: &Api,
    stream: &str,
    subject: &str,
) -> Result<Option<(u64, Vec<u8>)>, Trouble> {
    let what = format!("STREAM.MSG.GET.{stream}");
    let stored = api
        .ask::<Stored>(&what, &json!({ "last_by_subj": subject }))
        .await;
    match stored {
        Ok(Stored { message }) => {
            let data = STANDARD.decode(message.data);
            let data = data.map_err(|error| Trouble::Odd(format!("a value: {error}")))?;
            Ok(Some((message.seq, data)))
        }
        Err(Trouble::Refused(refused)) if refused.meaning() == Meaning::NoMessage => Ok(None),
        Err(trouble) => Err(trouble),
    }
}

/// What the store says of itself, with the revision at which it does.
pub(super) async fn meta(api: &Api, names: &Names) -> Result<Option<(Meta, u64)>, Trouble> {
    let Some((seq, data)) = last(api, &names.state, &names.meta()).await? else {
        return Ok(None);
    };
    let meta = serde_json::from_slice(&data);
    let odd = |error| Trouble::Odd(format!("what the bus says of itself: {error}"));
    Ok(Some((meta.map_err(odd)?, seq)))
}

/// One message of a batch.
struct Got {
    subject: String,
    seq: u64,
    value: Vec<u8>,
}

/// What a batch gave.
#[derive(Default)]
struct Batch {
    got: Vec<Got>,
    /// The server that answered had everything up to here; told only for the newest of many subjects.
    up_to: u64,
    /// So many more match.
    pending: u64,
}

/// Reads a batch from whichever server is handed the question, to its end; between two messages it may be silent
/// for so long.
async fn batch(api: &Api, stream: &str, body: &Value, silent: Duration) -> Result<Batch, Fault> {
    let gone = |text: String| Fault::Unreachable(text);
    api.connected().map_err(Trouble::fault)?;
    let inbox = api.client.new_inbox();
    let subscribed = api.client.subscribe(inbox.clone()).await;
    let mut answers = subscribed.map_err(|error| gone(format!("no answer can come: {error}")))?;
    let subject = format!("$JS.API.DIRECT.GET.{stream}");
    let payload = body.to_string().into_bytes();
    let sent = api
        .client
        .publish_with_reply(subject, inbox, payload.into())
        .await;
    sent.map_err(|error| gone(format!("a list was not asked for: {error}")))?;
    let mut batch = Batch::default();
    loop {
        let Ok(Some(message)) = tokio::time::timeout(silent, answers.next()).await else {
            let complaint = api.signals.complaint();
            return Err(gone(format!("a list broke off{complaint}")));
        };
        match message.status.map(|status| status.as_u16()) {
            Some(204) => {
                batch.up_to = number(&message, "Nats-UpTo-Sequence").unwrap_or(0);
                batch.pending = number(&message, "Nats-Num-Pending").unwrap_or(0);
                return Ok(batch);
            }
            Some(404) => return Ok(batch),
            Some(status) => {
                let text = message.description.unwrap_or_default();
                return Err(gone(format!("a list was refused: {status} {text}")));
            }
            None => batch.got.push(got(message)?),
        }
    }
}

fn number(message: &Message, header: &str) -> Option<u64> {
    let headers = message.headers.as_ref()?;
    headers.get(header)?.as_str().parse().ok()
}

fn got(message: Message) -> Result<Got, Fault> {
    let seq = number(&message, "Nats-Sequence");
    let headers = message.headers.as_ref();
    let subject = headers.and_then(|headers| headers.get("Nats-Subject"));
    let subject = subject.map(|subject| subject.as_str().to_owned());
    match (subject, seq) {
        (Some(subject), Some(seq)) => Ok(Got {
            subject,
            seq,
            value: message.payload.to_vec(),
        }),
        _ => Err(Fault::Corrupt(
            "a stored message came without its place".to_owned(),
        )),
    }
}

impl Seat {
    /// A key's value, from the leader.
    pub(super) async fn get(&self, bucket: Bucket, key: &Key) -> Result<Option<Entry>, Fault> {
        self.still()?;
        let subject = self.names.subject(bucket, key);
        let own = self.newest_own(bucket, key);
        let found = last(&self.api, &self.names.state, &subject).await;
        let found = found.map_err(Trouble::fault)?;
        if found.as_ref().map_or(0, |(seq, _)| *seq) < own {
            return Err(Fault::Unreachable(format!(
                "a server answered for {key} with less than was written there: it lags behind, or it was restored"
            )));
        }
        let Some((seq, value)) = found else {
            return Ok(None);
        };
        self.saw(seq);
        Ok(Some(Entry {
            key: key.clone(),
            rev: self.rev(seq),
            value,
        }))
    }

    /// Everything under a prefix. Which keys there are, the leader says; their values come from whichever
    /// server proves that it is as far as the leader was.
    pub(super) async fn list(&self, bucket: Bucket, prefix: &Key) -> Result<Snapshot, Fault> {
        self.list_part(bucket, prefix, None, usize::MAX).await
    }

    /// The first `most` of what comes after a key. The names are asked for each time, the values once.
    pub(super) async fn list_part(
        &self,
        bucket: Bucket,
        prefix: &Key,
        after: Option<&Key>,
        most: usize,
    ) -> Result<Snapshot, Fault> {
        let (at, mut subjects) = self.subjects(&self.names.below(bucket, prefix)).await?;
        let mut entries = Vec::new();
        // The prefix itself comes before all that is below it.
        if *prefix != Key::everything()
            && after.is_none_or(|after| prefix > after)
            && let Some(entry) = self.get(bucket, prefix).await?
        {
            entries.push(entry);
        }
        if let Some(after) = after {
            let after = self.names.subject(bucket, after);
            subjects.retain(|subject| *subject > after);
        }
        subjects.sort_unstable();
        subjects.truncate(most.saturating_sub(entries.len()));
        let pages: Vec<Vec<String>> = subjects.chunks(PAGE).map(<[String]>::to_vec).collect();
        let pages = pages.into_iter().map(|page| self.page(at, page));
        let found: Vec<BTreeMap<String, (u64, Vec<u8>)>> =
            stream::iter(pages).buffered(AT_ONCE).try_collect().await?;
        for (subject, (seq, value)) in found.into_iter().flatten() {
            let Some((_, key)) = self.names.key(&subject) else {
                return Err(Fault::Corrupt(format!("{subject} is no key")));
            };
            entries.push(Entry {
                key,
                rev: self.rev(seq),
                value,
            });
        }
        entries.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        let newest = entries.iter().fold(at, |at, entry| at.max(entry.rev.seq));
        self.saw(newest);
        Ok(Snapshot {
            at: self.rev(newest),
            entries,
        })
    }

    /// Every subject under a filter, and the newest revision of the bus when the leader named the first.
    async fn subjects(&self, filter: &str) -> Result<(u64, Vec<String>), Fault> {
        self.still()?;
        let what = format!("STREAM.INFO.{}", self.names.state);
        let (mut at, mut all) = (None, Vec::new());
        loop {
            let body = json!({ "subjects_filter": filter, "offset": all.len() });
            let before = self.high();
            let info = self.api.ask::<StreamInfo>(&what, &body).await;
            let info = info.map_err(Trouble::fault)?;
            self.judge(before, &info)?;
            let at = *at.get_or_insert(info.state.last_seq);
            let part = info.state.subjects.unwrap_or_default();
            let (count, total) = (
                part.len(),
                usize::try_from(info.total).unwrap_or(usize::MAX),
            );
            all.extend(part.into_keys());
            if all.len() >= total {
                return Ok((at, all));
            }
            if count == 0 {
                let text = format!("a list broke off at {} of {total} keys", all.len());
                return Err(Fault::Unreachable(text));
            }
        }
    }

    /// The values of these subjects, all of them, from a server that was at `at` or further.
    async fn page(
        &self,
        at: u64,
        page: Vec<String>,
    ) -> Result<BTreeMap<String, (u64, Vec<u8>)>, Fault> {
        let mut found = BTreeMap::new();
        let mut missing = page;
        let mut last = String::new();
        for attempt in 0..TRIES {
            let body = json!({ "multi_last": missing, "batch": missing.len() });
            match batch(&self.api, &self.names.state, &body, patience(attempt)).await {
                // Keys never go away: what is missing here is only late, or did not fit into the answer.
                Ok(batch) if batch.up_to >= at => {
                    for got in batch.got {
                        found.insert(got.subject, (got.seq, got.value));
                    }
                    let before = missing.len();
                    missing.retain(|subject| !found.contains_key(subject));
                    if missing.is_empty() {
                        return Ok(found);
                    }
                    last = format!("{} of {before} values did not come", missing.len());
                }
                Ok(batch) => {
                    last = format!("a server was at {} and not at {at}", batch.up_to);
                }
                Err(fault) => last = fault.to_string(),
            }
            self.still()?;
            let pause = Duration::from_millis(20 << attempt);
            tokio::time::sleep(pause).await;
        }
        Err(Fault::Unreachable(format!(
            "a list did not become whole: {last}"
        )))
    }

    /// The newest lines under a prefix with a number above `after`, oldest first.
    pub(super) async fn history(
        &self,
        prefix: &Key,
        after: u64,
        limit: usize,
    ) -> Result<Vec<LogLine>, Fault> {
        self.still()?;
        let info = self.api.info(&self.names.log).await;
        let state = info.map_err(Trouble::fault)?.state;
        let first = state.first_seq.max(after.saturating_add(1));
        if limit == 0 || state.last_seq < first {
            return Ok(Vec::new());
        }
        let mut filters = vec![self.names.all_log()];
        if *prefix != Key::everything() {
            let exact = self.names.line(prefix);
            filters = vec![format!("{exact}.>"), exact];
        }
        let mut lines = Vec::new();
        for filter in &filters {
            lines.extend(self.newest(filter, first, state.last_seq, limit).await?);
        }
        lines.sort_unstable_by_key(|line: &LogLine| line.seq);
        lines.drain(..lines.len().saturating_sub(limit));
        Ok(lines)
    }

    /// The newest lines under one filter: from a window at the end that grows until it holds enough.
    async fn newest(
        &self,
        filter: &str,
        first: u64,
        last_seq: u64,
        limit: usize,
    ) -> Result<Vec<LogLine>, Fault> {
        let newest = last(&self.api, &self.names.log, filter).await;
        let Some((newest, _)) = newest.map_err(Trouble::fault)? else {
            return Ok(Vec::new());
        };
        let mut window = u64::try_from(limit).unwrap_or(u64::MAX).max(256);
        loop {
            let from = first.max(last_seq.saturating_sub(window.saturating_sub(1)));
            let lines = self.lines(filter, from, newest).await?;
            if lines.len() >= limit || from == first {
                let surplus = lines.len().saturating_sub(limit);
                return Ok(lines.into_iter().skip(surplus).collect());
            }
            window = window.saturating_mul(8);
        }
    }

    /// Every line under a filter from a number on, up to `newest` at least.
    async fn lines(&self, filter: &str, from: u64, newest: u64) -> Result<Vec<LogLine>, Fault> {
        let mut lines: Vec<LogLine> = Vec::new();
        let mut tries = 0;
        let mut next = from;
        while next <= newest {
            let body = json!({ "seq": next, "next_by_subj": filter, "batch": PAGE });
            let batch = batch(&self.api, &self.names.log, &body, patience(tries)).await;
            let end = batch.as_ref().ok().and_then(|batch| batch.got.last());
            let Some(end) = end.map(|got| got.seq) else {
                // The leader has a newer line than this server, or this one is silent.
                tries += 1;
                if tries >= TRIES {
                    batch?;
                    let text = "the history did not become whole".to_owned();
                    return Err(Fault::Unreachable(text));
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let batch = batch?;
            next = end + 1;
            for got in batch.got {
                let Some(subject) = self.names.of_line(&got.subject) else {
                    continue;
                };
                lines.push(LogLine {
                    seq: got.seq,
                    subject: subject.to_owned(),
                    value: String::from_utf8_lossy(&got.value).into_owned(),
                });
            }
            if batch.pending == 0 && next > newest {
                break;
            }
        }
        Ok(lines)
    }
}
