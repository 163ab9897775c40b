import pytest
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.table.statistics import BlobMetadata, PartitionStatisticsFile, StatisticsFile
from pyiceberg.table.update import (
    RemovePartitionStatisticsUpdate,
    SetLocationUpdate,
    SetPartitionStatisticsUpdate,
    UpgradeFormatVersionUpdate,
)
from pyiceberg.transforms import BucketTransform, IdentityTransform, MonthTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)
from shop import ORDERS, ids, orders


def test_a_new_table_loads_as_it_was_made(catalog, namespace, new_table):
    spec = PartitionSpec(
        PartitionField(source_id=5, field_id=1000, transform=MonthTransform(), name="placed_month"),
        PartitionField(source_id=1, field_id=1001, transform=BucketTransform(8), name="id_bucket"),
    )
    order = SortOrder(SortField(source_id=4, transform=IdentityTransform(), direction=SortDirection.DESC))

    made = new_table("orders", partition_spec=spec, sort_order=order, properties={"owner": "ada", "wide": "straße 東京"})
    table = catalog.load_table((namespace, "orders"))

    assert table == made
    assert table.metadata_location == made.metadata_location
    assert table.schema() == ORDERS
    assert table.schema().identifier_field_names() == {"id"}
    assert table.spec().fields == spec.fields
    assert table.sort_order().fields == order.fields
    assert (table.properties["owner"], table.properties["wide"]) == ("ada", "straße 東京")
    assert table.format_version == 2
    assert table.current_snapshot() is None
    assert table.metadata_location.startswith(table.location())


ANY_VERSION = Schema(
    NestedField(1, "boolean", BooleanType(), required=True),
    NestedField(2, "int", IntegerType()),
    NestedField(3, "long", LongType()),
    NestedField(4, "float", FloatType()),
    NestedField(5, "double", DoubleType()),
    NestedField(6, "decimal", DecimalType(38, 9)),
    NestedField(7, "date", DateType()),
    NestedField(8, "time", TimeType()),
    NestedField(9, "timestamp", TimestampType()),
    NestedField(10, "timestamptz", TimestamptzType()),
    NestedField(11, "string", StringType(), doc="a comment, with “quotes”"),
    NestedField(12, "uuid", UUIDType()),
    NestedField(13, "fixed", FixedType(16)),
    NestedField(14, "binary", BinaryType()),
    NestedField(15, "list", ListType(element_id=16, element_type=LongType(), element_required=True)),
    NestedField(17, "map", MapType(key_id=18, key_type=StringType(), value_id=19, value_type=DoubleType(), value_required=False)),
    NestedField(20, "struct", StructType(NestedField(21, "x", DoubleType()), NestedField(22, "y", DoubleType()))),
)

SINCE_V3 = Schema(
    NestedField(1, "timestamp_ns", TimestampNanoType()),
    NestedField(2, "timestamptz_ns", TimestamptzNanoType()),
    NestedField(3, "unknown", UnknownType()),
    # With explicit reference systems, PyIceberg quotes these two, unlike the specification.
    NestedField(4, "geometry", GeometryType()),
    NestedField(5, "geography", GeographyType()),
)


@pytest.mark.parametrize(("version", "schema"), [(1, ANY_VERSION), (2, ANY_VERSION), (3, ANY_VERSION), (3, SINCE_V3)])
def test_every_type_survives_the_catalog(catalog, new_table, version, schema):
    table = new_table("everything", schema, properties={"format-version": str(version)})

    loaded = catalog.load_table(table.name())
    assert loaded.format_version == version
    assert {f.name: f.field_type for f in flattened(loaded.schema())} == {f.name: f.field_type for f in flattened(schema)}
    assert [(f.name, f.required, f.doc) for f in loaded.schema().fields] == [(f.name, f.required, f.doc) for f in schema.fields]


def flattened(schema):
    """Only the leaves, because the server may assign the ids inside nested types."""
    return [f for f in schema._lazy_id_to_field.values() if f.field_type.is_primitive]


@pytest.mark.parametrize("version", [1, 2])
def test_each_format_version_is_written_and_read(catalog, new_table, version):
    table = new_table(properties={"format-version": str(version)})
    table.append(orders(1, 2))
    table.append(orders(3))
    table.delete("id = 2")

    loaded = catalog.load_table(table.name())
    assert loaded.format_version == version
    assert "format-version" not in loaded.properties
    assert ids(loaded) == [1, 3]


def test_format_version_3_is_made_and_altered(catalog, new_table):
    # PyIceberg 0.12 cannot write rows to version 3. The Spark suite writes them and reads them with
    # PyIceberg.
    table = new_table(properties={"format-version": "3"})
    with table.update_schema() as update:
        update.add_column("express", BooleanType())
    with table.update_spec() as update:
        update.add_identity("region")

    loaded = catalog.load_table(table.name())
    assert loaded.format_version == 3
    assert loaded.metadata.next_row_id == 0
    assert loaded.schema().find_field("express").field_type == BooleanType()
    assert ids(loaded) == []


def test_a_table_moves_up_through_the_format_versions(catalog, new_table):
    table = new_table(properties={"format-version": "1"})
    table.append(orders(1))

    with table.transaction() as transaction:
        transaction.upgrade_table_version(2)
    table.append(orders(2))
    # PyIceberg's transaction supports versions up to 2, but its catalog can request 3.
    catalog.commit_table(table, (), (UpgradeFormatVersionUpdate(format_version=3),))

    loaded = catalog.load_table(table.name())
    assert loaded.format_version == 3
    assert ids(loaded) == [1, 2]


def test_a_table_does_not_move_down_a_format_version(catalog, orders_table):
    with pytest.raises(BadRequestError, match="Cannot downgrade v2 table to v1"):
        catalog.commit_table(orders_table, (), (UpgradeFormatVersionUpdate(format_version=1),))


def test_a_table_is_created_once(catalog, namespace, orders_table):
    with pytest.raises(TableAlreadyExistsError, match=f"Table already exists: {namespace}.orders"):
        catalog.create_table((namespace, "orders"), ORDERS)
    assert catalog.create_table_if_not_exists((namespace, "orders"), ORDERS) == orders_table


def test_a_table_may_choose_its_location(catalog, server, new_table, unique):
    location = server.beside(new_table("first").location(), unique("chosen"))

    table = new_table("second", location=f"{location}/")
    table.append(orders(1))

    assert table.location() == location
    assert table.metadata_location.startswith(location)
    assert ids(catalog.load_table(table.name())) == [1]


def test_a_missing_table_is_reported_as_missing(catalog, namespace, unique):
    for missing in ((namespace, "missing"), (unique("missing"), "orders")):
        assert not catalog.table_exists(missing)
        with pytest.raises(NoSuchTableError, match=f"Table does not exist: {missing[0]}.{missing[1]}"):
            catalog.load_table(missing)
        with pytest.raises(NoSuchTableError):
            catalog.drop_table(missing)


def test_tables_are_listed_in_their_namespace_only(catalog, namespace, new_table):
    assert catalog.list_tables(namespace) == []
    new_table("orders")
    new_table("customers")
    catalog.create_namespace((namespace, "north"))
    catalog.create_table((namespace, "north", "orders"), ORDERS)

    assert sorted(catalog.list_tables(namespace)) == [(namespace, "customers"), (namespace, "orders")]
    assert catalog.list_tables((namespace, "north")) == [(namespace, "north", "orders")]


def test_a_dropped_table_leaves_its_files(catalog, orders_table):
    orders_table.append(orders(1))
    files = [orders_table.metadata_location, *orders_table.inspect.files()["file_path"].to_pylist()]

    catalog.drop_table(orders_table.name())

    assert not catalog.table_exists(orders_table.name())
    assert catalog.list_tables(orders_table.name()[:-1]) == []
    assert all(orders_table.io.new_input(file).exists() for file in files)


def test_a_purged_table_is_gone_and_its_name_is_free(catalog, new_table, orders_table):
    orders_table.append(orders(1))
    catalog.purge_table(orders_table.name())

    assert not catalog.table_exists(orders_table.name())
    again = new_table()
    assert again.metadata.table_uuid != orders_table.metadata.table_uuid
    assert ids(catalog.load_table(again.name())) == []


def test_a_renamed_table_keeps_its_rows(catalog, namespace, orders_table):
    orders_table.append(orders(1))
    catalog.create_namespace((namespace, "archive"))

    for name in [(namespace, "old_orders"), (namespace, "archive", "orders")]:
        before = catalog.list_tables(namespace)[0]
        renamed = catalog.rename_table(before, name)
        assert renamed.name() == name
        assert renamed.metadata.table_uuid == orders_table.metadata.table_uuid
        assert ids(renamed) == [1]
        assert not catalog.table_exists(before)

    renamed.append(orders(2))
    assert ids(catalog.load_table(name)) == [1, 2]


def test_a_rename_needs_a_table_and_a_free_name(catalog, namespace, new_table, unique):
    new_table("orders")
    new_table("customers")

    with pytest.raises(TableAlreadyExistsError, match="Table already exists"):
        catalog.rename_table((namespace, "orders"), (namespace, "customers"))
    with pytest.raises(NoSuchTableError, match="Table does not exist"):
        catalog.rename_table((namespace, "missing"), (namespace, "found"))
    with pytest.raises(NoSuchNamespaceError):
        catalog.rename_table((namespace, "orders"), (unique("missing"), "orders"))
    assert sorted(catalog.list_tables(namespace)) == [(namespace, "customers"), (namespace, "orders")]


def test_a_dropped_table_registers_from_its_metadata_file(catalog, namespace, orders_table):
    orders_table.append(orders(1, 2))
    catalog.drop_table(orders_table.name())

    registered = catalog.register_table((namespace, "restored"), orders_table.metadata_location)

    assert registered.metadata.table_uuid == orders_table.metadata.table_uuid
    assert ids(registered) == [1, 2]
    registered.append(orders(3))
    assert ids(catalog.load_table((namespace, "restored"))) == [1, 2, 3]


def test_registering_over_a_table_must_be_asked_for(catalog, new_table, orders_table):
    orders_table.append(orders(1))
    earlier = orders_table.metadata_location
    orders_table.append(orders(2))

    with pytest.raises(TableAlreadyExistsError, match="Table already exists"):
        catalog.register_table(orders_table.name(), earlier)
    assert ids(catalog.load_table(orders_table.name())) == [1, 2]

    catalog.register_table(orders_table.name(), earlier, overwrite=True)
    assert ids(catalog.load_table(orders_table.name())) == [1]


def test_properties_are_set_replaced_and_removed(catalog, orders_table):
    with orders_table.transaction() as transaction:
        transaction.set_properties({"owner": "ada", "tier": "gold"})
    with orders_table.transaction() as transaction:
        transaction.set_properties(owner="grace")
        transaction.remove_properties("tier")

    properties = catalog.load_table(orders_table.name()).properties
    assert properties["owner"] == "grace"
    assert "tier" not in properties


def test_a_table_moves_to_another_location(catalog, server, orders_table, unique):
    orders_table.append(orders(1))
    location = server.beside(orders_table.location(), unique("moved"))
    catalog.commit_table(orders_table, (), (SetLocationUpdate(location=location),))
    orders_table.refresh().append(orders(2))

    table = catalog.load_table(orders_table.name())
    assert table.location() == location
    assert any(path.startswith(location) for path in table.inspect.files()["file_path"].to_pylist())
    assert ids(table) == [1, 2]


def test_statistics_are_attached_to_a_snapshot_and_taken_away(catalog, orders_table):
    orders_table.append(orders(1))
    snapshot = orders_table.current_snapshot()
    sketch = StatisticsFile(
        snapshot_id=snapshot.snapshot_id,
        statistics_path=f"{orders_table.location()}/metadata/{snapshot.snapshot_id}.stats",
        file_size_in_bytes=413,
        file_footer_size_in_bytes=42,
        blob_metadata=[
            BlobMetadata(
                type="apache-datasketches-theta-v1",
                snapshot_id=snapshot.snapshot_id,
                sequence_number=snapshot.sequence_number,
                fields=[1],
                properties={"ndv": "1"},
            )
        ],
    )

    with orders_table.update_statistics() as update:
        update.set_statistics(sketch)
    assert catalog.load_table(orders_table.name()).metadata.statistics == [sketch]

    with orders_table.update_statistics() as update:
        update.remove_statistics(snapshot.snapshot_id)
    assert catalog.load_table(orders_table.name()).metadata.statistics == []


def test_partition_statistics_are_attached_and_taken_away(catalog, orders_table):
    orders_table.append(orders(1))
    snapshot = orders_table.current_snapshot().snapshot_id
    statistics = PartitionStatisticsFile(
        snapshot_id=snapshot,
        statistics_path=f"{orders_table.location()}/metadata/{snapshot}.parquet",
        file_size_in_bytes=43,
    )

    catalog.commit_table(orders_table, (), (SetPartitionStatisticsUpdate(partition_statistics=statistics),))
    assert catalog.load_table(orders_table.name()).metadata.partition_statistics == [statistics]

    catalog.commit_table(orders_table, (), (RemovePartitionStatisticsUpdate(snapshot_id=snapshot),))
    assert catalog.load_table(orders_table.name()).metadata.partition_statistics == []


def test_the_metadata_log_remembers_earlier_versions_up_to_its_bound(catalog, new_table):
    table = new_table(properties={"write.metadata.previous-versions-max": "3"})
    locations = [table.metadata_location]
    for i in range(5):
        with table.transaction() as transaction:
            transaction.set_properties(step=str(i))
        locations.append(table.metadata_location)

    log = catalog.load_table(table.name()).metadata.metadata_log
    assert [entry.metadata_file for entry in log] == locations[-4:-1]
    assert len(set(locations)) == len(locations)


def test_a_staged_table_appears_when_its_transaction_commits(catalog, namespace):
    identifier = (namespace, "orders")
    transaction = catalog.create_table_transaction(
        identifier,
        ORDERS,
        partition_spec=PartitionSpec(PartitionField(source_id=3, field_id=1000, transform=IdentityTransform(), name="region")),
        sort_order=SortOrder(SortField(source_id=1, transform=IdentityTransform(), null_order=NullOrder.NULLS_FIRST)),
        properties={"owner": "ada", "format-version": "2"},
    )
    with transaction.update_schema() as update:
        update.add_column("note", StringType())
    transaction.set_properties(tier="gold")
    assert not catalog.table_exists(identifier)

    transaction.commit_transaction()

    table = catalog.load_table(identifier)
    assert [field.name for field in table.schema().fields] == [*(f.name for f in ORDERS.fields), "note"]
    assert [field.name for field in table.spec().fields] == ["region"]
    assert [field.source_id for field in table.sort_order().fields] == [1]
    assert (table.properties["owner"], table.properties["tier"]) == ("ada", "gold")


def test_a_staged_table_may_come_with_rows(catalog, namespace):
    with catalog.create_table_transaction((namespace, "orders"), ORDERS) as transaction:
        transaction.append(orders(1, 2))
        assert not catalog.table_exists((namespace, "orders"))

    table = catalog.load_table((namespace, "orders"))
    assert ids(table) == [1, 2]
    assert len(table.snapshots()) == 1


def test_of_two_staged_tables_of_one_name_the_first_to_commit_stays(catalog, namespace):
    first = catalog.create_table_transaction((namespace, "orders"), ORDERS, properties={"writer": "first"})
    second = catalog.create_table_transaction((namespace, "orders"), ORDERS, properties={"writer": "second"})

    first.commit_transaction()
    with pytest.raises(CommitFailedException, match="Requirement failed: table already exists"):
        second.commit_transaction()
    assert catalog.load_table((namespace, "orders")).properties["writer"] == "first"


def test_a_staged_table_that_is_given_up_leaves_nothing(catalog, namespace):
    with pytest.raises(ZeroDivisionError), catalog.create_table_transaction((namespace, "orders"), ORDERS):
        raise ZeroDivisionError
    assert not catalog.table_exists((namespace, "orders"))
    assert catalog.list_tables(namespace) == []
