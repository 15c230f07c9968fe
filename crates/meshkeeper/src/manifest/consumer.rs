//! One `[consumer.NAME]` table and its `needs`.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use mesh_sdk::adapter::Refusal;
use mesh_sdk::{ConsumerName, Login, Marker, MeshId, ProviderName, Secret};
use toml::de::{DeTable, DeValue};

use super::auth::{self, placeholder};
use super::container::{self, Hosted};
use super::deliver::{self, Delivered};
use super::fields::{Fields, Item, Key, quoted, wrong_type};
use super::nearest::nearest;
use super::provider::Provider;
use super::values;
use super::{CANARY_LOGINS, Needed, PasswordSource, Refused, Rotates, timing::ROTATES};
use crate::errors::{Problem, Scope, Weight};

/// The keys of what runs for a consumer.
const CONTAINER: &str = "container";
const UNIT: &str = "unit";
const HOSTED: [&str; 2] = [CONTAINER, UNIT];

/// A provider as its consumers' tables see it.
pub(crate) enum Known<'p> {
    /// It can be used.
    Ready(Ready<'p>),
    /// It has mistakes of its own, told at its table. What needs it is checked as far as that goes.
    Refused(Option<Ready<'p>>),
}

/// What checking one provision needs.
pub(crate) struct Ready<'p> {
    pub(crate) provider: &'p Provider,
    pub(crate) marker: Marker,
}

impl<'p> Ready<'p> {
    pub(crate) fn new(provider: &'p Provider, mesh: &MeshId) -> Self {
        let key = Secret::from("check");
        let marker = Marker::new(mesh.clone(), "check", provider.name.clone(), key);
        Self { provider, marker }
    }
}

/// Reads consumers' tables.
pub(crate) struct Consumers<'c> {
    pub(crate) providers: &'c HashMap<String, Known<'c>>,
    pub(crate) base: &'c Path,
    pub(crate) line: &'c dyn Fn(usize) -> usize,
    /// Where the text that is read begins in the whole.
    pub(crate) offset: usize,
    pub(crate) problems: Vec<Problem>,
    pub(crate) provisions: Vec<Needed>,
    pub(crate) refused: Vec<Refused>,
    pub(crate) deliveries: Vec<Delivered>,
    pub(crate) undelivered: Vec<(ConsumerName, String)>,
    pub(crate) hosted: Vec<Hosted>,
    pub(crate) unhosted: Vec<(ConsumerName, String)>,
    /// The key under which the checks' wishes are made.
    pub(crate) key: Secret,
    /// What was suggested for an unknown provider: asked for many times in a big file.
    pub(crate) suggested: HashMap<String, Option<String>>,
}

impl Consumers<'_> {
    /// Reads the tables of a piece of the text that begins at `offset`.
    pub(crate) fn read_all(&mut self, table: &DeTable<'_>, offset: usize) {
        self.offset = offset;
        let (problems, provisions) = (self.problems.len(), self.provisions.len());
        let (deliveries, hosted) = (self.deliveries.len(), self.hosted.len());
        for (key, item) in table {
            self.read(key, item);
        }
        for problem in self.problems.iter_mut().skip(problems) {
            problem.shift(offset);
        }
        for needed in self.provisions.iter_mut().skip(provisions) {
            needed.span = needed.span.start + offset..needed.span.end + offset;
        }
        for delivered in self.deliveries.iter_mut().skip(deliveries) {
            let span = delivered.span.clone();
            delivered.span = span.start + offset..span.end + offset;
            delivered.line = (self.line)(delivered.span.start);
        }
        for one in self.hosted.iter_mut().skip(hosted) {
            one.span = one.span.start + offset..one.span.end + offset;
            one.line = (self.line)(one.span.start);
        }
    }

    /// Reads one table. Its mistakes spoil it alone (H-3).
    fn read(&mut self, key: &Key<'_>, item: &Item<'_>) {
        let before = self.problems.len();
        let word = key.get_ref().as_ref();
        let name = ConsumerName::new(word)
            .map_err(|error| {
                self.problems
                    .push(Problem::error(key.span(), error.to_string()))
            })
            .ok();
        if name.as_ref().is_some_and(ConsumerName::is_canary) {
            let problem = Problem::error(key.span(), format!("`{word}` is Meshkeeper's own name"));
            self.problems
                .push(problem.help("give the consumer another one"));
        }
        if name.as_ref().is_some_and(ConsumerName::is_second) {
            let what = format!(
                "`{word}`: names that end in `__b` are those of second logins, while logins take turns"
            );
            self.problems
                .push(Problem::error(key.span(), what).help("give the consumer another one"));
        }
        let needs = self.own_keys(word, key, item);
        self.stamp(before, || Scope::Consumer(word.to_owned()));
        if self.spoiled(before) {
            self.refuse(word, None, None, before, key);
        }
        let whole = !self.spoiled(before);
        // Under a name that is none the tables are checked all the same, for a stand-in.
        let name = name.or_else(|| ConsumerName::new("x").ok());
        if let Some(name) = &name {
            for key in HOSTED {
                if let Some(list) = item.get_ref().get(key) {
                    self.host(name, key, list, whole);
                }
            }
        }
        let (Some(name), Some(needs)) = (name, needs) else {
            return;
        };
        for (provider, item) in needs.table {
            self.need(word, &name, provider, item, whole);
        }
        let needed = needs.table.keys();
        let needed = needed.filter_map(|key| ProviderName::new(key.get_ref()).ok());
        let needed = needed
            .filter(|name| self.providers.contains_key(name.as_str()))
            .collect();
        if let Some(list) = item.get_ref().get("deliver") {
            self.deliver(&name, &needed, list, whole);
        }
    }

    /// Reads the tables of `deliver`. A mistake in one spoils that one alone.
    fn deliver(
        &mut self,
        consumer: &ConsumerName,
        needs: &BTreeSet<ProviderName>,
        item: &Item<'_>,
        whole: bool,
    ) {
        let before = self.problems.len();
        let DeValue::Array(list) = item.get_ref() else {
            let wanted = format!("tables, each as [[consumer.{consumer}.deliver]]");
            self.problems.push(wrong_type("deliver", item, &wanted));
            return self.stamp(before, || Scope::Consumer(consumer.to_string()));
        };
        for one in list.iter() {
            let start = self.problems.len();
            let read = deliver::read(self.base, consumer, needs, one, &mut self.problems);
            match read {
                Some(delivered) if whole => self.deliveries.push(delivered),
                Some(_) => {}
                None => {
                    let own = self.problems.get(start..).unwrap_or_default();
                    let own = own.iter().find(|problem| problem.weight == Weight::Error);
                    let why = own.map_or_else(String::new, |problem| problem.message.clone());
                    self.undelivered.push((consumer.clone(), why));
                }
            }
        }
        self.stamp(before, || Scope::Consumer(consumer.to_string()));
    }

    /// Reads the tables of `container` or `unit`. A mistake in one spoils that one alone.
    fn host(&mut self, consumer: &ConsumerName, key: &str, item: &Item<'_>, whole: bool) {
        let before = self.problems.len();
        let DeValue::Array(list) = item.get_ref() else {
            let wanted = format!("tables, each as [[consumer.{consumer}.{key}]]");
            self.problems.push(wrong_type(key, item, &wanted));
            return self.stamp(before, || Scope::Consumer(consumer.to_string()));
        };
        for one in list.iter() {
            let start = self.problems.len();
            let read = match key {
                CONTAINER => container::container(self.base, consumer, one, &mut self.problems),
                _ => container::unit(consumer, one, &mut self.problems),
            };
            match read {
                Some(hosted) if whole => self.hosted.push(hosted),
                Some(_) => {}
                None => {
                    let own = self.problems.get(start..).unwrap_or_default();
                    let own = own.iter().find(|problem| problem.weight == Weight::Error);
                    let why = own.map_or_else(String::new, |problem| problem.message.clone());
                    self.unhosted.push((consumer.clone(), why));
                }
            }
        }
        self.stamp(before, || Scope::Consumer(consumer.to_string()));
    }

    fn own_keys<'t, 'i>(
        &mut self,
        word: &str,
        key: &Key<'_>,
        item: &'t Item<'i>,
    ) -> Option<Fields<'t, 'i>> {
        let shown = word.escape_debug();
        let within = format!("[consumer.{shown}]");
        let fields = Fields::of(word, item, "a table", &mut self.problems)?;
        fields.refuse_unknown(
            &within,
            &["needs", "deliver", CONTAINER, UNIT],
            &mut self.problems,
        );
        let Some(needs) = fields.item("needs") else {
            let problem = Problem::warning(key.span(), format!("{within} needs nothing"));
            self.problems
                .push(problem.help(format!("add a table [consumer.{shown}.needs.PROVIDER]")));
            return None;
        };
        Fields::of(
            "needs",
            needs,
            "a table for each provider",
            &mut self.problems,
        )
    }

    fn need(
        &mut self,
        asker: &str,
        consumer: &ConsumerName,
        key: &Key<'_>,
        item: &Item<'_>,
        whole: bool,
    ) {
        let before = self.problems.len();
        let word = key.get_ref().as_ref();
        let providers = self.providers;
        let found = match providers.get(word) {
            Some(Known::Ready(ready)) => self.entry(asker, consumer, ready, key, item),
            Some(Known::Refused(None)) => None,
            Some(Known::Refused(Some(ready))) => {
                self.entry(asker, consumer, ready, key, item);
                None
            }
            None => {
                let problem = self.unknown_provider(key);
                self.problems.push(problem);
                None
            }
        };
        self.stamp(before, || Scope::Need {
            consumer: asker.to_owned(),
            provider: word.to_owned(),
        });
        let login = match found {
            Some(needed) if whole && !self.spoiled(before) => return self.provisions.push(needed),
            Some(needed) => needed.login.as_str().to_owned(),
            None => login_text(item).unwrap_or(asker).to_owned(),
        };
        self.refuse(asker, Some(word), Some(login), before, key);
    }

    fn unknown_provider(&mut self, key: &Key<'_>) -> Problem {
        let word = key.get_ref().as_ref();
        let problem = Problem::error(
            key.span(),
            format!("no provider {} is in this manifest", quoted(word)),
        );
        let providers = self.providers;
        let near = self.suggested.entry(word.to_owned()).or_insert_with(|| {
            nearest(word, providers.keys().map(String::as_str)).map(str::to_owned)
        });
        match near {
            Some(near) => problem.meant(format!("did you mean `{near}`?")),
            None => match ProviderName::new(word) {
                Ok(name) => problem.help(format!("add a table [provider.{name}]")),
                Err(rule) => problem.help(rule.to_string()),
            },
        }
    }

    fn entry(
        &mut self,
        asker: &str,
        consumer: &ConsumerName,
        ready: &Ready<'_>,
        key: &Key<'_>,
        item: &Item<'_>,
    ) -> Option<Needed> {
        let problems = &mut self.problems;
        let before = problems.len();
        let within = format!(
            "[consumer.{}.needs.{}]",
            asker.escape_debug(),
            ready.provider.name
        );
        let fields = Fields::of(key.get_ref(), item, "a table", problems)?;
        let login = login(consumer, &fields, problems);
        let given = auth::password(self.base, &fields, problems);
        let weak = auth::weak(&fields, given.is_some(), problems);
        let enabled = fields.flag("enabled", true, problems);
        let adopt = fields.flag("adopt", false, problems);
        let exact = fields.flag("exact", false, problems);
        let rotates = rotates(&fields, ready, problems);
        let values = values::typed(&fields, &within, &ready.provider.kind, problems);
        let needed = Needed {
            consumer: consumer.clone(),
            provider: ready.provider.name.clone(),
            login: login?,
            base: None,
            rotates,
            password: given.map_or(PasswordSource::Generated, PasswordSource::Given),
            values: values?,
            enabled,
            adopt,
            exact,
            weak,
            line: (self.line)(self.offset + key.span().start),
            span: key.span(),
        };
        if problems.len() == before
            && let Err(Refusal { field, rule }) = refusal(ready, &needed, placeholder(), &self.key)
        {
            let span = fields.span_of_field(&field).unwrap_or_else(|| key.span());
            problems.push(Problem::error(span, format!("`{field}`: {rule}")));
        }
        Some(needed)
    }

    /// Whether an error, and not only a warning, was told since.
    fn spoiled(&self, before: usize) -> bool {
        let since = self.problems.get(before..).unwrap_or_default();
        since.iter().any(|problem| problem.weight == Weight::Error)
    }
    fn stamp(&mut self, before: usize, scope: impl Fn() -> Scope) {
        for problem in self.problems.iter_mut().skip(before) {
            problem.scope = scope();
        }
    }
    fn refuse(
        &mut self,
        consumer: &str,
        provider: Option<&str>,
        login: Option<String>,
        before: usize,
        at: &Key<'_>,
    ) {
        let since = self.problems.get(before..).unwrap_or_default();
        let own = since.iter().find(|problem| problem.weight == Weight::Error);
        let why = match (own, provider) {
            (Some(problem), _) => problem.message.clone(),
            (None, Some(provider))
                if matches!(self.providers.get(provider), Some(Known::Refused(_))) =>
            {
                format!("its provider `{provider}` has mistakes")
            }
            (None, _) => "its consumer's table has mistakes".to_owned(),
        };
        self.refused.push(Refused {
            consumer: Some(consumer.to_owned()),
            provider: provider.map(str::to_owned),
            login,
            why,
            line: (self.line)(self.offset + at.span().start),
        });
    }
}

/// Refuses what the backend could never take, before anything is written (A-5, H-19). Offline it is asked
/// with a stand-in for the password, and again with the real one once that is read.
pub(crate) fn refusal(
    ready: &Ready<'_>,
    needed: &Needed,
    password: Secret,
    key: &Secret,
) -> Result<(), Refusal> {
    let login = needed.login.as_str();
    let provider = ready.provider;
    if provider
        .admin
        .as_ref()
        .is_some_and(|admin| admin.user == login)
    {
        return Err(Refusal::new(
            "login",
            "this is the admin login of the provider; give the consumer one of its own",
        ));
    }
    let reserved =
        provider
            .kind
            .descriptor
            .reserved
            .iter()
            .find(|pattern| match pattern.strip_suffix('*') {
                Some(head) => login.starts_with(head),
                None => login == **pattern,
            });
    if let Some(pattern) = reserved {
        return Err(Refusal::new(
            "login",
            format!("`{pattern}` is reserved by the server; choose another login"),
        ));
    }
    let Some(node) = provider.nodes.first() else {
        return Ok(());
    };
    let wish = needed.wish(Some(password), key);
    provider
        .kind
        .kind
        .check(&node.settings, &wish, &ready.marker)
}

fn login(
    consumer: &ConsumerName,
    fields: &Fields<'_, '_>,
    problems: &mut Vec<Problem>,
) -> Option<Login> {
    let (login, span) = if fields.item("login").is_none() {
        (Login::from(consumer), fields.span.clone())
    } else {
        let text = fields.text("login", "a login in quotes", problems)?;
        let login = Login::new(text.get_ref())
            .map_err(|error| problems.push(Problem::error(text.span(), error.to_string())))
            .ok()?;
        (login, text.span())
    };
    if login.as_str().starts_with(CANARY_LOGINS) {
        let what = format!("logins that begin with `{CANARY_LOGINS}` are Meshkeeper's own");
        problems.push(Problem::error(span, what).help("give it another one: login = \"…\""));
        return None;
    }
    Some(login)
}

/// `rotate_every` and `rotate_grace`.
fn rotates(fields: &Fields<'_, '_>, ready: &Ready<'_>, problems: &mut Vec<Problem>) -> Rotates {
    let capabilities = ready.provider.capabilities();
    if fields.item("rotate_every").is_some() {
        let can = capabilities.two_passwords || capabilities.disable;
        if !can {
            let what = "`rotate_every`: this kind can have neither two passwords at once nor switch a login off";
            problems.push(Problem::error(
                fields.span_of("rotate_every"),
                what.to_owned(),
            ));
        }
        if fields.item("password").is_some() {
            let what = "`rotate_every`: the password is given, so it is a person's to change";
            let problem = Problem::error(fields.span_of("rotate_every"), what.to_owned());
            problems.push(problem.help("leave out one of the two keys"));
        }
    }
    let [every, grace] = ROTATES.map(|length| {
        let text = fields.text(
            length.key,
            "a length of time in quotes, such as \"30d\"",
            problems,
        )?;
        let read = length.parse(text.get_ref());
        let told = |why| Problem::error(text.span(), format!("`{}`: {why}", length.key));
        read.map_err(|why| problems.push(told(why))).ok()
    });
    Rotates { every, grace }
}

fn login_text<'t>(item: &'t Item<'_>) -> Option<&'t str> {
    item.get_ref().get("login")?.get_ref().as_str()
}
