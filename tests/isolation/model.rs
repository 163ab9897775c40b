//! [`State`]: a model of the catalog that performs one request after the other.

use std::collections::{BTreeMap, BTreeSet};

/// The levels of a namespace.
pub type Namespace = &'static [&'static str];
/// A table's name: its namespace, and its own.
pub type Name = (Namespace, &'static str);

/// A request of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    CreateNamespace(Namespace),
    DropNamespace(Namespace),
    NamespaceExists(Namespace),
    /// Sets a property that no other request sets.
    Describe(Namespace, u32),
    LoadNamespace(Namespace),
    ListTables(Namespace),
    CreateTable(Name),
    DropTable(Name),
    Rename(Name, Name),
    Exists(Name),
    Load(Name),
    /// Sets a property that no other request sets.
    Set(Name, u32),
    /// Appends a snapshot, if the main branch still ends with the snapshot that the client read
    /// last.
    Append {
        table: Name,
        id: i64,
        parent: Option<i64>,
        sequence_number: i64,
    },
    /// Sets a property in several tables atomically, if the main branch of the first one still ends
    /// with `parent`.
    Transact {
        tables: Vec<Name>,
        property: u32,
        parent: Option<i64>,
    },
}

/// The outcome in a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Table(Table),
    Names(Vec<String>),
    Properties(BTreeSet<u32>),
    NoSuchNamespace,
    NoSuchTable,
    AlreadyExists,
    NotEmpty,
    Conflict,
}

/// The visible state of a table.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Table {
    /// Distinguishes the table from others that have the same name at other times.
    pub uuid: String,
    pub properties: BTreeSet<u32>,
    pub snapshots: Vec<i64>,
}

/// The state of a catalog.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct State {
    namespaces: BTreeMap<Namespace, BTreeSet<u32>>,
    tables: BTreeMap<Name, Table>,
}

impl State {
    /// Returns the state after an operation. `None` if the operation cannot have this outcome in
    /// this state.
    pub fn after(&self, op: &Op, outcome: &Outcome) -> Option<Self> {
        let mut next = self.clone();
        let expected = match (op, outcome) {
            // A transaction with two errors may be rejected for either.
            (Op::Transact { tables, parent, .. }, Outcome::Conflict) => {
                let first = self.tables.get(&tables[0])?;
                let fits = first.snapshots.last().copied() == *parent;
                return (!fits).then_some(next);
            }
            // The response reports only success, and does not contain the resulting table.
            (Op::Set(..) | Op::Append { .. }, Outcome::Done) => {
                return matches!(next.apply(op), Outcome::Table(_)).then_some(next);
            }
            // The catalog chooses the UUID of the new table.
            (Op::CreateTable(name), Outcome::Table(table)) => {
                let new = Table { uuid: table.uuid.clone(), ..Table::default() };
                next.create_table(*name, new)
            }
            _ => next.apply(op),
        };
        (expected == *outcome).then_some(next)
    }

    fn apply(&mut self, op: &Op) -> Outcome {
        match op {
            Op::CreateNamespace(namespace) => self.create_namespace(namespace),
            Op::DropNamespace(namespace) => self.drop_namespace(namespace),
            Op::NamespaceExists(namespace) => match self.has(namespace) {
                true => Outcome::Done,
                false => Outcome::NoSuchNamespace,
            },
            Op::Describe(namespace, property) => match self.namespaces.get_mut(namespace) {
                Some(properties) => {
                    properties.insert(*property);
                    Outcome::Done
                }
                None => Outcome::NoSuchNamespace,
            },
            Op::LoadNamespace(namespace) => match self.namespaces.get(namespace) {
                Some(properties) => Outcome::Properties(properties.clone()),
                None => Outcome::NoSuchNamespace,
            },
            Op::ListTables(namespace) => self.list(namespace),
            Op::CreateTable(name) => self.create_table(*name, Table::default()),
            Op::DropTable(name) => match self.tables.remove(name) {
                Some(_) => Outcome::Done,
                None => Outcome::NoSuchTable,
            },
            Op::Rename(from, to) => self.rename(*from, *to),
            Op::Exists(name) => match self.tables.contains_key(name) {
                true => Outcome::Done,
                false => Outcome::NoSuchTable,
            },
            Op::Load(name) => self.change(name, |_| true),
            Op::Set(name, property) => {
                self.change(name, |table| table.properties.insert(*property))
            }
            Op::Append { table, id, parent, .. } => self.change(table, |table| {
                let fits = table.snapshots.last().copied() == *parent;
                if fits {
                    table.snapshots.push(*id);
                }
                fits
            }),
            Op::Transact { tables, property, parent } => self.transact(tables, *property, *parent),
        }
    }

    fn has(&self, namespace: Namespace) -> bool {
        self.namespaces.contains_key(namespace)
    }

    fn create_namespace(&mut self, namespace: Namespace) -> Outcome {
        let parent = &namespace[..namespace.len() - 1];
        if !parent.is_empty() && !self.has(parent) {
            return Outcome::NoSuchNamespace;
        }
        if self.has(namespace) {
            return Outcome::AlreadyExists;
        }
        self.namespaces.insert(namespace, BTreeSet::new());
        Outcome::Done
    }

    fn drop_namespace(&mut self, namespace: Namespace) -> Outcome {
        if !self.has(namespace) {
            return Outcome::NoSuchNamespace;
        }
        let below = |it: &Namespace| it.len() > namespace.len() && it.starts_with(namespace);
        let holds_tables = self.tables.keys().any(|name| name.0 == namespace);
        if holds_tables || self.namespaces.keys().any(below) {
            return Outcome::NotEmpty;
        }
        self.namespaces.remove(namespace);
        Outcome::Done
    }

    fn list(&self, namespace: Namespace) -> Outcome {
        if !self.has(namespace) {
            return Outcome::NoSuchNamespace;
        }
        let here = self.tables.keys().filter(|name| name.0 == namespace);
        Outcome::Names(here.map(|name| name.1.to_owned()).collect())
    }

    fn create_table(&mut self, name: Name, table: Table) -> Outcome {
        if !self.has(name.0) {
            return Outcome::NoSuchNamespace;
        }
        if self.tables.contains_key(&name) {
            return Outcome::AlreadyExists;
        }
        self.tables.insert(name, table.clone());
        Outcome::Table(table)
    }

    fn rename(&mut self, from: Name, to: Name) -> Outcome {
        let Some(table) = self.tables.get(&from).cloned() else { return Outcome::NoSuchTable };
        if from == to {
            return Outcome::Done;
        }
        if !self.has(to.0) {
            return Outcome::NoSuchNamespace;
        }
        if self.tables.contains_key(&to) {
            return Outcome::AlreadyExists;
        }
        self.tables.remove(&from);
        self.tables.insert(to, table);
        Outcome::Done
    }

    fn change(&mut self, name: &Name, change: impl FnOnce(&mut Table) -> bool) -> Outcome {
        let Some(table) = self.tables.get_mut(name) else { return Outcome::NoSuchTable };
        match change(table) {
            true => Outcome::Table(table.clone()),
            false => Outcome::Conflict,
        }
    }

    fn transact(&mut self, tables: &[Name], property: u32, parent: Option<i64>) -> Outcome {
        if tables.iter().any(|name| !self.tables.contains_key(name)) {
            return Outcome::NoSuchTable;
        }
        if self.tables[&tables[0]].snapshots.last().copied() != parent {
            return Outcome::Conflict;
        }
        for name in tables {
            self.change(name, |table| table.properties.insert(property));
        }
        Outcome::Done
    }
}
