"""The commands of `slateberg cluster` on a bucket."""

import time

from web import request


def test_transfer_makes_the_named_member_the_writer(cluster):
    before, target = cluster.writer(), cluster.standbys()[1]
    status = cluster.online(before, "cluster", "transfer", target.name)
    names = {member["id"]: member["name"] for member in status["members"]}
    assert names[status["writer"]] == target.name
    assert cluster.writer() is target
    refused = cluster.online(before, "cluster", "transfer", "nobody", code=1)
    assert "nobody" in refused
    cluster.stop()


def test_finalize_leaves_the_writer_of_the_newest_version(cluster):
    writer = cluster.writer()
    cluster.online(writer, "cluster", "finalize")
    assert cluster.writer() is writer
    assert cluster.offline("cluster", "status")["is-upgraded"] is True
    cluster.stop()


def test_paused_cluster_reads_and_rejects_changes_until_it_is_resumed(cluster):
    writer, (standby, other) = cluster.writer(), cluster.standbys()
    create(writer, "before").expect(200)
    paused = cluster.online(standby, "cluster", "pause")
    assert (paused["status"], paused["writer"]) == ("paused", writer.name)
    for member in cluster.members:
        namespaces = request("GET", f"{member.uri}/v1/namespaces").expect(200)["namespaces"]
        assert ["before"] in namespaces
        error = create(member, "during").expect(503)["error"]
        assert error["type"] == "ClusterPausedException"
    assert cluster.offline("cluster", "status")["writer"]["state"] == "paused"
    # A paused store is closed, so commands can open it.
    cluster.offline("fsck")
    other.replace()
    assert cluster.offline("cluster", "resume")["status"] == "resumed"
    for number, member in enumerate(cluster.members):
        wait_until_resumed(member)
        create(member, f"after{number}").expect(200)
    cluster.offline("cluster", "resume", code=1)
    cluster.stop()


def wait_until_resumed(member):
    deadline = time.monotonic() + 60
    while request("GET", f"{member.uri}/ready").body["status"] == "paused":
        assert time.monotonic() < deadline, f"{member.name} is still paused"
        time.sleep(0.1)


def create(member, name):
    return request("POST", f"{member.uri}/v1/namespaces", json_body={"namespace": [name]}, timeout_s=60)
