//! Publication markers and dropped tables in a restore.

use super::RestorePlan;
use super::differences::Difference;
use crate::dropped::DroppedTabular;
use crate::error::Error;
use crate::keys::{DroppedKey, PublicationKey};
use crate::read::StoreRead;
use crate::records::{Publication, TabularRecord};

impl RestorePlan {
    /// Plans a marker, so that the next start writes the files of a restored record.
    pub(super) async fn put_marker(
        &mut self,
        then: &impl StoreRead,
        record: &TabularRecord,
        version: u64,
    ) -> Result<(), Error> {
        let id = record.id;
        // If the earlier state contains a marker of this version, the manifest lists in the marker
        // may still be missing.
        let marker = then.get(&PublicationKey { id, version: record.version }).await?;
        let lists = marker.map(|marker| marker.lists).unwrap_or_default();
        let metadata_location = record.metadata_location.clone();
        self.put(
            &PublicationKey { id, version },
            &Publication { metadata_location, lists, head: None },
        );
        Ok(())
    }

    /// Plans the changes of dropped tables and views. A restored record gets a marker, because a
    /// purge may have deleted its metadata file.
    pub(super) async fn dropped(
        &mut self,
        then: &impl StoreRead,
        different: Vec<Difference>,
    ) -> Result<(), Error> {
        for different in different {
            let (_, after) = different.records::<DroppedKey>()?;
            self.touched.insert(different.decode_key::<DroppedKey>()?.0);
            if let Some(DroppedTabular { record, .. }) = after {
                self.put_marker(then, &record, record.version).await?;
            }
            self.put_or_delete(&different.key, different.then);
        }
        Ok(())
    }
}
