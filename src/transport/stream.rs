//! One frame on a stream, one frame off a stream.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use quinn::{ReadExactError, RecvStream, SendStream};
use tokio::time::{Instant, timeout, timeout_at};

use super::{Code, ConnectionError};
use crate::core::limits;
use crate::wire::frame::{Frame, FrameError, Prelude};

/// What a frame that has begun must bring per second, so that a peer that trickles cannot hold memory.
const BYTES_PER_SECOND: usize = 64 << 10;

/// Memory set aside before anything but a prelude has come.
const FIRST_ALLOCATION: usize = 16 << 10;

/// The sending half of a stream. Dropped before [`Outgoing::done`], it is reset, because QUIC's own drop
/// would finish the stream and pass a torn frame off as a whole one.
pub(super) struct Outgoing {
    stream: SendStream,
    code: Code,
    done: bool,
}

impl Outgoing {
    /// `code` is what the other side is told if this is dropped unfinished.
    pub(super) fn new(stream: SendStream, code: Code) -> Self {
        Outgoing { stream, code, done: false }
    }

    pub(super) async fn write(&mut self, frame: &Frame) -> Result<(), ConnectionError> {
        let bytes = encoded(frame)?;
        Ok(self.stream.write_chunk(bytes).await?)
    }

    pub(super) async fn write_bytes(&mut self, bytes: Bytes) -> Result<(), ConnectionError> {
        Ok(self.stream.write_chunk(bytes).await?)
    }

    pub(super) fn finish(&mut self) {
        // It fails only if the other side has stopped the stream, which the next call reports.
        let _ = self.stream.finish();
    }

    /// Waits until the other side has acknowledged every byte up to the finish.
    pub(super) async fn acknowledged(&mut self) -> Result<(), ConnectionError> {
        let stopped = self.stream.stopped().await?;
        self.done = true;
        match stopped {
            None => Ok(()),
            Some(code) => Err(ConnectionError::Dropped(Code::from_varint(code))),
        }
    }

    /// Waits until the other side no longer wants what is written here.
    pub(super) async fn abandoned(&self) {
        let _ = self.stream.stopped().await;
    }

    pub(super) fn done(&mut self) {
        self.done = true;
    }

    pub(super) fn reset(mut self, code: Code) {
        self.code = code;
    }

    pub(super) fn prefer(&self) {
        let _ = self.stream.set_priority(1);
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if !self.done {
            let _ = self.stream.reset(self.code.varint());
        }
    }
}

/// The bytes of `frame`, unless it is larger than any receiver takes.
pub(super) fn encoded(frame: &Frame) -> Result<Bytes, FrameError> {
    let len = frame.header.len() + frame.body.len();
    if len > limits::FRAME_LEN {
        return Err(FrameError::TooLarge(len));
    }
    let mut out = BytesMut::new();
    frame.encode_into(&mut out);
    Ok(out.freeze())
}

/// The next frame of a stream, or `None` if the stream ends before one begins.
pub(super) async fn read_frame(stream: &mut RecvStream) -> Result<Option<Frame>, ConnectionError> {
    match read_prelude(stream).await? {
        Some(prelude) => read_rest(stream, prelude).await.map(Some),
        None => Ok(None),
    }
}

/// Like [`read_frame`], but the prelude has to come within `patience`, and the rest at no less than a
/// slow link's pace. The outer error is that it did not.
pub(super) async fn read_frame_in_time(
    stream: &mut RecvStream,
    patience: Duration,
) -> Result<Option<Frame>, ReadError> {
    let Some(prelude) = timeout(patience, read_prelude(stream)).await.map_err(|_| ReadError::TooSlow)??
    else {
        return Ok(None);
    };
    let transfer = Duration::from_secs(((prelude.header_len + prelude.body_len) / BYTES_PER_SECOND) as u64);
    let deadline = Instant::now() + patience + transfer;
    let frame = timeout_at(deadline, read_rest(stream, prelude)).await.map_err(|_| ReadError::TooSlow)??;
    Ok(Some(frame))
}

/// Whether the stream ends here.
pub(super) async fn at_end(stream: &mut RecvStream) -> Result<bool, ConnectionError> {
    Ok(stream.read_chunk(1, true).await?.is_none())
}

/// A frame did not arrive.
pub(super) enum ReadError {
    /// It did not arrive in time.
    TooSlow,
    /// The stream or its content is at fault.
    Broken(ConnectionError),
}

impl From<ConnectionError> for ReadError {
    fn from(error: ConnectionError) -> Self {
        ReadError::Broken(error)
    }
}

async fn read_prelude(stream: &mut RecvStream) -> Result<Option<Prelude>, ConnectionError> {
    let mut bytes = [0; Prelude::LEN];
    match stream.read_exact(&mut bytes).await {
        Ok(()) => Ok(Some(Prelude::parse(&bytes)?)),
        Err(ReadExactError::FinishedEarly(0)) => Ok(None),
        Err(ReadExactError::FinishedEarly(got)) => {
            Err(FrameError::Short { expected: Prelude::LEN, got }.into())
        }
        Err(ReadExactError::ReadError(error)) => Err(error.into()),
    }
}

async fn read_rest(stream: &mut RecvStream, prelude: Prelude) -> Result<Frame, ConnectionError> {
    let expected = prelude.header_len + prelude.body_len;
    // Grown as bytes come: what was only announced costs the announcer nothing.
    let mut bytes = BytesMut::with_capacity(expected.min(FIRST_ALLOCATION));
    while bytes.len() < expected {
        match stream.read_chunk(expected - bytes.len(), true).await? {
            Some(chunk) => bytes.extend_from_slice(&chunk.bytes),
            None => return Err(FrameError::Short { expected, got: bytes.len() }.into()),
        }
    }
    let mut body = bytes.freeze();
    let header = body.split_to(prelude.header_len);
    Ok(Frame { kind: prelude.kind, header, body })
}
