//! Splits the entries of Avro files into their encoded fields, so that a caller can change some
//! fields and copy the bytes of all others.

use super::encode;
use super::program::Run;
use super::shape::{Field, Schema, Shape};
use super::{Blocks, Cursor, LONG_BLOCK};

/// A field of an entry, or of the record in an entry that is split as well.
#[derive(Debug)]
pub(crate) struct SplitField {
    /// Iceberg's id of the field.
    pub(crate) id: Option<i32>,
    /// Whether the field belongs to the record inside the entry.
    pub(crate) is_nested: bool,
    /// The encoding of its values. `None` if they are no numbers.
    pub(crate) number: Option<NumberEncoding>,
    shape: Shape,
}

/// Encoding of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NumberEncoding {
    /// The number.
    Plain,
    /// A union of null, which has this index, and the number.
    Optional {
        /// The index of null: 0 or 1.
        null: i64,
    },
}

/// The entries of a file.
pub(crate) struct SplitEntries<'a> {
    schema: Schema,
    blocks: Blocks<'a>,
    fields: Vec<SplitField>,
}

impl NumberEncoding {
    fn of(shape: &Shape) -> Option<Self> {
        match shape {
            Shape::Number => Some(Self::Plain),
            Shape::Union(variants) => match variants.as_slice() {
                [Shape::Nothing, Shape::Number] => Some(Self::Optional { null: 0 }),
                [Shape::Number, Shape::Nothing] => Some(Self::Optional { null: 1 }),
                _ => None,
            },
            _ => None,
        }
    }

    /// Reads an encoded value.
    pub(crate) fn read(self, encoded: &[u8]) -> Result<Option<i64>, String> {
        let mut bytes = Cursor(encoded);
        match self {
            Self::Plain => bytes.long().map(Some),
            Self::Optional { null } if bytes.long()? == null => Ok(None),
            Self::Optional { .. } => bytes.long().map(Some),
        }
    }

    /// Writes a number.
    pub(crate) fn write(self, out: &mut Vec<u8>, number: i64) {
        if let Self::Optional { null } = self {
            encode::long(out, 1 - null);
        }
        encode::long(out, number);
    }
}

impl<'a> SplitEntries<'a> {
    /// Opens a file, which may decompress to at most `bytes_max` bytes. The field with the id
    /// `nested`, a record, is split into its own fields.
    pub(crate) fn of(content: &'a [u8], bytes_max: u64, nested: i32) -> Result<Self, String> {
        let (schema, blocks) = Blocks::of(content, bytes_max)?;
        let Shape::Record(root) = schema.root else {
            return Err("has entries that are no records".to_owned());
        };
        let mut fields = Vec::new();
        for field in schema.fields(root) {
            match field.shape {
                Shape::Record(record) if field.id == Some(nested) => {
                    fields.extend(schema.fields(record).iter().map(|it| split_field(it, true)));
                }
                _ => fields.push(split_field(field, false)),
            }
        }
        Ok(Self { schema, blocks, fields })
    }

    /// Returns the fields of each entry, in the order of their encoding.
    pub(crate) fn fields(&self) -> &[SplitField] {
        &self.fields
    }

    /// Whether entries of different writers may differ in their encoding, although the schema is
    /// the same.
    pub(crate) fn has_ambiguous_encoding(&self) -> bool {
        self.schema.has_fixed
    }

    /// Passes the encoded fields of each entry to a function.
    pub(crate) fn each(
        mut self,
        mut take: impl FnMut(&[&[u8]]) -> Result<(), String>,
    ) -> Result<(), String> {
        while let Some(block) = self.blocks.next()? {
            let mut run = Run::of(&block, &self.schema, self.blocks.values_left);
            let mut pieces = Vec::with_capacity(self.fields.len());
            for _ in 0..block.count {
                pieces.clear();
                run.count_value()?;
                for field in &self.fields {
                    let before = run.bytes.0;
                    run.count_value()?;
                    run.skip(&field.shape, 1)?;
                    let encoded = before.len() - run.bytes.0.len();
                    pieces.push(before.get(..encoded).unwrap_or_default());
                }
                take(&pieces)?;
            }
            if !run.bytes.0.is_empty() {
                return Err(LONG_BLOCK.to_owned());
            }
            self.blocks.values_left = run.values_left;
        }
        Ok(())
    }
}

fn split_field(field: &Field, is_nested: bool) -> SplitField {
    let shape = field.shape.clone();
    SplitField { id: field.id, is_nested, number: NumberEncoding::of(&shape), shape }
}
