"""Commands that only show something, while a broker is silent: each names it, and shows what the others know."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from subprocess import CompletedProcess
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from syncline.cli.journal_copies import read_copy
from syncline.model.ids import JOURNAL_TOPIC
from tests.cli.terminal import run
from tests.cluster import QUICK_GROUPS, cluster
from tests.patience import eventually

pytestmark = pytest.mark.process

# A broker stays silent for as long as the test lasts: the cluster does not go on without it.
PATIENT = {"broker.session.timeout.ms": "600000"}


class Silence(NamedTuple):
    """A cluster with a silent broker, which leads the journal and a third of the topic `orders`."""

    broker: int
    data: str
    bootstrap: str
    # One that the silent broker coordinates, and one of another broker; both have committed in all partitions.
    its_group: str
    other_group: str

    def said(self, *arguments: str) -> CompletedProcess[str]:
        """Run a command."""
        return run(*arguments, "--data", self.data)


@pytest.fixture(scope="module")
def silence() -> Iterator[Silence]:
    """Three brokers, of which one stops."""
    with cluster(brokers=3, configs=QUICK_GROUPS | PATIENT) as started:
        admin = AdminClient({"bootstrap.servers": started.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("orders", 3, 3)])["orders"].result(10)
        groups: dict[int, str] = {}
        for number in range(60):
            group = f"group-{number}"
            _commit(started.bootstrap, group)
            groups.setdefault(admin.describe_consumer_groups([group])[group].result(10).coordinator.id, group)
            if len(groups) == 3:
                break
        broker = eventually(lambda: _leader_of_journal(admin), lambda leader: leader >= 0)
        # Until a follower's next fetch, its copy lacks what the leader already shows.
        for holder in groups.keys() - {broker}:
            assert eventually(partial(_creations, started.bootstrap, holder), bool)
        other = next(group for coordinator, group in groups.items() if coordinator != broker)
        started.pause(broker)
        try:
            yield Silence(broker, str(started.directory), started.bootstrap, groups[broker], other)
        finally:
            started.resume(broker)


def _commit(bootstrap: str, group: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    try:
        places = [TopicPartition("orders", index, 0) for index in range(3)]
        consumer.commit(offsets=places, asynchronous=False)
    finally:
        consumer.close()


def _leader_of_journal(admin: AdminClient) -> int:
    topic = admin.list_topics(timeout=10).topics.get(JOURNAL_TOPIC)
    partition = None if topic is None else topic.partitions.get(0)
    return partition.leader if partition is not None and len(partition.isrs) == 3 else -1


def _creations(bootstrap: str, holder: int) -> int:
    """Return how many records in a broker's copy of the journal tell that `orders` was created."""
    copy = read_copy(bootstrap, [holder], 0, None, lambda record: b'"created"' in record.value)
    return 0 if copy is None else sum(b'"orders"' in record.value for record in copy.records)


def test_each_command_names_the_silent_broker_and_shows_the_rest(silence: Silence) -> None:
    """Guards: commands failed after 15 s without its name, waited for an election, or showed an end of -1,001.

    All at once, as each waits for the same broker.
    """
    broker = f"broker {silence.broker}"
    questions: dict[str, Callable[[], CompletedProcess[str]]] = {
        " ".join(words): lambda words=words: silence.said(*words)  # type: ignore[misc]
        for words in [
            ("groups", "list"),
            ("groups", "describe", silence.other_group),
            ("groups", "describe", silence.its_group),
            ("lag", silence.its_group),
            ("topics", "describe", "orders"),
            ("configs", "describe", "broker", str(silence.broker)),
            ("why", "orders:0", "--json"),
        ]
    }
    questions["lag --bootstrap"] = lambda: run("lag", "--bootstrap", silence.bootstrap)
    with ThreadPoolExecutor(len(questions)) as threads:
        found = dict(zip(questions, threads.map(lambda ask: ask(), questions.values()), strict=True))

    listed, described = found["groups list"], found[f"groups describe {silence.other_group}"]
    assert (listed.returncode, described.returncode) == (0, 0)
    assert silence.other_group in listed.stdout
    assert f"Some groups may be missing: {broker} does not answer within 5 s." in listed.stderr
    rows = [line.split() for line in described.stdout.splitlines() if line.startswith("orders ")]
    assert sorted(row[3] for row in rows) == ["-", "0", "0"]
    assert f"the end is unknown ({broker} does not answer within 5 s)" in described.stdout

    by_kafka = found["lag --bootstrap"]
    assert by_kafka.returncode == 0
    assert "1 partition unknown" in by_kafka.stdout
    assert f"{broker} does not answer" in by_kafka.stdout

    for command, told in (
        (
            f"groups describe {silence.its_group}",
            f"{broker} does not answer within 5 s, and only that broker",
        ),
        (f"lag {silence.its_group}", f"broker {silence.broker} does not answer and may know it."),
        (f"configs describe broker {silence.broker}", "it does not answer"),
    ):
        assert (found[command].returncode, told in found[command].stderr) == (1, True), found[command]

    assert found["topics describe orders"].returncode == 0
    assert "IN SYNC" in found["topics describe orders"].stdout

    why = json.loads(found["why orders:0 --json"].stdout)
    assert why["missing"] is None
    assert why["created_ms"] is not None
    assert why["remark"].startswith(
        f"Broker {silence.broker} leads the journal and did not answer in time: this is from"
    )


def test_consume_waits_until_a_silent_leader_has_a_successor() -> None:
    """Guards: it failed when the leader was silent for a while, although the cluster elects another within seconds."""
    with cluster(
        brokers=3, configs={"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}
    ) as started:
        admin = AdminClient({"bootstrap.servers": started.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("orders", 1, 3)])["orders"].result(10)
        data = str(started.directory)
        run("produce", "orders", "--data", data, given="first\n")
        leader = admin.list_topics("orders", timeout=10).topics["orders"].partitions[0].leader
        started.pause(leader)
        try:
            consumed = run("consume", "orders", "--until", "end", "--data", data)
        finally:
            started.resume(leader)

    assert (consumed.returncode, consumed.stdout) == (0, "first\n"), consumed
    assert f"broker {leader} does not answer" in consumed.stderr
