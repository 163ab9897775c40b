"""`slateberg watch --to` sends every event to the broker, and says what to do if it cannot."""

import itertools
import random
import re
import time

import pytest
from brokers import TOPIC, Kafka, Nats, free_port
from processes import Repeatedly
from scene import TABLES, Sender

KILLS = 5


def expected_messages(events):
    """Returns the ids and the data of the events in the order of the change feed."""
    expected, transaction = [], []
    for event in events:
        transaction.append(event)
        if "position" in event:
            expected += [(f"{event['position']}.{index}", data) for index, data in enumerate(transaction)]
            transaction = []
    return expected


def without_repetitions(messages):
    found = {}
    for identifier, media_type, body in messages:
        assert media_type == "application/cloudevents+json"
        assert (body["specversion"], body["id"], body["type"]) == ("1.0", identifier, body["data"]["type"])
        assert body["source"].startswith("urn:uuid:")
        assert found.setdefault(identifier, body["data"]) == body["data"]
    return list(found.items())


def assert_complete(catalog, broker):
    """Checks that the broker has each event, in the order of the change feed."""
    expected = expected_messages(catalog.events())
    partitions = [without_repetitions(messages) for messages in broker.messages()]
    if len(partitions) == 1:
        assert [identifier for identifier, _ in partitions[0]] == [identifier for identifier, _ in expected]
        assert partitions == [expected]
        return
    found = list(itertools.chain(*partitions))
    assert sorted(identifier for identifier, _ in found) == sorted(identifier for identifier, _ in expected)
    order = {identifier: number for number, (identifier, _) in enumerate(expected)}
    for partition in partitions:
        numbers = [order[identifier] for identifier, _ in partition]
        assert numbers == sorted(numbers), "the events of a partition are in the order of the change feed"
    assert dict(found) == dict(expected)


def load(catalog):
    numbers = itertools.count()
    return Repeatedly(lambda: catalog.commit(random.randrange(TABLES), next(numbers)))


def test_every_event_arrives_in_order_when_the_process_is_killed_during_load(catalog, broker):
    sender = Sender(catalog, broker, "--after", "oldest").start()
    sender.process.wait_until(catalog.cursors, 60)
    with load(catalog) as loading:
        for _ in range(KILLS):
            loading.wait_for(20)
            sender.kill()
            loading.wait_for(20)
            sender.start()
    sender.stop()
    sender.drain()
    assert not loading.failures
    assert_complete(catalog, broker)


def test_every_event_arrives_in_order_when_the_broker_is_killed_during_load(catalog, broker):
    sender = Sender(catalog, broker, "--after", "oldest").start()
    with load(catalog) as loading:
        loading.wait_for(20)
        broker.kill()
        loading.wait_for(50)
        sender.process.wait_until(lambda: "Retrying" in sender.process.said(), 60)
        broker.start()
        sender.process.wait_until(lambda: "accepts events again" in sender.process.said(), 120)
        loading.wait_for(20)
    assert sender.stop() == 0
    sender.drain()
    assert not loading.failures
    assert_complete(catalog, broker)


def test_nothing_is_repeated_after_a_clean_stop(catalog, broker):
    sender = Sender(catalog, broker, "--after", "oldest").start()
    for number in range(20):
        catalog.commit(number % TABLES, number)
    assert sender.stop() == 0
    sender.drain()
    messages = list(itertools.chain(*broker.messages()))
    assert len(messages) == len(expected_messages(catalog.events()))
    assert_complete(catalog, broker)


def test_cursor_begins_at_the_present_and_continues_on_another_machine(catalog, broker):
    sender = Sender(catalog, broker).start()
    assert sender.stop() == 0
    catalog.commit(0, "later")
    assert "cursor" in sender.drain()
    data = [body["data"]["type"] for _, _, body in itertools.chain(*broker.messages())]
    assert data == ["cursor.created", "table.committed"]
    assert catalog.cursors()["events"]["lag-changes"] == 0


def test_second_process_with_the_same_cursor_stops(catalog, broker):
    first, second = Sender(catalog, broker), Sender(catalog, broker)
    second.log = catalog.directory / "second.log"
    first.start()
    second.start()
    deadline = time.monotonic() + 60
    while first.process.runs and second.process.runs and time.monotonic() < deadline:
        catalog.commit(0, time.monotonic())
    ended, other = (first, second) if not first.process.runs else (second, first)
    assert ended.process.wait(30) == 75
    assert "another process advances the cursor events" in ended.process.said()
    assert other.process.runs
    assert other.stop() == 0
    other.drain()
    found = [identifier for messages in broker.messages() for identifier, _ in without_repetitions(messages)]
    started = [identifier for identifier, data in expected_messages(catalog.events())]
    assert set(found) == set(started[-len(found) :])


def test_deleted_cursor_stops_the_process(catalog, broker):
    sender = Sender(catalog, broker).start()
    assert catalog.run("cursor", "delete", "events") == (0, "deleted events\n")
    # The deletion is an event, and the process cannot store the position after it.
    assert sender.process.wait(60) == 1
    assert "the cursor events was deleted" in sender.process.said()
    assert catalog.cursors() == {}


def test_restored_catalog_leads_to_the_event_resync(catalog, broker):
    sender = Sender(catalog, broker, "--after", "oldest")
    sender.drain()
    code, output = catalog.run("checkpoint", "create", "before")
    assert code == 0, output
    catalog.commit(0, "lost")

    def restore():
        code, output = catalog.run("restore", "--to", "before", "--yes", "--data-dir", str(catalog.directory / "data"))
        assert code == 0, output

    catalog.restart(restore)
    sender.drain()
    catalog.commit(0, "kept")
    sender.drain()
    for messages in broker.messages():
        assert "resync" in [body["type"] for _, _, body in messages], "readers of each partition learn of it"
    types = [body["type"] for messages in broker.messages() for _, _, body in messages]
    assert types.count("table.committed") == 1


def test_cursor_older_than_the_change_log_leads_to_the_event_resync(catalog, tmp_path):
    broker = Nats(tmp_path)
    sender = Sender(catalog, broker, "--after", "oldest")
    sender.drain()
    position = catalog.cursors()["events"]["position"]
    for number in range(10):
        catalog.commit(0, number)
    # After a restart, the server reads the earlier changes from the log.
    settings = "[catalog]\nchange_log_entries_max = 3\n"
    catalog.restart(lambda: (tmp_path / "settings.toml").write_text(settings))
    watch = f"/management/v1/watch?wait=0&after={position}"
    # The server trims the log once a minute.
    broker.process.wait_until(lambda: catalog.ask("GET", watch).status == 410, 90)
    sender.drain()
    catalog.commit(0, "kept")
    sender.drain()
    types = [body["type"] for _, _, body in itertools.chain(*broker.messages())]
    broker.stop()
    assert types[-2:] == ["resync", "table.committed"]
    assert types.count("table.committed") == 1, "the others are no longer in the log"


def test_events_arrive_with_tls_and_credentials(catalog, secured_broker):
    sender = Sender(catalog, secured_broker, "--after", "oldest")
    sender.drain()
    assert_complete(catalog, secured_broker)


def test_wrong_credentials_are_denied(catalog, secured_broker, tmp_path):
    secured_broker.deny(tmp_path)
    sender = Sender(catalog, secured_broker)
    code, output = catalog.run(*sender.arguments, environment=secured_broker.environment)
    assert code == 77, output
    assert re.search(r"Set (NATS_USER|NATS_CERT|KAFKA_SASL_USERNAME)\b", output), output
    assert "wrong" not in output.replace("wrong password", "")
    assert catalog.cursors() == {}


def test_missing_stream_or_topic_is_reported(catalog, tmp_path):
    for kind, message in [(Nats, "no stream of JetStream stores the subject"), (Kafka, f"the topic '{TOPIC}' does not")]:
        broker = kind(tmp_path, create=False)
        sender = Sender(catalog, broker, "--after", "oldest")
        code, output = catalog.run(*sender.arguments)
        broker.stop()
        assert code == 1 and message in output and "create" in output, output
    assert catalog.cursors() == {}


@pytest.mark.parametrize("scheme", ["nats", "kafka"])
def test_unreachable_broker_is_reported(catalog, scheme):
    url = f"{scheme}://127.0.0.1:{free_port()}/lake"
    code, output = catalog.run("watch", "--to", url, "--name", "events")
    assert code == 69, output
    assert url in output
    assert catalog.cursors() == {}
