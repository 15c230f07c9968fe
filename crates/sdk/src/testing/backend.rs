//! A backend in memory that does what a script says.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Trace, lock};
use crate::adapter::{Adapter, Capabilities, Cx, Listed, Server, Sink, Use};
use crate::answer::{Answer, Difference, Differences, Lost, MarkSeen, Proof};
use crate::error::{Class, Error};
use crate::mark::Marker;
use crate::name::Login;
use crate::provision::{Departing, Provision};

/// The calls of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Call {
    Server,
    Holds,
    HoldsAll,
    Create,
    CreateAll,
    Disable,
    Remove,
    List,
    Uses,
    Hint,
}

/// What a scripted call does.
#[derive(Debug, Clone)]
pub enum Act {
    /// A look answers this, whatever is there.
    Say(Answer),
    /// It fails so, and does nothing.
    Fail(Error),
    /// It never returns, and does nothing.
    Hang,
    /// It does what it should, and then never returns.
    DoneThenHang,
    /// It panics.
    Panic,
    /// It does what it should, after this long.
    After(Duration),
    /// In a bulk look: it computes so long by itself, and says so.
    Compute(Duration),
    /// In a bulk look: it answers for this one, and rests with those after it unanswered.
    Rest,
    /// A `create` says that it was done, and does nothing.
    Lie,
}

/// A login on the backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FakeLogin {
    /// Its password.
    pub password: Option<Vec<u8>>,
    /// Its mark.
    pub mark: Option<String>,
    /// Its grants.
    pub grants: String,
    /// Whether it can be used.
    pub enabled: bool,
}

/// The values of this kind.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FakeValues {
    /// What the login may do.
    pub grants: String,
}

/// One call that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// Which.
    pub call: Call,
    /// For whom; empty where it is for all.
    pub consumer: String,
    /// When.
    pub at: Instant,
}

/// A backend and, in one, its [`Adapter`]. Clones share the backend, as two adapters of one server do.
#[derive(Debug, Clone)]
pub struct FakeBackend {
    state: Arc<Mutex<State>>,
    hints: Arc<Notify>,
    trace: Trace,
}

#[derive(Debug)]
struct State {
    caps: Capabilities,
    server: Result<Server, Error>,
    runs: usize,
    logins: HashMap<String, FakeLogin>,
    scripts: HashMap<(Call, String), VecDeque<(Act, bool)>>,
    made: Vec<Made>,
    used: HashMap<String, Use>,
}

impl FakeBackend {
    /// An empty one that can do everything.
    pub fn new(trace: Trace) -> Self {
        let caps = Capabilities {
            server: true,
            holds: true,
            holds_all: true,
            create_all: true,
            disable: true,
            list: true,
            hint: true,
            ..Capabilities::none()
        };
        let server = Server {
            version: "Fake 1".into(),
            run: Some("run-0".into()),
            ..Server::default()
        };
        let state = State {
            caps,
            server: Ok(server),
            runs: 0,
            logins: HashMap::new(),
            scripts: HashMap::new(),
            made: Vec::new(),
            used: HashMap::new(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            hints: Arc::default(),
            trace,
        }
    }
    /// The same with other abilities.
    #[must_use]
    pub fn with(self, change: impl FnOnce(&mut Capabilities)) -> Self {
        change(&mut lock(&self.state).caps);
        self
    }
    /// From now on this call for this consumer does so; the empty name is for calls that are for all.
    /// In a bulk call each consumer's own [`Call::Holds`] or [`Call::Create`] script is followed.
    pub fn always(&self, call: Call, consumer: &str, act: Act) {
        self.script(call, consumer, act, true);
    }
    /// The next one does so; several wait in turn.
    pub fn once(&self, call: Call, consumer: &str, act: Act) {
        self.script(call, consumer, act, false);
    }
    fn script(&self, call: Call, consumer: &str, act: Act, always: bool) {
        let mut state = lock(&self.state);
        let of_call = state.scripts.entry((call, consumer.to_owned()));
        of_call.or_default().push_back((act, always));
    }
    /// Every call does again what it should.
    pub fn behave(&self) {
        lock(&self.state).scripts.clear();
    }
    /// Changes what the server says of itself, or that it says nothing.
    pub fn set_server(&self, change: impl FnOnce(&mut Result<Server, Error>)) {
        change(&mut lock(&self.state).server);
    }
    /// From now on it tells of this use of a login, or of none.
    pub fn set_use(&self, login: &str, used: Option<Use>) {
        let mut state = lock(&self.state);
        state.used.remove(login);
        state.used.extend(used.map(|used| (login.to_owned(), used)));
    }
    /// The server restarts and forgets every login.
    pub fn restart(&self) {
        let mut state = lock(&self.state);
        state.runs += 1;
        state.logins.clear();
        let run = format!("run-{}", state.runs);
        if let Ok(server) = &mut state.server {
            server.run = Some(run);
        }
    }
    /// It forgets every login, and nothing explains it.
    pub fn forget(&self) {
        lock(&self.state).logins.clear();
    }
    /// Something hints that logins were lost.
    pub fn hint(&self) {
        self.hints.notify_one();
    }
    /// A login, if there is one.
    pub fn login(&self, login: &str) -> Option<FakeLogin> {
        lock(&self.state).logins.get(login).cloned()
    }
    /// How many logins there are.
    pub fn len(&self) -> usize {
        lock(&self.state).logins.len()
    }
    /// Whether there is no login.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Changes a login behind everyone's back; `None` drops it.
    pub fn change(&self, login: &str, change: impl FnOnce(&mut Option<FakeLogin>)) {
        let mut state = lock(&self.state);
        let mut found = state.logins.remove(login);
        change(&mut found);
        if let Some(found) = found {
            state.logins.insert(login.to_owned(), found);
        }
    }
    /// Drops a login behind everyone's back.
    pub fn drop_login(&self, login: &str) {
        self.change(login, |login| *login = None);
    }
    /// How often a call was made.
    pub fn calls(&self, call: Call) -> usize {
        let state = lock(&self.state);
        state.made.iter().filter(|m| m.call == call).count()
    }
    /// The calls of one sort, in order.
    pub fn made(&self, call: Call) -> Vec<Made> {
        let state = lock(&self.state);
        let of_call = state.made.iter().filter(|m| m.call == call);
        of_call.cloned().collect()
    }
    /// Forgets the calls so far.
    pub fn forget_calls(&self) {
        lock(&self.state).made.clear();
    }

    async fn enter(&self, call: Call, consumer: &str) -> Result<Option<Act>, Error> {
        lock(&self.state).made.push(Made {
            call,
            consumer: consumer.to_owned(),
            at: Instant::now(),
        });
        self.trace
            .step(|| format!("backend: {call:?} {consumer}"))
            .await;
        self.follow(call, consumer).await
    }
    /// Follows a script as far as it comes before the work is done.
    async fn follow(&self, call: Call, consumer: &str) -> Result<Option<Act>, Error> {
        let act = lock(&self.state).next_act(call, consumer);
        match act {
            Some(Act::Fail(error)) => Err(error),
            Some(Act::Hang) => std::future::pending().await,
            Some(Act::Panic) => panic!("a scripted panic in {call:?} of {consumer}"),
            Some(Act::After(span)) => {
                tokio::time::sleep(span).await;
                Ok(None)
            }
            other => Ok(other),
        }
    }
    async fn leave(&self, call: Call, consumer: &str, act: Option<Act>) {
        self.trace
            .step(|| format!("backend: {call:?} {consumer} done"))
            .await;
        if let Some(Act::DoneThenHang) = act {
            std::future::pending::<()>().await;
        }
    }
}

impl State {
    fn next_act(&mut self, call: Call, consumer: &str) -> Option<Act> {
        if self.scripts.is_empty() {
            return None;
        }
        let waiting = self.scripts.get_mut(&(call, consumer.to_owned()))?;
        match waiting.front() {
            Some((act, true)) => Some(act.clone()),
            _ => waiting.pop_front().map(|(act, _)| act),
        }
    }

    fn judge(&self, wish: &Provision<'_, FakeValues>) -> Answer {
        let Some(login) = self.logins.get(wish.login().as_str()) else {
            return Answer::absent();
        };
        let mark = match &login.mark {
            None => MarkSeen::None,
            Some(text) if *text == *mark_of(wish) => MarkSeen::Ours,
            Some(text) => wish.marker().read(text, wish.consumer()),
        };
        let fits = wish
            .password()
            .is_some_and(|p| login.password.as_deref() == Some(p.expose()));
        let mut differences = Differences::NONE;
        let mut note = |differs: bool, difference| {
            if differs {
                differences.insert(difference);
            }
        };
        note(!fits, Difference::Password);
        note(wish.enabled() && !login.enabled, Difference::Disabled);
        note(!wish.enabled() && login.enabled, Difference::Enabled);
        let grants = wish.values().grants.as_str();
        note(login.grants != grants, Difference::GrantsMissing);
        note(mark != MarkSeen::Ours, Difference::MarkMissing);
        if differences.is_empty() {
            return Answer::held(Proof::Verifier);
        }
        Answer::Lost(Box::new(Lost {
            differences,
            detail: String::new(),
            mark,
            password_fits: fits,
        }))
    }

    fn create(&mut self, wish: &Provision<'_, FakeValues>) {
        let made = FakeLogin {
            password: wish.password().map(|p| p.expose().to_vec()),
            mark: Some(mark_of(wish).as_str().to_owned()),
            grants: wish.values().grants.clone(),
            enabled: wish.enabled(),
        };
        self.logins.insert(wish.login().as_str().to_owned(), made);
    }
}

fn mark_of(wish: &Provision<'_, FakeValues>) -> Arc<String> {
    wish.memo(|| wish.mark().as_str().to_owned())
}

#[async_trait]
impl Adapter for FakeBackend {
    type Values = FakeValues;

    fn capabilities(&self) -> Capabilities {
        lock(&self.state).caps
    }
    async fn create(&self, _cx: &Cx, wish: &Provision<'_, FakeValues>) -> Result<(), Error> {
        let consumer = wish.consumer().as_str();
        let act = self.enter(Call::Create, consumer).await?;
        if !matches!(act, Some(Act::Lie)) {
            lock(&self.state).create(wish);
        }
        self.leave(Call::Create, consumer, act).await;
        Ok(())
    }
    async fn remove(&self, _cx: &Cx, _marker: &Marker, login: &Departing) -> Result<(), Error> {
        let consumer = login.consumer.as_str();
        let act = self.enter(Call::Remove, consumer).await?;
        lock(&self.state).logins.remove(login.login.as_str());
        self.leave(Call::Remove, consumer, act).await;
        Ok(())
    }
    async fn server(&self, _cx: &Cx) -> Result<Server, Error> {
        self.enter(Call::Server, "").await?;
        lock(&self.state).server.clone()
    }
    async fn holds(&self, _cx: &Cx, wish: &Provision<'_, FakeValues>) -> Result<Answer, Error> {
        match self.enter(Call::Holds, wish.consumer().as_str()).await? {
            Some(Act::Say(answer)) => Ok(answer),
            _ => Ok(lock(&self.state).judge(wish)),
        }
    }
    async fn holds_all(
        &self,
        cx: &Cx,
        wishes: &[Provision<'_, FakeValues>],
        answers: &Sink<Answer>,
    ) -> Result<(), Error> {
        self.enter(Call::HoldsAll, "").await?;
        if lock(&self.state).scripts.is_empty() {
            let state = lock(&self.state);
            let judged = wishes.iter().map(|wish| Ok(state.judge(wish)));
            answers.put_each(judged.enumerate());
            return Ok(());
        }
        for (i, wish) in wishes.iter().enumerate() {
            let followed = self.follow(Call::Holds, wish.consumer().as_str()).await;
            let rests = matches!(&followed, Ok(Some(Act::Rest)));
            let answer = match followed {
                Ok(Some(Act::Say(answer))) => Ok(answer),
                Ok(act) => {
                    if let Some(Act::Compute(span)) = act {
                        let _computing = cx.computing();
                        tokio::time::sleep(span).await;
                    }
                    Ok(lock(&self.state).judge(wish))
                }
                Err(error) => Err(error),
            };
            answers.put(i, answer);
            cx.progress();
            if rests {
                cx.rest();
                break;
            }
        }
        Ok(())
    }
    async fn create_all(
        &self,
        cx: &Cx,
        wishes: &[Provision<'_, FakeValues>],
        outcomes: &Sink<()>,
    ) -> Result<(), Error> {
        let act = self.enter(Call::CreateAll, "").await?;
        if lock(&self.state).scripts.is_empty() {
            let mut state = lock(&self.state);
            wishes.iter().for_each(|wish| state.create(wish));
            outcomes.put_each((0..wishes.len()).map(|i| (i, Ok(()))));
        } else {
            for (i, wish) in wishes.iter().enumerate() {
                let outcome = self.follow(Call::Create, wish.consumer().as_str()).await;
                if matches!(&outcome, Ok(act) if !matches!(act, Some(Act::Lie))) {
                    lock(&self.state).create(wish);
                }
                outcomes.put(i, outcome.map(|_| ()));
                cx.progress();
            }
        }
        self.leave(Call::CreateAll, "", act).await;
        Ok(())
    }
    async fn disable(&self, _cx: &Cx, _marker: &Marker, login: &Departing) -> Result<(), Error> {
        let consumer = login.consumer.as_str();
        let act = self.enter(Call::Disable, consumer).await?;
        if let Some(found) = lock(&self.state).logins.get_mut(login.login.as_str()) {
            found.enabled = false;
        }
        self.leave(Call::Disable, consumer, act).await;
        Ok(())
    }
    async fn list(&self, _cx: &Cx, marker: &Marker) -> Result<Vec<Listed>, Error> {
        self.enter(Call::List, "").await?;
        let state = lock(&self.state);
        let listed = state.logins.iter().map(|(name, login)| {
            let mark = login.mark.as_deref().map(|text| marker.listed(text));
            let mark = mark.unwrap_or(MarkSeen::None);
            let login_name =
                Login::new(name).map_err(|error| Error::new(Class::Bug, error.to_string()))?;
            Ok(Listed::new(login_name, mark, login.enabled))
        });
        listed.collect()
    }
    async fn uses(&self, _cx: &Cx, logins: &[Departing]) -> Result<Vec<Option<Use>>, Error> {
        self.enter(Call::Uses, "").await?;
        let state = lock(&self.state);
        let told = logins.iter().map(|one| state.used.get(one.login.as_str()));
        Ok(told.map(|used| used.cloned()).collect())
    }
    async fn hint(&self, _cx: &Cx) -> Result<(), Error> {
        self.enter(Call::Hint, "").await?;
        self.hints.notified().await;
        Ok(())
    }
}
