"""A principal with a row filter reads the files that the filter permits, and no others."""

from pathlib import Path

import pyarrow
import pytest
import requests
from files import Scene
from pyiceberg.catalog.rest import RestCatalog

POLICIES = """
@id("eu-rows")
@row_filter("{\\"type\\": \\"eq\\", \\"term\\": \\"region\\", \\"value\\": \\"eu\\"}")
permit (principal in Role::"eu", action in [Action::"Browse", Action::"Load", Action::"ReadData"], resource);

@id("eu-files")
permit (principal in Role::"eu", action in [Action::"ReadConfig", Action::"ReadPermittedFiles"], resource);
"""
DEFAULT_POLICIES = Path(__file__).parents[2] / "policies" / "default"
ROWS = pyarrow.table({"id": [1, 2, 3, 4], "region": ["eu", "us", "eu", "us"]})
NAMESPACE = "/v1/signed/namespaces/sales"


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    directory = tmp_path_factory.mktemp("permitted")
    (directory / "eu.cedar").write_text(POLICIES)
    scene = Scene(directory, f'[authz]\npolicy_paths = ["{DEFAULT_POLICIES}", "{directory}/eu.cedar"]\n')
    yield scene
    scene.stop()


def catalog(scene, role):
    return RestCatalog(
        role, uri=scene.uri, warehouse="signed", token=scene.key(role)["key"], **{"scan-planning-mode": "server"}
    )


def make(scene, name, *, partitioned):
    """Creates a table with rows of two regions."""
    lake = catalog(scene, "writer")
    lake.create_namespace_if_not_exists("sales")
    table = lake.create_table(f"sales.{name}", schema=ROWS.schema)
    if partitioned:
        with table.update_spec() as spec:
            spec.add_identity("region")
    table.append(ROWS)
    return table


def data_files(table):
    """The keys of the data files in the bucket, by region."""
    return {
        file.partition[0] if len(file.partition) else "mixed": file.file_path.removeprefix("s3://")
        for file in (task.file for task in table.scan().plan_files())
    }


def sign(scene, table, path, role="eu"):
    body = {"method": "GET", "uri": f"{scene.minio.uri}/{path}", "region": "us-east-1", "headers": {}}
    return scene.ask("POST", f"{NAMESPACE}/tables/{table}/sign", role=role, body=body)


def fetch(signed, uri=None):
    headers = {name: ",".join(values) for name, values in signed["headers"].items()}
    return requests.get(uri or signed["uri"], headers=headers)


def test_restricted_pyiceberg_reads_the_rows_of_permitted_files(scene):
    make(scene, "partitioned", partitioned=True)
    table = catalog(scene, "eu").load_table("sales.partitioned")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 3]
    assert table.scan(row_filter="id > 1").to_arrow()["id"].to_pylist() == [3]


def test_signature_for_a_permitted_file_gives_access_to_no_other_file(scene):
    files = data_files(make(scene, "signed", partitioned=True))
    signed = sign(scene, "signed", files["eu"]).expect(200)
    assert fetch(signed).content.startswith(b"PAR1")
    assert fetch(signed, f"{scene.minio.uri}/{files['us']}").status_code == 403
    assert requests.get(f"{scene.minio.uri}/{files['eu']}").status_code == 403, "without a signature"
    sign(scene, "signed", files["us"]).expect(403)
    sign(scene, "signed", files["us"], role="reader").expect(200)


def test_file_with_hidden_rows_is_neither_planned_nor_signed(scene):
    """Another catalog signs each planned file, so that one request reads the hidden rows."""
    mixed = data_files(make(scene, "mixed", partitioned=False))["mixed"]
    plan = f"{NAMESPACE}/tables/mixed/plan"
    for value in ["eu", "us", "other"]:
        filter = {"type": "eq", "term": "region", "value": value}
        scene.ask("POST", plan, role="eu", body={"filter": filter}).expect(403)
    sign(scene, "mixed", mixed).expect(403)


def test_metadata_of_the_table_is_not_signed(scene):
    table = make(scene, "metadata", partitioned=True)
    snapshot = table.current_snapshot()
    manifests = [manifest.manifest_path for manifest in snapshot.manifests(table.io)]
    for location in [table.metadata_location, snapshot.manifest_list, *manifests]:
        sign(scene, "metadata", location.removeprefix("s3://")).expect(403)


def test_restricted_principal_gets_no_credentials(scene):
    make(scene, "credentials", partitioned=True)
    path = f"{NAMESPACE}/tables/credentials"
    loaded = scene.ask("GET", path, role="eu", ways="vended-credentials").expect(200)
    assert loaded["config"]["s3.remote-signing-enabled"] == "true"
    assert loaded["config"]["scan-planning-mode"] == "server"
    assert "s3.access-key-id" not in loaded["config"] and "storage-credentials" not in loaded
    scene.ask("GET", f"{path}/credentials", role="eu").expect(403)
