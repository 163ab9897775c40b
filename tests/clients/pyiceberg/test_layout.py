"""Partition specs and sort orders, and their changes on tables with rows."""

import pytest
from pyiceberg.exceptions import BadRequestError, CommitFailedException
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField
from pyiceberg.table.update import RemovePartitionSpecsUpdate, RemoveSchemasUpdate
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
    parse_transform,
)
from pyiceberg.types import StringType
from shop import ids, orders

LAYOUTS = {
    "identity": ("region", IdentityTransform()),
    "bucket": ("id", BucketTransform(4)),
    "bucket of a string": ("customer", BucketTransform(16)),
    "truncate": ("customer", TruncateTransform(2)),
    "truncate a number": ("id", TruncateTransform(10)),
    "year": ("placed_on", YearTransform()),
    "month": ("placed_on", MonthTransform()),
    "day": ("placed_on", DayTransform()),
}


def layout(table):
    return [(field.name, str(field.transform), field.source_id, field.field_id) for field in table.spec().fields]


@pytest.mark.parametrize("kind", LAYOUTS)
def test_a_table_becomes_partitioned_while_it_holds_rows(catalog, orders_table, kind):
    column, transform = LAYOUTS[kind]
    orders_table.append(orders(1, 2))

    with orders_table.update_spec() as update:
        update.add_field(column, transform, "part")
    orders_table.append(orders(3, 4))

    table = catalog.load_table(orders_table.name())
    assert layout(table) == [("part", str(transform), table.schema().find_field(column).field_id, 1000)]
    assert sorted(table.specs()) == [0, 1]
    assert set(table.inspect.files()["spec_id"].to_pylist()) == {0, 1}
    assert ids(table) == [1, 2, 3, 4]
    assert ids(table.scan(row_filter=f"{column} is not null and id > 2")) == [3, 4]


@pytest.mark.parametrize("kind", LAYOUTS)
def test_a_table_is_partitioned_from_the_start(catalog, new_table, kind):
    column, transform = LAYOUTS[kind]
    source = {"id": 1, "customer": 2, "region": 3, "placed_on": 5}[column]
    table = new_table(partition_spec=PartitionSpec(PartitionField(source, 1000, transform, "part")))
    table.append(orders(1, 2))

    loaded = catalog.load_table(table.name())
    assert layout(loaded) == [("part", str(transform), source, 1000)]
    assert ids(loaded) == [1, 2]


def test_partition_fields_are_added_renamed_and_removed(catalog, orders_table):
    with orders_table.update_spec() as update:
        update.add_identity("region")
        update.add_field("placed_on", "month", "placed_month")
    with orders_table.update_spec() as update:
        update.rename_field("placed_month", "month")
    with orders_table.update_spec() as update:
        update.remove_field("region")
        update.add_field("id", "bucket[8]", "id_bucket")

    table = catalog.load_table(orders_table.name())
    assert layout(table) == [("month", "month", 5, 1001), ("id_bucket", "bucket[8]", 1, 1002)]
    assert table.metadata.default_spec_id == table.spec().spec_id
    assert table.last_partition_id() == 1002
    assert sorted(table.specs()) == [0, 1, 2, 3]


def test_a_removed_partition_field_stays_as_void_in_version_1(catalog, new_table):
    table = new_table(
        partition_spec=PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "region")), properties={"format-version": "1"}
    )
    table.append(orders(1))
    with table.update_spec() as update:
        update.remove_field("region")
    table.append(orders(2))

    loaded = catalog.load_table(table.name())
    assert [field.transform for field in loaded.spec().fields] == [VoidTransform()]
    assert ids(loaded) == [1, 2]


def test_returning_to_an_earlier_partitioning_uses_it_again(catalog, orders_table):
    with orders_table.update_spec() as update:
        update.add_identity("region")
    with orders_table.update_spec() as update:
        update.remove_field("region")

    table = catalog.load_table(orders_table.name())
    assert table.spec().spec_id == 0
    assert sorted(table.specs()) == [0, 1]


def test_of_two_partitionings_made_at_once_the_second_is_refused(new_client, orders_table):
    late = new_client().load_table(orders_table.name())
    with orders_table.update_spec() as update:
        update.add_identity("region")

    with (
        pytest.raises(CommitFailedException, match="Requirement failed: last assigned partition id changed"),
        late.update_spec() as update,
    ):
        update.add_identity("customer")


def test_a_sort_order_is_set_replaced_and_taken_away(catalog, orders_table):
    with orders_table.update_sort_order() as update:
        update.asc("region", IdentityTransform()).desc("placed_on", parse_transform("month"), NullOrder.NULLS_FIRST)
    first = catalog.load_table(orders_table.name()).sort_order()
    assert first.order_id == 1
    assert first.fields == [
        SortField(3, IdentityTransform(), SortDirection.ASC, NullOrder.NULLS_LAST),
        SortField(5, MonthTransform(), SortDirection.DESC, NullOrder.NULLS_FIRST),
    ]

    with orders_table.update_sort_order() as update:
        update.asc("id", BucketTransform(4))
    assert catalog.load_table(orders_table.name()).sort_order().order_id == 2

    with orders_table.update_sort_order():
        pass
    table = catalog.load_table(orders_table.name())
    assert table.sort_order().is_unsorted
    assert sorted(table.sort_orders()) == [0, 1, 2]

    with orders_table.update_sort_order() as update:
        update.asc("id", BucketTransform(4))
    assert catalog.load_table(orders_table.name()).sort_order().order_id == 2


def test_of_two_sort_orders_set_at_once_the_second_is_refused(new_client, orders_table):
    late = new_client().load_table(orders_table.name())
    with orders_table.update_sort_order() as update:
        update.asc("id", IdentityTransform())

    with (
        pytest.raises(CommitFailedException, match="Requirement failed: default sort order changed: expected id 0 != 1"),
        late.update_sort_order() as update,
    ):
        update.desc("id", IdentityTransform())


def test_partitionings_and_schemas_out_of_use_are_cleared_away(catalog, orders_table):
    with orders_table.update_spec() as update:
        update.add_identity("region")
    with orders_table.update_spec() as update:
        update.remove_field("region")
    with orders_table.update_schema() as update:
        update.add_column("note", StringType())

    catalog.commit_table(orders_table, (), (RemovePartitionSpecsUpdate(spec_ids=[1]), RemoveSchemasUpdate(schema_ids=[0])))
    table = catalog.load_table(orders_table.name())
    assert sorted(table.specs()) == [0]
    assert sorted(table.schemas()) == [1]

    with pytest.raises(BadRequestError, match="Cannot remove the default partition spec"):
        catalog.commit_table(orders_table, (), (RemovePartitionSpecsUpdate(spec_ids=[0]),))
    with pytest.raises(BadRequestError, match="Cannot remove the current schema"):
        catalog.commit_table(orders_table, (), (RemoveSchemasUpdate(schema_ids=[1]),))
