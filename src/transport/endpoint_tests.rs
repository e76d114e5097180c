//! Endpoints and connections on loopback.

#![allow(clippy::unwrap_used, reason = "a test that meets an error is to fail")]

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::super::fixtures::{Table, echo, frame, secret, socket, soon};
use super::super::{Admitted, Code, Connection, ConnectionError, DialError, Endpoint, Options};
use crate::core::limits;
use crate::wire::frame::FrameError;

/// An echo server that admits the key of seed 2 as a client, and a connection from it.
async fn admitted(options: Options) -> (Arc<Table>, Endpoint, Connection) {
    let table = Arc::new(Table::default());
    table.set(secret(2).public(), Some(Admitted::Client));
    let (server, addr) = echo(table.clone(), options);
    let client = Endpoint::client(&secret(2)).unwrap();
    let connection = soon(client.dial(addr, secret(1).public())).await.unwrap();
    (table, server, connection)
}

fn impatient() -> Options {
    Options { patience: Duration::from_millis(300), ..Options::default() }
}

#[tokio::test]
async fn both_ends_know_each_other_by_key() {
    let table = Arc::new(Table::default());
    table.set(secret(2).public(), Some(Admitted::Client));
    let server = Endpoint::server(&secret(1), socket(), table).unwrap();
    let client = Endpoint::client(&secret(2)).unwrap();
    let dialled = soon(client.dial(server.local_addr().unwrap(), secret(1).public())).await.unwrap();
    let accepted = soon(server.accept()).await.unwrap();
    assert_eq!((dialled.peer_key(), dialled.admitted()), (secret(1).public(), None));
    assert_eq!((accepted.peer_key(), accepted.admitted()), (secret(2).public(), Some(Admitted::Client)));

    let question = frame(7, 300);
    let (answer, served) = soon(async {
        tokio::join!(dialled.request(question.clone()), async {
            let (asked, responder) = accepted.accept_request().await?;
            responder.respond(asked).await
        })
    })
    .await;
    assert_eq!((answer, served), (Ok(question), Ok(())));
    assert!(soon(client.accept()).await.is_none(), "an endpoint that only dials accepts nobody");
}

#[tokio::test]
async fn a_wrong_server_key_fails_the_dial_and_is_named() {
    let (_server, addr) = echo(Arc::default(), Options::default());
    let client = Endpoint::client(&secret(2)).unwrap();
    let expected = secret(9).public();
    let error = soon(client.dial(addr, expected)).await.unwrap_err();
    assert_eq!(error, DialError::WrongKey { addr, expected, found: secret(1).public() });
}

#[tokio::test]
async fn nobody_at_home_is_a_time_out() {
    let silent = socket();
    let addr = silent.local_addr().unwrap();
    let client = Endpoint::client_with(&secret(2), impatient()).unwrap();
    assert_eq!(soon(client.dial(addr, secret(1).public())).await.unwrap_err(), DialError::TimedOut { addr });
}

#[tokio::test]
async fn an_unadmitted_client_learns_why_from_its_first_request() {
    let (_server, addr) = echo(Arc::default(), Options::default());
    let client = Endpoint::client(&secret(3)).unwrap();
    let connection = soon(client.dial(addr, secret(1).public())).await.unwrap();
    let error = soon(connection.request(frame(1, 10))).await.unwrap_err();
    let ConnectionError::Denied { reason } = error else { panic!("{error}") };
    assert!(reason.contains(&secret(3).public().to_string()), "{reason}");
}

#[tokio::test]
async fn a_key_that_loses_its_last_right_is_closed() {
    let (table, server, connection) = admitted(Options::default()).await;
    soon(connection.request(frame(1, 1))).await.unwrap();
    server.recheck();
    soon(connection.request(frame(1, 1))).await.expect("nothing has changed for this key");
    table.set(secret(2).public(), None);
    server.recheck();
    assert!(matches!(soon(connection.closed()).await, ConnectionError::Denied { .. }));
}

#[tokio::test]
async fn the_public_is_bounded_apart_from_those_who_are_named() {
    let table = Arc::new(Table::default());
    table.admit_anyone();
    table.set(secret(2).public(), Some(Admitted::Client));
    let (_server, addr) = echo(table, Options { anyone_max: 1, ..Options::default() });
    let dial =
        async |seed| Endpoint::client(&secret(seed)).unwrap().dial(addr, secret(1).public()).await.unwrap();
    let first = soon(dial(3)).await;
    soon(first.request(frame(1, 1))).await.unwrap();
    let second = soon(dial(4)).await;
    let error = soon(second.request(frame(1, 1))).await.unwrap_err();
    assert!(matches!(error, ConnectionError::Busy { .. }), "{error}");
    let named = soon(dial(2)).await;
    soon(named.request(frame(1, 1))).await.expect("a named key has room of its own");

    first.close(Code::DONE, "");
    soon(async { while dial(4).await.request(frame(1, 1)).await.is_err() {} }).await;
}

#[tokio::test]
async fn garbage_and_oversize_end_a_stream_and_nothing_else() {
    let (_table, _server, connection) = admitted(Options::default()).await;
    let mut oversize = vec![1, 0, 1];
    oversize.extend([0xff; 8]);
    let torn = vec![1, 0, 1, 0, 0, 0, 9, 0, 0, 0, 0, 1];
    for bytes in [oversize, vec![0x47; 4000], torn, Vec::new()] {
        let (mut send, mut recv) = soon(connection.0.quinn.open_bi()).await.unwrap();
        // It may already be stopped half-way, which is the point.
        let _ = soon(send.write_all(&bytes)).await;
        let _ = send.finish();
        let error = ConnectionError::from(soon(recv.read_chunk(1, true)).await.unwrap_err());
        assert_eq!(error, ConnectionError::Dropped(Code::BAD_FRAME));
    }
    let len = limits::FRAME_LEN + 1;
    let error = soon(connection.request(frame(1, len - "header".len()))).await.unwrap_err();
    assert_eq!(error, ConnectionError::Frame(FrameError::TooLarge(len)), "refused before it is sent");
    soon(connection.request(frame(1, limits::FRAME_LEN - "header".len()))).await.unwrap();
}

#[tokio::test]
async fn a_slow_frame_is_given_up_and_so_is_a_silent_connection() {
    let (_table, _server, silent) = admitted(impatient()).await;
    let error = soon(silent.closed()).await;
    assert!(matches!(error, ConnectionError::Closed { code: Code::TOO_SLOW, .. }), "{error}");

    let (_table, _server, slow) = admitted(impatient()).await;
    soon(slow.request(frame(1, 1))).await.unwrap();
    let (mut send, mut recv) = soon(slow.0.quinn.open_bi()).await.unwrap();
    soon(send.write_all(&[1, 0])).await.unwrap();
    let error = ConnectionError::from(soon(recv.read_chunk(1, true)).await.unwrap_err());
    assert_eq!(error, ConnectionError::Dropped(Code::TOO_SLOW));
    soon(slow.request(frame(1, 1))).await.expect("the connection is as good as before");
}

#[tokio::test]
async fn sixty_four_requests_at_once_of_which_some_are_large() {
    let (_table, _server, connection) = admitted(Options::default()).await;
    let mut asking = JoinSet::new();
    for n in 0..64 {
        let connection = connection.clone();
        asking.spawn(async move {
            let question = frame(n + 1, if n % 16 == 0 { limits::VALUE_LEN } else { 300 });
            assert_eq!(connection.request(question.clone()).await, Ok(question));
        });
    }
    while let Some(done) = soon(asking.join_next()).await {
        done.unwrap();
    }
}

#[tokio::test]
async fn the_last_answer_is_not_lost_by_a_close_and_a_dropped_request_is_noticed() {
    let table = Arc::new(Table::default());
    table.set(secret(2).public(), Some(Admitted::Client));
    let server = Endpoint::server(&secret(1), socket(), table).unwrap();
    let client = Endpoint::client(&secret(2)).unwrap();
    let dialled = soon(client.dial(server.local_addr().unwrap(), secret(1).public())).await.unwrap();
    let accepted = soon(server.accept()).await.unwrap();

    let asker = dialled.clone();
    let given_up = tokio::spawn(async move { asker.request(frame(1, 1)).await });
    let (_, responder) = soon(accepted.accept_request()).await.unwrap();
    given_up.abort();
    soon(responder.abandoned()).await;
    drop(responder);

    let unanswered = dialled.request(frame(2, 1));
    let drops = async { drop(accepted.accept_request().await.unwrap()) };
    let (error, ()) = soon(async { tokio::join!(unanswered, drops) }).await;
    assert_eq!(error, Err(ConnectionError::Dropped(Code::UNANSWERED)));

    let last = dialled.request(frame(3, 1));
    let closes = async {
        let (_, responder) = accepted.accept_request().await.unwrap();
        responder.respond(frame(4, limits::VALUE_LEN)).await.unwrap();
        accepted.close(Code::SHUTTING_DOWN, "bye");
    };
    let (answer, ()) = soon(async { tokio::join!(last, closes) }).await;
    assert_eq!(answer, Ok(frame(4, limits::VALUE_LEN)));
}

#[tokio::test]
async fn a_watch_gets_many_answers_in_order() {
    let table = Arc::new(Table::default());
    table.set(secret(2).public(), Some(Admitted::Client));
    let server = Endpoint::server(&secret(1), socket(), table).unwrap();
    let client = Endpoint::client(&secret(2)).unwrap();
    let dialled = soon(client.dial(server.local_addr().unwrap(), secret(1).public())).await.unwrap();
    let accepted = soon(server.accept()).await.unwrap();
    let mut replies = soon(dialled.ask(frame(1, 1))).await.unwrap();
    let (_, mut responder) = soon(accepted.accept_request()).await.unwrap();
    for kind in 1..=3 {
        soon(responder.send(&frame(kind, 10))).await.unwrap();
        assert_eq!(soon(replies.next()).await, Ok(Some(frame(kind, 10))));
    }
    let (end, ended) = soon(async { tokio::join!(replies.next(), responder.end()) }).await;
    assert_eq!((end, ended), (Ok(None), Ok(())));
}
