//! What the loop sees: the manifest, people's words, the servers' records, the deliveries.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use async_trait::async_trait;
use mesh_loops::delivery::record::Record as Delivered;
use mesh_loops::rotation::decide::{Asks, Backend, Make, Said, Seen};
use mesh_loops::rotation::journal::{Held, Journal, Step, Way};
use mesh_loops::rotation::keeper::{Asker, Source, SourceFault};
use mesh_loops::rotation::store::{All, Of};
use mesh_sdk::Secret;
use mesh_sdk::bus::Bus;
use mesh_sdk::vault::Vault;
use tokio::sync::Notify;

use super::{Words, seats};
use crate::manifest::{Machine, Manifest, Needed, PasswordSource, Provider, refusal};
use crate::wiring::needed;
use crate::wiring::oneshot::read_lock;
use crate::wiring::reading::records_of;
use crate::wiring::secrets::{Known, Secrets, SecretsFault};
use crate::wiring::words;

/// The rest of the mesh, for rotation.
pub struct Facts {
    /// The bus.
    pub bus: Arc<dyn Bus>,
    /// The passwords.
    pub secrets: Arc<Secrets>,
    /// The manifest in force.
    pub manifest: Arc<RwLock<Arc<Manifest>>>,
    /// Rung when journals changed.
    pub changed: Arc<Notify>,
}

/// How old and new can be valid together on a provider; `None` if they cannot.
pub fn way_of(provider: &Provider) -> Option<Way> {
    let capabilities = provider.capabilities();
    if capabilities.two_passwords {
        return Some(Way::TwoPasswords);
    }
    capabilities.disable.then_some(Way::Turns)
}

/// What the manifest asks for one.
pub fn asks_of(
    manifest: &Manifest,
    provider: &Provider,
    needed: &Needed,
    known: Option<&Journal>,
) -> Asks {
    let can = way_of(provider);
    let way = known
        .filter(|journal| journal.number > 0)
        .map(|journal| journal.way);
    let way = way.or(can).unwrap_or(Way::Turns);
    let cannot = match (can, way) {
        (None, _) => Some(
            "its kind can have neither two passwords at once nor switch a login off".to_owned(),
        ),
        (_, Way::Turns) => {
            let stand_in = Secret::from("a-stand-in-for-a-password-of-32-");
            let refused = refusal(provider, &manifest.mesh, &needed.second(), stand_in);
            refused
                .err()
                .map(|refusal| format!("its second login: {}", refusal.rule))
        }
        _ => None,
    };
    Asks {
        way,
        enabled: needed.enabled,
        every: needed.rotates.every,
        grace: needed.rotates.grace,
        given: needed.password != PasswordSource::Generated,
        cannot,
    }
}

fn not_now(fault: SecretsFault) -> SourceFault {
    match fault {
        SecretsFault::Bus(fault) => SourceFault::Bus(fault),
        fault => SourceFault::NotNow(fault.to_string()),
    }
}

/// Who is waited for, and who could say so.
struct Outstanding {
    open: Vec<(String, String)>,
    tables: bool,
}

impl Facts {
    /// Whether every node of the provider was seen to hold what the journal asks for.
    async fn backend(
        &self,
        manifest: &Manifest,
        needed: &Needed,
        journal: &Journal,
    ) -> Result<Backend, SourceFault> {
        let (current, other) = self.secrets.open_both(journal).await.map_err(not_now)?;
        let key = self.secrets.digest_key();
        let Some(provider) = manifest.providers.get(&needed.provider) else {
            return Ok(Backend::NotYet("it cannot be used".to_owned()));
        };
        let several = provider.nodes.len() > 1;
        for one in seats::asked(needed, journal, current, other) {
            let (password, second) = (one.password.as_ref(), one.second.as_ref());
            let asked = one.needed.digests(password, second, key);
            let consumer = &one.needed.consumer;
            for (node, record) in records_of(self.bus.as_ref(), provider, consumer).await? {
                let applied = record.as_ref().and_then(|record| record.applied);
                if applied.is_some_and(|applied| asked.contains(&applied)) {
                    continue;
                }
                let why = record.and_then(|record| Some(record.unknown?.why.to_string()));
                let why = why.unwrap_or_else(|| "it is not applied and proven yet".to_owned());
                return Ok(Backend::NotYet(match several {
                    true => format!("{node}: {why}"),
                    false => why,
                }));
            }
        }
        Ok(Backend::AsAsked)
    }

    /// Every table of `deliver` that speaks of this provider, and has not brought the password in force to its end.
    async fn outstanding(
        &self,
        manifest: &Manifest,
        of: &Of,
        journal: &Journal,
    ) -> Result<Outstanding, SourceFault> {
        let (provider, consumer) = of;
        let tables = manifest.deliveries.iter();
        let tables: Vec<_> = tables
            .filter(|one| one.order.consumer == *consumer && one.order.providers.contains(provider))
            .collect();
        let spoiled = manifest
            .undelivered
            .iter()
            .any(|(name, _)| name == consumer);
        let mut found = Outstanding {
            open: Vec::new(),
            tables: !tables.is_empty() || spoiled,
        };
        if journal.step != Step::Waiting {
            return Ok(found);
        }
        if spoiled {
            let what = "a table of `deliver` that cannot be used".to_owned();
            found
                .open
                .push((what, "`mesh check` shows the mistake".to_owned()));
        }
        let records = mesh_loops::delivery::read_all(self.bus.as_ref()).await;
        let records = records.map_err(|fault| SourceFault::NotNow(fault.to_string()))?;
        let mut known: BTreeMap<(String, String), Delivered> = BTreeMap::new();
        for record in records
            .into_iter()
            .filter(|record| record.consumer == *consumer)
        {
            known.insert((record.place.clone(), record.host.clone()), record);
        }
        for table in tables {
            let place = table.order.target.to_string();
            let here = |host: &String| table.host.as_ref().is_none_or(|name| name == host);
            let mut records = known
                .iter()
                .filter(|((at, host), _)| *at == place && here(host));
            if records.any(|(_, record)| record.has_turn(provider, journal.turn)) {
                continue;
            }
            let on = match &table.host {
                Some(host) => format!("{place} on {host}"),
                None => place,
            };
            found.open.push((
                on,
                format!("`mesh ack delivery {consumer} --reason TEXT`, if it has it"),
            ));
        }
        Ok(found)
    }

    /// Whether another password was given than the newest that is known.
    async fn given(
        &self,
        needed: &Needed,
        journal: &Journal,
        current: &Known,
    ) -> Result<bool, SourceFault> {
        let Some(Ok(given)) = needed.given_password(&Machine) else {
            return Ok(false);
        };
        self.secrets.hide(&given);
        let newest = match (&journal.other, journal.step) {
            (Some(held), Step::Proving) => self
                .secrets
                .open_held(&needed.provider, held)
                .await
                .map_err(not_now)?,
            _ => current.clone(),
        };
        Ok(match newest {
            Known::Version(secret) => secret != given,
            Known::Missing(_) => true,
            // The first one is no rotation.
            Known::Nothing => false,
        })
    }
}

#[async_trait]
impl Source for Facts {
    async fn askers(&self, all: &All) -> Result<Vec<Asker>, SourceFault> {
        let manifest = read_lock(&self.manifest);
        let said = words::read(self.bus.as_ref()).await?;
        let said = Words::of(&said);
        let mut askers = Vec::new();
        for needed in manifest
            .provisions
            .iter()
            .filter(|one| !one.consumer.is_canary())
        {
            let of: Of = (needed.provider.clone(), needed.consumer.clone());
            let known = all.get(&of);
            let begin = said.begin.get(&of).filter(|begin| {
                known
                    .and_then(|journal| journal.asked)
                    .is_none_or(|asked| begin.at > asked)
            });
            let under_way = known.is_some_and(Journal::is_under_way);
            let given = needed.password != PasswordSource::Generated;
            if begin.is_none() && !under_way && needed.rotates.every.is_none() && !given {
                continue;
            }
            let Some(provider) = manifest.providers.get(&needed.provider) else {
                continue;
            };
            askers.push(Asker {
                asks: asks_of(&manifest, provider, needed, known),
                said: Said {
                    begin: begin.cloned(),
                    about: said.about.get(&of).cloned(),
                },
                paused: said.paused(&of),
                of,
            });
        }
        Ok(askers)
    }

    async fn seen(&self, asker: &Asker, journal: &Journal) -> Result<Seen, SourceFault> {
        let manifest = read_lock(&self.manifest);
        let (provider, consumer) = &asker.of;
        let Some(needed) = needed(&manifest, provider, consumer) else {
            return Err(SourceFault::NotNow(
                "it left the manifest meanwhile".to_owned(),
            ));
        };
        let current = self
            .secrets
            .current(provider, consumer)
            .await
            .map_err(not_now)?;
        let mut seen = Seen {
            backend: Backend::NotYet("it was not asked".to_owned()),
            given: false,
            lost: matches!(current, Known::Missing(_)),
            outstanding: Vec::new(),
            delivered: false,
            paused: asker.paused,
        };
        if asker.asks.given {
            seen.given = self.given(needed, journal, &current).await?;
            // One that was never applied is no consumer's yet: the builder of the wish takes the new one.
            if journal.current.is_none() && !self.secrets.is_applied(&manifest, needed).await? {
                seen.given = false;
            }
        }
        if journal.is_under_way() {
            seen.backend = self.backend(&manifest, needed, journal).await?;
            let outstanding = self.outstanding(&manifest, &asker.of, journal).await?;
            (seen.outstanding, seen.delivered) = (outstanding.open, outstanding.tables);
        }
        Ok(seen)
    }

    async fn current(&self, of: &Of) -> Result<Option<Held>, SourceFault> {
        let found = self.secrets.held_now(of).await.map_err(not_now)?;
        // Nobody has a password there yet: the provisioner makes the first one.
        found
            .map(Some)
            .ok_or_else(|| SourceFault::NotNow("it has no password yet".to_owned()))
    }

    async fn seal(&self, of: &Of, make: Make) -> Result<Held, SourceFault> {
        let secret = match make {
            Make::New => None,
            Make::Given => {
                let manifest = read_lock(&self.manifest);
                let given = needed(&manifest, &of.0, &of.1);
                let given = given.and_then(|needed| needed.given_password(&Machine));
                match given {
                    Some(Ok(secret)) => Some(secret),
                    Some(Err(trouble)) => return Err(SourceFault::NotNow(trouble.to_string())),
                    None => {
                        return Err(SourceFault::NotNow(
                            "no password is given any more".to_owned(),
                        ));
                    }
                }
            }
        };
        self.secrets
            .seal_candidate(of, secret)
            .await
            .map_err(not_now)
    }

    async fn discard(&self, of: &Of, held: &Held) {
        // One that stays is no journal's, and nothing ever asks for it.
        drop(
            self.secrets
                .vault
                .discard(&of.0, &held.place, &held.id)
                .await,
        );
    }

    fn changed(&self) {
        self.changed.notify_one();
    }
}

impl Secrets {
    /// Whether a provision was ever applied on any node.
    pub(in crate::wiring) async fn is_applied(
        &self,
        manifest: &Manifest,
        needed: &Needed,
    ) -> Result<bool, mesh_sdk::bus::Fault> {
        let Some(provider) = manifest.providers.get(&needed.provider) else {
            return Ok(true);
        };
        let records = records_of(self.bus.as_ref(), provider, &needed.consumer).await?;
        let mut records = records.into_iter().filter_map(|(_, record)| record);
        Ok(records.any(|record| record.applied.is_some()))
    }
}
