"""The brokers to which `slateberg watch --to` writes, and independent consumers that read from them."""

import asyncio
import json
import os
import socket
import ssl
import subprocess

import nats
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from processes import Process

SUBJECT = "lake.events"
TOPIC = "lake-events"
PARTITIONS = 3
USER, PASSWORD = "slateberg", "correct-password"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Nats:
    """A NATS server with a stream, which keeps its files when it is killed."""

    def __init__(self, directory, authority=None, secured=False, create=True):
        self.port = free_port()
        self.log = directory / "nats.log"
        self.environment = {}
        config = [f"port: {self.port}", "host: 127.0.0.1", f'jetstream: {{store_dir: "{directory / "nats"}"}}']
        if secured:
            certificate, key = directory / "nats.pem", directory / "nats.key"
            authority.issue(certificate, key)
            config.append(f'tls: {{cert_file: "{certificate}", key_file: "{key}"}}')
            config.append(f"authorization: {{user: {USER}, password: {PASSWORD}}}")
            self.environment = {"NATS_CA": str(authority.certificate), "NATS_USER": USER, "NATS_PASSWORD": PASSWORD}
        self.secured = secured
        self.config = directory / "nats.conf"
        self.config.write_text("\n".join(config) + "\n")
        self.url = f"{'tls' if secured else 'nats'}://127.0.0.1:{self.port}/{SUBJECT}"
        self.start()
        if create:
            asyncio.run(self._create())

    def start(self):
        command = [os.environ["NATS_SERVER"], "--config", str(self.config)]
        self.process = Process(command, self.log)
        self.process.wait_until(lambda: _accepts(self.port), 30)

    def kill(self):
        self.process.kill()

    def stop(self):
        self.process.stop()

    async def _connect(self):
        options = {}
        if self.secured:
            options = {
                "tls": ssl.create_default_context(cafile=self.environment["NATS_CA"]),
                "user": USER,
                "password": PASSWORD,
            }
        return await nats.connect(f"nats://127.0.0.1:{self.port}", **options)

    async def _create(self):
        client = await self._connect()
        await client.jetstream().add_stream(name="EVENTS", subjects=[SUBJECT])
        await client.close()

    def messages(self):
        """Returns the messages of the stream as (id, media type, body), in their order."""
        return asyncio.run(self._messages())

    async def _messages(self):
        client = await self._connect()
        stream = client.jetstream()
        count = (await stream.stream_info("EVENTS")).state.messages
        subscription = await stream.subscribe(SUBJECT, ordered_consumer=True)
        found = []
        for _ in range(count):
            message = await subscription.next_msg(timeout=30)
            found.append((message.header["Nats-Msg-Id"], message.header["Content-Type"], json.loads(message.data)))
        await client.close()
        return [found]


class Kafka:
    """A broker of Apache Kafka with a topic, which keeps its files when it is killed."""

    def __init__(self, directory, authority=None, secured=False, create=True):
        self.port, controller_port = free_port(), free_port()
        self.log = directory / "kafka.log"
        self.environment, self.client = {}, {"bootstrap.servers": f"127.0.0.1:{self.port}"}
        protocol = "SASL_SSL" if secured else "PLAINTEXT"
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listeners": f"CLIENT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller_port}",
            "listener.security.protocol.map": f"CLIENT:{protocol},CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "CLIENT",
            "log.dirs": str(directory / "kafka"),
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": "1",
        }
        if secured:
            certificate, key = directory / "kafka.crt", directory / "kafka.key"
            authority.issue(certificate, key)
            keystore = directory / "kafka.pem"
            keystore.write_text(key.read_text() + certificate.read_text())
            login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
            properties |= {
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "listener.name.client.plain.sasl.jaas.config": f'{login} username="{USER}" password="{PASSWORD}" '
                f'user_{USER}="{PASSWORD}";',
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(keystore),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(authority.certificate),
            }
            self.client |= {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.username": USER,
                "sasl.password": PASSWORD,
                "ssl.ca.location": str(authority.certificate),
            }
            self.environment = {
                "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
                "KAFKA_SASL_USERNAME": USER,
                "KAFKA_SASL_PASSWORD": PASSWORD,
                "KAFKA_SSL_CA_LOCATION": str(authority.certificate),
            }
        self.config = directory / "kafka.properties"
        self.config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        self.url = f"kafka://127.0.0.1:{self.port}/{TOPIC}"
        format_storage = [*self._java("kafka.tools.StorageTool"), "format", "--config", str(self.config)]
        subprocess.run([*format_storage, "--cluster-id", "MkU3OEVBNTcwNTJENDM2Qg"], check=True, capture_output=True)
        self.start()
        if create:
            admin = AdminClient(self.client)
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(60)

    def _java(self, main):
        return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", f"{os.environ['KAFKA_JARS']}/*", main]

    def start(self):
        self.process = Process([*self._java("kafka.Kafka"), str(self.config)], self.log)
        self.process.wait_until(self._is_ready, 120)

    def _is_ready(self):
        try:
            return _accepts(self.port) and AdminClient(self.client).list_topics(timeout=5).brokers
        except KafkaException:
            return False

    def kill(self):
        self.process.kill()

    def stop(self):
        self.process.stop()

    def messages(self):
        """Returns the messages of each partition as (id, media type, body), in their order."""
        consumer = Consumer({**self.client, "group.id": "judge", "enable.auto.commit": False})
        found = []
        for number in range(PARTITIONS):
            end = consumer.get_watermark_offsets(TopicPartition(TOPIC, number), timeout=30)[1]
            consumer.assign([TopicPartition(TOPIC, number, OFFSET_BEGINNING)])
            partition = []
            while len(partition) < end:
                message = consumer.poll(30)
                assert message is not None and message.error() is None, message
                body = json.loads(message.value())
                resource = body["data"].get("resource")
                assert message.key() == (resource["id"].encode() if resource else None)
                partition.append((body["id"], dict(message.headers())["content-type"].decode(), body))
            found.append(partition)
        consumer.close()
        return found


def _accepts(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
