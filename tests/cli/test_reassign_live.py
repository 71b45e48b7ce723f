"""`syncline reassign` and `throttle` on real brokers that move real bytes."""

import itertools
import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cli.terminal import ENVIRONMENT, call, command, refusal
from tests.cluster import LocalCluster
from tests.patience import eventually, until

pytestmark = pytest.mark.process

_NUMBERS = itertools.count(1)
MB = 1_000_000
MakeTopic = Callable[..., str]
MakePlan = Callable[..., str]


@pytest.fixture
def with_bytes(three_brokers: LocalCluster, admin: AdminClient) -> MakeTopic:
    """Create a topic with these replicas and so many bytes in each partition; return its name."""

    def make(*replicas: list[int], size_bytes: int) -> str:
        name = f"moving-{next(_NUMBERS)}"
        admin.create_topics([NewTopic(name, len(replicas), replica_assignment=list(replicas))])[name].result(10)
        producer = Producer({"bootstrap.servers": three_brokers.bootstrap, "log_level": 0, "acks": "all"})
        record = b"x" * 10_000
        for partition in range(len(replicas)):
            for _ in range(size_bytes // len(record)):
                producer.produce(name, record, partition=partition)
        assert producer.flush(20) == 0
        return name

    return make


@pytest.fixture
def to(tmp_path: Path) -> MakePlan:
    """Write a plan for a topic; return the name of its file."""

    def write(topic: str, *replicas: list[int]) -> str:
        rows = [{"topic": topic, "partition": index, "replicas": each} for index, each in enumerate(replicas)]
        file = tmp_path / f"to-{next(_NUMBERS)}.json"
        file.write_text(json.dumps({"version": 1, "partitions": rows}))
        return str(file)

    return write


def facts(*arguments: str) -> Any:
    """Run a command with --json; return what it prints."""
    return json.loads(call(*arguments, "--json"))


def replicas_of(admin: AdminClient, topic: str) -> list[list[int]]:
    """Return the replicas of each partition, as metadata shows them."""
    partitions = admin.list_topics(timeout=5).topics[topic].partitions
    return [list(partitions[index].replicas) for index in sorted(partitions)]


def nothing_moves(at: tuple[str, ...]) -> bool:
    """Return whether a list is empty within some seconds."""
    return bool(eventually(lambda: facts("reassign", "list", *at) == [], bool, within_s=20))


def test_t41_t44_throttled_move_ends_and_its_throttle_with_it(
    at: tuple[str, str], with_bytes: MakeTopic, to: MakePlan, admin: AdminClient, tmp_path: Path
) -> None:
    """2 MB at 200 kB/s would take ten seconds; another rate, by the same file, ends it at once; the report tells."""
    topic = with_bytes([1, 2], [1, 2], size_bytes=MB)
    plan = to(topic, [1, 3], [1, 3])

    started = facts("reassign", "execute", "-f", plan, "--throttle", "200kB", *at)
    during = facts("reassign", "status", *at)
    sentence = refusal("reassign", "execute", "-f", plan, *at)
    running = call("reassign", "verify", "-f", plan, *at)
    call("reassign", "execute", "-f", plan, "--throttle", "50MB", "--additional", *at)

    assert started["move"]
    assert {row["destination"] for row in during["replicas"]} == {3}
    assert all(row["total_bytes"] >= MB for row in during["replicas"])
    assert {row["quota_bytes_per_s"] for row in during["brokers"]} == {200_000}
    assert sentence.startswith("Cannot execute because there is an existing partition assignment.")
    assert f"Reassignment of partition {topic}-0 is still in progress." in running
    assert nothing_moves(at)
    assert replicas_of(admin, topic) == [[1, 3], [1, 3]]
    assert f"Reassignment of partition {topic}-1 is completed." in call("reassign", "verify", "-f", plan, *at)
    assert facts("throttle", "show", *at)["moves"] == []

    page = tmp_path / "move.html"
    told = eventually(
        lambda: facts("reassign", "report", started["move"], "--html", str(page), *at),
        lambda found: found["ending"] == "completed",
        within_s=10,
    )
    assert [step["bytes_per_s"] for step in told["throttle"]] == [200_000, 50 * MB]
    assert {(row["topic"], row["destination"], row["ending"]) for row in told["replicas"]} == {(topic, 3, "completed")}
    assert f"Move {started['move']}" in page.read_text()
    assert "There is no move 'nothing' in the journal within the last 1d" in refusal(
        "reassign", "report", "nothing", *at
    )


def test_t45_t46_cancelled_move_leaves_what_was_there(
    at: tuple[str, str], with_bytes: MakeTopic, to: MakePlan, admin: AdminClient
) -> None:
    """A replacement and a pure increase, both cancelled: the replicas of before in their order."""
    topic = with_bytes([2, 1], [2, 1], size_bytes=MB)
    plan = to(topic, [3, 1], [2, 1, 3])

    call("reassign", "execute", "-f", plan, "--throttle", "1kB", "--allow-replication-factor-change", *at)
    moving = {(row["partition"], tuple(row["adding"])) for row in facts("reassign", "list", *at)}
    shown = call("reassign", "cancel", "-f", plan, *at)

    assert moving == {(0, (3,)), (1, (3,))}
    assert shown == f"Successfully cancelled partition reassignments for: {topic}-0,{topic}-1\n"
    assert nothing_moves(at)
    assert replicas_of(admin, topic) == [[2, 1], [2, 1]]
    assert "None of the specified" in call("reassign", "cancel", "-f", plan, *at)


def test_t48_plan_with_a_broker_that_does_not_exist_changes_nothing(
    at: tuple[str, str], with_bytes: MakeTopic, to: MakePlan
) -> None:
    """The tool's message."""
    topic = with_bytes([1], size_bytes=10_000)

    assert refusal("reassign", "execute", "-f", to(topic, [9]), *at) == "Unknown broker id 9"
    assert facts("reassign", "list", *at) == []


def test_t40_minimal_proposal_can_be_executed(
    at: tuple[str, str], with_bytes: MakeTopic, tmp_path: Path, admin: AdminClient
) -> None:
    """Broker 1 has three partitions of a topic and leads them; the proposal is executed as it was printed."""
    topic = with_bytes([1, 2], [1, 2], [1, 2], size_bytes=100_000)
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"topics": [{"topic": topic}]}))

    plans = facts(
        "reassign", "generate", "--topics-to-move-json-file", str(topics), "--broker-list", "1,2,3", "--minimal", *at
    )
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plans["proposed"]))
    call("reassign", "execute", "-f", str(file), *at)

    assert nothing_moves(at)
    assert replicas_of(admin, topic) == [row["replicas"] for row in plans["proposed"]["partitions"]]
    assert "is completed." in call("reassign", "verify", "-f", str(file), *at)


def test_killed_command_is_resumed_from_what_the_cluster_knows(
    at: tuple[str, str], with_bytes: MakeTopic, to: MakePlan, admin: AdminClient
) -> None:
    """SIGKILL for the command that controls the rate; the move ends near its deadline nevertheless."""
    topic = with_bytes([1], size_bytes=4 * MB)
    plan = to(topic, [2])
    begun_s = time.monotonic()
    process = subprocess.Popen(
        command("reassign", "execute", "-f", plan, "--deadline", "6s", *at),
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "% of" in line:
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()

    shown = call("reassign", "resume", *at)

    assert "complete after" in shown
    # It keeps a second and a half for the end, which a quarter of the deadline is here.
    assert 3.5 < time.monotonic() - begun_s < 9
    assert replicas_of(admin, topic) == [[2]]


def test_command_that_ends_while_it_measures_clients_leaves_the_move_as_it_was(
    at: tuple[str, str], with_bytes: MakeTopic, to: MakePlan, admin: AdminClient
) -> None:
    """SIGTERM after the rate was lowered for the measurement: the rate of before comes back, and the topic goes."""
    topic = with_bytes([1], size_bytes=2 * MB)
    plan = to(topic, [2])
    call("reassign", "execute", "-f", plan, "--throttle", "60kB", *at)
    process = subprocess.Popen(
        command("reassign", "resume", "--max-client-impact", "10%", *at),
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
    )

    def rate() -> int:
        return int(facts("throttle", "show", *at)["moves"][0]["bytes_per_s"])

    def probes() -> list[str]:
        return [name for name in admin.list_topics(timeout=5).topics if name.startswith("syncline-probe-")]

    until(lambda: rate() == 50_000 and probes())
    process.send_signal(signal.SIGTERM)
    _, shown = process.communicate(timeout=30)

    assert process.returncode == 128 + signal.SIGTERM
    assert "The move continues at 60 kB/s, as before." in shown
    assert rate() == 60_000
    until(lambda: not probes())
    call("reassign", "cancel", "-f", plan, *at)
    assert nothing_moves(at)


def test_plan_of_live_measurements(at: tuple[str, str], with_bytes: MakeTopic, to: MakePlan) -> None:
    """2 MB at 1 MB/s take 2 s; nothing is changed."""
    topic = with_bytes([1], size_bytes=2 * MB)

    found = facts("reassign", "plan", "-f", to(topic, [3]), "--throttle", "1MB", "--measure", "0.2", *at)

    assert found["copied_bytes"] == pytest.approx(2 * MB, rel=0.02)
    assert found["time_s"] == pytest.approx(2.0, rel=0.05)
    assert found["bottleneck"] is not None
    assert facts("reassign", "list", *at) == []


def test_limits_by_hand_are_explained_and_cleared(at: tuple[str, str], with_bytes: MakeTopic) -> None:
    """A rate without a list has no effect, and the missing piece is named."""
    topic = with_bytes([1, 2], size_bytes=10_000)
    call("throttle", "set", "--rate", "5MB", "--brokers", "2", "--role", "receiving", *at)

    missing = facts("throttle", "explain", f"{topic}:0", *at)[-1]["missing"]
    call("throttle", "set", "--topic", topic, "--replicas", "0:2", "--role", "receiving", *at)
    both = facts("throttle", "explain", f"{topic}:0", *at)[-1]
    call("throttle", "clear", "--topic", topic, "--brokers", "all", *at)

    assert missing == f"follower.replication.throttled.replicas of topic {topic} does not name 0:2"
    assert (both["effect"], both["bound_bytes_per_s"]) == ("counted", 5_000_000)
    shown = facts("throttle", "show", *at)
    assert (shown["rates"], shown["lists"]) == ([], [])
    assert set(shown["modes"].values()) == {"strict"}


def test_t41_the_same_file_again_keeps_the_throttle_of_its_move(
    at: tuple[str, str], with_bytes: MakeTopic, to: MakePlan, admin: AdminClient
) -> None:
    """Also when one of its partitions is complete; the throttle goes with a word."""
    topic = with_bytes([1, 2], [1, 3], size_bytes=MB)
    plan = to(topic, [1, 3], [1, 3])
    again = ("reassign", "execute", "-f", plan, "--additional")

    def throttles() -> list[tuple[str, int]]:
        return [(row["move"], row["bytes_per_s"]) for row in facts("throttle", "show", *at)["moves"]]

    move = facts(*again, "--throttle", "60kB", *at)["move"]
    shown = facts(*again, *at)
    kept = throttles()
    facts(*again, "--throttle", "none", *at)

    assert (shown["move"], shown["throttle_bytes_per_s"]) == (move, 60_000)
    assert kept == [(move, 60_000)]
    assert throttles() == []
    assert nothing_moves(at)
    assert replicas_of(admin, topic) == [[1, 3], [1, 3]]
