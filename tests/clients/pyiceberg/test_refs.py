"""Branches, tags, rollbacks, and expired snapshots."""

import datetime

import pytest
from pyiceberg.exceptions import BadRequestError, CommitFailedException
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import RemoveSnapshotRefUpdate, SetSnapshotRefUpdate
from shop import ids, orders


@pytest.fixture
def three_snapshots(orders_table):
    for i in (1, 2, 3):
        orders_table.append(orders(i))
    return orders_table


def refs(table):
    return {name: (str(ref.snapshot_ref_type), ref.snapshot_id) for name, ref in table.refs().items()}


def test_branches_and_tags_are_made_and_removed(catalog, three_snapshots):
    table = three_snapshots
    first, second, third = [snapshot.snapshot_id for snapshot in table.snapshots()]

    table.manage_snapshots().create_tag(first, "opening").create_branch(second, "audit").commit()
    assert refs(catalog.load_table(table.name())) == {
        "main": ("branch", third),
        "opening": ("tag", first),
        "audit": ("branch", second),
    }
    assert ids(catalog.load_table(table.name()).scan().use_ref("opening")) == [1]
    assert ids(catalog.load_table(table.name()).scan().use_ref("audit")) == [1, 2]

    table.manage_snapshots().remove_tag("opening").remove_branch("audit").commit()
    assert refs(catalog.load_table(table.name())) == {"main": ("branch", third)}


def test_refs_keep_how_long_they_are_to_be_kept(catalog, three_snapshots):
    current = three_snapshots.current_snapshot().snapshot_id
    three_snapshots.manage_snapshots().create_branch(
        current, "audit", max_ref_age_ms=604_800_000, max_snapshot_age_ms=86_400_000, min_snapshots_to_keep=5
    ).create_tag(current, "eoy/2026 ✓", max_ref_age_ms=1).commit()

    kept = catalog.load_table(three_snapshots.name()).refs()
    audit, tag = kept["audit"], kept["eoy/2026 ✓"]
    assert (audit.max_ref_age_ms, audit.max_snapshot_age_ms, audit.min_snapshots_to_keep) == (604_800_000, 86_400_000, 5)
    assert (tag.snapshot_ref_type, tag.max_ref_age_ms) == (SnapshotRefType.TAG, 1)


def test_what_is_written_to_a_branch_stays_there(catalog, three_snapshots):
    table = three_snapshots
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "audit").commit()

    table.append(orders(4), branch="audit")
    table.delete("id = 1", branch="audit")
    table.append(orders(9))

    loaded = catalog.load_table(table.name())
    assert ids(loaded.scan().use_ref("audit")) == [2, 3, 4]
    assert ids(loaded) == [1, 2, 3, 9]
    assert loaded.history()[-1].snapshot_id == loaded.refs()["main"].snapshot_id


def test_writing_to_a_new_branch_makes_it(catalog, orders_table):
    orders_table.append(orders(1))
    orders_table.append(orders(2), branch="draft")

    loaded = catalog.load_table(orders_table.name())
    assert ids(loaded) == [1]
    assert loaded.refs()["draft"].snapshot_ref_type == SnapshotRefType.BRANCH


@pytest.mark.parametrize("how", ["rollback to snapshot", "rollback to timestamp", "set to snapshot", "set to ref"])
def test_a_table_goes_back_to_an_earlier_snapshot(catalog, three_snapshots, how):
    table = three_snapshots
    _, second, third = table.snapshots()
    table.manage_snapshots().create_tag(second.snapshot_id, "good").commit()

    manage = table.manage_snapshots()
    match how:
        case "rollback to snapshot":
            manage.rollback_to_snapshot(second.snapshot_id).commit()
        case "rollback to timestamp":
            manage.rollback_to_timestamp(third.timestamp_ms).commit()
        case "set to snapshot":
            manage.set_current_snapshot(snapshot_id=second.snapshot_id).commit()
        case "set to ref":
            manage.set_current_snapshot(ref_name="good").commit()

    loaded = catalog.load_table(table.name())
    assert loaded.current_snapshot().snapshot_id == second.snapshot_id
    assert ids(loaded) == [1, 2]
    assert [entry.snapshot_id for entry in loaded.history()][-1] == second.snapshot_id
    assert loaded.inspect.history()["is_current_ancestor"].to_pylist() == [True, True, False, True]

    loaded.append(orders(4))
    assert ids(catalog.load_table(table.name())) == [1, 2, 4]
    assert loaded.current_snapshot().sequence_number == 4


def test_a_ref_points_at_a_snapshot_the_table_has(catalog, three_snapshots):
    unknown = SetSnapshotRefUpdate(
        ref_name="audit", type="branch", snapshot_id=42, max_ref_age_ms=None, max_snapshot_age_ms=None, min_snapshots_to_keep=None
    )
    with pytest.raises(BadRequestError, match="Cannot set audit to unknown snapshot: 42"):
        catalog.commit_table(three_snapshots, (), (unknown,))
    assert "audit" not in catalog.load_table(three_snapshots.name()).refs()


def test_of_two_branches_made_at_once_with_one_name_the_second_is_refused(new_client, three_snapshots):
    first, second, _ = [snapshot.snapshot_id for snapshot in three_snapshots.snapshots()]
    late = new_client().load_table(three_snapshots.name())

    three_snapshots.manage_snapshots().create_branch(first, "audit").commit()
    with pytest.raises(CommitFailedException, match="Requirement failed: branch audit was created concurrently"):
        late.manage_snapshots().create_branch(second, "audit").commit()


def test_a_branch_that_moved_is_not_removed_by_one_who_saw_it_before(new_client, three_snapshots):
    three_snapshots.manage_snapshots().create_branch(three_snapshots.current_snapshot().snapshot_id, "audit").commit()
    late = new_client().load_table(three_snapshots.name())

    three_snapshots.append(orders(4), branch="audit")
    with pytest.raises(CommitFailedException, match="Requirement failed: branch audit has changed"):
        late.manage_snapshots().remove_branch("audit").commit()


def test_without_its_main_branch_a_table_is_empty(catalog, three_snapshots):
    catalog.commit_table(three_snapshots, (), (RemoveSnapshotRefUpdate(ref_name="main"),))

    loaded = catalog.load_table(three_snapshots.name())
    assert loaded.current_snapshot() is None
    assert ids(loaded) == []
    assert len(loaded.snapshots()) == 3


def test_named_snapshots_expire(catalog, three_snapshots):
    first, second, third = [snapshot.snapshot_id for snapshot in three_snapshots.snapshots()]
    three_snapshots.manage_snapshots().create_tag(first, "keep").commit()

    three_snapshots.maintenance.expire_snapshots().by_id(second).commit()

    loaded = catalog.load_table(three_snapshots.name())
    assert [snapshot.snapshot_id for snapshot in loaded.snapshots()] == [first, third]
    assert ids(loaded) == [1, 2, 3]
    assert ids(loaded.scan().use_ref("keep")) == [1]


def test_old_snapshots_expire(catalog, three_snapshots):
    tomorrow = datetime.datetime.now(datetime.UTC).replace(tzinfo=None) + datetime.timedelta(days=1)
    current = three_snapshots.current_snapshot().snapshot_id

    three_snapshots.maintenance.expire_snapshots().older_than(tomorrow).commit()

    loaded = catalog.load_table(three_snapshots.name())
    assert [snapshot.snapshot_id for snapshot in loaded.snapshots()] == [current]
    assert [entry.snapshot_id for entry in loaded.history()] == [current]
    assert ids(loaded) == [1, 2, 3]


def test_a_client_may_load_only_the_snapshots_that_refs_name(new_client, three_snapshots):
    first, _, third = [snapshot.snapshot_id for snapshot in three_snapshots.snapshots()]
    three_snapshots.manage_snapshots().create_tag(first, "opening").commit()

    sparse = new_client(**{"snapshot-loading-mode": "refs"}).load_table(three_snapshots.name())
    assert [snapshot.snapshot_id for snapshot in sparse.snapshots()] == [first, third]
    assert ids(sparse) == [1, 2, 3]

    sparse.append(orders(4))
    assert ids(three_snapshots.refresh()) == [1, 2, 3, 4]
    assert len(three_snapshots.snapshots()) == 4
