import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform
from shop import ORDERS, ids, orders

BY_REGION = PartitionSpec(PartitionField(source_id=3, field_id=1000, transform=IdentityTransform(), name="region"))


@pytest.fixture
def table_by_region(new_table):
    table = new_table(partition_spec=BY_REGION)
    table.append(pa.concat_tables([orders(1, 2, region="north"), orders(3, 4, region="south")]))
    return table


def test_appended_rows_are_read_by_everyone(new_client, orders_table):
    orders_table.append(orders(1, 2))
    orders_table.append(orders(3), snapshot_properties={"job": "nightly-7"})

    table = new_client().load_table(orders_table.name())
    assert table.scan().to_arrow().sort_by("id") == pa.concat_tables([orders(1, 2), orders(3)])
    assert [snapshot.sequence_number for snapshot in table.snapshots()] == [1, 2]
    assert table.current_snapshot().summary["job"] == "nightly-7"
    assert table.current_snapshot().summary["total-records"] == "3"
    assert table.current_snapshot().parent_snapshot_id == table.snapshots()[0].snapshot_id


def test_an_overwrite_replaces_all_rows_or_those_that_match(catalog, orders_table):
    orders_table.append(orders(1, 2, 3))
    orders_table.overwrite(orders(4, 5))
    assert ids(catalog.load_table(orders_table.name())) == [4, 5]

    orders_table.overwrite(orders(6), overwrite_filter="id >= 5")
    assert ids(catalog.load_table(orders_table.name())) == [4, 6]


def test_only_the_partitions_that_are_written_are_replaced(catalog, table_by_region):
    table_by_region.dynamic_partition_overwrite(orders(9, region="south"))
    assert ids(catalog.load_table(table_by_region.name())) == [1, 2, 9]


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("region = 'south'", [1, 2]),
        ("id in (2, 3)", [1, 4]),
        ("id > 100", [1, 2, 3, 4]),
        ("amount >= 10", []),
    ],
)
def test_rows_are_deleted_by_condition(catalog, table_by_region, condition, left):
    table_by_region.delete(condition)
    assert ids(catalog.load_table(table_by_region.name())) == left


def test_an_upsert_updates_what_is_there_and_inserts_the_rest(catalog, orders_table):
    orders_table.append(orders(1, 2, 3))

    result = orders_table.upsert(orders(2, 3, 4, customer="grace"))

    assert (result.rows_updated, result.rows_inserted) == (2, 1)
    rows = catalog.load_table(orders_table.name()).scan().to_arrow().sort_by("id")
    assert rows["id"].to_pylist() == [1, 2, 3, 4]
    assert rows["customer"].to_pylist() == ["ada", "grace", "grace", "grace"]


def test_several_changes_commit_as_one(catalog, orders_table):
    orders_table.append(orders(1))
    with orders_table.transaction() as transaction:
        transaction.append(orders(2))
        transaction.delete("id = 1")
        transaction.set_properties(owner="ada")
        assert ids(catalog.load_table(orders_table.name())) == [1]

    table = catalog.load_table(orders_table.name())
    assert ids(table) == [2]
    assert table.properties["owner"] == "ada"
    assert len(table.metadata.metadata_log) == 2


def test_existing_files_are_added(catalog, orders_table):
    path = f"{orders_table.location()}/data/imported.parquet"
    with orders_table.io.new_output(path).create() as file:
        pq.write_table(orders(1, 2), file)

    orders_table.add_files([path])

    table = catalog.load_table(orders_table.name())
    assert ids(table) == [1, 2]
    assert table.inspect.files()["file_path"].to_pylist() == [path]


CONDITIONS = pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("id = 3", [3]),
        ("id != 3", [1, 2, 4]),
        ("id >= 2 and amount < 40", [2, 3]),
        ("region = 'north' or id = 4", [1, 2, 4]),
        ("not (region = 'north')", [3, 4]),
        ("customer is null", []),
        ("customer is not null", [1, 2, 3, 4]),
        ("id in (1, 4, 7)", [1, 4]),
        ("customer like 'ad%'", [1, 2, 3, 4]),
        ("placed_on > '1970-01-03'", [3, 4]),
    ],
)


@CONDITIONS
def test_scans_filter(catalog, table_by_region, condition, found):
    assert ids(catalog.load_table(table_by_region.name()).scan(row_filter=condition)) == found


@CONDITIONS
def test_scans_that_the_server_plans_filter_alike(plans_scans, new_client, table_by_region, condition, found):
    table = new_client(**{"scan-planning-mode": "server"}).load_table(table_by_region.name())
    assert table.catalog.supports_server_side_planning()
    assert ids(table.scan(row_filter=condition)) == found


def test_scans_project_limit_count_and_stream(catalog, table_by_region):
    table = catalog.load_table(table_by_region.name())

    assert table.scan(selected_fields=("id", "amount")).to_arrow().column_names == ["id", "amount"]
    assert table.scan(limit=3).to_arrow().num_rows == 3
    assert table.scan(row_filter="id > 1").count() == 3
    assert sum(batch.num_rows for batch in table.scan().to_arrow_batch_reader()) == 4


def test_a_filter_on_the_partition_opens_its_files_only(catalog, table_by_region):
    tasks = list(catalog.load_table(table_by_region.name()).scan(row_filter="region = 'south'").plan_files())
    assert len(tasks) == 1
    assert "region=south" in tasks[0].file.file_path


def test_earlier_snapshots_stay_readable(catalog, orders_table):
    taken = []
    for i in (1, 2, 3):
        orders_table.append(orders(i))
        taken.append(orders_table.current_snapshot())
    orders_table.overwrite(orders(9))

    table = catalog.load_table(orders_table.name())
    for i, snapshot in enumerate(taken, start=1):
        assert ids(table.scan(snapshot_id=snapshot.snapshot_id)) == list(range(1, i + 1))
        assert table.snapshot_as_of_timestamp(snapshot.timestamp_ms).snapshot_id == snapshot.snapshot_id


def test_the_rows_added_between_two_snapshots_are_read_alone(catalog, orders_table):
    taken = []
    for i in (1, 2, 3, 4):
        orders_table.append(orders(i))
        taken.append(orders_table.current_snapshot().snapshot_id)

    scan = catalog.load_table(orders_table.name()).incremental_append_scan(
        from_snapshot_id_exclusive=taken[0], to_snapshot_id_inclusive=taken[2]
    )
    assert ids(scan) == [2, 3]


def test_metadata_tables_describe_the_table(catalog, table_by_region):
    table_by_region.append(orders(5, region="south"))
    table = catalog.load_table(table_by_region.name())
    first, second = table.snapshots()

    assert table.inspect.snapshots()["snapshot_id"].to_pylist() == [first.snapshot_id, second.snapshot_id]
    assert table.inspect.snapshots()["operation"].to_pylist() == ["append", "append"]
    assert table.inspect.history()["is_current_ancestor"].to_pylist() == [True, True]
    assert table.inspect.refs().to_pylist() == [
        {
            "name": "main",
            "type": "BRANCH",
            "snapshot_id": second.snapshot_id,
            "max_reference_age_in_ms": None,
            "min_snapshots_to_keep": None,
            "max_snapshot_age_in_ms": None,
        }
    ]
    assert sorted(table.inspect.files()["record_count"].to_pylist()) == [1, 2, 2]
    assert sorted(table.inspect.entries()["status"].to_pylist()) == [1, 1, 1]
    assert len(table.inspect.manifests()) == 2
    partitions = {row["partition"]["region"]: row["record_count"] for row in table.inspect.partitions().to_pylist()}
    assert partitions == {"north": 2, "south": 3}
    assert table.inspect.metadata_log_entries()["file"].to_pylist()[-1] == table.metadata_location
    assert len(table.inspect.metadata_log_entries()) == 3


def test_the_catalog_keeps_time(catalog, orders_table):
    before = datetime.datetime.now(datetime.UTC)
    orders_table.append(orders(1))
    updated = datetime.datetime.fromtimestamp(catalog.load_table(orders_table.name()).metadata.last_updated_ms / 1000, datetime.UTC)
    assert abs(updated - before) < datetime.timedelta(minutes=1)


def test_a_table_of_arrow_types_is_created_from_them(catalog, namespace):
    rows = pa.table({"when": pa.array([datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)]), "tags": [["a", "b"]], "n": [7]})
    table = catalog.create_table((namespace, "events"), rows.schema)
    table.append(rows)
    assert catalog.load_table(table.name()).scan().to_arrow().to_pylist() == rows.to_pylist()
    assert table.schema() != ORDERS
