//! The bus suite: what every bus must keep, tried through the contract alone.
//!
//! It knows no store. A [`Factory`] hands it fresh ones; whatever a store cannot do (be closed and opened
//! again, be used by a second process) makes the trials that need it *skipped*, with the reason.

mod history;
mod lists;
mod model;
mod values;
mod watches;
mod writes;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use mesh_sdk::bus::{Bucket, Bus, Expect, Key, Put, Rev, Write};

use crate::report::{Outcome, Report};

pub use model::{Guess, Op, agrees_with_model};

/// A trial that takes longer has failed.
const DEADLINE: Duration = Duration::from_secs(120);

/// Hands out stores to try.
#[async_trait]
pub trait Factory: Send + Sync {
    /// A new and empty store.
    async fn fresh(&self) -> Result<Box<dyn Store>, String>;
}

/// One store, and what else can be done with it.
#[async_trait]
pub trait Store: Send + Sync {
    /// The bus on it.
    fn bus(&self) -> Arc<dyn Bus>;
    /// The longest value that it takes.
    fn limit(&self) -> usize;
    /// Closes it and opens it again. The suite holds no handle of it meanwhile. Errors: why not.
    async fn reopen(&mut self) -> Result<(), String>;
    /// Another handle on the same store, as a second process has it. Errors: why not.
    async fn second(&self) -> Result<Arc<dyn Bus>, String>;
}

/// Why a trial ended early.
#[derive(Debug)]
pub(crate) enum Stop {
    Skipped(String),
    Failed(String),
}

impl From<mesh_sdk::bus::Fault> for Stop {
    fn from(fault: mesh_sdk::bus::Fault) -> Self {
        Stop::Failed(format!("the bus failed: {fault}"))
    }
}

/// Ends a trial unless something holds.
macro_rules! check {
    ($holds:expr, $($why:tt)*) => {
        if !$holds {
            return Err($crate::bus::Stop::Failed(format!($($why)*)));
        }
    };
}
use check;

type Try = for<'a> fn(&'a mut dyn Store) -> BoxFuture<'a, Result<(), Stop>>;

/// A list of trials, each with its function's name.
macro_rules! trials {
    ($($place:ident :: $name:ident,)*) => {
        const TRIALS: &[(&str, Try)] = &[
            $((stringify!($name), |store| Box::pin($place::$name(store))),)*
        ];
    };
}

trials! {
    values::b2_values_from_nothing_to_the_limit_come_back,
    values::b2_a_value_over_the_limit_is_refused_and_others_go_on,
    values::b2_buckets_are_apart,
    values::b9_a_done_is_seen_at_once,
    values::b9_a_second_handle_sees_what_is_done,
    values::b9_reopening_keeps_everything,
    values::b9_health_tells_epoch_and_revision,
    writes::b5_absent_has_one_winner_of_sixteen,
    writes::b5_a_stale_revision_conflicts,
    writes::b5_a_revision_of_another_epoch_conflicts,
    writes::b5_revisions_grow_over_all_keys,
    writes::b5_put_each_has_an_outcome_for_each_in_order,
    writes::b5_put_each_of_nothing_is_nothing,
    writes::b5_put_each_of_many_is_whole,
    writes::b5_contending_writers_lose_no_step,
    writes::b5_two_handles_have_one_winner,
    lists::b2_a_list_is_whole_and_ordered,
    lists::b2_a_prefix_is_not_fooled_by_names,
    lists::b2_names_of_any_text_keep_their_place,
    lists::b2_a_list_says_when_it_was_true,
    lists::b2_a_list_while_others_write_never_goes_back,
    watches::b7_a_watch_rings_for_every_change,
    watches::b7_a_watch_rings_for_a_second_handles_changes,
    watches::b7_a_watch_rings_for_nothing_else,
    watches::b7_a_watch_that_lags_is_told_of_a_gap_or_of_all,
    watches::b7_a_watch_opened_before_a_write_never_misses_it,
    history::b9_history_keeps_order_limit_and_after,
    history::b9_a_history_prefix_is_not_fooled_by_names,
    history::b9_history_outlives_reopening,
    history::b9_a_line_over_the_limit_is_refused,
    model::b2_random_operations_agree_with_a_model,
}

/// Tries everything, each trial on a store of its own.
pub async fn run(factory: &dyn Factory) -> Report {
    let mut report = Report::expecting(TRIALS.len());
    for (name, trial) in TRIALS {
        report.note(name, one(factory, *trial).await);
    }
    report
}

async fn one(factory: &dyn Factory, trial: Try) -> Outcome {
    let mut store = match factory.fresh().await {
        Ok(store) => store,
        Err(why) => return Outcome::Failed(format!("no fresh store: {why}")),
    };
    let guarded = AssertUnwindSafe(trial(store.as_mut())).catch_unwind();
    match tokio::time::timeout(DEADLINE, guarded).await {
        Err(_) => Outcome::Failed(format!("not done after {DEADLINE:?}")),
        Ok(Err(_)) => Outcome::Failed("it panicked".to_owned()),
        Ok(Ok(Ok(()))) => Outcome::Ran,
        Ok(Ok(Err(Stop::Skipped(why)))) => Outcome::Skipped(why),
        Ok(Ok(Err(Stop::Failed(why)))) => Outcome::Failed(why),
    }
}

/// A write of a text.
fn write(key: &Key, expect: Expect, text: &str) -> Write {
    Write {
        key: key.clone(),
        expect,
        value: text.as_bytes().to_vec(),
    }
}

/// Writes, and fails unless it is done.
async fn done(
    bus: &dyn Bus,
    bucket: Bucket,
    key: &Key,
    expect: Expect,
    text: &str,
) -> Result<Rev, Stop> {
    match bus.put_if(bucket, write(key, expect, text)).await? {
        Put::Done(rev) => Ok(rev),
        other => Err(Stop::Failed(format!("writing {key} gave {other:?}"))),
    }
}

/// Reads a value that must be there.
async fn text_of(bus: &dyn Bus, bucket: Bucket, key: &Key) -> Result<String, Stop> {
    match bus.get(bucket, key).await? {
        Some(entry) => Ok(String::from_utf8_lossy(&entry.value).into_owned()),
        None => Err(Stop::Failed(format!("{key} is not there"))),
    }
}
