//! Vector files: how values become JSON, how a file is compared, and the names of reasons.

use std::fs;
use std::io;
use std::path::PathBuf;

use data_encoding::HEXLOWER;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tanist::core::codec::{self, DecodeError};

/// One file of vectors.
pub(crate) struct File {
    name: &'static str,
    page: &'static str,
    valid: Vec<Value>,
    invalid: Vec<Value>,
}

impl File {
    pub(crate) fn new(name: &'static str, page: &'static str) -> Self {
        File { name, page, valid: Vec::new(), invalid: Vec::new() }
    }

    pub(crate) fn valid(&mut self, case: Value) {
        self.valid.push(case);
    }

    pub(crate) fn invalid(&mut self, case: Value) {
        assert!(case["reason"].is_string(), "an invalid case says why: {case}");
        self.invalid.push(case);
    }

    /// An encoding that must be refused when it is decoded as a `T`.
    pub(crate) fn refuse<T: DeserializeOwned>(
        &mut self,
        name: &str,
        kind: &str,
        bytes: &Bytes,
        reason: &str,
    ) {
        let error = codec::decode::<T>(&bytes.flat()).map(|_| ()).expect_err(name);
        assert_eq!(category(&error), reason, "{name}: {error}");
        self.invalid(json!({ "name": name, "kind": kind, "hex": bytes.json(), "reason": reason }));
    }

    /// Compares with the committed file, or writes it.
    pub(crate) fn check(self) {
        assert!(self.invalid.len() >= self.valid.len(), "{}: more valid cases than invalid ones", self.name);
        for cases in [&self.valid, &self.invalid] {
            let mut names: Vec<&str> = cases.iter().map(|case| case["name"].as_str().unwrap()).collect();
            names.sort_unstable();
            let all = names.len();
            names.dedup();
            assert_eq!(names.len(), all, "{}: every case has its own name", self.name);
        }
        let built = json!({ "page": self.page, "valid": self.valid, "invalid": self.invalid });
        let text = format!("{built:#}\n");
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("proto-docs/vectors").join(self.name);
        if std::env::var_os("TANIST_BLESS").is_some_and(|value| value == "1") {
            fs::write(&path, text).unwrap();
            return;
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        let first = committed.lines().zip(text.lines()).position(|(old, new)| old != new);
        assert!(
            committed == text,
            "{} is not what this crate builds (line {:?}); if the protocol was meant to change, TANIST_BLESS=1",
            self.name,
            first.map(|line| line + 1)
        );
    }
}

/// Bytes of a vector: as they are, or by a rule where they would fill pages.
pub(crate) enum Bytes {
    Plain(Vec<u8>),
    Pieces(Vec<Piece>),
}

/// A piece of long bytes.
pub(crate) enum Piece {
    Plain(Vec<u8>),
    /// For every number of the range: the parts one after the other.
    For(std::ops::RangeInclusive<u64>, Vec<Part>),
}

/// What is repeated: bytes, or the number itself in so many bytes.
pub(crate) enum Part {
    Plain(Vec<u8>),
    Number(usize),
}

impl Bytes {
    pub(crate) fn flat(&self) -> Vec<u8> {
        match self {
            Bytes::Plain(bytes) => bytes.clone(),
            Bytes::Pieces(pieces) => pieces.iter().flat_map(Piece::flat).collect(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Bytes::Plain(bytes) => json!(hex(bytes)),
            Bytes::Pieces(pieces) => pieces.iter().map(Piece::json).collect(),
        }
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::Plain(bytes)
    }
}

impl Piece {
    fn flat(&self) -> Vec<u8> {
        match self {
            Piece::Plain(bytes) => bytes.clone(),
            Piece::For(range, parts) => range
                .clone()
                .flat_map(|n| {
                    parts.iter().flat_map(move |part| match part {
                        Part::Plain(bytes) => bytes.clone(),
                        Part::Number(width) => u128::from(n).to_be_bytes().split_at(16 - width).1.to_vec(),
                    })
                })
                .collect(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Piece::Plain(bytes) => json!(hex(bytes)),
            Piece::For(range, parts) => {
                let each: Vec<Value> = parts
                    .iter()
                    .map(|part| match part {
                        Part::Plain(bytes) => json!(hex(bytes)),
                        Part::Number(width) => json!(width),
                    })
                    .collect();
                json!({ "from": range.start(), "to": range.end(), "each": each })
            }
        }
    }
}

pub(crate) fn hex(bytes: impl AsRef<[u8]>) -> String {
    HEXLOWER.encode(bytes.as_ref())
}

/// A value as JSON, bytes as hexadecimal text.
pub(crate) fn shown<T: Serialize + ?Sized>(value: &T) -> Value {
    let mut out = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, Marked)).unwrap();
    tidy(serde_json::from_slice(&out).unwrap())
}

/// Writes single bytes as texts, so that lists of bytes are told from lists of numbers.
struct Marked;

impl serde_json::ser::Formatter for Marked {
    fn write_u8<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: u8) -> io::Result<()> {
        write!(writer, "\"\\u0000{value:02x}\"")
    }

    fn write_u64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: u64) -> io::Result<()> {
        if value < 1 << 53 { write!(writer, "{value}") } else { write!(writer, "\"{value}\"") }
    }
}

fn tidy(value: Value) -> Value {
    let byte = |value: &Value| value.as_str().and_then(|text| text.strip_prefix('\0')).map(str::to_owned);
    match value {
        Value::Array(items) if !items.is_empty() && items.iter().all(|item| byte(item).is_some()) => {
            json!(items.iter().filter_map(byte).collect::<String>())
        }
        Value::Array(items) => items.into_iter().map(tidy).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, field)| (name, tidy(field))).collect(),
        other => match byte(&other) {
            Some(digits) => json!(u8::from_str_radix(&digits, 16).unwrap()),
            None => other,
        },
    }
}

/// The documents' name for the reason of a refused encoding.
pub(crate) fn category(error: &DecodeError) -> &'static str {
    let DecodeError::Malformed { reason, .. } = error else { return "left-over" };
    let known = [
        ("UnexpectedEnd", "end"),
        ("LimitExceeded", "end"),
        ("OutsideUsizeRange", "end"),
        ("Utf8", "text"),
        ("InvalidBooleanValue", "tag"),
        ("UnexpectedVariant", "tag"),
        ("invalid value: integer", "tag"),
        ("a key has 1 to", "key"),
        ("a namespace is named by", "name"),
        ("not an ed25519 public key", "public-key"),
        ("format", "format"),
        ("a lease is", "lease"),
        ("a register's generation", "state"),
        ("the parents of a write", "parents"),
        ("a value of", "value-length"),
        ("a write without parents", "generation"),
        ("the actors and ranges", "past-form"),
        ("a past has at most", "past-size"),
        ("a stamp's event", "event"),
        ("the stamps of a version", "stamps"),
        ("more values than", "values"),
    ];
    known.iter().find(|(text, _)| reason.contains(text)).map_or_else(|| panic!("{reason}"), |(_, name)| name)
}
