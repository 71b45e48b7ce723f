"""`syncline fault` on three real brokers: each kind of fault shows from outside, its counters say so, and it ends."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from syncline.local.control import ControlError, controls
from syncline.local.faults import Faults, NoSuchFault
from syncline.local.layout import Layout, LocalClusterError, state_of
from syncline.model.errors import ErrorCode
from tests.cluster import LocalCluster, start_cluster
from tests.patience import until
from tests.process import disks, processes
from tests.process.journal import events, lags_of_removal_ms, values
from tests.process.load import QUIET, Load, await_full_isr, check_history, create_topic, read_all
from tests.process.test_pauses import await_isr_without, isrs

pytestmark = pytest.mark.process

LAG_S = 1.5
# What one answer is late by: little beside the lag window, and much beside what a busy machine needs for a record.
DELAY_S = 0.1
CONFIG = {
    "replica.lag.time.max.ms": str(int(LAG_S * 1000)),
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers that notice lag soon."""
    started = start_cluster(3, CONFIG, directory=tmp_path_factory.mktemp("faults"))
    try:
        yield started
    finally:
        started.stop()
    processes.await_none(started.directory)


@pytest.fixture
def faults(cluster: LocalCluster) -> Iterator[Faults]:
    """The faults of the cluster; none is left behind."""
    found = Faults(cluster.directory)
    try:
        yield found
    finally:
        found.clear()


def calm_follower(cluster: LocalCluster, topic: str) -> tuple[int, int]:
    """Return (leader, follower) of partition 0; the follower is not the controller."""
    leader, *members = isrs(cluster, topic)[0]
    holder, _ = processes.lease(cluster.directory)
    return leader, next(broker for broker in members if broker not in (leader, holder))


def topic_led_by_others(cluster: LocalCluster, name: str) -> tuple[int, int]:
    """Create topics until one is not led by the controller; its name is `name`. Return (leader, follower)."""
    holder, _ = processes.lease(cluster.directory)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})
    leader, follower = (broker for broker in (1, 2, 3) if broker != holder)
    assigned = NewTopic(name, 1, replica_assignment=[[leader, follower, holder]])
    admin.create_topics([assigned])[name].result(20)
    await_full_isr(cluster.bootstrap, [name])
    return leader, follower


def journalled(cluster: LocalCluster, kind: str, phase: str) -> list[dict[str, Any]]:
    """Return the fault events of a kind and phase in the journal, as soon as there are any."""
    return events(cluster, type="fault", kind=kind, phase=phase)


def produce(cluster: LocalCluster, topic: str, count: int, **settings: Any) -> float:
    """Produce records one after the other with acks=all; return how long that took. Each is acknowledged."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, **QUIET, "acks": "all", "linger.ms": 0, "retry.backoff.ms": 20}
        | {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100}
        | settings
    )
    errors: list[Any] = []
    producer.list_topics(topic, timeout=10)
    began_s = time.monotonic()
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(30) == 0
    took_s = time.monotonic() - began_s
    assert errors == [None] * count
    return took_s


def test_cut_follower_leaves_the_isr_and_comes_back(cluster: LocalCluster, faults: Faults) -> None:
    """Both ways: out of the ISR after the lag window, though it is alive; nothing is lost; back after `clear`."""
    leader, follower = topic_led_by_others(cluster, "cut")
    with Load(cluster.bootstrap, "cut", 1) as load:
        load.wait_for_more(200)
        fault = faults.add("link-cut", source=leader, target=follower)
        await_isr_without(cluster, "cut", follower, LAG_S * 1.5 + 2)
        load.wait_for_more(200)
        assert fault.hits > 0
        assert fault.brokers == tuple(sorted((leader, follower)))
        fault.clear()
        await_full_isr(cluster.bootstrap, ["cut"], 10)
    assert isrs(cluster, "cut")[0][0] == leader
    assert min(lags_of_removal_ms(cluster, "cut", follower)) > LAG_S * 1_000
    check_history(load, read_all(cluster.bootstrap, "cut", 1))
    disks.check_identical(cluster.directory, "cut", 1)
    (begin,), (end,) = (
        [event for event in journalled(cluster, "link-cut", phase) if fault.id in event["note"]]
        for phase in ("begin", "end")
    )
    assert begin["target"] == end["target"] == f"broker-{leader}>broker-{follower},broker-{follower}>broker-{leader}"
    assert begin["broker"] == end["broker"]
    assert LAG_S * 500 < end["ts_ms"] - begin["ts_ms"] < 30_000


@pytest.mark.parametrize("way", ["answers", "requests"])
def test_one_way_cut_is_as_good_as_a_cut(cluster: LocalCluster, faults: Faults, way: str) -> None:
    """A follower whose answers or requests are lost falls behind; it returns when the fault's time is over."""
    leader, follower = topic_led_by_others(cluster, f"cut-{way}")
    ends = (leader, follower) if way == "answers" else (follower, leader)
    with Load(cluster.bootstrap, f"cut-{way}", 1) as load:
        load.wait_for_more(200)
        fault = faults.add("link-cut-one-way", source=ends[0], target=ends[1], for_s=4)
        await_isr_without(cluster, f"cut-{way}", follower, LAG_S * 1.5 + 2)
        load.wait_for_more(100)
        await_full_isr(cluster.bootstrap, [f"cut-{way}"], 12)
        fault.refresh()
        assert fault.state == "over"
        assert fault.hits > 0
    check_history(load, read_all(cluster.bootstrap, f"cut-{way}", 1))


def test_delayed_link_delays_acknowledgements(cluster: LocalCluster, faults: Faults) -> None:
    """acks=all waits for the slowest in-sync replica; it stays in sync."""
    leader, follower = topic_led_by_others(cluster, "late")
    # Of five records, four at the least wait for the link; the answer that brings the first may be on its way already.
    delayed_s = 4 * DELAY_S

    def is_quick() -> bool:
        return produce(cluster, "late", 5) < delayed_s

    until(is_quick, otherwise="without a fault it is as slow")
    with faults.add("link-delay", source=leader, target=follower, delay_s=DELAY_S) as fault:
        slow_s = produce(cluster, "late", 5)
        assert fault.hits >= 5
    assert slow_s >= delayed_s
    assert len(isrs(cluster, "late")[0]) == 4, "the leader and three in sync"
    until(is_quick, otherwise="it stays slow")


def test_lost_reply_is_retried_without_duplicates(cluster: LocalCluster, faults: Faults) -> None:
    """Every third acknowledgement is lost: an idempotent producer sends again, and each record is there once."""
    create_topic(cluster.bootstrap, "lost", 1)
    fault = faults.add(
        "api-drop-reply", broker="leader", topic="lost", partition=0, api="PRODUCE", client_id="careful",
        trigger="every=3",
    )  # fmt: skip
    produce(cluster, "lost", 30, **{"enable.idempotence": True, "client.id": "careful"})

    assert fault.hits >= 10
    assert fault.seen == fault.hits * 3 + fault.seen % 3
    assert values(cluster, "lost") == [b"%d" % number for number in range(30)]


def test_error_and_disconnect_are_retried(cluster: LocalCluster, faults: Faults) -> None:
    """A produce request that met a retriable error, or a closed connection, was not done and is done again."""
    create_topic(cluster.bootstrap, "refused", 1)
    refusing = faults.add("api-error", topic="refused", api="produce", error="NOT_ENOUGH_REPLICAS", trigger="times=3")
    hanging_up = faults.add("api-disconnect", topic="refused", api="produce", trigger="nth=2")
    produce(cluster, "refused", 10, **{"enable.idempotence": True})

    assert (refusing.hits, hanging_up.hits) == (3, 1)
    assert refusing.state == hanging_up.state == "active", "brokers that lead nothing of it have seen nothing"
    assert values(cluster, "refused") == [b"%d" % number for number in range(10)]


def test_throttle_delays_one_client_only(cluster: LocalCluster, faults: Faults) -> None:
    """Answers to the client with that id are late, answers to others are not."""
    create_topic(cluster.bootstrap, "throttled", 1)
    fault = faults.add("api-throttle", api="PRODUCE", client_id="slow-*", delay_s=0.2)

    assert produce(cluster, "throttled", 3, **{"client.id": "slow-7"}) >= 0.6
    assert fault.hits == 3
    # One run that takes less shows that nothing delays it; on a busy machine the first may take as long by itself.
    until(lambda: produce(cluster, "throttled", 3, **{"client.id": "quick"}) < 0.6, otherwise="others wait, too")
    assert fault.hits == 3


def fetch_s(cluster: LocalCluster, topic: str, partition: int) -> float:
    """Return how long a consumer needs for the first record of a partition."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "timer", **QUIET})
    try:
        consumer.list_topics(topic, timeout=10)
        began_s = time.monotonic()
        consumer.assign([TopicPartition(topic, partition, 0)])
        message = consumer.poll(20)
        took_s = time.monotonic() - began_s
        assert message is not None
        assert message.error() is None
        return took_s
    finally:
        consumer.close()


def test_slow_reads_delay_fetches_of_their_partition_only(cluster: LocalCluster, faults: Faults) -> None:
    """The event loop goes on: the leader serves another partition as before, also meanwhile."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})
    admin.create_topics([NewTopic("reads", 2, replica_assignment=[[1, 2, 3], [1, 2, 3]])])["reads"].result(20)
    await_full_isr(cluster.bootstrap, ["reads"])
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **QUIET})
    for partition in (0, 1):
        producer.produce("reads", b"0", partition=partition)
    assert producer.flush(10) == 0
    delay_s = 3.0
    until(lambda: fetch_s(cluster, "reads", 0) < delay_s, otherwise="without a fault it is as slow")

    fault = faults.add("disk-slow", broker="leader", topic="reads", partition=0, direction="read", delay_s=delay_s)
    assert fault.brokers == (1,)
    with ThreadPoolExecutor(2) as threads:
        slow = threads.submit(fetch_s, cluster, "reads", 0)
        until(lambda: fault.hits, otherwise="no read was delayed")
        quick = threads.submit(fetch_s, cluster, "reads", 1)
        quick.result(10)
        assert not slow.done(), "the other partition is read meanwhile"
        assert slow.result(10) >= delay_s - 0.1
    fault.clear()
    until(lambda: fetch_s(cluster, "reads", 0) < delay_s, otherwise="it stays slow")


def test_stuck_read_is_answered_when_the_fault_is_cleared(cluster: LocalCluster, faults: Faults) -> None:
    """Not before: a fetch of the partition hangs as long as the disk does."""
    create_topic(cluster.bootstrap, "stuck", 1)
    produce(cluster, "stuck", 1)
    fault = faults.add("disk-stuck", broker="leader", topic="stuck", partition=0, direction="read")
    with ThreadPoolExecutor(1) as threads:
        fetch = threads.submit(fetch_s, cluster, "stuck", 0)
        until(lambda: fault.hits, otherwise="no read is stuck")
        with pytest.raises(TimeoutError):
            fetch.result(1)
        fault.clear()
        assert fetch.result(5) >= 1


def test_slow_writes_stop_the_whole_broker(cluster: LocalCluster, faults: Faults) -> None:
    """An append is a write that the loop waits for: each takes the delay, as on a machine with such a disk."""
    create_topic(cluster.bootstrap, "writes", 1)
    with faults.add(
        "disk-slow", broker="leader", topic="writes", partition=0, direction="write", delay_s=0.15
    ) as fault:
        assert produce(cluster, "writes", 5) >= 0.75
        # The first append of a term also writes the history of epochs, and some seconds later append times are saved.
        assert fault.hits in (5, 6, 7)
    until(lambda: produce(cluster, "writes", 5) < 0.75, otherwise="it stays slow")


def test_failed_write_moves_leadership_and_loses_nothing(cluster: LocalCluster, faults: Faults) -> None:
    """A broker whose only disk refuses a write ends, its partition is led by another, and it comes back sound."""
    leader, _ = topic_led_by_others(cluster, "failing")
    pid = cluster.pids[leader]
    with Load(cluster.bootstrap, "failing", 1) as load:
        load.wait_for_more(200)
        fault = faults.add("disk-fail", broker=leader, topic="failing", partition=0, direction="write", trigger="once")
        await_isr_without(cluster, "failing", leader, 5)
        load.wait_for_more(200)
        await_full_isr(cluster.bootstrap, ["failing"], 20)
    assert cluster.pids[leader] != pid
    assert f"injected fault {fault.id} (EIO)" in cluster.log(leader)
    check_history(load, read_all(cluster.bootstrap, "failing", 1))
    disks.check_identical(cluster.directory, "failing", 1)
    (begin,) = [event for event in journalled(cluster, "disk-fail", "begin") if fault.id in event["note"]]
    assert (begin["target"], begin["broker"]) == ("failing-0", leader)


def test_full_disk_refuses_writes_and_takes_them_later(cluster: LocalCluster, faults: Faults) -> None:
    """No room is no broken disk: the broker lives, the producer tries again, and each record is there once."""
    create_topic(cluster.bootstrap, "full", 1)
    pids = cluster.pids
    fault = faults.add(
        "disk-fail", broker="leader", topic="full", partition=0, direction="write", errno="ENOSPC", trigger="times=3"
    )
    produce(cluster, "full", 5, **{"enable.idempotence": True})

    # The broker itself finds out when there is room again, by writes that the fault strikes, too.
    until(lambda: fault.hits == 3, otherwise="the broker has not tried again")
    assert fault.state == "over"
    assert cluster.pids == pids
    await_full_isr(cluster.bootstrap, ["full"], 15)
    assert values(cluster, "full") == [b"%d" % number for number in range(5)]


def test_unavailable_error_codes_reach_the_client_as_they_are(cluster: LocalCluster, faults: Faults) -> None:
    """A code that is final is the client's error, by its name."""
    create_topic(cluster.bootstrap, "final", 1)
    faults.add("api-error", topic="final", api="PRODUCE", error="TOPIC_AUTHORIZATION_FAILED")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **QUIET})
    errors: list[Any] = []
    producer.produce("final", b"x", on_delivery=lambda error, _: errors.append(error.code()))
    assert producer.flush(10) == 0
    assert errors == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


def test_pause_ends_by_itself_and_is_in_the_journal(cluster: LocalCluster, faults: Faults) -> None:
    """A paused broker is listed, cannot be asked, goes on after its time; the journal has both ends of it."""
    holder, _ = processes.lease(cluster.directory)
    victim = next(broker for broker in (1, 2, 3) if broker != holder)
    fault = faults.pause(victim, for_s=1)
    assert fault.is_recorded
    with pytest.raises(LocalClusterError, match=r"broker \d+ \(process \d+\) is already paused"):
        faults.pause(victim)
    with pytest.raises(ControlError, match=r"does not answer within 0\.2 s"):
        controls(cluster.directory)[victim].call("broker.describe", timeout_s=0.2)
    assert [(each.id, each.kind, each.state) for each in faults.all()] == [(f"pause-{victim}", "pause", "active")]

    until(lambda: not faults.all())

    for phase in ("begin", "end"):
        assert journalled(cluster, "pause", phase)[-1]["target"] == f"broker-{victim}"
    began, ended = (journalled(cluster, "pause", phase)[-1]["ts_ms"] for phase in ("begin", "end"))
    # By how much more depends on when the machine runs who ends it.
    assert ended - began >= 1_000


def test_call_that_was_given_up_is_not_carried_out_later(cluster: LocalCluster, faults: Faults) -> None:
    """A resumed broker finds the call in its socket; by then the caller has an error."""
    call = {"id": "late", "kind": "api-disconnect", "apis": ["FETCH"], "client_id": "nobody"}
    control = controls(cluster.directory)[2]
    with faults.pause(2):
        with pytest.raises(ControlError, match=r"does not answer within 0\.2 s"):
            control.call("faults.add", timeout_s=0.2, **call)
        with pytest.raises(LocalClusterError, match=r"broker 2 is paused\. `syncline fault clear pause-2`"):
            faults.add("api-disconnect", api="FETCH", client_id="nobody")
        assert [each.id for each in faults.all()] == ["pause-2"]

    assert control.call("faults.list") == {"faults": []}


def test_pause_lasts_until_it_is_cleared(cluster: LocalCluster, faults: Faults) -> None:
    """`clear` with its id, or of everything, lets the process go on."""
    for fault_id in ("pause-1", None):
        faults.pause(1)
        assert [each.id for each in faults.clear(fault_id)] == ["pause-1"]
        assert controls(cluster.directory)[1].call("broker.describe")["broker"] == 1
    with pytest.raises(NoSuchFault):
        faults.clear("pause-1")


def test_killed_broker_is_started_again(cluster: LocalCluster, faults: Faults) -> None:
    """`kill` returns when the process is gone; its supervisor starts another, which has no faults."""
    faults.add("api-throttle", broker=3, api="FETCH", client_id="nobody", delay_s=1)
    pid = cluster.pids[3]
    faults.kill(3)
    until(lambda: cluster.pids[3] != pid)

    assert controls(cluster.directory)[3].call("faults.list") == {"faults": []}
    await_full_isr(cluster.bootstrap, ["__syncline_journal"])
    assert journalled(cluster, "kill", "end")[-1]["target"] == "broker-3"


def test_controller_and_leader_are_names_of_nodes(cluster: LocalCluster, faults: Faults) -> None:
    """A role means the broker that has it when the fault begins; there are names for sets, too."""
    create_topic(cluster.bootstrap, "named", 1)
    leader = isrs(cluster, "named")[0][0]
    holder, _ = processes.lease(cluster.directory)
    common = {"api": "FETCH", "client_id": "nobody", "topic": "named", "partition": 0}

    def brokers(node: str) -> tuple[int, ...]:
        with faults.add("api-disconnect", broker=node, **common) as fault:
            return fault.brokers

    assert brokers("controller") == (holder,)
    assert brokers("leader") == (leader,)
    assert brokers("followers") == tuple(sorted({1, 2, 3} - {leader}))
    assert brokers("all") == (1, 2, 3)
    with faults.add("link-delay", source="controller", target="all", delay_s=0.001) as fault:
        assert fault.brokers == (1, 2, 3)
        assert len(fault.rows[1]["links"]) == 4


def test_failed_begin_leaves_no_half_fault(cluster: LocalCluster, faults: Faults) -> None:
    """When one end of a link refuses, the other end is not cut either."""
    faults.add("api-disconnect", broker=3, api="FETCH", client_id="nobody", fault_id="mine")
    with pytest.raises(ControlError, match="fault mine already exists"):
        faults.add("link-delay", source=1, target=3, delay_s=0.01, fault_id="mine")

    assert [(each.id, each.brokers) for each in faults.all()] == [("mine", (3,))]


def test_dead_brokers_are_passed_over(tmp_path: Path) -> None:
    """A fault of all brokers goes to the living ones; to name a dead broker is an error that says so."""
    cluster = start_cluster(2, directory=tmp_path, restart=False)
    try:
        faults = Faults(tmp_path)
        faults.kill(2)
        fault = faults.add("api-disconnect", api="FETCH", client_id="nobody")
        assert fault.brokers == (1,)
        assert [each.id for each in faults.all()] == [fault.id]
        for kind in ("pause", "kill", "disk-fail"):
            with pytest.raises(LocalClusterError, match=r"broker 2 \(process \d+\) is not running now"):
                faults.add(kind, broker=2)
        with pytest.raises(LocalClusterError, match="there is no broker 3"):
            faults.add("link-cut", source=1, target=3)
        assert faults.silent == {}
        assert [each.id for each in faults.clear()] == [fault.id]
    finally:
        cluster.stop()


def test_broker_of_its_own_takes_no_faults(tmp_path: Path) -> None:
    """`fault.injection.enable` is on for `up`, and can be turned off."""
    cluster = start_cluster(1, {"fault.injection.enable": "false"}, directory=tmp_path)
    try:
        with pytest.raises(ControlError, match=r"broker 1 accepts no faults\. Start it with --config fault\.injection"):
            Faults(tmp_path).add("disk-fail", topic="t")
    finally:
        cluster.stop()


def processes_about(directory: Path) -> list[int]:
    """Return the processes whose command line names a directory."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (
                str(directory).encode() in (entry / "cmdline").read_bytes()
                and "Z" not in (entry / "stat").read_text().rpartition(")")[2].split(maxsplit=1)[0]
            ):
                found.append(int(entry.name))
    return found


def test_stop_leaves_no_pause_behind(tmp_path: Path) -> None:
    """Neither the paused process, nor the one that was to resume it, nor the file that records the pause."""
    cluster = start_cluster(1, directory=tmp_path)
    try:
        Faults(tmp_path).pause(1, for_s=600)
    finally:
        cluster.stop()

    until(lambda: not processes_about(tmp_path))
    assert not list(tmp_path.glob("paused-*"))


def test_paused_broker_ends_when_its_supervisor_is_killed(tmp_path: Path) -> None:
    """The broker resumes and stops by itself; the directory is free for the next cluster."""
    cluster = start_cluster(1, directory=tmp_path)
    try:
        Faults(tmp_path).pause(1)
        running = Layout(tmp_path).running()
        assert running is not None
        os.kill(running.supervisor_pid, signal.SIGKILL)
        until(lambda: state_of(running.broker_pids[1]) == "dead")
    finally:
        cluster.stop()
