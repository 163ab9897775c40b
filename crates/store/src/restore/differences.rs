//! Differences between two states of the store, key by key.

use std::cmp::Ordering;

use bytes::Bytes;
use slatedb::DbIterator;

use crate::error::Error;
use crate::key_space::KeySpace;
use crate::keys::Key;
use crate::read::{KeyRange, StoreRead, corrupt, decode_value};
use slateberg_base::progress::Phase;

/// A key with different values in two states.
pub(super) struct Difference {
    pub(super) key: Bytes,
    pub(super) now: Option<Bytes>,
    pub(super) then: Option<Bytes>,
}

/// Records of a key in the two states.
pub(super) type Records<K> = (Option<<K as Key>::Value>, Option<<K as Key>::Value>);

impl Difference {
    pub(super) fn decode_key<K: Key>(&self) -> Result<K, Error> {
        K::decode(&self.key)
            .ok_or_else(|| corrupt(&self.key, "the key is invalid in its key space"))
    }

    /// Decodes both records.
    pub(super) fn records<K: Key>(&self) -> Result<Records<K>, Error> {
        let decode = |bytes: &Option<Bytes>| {
            bytes.as_ref().map(|bytes| decode_value::<K>(&self.key, bytes)).transpose()
        };
        Ok((decode(&self.now)?, decode(&self.then)?))
    }
}

/// Returns the keys of a space that have different values in the two states.
pub(super) async fn differences(
    now: &impl StoreRead,
    then: &impl StoreRead,
    space: KeySpace,
    phase: &Phase,
) -> Result<Vec<Difference>, Error> {
    let range = KeyRange::all(space);
    let (mut now, mut then) = (now.iterate(&range).await?, then.iterate(&range).await?);
    let (mut is, mut was) = (next(&mut now).await?, next(&mut then).await?);
    let mut differences = Vec::new();
    loop {
        let order = match (&is, &was) {
            (None, None) => return Ok(differences),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((is, _)), Some((was, _))) => is.cmp(was),
        };
        phase.advance(1);
        let here = if order == Ordering::Greater { None } else { is.take() };
        let there = if order == Ordering::Less { None } else { was.take() };
        if order != Ordering::Greater {
            is = next(&mut now).await?;
        }
        if order != Ordering::Less {
            was = next(&mut then).await?;
        }
        let Some(key) = here.as_ref().or(there.as_ref()).map(|(key, _)| key.clone()) else {
            continue;
        };
        let (now, then) = (here.map(|(_, value)| value), there.map(|(_, value)| value));
        if now != then {
            differences.push(Difference { key, now, then });
        }
    }
}

/// Returns all keys of a space.
pub(super) async fn keys(state: &impl StoreRead, space: KeySpace) -> Result<Vec<Vec<u8>>, Error> {
    let mut records = state.iterate(&KeyRange::all(space)).await?;
    let mut keys = Vec::new();
    while let Some(record) = records.next().await? {
        keys.push(record.key.to_vec());
    }
    Ok(keys)
}

/// Returns a copy of the next entry. The original would keep a whole block in memory.
async fn next(entries: &mut DbIterator) -> Result<Option<(Bytes, Bytes)>, Error> {
    let copied = |bytes: &Bytes| Bytes::copy_from_slice(bytes);
    Ok(entries.next().await?.map(|entry| (copied(&entry.key), copied(&entry.value))))
}
