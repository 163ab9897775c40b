"""Concurrent writers: in threads, in processes, and with stale metadata."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
    ValidationException,
)
from shop import ORDERS, ids, orders

PATIENT = {"commit.retry.num-retries": "30", "commit.retry.min-wait-ms": "20", "commit.retry.max-wait-ms": "200"}
IMPATIENT = {"commit.retry.num-retries": "0"}
APPEND_ROWS = Path(__file__).with_name("append_rows.py")


def at_once(tasks):
    """Runs the tasks concurrently. Returns the result or exception of each."""

    def outcome(task):
        try:
            return task()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(tasks)) as pool:
        return list(pool.map(outcome, tasks))


def test_appends_from_threads_all_arrive(catalog, new_client, new_table):
    table = new_table(properties=PATIENT)

    def append(writer):
        own = new_client().load_table(table.name())
        for i in range(3):
            own.append(orders(10 * writer + i))

    assert at_once([lambda writer=writer: append(writer) for writer in range(4)]) == [None] * 4
    assert_every_append_arrived(catalog.load_table(table.name()), [10 * writer + i for writer in range(4) for i in range(3)])


def test_appends_from_processes_all_arrive(catalog, server, new_table):
    table = new_table(properties=PATIENT)
    writers = [
        subprocess.Popen(
            [sys.executable, APPEND_ROWS, server.uri, ".".join(table.name()), *(str(10 * writer + i) for i in range(3))],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for writer in range(2)
    ]

    for writer in writers:
        said, _ = writer.communicate(timeout=60)
        assert writer.returncode == 0, said
    assert_every_append_arrived(catalog.load_table(table.name()), [0, 1, 2, 10, 11, 12])


def test_blind_appends_succeed_without_retries_if_the_table_rebases_them(catalog, new_client, new_table):
    table = new_table(properties={**IMPATIENT, "slateberg.append-rebase": "declared"})

    def append(writer):
        own = new_client().load_table(table.name())
        for i in range(4):
            own.append(orders(10 * writer + i), snapshot_properties={"slateberg.blind-append": "true"})

    assert at_once([lambda writer=writer: append(writer) for writer in range(6)]) == [None] * 6
    table = catalog.load_table(table.name())
    expected = sorted(10 * writer + i for writer in range(6) for i in range(4))
    assert_every_append_arrived(table, expected)
    # Each snapshot has the rows of its parent and one more.
    for number, snapshot in enumerate(table.snapshots(), start=1):
        assert table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().num_rows == number
        assert snapshot.summary["total-records"] == str(number)


def test_appends_that_merge_manifests_succeed_without_retries(catalog, new_client, new_table):
    merging = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "4"}
    table = new_table(properties={**IMPATIENT, **merging, "slateberg.append-rebase": "all"})

    def append(writer):
        own = new_client().load_table(table.name())
        for i in range(6):
            own.append(orders(10 * writer + i))

    assert at_once([lambda writer=writer: append(writer) for writer in range(6)]) == [None] * 6
    table = catalog.load_table(table.name())
    assert_every_append_arrived(table, [10 * writer + i for writer in range(6) for i in range(6)])
    for number, snapshot in enumerate(table.snapshots(), start=1):
        assert table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().num_rows == number
    assert len(table.inspect.manifests()) < 36, "manifests were merged"


def test_undeclared_append_to_a_table_that_rebases_declared_ones_is_refused(new_client, new_table):
    table = new_table(properties={**IMPATIENT, "slateberg.append-rebase": "declared"})
    late = new_client().load_table(table.name())

    table.append(orders(1))
    with pytest.raises(CommitFailedException, match="not rebased: the writer did not declare a blind append"):
        late.append(orders(2))
    assert ids(table.refresh()) == [1]


def test_overwrite_of_a_table_that_rebases_all_appends_is_refused(new_client, new_table):
    table = new_table(properties={**IMPATIENT, "slateberg.append-rebase": "all"})
    table.append(orders(1))
    late = new_client().load_table(table.name())

    table.append(orders(2))
    with pytest.raises(CommitFailedException, match="not rebased"):
        late.overwrite(orders(3))
    assert ids(table.refresh()) == [1, 2]


def assert_every_append_arrived(table, expected):
    assert ids(table) == sorted(expected)
    snapshots = table.snapshots()
    assert [snapshot.sequence_number for snapshot in snapshots] == list(range(1, len(expected) + 1))
    # Each snapshot is based on the previous one: no append was lost or overwritten.
    assert [snapshot.parent_snapshot_id for snapshot in snapshots] == [None, *(s.snapshot_id for s in snapshots[:-1])]


def test_of_two_overwrites_the_second_is_refused(new_client, new_table):
    table = new_table(properties=IMPATIENT)
    table.append(orders(1))
    late = new_client().load_table(table.name())

    table.overwrite(orders(2))
    with pytest.raises(CommitFailedException, match="Requirement failed: branch main has changed: expected id"):
        late.overwrite(orders(3))
    assert ids(table.refresh()) == [2]


def test_an_overwrite_that_retries_sees_the_rows_it_would_lose(new_client, new_table):
    table = new_table(properties=PATIENT)
    table.append(orders(1))
    late = new_client().load_table(table.name())

    table.append(orders(2))
    with pytest.raises(ValidationException):
        late.overwrite(orders(3))
    assert ids(table.refresh()) == [1, 2]


def test_the_first_append_wins_over_one_that_saw_the_table_empty(new_client, new_table):
    table = new_table(properties=IMPATIENT)
    late = new_client().load_table(table.name())

    table.append(orders(1))
    with pytest.raises(CommitFailedException, match="Requirement failed: branch main was created concurrently"):
        late.append(orders(2))
    assert ids(table.refresh()) == [1]


def test_changes_that_do_not_touch_each_other_both_happen(catalog, new_client, orders_table):
    late = new_client().load_table(orders_table.name())
    orders_table.append(orders(1))
    with orders_table.transaction() as transaction:
        transaction.set_properties(owner="ada")
    with late.transaction() as transaction:
        transaction.set_properties(tier="gold")
    with late.update_spec() as update:
        update.add_identity("region")

    table = catalog.load_table(orders_table.name())
    assert (table.properties["owner"], table.properties["tier"]) == ("ada", "gold")
    assert ids(table) == [1]


def test_a_table_made_anew_is_not_the_table_one_knew(catalog, new_client, namespace, orders_table):
    late = new_client().load_table(orders_table.name())
    catalog.drop_table(orders_table.name())
    catalog.create_table((namespace, "orders"), ORDERS)

    with pytest.raises(CommitFailedException, match="Requirement failed: UUID does not match"), late.transaction() as transaction:
        transaction.set_properties(owner="ada")


def test_a_dropped_table_takes_no_commits(catalog, orders_table):
    catalog.drop_table(orders_table.name())
    with pytest.raises((RESTError, NoSuchTableError), match="NoSuchTableException: Table does not exist"):
        orders_table.append(orders(1))
    assert not catalog.table_exists(orders_table.name())


def test_of_many_creating_one_table_one_does(catalog, new_client, namespace):
    clients = [new_client() for _ in range(4)]
    outcomes = at_once([lambda client=client: client.create_table((namespace, "orders"), ORDERS) for client in clients])

    made = [outcome for outcome in outcomes if not isinstance(outcome, Exception)]
    assert len(made) == 1
    assert all(isinstance(outcome, TableAlreadyExistsError) for outcome in outcomes if outcome is not made[0])
    assert catalog.load_table((namespace, "orders")).metadata.table_uuid == made[0].metadata.table_uuid


def test_of_many_creating_one_namespace_one_does(catalog, new_client, namespace):
    clients = [new_client() for _ in range(4)]
    outcomes = at_once([lambda client=client: client.create_namespace((namespace, "north")) for client in clients])

    assert outcomes.count(None) == 1
    assert sum(isinstance(outcome, NamespaceAlreadyExistsError) for outcome in outcomes) == 3
    assert catalog.list_namespaces(namespace) == [(namespace, "north")]


def test_of_many_renaming_to_one_name_one_does(catalog, new_client, namespace, new_table):
    for i in range(4):
        new_table(f"orders_{i}")
    clients = [new_client() for _ in range(4)]
    outcomes = at_once(
        [
            lambda client=client, i=i: client.rename_table((namespace, f"orders_{i}"), (namespace, "winner"))
            for i, client in enumerate(clients)
        ]
    )

    assert sum(isinstance(outcome, TableAlreadyExistsError) for outcome in outcomes) == 3
    assert len(catalog.list_tables(namespace)) == 4
    assert catalog.table_exists((namespace, "winner"))


def test_of_many_dropping_one_table_one_does(catalog, new_client, orders_table):
    clients = [new_client() for _ in range(4)]
    outcomes = at_once([lambda client=client: client.drop_table(orders_table.name()) for client in clients])

    assert outcomes.count(None) == 1
    assert sum(isinstance(outcome, NoSuchTableError) for outcome in outcomes) == 3
