//! Metadata files: names, compression and content.
//!
//! Names follow the table specification's "Naming": `NNNNN-<uuid>.metadata.json`. The number
//! increases by one with each file, and `.gz` precedes `.metadata.json` if the content is
//! compressed.

use std::collections::BTreeMap;
use std::io::Read;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use uuid::Uuid;

use super::content::{Content, too_long_decompressed};
use super::error::Error;
use super::local::LocalFile;
use super::location::Location;
use super::warehouse_files::Objects;
use slateberg_model::gzip::{INLINE_BYTES_MAX, gzip};
use slateberg_model::segmented_json::SegmentedJson;

/// Property with the directory of metadata files. Defaults to `metadata` below the table's
/// location.
pub(crate) const PATH_PROPERTY: &str = "write.metadata.path";
/// Property with the compression of metadata files.
pub(crate) const CODEC_PROPERTY: &str = "write.metadata.compression-codec";

/// A file cannot contain a JSON document if it is longer than the document by more than 1/256 of
/// the document's length plus this number of bytes. Compression adds at most a thousandth of the
/// length.
const FRAME_BYTES_MAX: u64 = 64 << 10;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Compression of a metadata file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// No compression.
    None,
    /// Gzip.
    Gzip,
}

impl Codec {
    /// Returns the codec that a table's properties specify.
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

    /// Returns the codec that a file's name specifies.
    pub(crate) fn of_location(location: &str) -> Self {
        if location.ends_with(".gz.metadata.json") || location.ends_with(".metadata.json.gz") {
            Self::Gzip
        } else {
            Self::None
        }
    }

    /// Encodes JSON as the content of a file, in parts.
    pub fn encode(self, text: &SegmentedJson) -> Vec<Bytes> {
        match self {
            Self::None => text.parts().cloned().collect(),
            Self::Gzip => gzip(b"", text, b""),
        }
    }
}

/// Returns the directory of the metadata files of a table or view.
pub fn directory(table_location: &str, properties: &BTreeMap<String, String>) -> String {
    match properties.get(PATH_PROPERTY) {
        Some(path) => path.trim_end_matches('/').to_owned(),
        None => format!("{}/metadata", table_location.trim_end_matches('/')),
    }
}

/// Returns the location of the next metadata file of a table or view.
pub fn next_location(
    table_location: &str,
    properties: &BTreeMap<String, String>,
    previous: Option<&str>,
    file_id: Uuid,
) -> Result<String, Error> {
    let number = previous.and_then(number_of).map_or(0, |number| number.saturating_add(1));
    let codec = Codec::of(properties)?;
    let directory = directory(table_location, properties);
    Ok(format!("{directory}/{number:05}-{file_id}{}", codec.extension()))
}

/// Returns the number at the beginning of a metadata file's name. `None` for other names.
fn number_of(location: &str) -> Option<u32> {
    let (_, name) = location.rsplit_once('/')?;
    let (number, _) = name.split_once('-')?;
    number.parse().ok()
}

/// Whether a file has the name of a metadata file.
pub fn is_named_so(location: &Location) -> bool {
    let endings = [".metadata.json", ".metadata.json.gz"];
    location.name().is_some_and(|name| endings.iter().any(|ending| name.ends_with(ending)))
}

/// Returns the content of a metadata file, in parts.
async fn encode(location: &str, text: &SegmentedJson) -> Vec<Bytes> {
    let codec = Codec::of_location(location);
    if codec == Codec::Gzip && text.bytes_to_compress() > INLINE_BYTES_MAX {
        let text = text.clone();
        let compressed = tokio::task::spawn_blocking(move || codec.encode(&text)).await;
        if let Ok(compressed) = compressed {
            return compressed;
        }
    }
    codec.encode(text)
}

/// Creates a metadata file. Also succeeds if the file already exists with the same content, because
/// an earlier attempt whose response was lost may have created it. If the file is on the local file
/// system, returns it, and the caller has to [sync](super::local::sync) it.
pub async fn create(
    objects: &Objects,
    warehouse: Uuid,
    location: &str,
    text: &SegmentedJson,
) -> Result<Option<LocalFile>, Error> {
    let content = encode(location, text).await;
    let taken = match objects.create_unsynced(warehouse, location, content).await {
        Err(Error::Taken(taken)) => taken,
        created => return created,
    };
    match contains_json(objects, warehouse, location, text).await {
        Ok(true) => objects.local_file(warehouse, location),
        // An unreadable file has other content.
        Ok(false) | Err(Error::Unreadable { .. }) => Err(Error::Taken(taken)),
        Err(error) => Err(error),
    }
}

/// Replaces a damaged metadata file.
pub async fn replace(
    objects: &Objects,
    warehouse: Uuid,
    location: &str,
    text: &SegmentedJson,
) -> Result<(), Error> {
    let content = encode(location, text).await;
    objects.replace(warehouse, location, content).await
}

/// Whether a metadata file contains this JSON, compressed or not. Reads the file only if it is not
/// much longer than the JSON.
pub async fn contains_json(
    objects: &Objects,
    warehouse: Uuid,
    location: &str,
    text: &SegmentedJson,
) -> Result<bool, Error> {
    let text_bytes = text.len() as u64;
    let file_bytes_max = text_bytes.saturating_add(text_bytes >> 8).saturating_add(FRAME_BYTES_MAX);
    let content = objects.read_of_size(warehouse, location, file_bytes_max).await?;
    let Some(content) = content else { return Ok(false) };
    Ok(decompress(location, &content, text_bytes)?
        .is_some_and(|decompressed| *text == decompressed))
}

/// Reads a metadata file and decompresses it.
pub async fn read(objects: &Objects, warehouse: Uuid, location: &str) -> Result<Content, Error> {
    let content = objects.read(warehouse, location).await?;
    if !content.starts_with(&GZIP_MAGIC) {
        return Ok(content);
    }
    let bytes_max = content.bytes_max();
    // The second iteration is needed only if the file has several gzip members or contains a wrong
    // length.
    for bytes in [claimed_bytes(&content).min(bytes_max), bytes_max] {
        let room = objects.bounds().decompression(bytes).await;
        if let Some(decompressed) = decompress(location, &content, bytes)? {
            return Ok(Content::new(decompressed, bytes_max, room));
        }
    }
    Err(Error::unreadable(location, too_long_decompressed(bytes_max)))
}

/// Returns the decompressed length in the last four bytes of a gzip member.
fn claimed_bytes(content: &Bytes) -> u64 {
    content.last_chunk().map_or(0, |length| u64::from(u32::from_le_bytes(*length)))
}

/// Decompresses a metadata file. `None` if the result has more than the maximum number of bytes.
pub(super) fn decompress(
    location: &str,
    content: &Bytes,
    bytes_max: u64,
) -> Result<Option<Bytes>, Error> {
    if !content.starts_with(&GZIP_MAGIC) {
        return Ok(Some(content.clone()));
    }
    let mut json = Vec::new();
    let decompressed = MultiGzDecoder::new(content.as_ref())
        .take(bytes_max.saturating_add(1))
        .read_to_end(&mut json)
        .map_err(|error| Error::unreadable(location, error))?;
    Ok((decompressed as u64 <= bytes_max).then(|| json.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::open_url;
    use crate::warehouse_files::Root;

    /// Returns a location of a warehouse in memory.
    fn root(url: &str) -> Root {
        let opened = open_url(url, &Default::default()).expect("it opens");
        let location = Location::parse(url).expect("it is a location");
        Root { location, object_store: opened.object_store, vendor: None }
    }

    #[tokio::test]
    async fn existing_file_counts_at_a_former_location() {
        let id = Uuid::nil();
        let (stays, goes) = (root("memory:///stays"), root("memory:///goes"));
        let objects = Objects::new([(id, vec![stays.clone(), goes])]);
        for name in ["00000-x.metadata.json", "00000-x.gz.metadata.json"] {
            let location = &format!("memory:///goes/t/metadata/{name}");
            create(&objects, id, location, &SegmentedJson::from("{}"))
                .await
                .expect("the name is free");
            // The response to the first attempt was lost.
            for objects in [&objects, &objects.with(id, vec![stays.clone()])] {
                create(objects, id, location, &SegmentedJson::from("{}"))
                    .await
                    .expect("it is there");
                let other = create(objects, id, location, &SegmentedJson::from("[]")).await;
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
    fn compressed_metadata_file_has_gz_in_its_name() {
        assert_eq!(Codec::of_location("a/00000-x.gz.metadata.json"), Codec::Gzip);
        assert_eq!(Codec::of_location("a/00000-x.metadata.json"), Codec::None);
    }

    const LOCATION: &str = "memory:///w/t/metadata/00000-x.gz.metadata.json";

    fn objects() -> Objects {
        let location = Location::parse("memory:///w").expect("it is a location");
        let opened = open_url("memory:///w", &Default::default()).expect("it opens");
        let root = Root { location, object_store: opened.object_store, vendor: None };
        Objects::new([(Uuid::nil(), vec![root])])
    }

    #[tokio::test]
    async fn file_is_read_up_to_its_limit() {
        let objects = objects();
        let text = SegmentedJson::from(vec![b' '; 100_000]);
        create(&objects, Uuid::nil(), LOCATION, &text).await.expect("it is written");
        let read_of = async |bytes_max: u64| {
            let objects = objects.clone().reading(bytes_max);
            let text = read(&objects, Uuid::nil(), LOCATION).await;
            text.map(|text| text.len()).map_err(|error| error.to_string())
        };
        assert_eq!(read_of(100_000).await, Ok(100_000));
        let failure = read_of(99_999).await.expect_err("it decompresses to more");
        assert!(failure.contains("decompresses to more than 99999 bytes"), "{failure}");
        let failure = read_of(10).await.expect_err("it is longer itself");
        assert!(failure.ends_with("but at most 10 are read (catalog.file_bytes_max)"), "{failure}");
    }

    #[tokio::test]
    async fn decompressing_readers_wait_for_memory() {
        let objects = objects().reading(100 << 10);
        let text = SegmentedJson::from(vec![b' '; 50 << 10]);
        create(&objects, Uuid::nil(), LOCATION, &text).await.expect("it is written");
        let mut all = Vec::new();
        for _ in 0..2 {
            all.push(read(&objects, Uuid::nil(), LOCATION).await.expect("it is read"));
        }
        let more = read(&objects, Uuid::nil(), LOCATION);
        let soon = std::time::Duration::from_millis(20);
        assert!(tokio::time::timeout(soon, more).await.is_err(), "there is no room");
        all.pop();
        read(&objects, Uuid::nil(), LOCATION).await.expect("there is room again");
    }

    #[tokio::test]
    async fn own_file_is_recognized_regardless_of_its_length() {
        let objects = objects().reading(10);
        for location in [LOCATION, "memory:///w/t/metadata/00000-x.metadata.json"] {
            let text = SegmentedJson::from(vec![b' '; 100_000]);
            let write =
                async |text: &SegmentedJson| create(&objects, Uuid::nil(), location, text).await;
            assert!(write(&text).await.is_ok());
            assert!(write(&text).await.is_ok(), "an earlier attempt whose response was lost");
            for other in [vec![b' '; 99_999], vec![b' '; 100_001], vec![b'x'; 100_000], vec![]] {
                let other = SegmentedJson::from(other);
                assert!(matches!(write(&other).await, Err(Error::Taken(_))), "{other:?}");
            }
        }
    }

    #[tokio::test]
    async fn unreadable_file_has_other_content() {
        let objects = objects();
        let broken = [&GZIP_MAGIC[..], b"no gzip"].concat();
        objects.create(Uuid::nil(), LOCATION, [broken.into()]).await.expect("it is written");
        let taken = create(&objects, Uuid::nil(), LOCATION, &SegmentedJson::from("{}")).await;
        assert!(matches!(taken, Err(Error::Taken(_))), "{taken:?}");
    }
}
