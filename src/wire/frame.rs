//! The frame: how one message, with the values it carries, lies on a stream.
//!
//! ```text
//! 01                version of the frame, 1 byte
//! 00 01             kind, 2 bytes: see the registry
//! 00 00 00 2a       bytes of header, 4 bytes
//! 00 00 00 00       bytes of body, 4 bytes
//! header ..         the message, in the one encoding
//! body ..           the values that the header announces, end to end
//! ```
//!
//! Values stay outside the header so that they are neither copied byte by byte nor bound by its form.

use bytes::{BufMut as _, Bytes, BytesMut};

use crate::core::limits;

/// The first byte of every frame.
pub const FRAME_VERSION: u8 = 1;

/// One message as it travels. Kind and header mean nothing yet; the lengths are within bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The number of the message's kind in the registry.
    pub kind: u16,
    /// The encoded message.
    pub header: Bytes,
    /// The values it carries, one after the other.
    pub body: Bytes,
}

/// The fixed-length start of a frame, checked: what follows it is `header_len + body_len` bytes, at
/// most [`limits::FRAME_LEN`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prelude {
    /// The number of the message's kind in the registry.
    pub kind: u16,
    /// Bytes of header.
    pub header_len: usize,
    /// Bytes of body.
    pub body_len: usize,
}

/// Bytes on a stream are not a frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The sender speaks another version of the protocol.
    #[error("frame version {0} is not supported: this side speaks version {FRAME_VERSION}")]
    Version(u8),
    /// The frame is larger than any frame may be.
    #[error("a frame of {0} bytes is over the limit of {limit}", limit = limits::FRAME_LEN)]
    TooLarge(usize),
    /// The frame ends before its announced length.
    #[error("the frame ends after {got} of {expected} bytes")]
    Short {
        /// Bytes that were announced.
        expected: usize,
        /// Bytes that came.
        got: usize,
    },
}

impl Prelude {
    /// Bytes of an encoded prelude.
    pub const LEN: usize = 11;

    /// Reads a prelude; nothing needs to be allocated before this has passed.
    pub fn parse(bytes: &[u8; Self::LEN]) -> Result<Self, FrameError> {
        let [version, k0, k1, h0, h1, h2, h3, b0, b1, b2, b3] = *bytes;
        if version != FRAME_VERSION {
            return Err(FrameError::Version(version));
        }
        let header_len = u32::from_be_bytes([h0, h1, h2, h3]) as usize;
        let body_len = u32::from_be_bytes([b0, b1, b2, b3]) as usize;
        let total = header_len.saturating_add(body_len);
        if total > limits::FRAME_LEN {
            return Err(FrameError::TooLarge(total));
        }
        Ok(Prelude { kind: u16::from_be_bytes([k0, k1]), header_len, body_len })
    }
}

impl Frame {
    /// The bytes of the frame, prelude included.
    pub fn encoded_len(&self) -> usize {
        Prelude::LEN + self.header.len() + self.body.len()
    }

    /// Appends the frame to `out`.
    pub fn encode_into(&self, out: &mut BytesMut) {
        out.reserve(self.encoded_len());
        out.put_u8(FRAME_VERSION);
        out.put_u16(self.kind);
        // Both lengths are below `FRAME_LEN`, which a compile-time assertion below keeps within u32.
        out.put_u32(self.header.len() as u32);
        out.put_u32(self.body.len() as u32);
        out.put_slice(&self.header);
        out.put_slice(&self.body);
    }

    /// Takes the first frame off `bytes`, or `None` if it is not complete yet.
    pub fn take(bytes: &mut BytesMut) -> Result<Option<Self>, FrameError> {
        let Some(prelude) = bytes.first_chunk::<{ Prelude::LEN }>() else { return Ok(None) };
        let prelude = Prelude::parse(prelude)?;
        let total = Prelude::LEN + prelude.header_len + prelude.body_len;
        if bytes.len() < total {
            return Ok(None);
        }
        let mut frame = bytes.split_to(total).freeze().split_off(Prelude::LEN);
        let header = frame.split_to(prelude.header_len);
        Ok(Some(Frame { kind: prelude.kind, header, body: frame }))
    }
}

const _: () = assert!(limits::FRAME_LEN < u32::MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_pinned() {
        let frame = Frame { kind: 0x0102, header: Bytes::from_static(b"hh"), body: Bytes::from_static(b"b") };
        let mut out = BytesMut::new();
        frame.encode_into(&mut out);
        assert_eq!(&out[..], b"\x01\x01\x02\x00\x00\x00\x02\x00\x00\x00\x01hhb");
        out.put_u8(1);
        assert_eq!(Frame::take(&mut out), Ok(Some(frame)));
        assert_eq!(Frame::take(&mut out), Ok(None), "the start of the next frame stays");
        assert_eq!(out.len(), 1);
    }

    #[test]
    fn foreign_versions_and_lengths_are_refused() {
        let mut bytes = [0u8; Prelude::LEN];
        bytes[0] = 2;
        assert_eq!(Prelude::parse(&bytes), Err(FrameError::Version(2)));
        bytes[0] = 1;
        bytes[3..].fill(0xff);
        assert!(matches!(Prelude::parse(&bytes), Err(FrameError::TooLarge(_))));
    }
}
