//! What the tests of this layer share.

#![allow(clippy::unwrap_used, reason = "a test that meets an error is to fail")]

use std::collections::BTreeMap;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;

use super::{Admission, Admitted, Endpoint, Options, lock};
use crate::core::identity::{MemberId, PublicKey, SecretKey};
use crate::wire::frame::Frame;

/// Far longer than anything here takes, so that a hang is a failure.
pub(super) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("it should not hang")
}

pub(super) fn secret(seed: u8) -> SecretKey {
    SecretKey::from_seed(&[seed; 32])
}

pub(super) fn member(seed: u8) -> MemberId {
    MemberId([seed; 16])
}

pub(super) fn socket() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

pub(super) fn frame(kind: u16, len: usize) -> Frame {
    Frame { kind, header: Bytes::from_static(b"header"), body: Bytes::from(vec![0x5a; len]) }
}

/// An admission that tests change at will.
#[derive(Default)]
pub(super) struct Table(Mutex<(BTreeMap<PublicKey, Admitted>, bool)>);

impl Table {
    pub(super) fn set(&self, key: PublicKey, admitted: Option<Admitted>) {
        let mut table = lock(&self.0);
        match admitted {
            Some(admitted) => table.0.insert(key, admitted),
            None => table.0.remove(&key),
        };
    }

    pub(super) fn admit_anyone(&self) {
        lock(&self.0).1 = true;
    }
}

impl Admission for Table {
    fn admit(&self, key: &PublicKey) -> Option<Admitted> {
        let table = lock(&self.0);
        table.0.get(key).copied().or(table.1.then_some(Admitted::Anyone))
    }
}

/// A server with the key of seed 1 that answers each request with its own frame.
pub(super) fn echo(table: Arc<Table>, options: Options) -> (Endpoint, SocketAddr) {
    let endpoint = Endpoint::server_with(&secret(1), socket(), table, options).unwrap();
    let addr = endpoint.local_addr().unwrap();
    let accepting = endpoint.clone();
    tokio::spawn(async move {
        while let Some(connection) = accepting.accept().await {
            tokio::spawn(async move {
                while let Ok((frame, responder)) = connection.accept_request().await {
                    tokio::spawn(responder.respond(frame));
                }
            });
        }
    });
    (endpoint, addr)
}
