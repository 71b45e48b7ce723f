"""Followers: they copy their leader's log exactly, whatever happens to the leader, the connection or the disk."""

import errno
from dataclasses import replace

import pytest

from syncline.core.replication.follower import FollowerPhase
from syncline.model.errors import ErrorCode
from syncline.node.counting.counters import Counters
from syncline.node.replication import leader_fetcher
from syncline.virtual.cluster import LOG_DIRECTORY
from syncline.virtual.observers.raw_log import segments
from syncline.wire.errors import DecodeError
from syncline.wire.fetch_response import FetchedPartition, FetchedRows, FetchResponse
from tests.node.wire_client import batch
from tests.node.world import World


def contents(world: World, broker_id: int) -> bytes:
    """Return the content of a replica's files."""
    host = world.host(broker_id)
    return b"".join(
        bytes(file.data) for _, file in segments(host.medium, LOG_DIRECTORY, world.partition(broker_id).key)
    )


async def replicated(world: World, leader: int, follower: int, count: int) -> None:
    """Wait until both replicas have `count` records, and the same bytes."""
    await world.until(lambda: world.partition(follower).log.log_end == count)

    assert contents(world, leader) == contents(world, follower)


@pytest.mark.brokers(2)
async def test_fetcher_copies_the_log_byte_for_byte_when_records_come(world: World) -> None:
    """Offsets, epochs and checksums are the leader's."""
    await world.topic(replicas=(1, 2))
    client = await world.client()
    for count in (1, 5, 3):
        await client.produce("t", batch(count))

    await replicated(world, 1, 2, 9)


@pytest.mark.brokers(3)
async def test_fetcher_cuts_its_log_when_the_histories_diverge(world: World) -> None:
    """KIP-595: the new leader's answer shows where; only unacknowledged records go."""
    await world.topic(replicas=(3, 2))
    client = await world.client(3)
    await client.produce("t", batch(2))
    for source, target in (("broker-2", "broker-3"), ("broker-3", "broker-2")):
        world.network.cut(source, target)
    for _ in range(3):
        await client.produce("t", batch(), acks=1)
    world.network.cut("broker-3", "broker-1")
    await world.until(lambda: world.partition(2).is_leader)
    await (await world.client(2)).produce("t", batch(7), acks=1)
    ends = (world.partition(3).log.log_end, world.partition(2).log.log_end)
    for source, target in (("broker-3", "broker-1"), ("broker-2", "broker-3"), ("broker-3", "broker-2")):
        world.network.heal(source, target)
    await replicated(world, 2, 3, 9)

    assert ends == (5, 9)
    assert world.cluster.ghost.counts["truncate"] == 1
    assert [tuple(entry)[:2] for entry in world.partition(3).log.epochs.entries] == [(0, 0), (1, 2)]


@pytest.mark.brokers(3)
async def test_fetcher_starts_anew_when_the_leaders_log_begins_above_its_own_end(world: World) -> None:
    """Out of range: the leader's end, then its start is asked for, and an empty log begins there."""
    await world.topic(replicas=(1, 2))
    client = await world.client()
    await client.produce("t", batch(2))
    world.kill(2)
    await world.until(lambda: world.partition().isr == (1,))
    for _ in range(4):
        await client.produce("t", batch(2))
    world.partition().log.raise_log_start(8)
    await world.start(2)
    await world.until(lambda: world.partition(2).log.log_end == 10)

    assert world.partition(2).log.log_start == 8
    assert world.partition(2).high_watermark >= 8


@pytest.mark.brokers(2)
async def test_fetcher_opens_a_new_session_when_the_leader_has_forgotten_it(world: World) -> None:
    """The leader's cache may evict a session at any time; replication continues with a full request."""
    await world.topic(replicas=(1, 2))
    client = await world.client()
    await client.produce("t", batch())
    sessions = world.broker(1).fetching.sessions
    (before,) = sessions._sessions
    sessions.close(before)
    await client.produce("t", batch(), acks=1)
    await replicated(world, 1, 2, 2)
    (after,) = sessions._sessions

    assert after != before


@pytest.mark.brokers(2)
async def test_fetcher_tries_less_and_less_often_when_nobody_listens(world: World) -> None:
    """Pauses double up to half a second; the first answer resets them."""
    await world.topic(replicas=(1, 2))
    fetcher = world.fetcher(2, 1)
    await world.until(lambda: fetcher.connection.peer is not None)
    world.node(1).servers["internal"].close()
    world.call(2, fetcher.connection.peer.close)
    pauses = []
    for _ in range(20):
        await world.later(0.1)
        pauses.append(fetcher.connection.reconnect_ms)
    connection_is_lost = fetcher.connection.peer is None
    await world.as_broker(1, world.node(1).serve("internal", world.node(1).spec.internal))
    await (await world.client()).produce("t", batch())
    await replicated(world, 1, 2, 1)

    assert connection_is_lost
    assert pauses == sorted(pauses)
    assert pauses[-1] == 500
    assert fetcher.connection.reconnect_ms == 2


@pytest.mark.brokers(2, replica_socket_timeout_ms=700, broker_session_timeout_ms=30_000, replica_lag_time_max_ms=60_000)
async def test_fetcher_connects_again_when_the_leader_does_not_answer_in_time(world: World) -> None:
    """The follower gives up a connection that loses answers, and opens a new one when it can."""
    await world.topic(replicas=(1, 2))
    client = await world.client()
    await client.produce("t", batch())
    fetcher = world.fetcher(2, 1)
    before = fetcher.connection.peer
    world.network.cut("broker-1", "broker-2")
    await world.until(lambda: fetcher.connection.peer is not before)
    given_up_s = world.loop.time()
    waiting = client.send_produce("t", batch())
    world.network.heal("broker-1", "broker-2")
    row = await client.produced(waiting)

    assert given_up_s < 5
    assert row.error_code == ErrorCode.NONE
    await replicated(world, 1, 2, 2)


def fail_once(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let the first records that arrive meet a bug; return the exceptions."""
    failures: list[str] = []
    count = Counters.replicated_in

    def replicated_in(counters: Counters, size_bytes: int, now_ms: int, *, is_moved: bool) -> None:
        if not failures:
            failures.append("planted")
            raise ZeroDivisionError("planted")
        count(counters, size_bytes, now_ms, is_moved=is_moved)

    monkeypatch.setattr(Counters, "replicated_in", replicated_in)
    return failures


@pytest.mark.brokers(2)
@pytest.mark.interpreted
async def test_fetcher_goes_on_when_an_answer_could_not_be_processed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug in the middle of an answer is logged, and the partitions are fetched from their log ends."""
    await world.topic("t", replicas=(1, 2))
    await world.topic("u", replicas=(1, 2))
    failures = fail_once(monkeypatch)
    client = await world.client()
    rows = [await client.produce(name, batch()) for name in ("t", "u", "t")]
    logged = world.errors.take()

    assert [row.error_code for row in rows] == [ErrorCode.NONE] * 3
    assert failures == ["planted"]
    assert logged == ["a response from broker 1 could not be processed: ZeroDivisionError('planted')"]
    await replicated(world, 1, 2, 2)


@pytest.mark.brokers(2)
async def test_fetcher_stores_nothing_when_records_fail_their_checksum(world: World) -> None:
    """Corruption on the leader's disk stays there: the follower takes over, and the damaged log is set aside."""
    await world.topic(replicas=(1, 2))
    world.network.cut("broker-2", "broker-1")
    client = await world.client()
    await client.produce("t", batch(), acks=1)
    ((_, file),) = segments(world.host(1).medium, LOG_DIRECTORY, world.partition(1).key)
    file.data[-1] ^= 0xFF
    world.network.heal("broker-2", "broker-1")
    await world.until(lambda: world.partition(2).is_leader)
    stored = world.partition(2).log.log_end
    await (await world.client(2)).produce("t", batch(2))
    await replicated(world, 2, 1, 2)

    assert stored == 0


@pytest.mark.brokers(2)
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE], ids=["room", "descriptors"])
async def test_fetcher_goes_on_when_its_disk_has_room_again(world: World, error: int) -> None:
    """A full disk or a lack of descriptors harms no stored data: the follower pauses and fetches again."""
    await world.topic(replicas=(1, 2))
    client = await world.client()
    await client.produce("t", batch())
    world.host(2).disk.fail_next("append", error)
    row = await client.produce("t", batch())

    assert row.error_code == ErrorCode.NONE
    await replicated(world, 1, 2, 2)


@pytest.mark.brokers(2)
async def test_fetcher_goes_on_at_its_log_end_when_a_part_of_an_answer_found_room(world: World) -> None:
    """The segments of replicas need not end alike: a roll in the middle of an answer may find the disk full."""
    await world.topic(replicas=(1, 2))
    client = await world.client()
    await client.produce("t", batch())
    log = world.partition(2).log
    log.settings = replace(log.settings, segment_bytes=3 * log.size_bytes)
    world.network.cut("broker-2", "broker-1")
    for _ in range(3):
        # The first of these answers the fetch that is parked already.
        await client.produce("t", batch(), acks=1)
    await world.until(lambda: log.log_end == 2)
    world.host(2).disk.fail_next("sync", errno.ENOSPC)
    world.network.heal("broker-2", "broker-1")
    await replicated(world, 1, 2, 4)

    assert log.segment_count == 2
    assert world.partition(2).follower.phase is FollowerPhase.FETCHING


@pytest.mark.brokers(2)
async def test_fetcher_leaves_a_partition_alone_when_its_disk_failed(world: World) -> None:
    """The log stays offline until a restart; the follower still follows other partitions of the same leader."""
    await world.topic("t", replicas=(1, 2))
    await world.topic("u", replicas=(1, 2))
    client = await world.client()
    world.host(2).disk.fail_next("append", errno.EIO)
    await client.produce("t", batch(), acks=1)
    await world.until(lambda: world.partition(2).is_offline)
    row = await client.produce("u", batch())
    follower = world.partition(2).follower
    world.kill(2)
    await world.start(2)
    await replicated(world, 1, 2, 1)

    assert row.error_code == ErrorCode.NONE
    assert follower.phase is FollowerPhase.FAILED


@pytest.mark.brokers(3)
async def test_fetcher_follows_the_new_process_when_its_leader_was_restarted(world: World) -> None:
    """The follower reconnects to a leader that returns with a new registration."""
    await world.topic(replicas=(3, 2))
    await (await world.client(3)).produce("t", batch())
    world.kill(2)
    world.kill(3)
    await world.start(3)
    await world.start(2)
    await world.until(lambda: world.broker(1).image.partition("t", 0).has_leader)
    leader = world.broker(1).image.partition("t", 0).leader
    await world.until(lambda: world.partition(leader).is_leader)
    row = await (await world.client(leader)).produce("t", batch())

    assert row.error_code == ErrorCode.NONE
    await replicated(world, 3, 2, 2)


@pytest.mark.brokers(2)
@pytest.mark.interpreted
async def test_fetcher_says_what_is_wrong_when_an_answer_is_malformed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes that are not an answer end the connection; the next one works."""
    await world.topic(replicas=(1, 2))
    parse, malformed = leader_fetcher.parse_fetch_response, ["an answer"]

    def nonsense(frame: memoryview, version: int, position: int) -> FetchResponse:
        if malformed:
            raise DecodeError(malformed.pop())
        return parse(frame, version, position)

    monkeypatch.setattr(leader_fetcher, "parse_fetch_response", nonsense)
    row = await (await world.client()).produce("t", batch())

    assert "malformed fetch response from broker 1: an answer" in world.errors.warnings
    assert row.error_code == ErrorCode.NONE
    await replicated(world, 1, 2, 1)


@pytest.mark.brokers(2, is_checked=False)
async def test_long_answers_are_read_row_by_row(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is parsed as a whole; where one makes no sense, the rows before are used, and the others fetched again."""
    count = 300
    await world.topic(partitions=count, replicas=(1, 2))
    world.kill(2)
    leading = world.broker(1).partitions
    await world.until(lambda: sum(each.is_leader for key, each in leading.items() if key.topic == "t") == count)
    client = await world.client()
    for number in range(count):
        await client.produce("t", batch(), partition=number, acks=1)
    parse, parsed = leader_fetcher.parse_fetch_response, [0]
    read, rows = FetchedRows.__next__, [0]

    def counted_parse(frame: memoryview, version: int, position: int) -> FetchResponse:
        response = parse(frame, version, position)
        parsed.append(sum(len(of_topic) for _, of_topic in response.topics))
        return response

    def counted_read(answer: FetchedRows) -> tuple[bytes, FetchedPartition]:
        row = read(answer)
        rows.append(row[1].partition)
        if len(rows) == count // 2:
            raise DecodeError("half an answer")
        return row

    monkeypatch.setattr(leader_fetcher, "parse_fetch_response", counted_parse)
    monkeypatch.setattr(FetchedRows, "__next__", counted_read)
    await world.start(2)
    followed = world.broker(2).partitions
    await world.until(lambda: all(each.log.log_end == 1 for key, each in followed.items() if key.topic == "t"))

    assert max(parsed) <= 30
    assert {*range(count)} <= {*rows}
    assert "malformed fetch response from broker 1: half an answer" in world.errors.warnings
