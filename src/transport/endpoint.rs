//! One UDP socket: connections out of it and into it.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use quinn::{Incoming, TokioRuntime, TransportConfig, VarInt};
use tokio::sync::{Mutex as AsyncMutex, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::admission::{Admission, Admitted, Registry};
use super::tls::{self, Identity};
use super::{Code, Connection, DialError, EndpointError, Timing};
use crate::core::identity::{PublicKey, SecretKey};

const CONNECTION_WINDOW: u32 = 8 << 20;
const STREAM_WINDOW: u32 = 1 << 20;
const CLIENT_STREAMS: u32 = 32;
const MEMBER_WINDOW: u32 = 32 << 20;
const MEMBER_STREAMS: u32 = 256;
/// Connections that are through the handshake and wait for [`Endpoint::accept`].
const ACCEPT_QUEUE: usize = 64;

/// What an endpoint may be told beyond who it is. The default fits a node.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Timing of connections that this side dials or accepts.
    pub timing: Timing,
    /// Connections of keys that no grant names, at most, when a grant names everybody. Default 256.
    pub anyone_max: usize,
    /// Handshakes under way at most; above half of it an address must first prove that it can receive.
    /// Default 256.
    pub handshakes_max: usize,
    /// How long a handshake may take, and how long the first frame of a connection, or the beginning of one on
    /// any stream, may be in coming. Default 5 s.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            timing: Timing::default(),
            anyone_max: 256,
            handshakes_max: 256,
            patience: Duration::from_secs(5),
        }
    }
}

/// An identity on a UDP socket. Clones are handles of the same socket; it is let go when the last one and the
/// last connection is gone.
#[derive(Clone)]
pub struct Endpoint(Arc<Inner>);

struct Inner {
    quinn: quinn::Endpoint,
    identity: Identity,
    key: PublicKey,
    options: Options,
    accepting: Option<Accepting>,
}

struct Accepting {
    registry: Arc<Registry>,
    ready: AsyncMutex<mpsc::Receiver<Connection>>,
    task: AbortHandle,
}

impl Endpoint {
    /// An endpoint that accepts on `socket` those whom `admission` admits, and dials from it too.
    ///
    /// Must be called within a tokio runtime.
    pub fn server(
        identity: &SecretKey,
        socket: UdpSocket,
        admission: Arc<dyn Admission>,
    ) -> Result<Self, EndpointError> {
        Endpoint::server_with(identity, socket, admission, Options::default())
    }

    /// Like [`Endpoint::server`], with options.
    pub fn server_with(
        identity: &SecretKey,
        socket: UdpSocket,
        admission: Arc<dyn Admission>,
        options: Options,
    ) -> Result<Self, EndpointError> {
        let key = identity.public();
        let identity = Identity::new(identity).map_err(EndpointError::Tls)?;
        let tls = identity.accepting().map_err(|error| EndpointError::Tls(error.to_string()))?;
        let mut config = quinn::ServerConfig::with_crypto(Arc::new(tls));
        // Streams of one direction are for links, and a stranger is a client until its key is known.
        let mut limits = transport(options.timing, 0);
        // Keeping alive is the business of whoever dialled: it knows how soon it wants to know.
        limits.keep_alive_interval(None);
        config.transport_config(Arc::new(limits));
        config.max_incoming(options.handshakes_max);
        let quinn = new_quinn(Some(config), socket)?;

        let registry = Arc::new(Registry::new(admission, options.anyone_max));
        let (ready, accepted) = mpsc::channel(ACCEPT_QUEUE);
        let task = tokio::spawn(accept_all(quinn.clone(), registry.clone(), ready, options)).abort_handle();
        let accepting = Some(Accepting { registry, ready: AsyncMutex::new(accepted), task });
        Ok(Endpoint(Arc::new(Inner { quinn, identity, key, options, accepting })))
    }

    /// An endpoint that only dials, from a port that the system chooses.
    ///
    /// Must be called within a tokio runtime.
    pub fn client(identity: &SecretKey) -> Result<Self, EndpointError> {
        Endpoint::client_with(identity, Options::default())
    }

    /// Like [`Endpoint::client`], with options.
    pub fn client_with(identity: &SecretKey, options: Options) -> Result<Self, EndpointError> {
        // A socket on [::] reaches both families, but some machines have no IPv6 at all.
        let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))
            .or_else(|_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
        let key = identity.public();
        let identity = Identity::new(identity).map_err(EndpointError::Tls)?;
        let quinn = new_quinn(None, socket)?;
        Ok(Endpoint(Arc::new(Inner { quinn, identity, key, options, accepting: None })))
    }

    /// This side's key.
    pub fn key(&self) -> PublicKey {
        self.0.key
    }

    /// Where this endpoint listens.
    pub fn local_addr(&self) -> Result<SocketAddr, EndpointError> {
        Ok(self.0.quinn.local_addr()?)
    }

    /// Connects to `addr` if exactly `expected` answers there.
    ///
    /// Success says who is there, not that this side is admitted: that shows at the first request.
    pub async fn dial(&self, addr: SocketAddr, expected: PublicKey) -> Result<Connection, DialError> {
        self.dial_as(addr, expected, transport(self.0.options.timing, 0), self.0.options.patience).await
    }

    /// Like [`Endpoint::dial`], with a timing of its own.
    pub async fn dial_with(
        &self,
        addr: SocketAddr,
        expected: PublicKey,
        timing: Timing,
    ) -> Result<Connection, DialError> {
        self.dial_as(addr, expected, transport(timing, 0), self.0.options.patience).await
    }

    /// Dials for a link: either side may open streams towards the other.
    pub(super) async fn dial_link(
        &self,
        addr: SocketAddr,
        expected: PublicKey,
        timing: Timing,
    ) -> Result<Connection, DialError> {
        let mut config = transport(timing, MEMBER_STREAMS);
        config.receive_window(VarInt::from_u32(MEMBER_WINDOW));
        // A peer that is just starting misses the first packet; ask again sooner than after a second.
        config.initial_rtt(Duration::from_millis(100));
        // A restarted peer is found by the next attempt, not by the last retransmission of this one.
        let patience = self.0.options.patience.min(Duration::from_secs(2));
        self.dial_as(addr, expected, config, patience).await
    }

    async fn dial_as(
        &self,
        addr: SocketAddr,
        expected: PublicKey,
        mut config: TransportConfig,
        patience: Duration,
    ) -> Result<Connection, DialError> {
        let found = Arc::new(OnceLock::new());
        let tls = self
            .0
            .identity
            .dialling(expected, found.clone())
            .map_err(|error| DialError::Tls(error.to_string()))?;
        let mut client = quinn::ClientConfig::new(Arc::new(tls));
        config.max_concurrent_bidi_streams(VarInt::from_u32(0));
        client.transport_config(Arc::new(config));
        let connecting = self
            .0
            .quinn
            .connect_with(client, addr, "tanist")
            .map_err(|error| DialError::Address { addr, reason: error.to_string() })?;
        match timeout(patience, connecting).await {
            Ok(Ok(quinn)) => Ok(Connection::dialled(quinn, expected, self.0.options.patience)),
            Ok(Err(error)) => Err(match (found.get(), error) {
                (Some(&found), _) => DialError::WrongKey { addr, expected, found },
                (None, quinn::ConnectionError::TimedOut) => DialError::TimedOut { addr },
                (None, error) => DialError::Handshake { addr, reason: error.to_string() },
            }),
            Err(_) => Err(DialError::TimedOut { addr }),
        }
    }

    /// The next admitted connection, or `None` once the endpoint is closed or if it only dials.
    pub async fn accept(&self) -> Option<Connection> {
        self.0.accepting.as_ref()?.ready.lock().await.recv().await
    }

    /// Asks the admission again about every open connection that was accepted, and closes those that no longer are.
    /// To be called when the configuration has changed.
    pub fn recheck(&self) {
        if let Some(accepting) = &self.0.accepting {
            accepting.registry.recheck();
        }
    }

    /// Closes all connections, takes no more, and waits until the other sides know.
    pub async fn close(&self, code: Code, reason: &str) {
        self.0.quinn.close(code.varint(), reason.as_bytes());
        self.0.quinn.wait_idle().await;
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The task holds the socket, so it would go on accepting for nobody.
        if let Some(accepting) = &self.accepting {
            accepting.task.abort();
        }
    }
}

fn new_quinn(
    config: Option<quinn::ServerConfig>,
    socket: UdpSocket,
) -> Result<quinn::Endpoint, EndpointError> {
    let endpoint = quinn::EndpointConfig::default();
    Ok(quinn::Endpoint::new(endpoint, config, socket, Arc::new(TokioRuntime))?)
}

fn transport(timing: Timing, uni_streams: u32) -> TransportConfig {
    let mut config = TransportConfig::default();
    config
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .max_concurrent_bidi_streams(VarInt::from_u32(CLIENT_STREAMS))
        .max_concurrent_uni_streams(VarInt::from_u32(uni_streams))
        .datagram_receive_buffer_size(None)
        .keep_alive_interval(Some(timing.keep_alive))
        // An idle time that does not fit is far longer than anyone wants; QUIC then knows none.
        .max_idle_timeout(timing.idle.try_into().ok());
    config
}

async fn accept_all(
    quinn: quinn::Endpoint,
    registry: Arc<Registry>,
    ready: mpsc::Sender<Connection>,
    options: Options,
) {
    let slots = Arc::new(Semaphore::new(options.handshakes_max.min(Semaphore::MAX_PERMITS)));
    while let Some(incoming) = quinn.accept().await {
        let Ok(slot) = slots.clone().try_acquire_owned() else {
            incoming.refuse();
            continue;
        };
        // Under pressure, packets with a forged source must not use up the slots.
        if slots.available_permits() < options.handshakes_max / 2 && incoming.may_retry() {
            let _ = incoming.retry();
            continue;
        }
        tokio::spawn(handshake(incoming, registry.clone(), ready.clone(), options.patience, slot));
    }
}

async fn handshake(
    incoming: Incoming,
    registry: Arc<Registry>,
    ready: mpsc::Sender<Connection>,
    patience: Duration,
    slot: OwnedSemaphorePermit,
) {
    let remote = incoming.remote_address();
    let quinn = match timeout(patience, async { incoming.accept()?.await }).await {
        Ok(Ok(quinn)) => quinn,
        Ok(Err(error)) => return tracing::debug!(%remote, %error, "a handshake failed"),
        Err(_) => return tracing::debug!(%remote, "a handshake took too long"),
    };
    let Some(key) = tls::peer_key(&quinn) else {
        return quinn.close(Code::DENIED.varint(), b"a raw ed25519 public key is needed");
    };
    let seat = match registry.seat(&key) {
        Ok(seat) => seat,
        Err((code, reason)) => {
            tracing::debug!(%remote, %key, %code, "a connection was not admitted");
            return quinn.close(code.varint(), reason.as_bytes());
        }
    };
    if let Admitted::Member(_) = seat.admitted {
        quinn.set_max_concurrent_bi_streams(VarInt::from_u32(MEMBER_STREAMS));
        quinn.set_max_concurrent_uni_streams(VarInt::from_u32(MEMBER_STREAMS));
        quinn.set_receive_window(VarInt::from_u32(MEMBER_WINDOW));
    }
    let connection = Connection::accepted(quinn, key, seat, registry.clone(), patience);
    registry.register(&connection);
    // The slot is held until somebody takes the connection: a node that does not keep up takes no more.
    let _ = ready.send(connection).await;
    drop(slot);
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
