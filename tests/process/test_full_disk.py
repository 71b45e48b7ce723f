"""A broker whose disk is full: refusals with a clear code, nothing lost, and all is well when there is room again."""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from syncline.model.errors import ErrorCode
from syncline.wire.api import ApiKey
from syncline.wire.produce import encode_produce_request, parse_produce_response
from tests.cluster import LocalCluster, start_cluster
from tests.conformance.wire_client import Answer, Connection, request_frame
from tests.patience import until
from tests.process import disks, processes
from tests.process.load import QUIET, Load, await_full_isr, check_history, create_topic, read_all
from tests.record_batches import build_batch

pytestmark = pytest.mark.process

PRODUCE_VERSION = 11
FULL = 2
INODES = 300
# Topics created while there is no room for their replicas.
LATE = ("late-0", "late-1")
PARTITIONS = 3
CONFIG = {"replica.lag.time.max.ms": "2000"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A data directory in which one broker has a file system of its own, of 24 MB and few inodes."""
    place = tmp_path / f"broker-{FULL}"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size=24m,nr_inodes={INODES}", "tmpfs", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(place: Path) -> Path:
    """Use up all space, for data and for names, with a directory that can be removed."""
    ballast = place / "ballast"
    ballast.mkdir()
    with contextlib.suppress(OSError), (ballast / "data").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    with contextlib.suppress(OSError):
        for number in range(INODES):
            (ballast / str(number)).touch()
    return ballast


def produce_code(cluster: LocalCluster, broker_id: int, topic: str, partition: int) -> ErrorCode:
    """Return what one broker answers to one record."""
    connection = Connection("127.0.0.1", cluster.running.client_ports[broker_id])
    batch = bytes(build_batch([(1, None, b"0:" + b"x" * 20_000)]))
    parts = encode_produce_request(PRODUCE_VERSION, acks=1, timeout_ms=1_000, topics=[(topic, [(partition, batch)])])
    frame = request_frame(
        ApiKey.PRODUCE, PRODUCE_VERSION, connection.next_correlation_id(), b"".join(parts), client_id="x"
    )
    connection.send(frame)
    answer = connection.receive(ApiKey.PRODUCE, PRODUCE_VERSION, 5_000)
    connection.close()
    assert isinstance(answer, Answer), answer
    return ErrorCode(parse_produce_response(answer.body, PRODUCE_VERSION).topics[0][1][0].error_code)


def leaders(cluster: LocalCluster, topic: str) -> dict[int, int]:
    """Return the leader of each partition."""
    metadata = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET}).list_topics(topic, timeout=10)
    return {index: partition.leader for index, partition in metadata.topics[topic].partitions.items()}


@pytest.mark.parametrize("is_killed", [False, True], ids=["running", "killed-while-full"])
def test_a_full_disk_refuses_and_recovers(small_disk: Path, is_killed: bool) -> None:
    """Others go on, the full broker refuses with a code, and catches up once there is room; nothing is lost."""
    cluster = start_cluster(3, CONFIG, directory=small_disk)
    try:
        create_topic(cluster.bootstrap, "spread", PARTITIONS, config={"min.insync.replicas": "2"})
        create_topic(cluster.bootstrap, "probe", PARTITIONS, config={"min.insync.replicas": "1"})
        with Load(cluster.bootstrap, "spread", PARTITIONS, rate_per_s=500) as load:
            load.wait_for_more(200)
            pid = cluster.pids[FULL]
            probed = next(index for index, leader in leaders(cluster, "probe").items() if leader == FULL)
            ballast = fill(small_disk / f"broker-{FULL}")
            # The first refused write takes its leaderships away; a request that comes before that gets the reason.
            assert produce_code(cluster, FULL, "probe", probed) in {
                ErrorCode.KAFKA_STORAGE_ERROR,
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
            }
            until(
                lambda: FULL not in {*leaders(cluster, "spread").values(), *leaders(cluster, "probe").values()},
                otherwise="the full broker still leads",
            )
            # Also what the broker must keep of metadata needs room: it goes on without.
            create_topics(cluster.bootstrap, LATE)
            others = [
                load.acknowledged[index] for index, leader in leaders(cluster, "spread").items() if leader != FULL
            ]
            before = [len(each.offsets) for each in others]
            until(
                lambda: all(len(each.offsets) > old + 100 for each, old in zip(others, before, strict=True)),
                10,
                otherwise="the brokers with room do not go on",
            )
            if is_killed:
                cluster.kill(FULL)
                reports = small_disk / "up.log"
                until(lambda: "No space left on device" in reports.read_text(), otherwise="no start has failed")
            else:
                assert cluster.pids[FULL] == pid, "a full disk is no reason to die"
            shutil.rmtree(ballast)
            load.wait_for_more(300, 20)
            load.stop()
            await_full_isr(cluster.bootstrap, ["spread", "probe", *LATE])
        assert "Traceback" not in cluster.log(FULL)
        check_history(load, read_all(cluster.bootstrap, "spread", PARTITIONS))
        disks.check_identical(small_disk, "spread", PARTITIONS)
        probed = next(iter(leaders(cluster, "probe")))
        assert produce_code(cluster, leaders(cluster, "probe")[probed], "probe", probed) == ErrorCode.NONE
    finally:
        cluster.stop()
    processes.await_none(small_disk)


def create_topics(bootstrap: str, names: tuple[str, ...]) -> None:
    """Create topics without waiting for their replicas."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    new = [NewTopic(name, num_partitions=3, replication_factor=3) for name in names]
    for future in admin.create_topics(new).values():
        future.result(20)
