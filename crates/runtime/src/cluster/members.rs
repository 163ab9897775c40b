//! [`Members`]: the record of each member in the bucket of the state.
//!
//! A member accepts connections of another process only if the certificate of that process has a
//! record here. Only a process that can write to the bucket of the state can create such a record. If
//! the state is encrypted, this process must also be able to unlock it ([`RecordSigner`]).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::record_signer::RecordSigner;
use slateberg_base::error_chain::{Cause, chain};
use slateberg_cluster::{Member, Peer};
use slateberg_objects::folder::Folder;
use slateberg_objects::open::Opened;

/// The path of the records below the location of the state.
const PATH: &str = "cluster/members";
/// The version of the format of the records.
const FORMAT: u32 = 1;
/// A member writes its record again at this interval.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(60 * 60);
/// Age at which other members delete a record: its member has ended without deleting it.
const AGE_MAX_MS: i64 = 24 * 60 * 60 * 1000;

/// The record of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MemberRecord {
    /// The version of the format.
    pub format: u32,
    /// The member.
    pub member: Member,
    /// The address for connections of other members, and the hash of the certificate.
    pub peer: Peer,
    /// Whether the member may become the writer.
    pub eligible: bool,
}

impl MemberRecord {
    /// Creates a record in the current format.
    pub fn new(member: Member, peer: Peer, eligible: bool) -> Self {
        Self { format: FORMAT, member, peer, eligible }
    }
}

/// The records of the members. Cheap to clone.
#[derive(Clone)]
pub struct Members {
    folder: Folder,
    signer: RecordSigner,
}

impl Members {
    /// Opens the records below the location of a state. A request fails if it takes longer than
    /// `request_max`.
    pub fn open(state: &Opened, signer: &RecordSigner, request_max: Duration) -> Self {
        Self { folder: Folder::open(state, PATH, request_max), signer: signer.clone() }
    }

    /// Writes the record of this process.
    pub async fn announce(&self, record: &MemberRecord) -> Result<(), Cause> {
        let content = serde_json::to_vec_pretty(record).map_err(Cause::new)?;
        let file = file(&record.peer.certificate_sha256);
        let content = self.signer.sign(&path(&file), content);
        self.folder.put(&file, content.into()).await
    }

    /// Deletes the record of this process.
    pub async fn withdraw(&self, record: &MemberRecord) -> Result<(), Cause> {
        self.folder.delete(&file(&record.peer.certificate_sha256)).await
    }

    /// Whether the certificate with this hash belongs to a member.
    pub async fn contains(&self, certificate_sha256: &str) -> Result<bool, Cause> {
        let file = file(certificate_sha256);
        let Some(content) = self.folder.get(&file).await? else { return Ok(false) };
        Ok(self.signer.check(&path(&file), &content).is_ok())
    }

    /// Returns the records of all members, ordered by name.
    pub async fn list(&self) -> Result<Vec<MemberRecord>, Cause> {
        let mut members: Vec<MemberRecord> = Vec::new();
        for listed in self.folder.list().await? {
            let Some(content) = self.folder.get(&listed.name).await? else { continue };
            let checked = self.signer.check(&path(&listed.name), &content).map_err(Cause::new);
            let parsed =
                checked.and_then(|()| serde_json::from_slice(&content).map_err(Cause::new));
            match parsed {
                Ok(member) => members.push(member),
                Err(error) => {
                    let (name, error) = (listed.name, chain(&error));
                    tracing::warn!(name, error, "a record of a cluster's member is invalid");
                }
            }
        }
        members.sort_by(|one, other| one.member.name.cmp(&other.member.name));
        Ok(members)
    }

    /// Deletes the records of members that have ended without deleting their record. The record of
    /// this process must have been written before: ages are measured by the clock of the object
    /// store, relative to the newest record.
    pub async fn remove_expired(&self) -> Result<(), Cause> {
        let all = self.folder.list().await?;
        let newest_ms = all.iter().map(|listed| listed.modified_ms).max().unwrap_or_default();
        for listed in all {
            if newest_ms.saturating_sub(listed.modified_ms) > AGE_MAX_MS {
                self.folder.delete(&listed.name).await?;
            }
        }
        Ok(())
    }

    /// Writes the record of this process again at an interval, so that other members do not delete
    /// it. Never returns.
    pub async fn keep_announced(self, record: MemberRecord) {
        loop {
            tokio::time::sleep(ANNOUNCE_EVERY).await;
            if let Err(error) = self.announce(&record).await {
                let error = chain(&error);
                tracing::warn!(%error, "cannot write the record of this member of the cluster");
            }
        }
    }
}

fn file(certificate_sha256: &str) -> String {
    format!("{certificate_sha256}.json")
}

/// Returns the path of a record below the location of the state.
fn path(file: &str) -> String {
    format!("{PATH}/{file}")
}
