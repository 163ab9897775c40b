"""The brokers to which `slateberg watch --to` writes, and independent consumers that read from them."""

import asyncio
import json
import os
import socket
import ssl
import subprocess

import nats
import nats_accounts
from certificates import Authority
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
    """A NATS server with a stream, which keeps its files when it is killed. `secured` is the kind of its clients'
    credentials; the server then requires TLS."""

    CREDENTIALS = ["password", "token", "credentials", "certificate"]

    def __init__(self, directory, authority=None, secured=None, create=True):
        self.port = free_port()
        self.log = directory / "nats.log"
        self.environment, self.options = {}, {}
        config = [f"port: {self.port}", "host: 127.0.0.1", f'jetstream: {{store_dir: "{directory / "nats"}"}}']
        if secured:
            config += self._secure(directory, authority, secured)
        self.config = directory / "nats.conf"
        self.config.write_text("\n".join(config) + "\n")
        self.url = f"{'tls' if secured else 'nats'}://127.0.0.1:{self.port}/{SUBJECT}"
        self.start()
        if create:
            asyncio.run(self._create())

    def _secure(self, directory, authority, kind):
        """Sets what a client needs. Returns the lines of the server's configuration."""
        certificate, key = directory / "nats.pem", directory / "nats.key"
        authority.issue(certificate, key)
        trusted = ssl.create_default_context(cafile=authority.certificate)
        self.environment, self.options = {"NATS_CA": str(authority.certificate)}, {"tls": trusted}
        tls, config = f'cert_file: "{certificate}", key_file: "{key}"', []
        if kind == "password":
            config = [f"authorization: {{user: {USER}, password: {PASSWORD}}}"]
            self.environment |= {"NATS_USER": USER, "NATS_PASSWORD": PASSWORD}
            self.options |= {"user": USER, "password": PASSWORD}
        elif kind == "token":
            config = [f"authorization: {{token: {PASSWORD}}}"]
            self.environment |= {"NATS_TOKEN": PASSWORD}
            self.options |= {"token": PASSWORD}
        elif kind == "credentials":
            credentials = directory / "user.creds"
            config = nats_accounts.create(credentials)
            self.environment |= {"NATS_CREDS": str(credentials)}
            self.options |= {"user_credentials": str(credentials)}
        elif kind == "certificate":
            certificate, key = directory / "client.pem", directory / "client.key"
            authority.issue(certificate, key, USER, "client")
            tls += f', verify: true, ca_file: "{authority.certificate}"'
            self.environment |= {"NATS_CERT": str(certificate), "NATS_KEY": str(key)}
            trusted.load_cert_chain(certificate, key)
        return [f"tls: {{{tls}}}", *config]

    def deny(self, directory):
        """Replaces the credentials of the sender by wrong ones."""
        if "NATS_CREDS" in self.environment:
            nats_accounts.create(directory / "foreign.creds")
            self.environment["NATS_CREDS"] = str(directory / "foreign.creds")
        elif "NATS_CERT" in self.environment:
            certificate, key = directory / "foreign.pem", directory / "foreign.key"
            Authority(directory / "foreign-ca").issue(certificate, key, USER, "client")
            self.environment |= {"NATS_CERT": str(certificate), "NATS_KEY": str(key)}
        else:
            secret = "NATS_TOKEN" if "NATS_TOKEN" in self.environment else "NATS_PASSWORD"
            self.environment[secret] = "wrong"

    def start(self):
        command = [os.environ["NATS_SERVER"], "--config", str(self.config)]
        self.process = Process(command, self.log)
        self.process.wait_until(lambda: _accepts(self.port), 30)

    def kill(self):
        self.process.kill()

    def stop(self):
        self.process.stop()

    async def _connect(self):
        return await nats.connect(f"nats://127.0.0.1:{self.port}", **self.options)

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
    """A broker of Apache Kafka with a topic, which keeps its files when it is killed. `secured` is the mechanism with
    which its clients authenticate; the broker then requires TLS."""

    CREDENTIALS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]

    def __init__(self, directory, authority=None, secured=None, create=True):
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
            kind = "plain.PlainLoginModule" if secured == "PLAIN" else "scram.ScramLoginModule"
            login = f'org.apache.kafka.common.security.{kind} required username="{USER}" password="{PASSWORD}"'
            # With PLAIN, the users are in the configuration. With SCRAM, they are in the storage.
            users = f' user_{USER}="{PASSWORD}"' if secured == "PLAIN" else ""
            properties |= {
                "sasl.enabled.mechanisms": secured,
                "sasl.mechanism.inter.broker.protocol": secured,
                f"listener.name.client.{secured.lower()}.sasl.jaas.config": f"{login}{users};",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(keystore),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(authority.certificate),
            }
            self.client |= {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": secured,
                "sasl.username": USER,
                "sasl.password": PASSWORD,
                "ssl.ca.location": str(authority.certificate),
            }
            self.environment = {
                "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
                "KAFKA_SASL_MECHANISM": secured,
                "KAFKA_SASL_USERNAME": USER,
                "KAFKA_SASL_PASSWORD": PASSWORD,
                "KAFKA_SSL_CA_LOCATION": str(authority.certificate),
            }
        self.config = directory / "kafka.properties"
        self.config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        self.url = f"kafka://127.0.0.1:{self.port}/{TOPIC}"
        format_storage = [*self._java("kafka.tools.StorageTool"), "format", "--config", str(self.config)]
        format_storage += ["--cluster-id", "MkU3OEVBNTcwNTJENDM2Qg"]
        if secured and secured != "PLAIN":
            format_storage += ["--add-scram", f"{secured}=[name={USER},password={PASSWORD}]"]
        subprocess.run(format_storage, check=True, capture_output=True)
        self.start()
        if create:
            admin = AdminClient(self.client)
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(60)

    def deny(self, directory):
        """Replaces the credentials of the sender by wrong ones."""
        self.environment["KAFKA_SASL_PASSWORD"] = "wrong"

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
