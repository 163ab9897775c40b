"""All ALTER TABLE statements for columns, partitions and order. Earlier rows stay readable."""

import pytest


@pytest.fixture
def people(sql):
    sql(
        """CREATE TABLE people (
            id INT NOT NULL, name STRING, height FLOAT, salary DECIMAL(9, 2),
            home STRUCT<city: STRING, zip: INT>, visits ARRAY<STRUCT<place: STRING>>, pets MAP<STRING, STRUCT<age: INT>>,
            born TIMESTAMP)"""
    )
    sql(
        """INSERT INTO people SELECT 1, 'ada', 1.5, 9.25, named_struct('city', 'london', 'zip', 7),
            array(named_struct('place', 'turin')), map('puff', named_struct('age', 3)), TIMESTAMP '1815-12-10 00:00:00'"""
    )
    return "people"


def types(sql, table):
    return {name: kind for name, kind, _ in sql(f"DESCRIBE {table}") if name and not name.startswith("#")}


COLUMNS = {
    "add": ("ADD COLUMN email STRING COMMENT 'for receipts'", {"email": "string"}),
    "add several": ("ADD COLUMNS (email STRING, age INT)", {"email": "string", "age": "int"}),
    "add a struct": ("ADD COLUMN work STRUCT<city: STRING>", {"work": "struct<city:string>"}),
    "add to a struct": ("ADD COLUMN home.street STRING", {"home": "struct<city:string,zip:int,street:string>"}),
    "add to a list": ("ADD COLUMN visits.element.year INT", {"visits": "array<struct<place:string,year:int>>"}),
    "add to a map": ("ADD COLUMN pets.value.kind STRING", {"pets": "map<string,struct<age:int,kind:string>>"}),
    "drop": ("DROP COLUMN height", {"height": None}),
    "drop from a struct": ("DROP COLUMN home.zip", {"home": "struct<city:string>"}),
    "rename": ("RENAME COLUMN name TO full_name", {"name": None, "full_name": "string"}),
    "rename in a struct": ("RENAME COLUMN home.city TO town", {"home": "struct<town:string,zip:int>"}),
    "widen an int": ("ALTER COLUMN id TYPE BIGINT", {"id": "bigint"}),
    "widen a float": ("ALTER COLUMN height TYPE DOUBLE", {"height": "double"}),
    "widen a decimal": ("ALTER COLUMN salary TYPE DECIMAL(18, 2)", {"salary": "decimal(18,2)"}),
    "widen in a struct": ("ALTER COLUMN home.zip TYPE BIGINT", {"home": "struct<city:string,zip:bigint>"}),
}


@pytest.mark.parametrize("change", COLUMNS)
def test_columns_change(sql, people, change):
    statement, expected = COLUMNS[change]
    sql(f"ALTER TABLE people {statement}")

    found = types(sql, "people")
    assert {name: found.get(name) for name in expected} == expected
    assert sql("SELECT id, salary FROM people")[0][0] == 1
    assert len(sql("SELECT * FROM people")) == 1


def test_columns_move(sql, people):
    sql("ALTER TABLE people ALTER COLUMN born FIRST")
    sql("ALTER TABLE people ALTER COLUMN name AFTER pets")
    sql("ALTER TABLE people ADD COLUMN email STRING AFTER id")
    sql("ALTER TABLE people ALTER COLUMN home.zip FIRST")

    assert list(types(sql, "people")) == ["born", "id", "email", "height", "salary", "home", "visits", "pets", "name"]
    assert types(sql, "people")["home"] == "struct<zip:int,city:string>"
    assert sql("SELECT id, name, home.city FROM people") == [(1, "ada", "london")]


def test_comments_and_nullability_change(sql, people):
    sql("ALTER TABLE people ALTER COLUMN name COMMENT 'as spoken'")
    sql("ALTER TABLE people ALTER COLUMN id DROP NOT NULL")

    assert {name: comment for name, _, comment in sql("DESCRIBE people")}["name"] == "as spoken"
    sql("INSERT INTO people (name) VALUES ('nobody')")
    assert sql("SELECT name FROM people WHERE id IS NULL") == [("nobody",)]
    with pytest.raises(Exception, match="[Cc]annot change (nullable|column nullability)"):
        sql("ALTER TABLE people ALTER COLUMN id SET NOT NULL")


def test_identifier_fields_are_set_and_dropped(sql, people):
    def identifier():
        return sql("SHOW TBLPROPERTIES people ('identifier-fields')")[0][1]

    sql("ALTER TABLE people SET IDENTIFIER FIELDS id")
    assert identifier() == "[id]"
    sql("ALTER TABLE people DROP IDENTIFIER FIELDS id")
    assert "id" not in identifier() or "does not have" in identifier()


def test_a_name_comes_back_without_its_old_values(sql, people):
    sql("ALTER TABLE people DROP COLUMN name")
    sql("ALTER TABLE people ADD COLUMN name STRING")
    assert sql("SELECT name FROM people") == [(None,)]


@pytest.mark.parametrize(
    ("transform", "described"),
    [
        ("name", "name"),
        ("bucket(4, id)", "bucket(4, id)"),
        ("truncate(2, name)", "truncate(2, name)"),
        ("year(born)", "years(born)"),
        ("month(born)", "months(born)"),
        ("day(born)", "days(born)"),
        ("hour(born)", "hours(born)"),
    ],
)
def test_partition_fields_are_added_and_dropped_while_rows_are_there(sql, people, transform, described):
    sql(f"ALTER TABLE people ADD PARTITION FIELD {transform}")
    sql("INSERT INTO people (id, name, born) VALUES (2, 'grace', TIMESTAMP '1906-12-09 00:00:00')")
    assert f"PARTITIONED BY ({described})" in sql("SHOW CREATE TABLE people")[0][0]
    assert [row[0] for row in sql("SELECT spec_id FROM @people.files ORDER BY 1")] == [0, 1]

    sql(f"ALTER TABLE people DROP PARTITION FIELD {transform}")
    sql("INSERT INTO people (id, name) VALUES (3, 'edith')")
    assert [row[0] for row in sql("SELECT id FROM people ORDER BY id")] == [1, 2, 3]


def test_partition_fields_are_named_and_replaced(sql, people):
    sql("ALTER TABLE people ADD PARTITION FIELD bucket(4, id) AS shard")
    sql("ALTER TABLE people REPLACE PARTITION FIELD shard WITH bucket(8, id) AS wider")
    sql("ALTER TABLE people ADD PARTITION FIELD month(born) AS month")
    sql("ALTER TABLE people DROP PARTITION FIELD month")
    sql("INSERT INTO people (id, name) VALUES (2, 'grace')")

    assert types(sql, "@people.partitions")["partition"] == "struct<shard:int,wider:int,month:int>"
    with pytest.raises(Exception, match="Cannot find partition field to remove"):
        sql("ALTER TABLE people DROP PARTITION FIELD month")


def test_write_order_and_distribution_change(sql, people, properties):
    sql("ALTER TABLE people WRITE ORDERED BY name DESC NULLS LAST, bucket(4, id)")
    assert properties("people")["sort-order"] == "name DESC NULLS LAST, bucket(4, id) ASC NULLS FIRST"
    assert properties("people")["write.distribution-mode"] == "range"

    sql("ALTER TABLE people ADD PARTITION FIELD bucket(2, id)")
    sql("ALTER TABLE people WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY id")
    assert properties("people")["sort-order"] == "id ASC NULLS FIRST"
    assert properties("people")["write.distribution-mode"] == "hash"
    sql("INSERT INTO people (id, name) VALUES (2, 'grace'), (3, 'edith')")

    sql("ALTER TABLE people WRITE UNORDERED")
    assert "sort-order" not in properties("people")
    assert [row[0] for row in sql("SELECT id FROM people ORDER BY id")] == [1, 2, 3]
