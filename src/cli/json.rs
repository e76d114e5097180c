//! Forms of JSON that several commands share; `help.txt` documents them for users.

use std::time::{Duration, UNIX_EPOCH};

use data_encoding::BASE64;
use serde_json::{Value, json};

use crate::client::{Head, Sibling, Version};
use crate::core::object::Key;
use crate::core::write::WriteId;

/// Bytes: as text if they are one.
pub(super) fn bytes(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!({ "text": text }),
        Err(_) => json!({ "base64": BASE64.encode(bytes) }),
    }
}

/// A key.
pub(super) fn key(key: &Key) -> Value {
    bytes(key.as_bytes())
}

/// Ids of writes.
pub(super) fn ids(ids: &[WriteId]) -> Value {
    ids.iter().map(ToString::to_string).collect()
}

/// A version: who wrote it when, after what.
pub(super) fn head(head: &Head) -> Value {
    json!({
        "version": head.version().to_string(),
        "author": head.author().to_string(),
        "written_at": time(head.wall_ms()),
        "deleted": head.is_delete(),
        "length": head.value_len(),
        "parents": ids(head.parents()),
    })
}

/// A version with its value.
pub(super) fn sibling(sibling: &Sibling) -> Value {
    let mut object = head(sibling.head());
    if let Value::Object(fields) = &mut object {
        fields.insert("value".to_owned(), sibling.value().map_or(Value::Null, |value| bytes(value)));
    }
    object
}

/// A version of a listing.
pub(super) fn listed((version, length): &(Version, Option<u64>)) -> Value {
    json!({ "version": version.to_string(), "length": length })
}

/// A time for people; `None` if the write has an operation id instead of one.
pub(super) fn time(wall_ms: u64) -> Option<String> {
    // Later times than the form can show would make it panic; whoever signs one means no time.
    const LAST_MS: u64 = 253_402_300_799_999;
    let shown = (1..=LAST_MS).contains(&wall_ms);
    shown.then(|| humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(wall_ms)).to_string())
}

/// A version in words: `7-3fa9.. (12 bytes) by .. at ..`.
pub(super) fn in_words(head: &Head) -> String {
    let what = match head.value_len() {
        Some(len) => format!("{len} bytes"),
        None => "a deletion".to_owned(),
    };
    let when = time(head.wall_ms()).map_or("under an operation id".to_owned(), |time| format!("at {time}"));
    format!("{} ({what}) by {} {when}", head.version(), head.author())
}
