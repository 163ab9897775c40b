//! Converts earlier states of the catalog to the form of responses.

use slateberg_catalog as catalog;
use slateberg_catalog::past::{PastListing, PastTabular};
use slateberg_management::past::{PastContents, PastMetadata, PastResource};

fn past_resource(past: catalog::past::PastResource) -> PastResource {
    let catalog::past::PastResource { kind, id, uuid, namespace, name, metadata_location } = past;
    PastResource { kind: kind.name().to_owned(), id, uuid, namespace, name, metadata_location }
}

/// Returns a page of the contents of a warehouse or namespace.
pub fn past_contents(listing: PastListing) -> PastContents {
    let contents = listing.resources.into_iter().map(past_resource).collect();
    PastContents { contents, next_page_token: listing.next }
}

/// Returns a table or view with its metadata.
pub fn past_metadata(past: PastTabular) -> catalog::Result<PastMetadata> {
    let metadata = serde_json::from_str(&past.metadata).map_err(catalog::Error::internal)?;
    Ok(PastMetadata { resource: past_resource(past.resource), metadata })
}
