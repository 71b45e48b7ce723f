"""Apache Kafka with a listener for each protocol, each mechanism, and each mistake that a client can meet.

One broker, on this machine, from Maven's jars: see `tests/conformance/apache_kafka.py`. SYNCLINE_KAFKA_LIB may name a
directory that has them already. A client without a login is `User:ANONYMOUS`, who may do everything here, so that the
listeners PLAINTEXT and SSL serve tests as they come; `alice` may read and write topics whose names begin with
`secured`, and see `described`; `bob` may do nothing.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.conformance import apache_kafka
from tests.patience import until
from tests.pipeline.client.certificates import Authority

LIB_VARIABLE = "SYNCLINE_KAFKA_LIB"
START_S = 90.0
ALICE, BOB = "alice-secret-7x", "bob-secret-7x"
SESSION_MS = 3_000
LOCAL = ("localhost", "127.0.0.1")
# Listener: protocol, and whose certificate it has.
LISTENERS = {
    "PLAINTEXT": ("PLAINTEXT", ""),
    "SSL": ("SSL", "usual"),
    "SASL_PLAINTEXT": ("SASL_PLAINTEXT", ""),
    "SASL_SSL": ("SASL_SSL", "usual"),
    "MUTUAL": ("SSL", "usual"),
    "EXPIRED": ("SSL", "expired"),
    "ELSEWHERE": ("SSL", "elsewhere"),
    "SHORT": ("SASL_SSL", "usual"),
}
_SECURITY = "org.apache.kafka.common.security"
_PLAIN = f'{_SECURITY}.plain.PlainLoginModule required user_alice="{ALICE}" user_bob="{BOB}";'
_SCRAM = f"{_SECURITY}.scram.ScramLoginModule required;"
_BEARER = f'{_SECURITY}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'


@dataclass(frozen=True)
class SecuredKafka:
    """A running broker."""

    ports: dict[str, int]
    authority: Authority
    directory: Path

    def bootstrap(self, listener: str) -> str:
        """The address of a listener."""
        return f"127.0.0.1:{self.ports[listener]}"


@contextmanager
def running() -> Iterator[SecuredKafka]:
    """Yield a freshly formatted broker; skip the test where Java or the jars cannot be had."""
    classpath = _jars()
    with tempfile.TemporaryDirectory(prefix="secured-kafka-") as work:
        directory, authority = Path(work), Authority()
        ports = dict(zip((*LISTENERS, "CONTROLLER"), apache_kafka._free_ports(len(LISTENERS) + 1), strict=True))
        kafka = SecuredKafka(ports, authority, directory)
        file = directory / "server.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in _properties(kafka).items()))
        log_config = directory / "log4j2.yaml"
        log_config.write_text(apache_kafka.LOG_CONFIG)
        _format(classpath, file)
        process = apache_kafka._start(classpath, log_config, file)
        try:
            admin = AdminClient({"bootstrap.servers": kafka.bootstrap("PLAINTEXT"), "log_level": 0})
            log = file.with_suffix(".log")
            until(lambda: _serves(admin, process), START_S, otherwise=lambda: log.read_text()[-3_000:], pause_s=0.2)
            _allow(admin)
            yield kafka
        finally:
            process.kill()
            process.wait()


def _jars() -> str:
    for tool in ("java", "keytool"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    named = os.environ.get(LIB_VARIABLE)
    if named:
        return f"{named}/*"
    kept = Path(os.environ.get(apache_kafka.LIB_VARIABLE, apache_kafka.KEPT / "lib"))
    if not kept.is_dir() and shutil.which("mvn") is None:
        pytest.skip(f"Maven is not installed, and {LIB_VARIABLE} names no directory with Apache Kafka's jars")
    return apache_kafka.jars()


def _properties(kafka: SecuredKafka) -> dict[str, str]:
    ports = kafka.ports
    names = (*LISTENERS, "CONTROLLER")
    protocols = {name: protocol for name, (protocol, _) in LISTENERS.items()} | {"CONTROLLER": "PLAINTEXT"}
    stores = {
        "usual": kafka.authority.issue("broker", LOCAL),
        "expired": kafka.authority.issue("broker", LOCAL, begins=timedelta(days=-9), ends=timedelta(days=-1)),
        "elsewhere": kafka.authority.issue("broker", ("kafka.example",)),
    }
    files = {name: identity.file(kafka.directory) for name, identity in stores.items()}
    properties = {
        "process.roles": "broker,controller",
        "node.id": "0",
        "controller.quorum.voters": f"0@127.0.0.1:{ports['CONTROLLER']}",
        "listeners": ",".join(f"{name}://127.0.0.1:{ports[name]}" for name in names),
        "advertised.listeners": ",".join(f"{name}://127.0.0.1:{ports[name]}" for name in LISTENERS),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": ",".join(f"{name}:{protocols[name]}" for name in names),
        "log.dirs": str(kafka.directory / "data"),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "auto.create.topics.enable": "false",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:CN=client",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": kafka.authority.file(kafka.directory),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.short.connections.max.reauth.ms": str(SESSION_MS),
    }
    for name, (protocol, store) in LISTENERS.items():
        prefix = f"listener.name.{name.lower()}"
        if store:
            properties |= {f"{prefix}.ssl.keystore.type": "PEM", f"{prefix}.ssl.keystore.location": files[store]}
        if protocol.startswith("SASL"):
            lines = {"plain": _PLAIN, "scram-sha-256": _SCRAM, "scram-sha-512": _SCRAM, "oauthbearer": _BEARER}
            properties |= {f"{prefix}.{mechanism}.sasl.jaas.config": line for mechanism, line in lines.items()}
    return properties


def _format(classpath: str, file: Path) -> None:
    command = ["java", "-cp", classpath, "kafka.tools.StorageTool", "format", "-t", apache_kafka.CLUSTER_ID]
    users = [
        part
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        for name, password in (("alice", ALICE), ("bob", BOB))
        for part in ("--add-scram", f"{mechanism}=[name={name},password={password}]")
    ]
    done = subprocess.run([*command, "-c", str(file), *users], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _serves(admin: AdminClient, process: "subprocess.Popen[bytes]") -> bool:
    from confluent_kafka import KafkaException

    assert process.poll() is None, "the broker has ended"
    try:
        return len(admin.list_topics(timeout=2).brokers) == 1
    except KafkaException:
        return False


def _allow(admin: AdminClient) -> None:
    """Give alice her rights."""
    prefixed, literal = ResourcePatternType.PREFIXED, ResourcePatternType.LITERAL
    topic, group, transaction = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
    given = [
        (topic, "secured", prefixed, AclOperation.READ),
        (topic, "secured", prefixed, AclOperation.WRITE),
        (topic, "secured", prefixed, AclOperation.DESCRIBE),
        (topic, "described", literal, AclOperation.DESCRIBE),
        # What the sink needs, to write a stream exactly once.
        (group, "syncline-sink-", prefixed, AclOperation.READ),
        (transaction, "syncline-sink-", prefixed, AclOperation.WRITE),
        (transaction, "syncline-sink-", prefixed, AclOperation.DESCRIBE),
    ]
    rights = [
        AclBinding(kind, name, pattern, "User:alice", "*", operation, AclPermissionType.ALLOW)
        for kind, name, pattern, operation in given
    ]
    for done in admin.create_acls(rights, request_timeout=30).values():
        done.result()
