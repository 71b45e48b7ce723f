"""kcat, which stands on a librdkafka of years ago."""

import json
import subprocess
import time
from collections.abc import Callable

import pytest

from syncline.records.batch import iterate
from tests.cluster import LocalCluster
from tests.interop.clients import CLIENTS
from tests.interop.conftest import Pool
from tests.interop.samples import CODECS, numbered
from tests.interop.toolchains import CLIENTS_TIMEOUT_S, Client, Launch, kcat

Kcat = Callable[..., str]


@pytest.fixture(scope="module")
def program(pool: Pool) -> str:
    """Return the path of kcat."""
    return pool.launch(Client("kcat", lambda: Launch([kcat()]))).command[0]


@pytest.fixture
def run(program: str, three_brokers: LocalCluster) -> Kcat:
    """Return a function that runs kcat on the brokers and returns what it wrote."""

    def run_kcat(*arguments: str, text: str = "") -> str:
        command = [program, "-b", three_brokers.bootstrap, "-X", "fetch.wait.max.ms=50", *arguments]
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=CLIENTS_TIMEOUT_S, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run_kcat


def read_all(run: Kcat, topic: str) -> list[dict]:
    """Return a topic's records as kcat prints them in JSON."""
    return [json.loads(line) for line in run("-C", "-q", "-e", "-J", "-t", topic, "-o", "beginning").splitlines()]


@pytest.mark.parametrize("codec", CODECS)
def test_kcat_reads_what_it_wrote_and_really_compresses_it(
    run: Kcat, codec: str, name: str, make_topic: Callable[..., str], three_brokers: LocalCluster
) -> None:
    """The advertised versions make this client send every compression (KAFKA-18659), keys, headers, nulls."""
    topic = make_topic(name)
    before_ms = int(time.time() * 1000)
    lines = ["key:value", "empty:", f"long:{'abcdefgh' * 200}"]

    # One batch: alone, the short records would be sent uncompressed.
    options = ["-z", codec, "-X", "linger.ms=1000", "-K", ":", "-Z", "-H", "one=1", "-H", "two=zwei"]
    run("-P", "-t", topic, *options, text="\n".join(lines) + "\n")
    read = read_all(run, topic)

    expected = [("key", "value"), ("empty", None), ("long", "abcdefgh" * 200)]
    assert expected == [(each["key"], each["payload"]) for each in read]
    assert [0, 1, 2] == [each["offset"] for each in read]
    assert all(each["headers"] == ["one", "1", "two", "zwei"] for each in read)
    assert all(before_ms <= each["ts"] <= before_ms + 60_000 for each in read)
    log = min(three_brokers.directory.glob(f"broker-*/{topic}-0/*.log")).read_bytes()
    assert {codec} == {CODECS[header.compression] for _, header in iterate(log, 0, len(log))}


def test_kcat_reads_every_compression_that_another_client_wrote(
    run: Kcat, pool: Pool, name: str, make_topic: Callable[..., str]
) -> None:
    """What a modern client wrote is read by an old one."""
    topic = make_topic(name)
    for start, codec in enumerate(CODECS):
        pool.of(CLIENTS["confluent-kafka"]).produce(topic, numbered(10, start=start * 10), codec=codec)

    assert [str(number) for number in range(50)] == [each["payload"] for each in read_all(run, topic)]


def test_kcat_writes_once_as_an_idempotent_producer(run: Kcat, name: str, make_topic: Callable[..., str]) -> None:
    """Many small batches, in order, each once."""
    topic = make_topic(name)
    values = [str(number) for number in range(200)]

    run(
        *("-P", "-t", topic, "-X", "enable.idempotence=true", "-X", "batch.num.messages=3", "-p", "0"),
        text="\n".join(values) + "\n",
    )

    assert values == [each["payload"] for each in read_all(run, topic)]


def test_kcat_reads_as_a_group_and_goes_on_where_it_was(
    run: Kcat, pool: Pool, name: str, make_topic: Callable[..., str]
) -> None:
    """Two runs of one group read each record once."""
    topic = make_topic(name, 2)
    seen = []
    for half in (numbered(20, partitions=2), numbered(20, partitions=2, start=20)):
        pool.of(CLIENTS["confluent-kafka"]).produce(topic, half)
        group = ["-G", name, "-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=1000"]
        seen += run(*group, "-q", "-c", "20", topic).splitlines()

    assert [str(number) for number in range(40)] == sorted(seen, key=int)


def test_kcat_lists_the_cluster_and_finds_offsets_by_time(run: Kcat, name: str, make_topic: Callable[..., str]) -> None:
    """Metadata names three brokers and each partition's replicas; a time in the past leads to the first record."""
    topic = make_topic(name, 2)
    run("-P", "-t", topic, "-p", "1", text="1\n2\n")

    metadata = json.loads(run("-L", "-J", "-t", topic))

    assert [1, 2, 3] == sorted(broker["id"] for broker in metadata["brokers"])
    partitions = metadata["topics"][0]["partitions"]
    assert [[1, 2, 3]] * 2 == [sorted(replica["id"] for replica in each["isrs"]) for each in partitions]
    assert f"{topic} [1] offset 0" in run("-Q", "-t", f"{topic}:1:1000")
