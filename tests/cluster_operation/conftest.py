import pytest
from cluster import Cluster, Proxy


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    # The proxies of the environment do not apply to the loopback.
    for name in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"]:
        monkeypatch.delenv(name, raising=False)
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.end()


@pytest.fixture
def proxy(cluster, tmp_path):
    proxy = Proxy(tmp_path, cluster.members)
    yield proxy
    proxy.end()
