"""`format("syncline")` on a secured Apache Kafka, as it comes from Maven: `make spark-secure-live`.

Not part of `make test`: the broker takes longer to start than all of these tests. Needs Java, and Maven once; each test
is skipped, with the reason, where they are not there.
"""

import base64
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.client.connection import Connection
from syncline.pipeline.client.messages import Api
from syncline.pipeline.client.security_options import security
from syncline.pipeline.client.settings import ClientSettings
from syncline.pipeline.source.options import SourceOptions
from syncline.pipeline.source.planning import Batch, whole_batch
from tests.pipeline import secured_kafka
from tests.pipeline.client.certificates import Authority
from tests.pipeline.secured_kafka import ALICE, BOB, SESSION_MS, SecuredKafka

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.filterwarnings("ignore::ResourceWarning")]

METADATA, ALL_TOPICS = Api(3, 9, is_flexible=True), bytes(5)
RECORDS = 1_000
WITHIN_S = 10.0
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
TRUST, KEYS = "kafka.ssl.truststore", "kafka.ssl.keystore"
OAUTHBEARER = "org.apache.kafka.common.security.oauthbearer"
STORE_PASSWORD = "store-secret-7x"


@pytest.fixture(scope="module")
def kafka() -> Iterator[SecuredKafka]:
    """One broker with all listeners; a topic that alice may read, one that she may see, and one for nobody."""
    with secured_kafka.running() as broker:
        plain = {"bootstrap.servers": broker.bootstrap("PLAINTEXT")}
        topics = [NewTopic(name, 4, 1) for name in ("secured", "described", "closed", *map(_copy, PROTOCOLS))]
        admin = AdminClient(plain)
        for done in admin.create_topics(topics).values():
            done.result(30)
        producer = Producer(plain)
        for number in range(RECORDS):
            producer.produce("secured", b"%d" % number, partition=number % 4)
        producer.produce("described", b"hidden", partition=0)
        assert producer.flush(30) == 0
        yield broker


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spark writes what its UI shows."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="module")
def spark(events: Path) -> Iterator:
    """A session that keeps its events as text."""
    from syncline.pipeline.session import spark_session

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = spark_session(
            master="local[2]",
            profile="test",
            extra={
                "spark.eventLog.enabled": "true",
                "spark.eventLog.dir": str(events),
                "spark.eventLog.compress": "false",
            },
        )
        yield session
        session.stop()


@pytest.fixture
def count(spark, kafka: SecuredKafka) -> Callable[..., int]:
    """Return a function that reads the topic at a listener, and counts its records."""

    def read(listener: str, *options: dict[str, str], topic: str = "secured") -> int:
        return _load(spark, kafka, listener, *options, topic=topic).distinct().count()

    return read


def _load(spark, kafka: SecuredKafka, listener: str, *options: dict[str, str], topic: str = "secured", stream=False):
    reader = (spark.readStream if stream else spark.read).format("syncline").schema("value binary")
    given = {"kafka.bootstrap.servers": kafka.bootstrap(listener), "subscribe": topic, "startingOffsets": "earliest"}
    for each in options:
        given |= each
    return reader.options(**given).load()


def _copy(protocol: str) -> str:
    return f"secured-copy-{protocol.lower()}"


def _protocol(name: str) -> dict[str, str]:
    return {"kafka.security.protocol": name}


def _trusting(kafka: SecuredKafka) -> dict[str, str]:
    return {f"{TRUST}.location": kafka.authority.file(kafka.directory), f"{TRUST}.type": "PEM"}


def _login(mechanism: str, directory: Path, *, user: str = "alice", password: str = ALICE) -> dict[str, str]:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    line = f'org.apache.kafka.common.security.{module} required username="{user}" password="{password}";'
    if mechanism != "OAUTHBEARER":
        return {"kafka.sasl.mechanism": mechanism, "kafka.sasl.jaas.config": line}
    file = directory / f"{user}.token"
    file.write_text(_token(user))
    return {"kafka.sasl.mechanism": mechanism, "oauthTokenFile": str(file)}


def _token(user: str, *, lives_s: int = 600) -> str:
    """Return a token that nobody signed, which is what Kafka's validator for tests takes."""
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": user, "iat": now, "exp": now + lives_s})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


def _refused(told: str, read: Callable[[], object], *, within_s: float = WITHIN_S) -> str:
    """Expect one sentence in time, without frames; return it, and print it for whoever runs this."""
    began_s = time.monotonic()
    with pytest.raises(Exception, match=told) as failed:
        read()
    took_s = time.monotonic() - began_s
    message = str(failed.value)
    assert took_s < within_s
    assert "Traceback" not in message
    for secret in (ALICE, BOB, STORE_PASSWORD, "guess-7x"):
        assert secret not in message
    sys.stdout.write(f"{took_s:5.1f} s: {message.partition('errors.')[2].partition('SQLSTATE')[0].strip()}\n")
    return message


def test_plaintext(count) -> None:
    """As ever."""
    assert count("PLAINTEXT", _protocol("PLAINTEXT")) == RECORDS


def test_ssl_with_a_pem_file(count, kafka: SecuredKafka) -> None:
    """By Kafka's name and by librdkafka's, and as text."""
    pem = kafka.authority.pem()
    assert count("SSL", _protocol("SSL"), _trusting(kafka)) == RECORDS
    assert count("SSL", _protocol("SSL"), {"kafka.ssl.ca.location": kafka.authority.file(kafka.directory)}) == RECORDS
    assert count("SSL", _protocol("SSL"), {f"{TRUST}.certificates": pem, f"{TRUST}.type": "PEM"}) == RECORDS


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_ssl_in_each_version(count, kafka: SecuredKafka, version: str) -> None:
    """As Java's side speaks them."""
    assert count("SSL", _protocol("SSL"), _trusting(kafka), {"kafka.ssl.enabled.protocols": version}) == RECORDS


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_login(count, kafka: SecuredKafka, tmp_path: Path, protocol: str, mechanism: str) -> None:
    """Guards: "tested against Apache Kafka 4.3 from Maven's jars with each"."""
    trust = _trusting(kafka) if protocol == "SASL_SSL" else {}

    assert count(protocol, _protocol(protocol), trust, _login(mechanism, tmp_path)) == RECORDS


def test_login_by_name_and_password_options(count, kafka: SecuredKafka) -> None:
    """As librdkafka's users write them."""
    options = {"kafka.sasl.mechanisms": "SCRAM-SHA-512", "kafka.sasl.username": "alice", "kafka.sasl.password": ALICE}

    assert count("SASL_SSL", _protocol("SASL_SSL"), _trusting(kafka), options) == RECORDS


def test_token_of_a_function_and_of_a_file_url(count, kafka: SecuredKafka, tmp_path: Path, monkeypatch) -> None:
    """Kafka's own name for a file; and a function, which each task of each worker calls."""
    file = tmp_path / "token"
    file.write_text(_token("alice"))
    by_url = {
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.jaas.config": (
            f'{OAUTHBEARER}.OAuthBearerLoginModule required extension_traceId="0123456789abcdef";'
        ),
        "kafka.sasl.oauthbearer.token.endpoint.url": file.as_uri(),
        "kafka.sasl.login.callback.handler.class": f"{OAUTHBEARER}.OAuthBearerLoginCallbackHandler",
    }
    by_function = {
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "oauthTokenFunction": "tests.pipeline.live_secured:token_of_alice",
    }

    assert count("SASL_SSL", _protocol("SASL_SSL"), _trusting(kafka), by_function) == RECORDS
    assert count("SASL_SSL", _protocol("SASL_SSL"), _trusting(kafka), by_url) == RECORDS


def token_of_alice() -> str:
    """Return a token, as a user's own function would."""
    return _token("alice")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_stream_is_copied_by_the_sink(spark, kafka: SecuredKafka, count, tmp_path: Path, protocol: str) -> None:
    """Guards: "secured reading and writing in each of the four protocols"; exactly once, so with transactions."""
    trust = _trusting(kafka) if protocol.endswith("SSL") else {}
    login = _login("SCRAM-SHA-256", tmp_path) if protocol.startswith("SASL") else {}
    options = _protocol(protocol) | trust | login

    query = (
        _load(spark, kafka, protocol, options, stream=True)
        .writeStream.format("syncline")
        .options(**options)
        .option("kafka.bootstrap.servers", kafka.bootstrap(protocol))
        .option("topic", _copy(protocol))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    committed = {"kafka.isolation.level": "read_committed"}
    assert count(protocol, options, committed, topic=_copy(protocol)) == RECORDS


@pytest.mark.parametrize("form", ["PEM", "PEM, encrypted", "PEM text", "two PEM files", "PKCS12"])
def test_mutual_tls(count, kafka: SecuredKafka, tmp_path: Path, form: str) -> None:
    """Guards: "Mutual TLS", with PEM and PKCS12 key stores."""
    client = kafka.authority.issue("client")
    (tmp_path / "p12").write_bytes(client.pkcs12(STORE_PASSWORD))
    (tmp_path / "chain").write_text(client.chain_pem())
    (tmp_path / "key").write_text(client.key_pem())
    (tmp_path / "both").write_text(client.key_pem() + client.chain_pem())
    options = {
        "PEM": {f"{KEYS}.location": str(tmp_path / "both"), f"{KEYS}.type": "PEM"},
        "PEM, encrypted": {
            f"{KEYS}.location": client.file(tmp_path, STORE_PASSWORD),
            "kafka.ssl.key.password": STORE_PASSWORD,
        },
        "PEM text": {f"{KEYS}.key": client.key_pem(), f"{KEYS}.certificate.chain": client.chain_pem()},
        "two PEM files": {
            "kafka.ssl.certificate.location": str(tmp_path / "chain"),
            "kafka.ssl.key.location": str(tmp_path / "key"),
        },
        "PKCS12": {f"{KEYS}.location": str(tmp_path / "p12"), f"{KEYS}.password": STORE_PASSWORD},
    }[form]

    assert count("MUTUAL", _protocol("SSL"), _trusting(kafka), options) == RECORDS


def test_stores_of_keytool(count, kafka: SecuredKafka, tmp_path: Path) -> None:
    """What Java's users have: PKCS12 is read, whatever its name; JKS is refused with what to do."""
    authority, client = tmp_path / "ca.pem", tmp_path / "client.p12"
    authority.write_text(kafka.authority.pem())
    client.write_bytes(kafka.authority.issue("client").pkcs12(STORE_PASSWORD))
    trust, keys, old = tmp_path / "trust.jks", tmp_path / "keys.jks", tmp_path / "old.jks"
    ends = ("-storepass", STORE_PASSWORD, "-noprompt")
    _keytool("-importcert", "-alias", "ca", "-file", authority, "-keystore", trust, *ends)
    _keytool("-importcert", "-alias", "ca", "-file", authority, "-keystore", old, "-storetype", "JKS", *ends)
    _keytool(
        *("-importkeystore", "-srckeystore", client, "-srcstorepass", STORE_PASSWORD, "-destkeystore", keys),
        *("-deststorepass", STORE_PASSWORD, "-noprompt"),
    )
    password = {f"{TRUST}.password": STORE_PASSWORD, f"{TRUST}.type": "JKS"}
    shown = {f"{KEYS}.location": str(keys), f"{KEYS}.password": STORE_PASSWORD}

    assert count("MUTUAL", _protocol("SSL"), {f"{TRUST}.location": str(trust)}, password, shown) == RECORDS
    _refused(
        "JKS store, which only Java can read: convert it with keytool -importkeystore",
        lambda: count("SSL", _protocol("SSL"), {f"{TRUST}.location": str(old)}, password),
    )


def _keytool(*arguments: str | Path) -> None:
    subprocess.run(["keytool", *map(str, arguments)], check=True, capture_output=True)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_wrong_password_or_token(count, kafka: SecuredKafka, tmp_path: Path, protocol: str, mechanism: str) -> None:
    """Guards: "wrong password ... a sentence each, in <= 10 s"."""
    login = _login(mechanism, tmp_path, password="guess-7x")
    if mechanism == "OAUTHBEARER":
        (tmp_path / "alice.token").write_text(_token("alice", lives_s=-60))
    trust = _trusting(kafka) if protocol == "SASL_SSL" else {}

    told = rf"{kafka.bootstrap(protocol)}.*correct the option (kafka.sasl.jaas.config|oauthTokenFile)"
    _refused(told, lambda: count(protocol, _protocol(protocol), trust, login))


def test_unknown_mechanism_and_user(count, kafka: SecuredKafka, tmp_path: Path) -> None:
    """GSSAPI is refused by name before a broker is asked; an unknown user is one with a wrong password."""
    ssl = (_protocol("SASL_SSL"), _trusting(kafka))
    _refused("write one of PLAIN", lambda: count("SASL_SSL", *ssl, {"kafka.sasl.mechanism": "GSSAPI"}))
    mallory = _login("SCRAM-SHA-256", tmp_path, user="mallory")
    _refused("refuses user mallory", lambda: count("SASL_SSL", *ssl, mallory))


def test_wrong_authority(count, kafka: SecuredKafka, tmp_path: Path) -> None:
    """Guards: "wrong CA"; the machine's authorities are wrong ones, too."""
    other = {f"{TRUST}.location": Authority("Other").file(tmp_path)}
    told = rf"{kafka.bootstrap('SSL')} is signed by an authority that .*kafka.ssl.truststore.location"
    _refused(told, lambda: count("SSL", _protocol("SSL"), other))
    _refused(told, lambda: count("SSL", _protocol("SSL")))


def test_expired_certificate(count, kafka: SecuredKafka) -> None:
    """Guards: "expired certificate"."""
    told = rf"certificate of {kafka.bootstrap('EXPIRED')}, or of its authority, has expired"
    _refused(told, lambda: count("EXPIRED", _protocol("SSL"), _trusting(kafka)))


def test_host_name_mismatch(count, kafka: SecuredKafka) -> None:
    """Guards: "host name mismatch"; the check can be switched off by Kafka's option."""
    ssl = (_protocol("SSL"), _trusting(kafka))
    told = rf"certificate of {kafka.bootstrap('ELSEWHERE')} is for another host"
    _refused(told, lambda: count("ELSEWHERE", *ssl))
    assert count("ELSEWHERE", *ssl, {"kafka.ssl.endpoint.identification.algorithm": ""}) == RECORDS


def test_missing_acl(count, kafka: SecuredKafka, tmp_path: Path) -> None:
    """Guards: "missing ACL": the user, the right, and the address."""
    ssl = (_protocol("SASL_SSL"), _trusting(kafka))
    bob = _login("SCRAM-SHA-512", tmp_path, user="bob", password=BOB)
    told = rf"TOPIC_AUTHORIZATION_FAILED\): an ACL must allow .*for user bob, on {kafka.bootstrap('SASL_SSL')}"
    _refused(told, lambda: count("SASL_SSL", *ssl, bob))
    alice = _login("PLAIN", tmp_path)
    _refused("for user alice", lambda: count("SASL_SSL", *ssl, alice, topic="closed"))
    told = r"denies the fetch of described-0 at offset 0 .*for user alice, on 127.0.0.1"
    _refused(told, lambda: count("SASL_SSL", *ssl, alice, topic="described"))


def test_tasks_are_divided_by_offsets_without_the_right_to_describe_the_cluster(
    count, kafka: SecuredKafka, tmp_path: Path
) -> None:
    """Guards: a query that would like to know the sizes of partitions, and whose user may not."""
    cut = {"subscribe": "secured", "minPartitions": "9"}
    alice = {**_protocol("SASL_SSL"), **_trusting(kafka), **_login("PLAIN", tmp_path)}

    def planned(listener: str, given: dict[str, str]) -> Batch:
        options = SourceOptions.parse({"bootstrap": kafka.bootstrap(listener), **cut, **given}, streaming=False)
        with Cluster(options.client) as cluster:
            return whole_batch(cluster, options)

    allowed, denied = planned("PLAINTEXT", {}), planned("SASL_SSL", alice)

    assert len(allowed.record_bytes) == 4
    assert denied.record_bytes == {}
    assert sum(item.record_count for item in denied.ranges) == RECORDS
    assert len(denied.ranges) >= 8
    assert count("SASL_SSL", alice, {"minPartitions": "9"}) == RECORDS


def test_missing_and_foreign_client_certificates(count, kafka: SecuredKafka, tmp_path: Path) -> None:
    """The broker says so after the handshake."""
    ssl = (_protocol("SSL"), _trusting(kafka))
    foreign = {f"{KEYS}.location": Authority("Other").issue("client").file(tmp_path)}
    _refused("kafka.ssl.keystore.location", lambda: count("MUTUAL", *ssl))
    _refused("refuses this client's certificate", lambda: count("MUTUAL", *ssl, foreign))


@pytest.mark.parametrize(
    ("listener", "protocol", "told"),
    [
        ("SSL", "PLAINTEXT", "speaks TLS: set the option kafka.security.protocol to SSL or SASL_SSL"),
        ("PLAINTEXT", "SSL", "does not speak TLS: set the option kafka.security.protocol"),
        ("SASL_SSL", "SASL_PLAINTEXT", "speaks TLS: set the option kafka.security.protocol to SSL or SASL_SSL"),
        ("SASL_PLAINTEXT", "SASL_SSL", "does not speak TLS: set the option kafka.security.protocol"),
        ("SASL_PLAINTEXT", "PLAINTEXT", "a listener with TLS or a login does that; .*kafka.security.protocol"),
        ("SASL_SSL", "SSL", "a listener that wants a login .*kafka.security.protocol to SASL_SSL"),
        ("PLAINTEXT", "SASL_PLAINTEXT", "without authentication: remove SASL_ from the option kafka.security.protocol"),
        ("SSL", "SASL_SSL", "without authentication: remove SASL_ from the option kafka.security.protocol"),
    ],
)
def test_other_protocol(count, kafka: SecuredKafka, tmp_path: Path, listener: str, protocol: str, told: str) -> None:
    """Guards: "plain client on a TLS port, TLS client on a plain port", and the same with logins."""
    trust = _trusting(kafka) if protocol.endswith("SSL") else {}
    login = _login("PLAIN", tmp_path) if protocol.startswith("SASL") else {}
    _refused(rf"{kafka.bootstrap(listener)}.*{told}", lambda: count(listener, _protocol(protocol), trust, login))


def test_stores_that_cannot_be_read(count, kafka: SecuredKafka, tmp_path: Path) -> None:
    """Guards: "unreadable store, wrong store password"."""
    store = tmp_path / "trust.p12"
    store.write_bytes(kafka.authority.pkcs12(STORE_PASSWORD))
    missing = {f"{TRUST}.location": "/no/such/store"}
    wrong = {f"{TRUST}.location": str(store), f"{TRUST}.password": "guess-7x"}
    _refused("/no/such/store, which cannot be read", lambda: count("SSL", _protocol("SSL"), missing))
    _refused("kafka.ssl.truststore.password right", lambda: count("SSL", _protocol("SSL"), wrong))


def test_session_that_ends_is_renewed(kafka: SecuredKafka, tmp_path: Path) -> None:
    """KIP-368: one connection lives through three sessions."""
    options = _protocol("SASL_SSL") | _trusting(kafka) | _login("SCRAM-SHA-256", tmp_path)
    address = ("127.0.0.1", kafka.ports["SHORT"])
    connection = Connection.open(address, ClientSettings((address,), security=security(options)))
    ends_s = time.monotonic() + 3 * SESSION_MS / 1000
    answers = 0
    while time.monotonic() < ends_s:
        answers += len(connection.call(METADATA, ALL_TOPICS)) > 0
        time.sleep(0.2)
    connection.close()

    assert answers > 3 * SESSION_MS / 1000 / 0.2 * 0.5


def test_task_reads_on_over_sessions_that_end(kafka: SecuredKafka, tmp_path: Path) -> None:
    """As the cluster's client does within a long task: every answer, and no error."""
    options = _protocol("SASL_SSL") | _trusting(kafka) | _login("PLAIN", tmp_path)
    address = ("127.0.0.1", kafka.ports["SHORT"])
    ends_s = time.monotonic() + 2 * SESSION_MS / 1000
    with Cluster(ClientSettings((address,), security=security(options))) as cluster:
        while time.monotonic() < ends_s:
            assert len(cluster.fetch(TopicPartition("secured", 0), 0).records) > RECORDS
        (connection,) = (each for each in cluster._connections.by_address.values() if each.address == address)
        assert connection.stream.version() == "TLSv1.3"


def test_stream_shows_no_secret_anywhere(spark, kafka: SecuredKafka, events: Path, tmp_path: Path, capfd) -> None:
    """Guards: "secrets never in logs, plans or checkpoints": a stream that runs, and all that it leaves behind."""
    trust, keys = tmp_path / "trust.p12", kafka.authority.issue("client")
    trust.write_bytes(kafka.authority.pkcs12(STORE_PASSWORD))
    options = {
        **_protocol("SASL_SSL"),
        **_login("SCRAM-SHA-512", tmp_path),
        f"{TRUST}.location": str(trust),
        f"{TRUST}.password": STORE_PASSWORD,
        f"{KEYS}.key": keys.key_pem(),
        f"{KEYS}.certificate.chain": keys.chain_pem(),
    }
    frame = _load(spark, kafka, "SASL_SSL", options, stream=True)
    shown = [frame._jdf.queryExecution().toString()]
    seen: list[int] = []
    query = (
        frame.writeStream.foreachBatch(lambda batch, _: seen.append(batch.count()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    query.explain(extended=True)
    assert sum(seen) == RECORDS
    shown += [str(each) for each in query.recentProgress]
    shown += list(capfd.readouterr())
    shown += [path.read_text(errors="replace") for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    logged = [path.read_text(errors="replace") for path in events.rglob("*") if path.is_file()]
    assert any("SparkListenerSQLExecutionStart" in text for text in logged)

    key_line = keys.key_pem().splitlines()[1]
    secrets = (ALICE, STORE_PASSWORD, key_line)
    assert [secret for secret in secrets for text in (*shown, *logged) if secret in text] == []
