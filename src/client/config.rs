//! The configuration: fetched from any node, believed from none, verified entry by entry.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};

use super::attempt::{Attempts, Pace, Verdict};
use super::check::{Rejected, unexpected};
use super::client::Client;
use super::error::ReadError;
use crate::core::chain::{Chain, Decided};
use crate::core::cluster::{ConfigError, Configuration};
use crate::wire::client::AskConfig;
use crate::wire::registry::{Reply, Request};

pub(super) type Fetched<'a> =
    Pin<Box<dyn Future<Output = Result<Arc<Configuration>, ReadError>> + Send + 'a>>;

/// The lengths of the chains: voters, policy, write epochs.
pub(super) fn lengths(config: &Configuration) -> [u64; 3] {
    Chain::ALL.map(|chain| config.length(chain))
}

/// `known` with `entries` added, each verified. Entries that are known already are left out.
fn extended(known: &Configuration, entries: &[Decided]) -> Result<Configuration, ConfigError> {
    let mut config = known.clone();
    for decided in entries {
        if decided.signed.entry.number > config.length(decided.signed.entry.chain) {
            config.extend(decided.clone())?;
        }
    }
    Ok(config)
}

impl Client {
    /// Fetches what is new, from a node that knows chains of at least these lengths.
    pub(super) fn fetch_config(&self, needed: [u64; 3]) -> Fetched<'_> {
        // Boxed, because judging an answer may need this, and this is judged as an answer.
        Box::pin(async move {
            let _turn = self.shared.fetching.lock().await;
            loop {
                let known = self.configuration();
                if needed != [0; 3] && reaches(lengths(&known), needed) {
                    return Ok(known);
                }
                let (config, more) = self.fetch_once(&known, needed).await?;
                let config = Arc::new(config);
                *self.shared.config.write().unwrap_or_else(PoisonError::into_inner) = config.clone();
                if !more {
                    return Ok(config);
                }
            }
        })
    }

    async fn fetch_once(
        &self,
        known: &Configuration,
        needed: [u64; 3],
    ) -> Result<(Configuration, bool), ReadError> {
        let members = self.route(known.current().members.iter().map(|member| member.id).collect());
        let timeout = u64::try_from(self.timeout().as_millis()).unwrap_or(u64::MAX);
        let attempts = Attempts::read(members, Pace { deadline_ms: timeout, ..Pace::default() });
        let request = Request::AskConfig(AskConfig { have: lengths(known) });
        let check = move |_: &super::check::Checker<'_>, reply: &Reply| {
            let Reply::Config(config) = reply else { return Err(unexpected()) };
            if !reaches(config.lengths, needed) {
                return Err(Rejected::Forged("the node does not know the newest configuration yet".into()));
            }
            extended(known, &config.entries).map_err(|error| Rejected::Forged(error.to_string()))?;
            Ok(())
        };
        match self.exchange(attempts, &request, &check).await {
            Verdict::Answer(Reply::Config(config)) => {
                let longer =
                    extended(known, &config.entries).map_err(|error| ReadError::Forged(error.to_string()))?;
                let grew = lengths(&longer) != lengths(known);
                let more = grew && !reaches(lengths(&longer), config.lengths);
                Ok((longer, more))
            }
            other => Err(ReadError::from_verdict(other)),
        }
    }
}

fn reaches(have: [u64; 3], needed: [u64; 3]) -> bool {
    have.iter().zip(needed).all(|(have, needed)| *have >= needed)
}
