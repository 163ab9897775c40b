//! Applies updates of a table's layout, which consists of its schemas, partition specs and sort
//! orders.
//!
//! A table stores equal objects only once: if a client adds a schema, spec or order that equals an
//! existing object, the table keeps only the existing object, with its id. The existing object then
//! counts as the last added object, so `-1` still refers to what the client has just sent. (The
//! reference implementation refuses `-1` in this case.)

use std::collections::HashSet;
use std::sync::Arc;

use super::super::members::brief;
use super::super::partition::{PartitionSpec, UnboundPartitionSpec, sequential_id};
use super::super::refusal::Refusal;
use super::super::schema::Schema;
use super::super::sort::{INITIAL_SORT_ORDER_ID, SortOrder, UNSORTED_ORDER_ID, UnboundSortOrder};
use super::super::update::LAST_ADDED;
use super::{Builder, next_id};

impl Builder<'_> {
    pub(super) fn add_schema(&mut self, schema: Schema) -> Result<(), Refusal> {
        schema.check_compatibility(self.metadata.format_version)?;
        let schemas = &self.metadata.schemas;
        if let Some(same) = schemas.iter().find(|other| other.same_schema(&schema)) {
            self.last_added_schema_id = Some(same.schema_id());
            return Ok(());
        }
        let ids = schemas.iter().map(|schema| schema.schema_id());
        let id = next_id("a schema id", self.metadata.current_schema_id, ids)?;
        self.metadata.last_column_id = self.metadata.last_column_id.max(schema.highest_field_id());
        self.metadata.schemas.push(Arc::new(schema.with_schema_id(id)));
        self.last_added_schema_id = Some(id);
        self.changed = true;
        Ok(())
    }

    pub(super) fn set_current_schema(&mut self, schema_id: i32) -> Result<(), Refusal> {
        let schema_id = match (schema_id, self.last_added_schema_id) {
            (LAST_ADDED, Some(id)) => id,
            (LAST_ADDED, None) => {
                return Err(Refusal::invalid(
                    "Cannot set last added schema: no schema has been added",
                ));
            }
            (id, _) => id,
        };
        if !self.metadata.schemas.iter().any(|schema| schema.schema_id() == schema_id) {
            return Err(Refusal::invalid(format!(
                "Cannot set current schema to unknown schema: {schema_id}"
            )));
        }
        if self.metadata.current_schema_id != schema_id {
            self.metadata.current_schema_id = schema_id;
            self.changed = true;
            self.layout_changed = true;
        }
        Ok(())
    }

    pub(super) fn remove_schemas(&mut self, schema_ids: &[i32]) -> Result<(), Refusal> {
        if schema_ids.contains(&self.metadata.current_schema_id) {
            return Err(Refusal::invalid("Cannot remove the current schema"));
        }
        let ids: HashSet<i32> = schema_ids.iter().copied().collect();
        let before = self.metadata.schemas.len();
        self.metadata.schemas.retain(|schema| !ids.contains(&schema.schema_id()));
        self.changed |= self.metadata.schemas.len() != before;
        Ok(())
    }

    pub(super) fn add_spec(&mut self, spec: UnboundPartitionSpec) -> Result<(), Refusal> {
        let spec = self.assign_field_ids(spec)?;
        let specs = &self.metadata.partition_specs;
        if let Some(same) = specs.iter().find(|other| spec.compatible_with(other)) {
            self.last_added_spec_id = Some(same.spec_id);
            return Ok(());
        }
        let schema = self.metadata.current_schema()?.index()?;
        spec.check_names(&schema)?;
        spec.check_field_ids()?;
        spec.check_compatibility(&schema)?;
        if self.metadata.format_version == 1 && !spec.has_sequential_ids() {
            return Err(Refusal::invalid(format!(
                "Spec does not use sequential IDs that are required in v1: {}",
                brief(&spec)
            )));
        }
        let ids = self.metadata.partition_specs.iter().map(|spec| spec.spec_id);
        let spec_id = next_id("a partition spec id", 0, ids)?;
        let last = self.metadata.last_partition_id.max(spec.last_assigned_field_id());
        self.metadata.last_partition_id = last;
        self.metadata.partition_specs.push(Arc::new(PartitionSpec { spec_id, ..spec }));
        self.last_added_spec_id = Some(spec_id);
        self.changed = true;
        Ok(())
    }

    /// Assigns the field ids that a client has left out. In version 1, these are 1000, 1001, and so
    /// on. In later versions, a field that also occurs in an existing spec gets the same id as in
    /// that spec. Other fields get new ids. (The reference implementation always begins with 1000,
    /// so different fields can get the same id. Its own clients avoid this problem, because they
    /// send ids.)
    fn assign_field_ids(&self, spec: UnboundPartitionSpec) -> Result<PartitionSpec, Refusal> {
        let v1 = self.metadata.format_version == 1;
        let mut last = self
            .metadata
            .last_partition_id
            .max(PartitionSpec::unpartitioned().last_assigned_field_id());
        spec.with_ids(0, |field, position| {
            if v1 {
                return sequential_id(position);
            }
            let known = self.metadata.partition_specs.iter().flat_map(|spec| &spec.fields);
            let known = known.filter(|other| {
                other.source_id == field.source_id && other.transform == field.transform
            });
            if let Some(id) = known.map(|field| field.field_id).max() {
                return Ok(id);
            }
            last = last.checked_add(1).ok_or_else(|| {
                Refusal::invalid("Cannot assign a partition field id: ids are exhausted")
            })?;
            Ok(last)
        })
    }

    pub(super) fn set_default_spec(&mut self, spec_id: i32) -> Result<(), Refusal> {
        let spec_id = match (spec_id, self.last_added_spec_id) {
            (LAST_ADDED, Some(id)) => id,
            (LAST_ADDED, None) => {
                return Err(Refusal::invalid("Cannot set last added spec: no spec has been added"));
            }
            (id, _) => id,
        };
        if !self.metadata.partition_specs.iter().any(|spec| spec.spec_id == spec_id) {
            return Err(Refusal::invalid(format!(
                "Cannot set default partition spec to unknown spec: {spec_id}"
            )));
        }
        if self.metadata.default_spec_id != spec_id {
            self.metadata.default_spec_id = spec_id;
            self.changed = true;
            self.layout_changed = true;
        }
        Ok(())
    }

    pub(super) fn remove_specs(&mut self, spec_ids: &[i32]) -> Result<(), Refusal> {
        if spec_ids.contains(&self.metadata.default_spec_id) {
            return Err(Refusal::invalid("Cannot remove the default partition spec"));
        }
        let ids: HashSet<i32> = spec_ids.iter().copied().collect();
        let before = self.metadata.partition_specs.len();
        self.metadata.partition_specs.retain(|spec| !ids.contains(&spec.spec_id));
        self.changed |= self.metadata.partition_specs.len() != before;
        Ok(())
    }

    pub(super) fn add_sort_order(&mut self, order: UnboundSortOrder) -> Result<(), Refusal> {
        let orders = &self.metadata.sort_orders;
        if let Some(same) = orders.iter().find(|other| other.fields == order.fields) {
            self.last_added_order_id = Some(same.order_id);
            return Ok(());
        }
        let order_id = if order.fields.is_empty() {
            UNSORTED_ORDER_ID
        } else {
            let ids = orders.iter().map(|order| order.order_id);
            next_id("a sort order id", INITIAL_SORT_ORDER_ID, ids)?
        };
        let order: SortOrder = order.with_order_id(order_id);
        order.check_compatibility(&self.metadata.current_schema()?.index()?)?;
        self.metadata.sort_orders.push(Arc::new(order));
        self.last_added_order_id = Some(order_id);
        self.changed = true;
        Ok(())
    }

    pub(super) fn set_default_sort_order(&mut self, order_id: i32) -> Result<(), Refusal> {
        let order_id = match (order_id, self.last_added_order_id) {
            (LAST_ADDED, Some(id)) => id,
            (LAST_ADDED, None) => {
                return Err(Refusal::invalid(
                    "Cannot set last added sort order: no sort order has been added",
                ));
            }
            (id, _) => id,
        };
        if !self.metadata.sort_orders.iter().any(|order| order.order_id == order_id) {
            return Err(Refusal::invalid(format!(
                "Cannot set default sort order to unknown sort order: {order_id}"
            )));
        }
        if self.metadata.default_sort_order_id != order_id {
            self.metadata.default_sort_order_id = order_id;
            self.changed = true;
            self.layout_changed = true;
        }
        Ok(())
    }
}
