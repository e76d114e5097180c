//! Listing the keys that this node holds.

use bytes::Bytes;

use super::machine::{State, Step};
use super::operation::Requester;
use super::rows;
use super::store::StoreError;
use crate::core::limits;
use crate::core::object::ObjectId;
use crate::core::version::Version;
use crate::core::write::{Body, WriteId};
use crate::wire::client::{List, ListedKey, Page};

impl State {
    /// Answers a page of keys. Keys that are deleted, or that the client does not want, take part in
    /// the work of a page but not in its length, so a page can be empty and still have a next one.
    pub(super) fn list(
        &mut self,
        step: &mut Step<'_>,
        requester: Requester,
        list: List,
    ) -> Result<(), StoreError> {
        let limit = usize::try_from(list.limit).unwrap_or(usize::MAX).clamp(1, limits::LIST_PAGE);
        let prefix = rows::keys(list.namespace, &list.prefix);
        let after: Option<Bytes> = list.after.as_ref().map(|key| rows::key(list.namespace, key));
        let page = step.rows.key_rows(&prefix, after.as_ref(), limit)?;
        let rows = page.into_iter().map(|(name, row)| {
            let live = row.map(|row| row.siblings.live().map(in_list).collect()).unwrap_or_default();
            (name, live)
        });
        self.answer_list(step, requester, list.conflicts, limit, rows.collect())
    }

    /// As [`list`](Self::list), of registers: what is known here to be chosen.
    pub(super) fn list_registers(
        &mut self,
        step: &mut Step<'_>,
        requester: Requester,
        list: List,
    ) -> Result<(), StoreError> {
        let limit = usize::try_from(list.limit).unwrap_or(usize::MAX).clamp(1, limits::LIST_PAGE);
        let prefix = rows::registers(list.namespace, &list.prefix);
        let after: Option<Bytes> = list.after.as_ref().map(|key| rows::register(list.namespace, key));
        let page = step.rows.register_rows(&prefix, after.as_ref(), limit)?;
        let rows = page.into_iter().map(|(name, row)| {
            let object = rows::key_of(&name).map(|key| ObjectId::new(list.namespace, &key));
            let state = match (&row, object) {
                (Some(row), Ok(object)) => self.known_chosen(object, row),
                _ => None,
            };
            let live = state.and_then(|state| state.version.as_ref()).map(in_list);
            (name, live.into_iter().collect())
        });
        self.answer_list(step, requester, list.conflicts, limit, rows.collect())
    }

    fn answer_list(
        &mut self,
        step: &mut Step<'_>,
        requester: Requester,
        conflicts: bool,
        limit: usize,
        page: Vec<(Bytes, Vec<InList>)>,
    ) -> Result<(), StoreError> {
        let mut next = if page.len() == limit {
            page.last().map(|(row, _)| rows::key_of(row)).transpose()?
        } else {
            None
        };
        let mut keys: Vec<ListedKey> = Vec::new();
        let mut room = limits::FRAME_LEN / 2;
        for (name, live) in page {
            if room == 0 {
                next = keys.last().map(|listed| listed.key.clone());
                break;
            }
            let deleted = live.iter().all(|(_, _, len)| len.is_none());
            let wanted = if conflicts { live.len() > 1 } else { !deleted };
            if wanted {
                room = room.saturating_sub(64 + name.len() + 64 * live.len());
                keys.push(ListedKey { key: rows::key_of(&name)?, live });
            }
        }
        self.reply(step, requester, Page { keys, next });
        Ok(())
    }
}

/// A live version in a listing: generation, id, bytes of value (absent for a deletion).
type InList = (u64, WriteId, Option<u64>);

fn in_list(version: &Version) -> InList {
    let write = version.write();
    let len = match write.body {
        Body::Put { len, .. } => Some(len),
        Body::Delete => None,
    };
    (write.generation, version.id(), len)
}
