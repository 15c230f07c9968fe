//! The order of it all: look, prove, compare, write once.

use async_trait::async_trait;
use mesh_sdk::adapter::{Finding, FindingLevel, Found, Listed, ProviderSettings, Server, Sink};
use mesh_sdk::provision::Departing;
use mesh_sdk::{
    Adapter, Answer, Capabilities, Class, Cx, Error, Login, MarkSeen, Marker, Provision, Secret,
};

use super::Wish;
use super::check::{mode_of, refused};
use super::compare::{Diff, diff, question};
use super::file::PasswordFile;
use super::find::offer;
use super::format::{Format, Wanted};
use super::lines::Lines;
use super::proof::{ROUNDS_A_LOOK, asked_cost, fit, make, prove, proven, rounds};

/// What it can do.
pub(super) const CAPABILITIES: Capabilities = {
    let mut all = Capabilities::none();
    all.server = true;
    all.holds = true;
    all.holds_all = true;
    all.create_all = true;
    all.disable = true;
    all.list = true;
    all.find = true;
    all
};

/// How many wishes are proven, or made, before their answers are given.
const PART: usize = 64;

/// The adapter for one file of this format.
pub struct Keeper<F> {
    file: PasswordFile,
    format: F,
    rounds_a_look: u64,
}

impl<F: Format> Keeper<F> {
    /// For the file that the settings name; `mode` is for one that is made anew.
    pub(crate) fn open(
        settings: &ProviderSettings,
        format: F,
        mode: Option<&str>,
    ) -> Result<Self, Error> {
        let mode = mode_of(mode).map_err(refused)?;
        let file = PasswordFile::new(&settings.path, mode, F::READ_BY_SECOND);
        Ok(Self {
            file,
            format,
            rounds_a_look: ROUNDS_A_LOOK,
        })
    }

    /// With so many rounds a look, for tests that do not want to wait.
    #[cfg(test)]
    pub(crate) fn with_rounds_a_look(self, rounds_a_look: u64) -> Self {
        Self {
            rounds_a_look,
            ..self
        }
    }

    async fn lines(&self) -> Result<Lines, Error> {
        Ok(Lines::read(&self.file.read().await?))
    }

    /// Changes the lines under the lock; again when somebody else changed the file meanwhile.
    async fn edit(
        &self,
        change: impl Fn(&mut Lines) -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        let edit = move |old: &[u8]| {
            let mut lines = Lines::read(old);
            change(&mut lines)?;
            Ok(lines.bytes())
        };
        self.file.edit(edit).await
    }

    /// How each wish differs from what stands in the lines.
    async fn compare(
        &self,
        cx: &Cx,
        wishes: &[Wish<'_, F>],
        lines: &Lines,
    ) -> Result<Vec<Diff>, Error> {
        let entries = lines.entries::<F>();
        let entry = |wish: &Wish<'_, F>| entries.get(wish.login().as_str().as_bytes());
        let asked: Vec<Option<Vec<u8>>> =
            wishes.iter().map(|w| question::<F>(w, entry(w))).collect();
        let questions: Vec<(Secret, Vec<u8>)> = wishes
            .iter()
            .zip(&asked)
            .filter_map(|(wish, hash)| Some((wish.password()?.clone(), hash.clone()?)))
            .collect();
        let told = {
            let _computing = cx.computing();
            prove(questions).await?
        };
        let mut told = told.into_iter();
        let answer = |(wish, asked): (&Wish<'_, F>, &Option<Vec<u8>>)| {
            let told = asked.as_ref().and_then(|_| told.next());
            diff::<F>(wish, entry(wish), told)
        };
        Ok(wishes.iter().zip(&asked).map(answer).collect())
    }

    /// Works new hashes out, and writes what differs in one go.
    async fn write(&self, cx: &Cx, wishes: &[Wish<'_, F>], found: &[Diff]) -> Result<(), Error> {
        let needs: Vec<usize> = (0..wishes.len())
            .filter(|at| found[*at].needs_hash(&wishes[*at]))
            .collect();
        let passwords = needs.iter().filter_map(|at| {
            let password = wishes[*at].password()?.clone();
            Some((password, asked_cost::<F>(&wishes[*at]).0))
        });
        let hashes = {
            let _computing = cx.computing();
            make(passwords.collect()).await?
        };
        let mut new: Vec<Option<Vec<u8>>> = vec![None; wishes.len()];
        for (at, hash) in needs.into_iter().zip(hashes) {
            new[at] = Some([F::SCHEME.as_bytes(), &hash].concat());
        }
        let changes: Vec<(String, Wanted<F::Values>)> = wishes
            .iter()
            .enumerate()
            .filter(|(at, wish)| !found[*at].is_none(wish))
            .map(|(at, wish)| {
                let login = wish.login().as_str().to_owned();
                (login, found[at].wanted::<F>(wish, new[at].clone()))
            })
            .collect();
        let Some(marker) = wishes.first().map(|wish| wish.marker().clone()) else {
            return Ok(());
        };
        if changes.is_empty() {
            return Ok(());
        }
        let edit = move |lines: &mut Lines| {
            for (login, wanted) in &changes {
                F::set(lines, login, wanted, &marker);
            }
            Ok(())
        };
        self.edit(edit).await?;
        cx.progress();
        // What was just written needs no proof.
        for (wish, hash) in wishes.iter().zip(&new) {
            if let Some(hash) = hash {
                proven(wish).keep(hash);
            }
        }
        Ok(())
    }

    async fn change_ours(
        &self,
        marker: &Marker,
        going: &Departing,
        change: fn(&mut Lines, &str, &Marker, &str),
    ) -> Result<(), Error> {
        let (marker, going) = (marker.clone(), going.clone());
        let edit = move |lines: &mut Lines| {
            let login = going.login.as_str();
            let entries = lines.entries::<F>();
            let Some(entry) = entries.get(login.as_bytes()) else {
                return Ok(());
            };
            let mark = entry.mark.map(str::to_owned);
            match &mark {
                Some(mark) if marker.read(mark, &going.consumer) == MarkSeen::Ours => {
                    change(lines, login, &marker, mark);
                    Ok(())
                }
                _ => {
                    let message =
                        format!("`{login}` does not carry our mark for `{}`", going.consumer);
                    Err(Error::new(Class::Exists, message))
                }
            }
        };
        self.edit(edit).await
    }

    /// There must be something to make an enabled login with.
    fn may_write(&self, wish: &Wish<'_, F>) -> Result<(), Error> {
        match wish.enabled() && wish.password().is_none() {
            true => Err(Error::new(Class::Bug, "there is no password to set")),
            false => self.format.check(wish).map_err(refused),
        }
    }
}

#[async_trait]
impl<F: Format> Adapter for Keeper<F> {
    type Values = F::Values;

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }
    async fn create(&self, cx: &Cx, wish: &Wish<'_, F>) -> Result<(), Error> {
        self.may_write(wish)?;
        let lines = self.lines().await?;
        let wishes = std::slice::from_ref(wish);
        let found = self.compare(cx, wishes, &lines).await?;
        self.write(cx, wishes, &found).await
    }
    async fn remove(&self, _cx: &Cx, marker: &Marker, login: &Departing) -> Result<(), Error> {
        let take = |lines: &mut Lines, login: &str, marker: &Marker, _: &str| {
            F::remove(lines, login, marker);
        };
        self.change_ours(marker, login, take).await
    }
    async fn server(&self, _cx: &Cx) -> Result<Server, Error> {
        let mut server = Server::default();
        server.version = "a password file".to_owned();
        let why = self.file.unwritable().await?;
        server.read_only = why.map(|error| error.message().to_owned());
        Ok(server)
    }
    async fn holds(&self, cx: &Cx, wish: &Wish<'_, F>) -> Result<Answer, Error> {
        let lines = self.lines().await?;
        let mut found = self.compare(cx, std::slice::from_ref(wish), &lines).await?;
        match found.pop() {
            Some(diff) => Ok(diff.answer(wish)),
            None => Err(Error::new(Class::Bug, "nothing was compared")),
        }
    }
    async fn holds_all(
        &self,
        cx: &Cx,
        wishes: &[Provision<'_, F::Values>],
        answers: &Sink<Answer>,
    ) -> Result<(), Error> {
        let lines = self.lines().await?;
        cx.progress();
        // Those that need no proof are all answered before the first that does.
        let entries = lines.entries::<F>();
        let asked = |wish: &Wish<'_, F>| {
            let entry = entries.get(wish.login().as_str().as_bytes());
            question::<F>(wish, entry).map(|hash| rounds(&hash))
        };
        let (mut dear, mut each, mut cheap) = (Vec::new(), Vec::new(), Vec::new());
        for (at, wish) in wishes.iter().enumerate() {
            match asked(wish) {
                Some(rounds) => {
                    dear.push(at);
                    each.push(rounds);
                }
                None => cheap.push(at),
            }
        }
        let fit = fit(each.into_iter(), self.rounds_a_look);
        let rests = fit < dear.len();
        dear.truncate(fit);
        let parts = std::iter::once(&cheap[..]).chain(dear.chunks(PART));
        for part in parts {
            let some: Vec<Wish<'_, F>> = part.iter().map(|at| wishes[*at]).collect();
            let found = self.compare(cx, &some, &lines).await?;
            let each = part.iter().zip(&some).zip(found);
            answers.put_each(each.map(|((at, wish), diff)| (*at, Ok(diff.answer(wish)))));
            cx.progress();
        }
        if rests {
            cx.rest();
        }
        Ok(())
    }
    async fn create_all(
        &self,
        cx: &Cx,
        wishes: &[Provision<'_, F::Values>],
        outcomes: &Sink<()>,
    ) -> Result<(), Error> {
        let mut good = Vec::new();
        for (at, wish) in wishes.iter().enumerate() {
            match self.may_write(wish) {
                Ok(()) => good.push(at),
                Err(error) => outcomes.put(at, Err(error)),
            }
        }
        for part in good.chunks(PART) {
            let some: Vec<Wish<'_, F>> = part.iter().map(|at| wishes[*at]).collect();
            let lines = self.lines().await?;
            let found = self.compare(cx, &some, &lines).await?;
            let outcome = self.write(cx, &some, &found).await;
            outcomes.put_each(part.iter().map(|at| (*at, outcome.clone())));
            cx.progress();
        }
        Ok(())
    }
    async fn disable(&self, _cx: &Cx, marker: &Marker, login: &Departing) -> Result<(), Error> {
        let off = |lines: &mut Lines, login: &str, marker: &Marker, mark: &str| {
            let wanted = Wanted {
                hash: None,
                off: true,
                mark: mark.to_owned(),
                values: None,
                exact: false,
            };
            F::set(lines, login, &wanted, marker);
        };
        self.change_ours(marker, login, off).await
    }
    async fn list(&self, _cx: &Cx, marker: &Marker) -> Result<Vec<Listed>, Error> {
        let lines = self.lines().await?;
        let listed = lines.entries::<F>().into_values().filter_map(|entry| {
            let name = String::from_utf8_lossy(entry.login);
            // A name that is not UTF-8 was made by somebody else.
            let mark = match std::str::from_utf8(entry.login) {
                Ok(_) => entry.listed_mark(marker),
                Err(_) => MarkSeen::None,
            };
            Some(Listed::new(Login::new(&name).ok()?, mark, !entry.off))
        });
        Ok(listed.collect())
    }
    async fn find(&self, _cx: &Cx, marker: &Marker) -> Result<Vec<Found<F::Values>>, Error> {
        let lines = self.lines().await?;
        let entries = lines.entries::<F>().into_values();
        let found = entries.filter_map(|one| offer(&self.format, marker, &one));
        Ok(found.collect())
    }
    async fn doctor(&self, _cx: &Cx) -> Result<Vec<Finding>, Error> {
        let lines = match self.lines().await {
            Ok(lines) => lines,
            Err(error) => {
                let finding = Finding::new(FindingLevel::Error, "file", error.to_string());
                return Ok(vec![finding]);
            }
        };
        let mut findings = vec![match self.file.unwritable().await? {
            Some(error) => Finding::new(FindingLevel::Error, "file", error.to_string())
                .with_action("let the user that Meshkeeper runs as write in that folder"),
            None => Finding::new(FindingLevel::Ok, "file", "it can be read and replaced"),
        }];
        findings.extend(self.mode().await?);
        findings.extend(F::doctor(&lines.entries::<F>()));
        Ok(findings)
    }
}

impl<F: Format> Keeper<F> {
    async fn mode(&self) -> Result<Option<Finding>, Error> {
        let path = self.file.path().display().to_string();
        Ok(self
            .file
            .mode()
            .await?
            .filter(|mode| mode & 0o004 != 0)
            .map(|mode| {
                let message =
                    format!("{path} can be read by everybody on this machine ({mode:04o})");
                Finding::new(FindingLevel::Warning, "mode", message)
                    .with_action(format!("chgrp READERS {path} && chmod 0640 {path}"))
            }))
    }
}
