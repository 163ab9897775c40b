//! Exports a whole catalog.

use std::collections::HashMap;
use std::io::Write;

use uuid::Uuid;

use super::line::{End, Function, Header, Line, Namespace, Tabular, VERSION, Warehouse};
use super::{Error, Result};
use slateberg_base::numbers::count;
use slateberg_base::progress::Progress;
use slateberg_model::ident::TabularKind;
use slateberg_store as store;
use slateberg_store::key_space::{ExportRule, KeySpace, LineKind};
use slateberg_store::keys::{
    ApiKeyKey, FunctionKey, GrantKey, Key, LabelsKey, NamespaceKey, PolicyKey, ProtectionKey,
    StoreKey, TabularKey, WarehouseKey,
};
use slateberg_store::read::{KeyRange, StoreRead};
use slateberg_store::records::{FORMAT_WITH_UUIDS, NamespaceRecord, TabularRecord};

/// Oldest format version of a store in which the exported records have the same form as in the
/// newest version.
const EXPORTED_FORMAT_MIN: u32 = FORMAT_WITH_UUIDS;

/// Number of tables and views that one scan reads.
const BATCH: usize = 256;

/// Number of exported or imported lines of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Counts {
    /// Lines, including the first and the last.
    pub lines: usize,
    /// Warehouses.
    pub warehouses: usize,
    /// Namespaces.
    pub namespaces: usize,
    /// Tables.
    pub tables: usize,
    /// Views.
    pub views: usize,
    /// Functions.
    pub functions: usize,
    /// Protections.
    pub protections: usize,
    /// Policies.
    pub policies: usize,
    /// Grants.
    pub grants: usize,
    /// API keys.
    pub api_keys: usize,
}

impl Counts {
    /// Counts a line.
    pub fn add(&mut self, line: &Line) {
        self.lines += 1;
        let count = match line {
            Line::SlatebergExport(_) | Line::End(_) => return,
            Line::Warehouse(_) => &mut self.warehouses,
            Line::Namespace(_) => &mut self.namespaces,
            Line::Table(_) => &mut self.tables,
            Line::View(_) => &mut self.views,
            Line::Function(_) => &mut self.functions,
            Line::Protection(_) => &mut self.protections,
            Line::Policy(_) => &mut self.policies,
            Line::Grant(_) => &mut self.grants,
            Line::ApiKey(_) => &mut self.api_keys,
        };
        *count += 1;
    }
}

/// Writes the lines of a store. The [`ExportRule`] of a key space determines how its records are
/// exported.
pub async fn export(
    store: &impl StoreRead,
    as_of: &str,
    out: &mut impl Write,
    progress: &Progress,
) -> Result<Counts> {
    let format = store.get(&StoreKey).await?;
    let format =
        format.ok_or_else(|| Error::Refused("there is no catalog in the store".to_owned()))?;
    format.check()?;
    if format.format_version < EXPORTED_FORMAT_MIN {
        return Err(format_error(format.format_version));
    }
    let mut lines = Lines { out, counts: Counts::default() };
    let mut positions: HashMap<Uuid, ExportPosition> = HashMap::new();
    // The key spaces are in the order of their keys, so namespaces follow warehouses, and tables
    // follow namespaces.
    for &space in KeySpace::ALL {
        match space.rules().export {
            ExportRule::Header => lines.write(&Line::SlatebergExport(Header {
                version: VERSION,
                catalog_id: format.catalog_id,
                as_of: as_of.to_owned(),
            }))?,
            ExportRule::Lines(kind) => {
                lines_of(kind, store, &mut positions, &mut lines, progress).await?;
            }
            ExportRule::WithTabular | ExportRule::Derive | ExportRule::LeaveOut => {}
        }
    }
    let count = lines.counts.lines + 1;
    lines.write(&Line::End(End { lines: count }))?;
    lines.out.flush()?;
    Ok(lines.counts)
}

/// The full name of a warehouse or namespace.
#[derive(Clone)]
struct ExportPosition {
    warehouse: String,
    namespace: Vec<String>,
}

struct Lines<'a, W> {
    out: &'a mut W,
    counts: Counts,
}

impl<W: Write> Lines<'_, W> {
    fn write(&mut self, line: &Line) -> Result<()> {
        let text = serde_json::to_string(line).map_err(std::io::Error::other)?;
        writeln!(self.out, "{text}")?;
        self.counts.add(line);
        Ok(())
    }
}

/// Writes the records of one kind.
async fn lines_of<W: Write>(
    kind: LineKind,
    store: &impl StoreRead,
    positions: &mut HashMap<Uuid, ExportPosition>,
    lines: &mut Lines<'_, W>,
    progress: &Progress,
) -> Result<()> {
    match kind {
        LineKind::Warehouse => {
            let all = KeyRange::all(KeySpace::WarehouseNames);
            for (WarehouseKey(name), record) in store.scan::<WarehouseKey>(&all, None).await? {
                let position = ExportPosition { warehouse: name.clone(), namespace: Vec::new() };
                positions.insert(record.id, position);
                lines.write(&Line::Warehouse(Box::new(Warehouse::of(name, record))))?;
            }
        }
        LineKind::Namespace => namespaces(store, positions, lines).await?,
        LineKind::Tabular => tabulars(store, positions, lines, progress).await?,
        LineKind::Function => functions(store, positions, lines).await?,
        LineKind::Protection => {
            let all = KeyRange::all(KeySpace::Protections);
            for (key, record) in store.scan::<ProtectionKey>(&all, None).await? {
                lines.write(&Line::Protection((key.0, record).into()))?;
            }
        }
        LineKind::Policy => {
            let all = KeyRange::all(KeySpace::Policies);
            for (_, policy) in store.scan::<PolicyKey>(&all, None).await? {
                lines.write(&Line::Policy(policy.into()))?;
            }
        }
        LineKind::Grant => {
            let all = KeyRange::all(KeySpace::Grants);
            for (_, grant) in store.scan::<GrantKey>(&all, None).await? {
                lines.write(&Line::Grant(grant.into()))?;
            }
        }
        LineKind::ApiKey => {
            let all = KeyRange::all(KeySpace::ApiKeys);
            for (_, key) in store.scan::<ApiKeyKey>(&all, None).await? {
                lines.write(&Line::ApiKey(key.into()))?;
            }
        }
    }
    Ok(())
}

/// Writes namespaces. Each namespace follows its parent.
async fn namespaces<W: Write>(
    store: &impl StoreRead,
    positions: &mut HashMap<Uuid, ExportPosition>,
    lines: &mut Lines<'_, W>,
) -> Result<()> {
    let mut children: HashMap<Uuid, Vec<NamespaceRecord>> = HashMap::new();
    let all = KeyRange::all(KeySpace::Namespaces);
    let mut left = 0;
    for (_, record) in store.scan::<NamespaceKey>(&all, None).await? {
        left += 1;
        children.entry(record.parent).or_default().push(record);
    }
    let mut parents: Vec<Uuid> = positions.keys().copied().collect();
    parents.sort_by(|one, other| positions[one].warehouse.cmp(&positions[other].warehouse));
    while let Some(parent) = parents.pop() {
        let Some(position) = positions.get(&parent).cloned() else { continue };
        let mut below = children.remove(&parent).unwrap_or_default();
        below.sort_by(|one, other| one.name.cmp(&other.name));
        for record in below {
            left -= 1;
            let mut namespace = position.namespace.clone();
            namespace.push(record.name.clone());
            let own = ExportPosition { warehouse: position.warehouse.clone(), namespace };
            lines.write(&Line::Namespace(Namespace {
                warehouse: own.warehouse.clone(),
                namespace: own.namespace.clone(),
                id: record.id,
                properties: record.properties,
                version: record.version,
                created_at_ms: record.created_ms,
                owner: record.owner,
            }))?;
            positions.insert(record.id, own);
            parents.push(record.id);
        }
    }
    if left > 0 {
        let orphans = count(left, "namespace without a parent", "namespaces without a parent");
        return Err(Error::Refused(format!("cannot export {orphans}. Run slateberg fsck")));
    }
    Ok(())
}

async fn tabulars<W: Write>(
    store: &impl StoreRead,
    positions: &HashMap<Uuid, ExportPosition>,
    lines: &mut Lines<'_, W>,
    progress: &Progress,
) -> Result<()> {
    let mut phase = progress.phase("counting tables and views", None);
    let mut total = 0;
    // This additional scan is cheap, because a record is small compared with the metadata document
    // that the export reads for it.
    let mut entries = store.iterate(&KeyRange::all(KeySpace::Tabulars)).await?;
    while entries.next().await.map_err(store::Error::from)?.is_some() {
        total += 1;
        phase.advance(1);
    }
    phase.next("exporting tables and views", Some(total));
    let mut after = None;
    loop {
        let range = KeyRange::all(KeySpace::Tabulars).behind(after.take());
        let batch = store.scan::<TabularKey>(&range, Some(BATCH)).await?;
        let Some((last, _)) = batch.last() else { return Ok(()) };
        after = Some(last.encode());
        for (_, record) in batch {
            lines.write(&tabular(store, positions, record).await?)?;
            phase.advance(1);
        }
    }
}

async fn functions<W: Write>(
    store: &impl StoreRead,
    positions: &HashMap<Uuid, ExportPosition>,
    lines: &mut Lines<'_, W>,
) -> Result<()> {
    let mut after = None;
    loop {
        let range = KeyRange::all(KeySpace::Functions).behind(after.take());
        let batch = store.scan::<FunctionKey>(&range, Some(BATCH)).await?;
        let Some((last, _)) = batch.last() else { return Ok(()) };
        after = Some(last.encode());
        for (_, record) in batch {
            let position = positions.get(&record.namespace).cloned().ok_or_else(|| {
                let id = record.id;
                Error::Refused(format!(
                    "cannot export function {id}: it has no namespace. Run slateberg fsck"
                ))
            })?;
            lines.write(&Line::Function(Function {
                warehouse: position.warehouse,
                namespace: position.namespace,
                name: record.name,
                id: record.id,
                version: record.version,
                created_at_ms: record.created_ms,
                updated_at_ms: record.updated_ms,
                owner: record.owner,
                metadata: record.metadata,
            }))?;
        }
    }
}

async fn tabular(
    store: &impl StoreRead,
    positions: &HashMap<Uuid, ExportPosition>,
    record: TabularRecord,
) -> Result<Line> {
    let broken = |what: &str| {
        Error::Refused(format!(
            "cannot export {} {}: it {what}. Run slateberg fsck",
            record.kind.name(),
            record.id
        ))
    };
    let position =
        positions.get(&record.namespace).ok_or_else(|| broken("has no namespace"))?.clone();
    let document = store.document(record.id).await?;
    let document = document.ok_or_else(|| broken("has no metadata"))?;
    let metadata = String::from_utf8(document.text.to_bytes().to_vec());
    let metadata = metadata.map_err(|_| broken("has metadata that is not UTF-8"))?;
    let line = Tabular {
        warehouse: position.warehouse,
        namespace: position.namespace,
        name: record.name,
        id: record.id,
        uuid: record.uuid,
        metadata_location: record.metadata_location,
        version: record.version,
        created_at_ms: record.created_ms,
        updated_at_ms: record.updated_ms,
        owner: record.owner,
        metadata,
        labels: store.get(&LabelsKey(record.id)).await?.map(Into::into),
    };
    Ok(match record.kind {
        TabularKind::Table => Line::Table(line),
        TabularKind::View => Line::View(line),
    })
}

fn format_error(found: u32) -> Error {
    Error::Refused(format!(
        "the store or checkpoint has format version {found}, and this slateberg exports {EXPORTED_FORMAT_MIN} and later: start \
         a server on the store, which upgrades it, or restore the checkpoint first"
    ))
}
