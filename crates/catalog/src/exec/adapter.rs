//! The adapter: a program, spoken to over its pipes.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use async_trait::async_trait;
use mesh_sdk::adapter::{
    Finding, FindingLevel, Found, Listed, ProviderSettings, Server, Sink, Use,
};
use mesh_sdk::provision::Departing;
use mesh_sdk::{Adapter, Answer, Capabilities, Class, Cx, Error, Login, Marker, Provision};

use super::ask::{Wish, ask, item};
use super::process::Process;
use super::protocol::{
    DataLine, FindingLine, LevelSaid, ListedLine, NameLine, Nothing, ServerLine,
};
use super::seat::Seat;
use super::values::ExecValues;
use super::{classify, judge};

/// What a program may be able to do. Until it has said what it can, it is taken to: so it is asked, and
/// nothing is written for somebody who was not asked for.
pub(super) const AT_BEST: Capabilities = {
    let mut all = Capabilities::none();
    all.server = true;
    all.holds = true;
    all.holds_all = true;
    all.create_all = true;
    all.disable = true;
    all.list = true;
    all.hint = true;
    all.uses = true;
    all.find = true;
    all.purge = true;
    all
};

/// The adapter for one program.
pub struct Exec {
    pub(super) seat: Arc<Seat>,
}

impl Exec {
    pub(super) fn new(settings: ProviderSettings) -> Result<Self, Error> {
        let options = settings
            .typed_options()
            .map_err(|refusal| Error::new(Class::RefusedValue, refusal.to_string()))?;
        let seat = Arc::new(Seat::new(settings, options));
        Ok(Self { seat })
    }

    /// The program, if it declared that ability.
    pub(super) async fn able(
        &self,
        cx: &Cx,
        ability: &str,
        what: &str,
    ) -> Result<Arc<Process>, Error> {
        let process = self.seat.process(cx).await?;
        match process.hello.can(ability) {
            true => Ok(process),
            false => Err(classify::cannot(what)),
        }
    }

    /// Whether others than its owner could put another program in its place.
    fn own_finding(&self) -> Finding {
        const ABOUT: &str = "program";
        let path = &self.seat.settings.path;
        match std::fs::metadata(path) {
            Err(error) => Finding::new(FindingLevel::Error, ABOUT, format!("{path}: {error}")),
            Ok(meta) if meta.permissions().mode() & 0o002 != 0 => {
                let message = format!("everybody on this machine can change {path}");
                Finding::new(FindingLevel::Error, ABOUT, message)
                    .with_action(format!("chmod o-w {path}"))
            }
            Ok(_) => Finding::new(FindingLevel::Ok, ABOUT, format!("{path} answers")),
        }
    }
}

#[async_trait]
impl Adapter for Exec {
    type Values = ExecValues;

    fn capabilities(&self) -> Capabilities {
        self.seat.known().unwrap_or(AT_BEST)
    }
    async fn create(&self, cx: &Cx, wish: &Wish<'_>) -> Result<(), Error> {
        let process = self.seat.process(cx).await?;
        self.make(cx, &process, wish).await
    }
    async fn remove(&self, cx: &Cx, marker: &Marker, login: &Departing) -> Result<(), Error> {
        self.take_away(cx, "remove", marker, login).await
    }
    async fn server(&self, cx: &Cx) -> Result<Server, Error> {
        let process = self.seat.process(cx).await?;
        let mut server = Server::default();
        if process.hello.can("server") {
            let told: ServerLine = ask(cx, &process, "server", Nothing {}).await?;
            server.version = told.version;
            server.identity = told.identity;
            server.run = told.run;
            server.read_only = told.read_only;
            server.forgets = told.forgets;
        } else {
            // It runs, and this is how it called itself.
            server.version.clone_from(&process.hello.name);
        }
        Ok(server)
    }
    async fn holds(&self, cx: &Cx, wish: &Wish<'_>) -> Result<Answer, Error> {
        let process = self.able(cx, "holds", "be asked for a consumer").await?;
        let facts = self.facts(cx, &process, wish).await?;
        judge::answer(wish, &facts)
    }
    async fn holds_all(
        &self,
        cx: &Cx,
        wishes: &[Provision<'_, ExecValues>],
        answers: &Sink<Answer>,
    ) -> Result<(), Error> {
        if wishes.is_empty() {
            return Ok(());
        }
        drop(self.able(cx, "holds", "be asked for a consumer").await?);
        self.look_at_all(cx, wishes, answers).await
    }
    async fn create_all(
        &self,
        cx: &Cx,
        wishes: &[Provision<'_, ExecValues>],
        outcomes: &Sink<()>,
    ) -> Result<(), Error> {
        if wishes.is_empty() {
            return Ok(());
        }
        self.make_all(cx, wishes, outcomes).await
    }
    async fn disable(&self, cx: &Cx, marker: &Marker, login: &Departing) -> Result<(), Error> {
        drop(self.able(cx, "disable", "switch a login off").await?);
        self.take_away(cx, "disable", marker, login).await
    }
    async fn list(&self, cx: &Cx, marker: &Marker) -> Result<Vec<Listed>, Error> {
        let process = self.able(cx, "list", "list its logins").await?;
        let mut flight = process.send("list", Nothing {}).await?;
        let mut all = Vec::new();
        while let Some(one) = item::<ListedLine>(cx, &mut flight, "list").await? {
            let login = Login::new(&one.login)
                .map_err(|_| classify::odd("list", "has a login that cannot be one"))?;
            let mark = judge::listed_mark(marker, one.mark.as_deref());
            all.push(Listed::new(login, mark, one.enabled));
        }
        Ok(all)
    }
    async fn uses(&self, cx: &Cx, logins: &[Departing]) -> Result<Vec<Option<Use>>, Error> {
        self.uses_of(cx, logins).await
    }
    async fn find(&self, cx: &Cx, marker: &Marker) -> Result<Vec<Found<ExecValues>>, Error> {
        self.find_all(cx, marker).await
    }
    async fn data(&self, cx: &Cx, name: &str) -> Result<Option<String>, Error> {
        let process = self.able(cx, "purge", "delete data").await?;
        let told: DataLine = ask(cx, &process, "data", NameLine { name }).await?;
        Ok(told.data.map(|text| classify::line(&text)))
    }
    async fn purge(&self, cx: &Cx, name: &str) -> Result<(), Error> {
        let process = self.able(cx, "purge", "delete data").await?;
        match ask::<serde_json::Value>(cx, &process, "purge", NameLine { name }).await {
            Err(error) if error.class() == Class::Gone => Ok(()),
            other => other.map(|_| ()),
        }
    }
    async fn hint(&self, cx: &Cx) -> Result<(), Error> {
        let process = self.able(cx, "hint", "give hints").await?;
        process.hinted().await;
        Ok(())
    }
    async fn doctor(&self, cx: &Cx) -> Result<Vec<Finding>, Error> {
        let process = self.seat.process(cx).await?;
        let mut all = vec![self.own_finding()];
        if process.hello.can("doctor") {
            let mut flight = process.send("doctor", Nothing {}).await?;
            while let Some(one) = item::<FindingLine>(cx, &mut flight, "doctor").await? {
                let level = match one.level {
                    LevelSaid::Ok => FindingLevel::Ok,
                    LevelSaid::Warning => FindingLevel::Warning,
                    LevelSaid::Error => FindingLevel::Error,
                };
                let mut finding = Finding::new(level, &one.about, one.message);
                finding.action = one.action;
                all.push(finding);
            }
        }
        Ok(all)
    }
}
