"""Append times that a follower lost in a crash: it asks its leader, and says what stays unknown."""

import struct

import pytest

from syncline.node.replication.append_time_gaps import (
    ENTRIES_MAX,
    ROW_ENTRIES_MAX,
    ROWS_MAX,
    AskedRow,
    decode_answer,
    decode_request,
    encode_answer,
    encode_request,
)
from syncline.storage.settings import LogSettings
from syncline.wire.api import ApiKey
from syncline.wire.errors import DecodeError
from tests.node.replication.test_append_times import all_have, check, entries, produced
from tests.node.world import World

# But for those that a test makes.
NO_SAVES = {"lag_append_times_flush_interval_ms": 10**9}
ROW = AskedRow(bytes(range(16)), 3, 7, 100, 200)


def gaps(world: World, broker_id: int) -> list[int]:
    """Return where a broker's append times are missing."""
    return [offset for offset, ms in entries(world, broker_id).items() if ms < 0]


def save(world: World, broker_id: int) -> None:
    """Save a broker's append times."""
    world.call(broker_id, lambda: list(world.broker(broker_id).logs.save_append_times()))


async def lost_some(world: World, leader: int = 1, count: int = 30) -> list[int]:
    """Kill the follower after the leader, which has saved only its first append times; return when records came."""
    follower = leader + 1
    await world.topic(replicas=(leader, follower))
    came = await produced(world, 10, leader)
    await all_have(world, 10, follower)
    save(world, follower)
    came += await produced(world, count, leader)
    await all_have(world, 10 + count, follower)
    world.kill(follower)
    return came


@pytest.mark.brokers(3, **NO_SAVES)
async def test_a_follower_gets_what_a_crash_lost_from_its_leader(world: World) -> None:
    """Guards: without asking, a follower that crashed and leads later had only estimates of what it lost."""
    came = await lost_some(world, leader=2)
    await world.start(3)
    await world.until(lambda: entries(world, 3) == entries(world, 2))
    check(entries(world, 3), came)

    # They are saved like any others.
    save(world, 3)
    world.kill(3)
    world.network.cut("broker-3", "broker-2")
    await world.start(3)
    assert {offset: ms for offset, ms in entries(world, 3).items() if ms >= 0} == entries(world, 2)
    world.network.heal("broker-3", "broker-2")


@pytest.mark.brokers(2, **NO_SAVES)
async def test_a_gap_is_filled_while_records_come(world: World) -> None:
    """What came since belongs behind the gap."""
    came = await lost_some(world)
    client = await world.client()
    came += await produced(world, 10)
    await world.start(2)
    came += await produced(world, 10)
    await all_have(world, 60, 2)
    client.transport.close()
    await world.until(lambda: entries(world, 2) == entries(world, 1))

    check(entries(world, 2), came)


@pytest.mark.brokers(2, **NO_SAVES)
async def test_a_leader_looks_into_its_files_for_what_a_follower_lost(world: World) -> None:
    """Segments that were finished long ago have their times on the disk alone."""
    await world.topic(replicas=(1, 2))
    world.partition().log.settings = LogSettings(segment_bytes=1_200)
    came = await produced(world, 10)
    await all_have(world, 10, 2)
    save(world, 2)
    came += await produced(world, 30)
    await all_have(world, 40, 2)
    world.kill(2)
    came += await produced(world, 100)
    assert world.partition().log.segments[0].append_times.recent is None
    await world.start(2)
    await all_have(world, 140, 2)
    await world.until(lambda: not gaps(world, 2))

    assert entries(world, 2).items() >= entries(world, 1).items()
    check(entries(world, 2), came)


@pytest.mark.brokers(2, **NO_SAVES)
async def test_a_gap_that_the_leader_has_too_stays(world: World) -> None:
    """Both crashed: nobody knows. Nobody asks again and again either."""
    await lost_some(world)
    save(world, 1)
    await produced(world, 5)
    world.kill(1)
    await world.start(1)
    await world.until(lambda: world.partition().is_leader)
    await world.start(2)
    await all_have(world, 45, 2)
    await world.until(lambda: gaps(world, 1) == gaps(world, 2))
    await world.later(10)

    assert len(gaps(world, 2)) == 1
    assert gaps(world, 2)[0] > 35
    assert not world.fetcher(2, 1)._logs._gaps.waiting


@pytest.mark.brokers(2, **NO_SAVES)
async def test_a_leader_answers_for_what_it_leads_alone(world: World) -> None:
    """Another epoch, another partition, another stretch: nothing."""
    await world.topic(replicas=(1, 2))
    await produced(world, 10)
    partition = world.partition()
    right = AskedRow(partition.topic_id.bytes, 0, partition.leader_epoch, 5, 10)
    rows = [
        right,
        right._replace(topic_id=bytes(16)),
        right._replace(partition=1),
        right._replace(leader_epoch=right.leader_epoch + 1),
        right._replace(start=10, end=5),
        right._replace(start=-1),
        right._replace(start=8, end=2**40),
    ]
    peer = await world.peer()
    body = await peer.body(peer.send(ApiKey.APPEND_TIMES, 0, encode_request(rows)))
    answers = decode_answer(body, len(rows))

    there = entries(world, 1)
    floor = max(offset for offset in there if offset <= 5)
    assert dict(answers[0]) == {offset: ms for offset, ms in there.items() if offset >= floor}
    assert answers[1:6] == [[]] * 5
    assert answers[6]
    other = await world.peer(2)
    body = await other.body(other.send(ApiKey.APPEND_TIMES, 0, encode_request([right])))
    assert decode_answer(body, 1) == [[]]


async def test_a_damaged_question_closes_the_connection(world: World) -> None:
    """And nothing else."""
    for body in (b"", b"\0\0\0", struct.pack(">i", -1), struct.pack(">i", 1), encode_request([ROW])[:-1]):
        peer = await world.peer()
        peer.send(ApiKey.APPEND_TIMES, 0, body)
        await peer.lost()
    assert world.errors.take() == []


def test_messages_read_back_what_was_written() -> None:
    """Both directions; rows of an answer keep their order."""
    rows = [ROW, ROW._replace(partition=4)]
    answers = [[(99, 5), (100, ~5), (120, 300)], [], [(0, 0)]]

    assert decode_request(b"head" + encode_request(rows), 4) == rows
    assert decode_request(encode_request([]), 0) == []
    assert decode_answer(encode_answer(answers), 3) == answers


def test_answers_are_bounded() -> None:
    """A row that is too long, and what would make the whole too long, is left out: its gap stays."""
    row = [(number, number) for number in range(ROW_ENTRIES_MAX)]
    count = ENTRIES_MAX // ROW_ENTRIES_MAX
    answers = decode_answer(encode_answer([[*row, (9_999, 9_999)], *([row] * (count + 2)), [(1, 1)]]), count + 4)

    assert [len(each) for each in answers] == [0, *([ROW_ENTRIES_MAX] * count), 0, 0, 0]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        encode_answer([[(1, 1)]])[:-1],
        encode_answer([[(1, 1)]]) + b"\0",
        encode_answer([]),
        encode_answer([[], []]),
        struct.pack(">ii", 1, -1),
        struct.pack(">ii", 1, ROW_ENTRIES_MAX + 1),
    ],
)
def test_a_damaged_answer_is_refused(body: bytes) -> None:
    """Nothing of it is used."""
    with pytest.raises(DecodeError):
        decode_answer(body, 1)


def test_a_question_of_too_many_rows_is_refused() -> None:
    """What one request may cost is bounded."""
    assert len(decode_request(encode_request([ROW] * ROWS_MAX), 0)) == ROWS_MAX
    with pytest.raises(DecodeError, match="201 rows"):
        decode_request(encode_request([ROW] * (ROWS_MAX + 1)), 0)


@pytest.mark.brokers(3, **NO_SAVES)
async def test_strange_answers_change_nothing(world: World) -> None:
    """Entries of no batch, entries that go back, and entries without the one before: the gap stays."""
    await lost_some(world, leader=2)
    world.network.cut("broker-3", "broker-2")
    await world.start(3)
    log = world.partition(3).log
    gap = log.append_times.missing()
    assert gap is not None
    before = entries(world, 3)
    start, floor_ms = gap.start, max(ms for ms in before.values())

    def filled(*copied: tuple[int, int]) -> bool:
        located = world.call(3, log.append_times.locate, copied)
        return located is not None and log.append_times.fill(gap, located)

    assert not filled((start + 1, floor_ms - 5))
    assert not filled((start + 3, floor_ms + 300), (start + 2, floor_ms + 600))
    assert not filled((start + 2, floor_ms + 600), (start + 3, floor_ms + 300))
    assert not filled((start - 1, floor_ms + 300))
    assert not filled((log.log_end, floor_ms + 300))
    assert entries(world, 3) == before
    assert filled((start, floor_ms + 300), (start + 3, floor_ms + 600))
    assert not filled((start, floor_ms + 300))
    log.check_invariants()
    assert log.append_times.missing() is None
    assert entries(world, 3)[start] == floor_ms + 300
    world.network.heal("broker-3", "broker-2")
