//! The ticket: what a client needs to trust a cluster and to find it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use data_encoding::BASE64;
use serde::{Deserialize, Serialize};

use super::error::TicketError;
use crate::core::chain::Decided;
use crate::core::cluster::Configuration;
use crate::core::codec;
use crate::core::identity::{ClusterId, MemberId};

/// The first line of every ticket.
pub(super) const FIRST_LINE: &str = "tanist-ticket-1";

/// The entry that founded a cluster, and addresses of its founding members.
///
/// Whoever holds a ticket can verify everything that was decided for the cluster since; the
/// addresses are hints. It holds no secret. In text it is the line `tanist-ticket-1` and a line of base64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    genesis: Decided,
    cluster: ClusterId,
    addresses: BTreeMap<MemberId, Vec<SocketAddr>>,
}

#[derive(Serialize, Deserialize)]
struct Form {
    genesis: Decided,
    addresses: Vec<(MemberId, Vec<SocketAddr>)>,
}

impl Ticket {
    /// A ticket of the cluster that `genesis` founds; each address belongs to a founding member.
    pub fn new(
        genesis: Decided,
        addresses: BTreeMap<MemberId, Vec<SocketAddr>>,
    ) -> Result<Self, TicketError> {
        let founded = Configuration::found(genesis.clone())?;
        let known = addresses.keys().all(|member| founded.member(*member).is_some());
        if !known || addresses.values().all(Vec::is_empty) {
            return Err(TicketError::Addresses);
        }
        Ok(Ticket { cluster: founded.cluster(), genesis, addresses })
    }

    /// The cluster.
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// The entry that founded it.
    pub fn genesis(&self) -> &Decided {
        &self.genesis
    }

    /// Where members are, or were when the ticket was made.
    pub fn addresses(&self) -> &BTreeMap<MemberId, Vec<SocketAddr>> {
        &self.addresses
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses = self.addresses.iter().map(|(member, at)| (*member, at.clone())).collect();
        let form = Form { genesis: self.genesis.clone(), addresses };
        writeln!(f, "{FIRST_LINE}\n{}", BASE64.encode(&codec::encode(&form)))
    }
}

impl FromStr for Ticket {
    type Err = TicketError;

    fn from_str(text: &str) -> Result<Self, TicketError> {
        let (first, rest) = text.trim().split_once('\n').unwrap_or((text.trim(), ""));
        match first.trim_end() {
            FIRST_LINE => {}
            other if other.starts_with("tanist-ticket-") => {
                return Err(TicketError::Format(other.to_owned()));
            }
            _ => return Err(TicketError::NotATicket),
        }
        let bytes = BASE64.decode(rest.trim().as_bytes()).map_err(|_| TicketError::Base64)?;
        let form: Form = codec::decode(&bytes)?;
        Ticket::new(form.genesis, form.addresses.into_iter().collect())
    }
}
