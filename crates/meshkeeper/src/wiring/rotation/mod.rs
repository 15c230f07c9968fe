//! Rotation in the program: [`seats`] makes of a journal what is asked for, [`held`] opens what it names, [`source`]
//! tells the loop what is seen, [`rotating`] runs it, [`awaited`] says whether it is over.
//!
//! It runs in the process that puts the wish in force: what it changes is the wish.

pub mod awaited;
pub mod held;
pub mod rotating;
pub mod seats;
pub mod source;

use mesh_loops::rotation::decide::{About, Begin};
use mesh_loops::rotation::store::Of;
use mesh_sdk::Time;
use std::collections::HashMap;

use super::shapes::{Subject, Word};
use super::words::Said;

/// What people said of rotations and pauses.
#[derive(Debug, Default)]
pub struct Words {
    pub(super) begin: HashMap<Of, Begin>,
    pub(super) about: HashMap<Of, About>,
    pauses: HashMap<Subject, Time>,
}

impl Words {
    /// As far as it is about rotation.
    pub fn of(said: &Said) -> Self {
        let mut words = Self::default();
        for word in said.words() {
            match word {
                Word::Rotate {
                    provider,
                    consumer,
                    reason,
                    due,
                    at,
                } => {
                    let begin = Begin {
                        at: *at,
                        due: *due,
                        reason: reason.clone(),
                    };
                    words
                        .begin
                        .insert((provider.clone(), consumer.clone()), begin);
                }
                Word::Turn {
                    provider,
                    consumer,
                    number,
                    turn,
                    what,
                    reason,
                    ..
                } => {
                    let about = About {
                        number: *number,
                        turn: *turn,
                        what: *what,
                        reason: reason.clone(),
                    };
                    words
                        .about
                        .insert((provider.clone(), consumer.clone()), about);
                }
                Word::Pause { subject, until, .. } => {
                    words.pauses.insert(subject.clone(), *until);
                }
                _ => {}
            }
        }
        words
    }
    /// Until when writes for one are paused.
    pub fn paused(&self, (provider, consumer): &Of) -> Option<Time> {
        let provider = self.pauses.get(&Subject::Provider(provider.clone()));
        let consumer = self.pauses.get(&Subject::Consumer(consumer.clone()));
        provider.into_iter().chain(consumer).max().copied()
    }
}
