//! The daemon among other hosts: which loops are its own, and whose wish is in force.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use mesh_sdk::ProviderName;
use mesh_sdk::Time;
use mesh_sdk::bus::{Bus, Fault};
use mesh_sdk::condition::{ConditionType, Fact};
use mesh_sdk::decide::backoff;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use super::Daemon;
use crate::manifest::{Machine, Manifest, Provider};
use crate::wiring::fleet::Common;
use crate::wiring::installation::{Claim, Installation};
use crate::wiring::member::Member;
use crate::wiring::oneshot::{RunFault, read_lock};
use crate::wiring::owner::WishOwner;
use crate::wiring::publish;
use crate::wiring::shapes::Closed;
use crate::wiring::sharing::{Mine, News, Sharing};
use crate::wiring::wish::Built;

/// A manifest that differs from the wish in force is compared again after so long, at first.
const DIFFERS: Duration = Duration::from_secs(5);
/// Who asked for a pass waits so long for the wish of another host that is newer than this host's manifest.
const WORDS_WAIT: Duration = Duration::from_secs(5);

/// A daemon's place among the hosts.
pub(super) struct Shared {
    sharing: Sharing,
    member: Member,
    /// While this host puts the wish in force: the bus under that claim.
    pub(super) lead: Option<Arc<Installation>>,
    leases: BTreeMap<ProviderName, Arc<Claim>>,
    /// What its loops could not be opened for.
    pub(super) cannot: BTreeMap<ProviderName, Closed>,
    /// What the wish asks for that its loops go by.
    in_force: Option<String>,
    /// Its manifest is the one in force.
    fits: bool,
    /// It was found to differ so often in a row.
    differed: u32,
    /// Why the manifest cannot be read now.
    pub(super) unreadable: Option<String>,
    /// Its secrets without a sealed copy on the bus were put there.
    gave_copies: bool,
    /// What others can do that this host cannot, as it was told last.
    others_can: BTreeSet<ProviderName>,
    /// Since when a request for a pass waits for the wish.
    words_since: Instant,
}

impl Shared {
    pub(super) async fn open(bus: &dyn Bus, sharing: Sharing) -> Result<Self, Fault> {
        Ok(Self {
            member: Member::open(bus, sharing.host()).await?,
            sharing,
            lead: None,
            leases: BTreeMap::new(),
            cannot: BTreeMap::new(),
            in_force: None,
            fits: false,
            differed: 0,
            unreadable: None,
            gave_copies: false,
            others_can: BTreeSet::new(),
            words_since: Instant::now(),
        })
    }
    /// This host's name.
    pub(super) fn host(&self) -> &str {
        self.sharing.host()
    }
    /// Every host that was there lately, this one among them.
    pub(super) fn hosts(&self) -> BTreeSet<String> {
        let mut hosts = self.sharing.others().lately;
        hosts.insert(self.host().to_owned());
        hosts
    }
    /// Until the manifest is read again.
    pub(super) fn patience(&self, usual: Duration) -> Duration {
        match self.differed {
            0 => usual,
            n => usual.min(backoff(DIFFERS, n - 1, usual.max(DIFFERS))),
        }
    }
    /// What was built is in force.
    pub(super) fn agreed(&mut self, built: &Built) {
        self.in_force = Some(built.asked.clone());
        (self.fits, self.differed) = (true, 0);
    }
    /// Somebody asked for a pass.
    pub(super) fn words_came(&mut self) {
        self.words_since = Instant::now();
    }
    fn waits_for_the_wish(&self) -> bool {
        self.lead.is_none() && !self.fits && self.unreadable.is_none()
    }
    /// Gives everything back: the loops have ended.
    pub(super) async fn leave(mut self, bus: &dyn Bus, now: Time) {
        if let Err(fault) = self.member.end(bus, now).await {
            debug!("what this host said of itself still stands: {fault}");
        }
        self.lead = None;
        self.leases.clear();
        self.sharing.leave().await;
    }
}

/// The next news, all that there are.
pub(super) async fn next(news: &mut Option<mpsc::UnboundedReceiver<News>>) -> Vec<News> {
    let mut told = Vec::new();
    if let Some(news) = news
        && news.recv_many(&mut told, usize::MAX).await > 0
    {
        return told;
    }
    std::future::pending().await
}

impl Daemon {
    /// What came of sharing. Breaks when nothing more can be done on this bus.
    pub(super) async fn hear_news(&mut self, told: Vec<News>) -> ControlFlow<()> {
        let mut anew = false;
        for news in told {
            anew |= match news {
                News::Leads(claim) => self.leads(&claim).await,
                News::LeadLost => {
                    self.rotating.stop().await;
                    self.lead_lost()
                }
                News::Leased(provider, claim) => self.leased(provider, claim),
                News::Lost(provider) => {
                    warn!(%provider, "the lease was lost: its loops stop");
                    self.release(&provider, true).await;
                    false
                }
                News::HandBack(provider, host) => {
                    info!(%provider, host, "handed to the host that it suits better");
                    self.release(&provider, false).await;
                    false
                }
                News::Others => self.others_changed(),
                News::Ended(why) => {
                    warn!("this host acts no more: {why}");
                    return ControlFlow::Break(());
                }
            };
        }
        if anew {
            let manifest = read_lock(&self.manifest);
            let outcome = self.take_wish(&manifest).await;
            self.behind = outcome.is_err();
            if let Err(fault) = outcome {
                error!("the wish could not be put in force; the last one stays: {fault}");
            }
        }
        ControlFlow::Continue(())
    }

    /// This host puts the wish in force from now on. Answers whether its manifest's is.
    async fn leads(&mut self, claim: &Arc<Claim>) -> bool {
        let Some(shared) = &mut self.shared else {
            return false;
        };
        let lead = Arc::new(self.installation.under(claim));
        let opened = WishOwner::open(lead.bus.as_ref()).await;
        info!(
            fence = claim.fence(),
            "this host has the claim on the installation: it puts the wish in force"
        );
        shared.lead = Some(lead);
        match opened {
            Ok(owner) => self.owner = Some(owner),
            Err(fault) => {
                error!("the conditions of the wish cannot be read: {fault}");
                self.behind = true;
            }
        }
        match shared.unreadable.clone() {
            None => true,
            Some(why) => {
                if let Err(fault) = self.keep_wish(&why).await {
                    error!("it could not be told that the manifest cannot be read: {fault}");
                }
                false
            }
        }
    }
    fn lead_lost(&mut self) -> bool {
        if let Some(shared) = &mut self.shared {
            warn!("another host puts the wish in force");
            shared.lead = None;
            self.owner = None;
        }
        false
    }
    /// A lease came. Answers whether the wish must be built anew for it.
    fn leased(&mut self, provider: ProviderName, claim: Arc<Claim>) -> bool {
        let Some(shared) = &mut self.shared else {
            return false;
        };
        if !shared.fits {
            shared.sharing.give_back(provider);
            return false;
        }
        info!(%provider, fence = claim.fence(), "this host has the lease");
        // Whoever had it before may have made passwords since the wish was built here.
        self.wishes.remove(&provider);
        shared.leases.insert(provider, claim);
        true
    }
    /// Another host came or went. Answers whether that changes what is told of providers.
    fn others_changed(&mut self) -> bool {
        let Some(shared) = &mut self.shared else {
            return false;
        };
        let can = shared.sharing.others().can;
        let changed = shared.others_can != can;
        shared.others_can = can;
        changed && shared.fits
    }

    /// Stops a provider's loops, and gives its lease back. `at_once`: in the middle of a pass; else that ends.
    async fn release(&mut self, provider: &ProviderName, at_once: bool) {
        if let Some(seats) = self.loops.remove(provider) {
            if at_once {
                seats.stop.cancel();
            }
            seats.stop().await;
        }
        self.common.tally.forget(provider);
        if let Some(shared) = &mut self.shared {
            shared.leases.remove(provider);
            shared.sharing.give_back(provider.clone());
        }
    }

    /// What a provider's loops are made with; `None` where another host has them.
    pub(super) fn common_of(&self, provider: &Provider) -> Option<Common> {
        let Some(shared) = &self.shared else {
            return Some(self.common.clone());
        };
        let claim = shared.leases.get(&provider.name).filter(|_| shared.fits)?;
        let manifest = Arc::clone(&self.manifest);
        Some(self.common.under(&self.installation, manifest, claim))
    }
    /// Its loops run under a lease: they end at once when that is lost.
    pub(super) fn end_with_the_lease(&self, provider: &ProviderName, stop: &CancellationToken) {
        let shared = self.shared.as_ref();
        if let Some(claim) = shared.and_then(|shared| shared.leases.get(provider)) {
            let (claim, stop) = (Arc::clone(claim), stop.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = claim.lost() => stop.cancel(),
                    () = stop.cancelled() => {}
                }
            });
        }
    }
    /// Its loops could not be opened.
    pub(super) fn is_closed(&mut self, provider: &Provider, closed: Closed) {
        match &mut self.shared {
            None => self.without_loop.push((provider.name.clone(), closed)),
            Some(shared) => drop(shared.cannot.insert(provider.name.clone(), closed)),
        }
    }

    /// Says to the other hosts what this one could look after, and gives back what it cannot. Those that nobody
    /// can look after have no loop.
    pub(super) fn say_what_it_can(&mut self, manifest: &Manifest) {
        let Some(shared) = &mut self.shared else {
            return;
        };
        for provider in manifest.providers.values() {
            let name = &provider.name;
            if self.loops.contains_key(name) || shared.cannot.contains_key(name) {
                continue;
            }
            if let Err(fault) = self.common.can_open(provider, &Machine)
                && let Some(closed) = fault.closed()
            {
                shared.cannot.insert(name.clone(), closed);
            }
        }
        let unwanted = |name: &ProviderName| {
            !manifest.providers.contains_key(name) || shared.cannot.contains_key(name)
        };
        let back = shared.leases.keys().filter(|name| unwanted(name));
        let back: Vec<ProviderName> = back.cloned().collect();
        for name in back
            .into_iter()
            .filter(|name| !self.loops.contains_key(name))
        {
            shared.leases.remove(&name);
            shared.sharing.give_back(name);
        }
        let able = manifest.providers.keys();
        let able = able.filter(|name| !shared.cannot.contains_key(*name));
        shared.sharing.say(Mine {
            fits: shared.fits,
            wants: able.cloned().collect(),
            cannot: shared.cannot.clone(),
        });
        let nobody = shared.cannot.iter();
        let nobody = nobody.filter(|(name, _)| !shared.others_can.contains(*name));
        self.without_loop = nobody
            .map(|(n, closed)| (n.clone(), closed.clone()))
            .collect();
    }

    /// This host's manifest is not the one in force, or cannot be read. Its last wish stays in force where it is
    /// still that of the mesh; else its loops end and others take them.
    pub(super) async fn keep_to_the_wish_in_force(&mut self) -> Result<(), RunFault> {
        let bus = Arc::clone(&self.installation.bus);
        let head = publish::head(bus.as_ref()).await?;
        let Some(shared) = &mut self.shared else {
            return Ok(());
        };
        let holds = shared.in_force.as_ref() == Some(&head.asked);
        let mut facts = Vec::new();
        match &shared.unreadable {
            Some(why) => facts.push(shared.member.unreadable(why)),
            // Nobody put one in force yet.
            None if head.generation == 0 => {}
            None => facts.push(shared.member.differs(&head)),
        }
        shared.fits = shared.unreadable.is_some() && holds;
        if !shared.fits {
            shared.differed += 1;
            shared.sharing.say(Mine {
                cannot: shared.cannot.clone(),
                ..Mine::default()
            });
        }
        let now = self.clock.now();
        shared
            .member
            .look(bus.as_ref(), now, head.generation, facts)
            .await?;
        if !holds {
            let leased: Vec<ProviderName> = shared.leases.keys().cloned().collect();
            if !leased.is_empty() {
                warn!("the wish in force is not this host's any more: its loops end");
            }
            for provider in leased {
                self.release(&provider, true).await;
            }
        }
        Ok(())
    }
    /// The wish in force may be another one now.
    pub(super) async fn hear_of_another_wish(&mut self) {
        let head = publish::head(self.installation.bus.as_ref()).await;
        let (Some(shared), Ok(head)) = (&self.shared, head) else {
            return;
        };
        let same = shared.in_force.as_ref() == Some(&head.asked);
        if shared.lead.is_some() || same && shared.fits && head.generation == self.generation {
            return;
        }
        let manifest = read_lock(&self.manifest);
        if let Err(fault) = self.take_wish(&manifest).await {
            error!("the wish in force could not be followed: {fault}");
            self.behind = true;
        }
        if self.reading_first && !self.words_wait_for_the_wish() {
            self.hand_words_on().await;
        }
    }

    /// What keeps this host from its share, in the words of its own conditions; and once, the copies of its
    /// secrets that the bus lacks.
    pub(super) async fn look_at_this_host(&mut self, built: &Built) -> Result<(), RunFault> {
        let bus = Arc::clone(&self.installation.bus);
        let Some(shared) = &mut self.shared else {
            return Ok(());
        };
        let mut facts = Vec::new();
        if let Some(why) = &shared.unreadable {
            facts.push(shared.member.unreadable(why));
        }
        if shared.lead.is_none() {
            let unread = built.facts.iter();
            let unread = unread.filter(|fact| fact.kind == ConditionType::SecretUnreadable);
            facts.extend(unread.cloned().map(|fact| shared.member.here(fact)));
        }
        for (provider, closed) in &shared.cannot {
            if shared.others_can.contains(provider) {
                let why = format!("it is left to other hosts: {}", closed.why);
                let fact = Fact::at_once(closed.kind, provider.as_str(), closed.reason, why);
                facts.push(shared.member.here(fact));
            }
        }
        let now = self.clock.now();
        let looked = shared
            .member
            .look(bus.as_ref(), now, self.generation, facts);
        looked.await?;
        if shared.lead.is_none() && !std::mem::replace(&mut shared.gave_copies, true) {
            let manifest = read_lock(&self.manifest);
            for provider in manifest.providers.keys() {
                self.installation.secrets.share(provider).await?;
            }
        }
        Ok(())
    }

    /// Who asked for a pass means what is asked for now. While another host's newer wish is on its way, or this
    /// host's manifest, the request waits for a moment.
    pub(super) fn words_wait_for_the_wish(&self) -> bool {
        let shared = self.shared.as_ref();
        shared.is_some_and(|shared| {
            shared.waits_for_the_wish() && shared.words_since.elapsed() < WORDS_WAIT
        })
    }
    /// It waited for that moment.
    pub(super) fn words_waited_long_enough(&self) -> bool {
        let shared = self.shared.as_ref().filter(|_| self.reading_first);
        shared.is_some_and(|shared| {
            shared.waits_for_the_wish() && shared.words_since.elapsed() >= WORDS_WAIT
        })
    }
}
