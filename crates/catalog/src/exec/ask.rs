//! One question and its answer, on the program that runs now or on a new one.

use mesh_sdk::provision::Departing;
use mesh_sdk::{Class, Cx, Error, Login, Marker, Provision, Secret};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::adapter::Exec;
use super::process::{Flight, Process, Said};
use super::protocol::{Facts, LeavingLine, WishLine};
use super::values::ExecValues;
use super::{check, classify};

/// What is asked for one consumer.
pub(super) type Wish<'a> = Provision<'a, ExecValues>;

impl Exec {
    /// Refuses a login that is never touched (H-19), before the program is asked.
    pub(super) fn may_touch(&self, process: &Process, login: &str) -> Result<(), Error> {
        let refused = match check::login(&self.seat.settings, login) {
            Err(refusal) => refusal.to_string(),
            Ok(()) if process.hello.reserved.iter().any(|one| one == login) => {
                format!("`{login}` is reserved by the program")
            }
            Ok(()) => return Ok(()),
        };
        Err(Error::new(Class::RefusedValue, refused))
    }

    /// Looks at one login.
    pub(super) async fn facts(
        &self,
        cx: &Cx,
        process: &Process,
        wish: &Wish<'_>,
    ) -> Result<Facts, Error> {
        ask(cx, process, "holds", wish_line(process, wish)).await
    }

    /// Makes one login, after the program's own check where it has one.
    pub(super) async fn make(
        &self,
        cx: &Cx,
        process: &Process,
        wish: &Wish<'_>,
    ) -> Result<(), Error> {
        self.may_touch(process, wish.login().as_str())?;
        if wish.password().is_none() {
            let message = "there is no password to give it yet";
            return Err(Error::new(Class::RefusedValue, message));
        }
        if process.hello.can("check") {
            let _: Value = ask(cx, process, "check", wish_line(process, wish)).await?;
        }
        let _: Value = ask(cx, process, "create", wish_line(process, wish)).await?;
        Ok(())
    }

    /// Removes or disables one.
    pub(super) async fn take_away(
        &self,
        cx: &Cx,
        op: &str,
        marker: &Marker,
        login: &Departing,
    ) -> Result<(), Error> {
        let process = self.seat.process(cx).await?;
        self.may_touch(&process, login.login.as_str())?;
        let body = LeavingLine {
            consumer: login.consumer.as_str(),
            login: login.login.as_str(),
            mark: marker.mark(&login.consumer).as_str().to_owned(),
        };
        match ask::<Value>(cx, &process, op, body).await {
            // "Already gone" is success.
            Err(error) if error.class() == Class::Gone => Ok(()),
            other => other.map(|_| ()),
        }
    }
}

/// One request with one answer.
pub(super) async fn ask<T: DeserializeOwned>(
    cx: &Cx,
    process: &Process,
    op: &str,
    body: impl Serialize,
) -> Result<T, Error> {
    let mut flight = process.send(op, body).await?;
    loop {
        let said = flight.next().await;
        cx.progress();
        match said {
            Said::Progress => {}
            Said::Item(_) => return Err(classify::odd(op, "comes in parts")),
            Said::End(end) => return typed(op, end?),
        }
    }
}

/// The next part of an answer in parts; `None` at its end.
pub(super) async fn item<T: DeserializeOwned>(
    cx: &Cx,
    flight: &mut Flight<'_>,
    op: &str,
) -> Result<Option<T>, Error> {
    loop {
        let said = flight.next().await;
        cx.progress();
        match said {
            Said::Progress => {}
            Said::Item(value) => return Ok(Some(typed(op, value)?)),
            Said::End(end) => return end.map(|_| None),
        }
    }
}

/// A value of the form that was asked for. What serde says of it may repeat it, so that is left out.
pub(super) fn typed<T: DeserializeOwned>(op: &str, value: Value) -> Result<T, Error> {
    serde_json::from_value(value).map_err(|_| classify::odd(op, "has another form than asked for"))
}

/// A wish as the program is handed it.
pub(super) fn wish_line<'a>(process: &Process, wish: &Wish<'a>) -> WishLine<'a> {
    WishLine {
        consumer: wish.consumer().as_str(),
        login: wish.login().as_str(),
        password: wish.password().and_then(Secret::expose_str),
        second_password: wish.second_password().and_then(Secret::expose_str),
        base: wish.base().map(Login::as_str),
        values: &wish.values().values,
        enabled: wish.enabled(),
        exact: wish.exact(),
        generated: wish.is_generated(),
        mark: wish.mark().as_str().to_owned(),
        // Who can be asked was asked whose the login is (H-18). Where nobody could, it is left alone.
        take_over: process.hello.can("holds"),
    }
}
