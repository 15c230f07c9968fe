//! What every trial stands on: wishes, calls under a deadline, and an ear for secrets in what comes back.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mesh_sdk::adapter::{Cx, Found, Listed, ProviderSettings, Refusal, Sink, Use};
use mesh_sdk::handle::{AdapterHandle, AnyKind, Asked};
use mesh_sdk::provision::{Departing, WishParts};
use mesh_sdk::{Answer, Class, ConsumerName, Error, Login, Lost, Marker, MeshId, Secret, Wish};
use serde_json::Value;
use tokio::time::timeout;

use super::bench::{Bench, Done};
use crate::basics::{Result, ServerError};
use crate::report::Outcome;

/// No call on a healthy local server takes longer.
const DEADLINE: Duration = Duration::from_secs(20);
/// No bulk call of the suite takes longer, however lively it is.
const LONGEST: Duration = Duration::from_secs(120);

/// Why a trial ends early.
pub(super) enum Stop {
    Skip(String),
    Fail(String),
}

impl From<ServerError> for Stop {
    fn from(error: ServerError) -> Self {
        Stop::Fail(format!("the bench: {error}"))
    }
}
impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Fail(format!("the adapter: {error}"))
    }
}

/// How a trial ends.
pub(super) type Ended = std::result::Result<(), Stop>;

impl From<Ended> for Outcome {
    fn from(ended: Ended) -> Self {
        match ended {
            Ok(()) => Outcome::Ran,
            Err(Stop::Skip(why)) => Outcome::Skipped(why),
            Err(Stop::Fail(how)) => Outcome::Failed(how),
        }
    }
}

/// Fails with a message if it is not so.
pub(super) fn demand(is_so: bool, otherwise: impl Into<String>) -> Ended {
    if is_so { Ok(()) } else { fail(otherwise) }
}
/// Fails with a message.
pub(super) fn fail<T>(how: impl Into<String>) -> std::result::Result<T, Stop> {
    Err(Stop::Fail(how.into()))
}
/// Skips where the adapter does not declare an ability.
pub(super) fn declared(ability: bool, name: &str) -> Ended {
    if ability {
        return Ok(());
    }
    Err(Stop::Skip(format!("not declared: {name}")))
}
/// Skips where the backend has nothing of the kind.
pub(super) fn needed(done: Done) -> Ended {
    match done {
        Done::Yes => Ok(()),
        Done::Never(why) => Err(Stop::Skip(why.to_owned())),
    }
}

/// A mark's maker for another installation of the same mesh.
pub(super) fn stranger(provider: &ProviderSettings) -> std::result::Result<Marker, Stop> {
    marker(provider, "i2", "another key")
}

fn marker(
    settings: &ProviderSettings,
    installation: &str,
    key: &str,
) -> std::result::Result<Marker, Stop> {
    let mesh = MeshId::new("conformance").map_err(|error| Stop::Fail(error.to_string()))?;
    let provider = settings.provider.clone();
    Ok(Marker::new(mesh, installation, provider, Secret::from(key)))
}

/// One trial's ground. All trials of a run share it.
pub(super) struct Ground<'a> {
    pub(super) kind: &'a dyn AnyKind,
    pub(super) bench: &'a dyn Bench,
    pub(super) adapter: AdapterHandle,
    pub(super) marker: Marker,
    pub(super) cx: Cx,
    key: Secret,
    heard: Mutex<Vec<String>>,
}

impl<'a> Ground<'a> {
    pub(super) fn new(kind: &'a dyn AnyKind, bench: &'a dyn Bench) -> Result<Self> {
        let settings = bench.settings();
        let marker = marker(&settings, "i1", "key")
            .map_err(|_| ServerError::new("the provider's name cannot be in a mark"))?;
        kind.check_provider(&settings)
            .map_err(|refusal| ServerError::new(refusal.to_string()))?;
        let adapter = kind
            .open(settings)
            .map_err(|error| ServerError::new(error.to_string()))?;
        Ok(Self {
            kind,
            bench,
            adapter,
            marker,
            cx: Cx::default(),
            key: Secret::from("key"),
            heard: Mutex::default(),
        })
    }

    /// A wish for a consumer of this name: login the same, a password of its own, the bench's values.
    pub(super) fn wish(&self, name: &str) -> std::result::Result<Wish, Stop> {
        self.wish_with(name, |_| ())
    }

    /// The same, changed.
    pub(super) fn wish_with(
        &self,
        name: &str,
        change: impl FnOnce(&mut WishParts),
    ) -> std::result::Result<Wish, Stop> {
        let consumer = ConsumerName::new(name).map_err(|e| Stop::Fail(e.to_string()))?;
        let mut parts = WishParts {
            login: Login::from(&consumer),
            consumer,
            password: Some(Secret::from(format!("planted-{name}-Ω\"'\\%41"))),
            values: Arc::new(()),
            canonical_values: Vec::new(),
            enabled: true,
            adopt: false,
            exact: false,
            second: None,
            base: None,
            generated: false,
        };
        self.set_values(&mut parts, self.bench.values(name))?;
        change(&mut parts);
        Ok(Wish::new(parts, &self.key))
    }

    /// Gives a wish other values.
    pub(super) fn set_values(&self, parts: &mut WishParts, values: Value) -> Ended {
        let parsed = self.kind.parse_values(values);
        let parsed = parsed.map_err(|error| Stop::Fail(format!("the bench's values: {error}")))?;
        parts.values = parsed.values;
        parts.canonical_values = parsed.canonical;
        Ok(())
    }

    pub(super) fn check(&self, wish: &Wish) -> std::result::Result<(), Refusal> {
        let checked = self.kind.check(&self.bench.settings(), wish, &self.marker);
        self.hear(format!("{checked:?}"));
        checked
    }

    pub(super) async fn create(&self, wish: &Wish) -> std::result::Result<(), Error> {
        self.create_as(wish, false).await
    }
    pub(super) async fn create_as(
        &self,
        wish: &Wish,
        adopted: bool,
    ) -> std::result::Result<(), Error> {
        let asked = Asked { wish, adopted };
        self.timed("create", self.adapter.create(&self.cx, &self.marker, asked))
            .await
    }
    pub(super) async fn holds(&self, wish: &Wish) -> std::result::Result<Answer, Error> {
        self.holds_as(wish, false).await
    }
    pub(super) async fn holds_as(
        &self,
        wish: &Wish,
        adopted: bool,
    ) -> std::result::Result<Answer, Error> {
        let asked = Asked { wish, adopted };
        let answer = self
            .timed("holds", self.adapter.holds(&self.cx, &self.marker, asked))
            .await;
        self.hear(format!("{answer:?}"));
        answer
    }
    pub(super) async fn remove(&self, going: &Departing) -> std::result::Result<(), Error> {
        self.timed("remove", self.adapter.remove(&self.cx, &self.marker, going))
            .await
    }
    pub(super) async fn disable(&self, going: &Departing) -> std::result::Result<(), Error> {
        self.timed(
            "disable",
            self.adapter.disable(&self.cx, &self.marker, going),
        )
        .await
    }
    pub(super) async fn list(&self) -> std::result::Result<Vec<Listed>, Error> {
        let listed = self
            .timed("list", self.adapter.list(&self.cx, &self.marker))
            .await;
        self.hear(format!("{listed:?}"));
        listed
    }

    pub(super) async fn uses(&self, wish: &Wish) -> std::result::Result<Option<Use>, Stop> {
        let going = [departing(wish)];
        let told = self
            .timed("uses", self.adapter.uses(&self.cx, &going))
            .await?;
        self.hear(format!("{told:?}"));
        match <[Option<Use>; 1]>::try_from(told) {
            Ok([one]) => Ok(one),
            Err(told) => fail(format!("asked for one login, told of {}", told.len())),
        }
    }
    pub(super) async fn find(&self) -> std::result::Result<Vec<Found<Value>>, Error> {
        let found = self
            .timed("find", self.adapter.find(&self.cx, &self.marker))
            .await;
        self.hear(format!("{found:?}"));
        found
    }
    pub(super) async fn data(&self, name: &str) -> std::result::Result<Option<String>, Error> {
        let data = self.timed("data", self.adapter.data(&self.cx, name)).await;
        self.hear(format!("{data:?}"));
        data
    }
    pub(super) async fn purge(&self, name: &str) -> std::result::Result<(), Error> {
        self.timed("purge", self.adapter.purge(&self.cx, name))
            .await
    }

    /// The bulk look: an answer for each, or the error that left some without one.
    pub(super) async fn holds_all(
        &self,
        cx: &Cx,
        wishes: &[Wish],
    ) -> std::result::Result<Vec<std::result::Result<Answer, Error>>, Error> {
        let asked: Vec<Asked<'_>> = wishes.iter().map(plain).collect();
        let sink = Sink::new(asked.len());
        let call = self.adapter.holds_all(cx, &self.marker, &asked, &sink);
        let ended = self.timed_by_progress("holds_all", cx, call).await;
        Ok(self.filled(sink, ended)?.into_iter().collect())
    }

    /// The bulk creation.
    pub(super) async fn create_all(
        &self,
        wishes: &[Wish],
    ) -> std::result::Result<Vec<std::result::Result<(), Error>>, Error> {
        let asked: Vec<Asked<'_>> = wishes.iter().map(plain).collect();
        let sink = Sink::new(asked.len());
        let call = self
            .adapter
            .create_all(&self.cx, &self.marker, &asked, &sink);
        let ended = self.timed_by_progress("create_all", &self.cx, call).await;
        self.filled(sink, ended)
    }

    fn filled<T: std::fmt::Debug>(
        &self,
        sink: Sink<T>,
        ended: std::result::Result<(), Error>,
    ) -> std::result::Result<Vec<std::result::Result<T, Error>>, Error> {
        let taken = sink.take();
        self.hear(format!("{taken:?}"));
        let missing = match ended {
            Ok(()) => Error::new(Class::Bug, "no answer, and no error either"),
            Err(error) => error,
        };
        Ok(taken
            .into_iter()
            .map(|one| one.unwrap_or_else(|| Err(missing.clone())))
            .collect())
    }

    /// Creates, and demands that it is held then.
    pub(super) async fn made(&self, wish: &Wish) -> Ended {
        self.create(wish).await?;
        self.held(wish).await
    }
    /// Demands *held*.
    pub(super) async fn held(&self, wish: &Wish) -> Ended {
        match self.holds(wish).await? {
            Answer::Held(held) if held.warning.is_none() => Ok(()),
            other => fail(format!("{wish:?} should be held, not {other:?}")),
        }
    }
    /// Demands *lost*, and gives back how.
    pub(super) async fn lost(&self, wish: &Wish) -> std::result::Result<Lost, Stop> {
        match self.holds(wish).await? {
            Answer::Lost(lost) => Ok(*lost),
            other => fail(format!("{wish:?} should be lost, not {other:?}")),
        }
    }
    /// The oracle after every trial: once more creates nothing, and changes nothing.
    pub(super) async fn again_changes_nothing(&self, wish: &Wish) -> Ended {
        let before = self.bench.writes().await?;
        self.create(wish).await?;
        self.held(wish).await?;
        let after = self.bench.writes().await?;
        demand(
            before == after,
            format!("once more wrote {} times", after - before),
        )
    }

    /// The password of a wish as text.
    pub(super) fn password<'w>(&self, wish: &'w Wish) -> &'w str {
        wish.password()
            .and_then(Secret::expose_str)
            .unwrap_or_default()
    }

    async fn timed<T>(
        &self,
        what: &str,
        call: impl Future<Output = std::result::Result<T, Error>>,
    ) -> std::result::Result<T, Error> {
        let result = match timeout(DEADLINE, call).await {
            Ok(result) => result,
            Err(_) => {
                let message = format!("{what}: no end within {DEADLINE:?}");
                Err(Error::new(Class::TimedOut, message))
            }
        };
        if let Err(error) = &result {
            self.hear(format!("{error} {error:?}"));
        }
        result
    }

    /// As [`Ground::timed`], with a deadline that begins anew with each sign of life, as for every bulk call
    /// (H-9): some servers take long for many, and say so as they go on.
    async fn timed_by_progress<T>(
        &self,
        what: &str,
        cx: &Cx,
        call: impl Future<Output = std::result::Result<T, Error>>,
    ) -> std::result::Result<T, Error> {
        let signs = cx.signs_of_life();
        let going_on = async {
            let mut call = std::pin::pin!(call);
            loop {
                let before = signs.seen();
                match timeout(DEADLINE, &mut call).await {
                    Ok(result) => return result,
                    Err(_) if signs.seen() == before => {
                        let message = format!("{what}: no sign of life within {DEADLINE:?}");
                        return Err(Error::new(Class::TimedOut, message));
                    }
                    Err(_) => {}
                }
            }
        };
        let result = match timeout(LONGEST, going_on).await {
            Ok(result) => result,
            Err(_) => {
                let message = format!("{what}: no end within {LONGEST:?}");
                Err(Error::new(Class::TimedOut, message))
            }
        };
        if let Err(error) = &result {
            self.hear(format!("{error} {error:?}"));
        }
        result
    }

    /// Keeps what came back, to be searched for secrets at the end.
    pub(super) fn hear(&self, text: String) {
        if let Ok(mut heard) = self.heard.lock() {
            heard.push(text);
        }
    }
    /// All that came back.
    pub(super) fn heard(&self) -> Vec<String> {
        self.heard
            .lock()
            .map(|heard| heard.clone())
            .unwrap_or_default()
    }
}

fn plain(wish: &Wish) -> Asked<'_> {
    Asked {
        wish,
        adopted: false,
    }
}

/// A wish's login on its way out.
pub(super) fn departing(wish: &Wish) -> Departing {
    Departing::new(wish.consumer().clone(), wish.login().clone())
}
