//! Reads and validates all lines before the first is written.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::BufRead;

use uuid::Uuid;

use super::export::Counts;
use super::line::{Function, Line, Namespace, Tabular, VERSION, Warehouse};
use super::{Error, Result};
use crate::location_index::further_paths;
use slateberg_authz::notation;
use slateberg_base::progress::Phase;
use slateberg_model::ident::TabularKind;
use slateberg_model::table::TableMetadata;
use slateberg_model::view::ViewMetadata;
use slateberg_model::warehouse::validate_name;
use slateberg_objects::location::Location;
use slateberg_objects::reserved::{Extent, Reserved};
use slateberg_store::policy_snapshot::PolicySnapshot;

/// The name of a warehouse, and the levels of a namespace in it. There are no levels for the
/// warehouse itself.
pub(super) type QualifiedName = (String, Vec<String>);

/// The part of the validated lines that the import needs.
#[derive(Debug, Default)]
pub struct CheckedExport {
    /// The number of lines.
    pub counts: Counts,
    /// The warehouses.
    pub warehouses: Vec<Warehouse>,
    /// The policies and grants.
    pub book: PolicySnapshot,
    /// The ids of warehouses and namespaces, by name.
    pub(super) ids_by_name: HashMap<QualifiedName, Uuid>,
    /// All ids.
    pub(super) ids: HashSet<Uuid>,
    names: HashSet<(QualifiedName, String)>,
    functions: HashSet<(QualifiedName, String)>,
    /// Ids of everything that can be protected.
    resources: HashSet<Uuid>,
    /// Ids and names of protected resources, whose lines may come later.
    protected: BTreeMap<Uuid, String>,
    /// Paths that the target catalog reserves.
    reserved: Reserved,
    ended: bool,
}

/// Properties in the metadata of a table or view.
pub(super) struct PropertiesLine {
    pub(super) uuid: Uuid,
    pub(super) location: String,
    pub(super) properties: BTreeMap<String, String>,
}

/// Reads lines one by one.
pub(super) struct Reader<R> {
    lines: R,
    text: Vec<u8>,
    number: usize,
}

impl<R: BufRead> Reader<R> {
    pub(super) fn new(lines: R) -> Self {
        Self { lines, text: Vec::new(), number: 0 }
    }

    /// Returns the next line with its number. `None` at the end of the file.
    pub(super) fn read(&mut self) -> Result<Option<(usize, Line)>> {
        self.text.clear();
        if self.lines.read_until(b'\n', &mut self.text)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        let line = serde_json::from_slice(&self.text);
        let wrong = |error: serde_json::Error| {
            at(self.number, &format!("not a line of an export: {error}"))
        };
        Ok(Some((self.number, line.map_err(wrong)?)))
    }
}

pub(super) fn at(number: usize, reason: &str) -> Error {
    Error::Line { number, reason: reason.to_owned() }
}

/// Validates all lines. Three checks apply to each line: the line alone, the line together with the
/// earlier lines, and its paths against those that the target catalog reserves. Reports the number
/// of processed bytes to `bytes`.
pub fn check(lines: impl BufRead, reserved: &Reserved, bytes: &Phase) -> Result<CheckedExport> {
    let mut checked = CheckedExport { reserved: reserved.clone(), ..CheckedExport::default() };
    let mut lines = Reader::new(lines);
    while let Some((number, line)) = lines.read()? {
        bytes.advance(lines.text.len() as u64);
        checked.counts.add(&line);
        checked.line(number, line).map_err(|reason| at(number, &reason))?;
    }
    if !checked.ended {
        return Err(at(checked.counts.lines + 1, "the last line is missing: the file was cut off"));
    }
    Ok(checked)
}

impl CheckedExport {
    fn line(&mut self, number: usize, line: Line) -> std::result::Result<(), String> {
        if self.ended {
            return Err("the file continues after the last line".to_owned());
        }
        match (number, &line) {
            (1, Line::SlatebergExport(header)) if header.version > VERSION => {
                return Err(format!(
                    "the export has version {}, but this slateberg supports versions up to {VERSION}",
                    header.version
                ));
            }
            (1, Line::SlatebergExport(_)) => return Ok(()),
            (1, _) | (_, Line::SlatebergExport(_)) => {
                return Err(
                    "expected \"type\":\"slateberg-export\" in the first line, and only in the first line".to_owned()
                );
            }
            _ => {}
        }
        match line {
            Line::SlatebergExport(_) => Ok(()),
            Line::Warehouse(warehouse) => self.warehouse(*warehouse),
            Line::Namespace(namespace) => self.namespace(&namespace),
            Line::Table(table) => self.tabular(TabularKind::Table, &table),
            Line::View(view) => self.tabular(TabularKind::View, &view),
            Line::Function(function) => self.function(&function),
            Line::Protection(protection) => {
                notation::resource(&protection.resource).map_err(|error| error.to_string())?;
                match self.protected.insert(protection.id, protection.resource) {
                    Some(resource) => Err(format!("{resource} is protected twice")),
                    None => Ok(()),
                }
            }
            Line::Policy(policy) => {
                let id = policy.id.clone();
                match self.book.policies.insert(id.clone(), policy.into()) {
                    Some(_) => Err(format!("policy {id} occurs twice")),
                    None => Ok(()),
                }
            }
            Line::Grant(grant) => {
                self.new_id(grant.id)?;
                self.book.grants.insert(grant.id, grant.into());
                Ok(())
            }
            Line::ApiKey(key) => self.new_id(key.id),
            Line::End(end) if end.lines == number => {
                self.ended = true;
                let mut protected = self.protected.iter();
                match protected.find(|(id, _)| !self.resources.contains(*id)) {
                    Some((_, resource)) => {
                        Err(format!("{resource} is protected, but is not in the export"))
                    }
                    None => Ok(()),
                }
            }
            Line::End(end) => Err(format!("expected {} lines, this is line {number}", end.lines)),
        }
    }

    fn new_id(&mut self, id: Uuid) -> std::result::Result<(), String> {
        if self.ids.insert(id) { Ok(()) } else { Err(format!("the id {id} occurs twice")) }
    }

    fn new_resource(&mut self, id: Uuid) -> std::result::Result<(), String> {
        self.resources.insert(id);
        self.new_id(id)
    }

    fn warehouse(&mut self, warehouse: Warehouse) -> std::result::Result<(), String> {
        validate_name(&warehouse.name).map_err(|refusal| refusal.to_string())?;
        self.new_resource(warehouse.id)?;
        let name = (warehouse.name.clone(), Vec::new());
        if self.ids_by_name.insert(name, warehouse.id).is_some() {
            return Err(format!("warehouse '{}' occurs twice", warehouse.name));
        }
        self.warehouses.push(warehouse);
        Ok(())
    }

    fn namespace(&mut self, line: &Namespace) -> std::result::Result<(), String> {
        let Some((name, parent)) = line.namespace.split_last() else {
            return Err("a namespace has at least one level".to_owned());
        };
        if name.is_empty() {
            return Err("the name of a namespace may not be empty".to_owned());
        }
        let parent = (line.warehouse.clone(), parent.to_vec());
        if !self.ids_by_name.contains_key(&parent) {
            return Err(format!("its parent is not in an earlier line: {parent:?}"));
        }
        self.new_resource(line.id)?;
        let name = (line.warehouse.clone(), line.namespace.clone());
        match self.ids_by_name.insert(name, line.id) {
            Some(_) => Err(format!("namespace {:?} occurs twice", line.namespace)),
            None => Ok(()),
        }
    }

    /// Rejects reserved locations. Locations of tables may overlap, as in the exported catalog.
    fn check_locations(&self, described: &PropertiesLine) -> std::result::Result<(), String> {
        let mut locations = further_paths(&described.location, &described.properties);
        locations.push(described.location.clone());
        for location in locations.iter().filter_map(|location| Location::parse(location).ok()) {
            if let Some(reserved) = self.reserved.overlapping(&Extent::of(&location)) {
                let what = reserved.what;
                return Err(format!("its location '{location}' cannot be used: {what} is there"));
            }
        }
        Ok(())
    }

    fn function(&mut self, line: &Function) -> std::result::Result<(), String> {
        let name = (line.warehouse.clone(), line.namespace.clone());
        if line.namespace.is_empty() || !self.ids_by_name.contains_key(&name) {
            return Err(format!("its namespace is not in an earlier line: {name:?}"));
        }
        if line.name.is_empty() || line.version == 0 {
            return Err("its name is empty, or its version is 0".to_owned());
        }
        self.new_resource(line.id)?;
        match self.functions.insert((name, line.name.clone())) {
            true => Ok(()),
            false => Err(format!("there is a function '{}' already", line.name)),
        }
    }

    fn tabular(&mut self, kind: TabularKind, line: &Tabular) -> std::result::Result<(), String> {
        let name = (line.warehouse.clone(), line.namespace.clone());
        if !self.ids_by_name.contains_key(&name) {
            return Err(format!("its namespace is not in an earlier line: {name:?}"));
        }
        if line.name.is_empty() || line.version == 0 {
            return Err("its name is empty, or its version is 0".to_owned());
        }
        self.new_resource(line.id)?;
        if !self.names.insert((name, line.name.clone())) {
            return Err(format!("there is a table or view '{}' already", line.name));
        }
        let described = described(kind, &line.metadata)?;
        self.check_locations(&described)?;
        if described.uuid != line.uuid {
            return Err(format!(
                "its metadata has the UUID {}, but the line has {}",
                described.uuid, line.uuid
            ));
        }
        Ok(())
    }
}

/// Parses metadata.
pub(super) fn described(
    kind: TabularKind,
    metadata: &str,
) -> std::result::Result<PropertiesLine, String> {
    let described = match kind {
        TabularKind::Table => TableMetadata::parse(metadata.as_bytes()).map(|it| PropertiesLine {
            uuid: it.table_uuid,
            location: it.location,
            properties: it.properties,
        }),
        TabularKind::View => ViewMetadata::parse(metadata.as_bytes()).map(|it| PropertiesLine {
            uuid: it.view_uuid,
            location: it.location,
            properties: it.properties,
        }),
    };
    described.map_err(|refusal| format!("its metadata cannot be read: {refusal}"))
}
