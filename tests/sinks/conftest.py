"""The catalog and the brokers of a test."""

import os
import re

import pytest
from brokers import Kafka, Nats
from certificates import Authority
from scene import Catalog

BROKERS = {"nats": Nats, "kafka": Kafka}


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in list(os.environ):
        if re.match(r"(NATS|KAFKA)_(?!SERVER|JARS)|SLATEBERG_(URL|API_KEY)|https?_proxy|HTTPS?_PROXY", name):
            monkeypatch.delenv(name)


@pytest.fixture
def catalog(tmp_path):
    catalog = Catalog(tmp_path)
    yield catalog
    catalog.server.stop()


@pytest.fixture(params=BROKERS)
def broker(request, tmp_path):
    broker = BROKERS[request.param](tmp_path)
    yield broker
    broker.stop()


@pytest.fixture(params=[f"{name}-{kind}" for name, broker in BROKERS.items() for kind in broker.CREDENTIALS])
def secured_broker(request, tmp_path):
    name, kind = request.param.split("-", 1)
    broker = BROKERS[name](tmp_path, Authority(tmp_path / "ca"), secured=kind)
    yield broker
    broker.stop()
