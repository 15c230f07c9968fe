//! Proof by login, where verifiers cannot be read: on a connection of its own, to the server itself, and
//! never more than one wrong login for a consumer in a pass (H-17, O-23, O-35).

use futures_util::StreamExt;
use futures_util::stream;
use mesh_sdk::{Cx, Error};

use super::adapter::Postgres;
use super::classify;
use super::compare::Wish;
use super::proof::Fit;

/// How many are tried in one look; the next look goes on with the next ones. A login costs the server a
/// process and some milliseconds.
const LOGINS: usize = 50;

impl Postgres {
    /// Which of these are tried now.
    pub(super) fn next_slice(&self, indices: &[usize]) -> Vec<usize> {
        if indices.len() <= LOGINS {
            return indices.to_vec();
        }
        let start = match self.cursor.lock() {
            Ok(mut cursor) => {
                let start = *cursor % indices.len();
                *cursor = start + LOGINS;
                start
            }
            Err(_) => 0,
        };
        indices
            .iter()
            .cycle()
            .skip(start)
            .take(LOGINS)
            .copied()
            .collect()
    }

    /// Logs in as each of them, a few at once.
    pub(super) async fn try_logins(
        &self,
        cx: &Cx,
        wishes: &[Wish<'_>],
        indices: Vec<usize>,
    ) -> Vec<(usize, Result<Fit, Error>)> {
        let at_once = usize::try_from(self.endpoint.options.connections).unwrap_or(1);
        let mut tries = Vec::with_capacity(indices.len());
        for index in indices {
            let wish = wishes[index];
            tries.push(async move {
                let fit = self.fits_by_login(&wish).await;
                cx.progress();
                (index, fit)
            });
        }
        stream::iter(tries)
            .buffer_unordered(at_once.max(1))
            .collect()
            .await
    }

    /// Logs in once.
    async fn fits_by_login(&self, wish: &Wish<'_>) -> Result<Fit, Error> {
        let Some(password) = wish.password() else {
            return Ok(Fit::Untold);
        };
        let (login, database) = (wish.login().as_str(), wish.values().database.as_str());
        let tried = self
            .endpoint
            .try_login(login, password.expose(), database)
            .await?;
        let Err(error) = tried else {
            return Ok(Fit::LoggedIn);
        };
        let Some(said) = classify::said(&error) else {
            return Err(classify::failed("log in as a consumer", &error));
        };
        match said.code().code() {
            "28P01" => Ok(Fit::Other),
            // No rule lets it in from here: its password was not even asked for.
            "28000" => Ok(Fit::Untold),
            // These come after the right password only.
            "3D000" | "42501" => Ok(Fit::LoggedIn),
            // Too many of its own connections, and not too many of all.
            "53300"
                if matches!(
                    said.routine(),
                    Some("InitializeSessionUserId" | "CheckMyDatabase")
                ) =>
            {
                Ok(Fit::LoggedIn)
            }
            _ => Err(classify::failed("log in as a consumer", &error)),
        }
    }
}
