"""Spark's credentials: an API key, a token for an API key, or a token of an external issuer."""

import time

import pytest
from py4j.protocol import Py4JJavaError


def properties(server, key, way):
    return {
        "jwt": {"token": server.issuer.token("alice", ["writer"])},
        "token": {"token": key["key"]},
        "credential": {"credential": f"{key['id']}:{key['key']}"},
        "nothing": {},
        "another's token": {"token": server.issuer.token("alice", ["writer"], audience="another-service")},
        "a wrong secret": {"credential": f"{key['id']}:sb_nonsense"},
    }[way]


@pytest.fixture(scope="module")
def key(secured_server):
    """One key for all tests: a catalog continues to request tokens after its test, on a thread that
    all catalogs share."""
    return secured_server.manage("POST", "api-keys", {"name": "spark", "roles": ["writer"]})


@pytest.fixture
def connect(spark, secured_server, key, unique):
    """Configures a catalog on the secured server. Returns its name."""

    def set_up(way):
        name = unique("secured")
        options = {"type": "rest", "uri": secured_server.uri, "warehouse": "default", "cache-enabled": "false"}
        prefix = f"spark.sql.catalog.{name}"
        spark.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
        for option, value in {**options, **properties(secured_server, key, way)}.items():
            spark.conf.set(f"{prefix}.{option}", value)
        return name

    return set_up


@pytest.mark.parametrize("way", ["jwt", "token", "credential"])
def test_a_credential_lets_one_work(spark, connect, unique, way):
    namespace = f"{connect(way)}.{unique('shop')}"
    spark.sql(f"CREATE NAMESPACE {namespace}")
    spark.sql(f"CREATE TABLE {namespace}.orders (id BIGINT)")
    spark.sql(f"INSERT INTO {namespace}.orders VALUES (1), (2)")
    assert spark.sql(f"SELECT sum(id) FROM {namespace}.orders").collect()[0][0] == 3
    spark.sql(f"DROP TABLE {namespace}.orders")
    spark.sql(f"DROP NAMESPACE {namespace}")


@pytest.mark.parametrize("way", ["nothing", "another's token", "a wrong secret"])
def test_nobody_gets_in_without_one(spark, connect, way):
    with pytest.raises(Py4JJavaError, match="NotAuthorizedException|invalid_client"):
        spark.sql(f"SHOW NAMESPACES IN {connect(way)}")


def test_a_client_outlives_the_token_that_it_got_for_a_key(spark, connect, secured_server, unique):
    catalog = connect("credential")
    spark.sql(f"SHOW NAMESPACES IN {catalog}")
    time.sleep(secured_server.own_token_lifetime_s + 1)
    namespace = f"{catalog}.{unique('shop')}"
    spark.sql(f"CREATE NAMESPACE {namespace}")
    spark.sql(f"DROP NAMESPACE {namespace}")


def test_a_revoked_key_is_good_no_more(spark, connect, secured_server, key):
    catalog = connect("token")
    spark.sql(f"SHOW NAMESPACES IN {catalog}")
    secured_server.manage("DELETE", f"api-keys/{key['id']}")
    with pytest.raises(Py4JJavaError, match="NotAuthorizedException"):
        spark.sql(f"SHOW NAMESPACES IN {catalog}").collect()
