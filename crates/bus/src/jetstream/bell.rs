//! Doorbells: one task that listens for the whole process, and never believes that silence means nothing.
//!
//! It reads its consumer all the time, whoever is busy (O-40). It opens it anew, and tells a gap, when the
//! connection came or went, heartbeats stay away, a message is missing, or the stream is further than what
//! was heard. Watchers hear through a channel that forgets rather than waits.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Message, Subscriber};
use futures_util::StreamExt;
use mesh_sdk::bus::{Bucket, Key};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, MissedTickBehavior};

use super::api::Trouble;
use super::seat::Seat;
use crate::watch::{BEHIND, Change};

/// How often a consumer with nothing to tell says that it lives.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// Silence for so long means that it does not.
const SILENCE: Duration = Duration::from_secs(7);
/// How often what was heard is compared with how far the stream is.
const COMPARE: Duration = Duration::from_secs(10);
/// A consumer that nobody hears is thrown away by the server after this.
const FORGOTTEN: Duration = Duration::from_secs(30);
/// Pauses before it is opened anew, so that a server in trouble is not given more.
const BACK_OFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// The bell of one open bus.
pub(super) struct Bell {
    pub(super) changes: broadcast::Sender<Arc<Change>>,
    /// How often it began to listen.
    listening: watch::Receiver<u64>,
    task: tokio::task::JoinHandle<()>,
}

impl Bell {
    /// Begins to listen.
    pub(super) fn hang(seat: Arc<Seat>) -> Self {
        let changes = broadcast::channel(BEHIND).0;
        let (begun, listening) = watch::channel(0);
        let ringer = Ringer {
            seat,
            changes: changes.clone(),
            begun,
        };
        Self {
            changes,
            listening,
            task: tokio::spawn(ringer.ring()),
        }
    }
    /// Waits until it listens. If it does not for a while, the gap that it tells on its beginning is what
    /// a watcher hears first.
    pub(super) async fn listens(&self) {
        let mut listening = self.listening.clone();
        let begun = listening.wait_for(|count| *count > 0);
        // Either way the watch is of use.
        let _ = tokio::time::timeout(super::api::ANSWER, begun).await;
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Ringer {
    seat: Arc<Seat>,
    changes: broadcast::Sender<Arc<Change>>,
    begun: watch::Sender<u64>,
}

/// A consumer that is listened to.
struct Consumer {
    name: String,
    messages: Subscriber,
    /// The number of its next message.
    next: u64,
    /// The newest revision that it told, or was made at.
    heard: u64,
}

#[derive(Deserialize)]
struct Made {}

impl Ringer {
    async fn ring(self) {
        let mut pause = BACK_OFF.0;
        loop {
            let since = Instant::now();
            match self.listen().await {
                Ok(consumer) => {
                    self.begun.send_modify(|count| *count += 1);
                    self.tell(Change::anything());
                    let name = consumer.name.clone();
                    let why = self.hear(consumer).await;
                    tracing::debug!(target: "mesh_bus", "the doorbell is hung anew: {why}");
                    self.tell(Change::anything());
                    self.drop_consumer(&name).await;
                }
                Err(why) => {
                    tracing::debug!(target: "mesh_bus", "the doorbell cannot be hung: {why:?}");
                }
            }
            if since.elapsed() > BACK_OFF.1 {
                pause = BACK_OFF.0;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(BACK_OFF.1);
        }
    }

    fn tell(&self, change: Change) {
        // Nobody may be watching.
        let _ = self.changes.send(Arc::new(change));
    }

    /// Makes a consumer of all that comes from now on.
    async fn listen(&self) -> Result<Consumer, Trouble> {
        let api = &self.seat.api;
        let stream = &self.seat.names.state;
        let info = api.info(stream).await?;
        let heard = info.state.last_seq;
        let inbox = api.client.new_inbox();
        let name = inbox.rsplit('.').next().unwrap_or(&inbox).to_owned();
        let messages = api.client.subscribe(inbox.clone()).await;
        let messages = messages.map_err(|error| Trouble::NotTaken(error.to_string()))?;
        let filter = self.seat.names.all_state();
        let body = json!({
            "stream_name": stream,
            "action": "create",
            "config": {
                "name": name,
                "deliver_subject": inbox,
                "deliver_policy": "by_start_sequence",
                "opt_start_seq": heard + 1,
                "ack_policy": "none",
                "filter_subject": filter,
                "headers_only": true,
                "max_deliver": 1,
                "mem_storage": true,
                "num_replicas": 1,
                "idle_heartbeat": nanos(HEARTBEAT),
                "inactive_threshold": nanos(FORGOTTEN),
            },
        });
        let what = format!("CONSUMER.CREATE.{stream}.{name}.{filter}");
        api.ask::<Made>(&what, &body).await?;
        Ok(Consumer {
            name,
            messages,
            next: 1,
            heard,
        })
    }

    /// Hears until there is a reason to begin anew.
    async fn hear(&self, mut consumer: Consumer) -> String {
        let mut signals = self.seat.api.signals.changes.clone();
        signals.mark_unchanged();
        let mut compare = tokio::time::interval(COMPARE);
        compare.set_missed_tick_behavior(MissedTickBehavior::Delay);
        compare.reset();
        let mut last = Instant::now();
        let mut before = consumer.heard;
        loop {
            let silent = tokio::time::sleep_until(last + SILENCE);
            tokio::select! {
                biased;
                message = consumer.messages.next() => {
                    let Some(message) = message else {
                        return "the subscription ended".to_owned();
                    };
                    last = Instant::now();
                    if let Err(why) = self.take(&mut consumer, &message) {
                        return why;
                    }
                }
                changed = signals.changed() => {
                    let what = if changed.is_ok() { "changed" } else { "is closed" };
                    return format!("the connection {what}");
                }
                _ = compare.tick() => {
                    match self.seat.api.info(&self.seat.names.state).await {
                        // What came before the last comparison must have been heard by now.
                        Ok(_) if consumer.heard < before => {
                            return "the stream is further than what was heard".to_owned();
                        }
                        Ok(info) if info.created != self.seat.created => {
                            return "the stream was made again".to_owned();
                        }
                        Ok(info) => before = info.state.last_seq,
                        // Its heartbeats tell whether it lives.
                        Err(_) => {}
                    }
                }
                () = silent => return "no heartbeat".to_owned(),
            }
        }
    }

    /// Takes a message of the consumer. Errors: something is missing.
    fn take(&self, consumer: &mut Consumer, message: &Message) -> Result<(), String> {
        if let Some(status) = message.status.map(|status| status.as_u16()) {
            let told = message.headers.as_ref();
            let told = told.and_then(|headers| headers.get("Nats-Last-Consumer"));
            let told: Option<u64> = told.and_then(|number| number.as_str().parse().ok());
            return match (status, told) {
                (100, Some(told)) if told >= consumer.next => {
                    Err(format!("message {told} did not come"))
                }
                (100, _) => Ok(()),
                _ => Err(format!("the server ended it with {status}")),
            };
        }
        let place = message.reply.as_ref().and_then(|reply| place(reply));
        let Some((stream_seq, number)) = place else {
            return Err("a message without its place".to_owned());
        };
        if number != consumer.next {
            return Err(format!("message {} did not come", consumer.next));
        }
        consumer.next += 1;
        consumer.heard = consumer.heard.max(stream_seq);
        if let Some(changed) = self.seat.names.key(&message.subject) {
            let keys: Vec<(Bucket, Key)> = vec![changed];
            self.tell(Change::of(keys));
        }
        Ok(())
    }

    async fn drop_consumer(&self, name: &str) {
        let what = format!("CONSUMER.DELETE.{}.{name}", self.seat.names.state);
        // The server forgets it by itself, too.
        let gone = self
            .seat
            .api
            .ask::<Made>(&what, &serde_json::Value::Null)
            .await;
        drop(gone);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Stream sequence and consumer sequence of a delivered message, from its acknowledgement's subject.
fn place(reply: &str) -> Option<(u64, u64)> {
    let parts: Vec<&str> = reply.split('.').collect();
    let at = match parts.len() {
        9 => 5,
        11.. => 7,
        _ => return None,
    };
    Some((
        parts.get(at)?.parse().ok()?,
        parts.get(at + 1)?.parse().ok()?,
    ))
}

#[cfg(test)]
mod tests {
    //! Both forms of an acknowledgement's subject are read.
    use super::place;

    #[test]
    fn b7_the_place_of_a_message_is_read_from_both_forms() {
        assert_eq!(place("$JS.ACK.S.c.1.10.3.1700000000.0"), Some((10, 3)));
        let long = "$JS.ACK.dom.acc.S.c.1.10.3.1700000000.0.tok";
        assert_eq!(place(long), Some((10, 3)));
        assert_eq!(place("$JS.ACK.S.c"), None);
    }
}
