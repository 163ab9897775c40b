"""Manifests that the server rewrites, read by PyIceberg."""

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform
from shop import ids, orders

BY_REGION = PartitionSpec(PartitionField(source_id=3, field_id=1000, transform=IdentityTransform(), name="region"))


def rewrite(server, table):
    resource = "table:default/" + "/".join(table.name())
    return server.manage("POST", "manifests/rewrite", {"resource": resource, "dry-run": False})


@pytest.mark.parametrize("version", ["1", "2"])
def test_rows_and_partitions_stay_the_same_after_a_rewrite(server, catalog, new_table, version):
    table = new_table(partition_spec=BY_REGION, properties={"format-version": version})
    for i, region in enumerate(["north", "south", "east", "north"]):
        table.append(orders(i, region=region))
    files = table.inspect.files().drop_columns(["readable_metrics"]).sort_by("file_path")

    rewritten = rewrite(server, table)

    assert (rewritten["manifests-created"], rewritten["manifests-replaced"]) == (1, 4)
    table = catalog.load_table(table.name())
    assert table.current_snapshot().summary["operation"].value == "replace"
    assert table.current_snapshot().summary["total-records"] == "4"
    assert ids(table) == [0, 1, 2, 3]
    assert ids(table.scan(row_filter="region = 'north'")) == [0, 3]
    assert ids(table.scan(row_filter="region = 'west'")) == []
    assert table.inspect.files().drop_columns(["readable_metrics"]).sort_by("file_path") == files
    ((summary,),) = [entry["partition_summaries"] and [entry["partition_summaries"]] for entry in table.inspect.manifests().to_pylist()]
    assert (summary[0]["lower_bound"], summary[0]["upper_bound"]) == ("east", "south")

    table.delete("region = 'south'")
    table.append(orders(9, region="south"))
    rewrite(server, table)
    assert ids(catalog.load_table(table.name())) == [0, 2, 3, 9]
