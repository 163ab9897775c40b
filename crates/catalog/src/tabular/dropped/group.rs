//! [`DroppedGroup`]: a dropped namespace with everything that was dropped with it.

use std::collections::HashMap;
use std::sync::Arc;

use uuid::Uuid;

use super::BATCH;
use crate::attributes::{attributes_of_function, attributes_of_levels, attributes_of_namespace};
use crate::tabular::Tabulars;
use crate::{Error, RequestContext, Result};
use slateberg_authz::action::{
    Action, Create, CreateNamespace, DescribeNamespace, Load, PurgeNow, Undrop,
};
use slateberg_authz::authority::{Decider, PrincipalDecider};
use slateberg_authz::permit::Permit;
use slateberg_authz::resource::{Attributes, Node, Resource};
use slateberg_model::ident::{NamespaceIdent, TabularIdent};
use slateberg_model::members::brief;
use slateberg_model::warehouse::Warehouse;
use slateberg_store::dropped::{DroppedNamespace, DroppedTabular};
use slateberg_store::functions::FunctionRecord;
use slateberg_store::key_space::KeySpace;
use slateberg_store::keys::{DroppedFunctionKey, DroppedKey, DroppedNamespaceKey, Key};
use slateberg_store::read::{KeyRange, StoreRead};

/// Actions on dropped namespaces and their contents, and actions that make them visible.
const ACTIONS: [&str; 6] = [
    Undrop::NAME,
    PurgeNow::NAME,
    DescribeNamespace::NAME,
    Load::NAME,
    Create::NAME,
    CreateNamespace::NAME,
];

/// A dropped namespace with everything that was dropped with it and that is still retained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DroppedGroup {
    /// The namespaces, each after the namespace that contains it. The first one is the namespace of
    /// the request.
    pub(super) namespaces: Vec<DroppedNamespace>,
    pub(super) tabulars: Vec<DroppedTabular>,
    /// The functions with their former names.
    pub(super) functions: Vec<(TabularIdent, FunctionRecord)>,
}

/// The permits to restore everything in a group.
pub(super) struct GroupPermits {
    pub(super) namespaces: Vec<Permit<Undrop>>,
    pub(super) tabulars: Vec<Permit<Undrop>>,
    pub(super) functions: Vec<Permit<Undrop>>,
}

/// Attributes of namespaces, by their levels. Empty if no policy uses attributes.
type KnownLevels = HashMap<Vec<String>, Arc<Attributes>>;

/// A kind of resource that a group contains.
enum Leaf<'a> {
    Tabular(&'a DroppedTabular),
    Function(&'a FunctionRecord),
}

impl Tabulars {
    /// Returns the dropped namespace with this name that was dropped last, or the one with this id.
    /// `None` if it does not exist, or if its retention has ended.
    pub(super) async fn find_dropped_namespace(
        &self,
        warehouse: &Warehouse,
        ident: &NamespaceIdent,
        id: Option<Uuid>,
    ) -> Result<Option<DroppedNamespace>> {
        let until_ms = self.core.now_ms().saturating_sub(self.core.dropped_kept_ms(warehouse.id));
        let is_meant = |dropped: &DroppedNamespace| {
            id.is_none_or(|id| id == dropped.record.id)
                && dropped.record.warehouse == warehouse.id
                && dropped.namespace == ident.0
                && dropped.dropped_ms > until_ms
        };
        let dropped = self.dropped_namespaces(is_meant).await?;
        Ok(dropped.into_iter().max_by_key(|it| (it.dropped_ms, it.dropped_with)))
    }

    async fn dropped_namespaces(
        &self,
        is_meant: impl Fn(&DroppedNamespace) -> bool,
    ) -> Result<Vec<DroppedNamespace>> {
        let store = self.core.store().latest();
        let (mut range, mut found) = (KeyRange::all(KeySpace::DroppedNamespaces), Vec::new());
        loop {
            let batch = store.scan::<DroppedNamespaceKey>(&range, Some(BATCH)).await?;
            let Some((last, _)) = batch.last() else { return Ok(found) };
            range = range.behind(Some(last.encode()));
            found.extend(batch.into_iter().map(|(_, dropped)| dropped).filter(&is_meant));
        }
    }

    /// Reads everything that was dropped together with a namespace and inside of it.
    pub(super) async fn dropped_group(&self, root: DroppedNamespace) -> Result<DroppedGroup> {
        let store = self.core.store().latest();
        let drop = root.dropped_with;
        let others = self.dropped_namespaces(|it| it.dropped_with == drop).await?;
        let mut children: HashMap<Uuid, Vec<DroppedNamespace>> = HashMap::new();
        for namespace in others {
            children.entry(namespace.record.parent).or_default().push(namespace);
        }
        let mut group =
            DroppedGroup { namespaces: vec![root], tabulars: Vec::new(), functions: Vec::new() };
        let mut read = 0;
        while let Some(namespace) = group.namespaces.get(read) {
            read += 1;
            let (id, ident) = (namespace.record.id, namespace.ident());
            let below = KeyRange::below(KeySpace::DroppedFunctions, id);
            let functions = store.scan::<DroppedFunctionKey>(&below, None).await?;
            group.functions.extend(functions.into_iter().map(|(key, record)| {
                let namespace = ident.clone();
                (TabularIdent { namespace, name: key.name }, record)
            }));
            let mut below = children.remove(&id).unwrap_or_default();
            below.sort_by(|one, other| one.record.name.cmp(&other.record.name));
            group.namespaces.extend(below);
        }
        let inside: HashMap<_, _> =
            group.namespaces.iter().enumerate().map(|(at, it)| (it.record.id, at)).collect();
        let mut range = KeyRange::all(KeySpace::Dropped);
        loop {
            let batch = store.scan::<DroppedKey>(&range, Some(BATCH)).await?;
            let Some((last, _)) = batch.last() else { break };
            range = range.behind(Some(last.encode()));
            let members = batch.into_iter().map(|(_, dropped)| dropped).filter(|dropped| {
                dropped.dropped_with == Some(drop) && inside.contains_key(&dropped.record.namespace)
            });
            group.tabulars.extend(members);
        }
        group.tabulars.sort_by_cached_key(|dropped| {
            let record = &dropped.record;
            (inside.get(&record.namespace).copied(), record.kind.name(), record.name.clone())
        });
        Ok(group)
    }

    /// Returns a dropped namespace as a resource, for permissions on its former name.
    pub(super) async fn dropped_namespace_resource(
        &self,
        warehouse: &Warehouse,
        dropped: &DroppedNamespace,
    ) -> Result<Resource> {
        let policies = self.core.access.authority.policies();
        let wanted = ACTIONS.iter().any(|action| policies.asks(action).attributes);
        let levels = match wanted {
            true => {
                let mut levels = self.known_levels(warehouse, &dropped.ident()).await?;
                let attributes = attributes_of_namespace(&dropped.record);
                levels.insert(dropped.namespace.clone(), Arc::new(attributes));
                levels
            }
            false => KnownLevels::new(),
        };
        Ok(namespace_at(warehouse, &dropped.namespace, &levels))
    }

    /// Returns the attributes of the existing namespaces that enclose a namespace.
    async fn known_levels(
        &self,
        warehouse: &Warehouse,
        ident: &NamespaceIdent,
    ) -> Result<KnownLevels> {
        let parent = NamespaceIdent(ident.0.split_last().map_or(&[][..], |(_, it)| it).to_vec());
        let store = self.core.store().latest();
        let attributes = attributes_of_levels(&store, warehouse, &parent).await?;
        let levels = attributes.into_iter().skip(1).enumerate();
        Ok(levels.map(|(at, attributes)| (parent.0[..=at].to_vec(), attributes)).collect())
    }

    /// Returns the permits to restore a group. If the namespace gets another name, also checks the
    /// permissions to create its contents under the new names.
    pub(super) async fn permits_of_group(
        &self,
        cx: &RequestContext,
        group: &DroppedGroup,
        (requested, new_root): (&str, &NamespaceIdent),
    ) -> Result<GroupPermits> {
        let asking = match self.core.access.ask(&cx.operation)? {
            Decider::Unrestricted(unrestricted) => {
                return Ok(GroupPermits {
                    namespaces: group.namespaces.iter().map(|_| unrestricted.permit()).collect(),
                    tabulars: group.tabulars.iter().map(|_| unrestricted.permit()).collect(),
                    functions: group.functions.iter().map(|_| unrestricted.permit()).collect(),
                });
            }
            Decider::Policies(asking) => asking,
        };
        let wanted = asking.wants_attributes(&ACTIONS);
        let root = group.root();
        let (mut levels, mut new_levels) = match wanted {
            true => (
                self.known_levels(&cx.warehouse, &root).await?,
                self.known_levels(&cx.warehouse, new_root).await?,
            ),
            false => (KnownLevels::new(), KnownLevels::new()),
        };
        if wanted {
            for dropped in &group.namespaces {
                let attributes = attributes_of_namespace(&dropped.record);
                let moved = group.moved(&dropped.ident(), new_root);
                let new = Attributes { owner: cx.operation.owner(), ..attributes.clone() };
                new_levels.insert(moved.0, Arc::new(new));
                levels.insert(dropped.namespace.clone(), Arc::new(attributes));
            }
        }
        let is_moved = root != *new_root;
        let evaluation =
            Evaluation { tabulars: self, cx, asking: &asking, requested, root: root.clone() };
        let mut permits =
            GroupPermits { namespaces: Vec::new(), tabulars: Vec::new(), functions: Vec::new() };
        for dropped in &group.namespaces {
            let resource = namespace_at(&cx.warehouse, &dropped.namespace, &levels);
            let is_root = dropped.namespace == root.0;
            permits.namespaces.push(evaluation.permit::<DescribeNamespace>(&resource, is_root)?);
            if is_moved {
                let moved = group.moved(&dropped.ident(), new_root);
                let resource = namespace_at(&cx.warehouse, &moved.0, &new_levels);
                evaluation.require::<CreateNamespace>(&resource)?;
            }
        }
        let levels = (&levels, &new_levels);
        let tabulars = group.tabulars.iter().map(|it| (it.ident(), Leaf::Tabular(it)));
        for (ident, leaf) in tabulars {
            let permit = evaluation.leaf(group, (&ident, leaf), levels, (wanted, new_root)).await?;
            permits.tabulars.push(permit);
        }
        for (ident, record) in &group.functions {
            let leaf = Leaf::Function(record);
            let permit = evaluation.leaf(group, (ident, leaf), levels, (wanted, new_root)).await?;
            permits.functions.push(permit);
        }
        Ok(permits)
    }
}

/// The evaluation of the permissions on a group.
struct Evaluation<'a> {
    tabulars: &'a Tabulars,
    cx: &'a RequestContext,
    asking: &'a PrincipalDecider<'a>,
    requested: &'a str,
    root: NamespaceIdent,
}

impl Evaluation<'_> {
    /// Returns the permit to restore a table, view or function of a group. If the namespace gets
    /// another name, also checks the permission to create the resource under its new name.
    async fn leaf(
        &self,
        group: &DroppedGroup,
        (ident, leaf): (&TabularIdent, Leaf<'_>),
        (levels, new_levels): (&KnownLevels, &KnownLevels),
        (wanted, new_root): (bool, &NamespaceIdent),
    ) -> Result<Permit<Undrop>> {
        let Self { tabulars, cx, .. } = *self;
        let mut attributes = None;
        if wanted {
            attributes = Some(match &leaf {
                Leaf::Tabular(dropped) => tabulars.attributes_of_dropped(&dropped.record).await?,
                Leaf::Function(record) => attributes_of_function(record),
            });
        }
        let at = |inside: Resource, attributes: Option<Attributes>| {
            let node = match attributes {
                Some(attributes) => Node::known(&ident.name, Arc::new(attributes)),
                None => Node::named(&ident.name),
            };
            match &leaf {
                Leaf::Tabular(dropped) => inside.tabular(dropped.record.kind, node),
                Leaf::Function(_) => inside.function(node),
            }
        };
        let inside = namespace_at(&cx.warehouse, &ident.namespace.0, levels);
        let permit = self.permit::<Load>(&at(inside, attributes.clone()), false)?;
        if self.root != *new_root {
            let moved = group.moved(&ident.namespace, new_root);
            let inside = namespace_at(&cx.warehouse, &moved.0, new_levels);
            let owner = cx.operation.owner();
            let attributes = attributes.map(|it| Attributes { owner, ..it });
            self.require::<Create>(&at(inside, attributes))?;
        }
        Ok(permit)
    }

    /// Returns the permit to restore a resource. A caller with `V` may see the resource. The error
    /// names no resource that the caller may not see.
    fn permit<V: Action>(&self, resource: &Resource, is_root: bool) -> Result<Permit<Undrop>> {
        self.asking.permit(resource).map_err(|denied| {
            let visible = self.asking.may::<V>(resource);
            let absent = (!visible).then(|| super::no_such_dropped(self.requested));
            let access = &self.tabulars.core.access;
            let error = access.refuse(&self.cx.operation, &denied, resource, absent);
            match visible || is_root {
                true => error,
                false => Error::Forbidden(format!(
                    "Not allowed: restoring {}: it contains resources that the principal may not \
                     restore",
                    brief(&self.root)
                )),
            }
        })
    }

    /// Checks the permission for `A` on a new name.
    fn require<A: Action>(&self, resource: &Resource) -> Result<()> {
        let permit = self.asking.permit::<A>(resource);
        let access = &self.tabulars.core.access;
        permit
            .map(drop)
            .map_err(|denied| access.refuse(&self.cx.operation, &denied, resource, None))
    }
}

impl DroppedGroup {
    /// Returns the former name of the namespace of the request.
    pub(super) fn root(&self) -> NamespaceIdent {
        self.namespaces.first().map(DroppedNamespace::ident).unwrap_or_default()
    }

    /// Returns the new name of a namespace in the group.
    pub(super) fn moved(
        &self,
        former: &NamespaceIdent,
        new_root: &NamespaceIdent,
    ) -> NamespaceIdent {
        let inside = former.0.get(self.root().0.len()..).unwrap_or_default();
        NamespaceIdent([&new_root.0[..], inside].concat())
    }
}

/// Returns a namespace as a resource, with the attributes of the known levels.
fn namespace_at(warehouse: &Warehouse, levels: &[String], known: &KnownLevels) -> Resource {
    let mut resource = Resource::warehouse(&warehouse.name);
    for (at, level) in levels.iter().enumerate() {
        let node = match known.get(&levels[..=at]) {
            Some(attributes) => Node::known(level, Arc::clone(attributes)),
            None => Node::named(level),
        };
        resource = resource.level(node);
    }
    resource
}
