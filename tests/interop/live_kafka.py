"""`syncline reassign` and `throttle` on Apache Kafka itself, beside Kafka's own tool: `make kafka-live`.

Not part of `make test`: three Java brokers take longer to start than all else here. Needs Java, and Maven once.
"""

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cli.terminal import call, refusal
from tests.conformance import apache_kafka
from tests.conformance.live import wait_for_listener
from tests.conformance.settings import World
from tests.interop.agent import Agent
from tests.interop.test_reassignment_tool import (
    LISTS,
    NO_THROTTLES,
    RATES,
    REFUSED_WHILE_ONE_RUNS,
    WARNING,
    replicas_in,
    replicas_of,
    throttles,
)
from tests.interop.toolchains import MissingError, console_tools
from tests.patience import until

# Ids of the three brokers.
A, B, C = 0, 1, 2
START_S = 60.0
CONFIGS = {"replica.lag.time.max.ms": "5000", "auto.leader.rebalance.enable": "false"}
TOPIC_BYTES = 2_000_000
BROKERS = 3


class Kafka:
    """A running cluster of Apache Kafka, its tool, and our command on it."""

    def __init__(self, bootstrap: str, tools: Agent) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self._tools = tools

    def is_up(self) -> bool:
        """Return whether all brokers are registered."""
        try:
            return len(self.admin.list_topics(timeout=5).brokers) == BROKERS
        except KafkaException:
            return False

    def tool(self, *arguments: str | Path, status: int = 0) -> list[str]:
        """Run Kafka's tool; return its lines."""
        full = ["--bootstrap-server", self.bootstrap, *map(str, arguments)]
        name = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
        ended = self._tools.do(name, arguments=full, input="")
        assert ended["status"] == status, ended["output"]
        return list(ended["output"].splitlines())

    def ours(self, *arguments: str | Path) -> list[str]:
        """Run our command; return its lines."""
        return call(*map(str, arguments), "--bootstrap-server", self.bootstrap).splitlines()

    def facts(self, *arguments: str | Path) -> Any:
        """Run our command with --json; return what it prints."""
        return json.loads("\n".join(self.ours(*arguments, "--json")))

    def refuses(self, *arguments: str | Path) -> str:
        """Run our command, which refuses; return the sentence."""
        return refusal(*map(str, arguments), "--bootstrap-server", self.bootstrap)

    def throttles(self, topic: str) -> list[Any]:
        """Return the rates of the brokers, and the lists of a topic."""
        return throttles(self.admin, topic, [str(each) for each in range(BROKERS)])


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    """Return three brokers of Apache Kafka 4.3; skip everything if its jars cannot be had."""
    try:
        launch = console_tools()
        if shutil.which("mvn") is None and not (apache_kafka.KEPT / "lib").is_dir():
            raise MissingError("mvn is not installed")
        apache_kafka.jars()
    except (MissingError, subprocess.CalledProcessError) as error:
        pytest.skip(f"Apache Kafka: {error}")
    with apache_kafka.running(World(BROKERS, CONFIGS)) as running:
        deadline_s = time.monotonic() + START_S
        for host, port in running.bootstrap:
            wait_for_listener(host, port, deadline_s)
        tools = Agent(launch.command, "", launch.environment)
        cluster = Kafka(",".join(f"{host}:{port}" for host, port in running.bootstrap), tools)
        until(cluster.is_up, START_S)
        yield cluster
        tools.kill()


@pytest.fixture
def topic(kafka: Kafka, request: pytest.FixtureRequest) -> Iterator[str]:
    """Return a topic with two partitions of 2 MB on the brokers 0 and 1; its deletion ends what moves."""
    name = request.node.originalname.removeprefix("test_").replace("_", "-")[:60]
    kafka.admin.create_topics([NewTopic(name, 2, replica_assignment=[[A, B], [A, B]])])[name].result(20)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "acks": "all"})
    for partition in (0, 1):
        for _ in range(TOPIC_BYTES // 10_000):
            producer.produce(name, b"x" * 10_000, partition=partition)
    assert producer.flush(20) == 0
    yield name
    kafka.admin.delete_topics([name])[name].result(20)
    until(lambda: kafka.facts("reassign", "list") == [])
    kafka.ours("throttle", "clear", "--brokers", "all")


@pytest.fixture
def plan(tmp_path: Path, topic: str) -> Callable[..., Path]:
    """Return a function that writes where the topic's partitions shall be."""

    def write(*replicas: Sequence[int]) -> Path:
        rows = [{"topic": topic, "partition": number, "replicas": each} for number, each in enumerate(replicas)]
        file = tmp_path / f"plan-{len(list(tmp_path.iterdir()))}.json"
        file.write_text(json.dumps({"version": 1, "partitions": rows}))
        return file

    return write


def test_generate_prints_what_the_tool_prints(kafka: Kafka, topic: str, tmp_path: Path) -> None:
    """The current plan to the byte, with directories; the proposal is as good, and can be minimal."""
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    wanted = ("--topics-to-move-json-file", topics, "--broker-list", f"{B},{C}")

    tools, ours = kafka.tool("--generate", *wanted), kafka.ours("reassign", "generate", *wanted)
    minimal = kafka.facts("reassign", "generate", *wanted, "--minimal")

    assert ours[:4] == tools[:4]
    assert [sorted(each) for each in replicas_in(ours[4])] == [[B, C], [B, C]]
    assert minimal["copied_bytes"] == pytest.approx(2 * TOPIC_BYTES, rel=0.05)
    assert replicas_of(kafka.admin, topic) == [[A, B], [A, B]]


def test_throttled_move_from_execute_to_verify(kafka: Kafka, topic: str, plan: Callable[..., Path]) -> None:
    """Lists, rates and the move as the tool sets them; the tool and we say the same of it, word by word."""
    file = plan([A, C], [A, C])

    executed = kafka.ours("reassign", "execute", "-f", file, "--throttle", "1000")
    limited = kafka.throttles(topic)
    refused = kafka.refuses("reassign", "execute", "-f", file)
    status = kafka.facts("reassign", "status")
    said = [
        (kafka.tool("--list"), kafka.ours("reassign", "list")),
        (
            kafka.tool("--verify", "--reassignment-json-file", file),
            kafka.ours("reassign", "verify", "-f", file),
        ),
    ]
    kafka.ours("reassign", "execute", "-f", file, "--throttle", "50MB", "--additional")
    until(lambda: kafka.ours("reassign", "list") == ["No partition reassignments found."])
    preserved = kafka.ours("reassign", "verify", "-f", file, "--preserve-throttles")
    still_limited = kafka.throttles(topic)
    verified = kafka.ours("reassign", "verify", "-f", file)

    assert executed[4:] == [
        "Save this to use as the --reassignment-json-file option during rollback",
        WARNING,
        "The inter-broker throttle limit was set to 1000 B/s",
        f"Successfully started partition reassignments for {topic}-0,{topic}-1",
    ]
    rates = dict.fromkeys(RATES, "1000")
    lists = (f"0:{A},0:{B},1:{A},1:{B}", f"0:{C},1:{C}")
    assert limited == [rates, rates, rates, dict(zip(LISTS, lists, strict=True))]
    assert refused == REFUSED_WHILE_ONE_RUNS
    assert {row["destination"] for row in status["replicas"]} == {C}
    assert {row["quota_bytes_per_s"] for row in status["brokers"]} == {1000}
    for tools, ours in said:
        assert ours == tools
    complete = [f"Reassignment of partition {topic}-{number} is completed." for number in (0, 1)]
    assert preserved[1:3] == verified[1:3] == complete
    assert still_limited[0] == dict.fromkeys(RATES, "50000000")
    assert verified[-2:] == [
        f"Clearing broker-level throttles on brokers {A},{B},{C}",
        f"Clearing topic-level throttles on topic {topic}",
    ]
    assert kafka.throttles(topic) == NO_THROTTLES


def test_cancelled_move_leaves_what_was_there(kafka: Kafka, topic: str, plan: Callable[..., Path]) -> None:
    """Also one that the tool began; and the throttle of what still moves stays."""
    file, first = plan([A, C], [A, C]), plan([A, C])
    kafka.tool("--execute", "--reassignment-json-file", file, "--throttle", "1000")

    part = kafka.ours("reassign", "cancel", "-f", first)
    left = kafka.throttles(topic)
    rest = kafka.ours("reassign", "cancel", "-f", file)
    again = kafka.ours("reassign", "cancel", "-f", file)

    assert part[0] == f"Successfully cancelled partition reassignment for: {topic}-0"
    assert left[0] == dict.fromkeys(RATES, "1000")
    assert left[-1] == dict(zip(LISTS, (f"1:{A},1:{B}", f"1:{C}"), strict=True))
    assert rest[0] == f"Successfully cancelled partition reassignment for: {topic}-1"
    assert again[0] == "None of the specified partition reassignments are active."
    assert kafka.throttles(topic) == NO_THROTTLES
    assert [sorted(each) for each in replicas_of(kafka.admin, topic)] == [[A, B], [A, B]]


def test_deadline_is_kept_by_changing_the_rates(kafka: Kafka, topic: str, plan: Callable[..., Path]) -> None:
    """4 MB in 24 s, of which Kafka may let those of ten seconds pass at once; the limits of before are back: none."""
    begun_s = time.monotonic()

    shown = kafka.ours("reassign", "execute", "-f", plan([A, C], [A, C]), "--deadline", "24s")

    assert "complete after" in shown[-1]
    assert 6 <= time.monotonic() - begun_s <= 32
    assert kafka.throttles(topic) == NO_THROTTLES
    assert replicas_of(kafka.admin, topic) == [[A, C], [A, C]]


def test_what_kafka_cannot_is_said_in_a_sentence(kafka: Kafka, topic: str, plan: Callable[..., Path]) -> None:
    """It knows no moves by name, no goals, and takes rates of a broker only there."""
    file = plan([A, C], [A, C])
    kafka.ours("reassign", "execute", "-f", file, "--throttle", "1000")

    named = kafka.refuses("reassign", "resume", "m-1", "--deadline", "5m")
    no_goal = kafka.refuses("reassign", "resume")
    down = kafka.refuses("throttle", "set", "--rate", "1MB", "--brokers", "9")
    factor = kafka.refuses("reassign", "execute", "-f", plan([A, B, C]), "--additional")
    unknown = kafka.refuses("reassign", "execute", "-f", plan([A, 9]), "--additional")
    kafka.ours("reassign", "cancel", "-f", file)

    assert named.startswith("there is no move 'm-1': Apache Kafka does not keep moves apart.")
    assert no_goal.startswith("what moves has no goal to adapt its rate to: give --deadline or --max-client-impact.")
    assert down == "broker 9 is down, and in Apache Kafka only that broker can change its rates."
    assert "add --allow-replication-factor-change" in factor
    assert unknown == "Unknown broker id 9"


def test_directories_are_verified_as_the_tool_verifies_them(
    kafka: Kafka, topic: str, plan: Callable[..., Path], tmp_path: Path
) -> None:
    """The printed plan names them, and is a rollback that has nothing to do."""
    executed = kafka.ours("reassign", "execute", "-f", plan([A, B], [A, B]))
    back = tmp_path / "back.json"
    back.write_text(executed[2])

    tools = kafka.tool("--verify", "--preserve-throttles", "--reassignment-json-file", back)
    ours = kafka.ours("reassign", "verify", "--preserve-throttles", "-f", back)

    assert ours == tools
    assert sum(line.endswith("completed successfully.") for line in ours) == 4, topic
