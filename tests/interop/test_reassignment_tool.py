"""Apache Kafka's reassignment tool, its own main method, on Syncline's brokers; clients and our command look on."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from tests.cli.terminal import call
from tests.cluster import LocalCluster
from tests.interop.conftest import Tool
from tests.patience import eventually, until

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LISTS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
REFUSED_WHILE_ONE_RUNS = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create a "
    "new partition assignment in addition to the existing one. The --additional flag can also be used to change the "
    "throttle by resubmitting the current reassignment."
)
WARNING = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)
DYNAMIC_SOURCES = {1, 2}  # set for the topic, set for the broker
Moves = Callable[..., list[str]]
MakePlan = Callable[..., Path]


@pytest.fixture
def moves(run: Tool) -> Moves:
    """Return a function that runs the tool, and returns the lines that it wrote."""

    def move(*arguments: str | Path, status: int = 0) -> list[str]:
        return run(
            "org.apache.kafka.tools.reassign.ReassignPartitionsCommand", *map(str, arguments), status=status
        ).splitlines()

    return move


@pytest.fixture
def topic(name: str, admin: AdminClient, three_brokers: LocalCluster) -> Iterator[str]:
    """Return a topic with two partitions on the brokers 1 and 2, each with forty batches of 50 kB.

    Its deletion ends its moves, so that a test that failed leaves none to the next.
    """
    new = NewTopic(name, 2, replica_assignment=[[1, 2], [1, 2]])
    admin.create_topics([new])[name].result(10)
    producer = Producer({"bootstrap.servers": three_brokers.bootstrap, "batch.num.messages": 1})
    for partition in (0, 1):
        for _ in range(40):
            producer.produce(name, b"x" * 50_000, partition=partition)
    assert producer.flush(10) == 0
    yield name
    admin.delete_topics([name])[name].result(10)
    call("throttle", "clear", "--brokers", "all", "--bootstrap-server", three_brokers.bootstrap)


@pytest.fixture
def plan(tmp_path: Path, topic: str) -> MakePlan:
    """Return a function that writes where the topic's partitions shall be."""

    def write(*replicas: Sequence[int], **others: Any) -> Path:
        rows = [
            {"topic": topic, "partition": number, "replicas": each, **others} for number, each in enumerate(replicas)
        ]
        file = tmp_path / f"plan-{len(list(tmp_path.iterdir()))}.json"
        file.write_text(json.dumps({"version": 1, "partitions": rows}))
        return file

    return write


def current(cluster: LocalCluster, topic: str, *replicas: Sequence[int]) -> str:
    """Return where replicas are, as the tool prints it: with their directories."""
    rows = [
        {
            "topic": topic,
            "partition": number,
            "replicas": each,
            "log_dirs": [str(cluster.directory / f"broker-{broker}") for broker in each],
        }
        for number, each in enumerate(replicas)
    ]
    return json.dumps({"version": 1, "partitions": rows}, separators=(",", ":"))


def replicas_in(text: str) -> list[list[int]]:
    """Return the replicas of each partition of a plan."""
    return [row["replicas"] for row in json.loads(text)["partitions"]]


def set_for(admin: AdminClient, kind: ResourceType, name: str, wanted: Sequence[str]) -> dict[str, str]:
    """Return those of the wanted configurations that are set for a broker or a topic."""
    resource = ConfigResource(kind, name)
    described = admin.describe_configs([resource])[resource].result(10)
    return {
        key: described[key].value for key in wanted if key in described and described[key].source in DYNAMIC_SOURCES
    }


def throttles(admin: AdminClient, topic: str, brokers: Sequence[str] = ("1", "2", "3")) -> list[Mapping[str, str]]:
    """Return the rates of the brokers, and the lists of a topic."""
    rates = [set_for(admin, ResourceType.BROKER, broker, RATES) for broker in brokers]
    return [*rates, set_for(admin, ResourceType.TOPIC, topic, LISTS)]


def replicas_of(admin: AdminClient, topic: str) -> list[list[int]]:
    """Return the replicas of each partition."""
    partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions
    return [list(partitions[number].replicas) for number in sorted(partitions)]


NO_THROTTLES: list[Mapping[str, str]] = [{}, {}, {}, {}]


def test_t40_generate_proposes_and_changes_nothing(
    moves: Moves, topic: str, tmp_path: Path, three_brokers: LocalCluster, admin: AdminClient
) -> None:
    """Its current plan is the one that our command prints, which lets directories be any; what cannot be is refused."""
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    wanted = ("--topics-to-move-json-file", str(topics), "--broker-list")

    proposed = moves("--generate", *wanted, "2,3")
    ours = call("reassign", "generate", *wanted, "2,3", "--bootstrap-server", three_brokers.bootstrap).splitlines()

    assert proposed[:2] == ["Current partition replica assignment", current(three_brokers, topic, [1, 2], [1, 2])]
    assert replicas_in(ours[1]) == replicas_in(proposed[1])
    assert proposed[3] == ours[3] == "Proposed partition reassignment configuration"
    assert [sorted(replicas) for replicas in replicas_in(proposed[4])] == [[2, 3], [2, 3]]
    refused = moves("--generate", *wanted, "2", status=1)
    assert any("only 1 broker" in line for line in refused), refused
    topics.write_text(json.dumps({"topics": [{"topic": "quux"}]}))
    assert "Topic quux not found" in "".join(moves("--generate", *wanted, "2,3", status=1))
    assert replicas_of(admin, topic) == [[1, 2], [1, 2]]


def test_t41_t42_t44_throttled_move_from_execute_to_verify(
    moves: Moves, topic: str, plan: MakePlan, admin: AdminClient, three_brokers: LocalCluster
) -> None:
    """It stands still at 1 B/s, goes on at another rate, is complete, and nothing of its throttle is left."""
    file = plan([1, 3], [1, 3])

    executed = moves("--execute", "--reassignment-json-file", file, "--throttle", "1")

    assert executed == [
        "Current partition replica assignment",
        "",
        current(three_brokers, topic, [1, 2], [1, 2]),
        "",
        "Save this to use as the --reassignment-json-file option during rollback",
        WARNING,
        "The inter-broker throttle limit was set to 1 B/s",
        f"Successfully started partition reassignments for {topic}-0,{topic}-1",
    ]
    limited = throttles(admin, topic)
    rates = dict.fromkeys(RATES, "1")
    assert limited == [rates, rates, rates, dict(zip(LISTS, ("0:1,0:2,1:1,1:2", "0:3,1:3"), strict=True))]
    listed = [f"{topic}-{each}: replicas: 1,3,2. adding: 3. removing: 2." for each in (0, 1)]
    assert moves("--list") == ["Current partition reassignments:", *listed]

    assert moves("--execute", "--reassignment-json-file", file, status=1)[0] == REFUSED_WHILE_ONE_RUNS
    verified = moves("--verify", "--reassignment-json-file", file)

    running = [f"Reassignment of partition {topic}-{each} is still in progress." for each in (0, 1)]
    assert verified[:3] == ["Status of partition reassignment:", *running]
    assert throttles(admin, topic) == limited
    ours = call("reassign", "verify", "-f", str(file), "--bootstrap-server", three_brokers.bootstrap)
    assert ours.splitlines()[:3] == verified[:3]

    moves("--execute", "--additional", "--reassignment-json-file", file, "--throttle", "50000000")
    until(lambda: moves("--list") == ["No partition reassignments found."], otherwise="it still moves")
    kept = moves("--verify", "--preserve-throttles", "--reassignment-json-file", file)
    still_limited = throttles(admin, topic)
    verified = moves("--verify", "--reassignment-json-file", file)

    complete = [f"Reassignment of partition {topic}-{each} is completed." for each in (0, 1)]
    assert kept[:3] == verified[:3] == ["Status of partition reassignment:", *complete]
    assert verified[-2:] == [
        "Clearing broker-level throttles on brokers 1,2,3",
        f"Clearing topic-level throttles on topic {topic}",
    ]
    assert still_limited[0] == dict.fromkeys(RATES, "50000000")
    assert throttles(admin, topic) == NO_THROTTLES
    assert replicas_of(admin, topic) == [[1, 3], [1, 3]]


def test_t45_cancelled_move_leaves_what_was_there(moves: Moves, topic: str, plan: MakePlan, admin: AdminClient) -> None:
    """Both partitions are back, the throttle is gone, and a second cancellation finds nothing."""
    file = plan([3, 2], [2, 3])
    moves("--execute", "--reassignment-json-file", file, "--throttle", "1")

    cancelled = moves("--cancel", "--reassignment-json-file", file)
    again = moves("--cancel", "--reassignment-json-file", file)

    assert cancelled[0] == f"Successfully cancelled partition reassignments for: {topic}-0,{topic}-1"
    assert again[0] == "None of the specified partition reassignments are active."
    assert moves("--list") == ["No partition reassignments found."]
    assert throttles(admin, topic) == NO_THROTTLES
    # Kafka leaves them in another order.
    assert eventually(lambda: replicas_of(admin, topic), lambda found: found == [[1, 2]] * 2) == [[1, 2], [1, 2]]


def test_t43_bad_plans_are_refused_and_change_nothing(
    moves: Moves, topic: str, plan: MakePlan, admin: AdminClient, tmp_path: Path
) -> None:
    """A broker and a partition that do not exist; the tool asks our brokers what there is."""
    missing = tmp_path / "missing.json"
    row = {"topic": topic, "partition": 7, "replicas": [1, 2]}
    missing.write_text(json.dumps({"version": 1, "partitions": [row]}))

    unknown_broker = moves("--execute", "--reassignment-json-file", plan([9, 2]), "--throttle", "1", status=1)
    unknown_partition = moves("--execute", "--reassignment-json-file", missing, "--throttle", "1", status=1)

    assert any("Unknown broker id 9" in line for line in unknown_broker), unknown_broker
    assert any(f"Unable to find partition: {topic}-7" in line for line in unknown_partition), unknown_partition
    assert throttles(admin, topic) == NO_THROTTLES


def test_t50_t51_other_order_and_fewer_replicas_are_done_at_once(
    moves: Moves, topic: str, plan: MakePlan, admin: AdminClient
) -> None:
    """Nothing is copied, so nothing is listed; a file with another order than there is is not complete."""
    file = plan([2, 1], [1])

    moves("--execute", "--reassignment-json-file", file)

    assert eventually(lambda: replicas_of(admin, topic), lambda found: found == [[2, 1], [1]]) == [[2, 1], [1]]
    assert moves("--list") == ["No partition reassignments found."]
    differs = moves("--verify", "--reassignment-json-file", plan([1, 2], [1]))
    assert differs[1:3] == [
        f"There is no active reassignment of partition {topic}-0, but replica set is 2,1 rather than 1,2.",
        f"Reassignment of partition {topic}-1 is completed.",
    ]


def test_tool_and_our_command_see_and_end_each_others_moves(
    moves: Moves, topic: str, plan: MakePlan, admin: AdminClient, three_brokers: LocalCluster
) -> None:
    """A move that owns its throttle needs no lists; the tool lists it as any other, and cancels it."""
    file = plan([1, 3], [1, 2])
    at = ("--bootstrap-server", three_brokers.bootstrap)
    call("reassign", "execute", "-f", str(file), "--throttle", "1", *at)

    listed = moves("--list")
    limited = throttles(admin, topic)
    cancelled = moves("--cancel", "--reassignment-json-file", file)
    moves("--execute", "--reassignment-json-file", file, "--throttle", "1")
    ours = call("reassign", "cancel", "-f", str(file), *at)
    moves("--verify", "--reassignment-json-file", file)

    assert listed[1:] == [f"{topic}-0: replicas: 1,3,2. adding: 3. removing: 2."]
    assert limited == NO_THROTTLES
    assert cancelled[0] == f"Successfully cancelled partition reassignment for: {topic}-0"
    assert ours.splitlines()[0] == cancelled[0]
    assert throttles(admin, topic) == NO_THROTTLES


def test_rollback_by_the_file_that_the_tool_printed(
    moves: Moves, topic: str, plan: MakePlan, admin: AdminClient, tmp_path: Path
) -> None:
    """It names the directories, so the tool asks each broker to have its replicas there, until they exist."""
    executed = moves("--execute", "--reassignment-json-file", plan([1, 3], [3, 2]))
    until(lambda: moves("--list") == ["No partition reassignments found."])
    back = tmp_path / "back.json"
    back.write_text(executed[2])
    rolled_back = moves("--execute", "--reassignment-json-file", back)
    until(lambda: moves("--list") == ["No partition reassignments found."])
    verified = moves("--verify", "--reassignment-json-file", back)

    assert f"Successfully started partition reassignments for {topic}-0,{topic}-1" in rolled_back
    begun = [line for line in rolled_back if line.startswith("Successfully started moving log directory to ")]
    assert sorted(line.rpartition(" for replica ")[2].strip() for line in begun) == [
        f"{topic}-{number} with broker {broker}" for number in (0, 1) for broker in (1, 2)
    ]
    assert sum(line.endswith("completed successfully.") for line in verified) == 4
    assert replicas_of(admin, topic) == [[1, 2], [1, 2]]


def test_other_directory_is_refused_by_name(moves: Moves, topic: str, plan: MakePlan) -> None:
    """A broker has one; the replicas stay where they are."""
    refused = moves(
        "--execute",
        "--reassignment-json-file",
        plan([1, 2], log_dirs=["/nowhere", "any"]),
        "--timeout",
        "500",
        status=1,
    )

    assert any("LogDirNotFoundException" in line for line in refused), refused
