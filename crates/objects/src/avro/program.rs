//! Reads the entries of Avro files by the field ids of Iceberg.
//!
//! A program is compiled once for each file, from the schema of its writer. Its caller selects
//! fields. The program passes the values of these fields to a [`Sink`], and skips all others. It
//! allocates nothing for an entry. The limits are those of [`super::walk::entries`].

use super::fixed::FixedEncoding;
use super::shape::{Field, Schema, Shape};
use super::{Block, Blocks, Cursor, DEPTH_MAX, LONG_BLOCK, TOO_MANY};
use slateberg_base::background::give_way;

/// Number by which a sink identifies a field.
pub(crate) type Slot = u16;

/// Treatment of a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Skip the value.
    Skip,
    /// Read the fields of the value, which is a record.
    Enter,
    /// Pass the value to the sink.
    Value(Slot),
}

/// Receives the values of an entry. By default, a sink rejects values of all types but numbers.
pub(crate) trait Sink {
    /// Receives a number, or a boolean as 0 or 1.
    fn number(&mut self, slot: Slot, value: i64) -> Result<(), String>;
    /// Receives a string or bytes.
    fn text(&mut self, slot: Slot, _value: &[u8]) -> Result<(), String> {
        Err(unexpected(slot))
    }
    /// Receives an item of a list of numbers.
    fn item(&mut self, slot: Slot, _value: i64) -> Result<(), String> {
        Err(unexpected(slot))
    }
    /// Receives a number from a map with integer keys.
    fn number_of(&mut self, slot: Slot, _key: i32, _value: i64) -> Result<(), String> {
        Err(unexpected(slot))
    }
    /// Receives a string or bytes from a map with integer keys.
    fn text_of(&mut self, slot: Slot, _key: i32, _value: &[u8]) -> Result<(), String> {
        Err(unexpected(slot))
    }
    /// Ends an entry. `encoded` are its bytes.
    fn end_entry(&mut self, encoded: &[u8]) -> Result<(), String>;
}

/// Returns the error for a value of a type that its field must not have.
pub(crate) fn unexpected(slot: Slot) -> String {
    format!("has a field {slot} of an unexpected type")
}

/// A field on the path from an entry to a value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldInfo {
    /// Iceberg's id of the field.
    pub(crate) id: i32,
    /// Whether its values are dates, or null.
    pub(crate) is_date: bool,
}

/// Reads a file that may decompress to at most `bytes_max` bytes. `wanted` decides whether a field
/// is read, and gets the path of the field: all fields from the entry to this field. Fields without
/// an id are skipped.
pub(crate) fn read(
    content: &[u8],
    bytes_max: u64,
    wanted: impl FnMut(&[FieldInfo]) -> Wanted,
    sink: &mut impl Sink,
) -> Result<(), String> {
    let (schema, mut blocks) = Blocks::of(content, bytes_max)?;
    let mut compiler = Compiler { schema: &schema, wanted, path: Vec::new() };
    let program = match &schema.root {
        Shape::Record(record) => compiler.record(*record)?,
        _ => return Err("has entries that are no records".to_owned()),
    };
    while let Some(block) = blocks.next()? {
        let mut run = Run::of(&block, &schema, blocks.values_left);
        for _ in 0..block.count {
            let before = run.bytes.0;
            run.step(&program, sink)?;
            let encoded = before.len() - run.bytes.0.len();
            sink.end_entry(before.get(..encoded).unwrap_or_default())?;
        }
        if !run.bytes.0.is_empty() {
            return Err(LONG_BLOCK.to_owned());
        }
        blocks.values_left = run.values_left;
        give_way();
    }
    Ok(())
}

/// A step of a program.
#[derive(Debug)]
enum Step {
    Skip(Shape),
    Number(Slot),
    Bool(Slot),
    Text(Slot),
    Fixed(Slot, usize),
    PlainFixed(Slot, usize),
    /// A union of null and another type.
    Optional {
        null: i64,
        value: Box<Step>,
    },
    Record(Vec<Step>),
    /// A list of numbers.
    Numbers(Slot),
    /// A map from integers to numbers, which Iceberg writes as a list of records with a key and a
    /// value.
    NumbersByKey(Slot),
    TextsByKey(Slot),
}

/// Compiles a schema.
struct Compiler<'a, W> {
    schema: &'a Schema,
    wanted: W,
    path: Vec<FieldInfo>,
}

impl<W: FnMut(&[FieldInfo]) -> Wanted> Compiler<'_, W> {
    fn record(&mut self, record: usize) -> Result<Step, String> {
        if self.path.len() > DEPTH_MAX {
            return Err("has a schema that is too deep".to_owned());
        }
        let mut steps = Vec::new();
        for field in self.schema.fields(record) {
            steps.push(self.field(field)?);
        }
        Ok(Step::Record(steps))
    }

    fn field(&mut self, field: &Field) -> Result<Step, String> {
        let Some(id) = field.id else { return Ok(Step::Skip(field.shape.clone())) };
        self.path.push(FieldInfo { id, is_date: field.is_date });
        let step = match (self.wanted)(&self.path) {
            Wanted::Skip => Ok(Step::Skip(field.shape.clone())),
            wanted => self
                .value(&field.shape, wanted)
                .map_err(|()| format!("has a field {} ({id}) of an unexpected type", field.name)),
        };
        self.path.pop();
        step
    }

    fn value(&mut self, shape: &Shape, wanted: Wanted) -> Result<Step, ()> {
        if let Shape::Union(variants) = shape {
            let [one, other] = variants.as_slice() else { return Err(()) };
            let (null, value) = match (one, other) {
                (Shape::Nothing, Shape::Nothing | Shape::Union(_)) => return Err(()),
                (Shape::Nothing, value) => (0, value),
                (Shape::Union(_), Shape::Nothing) => return Err(()),
                (value, Shape::Nothing) => (1, value),
                _ => return Err(()),
            };
            let value = Box::new(self.value(value, wanted)?);
            return Ok(Step::Optional { null, value });
        }
        let slot = match wanted {
            Wanted::Value(slot) => slot,
            Wanted::Skip | Wanted::Enter => {
                let Shape::Record(record) = shape else { return Err(()) };
                return self.record(*record).map_err(|_| ());
            }
        };
        Ok(match shape {
            Shape::Nothing => Step::Skip(Shape::Nothing),
            Shape::Number => Step::Number(slot),
            Shape::Bool => Step::Bool(slot),
            Shape::Text => Step::Text(slot),
            Shape::Fixed(bytes) => Step::Fixed(slot, *bytes),
            Shape::PlainFixed(bytes) => Step::PlainFixed(slot, *bytes),
            Shape::Array(items) => self.list(items, slot)?,
            Shape::Map(_) | Shape::Union(_) | Shape::Record(_) => return Err(()),
        })
    }

    fn list(&self, items: &Shape, slot: Slot) -> Result<Step, ()> {
        let record = match items {
            Shape::Number => return Ok(Step::Numbers(slot)),
            Shape::Record(record) => self.schema.fields(*record),
            _ => return Err(()),
        };
        let [key, value] = record else { return Err(()) };
        match (&key.shape, &value.shape) {
            (Shape::Number, Shape::Number) => Ok(Step::NumbersByKey(slot)),
            (Shape::Number, Shape::Text) => Ok(Step::TextsByKey(slot)),
            _ => Err(()),
        }
    }
}

/// The state of a program in a block.
pub(super) struct Run<'a> {
    pub(super) bytes: Cursor<'a>,
    pub(super) schema: &'a Schema,
    pub(super) fixed: FixedEncoding,
    pub(super) values_left: u64,
}

impl<'a> Run<'a> {
    /// Begins a block.
    pub(super) fn of(block: &'a Block<'_>, schema: &'a Schema, values_left: u64) -> Self {
        let begin = |fixed| Self { bytes: Cursor(&block.bytes), schema, fixed, values_left };
        let (plain, with_length) = (FixedEncoding::Plain, FixedEncoding::WithLength);
        let fits = |fixed| begin(fixed).skip_entries(block.count).is_ok();
        match schema.has_fixed && !fits(plain) && fits(with_length) {
            true => begin(with_length),
            false => begin(plain),
        }
    }

    /// Skips all entries of a block.
    fn skip_entries(&mut self, count: u64) -> Result<(), String> {
        let schema = self.schema;
        for _ in 0..count {
            self.count_value()?;
            self.skip(&schema.root, 0)?;
        }
        if self.bytes.0.is_empty() { Ok(()) } else { Err(LONG_BLOCK.to_owned()) }
    }

    /// Counts a value, and fails if the file has more values than its size allows.
    pub(super) fn count_value(&mut self) -> Result<(), String> {
        self.values_left = self.values_left.checked_sub(1).ok_or(TOO_MANY)?;
        Ok(())
    }

    fn step(&mut self, step: &Step, sink: &mut impl Sink) -> Result<(), String> {
        self.count_value()?;
        match step {
            Step::Skip(shape) => self.skip(shape, 0),
            Step::Number(slot) => sink.number(*slot, self.bytes.long()?),
            Step::Bool(slot) => {
                let bytes = self.bytes.take(1)?;
                sink.number(*slot, i64::from(bytes != [0]))
            }
            Step::Text(slot) => sink.text(*slot, self.bytes.text()?),
            Step::Fixed(slot, bytes) => sink.text(*slot, self.bytes.take(*bytes)?),
            Step::PlainFixed(slot, bytes) => {
                sink.text(*slot, self.bytes.fixed(*bytes, self.fixed)?)
            }
            Step::Optional { null, value } => match self.bytes.long()? {
                variant if variant == *null => Ok(()),
                0 | 1 => self.step(value, sink),
                _ => Err("a union has no such variant".to_owned()),
            },
            Step::Record(steps) => steps.iter().try_for_each(|step| self.step(step, sink)),
            Step::Numbers(slot) => self.items(|run| sink.item(*slot, run.bytes.long()?)),
            Step::NumbersByKey(slot) => self.items(|run| {
                let key = run.key()?;
                sink.number_of(*slot, key, run.bytes.long()?)
            }),
            Step::TextsByKey(slot) => self.items(|run| {
                let key = run.key()?;
                sink.text_of(*slot, key, run.bytes.text()?)
            }),
        }
    }

    fn key(&mut self) -> Result<i32, String> {
        i32::try_from(self.bytes.long()?).map_err(|_| "has a field id that is too large".to_owned())
    }

    fn items(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        while let Some(count) = self.bytes.count()? {
            for _ in 0..count {
                self.count_value()?;
                item(self)?;
            }
        }
        Ok(())
    }

    /// Skips a value that nothing reads.
    pub(super) fn skip(&mut self, shape: &Shape, depth: usize) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(format!("has values that are more than {DEPTH_MAX} deep"));
        }
        match shape {
            Shape::Nothing => Ok(()),
            Shape::Fixed(bytes) => self.bytes.take(*bytes).map(|_| ()),
            Shape::PlainFixed(bytes) => self.bytes.fixed(*bytes, self.fixed).map(|_| ()),
            Shape::Bool => self.bytes.take(1).map(|_| ()),
            Shape::Number => self.bytes.long().map(|_| ()),
            Shape::Text => self.bytes.text().map(|_| ()),
            Shape::Array(items) => self.items(|run| run.skip(items, depth + 1)),
            Shape::Map(values) => self.items(|run| {
                run.bytes.text()?;
                run.skip(values, depth + 1)
            }),
            Shape::Union(variants) => {
                let at = usize::try_from(self.bytes.long()?).ok();
                let variant = at.and_then(|at| variants.get(at));
                self.skip(variant.ok_or("a union has no such variant")?, depth + 1)
            }
            Shape::Record(record) => {
                let schema = self.schema;
                schema.fields(*record).iter().try_for_each(|field| {
                    self.count_value()?;
                    self.skip(&field.shape, depth + 1)
                })
            }
        }
    }
}
