//! The SDK: connect with a ticket, read, write what was read, resolve siblings.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use tanist::client::{Client, Identity, Resolution, Ticket, Written};
//!
//! let ticket: Ticket = std::fs::read_to_string("ticket")?.parse()?;
//! let client = Client::builder().identity(Identity::load("me.key")?).connect(&ticket).await?;
//! let carts = client.siblings("carts").await?.resolve_with(|conflict| {
//!     Resolution::Merge(conflict.values().map(|value| &value[..]).collect::<Vec<_>>().concat().into())
//! });
//! let cart = carts.get("user-7").await?;
//! match carts.replace(&cart, "one apple").await? {
//!     Written::Applied { siblings, .. } => println!("applied, beside {} others", siblings.len()),
//!     Written::Refused { reason, .. } => println!("{reason}; nothing changed"),
//! }
//! # Ok(()) }
//! ```
//!
//! ```text
//! client     connect, open namespaces          space      the handle of a namespace
//! siblings   merges                            linearizable   registers
//! fence      what an owner writes with
//! get        reads                             write      create, replace, delete
//! update     read, compute, write, again       list       keys, keys with siblings
//! prepare    signed writes that can be saved   settle     submit, outcome, settle
//! reading    what was read                     version    how it is named
//! resolvers  ready-made callbacks              admin      namespaces and grants
//! attempt    which replica is asked when (sans-IO, also without the feature `client`)
//! owner      renewals and the deadline of an owner (sans-IO, too)
//! exchange   drives the attempts over the network: peers, config, check
//! ```

pub mod attempt;
pub mod owner;

#[cfg(feature = "client")]
mod admin;
#[cfg(feature = "client")]
mod ambient;
#[cfg(feature = "client")]
mod check;
#[cfg(feature = "client")]
#[allow(clippy::module_inception, reason = "the file of the type `Client`")]
mod client;
#[cfg(feature = "client")]
mod config;
#[cfg(feature = "client")]
mod error;
#[cfg(feature = "client")]
mod exchange;
#[cfg(feature = "client")]
mod fence;
#[cfg(feature = "client")]
mod get;
#[cfg(feature = "client")]
mod identity;
#[cfg(feature = "client")]
mod linearizable;
#[cfg(feature = "client")]
mod list;
#[cfg(feature = "client")]
mod once;
#[cfg(feature = "client")]
mod peers;
#[cfg(feature = "client")]
mod prepare;
#[cfg(feature = "client")]
mod reading;
#[cfg(feature = "client")]
pub mod resolvers;
#[cfg(feature = "client")]
mod resource;
#[cfg(feature = "client")]
mod settle;
#[cfg(feature = "client")]
mod siblings;
#[cfg(feature = "client")]
mod space;
#[cfg(feature = "client")]
mod tenure;
#[cfg(feature = "client")]
mod ticket;
#[cfg(feature = "client")]
mod update;
#[cfg(feature = "client")]
mod version;
#[cfg(feature = "client")]
mod write;

#[cfg(feature = "client")]
#[cfg(test)]
mod fake;
#[cfg(feature = "client")]
#[cfg(test)]
mod register_tests;
#[cfg(feature = "client")]
#[cfg(test)]
mod tests;
#[cfg(feature = "client")]
#[cfg(test)]
mod write_tests;

#[cfg(feature = "client")]
pub use self::{
    admin::Admin,
    client::{Builder, Client},
    error::{
        AdminError, CampaignError, ConnectError, IdentityError, ListError, OpenError, OutcomeError,
        ReadError, TicketError, Unknown, UpdateError, WriteError,
    },
    fence::{FenceError, FenceKey},
    get::Get,
    identity::Identity,
    linearizable::Linearizable,
    list::{List, Listed, Listing},
    once::{Once, OnceError, OnceKey, Run},
    prepare::{Prepared, Receipt, ReceiptError},
    reading::{Conflict, Head, Reading, Resolution, Sibling, Unresolved},
    resource::{InvalidLease, Lease, Observation, Resource},
    settle::Outcome,
    siblings::Siblings,
    space::Space,
    tenure::Tenure,
    ticket::Ticket,
    update::{Change, Updated},
    version::{Basis, BasisError, Causality, NotAVersion, Version, Versions},
    write::{Pending, RefusedReason, Written},
};
#[cfg(feature = "client")]
pub use crate::core::chain::{Grant, Mode, Rights};
#[cfg(feature = "client")]
pub use crate::wire::client::OnConflict;
