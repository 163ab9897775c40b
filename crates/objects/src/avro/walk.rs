//! Reads the entries of Avro files by the names of their fields.

use super::program::Run;
use super::shape::Shape;
use super::{Blocks, DEPTH_MAX, LONG_BLOCK};

/// A value without nested values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeafValue<'a> {
    /// A number, or the index of an enum symbol.
    Number(i64),
    /// A string, or bytes.
    Text(&'a [u8]),
    /// A boolean.
    Bool(bool),
    /// The beginning of an array.
    Array,
    /// The beginning of an item of an array.
    Item,
}

/// Reads a file that may decompress to at most `bytes_max` bytes. For each value of an entry, calls
/// `see` with the names of the fields that lead to the value. After the last value, calls `take`
/// with the entry.
pub(crate) fn entries<E: Default>(
    content: &[u8],
    bytes_max: u64,
    see: impl Fn(&mut E, &[&str], LeafValue<'_>),
    mut take: impl FnMut(E) -> Result<(), String>,
) -> Result<(), String> {
    let (schema, mut blocks) = Blocks::of(content, bytes_max)?;
    while let Some(block) = blocks.next()? {
        let run = Run::of(&block, &schema, blocks.values_left);
        let mut walk = BlockWalk { run, path: Vec::new() };
        for _ in 0..block.count {
            let mut entry = E::default();
            let mut see = |path: &[&str], leaf: LeafValue<'_>| see(&mut entry, path, leaf);
            walk.value(&schema.root, 0, &mut see)?;
            take(entry)?;
        }
        if !walk.run.bytes.0.is_empty() {
            return Err(LONG_BLOCK.to_owned());
        }
        blocks.values_left = walk.run.values_left;
    }
    Ok(())
}

/// Walks the values of a block.
struct BlockWalk<'a> {
    run: Run<'a>,
    /// Names of the fields that lead to the current value.
    path: Vec<&'a str>,
}

impl<'a> BlockWalk<'a> {
    fn value(
        &mut self,
        shape: &'a Shape,
        depth: usize,
        see: &mut dyn FnMut(&[&str], LeafValue<'_>),
    ) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(format!("has values that are more than {DEPTH_MAX} deep"));
        }
        self.run.count_value()?;
        match shape {
            Shape::Nothing => {}
            Shape::Fixed(bytes) => {
                self.run.bytes.take(*bytes)?;
            }
            Shape::PlainFixed(bytes) => {
                self.run.bytes.fixed(*bytes, self.run.fixed)?;
            }
            Shape::Bool => {
                let bytes = self.run.bytes.take(1)?;
                see(&self.path, LeafValue::Bool(bytes != [0]));
            }
            Shape::Number => see(&self.path, LeafValue::Number(self.run.bytes.long()?)),
            Shape::Text => see(&self.path, LeafValue::Text(self.run.bytes.text()?)),
            Shape::Array(items) => {
                see(&self.path, LeafValue::Array);
                while let Some(count) = self.run.bytes.count()? {
                    for _ in 0..count {
                        see(&self.path, LeafValue::Item);
                        self.value(items, depth + 1, see)?;
                    }
                }
            }
            Shape::Map(values) => {
                while let Some(count) = self.run.bytes.count()? {
                    for _ in 0..count {
                        self.run.bytes.text()?;
                        self.value(values, depth + 1, see)?;
                    }
                }
            }
            Shape::Union(variants) => {
                let at = usize::try_from(self.run.bytes.long()?).ok();
                let variant = at.and_then(|at| variants.get(at));
                self.value(variant.ok_or("a union contains an unknown variant")?, depth + 1, see)?;
            }
            Shape::Record(record) => {
                for field in self.run.schema.fields(*record) {
                    self.path.push(&field.name);
                    self.value(&field.shape, depth + 1, see)?;
                    self.path.pop();
                }
            }
        }
        Ok(())
    }
}
