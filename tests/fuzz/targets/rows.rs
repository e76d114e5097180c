//! Rows of the store: whatever a disk gives back, nothing panics, and what is taken has one form.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tanist::core::chain::Decided;
use tanist::core::identity::Incarnation;
use tanist::core::object::{Key, NamespaceId};
use tanist::core::write::WriteId;
use tanist::engine::rows::{self, AcceptorRow, KeyRow, RegisterRow};
use tanist::engine::store::StoreError;

use super::engine;
use super::source::Source;

/// The value of a row of any table, and a node that starts on a disk with damage.
pub fn damaged(bytes: &[u8]) {
    let mut source = Source::new(bytes);
    if source.coin() {
        return engine::on_damaged_disk(source.rest());
    }
    let bytes = source.rest();
    one_form::<u64>(bytes);
    one_form::<KeyRow>(bytes);
    one_form::<WriteId>(bytes);
    one_form::<Decided>(bytes);
    one_form::<AcceptorRow>(bytes);
    one_form::<(Incarnation, u64)>(bytes);
    one_form::<(NamespaceId, Key)>(bytes);
    if let Some(row) = one_form::<RegisterRow>(bytes) {
        // Whatever decodes can be asked and measured.
        let _ = row.chosen();
        assert!(row.footprint() > row.versions().count());
    }
    let stored = Bytes::copy_from_slice(bytes);
    if let Ok(value) = rows::decode_value(&stored) {
        assert_eq!(rows::encode_value(&value), stored, "a second form of a value");
    }
    let names = (rows::key_of(bytes), rows::equivocator_of(bytes));
    assert!(names.1.is_err() || bytes.len() == 17);
}

/// If `bytes` are the row of a `T`, then they are the row of that `T`.
fn one_form<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> Option<T> {
    one_form_with(bytes, rows::decode::<T>)
}

/// As [`one_form`], of a decoder under test.
fn one_form_with<T: Serialize>(bytes: &[u8], decode: impl Fn(&[u8]) -> Result<T, StoreError>) -> Option<T> {
    let value = decode(bytes).ok()?;
    assert_eq!(rows::encode(&value), bytes, "a second form of the row of a {}", std::any::type_name::<T>());
    Some(value)
}
