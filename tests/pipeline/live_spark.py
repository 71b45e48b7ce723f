"""The option table of the Spark source, case by case, on Syncline, on Apache Kafka, and beside Spark's own connector.

`make spark-live`. Not part of `make test`: two clusters and a second Spark take minutes. Needs Java; Apache Kafka and
the connector also need Maven (or `KAFKA_LIB`), the connector pip. What cannot be had is skipped with a reason.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.client.security_options import OWN_NAMES
from syncline.pipeline.source import names
from syncline.pipeline.source.lag import Since, lag_of
from syncline.pipeline.source.offsets import Position
from syncline.pipeline.source.options import SourceOptions
from syncline.pipeline.source.snapshot import snapshot
from tests.cluster import cluster as syncline_cluster
from tests.conformance import apache_kafka
from tests.conformance.live import wait_for_listener
from tests.conformance.settings import World
from tests.pipeline.conftest import Broker
from tests.pipeline.live_cases import CASES, COUNTS, CUT, CUT_AT, RECORDS, Case
from tests.pipeline.live_rows import rows_of

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.filterwarnings("ignore::ResourceWarning")]

HERE = Path(__file__).parent
KEPT = HERE.parent.parent / "build" / "spark-connector"
# The newest whose jars are complete.
CONNECTOR = "4.0.0"
START_S = 60.0
ONE_BROKER = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "auto.create.topics.enable": "false",
}


@dataclass(frozen=True)
class Filled:
    """A cluster that holds the records of the cases."""

    kind: str
    broker: Broker


@pytest.fixture(scope="module")
def kafka() -> Iterator[Filled]:
    """Return a broker of Apache Kafka; skip what needs it if its jars cannot be had."""
    if (
        apache_kafka.LIB_VARIABLE not in os.environ
        and not (apache_kafka.KEPT / "lib").is_dir()
        and not shutil.which("mvn")
    ):
        pytest.skip("Apache Kafka: mvn is not installed")
    with apache_kafka.running(World(1, ONE_BROKER)) as running:
        host, port = running.bootstrap[0]
        wait_for_listener(host, port, time.monotonic() + START_S)
        yield _filled("Apache Kafka", f"{host}:{port}")


@pytest.fixture(scope="module")
def syncline() -> Iterator[Filled]:
    """Return three brokers of Syncline."""
    with syncline_cluster(brokers=3) as running:
        yield _filled("Syncline", running.bootstrap)


@pytest.fixture(scope="module", params=["syncline", "kafka"])
def world(request: pytest.FixtureRequest) -> Filled:
    """Return each cluster in turn."""
    return request.getfixturevalue(request.param)


def _filled(kind: str, bootstrap: str) -> Filled:
    broker = Broker(bootstrap, count())
    topics = {topic: 1 + max(p for name, p in COUNTS if name == topic) for topic, _ in COUNTS}
    for topic, partitions in topics.items():
        broker.create(topic, partitions)
        sent = [(r.partition, r.key, r.value, r.time_ms, r.headers) for r in RECORDS if r.topic == topic]
        # A batch that a new leader refuses comes after the next one, unless the producer is idempotent.
        broker.produce(topic, sent, **{"batch.num.messages": 20, "enable.idempotence": True})
    broker.delete_records(CUT, 0, CUT_AT)
    return Filled(kind, broker)


def _case(case: Case) -> dict[str, Any]:
    return {"name": case.name, "options": dict(case.options), "streams": case.streams}


def _check(case: Case, found: dict[str, Any]) -> None:
    if case.meant is None:
        assert "error" in found, f"{case.name} was not refused: {found}"
        return
    assert "error" not in found, found["error"]
    rows = sorted((row for batch in found["batches"] for row in batch), key=lambda row: row[:3])
    assert case.rows == rows
    if case.batch_records_max is not None:
        assert len(found["batches"]) > 1
        assert max(map(len, found["batches"])) <= case.batch_records_max


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_option_table(spark, world: Filled, case: Case) -> None:
    """Guards: each option against a live cluster. The rows are those that were produced and are meant, all columns."""
    _check(case, rows_of(spark, "syncline", _case(case), world.broker.bootstrap))


def test_option_table_is_whole() -> None:
    """Every option is in a case, so that a new one cannot be forgotten here; those of tokens are in `live_secured`."""
    used = {name for case in CASES for name in case.options} | {"kafka.bootstrap.servers", "bootstrap", *OWN_NAMES}

    assert set(names._NAMES) <= used


@pytest.fixture(scope="module")
def connector_rows(kafka: Filled) -> dict[str, Any]:
    """Return what Spark's own connector says to all cases, from Apache Kafka."""
    python, jars = _connector()
    asked = {"bootstrap": kafka.broker.bootstrap, "cases": [_case(case) for case in CASES if not case.is_ours]}
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    ran = subprocess.run(
        [python, HERE / "live_rows.py", jars],
        input=json.dumps(asked),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=600,
        env=environment,
    )
    return json.loads(ran.stdout)


@pytest.mark.parametrize("case", [case for case in CASES if not case.is_ours], ids=lambda case: case.name)
def test_connector_agrees(connector_rows: dict[str, Any], case: Case) -> None:
    """Guards: row sets equal to the official connector's on the same topics. What it refuses, we refuse."""
    _check(case, connector_rows[case.name])


def _connector() -> tuple[Path, str]:
    """Return a Python with the connector's pyspark, and the connector's jars; skip if they cannot be had."""
    python = Path(os.environ.get("SYNCLINE_CONNECTOR_PYTHON", KEPT / "venv" / "bin" / "python"))
    lib = KEPT / "lib"
    maven = shutil.which("mvn")
    if maven is None and not lib.is_dir():
        pytest.skip("Spark's connector: mvn is not installed")
    KEPT.mkdir(parents=True, exist_ok=True)
    try:
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", KEPT / "venv"], check=True)
            subprocess.run([python, "-m", "pip", "install", "-q", f"pyspark=={CONNECTOR}"], check=True)
        if not lib.is_dir():
            assert maven is not None
            pom = HERE / "connector-pom.xml"
            command = [maven, "-q", "-B", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={lib}"]
            subprocess.run(command, check=True)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"Spark's connector: {error}")
    wanted = ("spark-sql-kafka", "spark-token", "kafka-clients", "commons-pool2")
    return python, ",".join(str(jar) for jar in sorted(lib.glob("*.jar")) if jar.name.startswith(wanted))


def test_committed_reading_hides_aborted_transactions(spark, kafka: Filled) -> None:
    """Guards: kafka.isolation.level. Syncline has no transactions yet, so Apache Kafka alone can show it."""
    topic = kafka.broker.topic()
    producer = _transactions(kafka, "hides")
    for name, end in (
        ("a", producer.commit_transaction),
        ("b", producer.abort_transaction),
        ("c", producer.commit_transaction),
    ):
        producer.begin_transaction()
        for number in range(5):
            producer.produce(topic, f"{name}{number}", partition=0)
        producer.flush(30)
        end(30)

    def values(level: str) -> set[str]:
        options = {"bootstrap": kafka.broker.bootstrap, "subscribe": topic, "kafka.isolation.level": level}
        rows = spark.read.format("syncline").options(**options).load().selectExpr("string(value)").collect()
        return {row[0][0] for row in rows}

    assert values("read_committed") == {"a", "c"}
    assert values("read_uncommitted") == {"a", "b", "c"}


def test_vacancies_are_what_transactions_leave(spark, kafka: Filled) -> None:
    """Guards: includeGaps=all. Three records and a marker, three aborted ones and a marker, two more and a marker."""
    topic = kafka.broker.topic()
    producer = _transactions(kafka, "vacancies")
    _transaction(producer, topic, 3, producer.commit_transaction)
    _transaction(producer, topic, 3, producer.abort_transaction)
    _transaction(producer, topic, 2, producer.commit_transaction)

    def vacant(level: str, which: str) -> tuple[list[int], list[tuple[int, int, str]]]:
        options = {"subscribe": topic, "kafka.isolation.level": level, "includeGaps": which, "fetchBytes": "1"}
        rows = spark.read.format("syncline").options(bootstrap=kafka.broker.bootstrap, **options).load().collect()
        gaps = sorted((row.offset, row.gap.end, row.gap.reason) for row in rows if row.gap)
        return sorted(row.offset for row in rows if not row.gap), gaps

    assert vacant("read_committed", "all") == ([0, 1, 2, 8, 9], [(3, 8, "no record"), (10, 11, "no record")])
    assert vacant("read_uncommitted", "all") == (
        [0, 1, 2, 4, 5, 6, 8, 9],
        [(3, 4, "no record"), (7, 8, "no record"), (10, 11, "no record")],
    )
    assert vacant("read_committed", "true") == ([0, 1, 2, 8, 9], [])


def test_committed_snapshot_stays_when_transactions_end(spark, kafka: Filled) -> None:
    """Guards: a snapshot taken under an open transaction has none of it, however that ends; text keeps it."""
    topic = kafka.broker.topic()
    producer = _transactions(kafka, "snapshot")
    _transaction(producer, topic, 4, producer.commit_transaction)

    def take(level: str) -> str:
        given = {"bootstrap": kafka.broker.bootstrap, "subscribe": topic, "kafka.isolation.level": level}
        return json.dumps(snapshot(given))

    def offsets(fixed: str) -> list[int]:
        return sorted(row.offset for row in spark.read.format("syncline").options(**json.loads(fixed)).load().collect())

    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(30)
    committed, uncommitted = take("read_committed"), take("read_uncommitted")
    before = offsets(committed), offsets(uncommitted)
    producer.commit_transaction(30)
    _transaction(producer, topic, 2, producer.commit_transaction)

    # The error below keeps this frame, and a producer that outlives its broker complains.
    del producer
    assert (offsets(committed), offsets(uncommitted)) == before == ([0, 1, 2, 3], [0, 1, 2, 3, 5])
    kafka.broker.recreate(topic)
    with pytest.raises(Exception, match=f"topic {topic} was deleted and created again: its id is"):
        offsets(committed)


def test_next_record_behind_aborted_ones_waits(kafka: Filled) -> None:
    """Guards: the lag in time was unknown where a marker or an aborted record lay at the position."""
    topic = kafka.broker.topic(**{"message.timestamp.type": "LogAppendTime"})
    producer = _transactions(kafka, "waits")
    _transaction(producer, topic, 3, producer.abort_transaction)
    _transaction(producer, topic, 1, producer.commit_transaction)
    given = {"bootstrap": kafka.broker.bootstrap, "subscribe": topic, "kafka.isolation.level": "read_committed"}
    options = SourceOptions.parse(given, streaming=True)
    now_ms = time.time_ns() // 1_000_000
    with Cluster(replace(options.client, fetch_bytes_max=1)) as cluster:
        behind, done = (
            lag_of(cluster, Position({TopicPartition(topic, 0): offset}), now_ms)[0].wait for offset in (0, 5)
        )

    assert behind is not None
    assert behind.since is Since.APPEND
    assert behind.ms < 60_000
    # What lies ahead of it is a marker.
    assert done is None


def _transactions(kafka: Filled, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": kafka.broker.bootstrap, "transactional.id": f"live-{name}"})
    producer.init_transactions(30)
    return producer


def _transaction(producer: Producer, topic: str, total: int, end: Callable[[float], object]) -> None:
    producer.begin_transaction()
    for number in range(total):
        producer.produce(topic, b"v%d" % number, partition=0)
    producer.flush(30)
    end(30)


@pytest.mark.parametrize("fails", ["true", "false"])
def test_stream_over_a_topic_that_is_created_again(spark, world: Filled, tmp_path, fails: str) -> None:
    """Guards: 1,000 records, then 1,500 under the same name: an error, or all 1,500, never the last 500."""
    topic = world.broker.topic()
    world.broker.produce(topic, _numbers(1000))
    seen: list[int] = []

    def run() -> None:
        options = {"subscribe": topic, "startingOffsets": "earliest", "failOnDataLoss": fails}
        frame = spark.readStream.format("syncline").options(bootstrap=world.broker.bootstrap, **options).load()
        writer = frame.writeStream.foreachBatch(lambda batch, _: seen.extend(row.offset for row in batch.collect()))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        writer.start().awaitTermination()

    run()
    assert sorted(seen) == list(range(1000))
    seen.clear()
    world.broker.recreate(topic)
    world.broker.produce(topic, _numbers(1500))

    if fails == "true":
        with pytest.raises(Exception, match=f"topic {topic} was deleted and created again.*set the option failOnData"):
            run()
        assert seen == []
    else:
        run()
        assert sorted(seen) == list(range(1500))


@pytest.mark.parametrize("streams", [False, True], ids=["batch", "stream"])
def test_wrong_bootstrap_is_told_within_ten_seconds(spark, streams: bool) -> None:
    """Guards: a wrong bootstrap fails in 10 s with the address in the sentence, Spark's own time included."""
    case = {"options": {"subscribe": "any"}, "streams": streams}
    began_s = time.monotonic()

    found = rows_of(spark, "syncline", case, "127.0.0.1:9")

    assert time.monotonic() - began_s < 10
    assert "on 127.0.0.1:9 within 8000 ms" in found["error"]
    assert "Connection refused" in found["error"]


def test_one_of_two_topics_is_gone(spark, world: Filled, tmp_path) -> None:
    """Guards: failOnDataLoss=false dies when one of two topics is gone; true names it."""
    gone, kept = world.broker.topic(), world.broker.topic()
    world.broker.produce(gone, _numbers(10))
    world.broker.produce(kept, _numbers(10))
    seen: list[tuple[str, int]] = []

    def run(fails: str) -> None:
        options = {"subscribe": f"{gone},{kept}", "startingOffsets": "earliest", "failOnDataLoss": fails}
        frame = spark.readStream.format("syncline").options(bootstrap=world.broker.bootstrap, **options).load()
        writer = frame.writeStream.foreachBatch(
            lambda batch, _: seen.extend((row.topic, row.offset) for row in batch.collect())
        )
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        writer.start().awaitTermination()

    run("true")
    world.broker.delete(gone)
    world.broker.produce(kept, _numbers(5))
    seen.clear()
    with pytest.raises(Exception, match=f"topic {gone} no longer exists; set the option failOnDataLoss"):
        run("true")
    run("false")

    assert sorted(seen) == [(kept, offset) for offset in range(10, 15)]


def _numbers(total: int) -> list[tuple[int, None, bytes, int, tuple[()]]]:
    return [(0, None, b"%d" % number, 1_700_000_000_000 + number, ()) for number in range(total)]
