"""Clients with only the catalog's URI and a credential can access the files of tables, and no
others."""

import base64
import hashlib

import pyarrow
import pytest
import requests
from botocore.exceptions import ClientError
from files import Scene
from minio import BUCKET
from pyiceberg.catalog.rest import RestCatalog

ROWS = pyarrow.table({"id": [1, 2, 3], "region": ["eu", "us", "a b/c=%2F+ü"]})


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    scene = Scene(tmp_path_factory.mktemp("files"))
    yield scene
    scene.stop()


@pytest.fixture
def overlapping_scene(tmp_path):
    """A scene whose catalog permits tables at the locations of other tables."""
    scene = Scene(tmp_path, "[catalog]\noverlapping_locations = true\n")
    yield scene
    scene.stop()


def catalog(scene, warehouse, role="writer", **more):
    return RestCatalog(warehouse, uri=scene.uri, warehouse=warehouse, token=scene.key(role)["key"], **more)


def make(scene, warehouse, name, partitioned=False):
    """Creates a table with rows, with a client that has no credentials for the store."""
    lake = catalog(scene, warehouse)
    namespace = name.split(".")[0]
    lake.create_namespace_if_not_exists(namespace)
    table = lake.create_table(name, schema=ROWS.schema)
    if partitioned:
        with table.update_spec() as spec:
            spec.add_identity("region")
    table.append(ROWS)
    return table


def vended(scene, name, role="writer"):
    namespace, table = name.split(".")
    path = f"/v1/vended/namespaces/{namespace}/tables/{table}"
    return scene.ask("GET", path, role=role, ways="vended-credentials")


def prefix(table):
    return table.location().removeprefix(f"s3://{BUCKET}/") + "/"


FILE_IO = [{}, {"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"}]


@pytest.mark.parametrize("file_io", FILE_IO, ids=["pyarrow", "fsspec"])
def test_pyiceberg_writes_and_reads_with_vended_credentials(scene, file_io):
    name = f"v{len(file_io)}.orders"
    make(scene, "vended", name, partitioned=True)
    for role in ["writer", "reader"]:
        table = catalog(scene, "vended", role, **file_io).load_table(name)
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]
    table = catalog(scene, "vended", **file_io).load_table(name)
    table.append(ROWS)
    table.delete("region = 'eu'")
    assert len(table.scan().to_arrow()) == 4


def test_pyiceberg_writes_and_reads_with_signed_requests(scene):
    name = "s.orders"
    table = make(scene, "signed", name, partitioned=True)
    assert "s3.access-key-id" not in table.io.properties
    table = catalog(scene, "signed", "reader").load_table(name)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]
    with pytest.raises(Exception):
        table.append(ROWS)
    table = catalog(scene, "signed").load_table(name)
    table.delete("region = 'eu'")
    assert len(table.scan().to_arrow()) == 2


@pytest.mark.parametrize("warehouse", ["vended", "signed"])
def test_pyiceberg_creates_a_table_with_rows_in_one_transaction(scene, warehouse):
    lake = catalog(scene, warehouse)
    lake.create_namespace_if_not_exists("staged")
    with lake.create_table_transaction("staged.t", schema=ROWS.schema) as transaction:
        transaction.append(ROWS)
    assert len(lake.load_table("staged.t").scan().to_arrow()) == 3


def refused(call, *args, **kwargs):
    with pytest.raises(ClientError) as error:
        call(*args, **kwargs)
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403, error.value
    return error.value.response["Error"]["Code"]


def test_vended_credentials_give_access_to_one_table_only(scene):
    mine, other = make(scene, "vended", "outside.mine"), make(scene, "vended", "outside.other")
    config = vended(scene, "outside.mine").expect(200)["storage-credentials"][0]["config"]
    store = scene.minio.client(config)
    own, theirs = prefix(mine), prefix(other)
    key = scene.minio.keys(theirs)[0]
    assert refused(store.get_object, Bucket=BUCKET, Key=key) == "AccessDenied"
    refused(store.head_object, Bucket=BUCKET, Key=key)
    refused(store.put_object, Bucket=BUCKET, Key=f"{theirs}data/x", Body=b"x")
    refused(store.delete_object, Bucket=BUCKET, Key=key)
    refused(store.copy_object, Bucket=BUCKET, Key=f"{own}stolen", CopySource=f"{BUCKET}/{key}")
    refused(store.create_multipart_upload, Bucket=BUCKET, Key=f"{theirs}data/x")
    for listed in ["", "vended/", theirs, own.rstrip("/"), own[:-3]]:
        refused(store.list_objects_v2, Bucket=BUCKET, Prefix=listed)
    refused(store.list_objects_v2, Bucket=BUCKET)
    refused(store.list_buckets)
    # A key outside of the table that shares the prefix of its name.
    refused(store.put_object, Bucket=BUCKET, Key=f"{own.rstrip('/')}-next/x", Body=b"x")
    # The table's own files are accessible, also with multipart uploads.
    assert store.list_objects_v2(Bucket=BUCKET, Prefix=own)["KeyCount"] > 0
    upload = store.create_multipart_upload(Bucket=BUCKET, Key=f"{own}data/parts")["UploadId"]
    part = store.upload_part(Bucket=BUCKET, Key=f"{own}data/parts", UploadId=upload, PartNumber=1, Body=b"x")
    done = {"Parts": [{"ETag": part["ETag"], "PartNumber": 1}]}
    store.complete_multipart_upload(Bucket=BUCKET, Key=f"{own}data/parts", UploadId=upload, MultipartUpload=done)
    store.delete_object(Bucket=BUCKET, Key=f"{own}data/parts")


def test_vended_credentials_of_a_reader_permit_no_writes(scene):
    table = make(scene, "vended", "readers.t")
    config = vended(scene, "readers.t", role="reader").expect(200)["config"]
    store = scene.minio.client(config)
    own = prefix(table)
    key = scene.minio.keys(own)[0]
    assert store.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    assert store.list_objects_v2(Bucket=BUCKET, Prefix=own)["KeyCount"] > 0
    refused(store.put_object, Bucket=BUCKET, Key=f"{own}data/x", Body=b"x")
    refused(store.delete_object, Bucket=BUCKET, Key=key)
    refused(store.create_multipart_upload, Bucket=BUCKET, Key=f"{own}data/x")


def test_signature_is_valid_only_for_the_signed_request(scene):
    mine, other = make(scene, "signed", "sign.mine"), make(scene, "signed", "sign.other")
    own, theirs = prefix(mine), prefix(other)
    stolen = scene.minio.keys(theirs)[0]

    def sign(method, path, headers=None, **more):
        body = {"method": method, "uri": f"{scene.minio.uri}/{path}", "region": "us-east-1", "headers": headers or {}}
        return scene.ask("POST", "/v1/signed/namespaces/sign/tables/mine/sign", body=body | more)

    def send(method, signed, body=None, uri=None, **more):
        headers = {name: ",".join(values) for name, values in signed["headers"].items()}
        return requests.request(method, uri or signed["uri"], headers=headers | more, data=body).status_code

    key = f"{BUCKET}/{own}data/a b+c%252F"
    signed = sign("PUT", key.replace(" ", "%20")).expect(200)
    assert send("PUT", signed, b"x") == 200
    assert f"{own}data/a b+c%2F" in scene.minio.keys(own)
    # The signature is not valid for another key, another method, or a copy from another source.
    assert send("PUT", signed, b"x", uri=f"{scene.minio.uri}/{BUCKET}/{theirs}x") == 403
    assert send("DELETE", signed) == 403
    # MinIO accepts unsigned headers. Therefore the signing credentials must be limited to the
    # table.
    assert send("PUT", signed, **{"x-amz-copy-source": f"/{BUCKET}/{stolen}"}) == 403
    sign("PUT", key.replace(" ", "%20"), {"x-amz-copy-source": [f"/{BUCKET}/{stolen}"]}).expect(403)
    sign("GET", f"{BUCKET}/{stolen}").expect(403)
    # This request deletes several keys, which are in its body.
    xml = f"<Delete><Object><Key>{own}data/a b+c%2F</Key></Object></Delete>"
    signed = sign("POST", f"{BUCKET}/?delete", body=xml).expect(200)
    evil = f"<Delete><Object><Key>{stolen}</Key></Object></Delete>"
    sign("POST", f"{BUCKET}/?delete", body=evil).expect(403)
    sign("POST", f"{BUCKET}/?delete").expect(400)

    def delete(text):
        md5 = base64.b64encode(hashlib.md5(text.encode()).digest()).decode()
        return send("POST", signed, text.encode(), **{"Content-MD5": md5})

    # MinIO does not verify the body against its signed hash, and responds with 200 and an error for
    # each key. The neighbor's file is safe because the signing credentials are limited to this
    # table.
    delete(evil)
    assert stolen in scene.minio.keys(theirs)
    assert delete(xml) == 200
    assert f"{own}data/a b+c%2F" not in scene.minio.keys(own)


def test_signing_is_rejected_without_table_credentials_if_the_store_accepts_unsigned_headers(scene):
    namespaces = "/v1/trusting/namespaces"
    scene.ask("POST", namespaces, body={"namespace": ["n"]}).expect(200)
    schema = {"type": "struct", "schema-id": 0, "fields": []}
    made = scene.ask("POST", f"{namespaces}/n/tables", body={"name": "t", "schema": schema}).expect(200)
    place = made["metadata"]["location"].removeprefix("s3://")
    body = {"method": "PUT", "uri": f"{scene.minio.uri}/{place}/x", "region": "us-east-1", "headers": {}}
    answer = scene.ask("POST", f"{namespaces}/n/tables/t/sign", body=body)
    assert answer.status == 400 and "the store accepts unsigned headers" in answer.body["error"]["message"]


def create_at(scene, name, location):
    """Creates a table of `places` at this location, and requests credentials for its files."""
    body = {"name": name, "location": location, "schema": {"type": "struct", "schema-id": 0, "fields": []}}
    return scene.ask("POST", "/v1/vended/namespaces/places/tables", ways="vended-credentials", body=body)


def test_table_at_the_location_of_another_table_is_rejected(scene):
    location = make(scene, "vended", "places.mine").location()
    for place in [location, location.rpartition("/")[0], f"{location}/data"]:
        answer = create_at(scene, "other", place)
        assert answer.status == 400 and "it overlaps with the location of another" in answer.body["error"]["message"]
        vended(scene, "places.other").expect(404)
    assert "storage-credentials" in vended(scene, "places.mine").expect(200)


def test_table_at_the_location_of_another_table_gets_no_credentials_if_overlaps_are_permitted(overlapping_scene):
    scene = overlapping_scene
    location = make(scene, "vended", "places.mine").location()
    for name, place in [("same", location), ("around", location.rpartition("/")[0]), ("inside", f"{location}/data")]:
        made = create_at(scene, name, place).expect(200)
        assert made["config"] == {} and "storage-credentials" not in made
        loaded = vended(scene, f"places.{name}").expect(200)
        assert loaded["config"] == {} and "storage-credentials" not in loaded
        scene.ask("GET", f"/v1/vended/namespaces/places/tables/{name}/credentials").expect(403)
    assert "storage-credentials" in vended(scene, "places.mine").expect(200)
