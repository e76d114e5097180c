//! Listings: what every member says it holds, put together.

use std::collections::BTreeMap;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use tokio::task::JoinSet;

use super::attempt::Verdict;
use super::check::{Checker, Rejected, unexpected};
use super::error::{ListError, ReadError};
use super::exchange::Deadline;
use super::space::Space;
use super::version::Version;
use crate::core::identity::MemberId;
use crate::core::object::{Key, ObjectId};
use crate::core::version::Stamps;
use crate::core::write::WriteId;
use crate::core::{limits, placement};
use crate::wire::client::{self as wire, Page};
use crate::wire::registry::{Reply, Request};

/// A listing that is about to be asked for: await it for one page.
#[must_use = "a listing is made when it is awaited"]
pub struct List<'a> {
    handle: &'a Space,
    prefix: Vec<u8>,
    after: Option<Key>,
    limit: u32,
    conflicts: bool,
}

/// A page of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// In the order of their bytes.
    pub keys: Vec<Listed>,
    /// Where to go on, if there may be more: pass it to [`List::after`].
    pub next: Option<Key>,
}

/// A key of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The key.
    pub key: Key,
    /// Its live versions, each with the bytes of its value; `None` for a deletion.
    pub live: Vec<(Version, Option<u64>)>,
}

/// The live versions of a key as one member lists them.
type Live = Vec<(u64, WriteId, Option<u64>)>;

impl<'a> List<'a> {
    pub(super) fn new(handle: &'a Space, prefix: &[u8], conflicts: bool) -> Self {
        let limit = limits::LIST_PAGE as u32;
        List { handle, prefix: prefix.to_vec(), after: None, limit, conflicts }
    }

    /// Goes on after this key.
    pub fn after(mut self, key: Key) -> Self {
        self.after = Some(key);
        self
    }

    /// At most so many keys; 1,000 by default and at most. A page may be shorter and still not the last:
    /// see [`Listing::next`].
    pub fn limit(mut self, keys: u32) -> Self {
        self.limit = keys.clamp(1, limits::LIST_PAGE as u32);
        self
    }

    async fn page(self) -> Result<Listing, ListError> {
        let deadline = Deadline::after(self.handle.client.timeout());
        let pages = self.ask_all(deadline).await?;
        // Beyond the shortest page that is not its member's last, that member has not spoken yet.
        let mut upto = pages.values().filter_map(|page| page.next.clone()).min();
        let mut keys: BTreeMap<Key, BTreeMap<MemberId, Live>> = BTreeMap::new();
        for (member, page) in pages.iter() {
            for listed in &page.keys {
                if upto.as_ref().is_none_or(|upto| listed.key <= *upto) {
                    keys.entry(listed.key.clone()).or_default().insert(*member, listed.live.clone());
                }
            }
        }
        if let Some((last, _)) = keys.iter().nth(self.limit as usize - 1)
            && keys.len() > self.limit as usize
        {
            upto = Some(last.clone());
        }
        let mut listing = Listing { keys: Vec::new(), next: upto };
        for (key, said) in keys.into_iter().take(self.limit as usize) {
            let answered: Vec<MemberId> = pages.keys().copied().collect();
            if let Some(live) = self.live(&key, said, &answered, deadline).await? {
                listing.keys.push(Listed { key, live });
            }
        }
        Ok(listing)
    }

    /// The live versions of a key: what its replicas agree on, and otherwise what a read says. `None` if
    /// it does not belong into this listing.
    async fn live(
        &self,
        key: &Key,
        said: BTreeMap<MemberId, Live>,
        answered: &[MemberId],
        deadline: Deadline,
    ) -> Result<Option<Vec<(Version, Option<u64>)>>, ListError> {
        let object = ObjectId::new(self.handle.namespace.id, key);
        let replicas = match self.handle.client.only {
            Some(only) => vec![only],
            None => placement::replicas(self.handle.client.configuration().current(), object),
        };
        let mut sayings = replicas.iter().filter(|r| answered.contains(r)).map(|replica| said.get(replica));
        let first = sayings.next().flatten();
        let agreed = first.filter(|first| sayings.all(|other| other == Some(*first)));
        if let Some(live) = agreed {
            let named = |(generation, id, len): &(u64, WriteId, Option<u64>)| {
                (Version::new(*id, *generation, Stamps::default()), *len)
            };
            // Deletions side by side have nothing in them to resolve.
            let wanted = live.iter().any(|(_, _, len)| len.is_some());
            return Ok(wanted.then(|| live.iter().map(named).collect()));
        }
        let reading = self.handle.read(key, false, false, deadline).await?;
        let wanted = if self.conflicts { reading.is_conflict() } else { !reading.is_absent() };
        let live = reading.siblings.iter().map(|one| (one.version().clone(), one.head().value_len()));
        Ok(wanted.then(|| live.collect()))
    }

    /// A page of each member that answers; enough of them that no key is missing.
    async fn ask_all(&self, deadline: Deadline) -> Result<BTreeMap<MemberId, Page>, ListError> {
        let client = &self.handle.client;
        let config = client.configuration();
        let mut asking = JoinSet::new();
        let all = config.current().members.iter().map(|member| member.id);
        let members: Vec<MemberId> = all.filter(|id| client.only.is_none_or(|only| only == *id)).collect();
        for member in members {
            let (client, request) = (client.clone(), self.request());
            let (prefix, after) = (self.prefix.clone(), self.after.clone());
            asking.spawn(async move {
                let check = move |_: &Checker<'_>, reply: &Reply| check(reply, &prefix, after.as_ref());
                (member, client.ask_member(member, &request, deadline, &check).await)
            });
        }
        let mut pages = BTreeMap::new();
        let (mut missing, mut why) = (0, String::new());
        while let Some(joined) = asking.join_next().await {
            match joined {
                Ok((member, Verdict::Answer(Reply::Page(page)))) => {
                    pages.insert(member, page);
                }
                Ok((_, other)) => match ReadError::from_verdict(other) {
                    ReadError::Unavailable(reason) | ReadError::Forged(reason) => {
                        missing += 1;
                        why = reason;
                    }
                    error => return Err(error.into()),
                },
                Err(error) => {
                    missing += 1;
                    why = error.to_string();
                }
            }
        }
        // Every acknowledged write is on `write_quorum` replicas: one of them has answered.
        let tolerated = match client.only {
            Some(_) => 0,
            None => self.handle.namespace.write_quorum(config.replica_count()) - 1,
        };
        if missing > tolerated {
            return Err(ListError::Unavailable { missing, tolerated, why });
        }
        Ok(pages)
    }

    fn request(&self) -> Request {
        Request::List(wire::List {
            namespace: self.handle.namespace.id,
            prefix: self.prefix.clone(),
            after: self.after.clone(),
            limit: self.limit,
            conflicts: self.conflicts,
        })
    }
}

/// A page is in order, and of what was asked for.
fn check(reply: &Reply, prefix: &[u8], after: Option<&Key>) -> Result<(), Rejected> {
    let Reply::Page(page) = reply else { return Err(unexpected()) };
    let sorted = page.keys.windows(2).all(|pair| matches!(pair, [a, b] if a.key < b.key));
    let asked = page.keys.iter().all(|listed| {
        listed.key.as_bytes().starts_with(prefix) && after.is_none_or(|after| listed.key > *after)
    });
    let goes_on = page.next.as_ref().is_none_or(|next| after.is_none_or(|after| next > after));
    match sorted && asked && goes_on {
        true => Ok(()),
        false => Err(Rejected::Forged("a page out of order, or of other keys".into())),
    }
}

impl<'a> IntoFuture for List<'a> {
    type Output = Result<Listing, ListError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.page())
    }
}
