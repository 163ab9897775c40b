//! Metadata files: their names, their compression, and reading them back.
//!
//! Names are those of the table specification's "Naming": `NNNNN-<uuid>.metadata.json`, where the
//! number grows by one with each file, and `.gz` stands in front of `.metadata.json` where the content
//! is compressed.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use uuid::Uuid;

use super::error::Error;
use super::location::Location;
use super::warehouse_files::Objects;
use crate::model::text::Text;

/// Where metadata files go, if not below the table's location.
pub const PATH_PROPERTY: &str = "write.metadata.path";
/// How metadata files are compressed.
pub const CODEC_PROPERTY: &str = "write.metadata.compression-codec";

/// The most bytes that a compressed metadata file may unfold to.
const METADATA_BYTES_MAX: u64 = 1 << 30;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// How a metadata file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// Not at all.
    None,
    /// With gzip.
    Gzip,
}

impl Codec {
    /// The codec that a table's properties ask for.
    pub fn of(properties: &BTreeMap<String, String>) -> Result<Self, Error> {
        match properties.get(CODEC_PROPERTY).map(|codec| codec.to_ascii_lowercase()).as_deref() {
            None | Some("none" | "") => Ok(Self::None),
            Some("gzip") => Ok(Self::Gzip),
            Some(other) => {
                Err(Error::NotAllowed(format!("Invalid codec name for {CODEC_PROPERTY}: {other}")))
            }
        }
    }

    fn extension(self) -> &'static str {
        match self {
            Self::None => ".metadata.json",
            Self::Gzip => ".gz.metadata.json",
        }
    }

    /// The codec that a file's name tells.
    pub fn of_location(location: &str) -> Self {
        if location.ends_with(".gz.metadata.json") || location.ends_with(".metadata.json.gz") {
            Self::Gzip
        } else {
            Self::None
        }
    }

    /// The file's content for this text, in parts.
    pub fn encode(self, text: &Text) -> Vec<Bytes> {
        match self {
            Self::None => text.parts().cloned().collect(),
            Self::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
                for part in text.parts() {
                    encoder.write_all(part).expect("writing into memory cannot fail");
                }
                vec![encoder.finish().expect("writing into memory cannot fail").into()]
            }
        }
    }
}

/// The location of the next metadata file of a table or view.
pub fn next_location(
    table_location: &str,
    properties: &BTreeMap<String, String>,
    previous: Option<&str>,
    file_id: Uuid,
) -> Result<String, Error> {
    let number = previous.and_then(number_of).map_or(0, |number| number.saturating_add(1));
    let codec = Codec::of(properties)?;
    let directory = match properties.get(PATH_PROPERTY) {
        Some(path) => path.trim_end_matches('/').to_owned(),
        None => format!("{}/metadata", table_location.trim_end_matches('/')),
    };
    Ok(format!("{directory}/{number:05}-{file_id}{}", codec.extension()))
}

/// The number at the head of a metadata file's name; none if the file was named by other rules.
fn number_of(location: &str) -> Option<u32> {
    let (_, name) = location.rsplit_once('/')?;
    let (number, _) = name.split_once('-')?;
    number.parse().ok()
}

/// Whether a file is named as metadata files are.
pub fn is_named_so(location: &Location) -> bool {
    let endings = [".metadata.json", ".metadata.json.gz"];
    location.name().is_some_and(|name| endings.iter().any(|ending| name.ends_with(ending)))
}

/// Writes a new metadata file. That one with the same text is there already counts as written: an
/// earlier try whose answer was lost.
pub async fn create(
    objects: &Objects,
    warehouse: Uuid,
    location: &str,
    text: &Text,
) -> Result<(), Error> {
    let content = Codec::of_location(location).encode(text);
    match objects.create(warehouse, location, content).await {
        Err(Error::Taken(taken)) => {
            let there = unfold(location, objects.read_promised(warehouse, location).await?)?;
            if *text == there { Ok(()) } else { Err(Error::Taken(taken)) }
        }
        other => other,
    }
}

/// Reads a metadata file's text, whatever its compression.
pub async fn read(objects: &Objects, warehouse: Uuid, location: &str) -> Result<Bytes, Error> {
    unfold(location, objects.read(warehouse, location).await?)
}

/// The text in a metadata file's content.
pub(super) fn unfold(location: &str, content: Bytes) -> Result<Bytes, Error> {
    if !content.starts_with(&GZIP_MAGIC) {
        return Ok(content);
    }
    let mut json = Vec::new();
    let unfolded = MultiGzDecoder::new(content.as_ref())
        .take(METADATA_BYTES_MAX)
        .read_to_end(&mut json)
        .map_err(|error| Error::Unreadable {
            location: location.to_owned(),
            reason: error.to_string(),
        })?;
    if unfolded as u64 == METADATA_BYTES_MAX {
        return Err(Error::Unreadable {
            location: location.to_owned(),
            reason: "unfolds to more than 1 GiB".to_owned(),
        });
    }
    Ok(json.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::location::Location;
    use crate::objects::open::open_url;
    use crate::objects::warehouse_files::Root;

    /// A place of a warehouse, in memory.
    fn root(url: &str) -> Root {
        let opened = open_url(url, &Default::default()).expect("it opens");
        let location = Location::parse(url).expect("it is a location");
        Root { location, object_store: opened.object_store, vendor: None }
    }

    #[tokio::test]
    async fn a_file_that_is_there_already_counts_also_where_its_place_is_gone_since() {
        let id = Uuid::nil();
        let (stays, goes) = (root("memory:///stays"), root("memory:///goes"));
        let objects = Objects::new([(id, vec![stays.clone(), goes])]);
        for name in ["00000-x.metadata.json", "00000-x.gz.metadata.json"] {
            let location = &format!("memory:///goes/t/metadata/{name}");
            create(&objects, id, location, &Text::from("{}")).await.expect("the name is free");
            // The answer to the first try was lost.
            for objects in [&objects, &objects.with(id, vec![stays.clone()])] {
                create(objects, id, location, &Text::from("{}")).await.expect("it is there");
                let other = create(objects, id, location, &Text::from("[]")).await;
                assert!(matches!(other, Err(Error::Taken(_))), "{other:?}");
            }
        }
    }

    fn next(properties: &[(&str, &str)], previous: Option<&str>) -> String {
        let properties =
            properties.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        next_location("s3://b/t/", &properties, previous, Uuid::nil()).expect("valid properties")
    }

    #[test]
    fn numbers_grow() {
        let nil = Uuid::nil();
        assert_eq!(next(&[], None), format!("s3://b/t/metadata/00000-{nil}.metadata.json"));
        let previous = "s3://b/t/metadata/00041-x.metadata.json";
        assert_eq!(
            next(&[], Some(previous)),
            format!("s3://b/t/metadata/00042-{nil}.metadata.json")
        );
        let foreign = "s3://b/t/metadata/v3.metadata.json";
        assert_eq!(
            next(&[], Some(foreign)),
            format!("s3://b/t/metadata/00000-{nil}.metadata.json")
        );
    }

    #[test]
    fn properties_choose_the_place_and_the_codec() {
        let nil = Uuid::nil();
        assert_eq!(
            next(&[(PATH_PROPERTY, "s3://b/m/"), (CODEC_PROPERTY, "GZIP")], None),
            format!("s3://b/m/00000-{nil}.gz.metadata.json")
        );
        let unknown = BTreeMap::from([(CODEC_PROPERTY.to_owned(), "lz77".to_owned())]);
        assert!(Codec::of(&unknown).is_err());
    }

    #[test]
    fn a_compressed_file_says_so_in_its_name() {
        assert_eq!(Codec::of_location("a/00000-x.gz.metadata.json"), Codec::Gzip);
        assert_eq!(Codec::of_location("a/00000-x.metadata.json"), Codec::None);
    }
}
