//! Many at once: by the program's own bulk form, or many questions down one pipe (H-16).

use futures_util::StreamExt as _;
use mesh_sdk::adapter::Sink;
use mesh_sdk::{Answer, Class, Cx, Error};

use super::adapter::Exec;
use super::ask::{Wish, ask, item, typed, wish_line};
use super::process::Process;
use super::protocol::{Facts, ItemLine, ManyLine};
use super::{classify, judge};

/// Wishes in one line of the program's bulk form.
const PART: usize = 500;
/// Questions in flight where it has none.
const WINDOW: usize = 64;

impl Exec {
    pub(super) async fn look_at_all(
        &self,
        cx: &Cx,
        wishes: &[Wish<'_>],
        answers: &Sink<Answer>,
    ) -> Result<(), Error> {
        let process = self.seat.process(cx).await?;
        let judged = |wish: &Wish<'_>, facts: Result<Facts, Error>| judge::answer(wish, &facts?);
        if !process.hello.can("holds_all") {
            let each = futures_util::stream::iter(wishes.iter().enumerate());
            let each = each.for_each_concurrent(WINDOW, async |(index, wish)| {
                let facts = self.facts(cx, &process, wish).await;
                answers.put(index, judged(wish, facts));
            });
            each.await;
            return Ok(());
        }
        let put = |index: usize, said: Result<serde_json::Value, Error>| {
            let facts = said.and_then(|value| typed("holds_all", value));
            answers.put(index, judged(&wishes[index], facts));
        };
        in_parts(cx, &process, "holds_all", wishes, &|_| true, &put).await
    }

    pub(super) async fn make_all(
        &self,
        cx: &Cx,
        wishes: &[Wish<'_>],
        outcomes: &Sink<()>,
    ) -> Result<(), Error> {
        let process = self.seat.process(cx).await?;
        if !process.hello.can("create_all") {
            let each = futures_util::stream::iter(wishes.iter().enumerate());
            let each = each.for_each_concurrent(WINDOW, async |(index, wish)| {
                outcomes.put(index, self.make(cx, &process, wish).await);
            });
            each.await;
            return Ok(());
        }
        let mut may = vec![false; wishes.len()];
        for (index, wish) in wishes.iter().enumerate() {
            match self.may_make(cx, &process, wish).await {
                Ok(()) => may[index] = true,
                Err(error) => outcomes.put(index, Err(error)),
            }
        }
        let put = |index, said: Result<serde_json::Value, Error>| {
            outcomes.put(index, said.map(|_| ()));
        };
        in_parts(cx, &process, "create_all", wishes, &|i| may[i], &put).await
    }

    /// What stands before a creation by the bulk form.
    async fn may_make(&self, cx: &Cx, process: &Process, wish: &Wish<'_>) -> Result<(), Error> {
        self.may_touch(process, wish.login().as_str())?;
        if wish.password().is_none() {
            let message = "there is no password to give it yet";
            return Err(Error::new(Class::RefusedValue, message));
        }
        if process.hello.can("check") {
            let _: serde_json::Value = ask(cx, process, "check", wish_line(process, wish)).await?;
        }
        Ok(())
    }
}

/// Sends the wishes in lines of bounded length, one after the other, and hands each answer on.
async fn in_parts(
    cx: &Cx,
    process: &Process,
    op: &str,
    wishes: &[Wish<'_>],
    is_asked: &(dyn Fn(usize) -> bool + Sync),
    put: &(dyn Fn(usize, Result<serde_json::Value, Error>) + Sync),
) -> Result<(), Error> {
    let asked: Vec<usize> = (0..wishes.len()).filter(|i| is_asked(*i)).collect();
    for part in asked.chunks(PART) {
        let lines = part.iter().map(|i| wish_line(process, &wishes[*i]));
        let body = ManyLine {
            wishes: lines.collect(),
        };
        let mut flight = process.send(op, body).await?;
        while let Some(one) = item::<ItemLine>(cx, &mut flight, op).await? {
            let Some(index) = part.get(one.index) else {
                return Err(classify::odd(op, "has an index that was not asked for"));
            };
            match (one.ok, one.error) {
                (Some(value), None) => put(*index, Ok(value)),
                (None, Some(trouble)) => put(*index, Err(classify::told(op, &trouble))),
                _ => return Err(classify::odd(op, "is neither `ok` nor `error`")),
            }
        }
    }
    Ok(())
}
