//! Values beside a message: the header says how long they are, the body holds them end to end.

use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::core::limits;

/// The values that a message carries, in the order in which its header speaks of them.
///
/// In the header it is the list of their lengths. A decoded message has the lengths first and the
/// bytes once [filled](Self::fill) from the frame's body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Values {
    lens: Vec<u64>,
    bytes: Vec<Bytes>,
}

/// The body of a frame is not the values that its header announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the body of the frame is not the values that its header announces")]
pub struct BodyMismatch;

impl Values {
    /// No values.
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds a value.
    pub fn push(&mut self, value: Bytes) {
        self.lens.push(value.len() as u64);
        self.bytes.push(value);
    }

    /// The values.
    pub fn into_vec(self) -> Vec<Bytes> {
        self.bytes
    }

    /// The values.
    pub fn as_slice(&self) -> &[Bytes] {
        &self.bytes
    }

    /// Bytes of all values together.
    pub fn total(&self) -> usize {
        self.bytes.iter().map(Bytes::len).sum()
    }

    /// The values end to end, as the body of a frame. One value is not copied.
    pub fn body(&self) -> Bytes {
        match &self.bytes[..] {
            [] => Bytes::new(),
            [one] => one.clone(),
            many => {
                let mut body = BytesMut::with_capacity(self.total());
                for value in many {
                    body.extend_from_slice(value);
                }
                body.freeze()
            }
        }
    }

    /// Takes the announced values from `body`, which must hold exactly them.
    pub fn fill(&mut self, mut body: Bytes) -> Result<(), BodyMismatch> {
        let mut bytes = Vec::with_capacity(self.lens.len());
        for len in &self.lens {
            let len = usize::try_from(*len).map_err(|_| BodyMismatch)?;
            if len > body.len() {
                return Err(BodyMismatch);
            }
            bytes.push(body.split_to(len));
        }
        if !body.is_empty() {
            return Err(BodyMismatch);
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl FromIterator<Bytes> for Values {
    fn from_iter<I: IntoIterator<Item = Bytes>>(values: I) -> Self {
        let mut all = Values::none();
        for value in values {
            all.push(value);
        }
        all
    }
}

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.lens.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let lens = Vec::<u64>::deserialize(deserializer)?;
        if lens.len() > limits::VERSIONS {
            return Err(serde::de::Error::custom("more values than a message carries"));
        }
        Ok(Values { lens, bytes: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::codec;

    #[test]
    fn a_body_is_exactly_what_was_announced() {
        let values: Values =
            [Bytes::from_static(b"ab"), Bytes::new(), Bytes::from_static(b"c")].into_iter().collect();
        let announced = codec::encode(&values);
        let mut decoded: Values = codec::decode(&announced).unwrap();
        assert_eq!(decoded.clone().fill(Bytes::from_static(b"ab")), Err(BodyMismatch));
        assert_eq!(decoded.clone().fill(Bytes::from_static(b"abcd")), Err(BodyMismatch));
        decoded.fill(values.body()).unwrap();
        assert_eq!(decoded, values);
        let mut huge: Values = codec::decode(&codec::encode(&vec![u64::MAX, 1])).unwrap();
        assert_eq!(huge.fill(Bytes::from_static(b"abc")), Err(BodyMismatch));
    }
}
