"""All schema changes: the catalog stores the change, and earlier rows stay readable."""

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
)
from shop import ids, orders

PEOPLE = Schema(
    NestedField(1, "id", IntegerType(), required=True),
    NestedField(2, "name", StringType(), doc="as on the passport"),
    NestedField(3, "height", FloatType()),
    NestedField(4, "salary", DecimalType(9, 2)),
    NestedField(5, "home", StructType(NestedField(9, "city", StringType()), NestedField(10, "zip", IntegerType()))),
    NestedField(6, "visits", ListType(11, StructType(NestedField(12, "place", StringType())), element_required=False)),
    NestedField(7, "pets", MapType(13, StringType(), 14, StructType(NestedField(15, "age", IntegerType())), value_required=False)),
    NestedField(8, "born", DateType()),
    schema_id=0,
)

ADA = {
    "id": 1,
    "name": "ada",
    "height": 1.5,
    "salary": None,
    "home": {"city": "london", "zip": 7},
    "visits": [{"place": "turin"}],
    "pets": [("puff", {"age": 3})],
    "born": None,
}


@pytest.fixture
def people(new_table):
    table = new_table("people", PEOPLE)
    table.append(pa.Table.from_pylist([ADA], schema=table.schema().as_arrow()))
    return table


def names(table):
    return [field.name for field in table.schema().fields]


def field(path, **expected):
    """A check that the field at the path has these attributes, regardless of other fields."""

    def check(table):
        found = table.schema().find_field(path)
        assert {name: getattr(found, name) for name in expected} == expected

    return check


def order(*expected):
    def check(table):
        assert names(table) == list(expected)

    return check


def gone(path):
    def check(table):
        with pytest.raises(ValueError, match="Could not find field"):
            table.schema().find_field(path)

    return check


def identified_by(table, *expected):
    assert table.schema().identifier_field_names() == set(expected)


CHANGES = {
    "add a column": (
        lambda update: update.add_column("email", StringType(), doc="for receipts"),
        field("email", field_type=StringType(), doc="for receipts", required=False),
    ),
    "add a struct": (
        lambda update: update.add_column("work", StructType(NestedField(1, "city", StringType()))),
        field("work.city", field_type=StringType()),
    ),
    "add to a struct": (
        lambda update: update.add_column(("home", "street"), StringType()),
        field("home.street", field_type=StringType()),
    ),
    "add to a list's elements": (
        lambda update: update.add_column(("visits", "year"), IntegerType()),
        field("visits.element.year", field_type=IntegerType()),
    ),
    "add to a map's values": (
        lambda update: update.add_column(("pets", "kind"), StringType()),
        field("pets.value.kind", field_type=StringType()),
    ),
    "drop a column": (lambda update: update.delete_column("height"), gone("height")),
    "drop from a struct": (lambda update: update.delete_column(("home", "zip")), gone("home.zip")),
    "rename a column": (lambda update: update.rename_column("name", "full name"), field("full name", field_id=2)),
    "rename in a struct": (lambda update: update.rename_column("home.city", "town"), field("home.town", field_id=9)),
    "widen an int": (lambda update: update.update_column("id", LongType()), field("id", field_type=LongType())),
    "widen a float": (lambda update: update.update_column("height", DoubleType()), field("height", field_type=DoubleType())),
    "widen a decimal": (
        lambda update: update.update_column("salary", DecimalType(18, 2)),
        field("salary", field_type=DecimalType(18, 2)),
    ),
    "widen in a struct": (
        lambda update: update.update_column(("home", "zip"), LongType()),
        field("home.zip", field_type=LongType()),
    ),
    "make a column optional": (lambda update: update.make_column_optional("id"), field("id", required=False)),
    "reword a comment": (lambda update: update.update_column("name", doc="as spoken"), field("name", doc="as spoken")),
    "move to the front": (
        lambda update: update.move_first("born"),
        order("born", "id", "name", "height", "salary", "home", "visits", "pets"),
    ),
    "move before another": (
        lambda update: update.move_before("born", "name"),
        order("id", "born", "name", "height", "salary", "home", "visits", "pets"),
    ),
    "move after another": (
        lambda update: update.move_after("name", "pets"),
        order("id", "height", "salary", "home", "visits", "pets", "name", "born"),
    ),
    "name the identifier": (
        lambda update: update.set_identifier_fields("id"),
        lambda table: identified_by(table, "id"),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_schema_changes_and_old_rows_stay_readable(catalog, people, change):
    alter, check = CHANGES[change]
    before = people.schema()

    with people.update_schema() as update:
        alter(update)

    loaded = catalog.load_table(people.name())
    check(loaded)
    assert loaded.schema() == people.schema()
    assert loaded.schema().schema_id == 1
    assert loaded.schemas()[0] == before
    assert loaded.scan().to_arrow().num_rows == 1
    assert loaded.scan(snapshot_id=loaded.current_snapshot().snapshot_id).to_arrow()["id"].to_pylist() == [1]


def test_a_column_becomes_required_when_the_writer_insists(catalog, people):
    with people.update_schema(allow_incompatible_changes=True) as update:
        update.update_column("name", required=True)
        update.add_column("email", StringType(), required=True)

    loaded = catalog.load_table(people.name())
    assert loaded.schema().find_field("name").required
    assert loaded.schema().find_field("email").required


def test_several_changes_make_one_new_schema(catalog, people):
    with people.update_schema() as update:
        update.delete_column("height")
        update.add_column("email", StringType())
        update.rename_column("name", "full_name")
        update.move_first("email")

    loaded = catalog.load_table(people.name())
    assert names(loaded) == ["email", "id", "full_name", "salary", "home", "visits", "pets", "born"]
    assert sorted(loaded.schemas()) == [0, 1]


def test_a_dropped_columns_id_is_not_used_again(catalog, orders_table):
    orders_table.append(orders(1))
    for _ in range(2):
        with orders_table.update_schema() as update:
            update.delete_column("amount")
        with orders_table.update_schema() as update:
            update.add_column("amount", DoubleType())

    loaded = catalog.load_table(orders_table.name())
    assert loaded.schema().find_field("amount").field_id == 7
    assert loaded.metadata.last_column_id == 7
    assert loaded.scan().to_arrow()["amount"].to_pylist() == [None]


def test_returning_to_an_earlier_schema_uses_it_again(catalog, people):
    with people.update_schema() as update:
        update.add_column("email", StringType())
    with people.update_schema() as update:
        update.delete_column("email")

    loaded = catalog.load_table(people.name())
    assert loaded.schema().schema_id == 0
    assert sorted(loaded.schemas()) == [0, 1]


def test_a_schema_grows_by_the_union_with_another(catalog, people):
    with people.update_schema() as update:
        update.union_by_name(
            Schema(
                NestedField(1, "id", LongType()),
                NestedField(2, "seen_at", TimestampType()),
                NestedField(3, "home", StructType(NestedField(4, "country", StringType()))),
            )
        )

    loaded = catalog.load_table(people.name())
    assert names(loaded)[-1] == "seen_at"
    assert loaded.schema().find_field("id").field_type == LongType()
    assert loaded.schema().find_field("home.country").field_type == StringType()


def test_defaults_are_kept_since_version_3(catalog, new_table):
    table = new_table(properties={"format-version": "3"})
    with table.update_schema() as update:
        update.add_column("status", StringType(), default_value="open")
        update.add_column("priority", IntegerType(), required=True, default_value=3)
    with table.update_schema() as update:
        update.set_default_value("status", "new")

    schema = catalog.load_table(table.name()).schema()
    status, priority = schema.find_field("status"), schema.find_field("priority")
    assert (status.initial_default, status.write_default) == ("open", "new")
    assert (priority.required, priority.initial_default, priority.write_default) == (True, 3, 3)


def test_of_two_schema_changes_made_at_once_the_second_is_refused(new_client, orders_table):
    late = new_client().load_table(orders_table.name())
    with orders_table.update_schema() as update:
        update.add_column("first", StringType())

    with (
        pytest.raises(CommitFailedException, match="Requirement failed: current schema changed: expected id 0 != 1"),
        late.update_schema() as update,
    ):
        update.add_column("second", StringType())

    with late.refresh().update_schema() as update:
        update.add_column("second", StringType())
    assert names(orders_table.refresh())[-2:] == ["first", "second"]
    assert ids(orders_table) == []
