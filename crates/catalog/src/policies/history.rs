//! Lists and compares the revisions of stored policies and grants, and restores their content for a
//! rollback.

use crate::error::MissingResource;
use crate::policies::Policies;
use crate::{Error, Operation, Result};
use slateberg_base::boxed;
use slateberg_model::page::PageRequest;
use slateberg_store::policy_snapshot::{PolicySnapshot, revisions};
use slateberg_store::records::{PolicyChanges, PolicyRevision};

/// A page of the policy log. The newest revision is first.
#[derive(Debug, Clone)]
pub struct RevisionPage {
    /// The revisions.
    pub revisions: Vec<PolicyRevision>,
    /// The token of the next page. `None` if this is the last page.
    pub next: Option<String>,
}

/// A revision, and the stored policies and grants at this revision.
#[derive(Debug, Clone)]
pub struct RevisionDetails {
    /// The revision. `None` for the empty state before the first revision.
    pub revision: Option<PolicyRevision>,
    /// The stored policies and grants.
    pub book: PolicySnapshot,
}

impl Policies {
    /// Returns the revisions, newest first.
    #[boxed]
    pub async fn policy_revisions(
        &self,
        operation: &Operation,
        page: &PageRequest,
    ) -> Result<RevisionPage> {
        self.may_read_policies(operation)?;
        let head = self.state.sources().book.number;
        // The page token is the number of the oldest revision on the previous page.
        let newest = match page.after.as_deref().map(str::parse::<u64>) {
            None => head,
            Some(Ok(oldest)) => oldest.saturating_sub(1).min(head),
            Some(Err(_)) => return Err(Error::Invalid("Invalid page token".to_owned())),
        };
        let most = page.limit.map_or(newest, |limit| (limit as u64).min(newest));
        let after = newest - most;
        let mut found = self.revisions_between(after, newest).await?;
        found.reverse();
        let next = (after > 0).then(|| page.token(&(after + 1).to_string()));
        Ok(RevisionPage { revisions: found, next })
    }

    /// Returns a revision, and the stored policies and grants at this revision.
    #[boxed]
    pub async fn policy_revision(
        &self,
        operation: &Operation,
        number: u64,
    ) -> Result<RevisionDetails> {
        self.may_read_policies(operation)?;
        let newest = self.state.sources().book;
        let book = self.book_at(&newest, number).await?;
        let found = match number {
            0 => Vec::new(),
            number => self.revisions_between(number - 1, number).await?,
        };
        Ok(RevisionDetails { revision: found.into_iter().next(), book })
    }

    /// Returns the changes of policies and grants from one revision to another. `from` may be newer
    /// than `to`.
    #[boxed]
    pub async fn policy_diff(
        &self,
        operation: &Operation,
        from: u64,
        to: u64,
    ) -> Result<PolicyChanges> {
        self.may_read_policies(operation)?;
        let newest = self.state.sources().book;
        let from = self.book_at(&newest, from).await?;
        let to = self.book_at(&newest, to).await?;
        Ok(from.changes_to(&to))
    }

    /// Returns the stored policies and grants at a revision.
    pub(super) async fn book_at(
        &self,
        newest: &PolicySnapshot,
        number: u64,
    ) -> Result<PolicySnapshot> {
        if number > newest.number {
            return Err(Error::NotFound(MissingResource::PolicyRevision(number)));
        }
        let mut book = newest.clone();
        for revision in self.revisions_between(number, newest.number).await?.iter().rev() {
            book.undo(revision);
        }
        if book.number != number {
            return Err(Error::internal(format!(
                "the policy log does not lead back to revision {number}"
            )));
        }
        Ok(book)
    }

    /// Returns the revisions after `after`, up to and including `last`.
    async fn revisions_between(&self, after: u64, last: u64) -> Result<Vec<PolicyRevision>> {
        let count = usize::try_from(last - after).unwrap_or(usize::MAX);
        Ok(revisions(&self.core.store().durable(), after, Some(count)).await?)
    }
}
