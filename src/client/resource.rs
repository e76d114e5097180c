//! Resources: who owns them, and campaigning for them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{sleep, timeout};

use super::ambient;
use super::attempt::Verdict;
use super::check::{Checker, Rejected, unexpected};
use super::client::Client;
use super::error::{CampaignError, ReadError};
use super::exchange::{Deadline, Target, pauses};
use super::fence::FenceKey;
use super::owner::{Office, Owner};
use super::tenure::Tenure;
use crate::core::certificate::{Certificate, prove};
use crate::core::chain::Rights;
use crate::core::identity::{PublicKey, SecretKey};
use crate::core::limits;
use crate::core::object::{InvalidKey, Key, NamespaceId, ObjectId};
use crate::core::signature::sign_one;
use crate::core::tenure::{self as core_tenure, Claim, TenureProof, sign_fence};
use crate::core::version::{SignedWrite, Version};
use crate::core::write::{Term, WriteId};
use crate::wire::client::Failure;
use crate::wire::ownership::{Ballots, Campaign, Campaigned, Observe, Observed};
use crate::wire::registry::{Reply, Request};

/// How long an owner is trusted after it was last heard: 1 second to 5 minutes, 15 seconds by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease(u32);

/// A duration is no lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a lease is 1 second to 5 minutes long")]
pub struct InvalidLease;

impl Lease {
    /// In milliseconds.
    pub fn as_millis(self) -> u32 {
        self.0
    }
}

impl Default for Lease {
    fn default() -> Self {
        Lease(15_000)
    }
}

impl TryFrom<Duration> for Lease {
    type Error = InvalidLease;

    fn try_from(lease: Duration) -> Result<Self, InvalidLease> {
        let ms = u32::try_from(lease.as_millis()).map_err(|_| InvalidLease)?;
        let bounds = limits::LEASE_MIN_MS..=limits::LEASE_MAX_MS;
        if bounds.contains(&ms) { Ok(Lease(ms)) } else { Err(InvalidLease) }
    }
}

/// Something that one process at a time may own. Cheap to clone.
#[derive(Clone)]
pub struct Resource {
    pub(super) client: Client,
    pub(super) name: Key,
}

/// Who owns a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// The term.
    pub term: Term,
    /// The tenure, as a version of the resource.
    pub tenure: WriteId,
    /// Whose tenure it is; nobody's, if the last owner resigned.
    pub owner: Option<PublicKey>,
    /// The lease.
    pub lease_ms: u32,
    /// About how long it takes, without a renewal, until another may follow.
    pub left: Duration,
    /// What proves it.
    pub certificate: Certificate,
}

/// What a candidate has of the race.
enum Race {
    Won(Arc<TenureProof>),
    /// A lease runs for so long.
    Running(u64),
    /// Another tenure took the place.
    Lost,
    /// It cannot be taken as it is: it names a tenure that the nodes have not heard of, or a write epoch that
    /// has passed. Nobody said that another one took its place.
    Stale(String),
    /// Nothing was found out.
    Open(String),
}

/// A tenure that was submitted.
struct Candidacy {
    signed: Arc<SignedWrite>,
    tenure: core_tenure::Tenure,
    key: SecretKey,
    owner: Owner,
}

impl Client {
    /// Something to be owned. It needs no creating, and is never deleted.
    pub fn resource(&self, name: impl AsRef<[u8]>) -> Result<Resource, InvalidKey> {
        Ok(Resource { client: self.clone(), name: name.as_ref().to_vec().try_into()? })
    }
}

impl Resource {
    /// A current owner is asked for again after so long at the latest: it may have resigned.
    const LOOK: Duration = Duration::from_millis(500);
    /// Even who does not want to wait tries so often if what was looked at was old.
    const STALE: u32 = 3;

    /// What it is called.
    pub fn name(&self) -> &Key {
        &self.name
    }

    /// Waits until this process is the owner. Every call is a candidate of its own, with a fresh key: two
    /// processes with one identity are two candidates.
    pub async fn campaign(&self, lease: Lease) -> Result<Tenure, CampaignError> {
        self.run(lease, None).await
    }

    /// Waits until this process is the owner, but no longer than `wait`: then
    /// [`CampaignError::Owned`], if somebody else is.
    pub async fn campaign_for(&self, lease: Lease, wait: Duration) -> Result<Tenure, CampaignError> {
        self.run(lease, Some(wait)).await
    }

    /// Becomes the owner if nobody else is.
    pub async fn try_campaign(&self, lease: Lease) -> Result<Tenure, CampaignError> {
        self.run(lease, Some(Duration::ZERO)).await
    }

    /// Who owns it, linearizably; `None` if nobody ever did.
    pub async fn observe(&self) -> Result<Option<Observation>, ReadError> {
        let (observed, proof) = self.look(Deadline::after(self.client.timeout())).await?;
        Ok(proof.map(|proof| Observation {
            term: proof.tenure.term,
            tenure: proof.signed.id(),
            owner: proof.tenure.key.map(|_| proof.signed.write().author),
            lease_ms: proof.tenure.lease_ms,
            left: Duration::from_millis(observed.left_ms),
            certificate: self.certificate(proof),
        }))
    }

    /// Ends the tenure of `fence`, if it is still the current one: another may follow at once. The fence
    /// must not be used again. Returns whether it was the current one.
    pub async fn resign(&self, fence: &FenceKey) -> Result<bool, CampaignError> {
        let proof = fence.proof();
        let write = proof.signed.write();
        let claim = Claim {
            key: None,
            ..self.claim(Some((write.generation, proof.signed.id())), proof.tenure.lease_ms)
        };
        let (write, tenure) = claim.write();
        let id = write.id();
        let author = sign_one(self.client.identity().secret(), write.cluster, id.into());
        let signature = sign_fence(fence.secret(), write.cluster, id);
        let signed = Arc::new(SignedWrite::new(write, author, Some(signature)));
        let deadline = Deadline::after(self.client.timeout());
        let mut pauses = pauses();
        loop {
            let asked = self.submit(&signed, &tenure, Some(proof.clone()), false, deadline).await?;
            match asked {
                Race::Won(_) => return Ok(true),
                Race::Lost => return Ok(false),
                Race::Running(_) | Race::Stale(_) | Race::Open(_) if deadline.pause(&mut pauses).await => {}
                Race::Running(_) => return Err(CampaignError::Unknown("no majority answered".into())),
                Race::Stale(why) | Race::Open(why) => return Err(CampaignError::Unknown(why)),
            }
        }
    }

    /// A certificate of this proof, with the memberships that a verifier needs.
    pub(super) fn certificate(&self, proof: TenureProof) -> Certificate {
        Certificate::new(&self.client.configuration(), proof)
    }

    async fn run(&self, lease: Lease, wait: Option<Duration>) -> Result<Tenure, CampaignError> {
        let began = ambient::boot_ms();
        let until =
            wait.map(|wait| began.saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)));
        let mut candidacy: Option<Candidacy> = None;
        let mut stale = 0;
        let mut pauses = pauses();
        loop {
            let deadline = Deadline::after(self.client.timeout());
            let race = match &mut candidacy {
                Some(candidacy) => {
                    self.submit(&candidacy.signed, &candidacy.tenure, None, false, deadline).await
                }
                None => match self.look(deadline).await {
                    Ok((_, current)) => {
                        let candidacy = candidacy.insert(self.stand(current.as_ref(), lease)?);
                        self.submit(&candidacy.signed, &candidacy.tenure, None, false, deadline).await
                    }
                    Err(ReadError::Unavailable(why)) => Ok(Race::Open(why)),
                    Err(error) => return Err(error.into()),
                },
            };
            let (pause, held) = match race? {
                Race::Won(proof) => {
                    let Some(Candidacy { key, owner, .. }) = candidacy.take() else { continue };
                    let Some(fence) = FenceKey::new(proof, key) else {
                        return Err(CampaignError::Read(ReadError::Forged("another key won".into())));
                    };
                    // Whoever won late has to be heard first. That takes no longer than the wait, and as long
                    // as any other request.
                    let office = Tenure::take_office(self.clone(), fence, owner);
                    let begun = match until {
                        None => Ok(office.await),
                        Some(until) => {
                            let left = Duration::from_millis(until.saturating_sub(ambient::boot_ms()));
                            timeout(left.max(self.client.timeout()), office).await
                        }
                    };
                    match begun {
                        Ok(Some(tenure)) => return Ok(tenure),
                        // It won so late that another followed already.
                        Ok(None) => continue,
                        Err(_) => {
                            let why = "it won too late, and no renewal counted in time".to_owned();
                            return Err(CampaignError::Unavailable(why));
                        }
                    }
                }
                Race::Lost => {
                    candidacy = None;
                    continue;
                }
                Race::Stale(why) => {
                    // A fresh one names what is there by now.
                    candidacy = None;
                    stale += 1;
                    if stale >= Self::STALE && until.is_some_and(|until| ambient::boot_ms() >= until) {
                        return Err(CampaignError::Unavailable(why));
                    }
                    (pauses.next().unwrap_or(Self::LOOK), false)
                }
                Race::Running(left_ms) => {
                    let left = Duration::from_millis(left_ms.saturating_add(1));
                    (left.min(Self::LOOK), true)
                }
                Race::Open(why) => {
                    if until.is_some_and(|until| ambient::boot_ms() >= until) {
                        return Err(CampaignError::Unavailable(why));
                    }
                    (pauses.next().unwrap_or(Self::LOOK), false)
                }
            };
            let now = ambient::boot_ms();
            if let Some(until) = until
                && now >= until
                && held
            {
                return Err(self.owned(deadline).await);
            }
            let left =
                until.map_or(pause, |until| pause.min(Duration::from_millis(until.saturating_sub(now))));
            sleep(left.max(Duration::from_millis(1))).await;
        }
    }

    /// Who is in the way.
    async fn owned(&self, deadline: Deadline) -> CampaignError {
        match self.look(deadline).await {
            Ok((observed, Some(proof))) => CampaignError::Owned {
                by: proof.signed.write().author,
                term: proof.tenure.term,
                left: Duration::from_millis(observed.left_ms),
            },
            Ok((_, None)) => CampaignError::Unavailable("another campaign is under way".into()),
            Err(error) => error.into(),
        }
    }

    /// What this client claims as the successor of `current`.
    fn claim(&self, current: Option<(u64, WriteId)>, lease_ms: u32) -> Claim {
        let config = self.client.configuration();
        Claim {
            cluster: config.cluster(),
            resource: self.name.clone(),
            current,
            recovery: config.current().recovery,
            key: None,
            lease_ms,
            epoch: config.write_epoch(),
            author: self.client.identity().public(),
            nonce: ambient::random(),
            wall_ms: ambient::wall_ms(),
        }
    }

    /// A fresh candidate.
    fn stand(&self, current: Option<&TenureProof>, lease: Lease) -> Result<Candidacy, CampaignError> {
        let key = SecretKey::from_seed(&ambient::random());
        let current = current.map(|proof| (proof.signed.write().generation, proof.signed.id()));
        let claim = Claim { key: Some(key.public()), ..self.claim(current, lease.as_millis()) };
        let (write, tenure) = claim.write();
        let proof = sign_one(self.client.identity().secret(), write.cluster, write.id().into());
        let signed = Arc::new(SignedWrite::new(write, proof, None));
        let config = self.client.configuration();
        let office = Office {
            cluster: config.cluster(),
            voters: config.current().electorate.clone(),
            resource: self.name.clone(),
            tenure: signed.id(),
            key: key.clone(),
            lease_ms: lease.as_millis(),
        };
        // From here on it is submitted: the deadline counts from now.
        let owner = Owner::new(office, ambient::boot_ms());
        Ok(Candidacy { signed, tenure, key, owner })
    }

    /// Submits a tenure, or a resignation, once to the voters.
    async fn submit(
        &self,
        signed: &Arc<SignedWrite>,
        tenure: &core_tenure::Tenure,
        ends: Option<Arc<TenureProof>>,
        afresh: bool,
        deadline: Deadline,
    ) -> Result<Race, CampaignError> {
        let value = [Bytes::from(tenure.encode())].into_iter().collect();
        let campaign = Campaign { signed: signed.clone(), tenure: ends, afresh, value };
        let object = signed.write().object();
        let check = {
            let (signed, tenure) = (signed.clone(), tenure.clone());
            move |checker: &Checker<'_>, reply: &Reply| match reply {
                Reply::Campaigned(Campaigned { result: Ballots::Chosen { ballot, votes }, .. }) => {
                    let (signed, tenure) = (SignedWrite::clone(&signed), tenure.clone());
                    let proof = TenureProof { signed, tenure, ballot: *ballot, votes: votes.clone() };
                    let proven = prove(&proof, checker.config);
                    proven.map(|_| ()).map_err(|error| Rejected::Forged(error.to_string()))
                }
                Reply::Campaigned(Campaigned { version, value, .. }) => {
                    checker.current(object, version.as_ref(), value.as_slice())
                }
                _ => Err(unexpected()),
            }
        };
        let target = self.target(Rights::ELECT, Some(signed.write().epoch));
        let verdict = self.client.ask_key(&target, &Request::Campaign(campaign), deadline, &check).await;
        Ok(match verdict {
            Verdict::Answer(Reply::Campaigned(campaigned)) => match campaigned.result {
                Ballots::Chosen { ballot, votes } => {
                    let (signed, tenure) = (SignedWrite::clone(signed), tenure.clone());
                    Race::Won(Arc::new(TenureProof { signed, tenure, ballot, votes }))
                }
                Ballots::Running { left_ms } => Race::Running(left_ms),
                Ballots::Refused => Race::Lost,
                Ballots::Incomplete => Race::Open("no majority said so in time".into()),
            },
            Verdict::Answer(Reply::Failure(
                failure @ (Failure::UnknownParents(_) | Failure::Expired { .. }),
            )) => Race::Stale(failure.to_string()),
            Verdict::Unknown(why) | Verdict::Unavailable(why) => Race::Open(why),
            other => match ReadError::from_verdict(other) {
                ReadError::Unavailable(why) => Race::Open(why),
                error => return Err(error.into()),
            },
        })
    }

    /// Has the tenure of `fence` brought to all voters again.
    pub(super) async fn afresh(&self, fence: &FenceKey, deadline: Deadline) -> super::owner::Afresh {
        use super::owner::Afresh;
        let proof = fence.proof();
        let signed = Arc::new(proof.signed.clone());
        match self.submit(&signed, &proof.tenure, None, true, deadline).await {
            Ok(Race::Won(_)) => Afresh::Chosen,
            Ok(Race::Lost) => Afresh::Refused,
            Ok(Race::Running(_) | Race::Stale(_) | Race::Open(_)) | Err(_) => Afresh::Failed,
        }
    }

    /// The current tenure, proved.
    async fn look(&self, deadline: Deadline) -> Result<(Observed, Option<TenureProof>), ReadError> {
        let object = ObjectId::new(self.namespace(), &self.name);
        let check = move |checker: &Checker<'_>, reply: &Reply| match reply {
            Reply::Observed(observed) => {
                checker.current(object, observed.version.as_ref(), observed.value.as_slice())?;
                match proof_of(observed) {
                    Ok(None) => Ok(()),
                    Ok(Some(proof)) => {
                        let proven = prove(&proof, checker.config);
                        proven.map(|_| ()).map_err(|error| Rejected::Forged(error.to_string()))
                    }
                    Err(why) => Err(Rejected::Forged(why)),
                }
            }
            _ => Err(unexpected()),
        };
        let request = Request::Observe(Observe { resource: self.name.clone() });
        let target = self.target(Rights::READ, None);
        match self.client.ask_key(&target, &request, deadline, &check).await {
            Verdict::Answer(Reply::Observed(observed)) => {
                let proof = proof_of(&observed).map_err(ReadError::Forged)?;
                Ok((observed, proof))
            }
            other => Err(ReadError::from_verdict(other)),
        }
    }

    fn namespace(&self) -> NamespaceId {
        NamespaceId::resources(self.client.configuration().cluster())
    }

    fn target(&self, rights: Rights, epoch: Option<u64>) -> Target<'_> {
        let who = self.client.identity().public();
        Target { namespace: self.namespace(), key: &self.name, who, rights, epoch, agreed: true }
    }
}

/// The tenure that was observed, with its votes.
fn proof_of(observed: &Observed) -> Result<Option<TenureProof>, String> {
    let (Some(Version { signed, .. }), Some(value)) = (&observed.version, observed.value.as_slice().first())
    else {
        return Ok(None);
    };
    let tenure = core_tenure::Tenure::decode(value).map_err(|error| error.to_string())?;
    let ballot = observed.ballot.ok_or_else(|| "a tenure without the ballot of its votes".to_owned())?;
    let signed = SignedWrite::clone(signed);
    Ok(Some(TenureProof { signed, tenure, ballot, votes: observed.votes.clone() }))
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Resource").field(&self.name).finish()
    }
}
