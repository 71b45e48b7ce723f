"""Apache Kafka's console tools, their own main methods, on Syncline's brokers."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster import LocalCluster
from tests.interop.agent import Agent
from tests.interop.conftest import Tool

TOOLS = "org.apache.kafka.tools"


def test_topic_command_creates_describes_grows_and_deletes(run: Tool, name: str) -> None:
    """The whole life of a topic."""
    command = f"{TOOLS}.TopicCommand"
    run(command, "--create", "--topic", name, "--partitions", "2", "--replication-factor", "3")

    assert name in run(command, "--list").splitlines()
    run(command, "--alter", "--topic", name, "--partitions", "3")
    described = run(command, "--describe", "--topic", name)
    assert "PartitionCount: 3" in described
    assert "ReplicationFactor: 3" in described
    assert described.count("Leader: ") == 3
    assert "already exists" in run(command, "--create", "--topic", name, status=1)

    run(command, "--delete", "--topic", name)

    assert name not in run(command, "--list").splitlines()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_console_consumer_prints_what_the_console_producer_was_given(
    run: Tool, codec: str, name: str, make_topic: Callable[..., str]
) -> None:
    """Keys, headers, null markers and values come out in the order in which they went in."""
    topic = make_topic(name)
    lines = ["one:1,two:2\tkey\tvalue", "NULL\tNULL\tno key", "h:x\tno value\tNULL"]
    read = {"parse.key": "true", "parse.headers": "true", "null.marker": "NULL"}
    shown = {"print.key": "true", "print.headers": "true", "null.literal": "NULL"}

    run(
        f"{TOOLS}.ConsoleProducer",
        *("--topic", topic, "--compression-codec", codec),
        *(word for pair in read.items() for word in ("--reader-property", "=".join(pair))),
        text="\n".join(lines) + "\n",
    )
    printed = run(
        f"{TOOLS}.consumer.ConsoleConsumer",
        *("--topic", topic, "--from-beginning", "--max-messages", "3", "--timeout-ms", "10000"),
        *(word for pair in shown.items() for word in ("--formatter-property", "=".join(pair))),
    )

    assert ["one:1,two:2\tkey\tvalue", "NO_HEADERS\tNULL\tno key", "h:x\tno value\tNULL"] == printed.splitlines()[:3]


def test_consumer_group_command_describes_resets_and_deletes(
    run: Tool, name: str, make_topic: Callable[..., str]
) -> None:
    """A group is listed with its lag, sent back to the beginning, loses an offset and then itself."""
    topic = make_topic(name)
    command = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
    run(f"{TOOLS}.ConsoleProducer", "--topic", topic, text="1\n2\n3\n4\n5\n")
    run(
        f"{TOOLS}.consumer.ConsoleConsumer",
        *("--topic", topic, "--group", name, "--from-beginning", "--max-messages", "5", "--timeout-ms", "10000"),
    )

    assert name in run(command, "--list").splitlines()
    assert "Empty" in run(command, "--describe", "--group", name, "--state")
    assert [name, topic, "0", "5", "5", "0"] == _rows(run(command, "--describe", "--group", name), name)[0][:6]

    reset = ["--reset-offsets", "--group", name, "--topic", topic, "--to-offset", "2", "--execute"]
    run(command, *reset)

    assert [name, topic, "0", "2", "5", "3"] == _rows(run(command, "--describe", "--group", name), name)[0][:6]

    run(command, "--delete-offsets", "--group", name, "--topic", topic)
    assert _rows(run(command, "--describe", "--group", name), name) == []
    run(f"{TOOLS}.consumer.ConsoleConsumer", "--topic", topic, "--group", name, "--max-messages", "0")
    run(command, "--delete", "--group", name)
    assert name not in run(command, "--list").splitlines()


def _rows(table: str, first: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines() if line.split()[:1] == [first]]


def test_config_command_alters_and_describes(run: Tool, name: str, make_topic: Callable[..., str]) -> None:
    """A topic's override appears, and disappears."""
    topic = make_topic(name)
    entity = ["--entity-type", "topics", "--entity-name", topic]

    run("kafka.admin.ConfigCommand", "--alter", *entity, "--add-config", "max.message.bytes=65536,segment.ms=700000")
    described = run("kafka.admin.ConfigCommand", "--describe", *entity)
    run("kafka.admin.ConfigCommand", "--alter", *entity, "--delete-config", "segment.ms")
    after = run("kafka.admin.ConfigCommand", "--describe", *entity)

    assert "max.message.bytes=65536" in described
    assert "segment.ms=700000" in described
    assert "max.message.bytes=65536" in after
    assert "segment.ms" not in after
    all_of_broker = run(
        "kafka.admin.ConfigCommand", "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all"
    )
    assert "group.min.session.timeout.ms=500" in all_of_broker


def test_offset_tools_show_and_raise_the_beginning(
    run: Tool, name: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    """GetOffsetShell prints both ends; DeleteRecords moves the first."""
    topic = make_topic(name)
    run(f"{TOOLS}.ConsoleProducer", "--topic", topic, text="1\n2\n3\n4\n5\n")
    wish = tmp_path / "offsets.json"
    wish.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 2}]}))

    deleted = run(f"{TOOLS}.DeleteRecordsCommand", "--offset-json-file", str(wish))

    assert "low_watermark: 2" in deleted
    ends = [run(f"{TOOLS}.GetOffsetShell", "--topic", topic, "--time", time).split() for time in ("earliest", "latest")]
    assert [[f"{topic}:0:2"], [f"{topic}:0:5"]] == ends


def test_log_dirs_command_reads_every_broker(run: Tool, name: str, make_topic: Callable[..., str]) -> None:
    """All three brokers report the topic's size and no lag."""
    topic = make_topic(name)
    run(f"{TOOLS}.ConsoleProducer", "--topic", topic, text="1\n2\n3\n")

    shown = json.loads(run(f"{TOOLS}.LogDirsCommand", "--describe", "--topic-list", topic).splitlines()[-1])

    assert [1, 2, 3] == sorted(broker["broker"] for broker in shown["brokers"])
    partitions = [
        partition
        for broker in shown["brokers"]
        for directory in broker["logDirs"]
        for partition in directory["partitions"]
    ]
    assert all(partition["size"] > 0 and partition["offsetLag"] == 0 for partition in partitions)
    assert len(partitions) == 3


def test_broker_api_versions_command_finds_all_brokers(run: Tool) -> None:
    """Each broker lists its versions, and none of those that the tool asks for is unknown to it."""
    shown = run(f"{TOOLS}.BrokerApiVersionsCommand")

    assert shown.count("(id: ") == 3
    assert "Produce(0): 0 to 11 [usable: 11]" in shown
    assert "ERROR" not in shown


def test_performance_tools_run_to_their_end(run: Tool, name: str, make_topic: Callable[..., str]) -> None:
    """The load generators write and read as many records as they should."""
    topic = make_topic(name, 2)
    count = "2000"

    written = run(
        f"{TOOLS}.ProducerPerformance",
        *("--topic", topic, "--num-records", count, "--record-size", "100", "--throughput", "-1"),
    )
    read = run(f"{TOOLS}.ConsumerPerformance", "--topic", topic, "--num-records", count, "--timeout", "10000")

    assert f"{count} records sent" in written
    assert count == read.splitlines()[-1].split(", ")[4]


def test_dump_log_segments_reads_the_files_of_a_broker(
    tools: Agent, run: Tool, name: str, make_topic: Callable[..., str], three_brokers: LocalCluster
) -> None:
    """The format on disk is Kafka's: the dump shows valid batches and the records in them."""
    topic = make_topic(name)
    run(f"{TOOLS}.ConsoleProducer", "--topic", topic, "--compression-codec", "zstd", text="first\nsecond\n")
    segment = min(three_brokers.directory.glob(f"broker-*/{topic}-0/*.log"))

    dumped = tools.do(f"{TOOLS}.DumpLogSegments", arguments=["--files", str(segment), "--print-data-log"], input="")[
        "output"
    ]

    assert "payload: first" in dumped
    assert "payload: second" in dumped
    assert "compresscodec: zstd" in dumped
    assert "isvalid: true" in dumped
    assert "isvalid: false" not in dumped


def test_leader_election_command_finds_that_all_leaders_are_the_preferred_ones(
    run: Tool, name: str, make_topic: Callable[..., str]
) -> None:
    """Neither kind of election has anything to do, and the tool says so."""
    topic = make_topic(name)

    for kind in ("PREFERRED", "UNCLEAN"):
        said = run(f"{TOOLS}.LeaderElectionCommand", "--election-type", kind, "--topic", topic, "--partition", "0")
        assert f"Valid replica already elected for partitions {topic}-0" in said


def test_metadata_quorum_command_shows_who_decides_and_who_follows(run: Tool, three_brokers: LocalCluster) -> None:
    """The controller leads, all brokers vote, and all have caught up."""
    status = run(f"{TOOLS}.MetadataQuorumCommand", "describe", "--status")
    replication = run(f"{TOOLS}.MetadataQuorumCommand", "describe", "--replication")

    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    assert int(fields["LeaderId"]) in three_brokers.pids
    assert int(fields["LeaderEpoch"]) > 0
    assert "MaxFollowerLag" in fields
    roles = [line.split()[-1] for line in replication.splitlines()[1:] if line.strip()]
    assert sorted(roles) == ["Follower", "Follower", "Leader"]
