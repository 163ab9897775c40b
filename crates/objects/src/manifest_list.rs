//! Manifest lists of format versions 2 and 3: parses the lists of clients, and writes the lists of
//! rebased appends.
//!
//! A list is an Avro file. The lists of consecutive appends share all entries except the newest
//! ones. So entries are encoded and compressed once, in blocks that later lists contain unchanged
//! ([`ListBlocks`]). This module encodes Avro itself, because no Avro crate can write blocks that
//! are already encoded.

mod blocks;
mod encode;
mod parse;
#[cfg(test)]
mod tests;

pub use blocks::ListBlocks;
pub use encode::ListHeader;
pub use parse::ManifestList;

use bytes::Bytes;
use uuid::Uuid;

use super::error::Error;
use super::warehouse_files::Objects;

/// Creates a manifest list. Also succeeds if the file already exists with the same content, because
/// an earlier attempt whose response was lost may have created it.
pub async fn create(
    objects: &Objects,
    warehouse: Uuid,
    location: &str,
    content: &Bytes,
) -> Result<(), Error> {
    let created = objects.create(warehouse, location, [content.clone()]).await;
    let Err(Error::Taken(taken)) = created else { return created };
    let bytes_max = content.len() as u64;
    let existing = objects.read_of_size(warehouse, location, bytes_max).await?;
    if existing.is_none_or(|existing| existing != *content) {
        return Err(Error::Taken(taken));
    }
    match objects.local_file(warehouse, location)? {
        // The earlier attempt may have failed because the disk did not sync the file. Another sync
        // could succeed although the content is lost.
        Some(_) => replace(objects, warehouse, location, content).await,
        None => Ok(()),
    }
}

/// Replaces a damaged manifest list.
pub async fn replace(
    objects: &Objects,
    warehouse: Uuid,
    location: &str,
    content: &Bytes,
) -> Result<(), Error> {
    objects.replace(warehouse, location, [content.clone()]).await
}
