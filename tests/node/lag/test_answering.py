"""What a leader says of its partitions when a coordinator asks."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from syncline.model.errors import ErrorCode
from syncline.model.ids import BrokerId, Offset, TopicPartition
from syncline.model.lag import OffsetPlace
from syncline.node.lag import answering
from syncline.node.lag.answering import SEARCHES_S, Measured, ToldReaders, answer_partition, completed
from syncline.node.lag.messages import (
    PARTITIONS_MAX,
    AnsweredPartition,
    AskedPartition,
    LagAnswer,
    LagRequest,
    decode_answer,
    encode_request,
)
from syncline.node.lag.read_positions import ReaderPosition, ReadPositions
from syncline.wire.api import ApiKey
from tests.node.lag.test_messages import finish
from tests.node.lag.test_read_positions import Holding
from tests.node.wire_client import WireClient, batch
from tests.node.world import World


def asked_of(world: World, *offsets: int, broker_id: int = 1, epoch: int | None = None) -> AskedPartition:
    """Return a question about partition 0."""
    partition = world.partition(broker_id)
    return AskedPartition(
        partition.topic_id, 0, partition.leader_epoch if epoch is None else epoch, tuple(map(Offset, offsets))
    )


async def ask(peer: WireClient, *asked: AskedPartition, is_exact: bool = False, broker_id: int = 1) -> LagAnswer:
    """Return the answer to a request."""
    body = await peer.body(peer.send(ApiKey.LAG, 0, encode_request(LagRequest(is_exact, asked))))
    answer: LagAnswer = finish(decode_answer(body, BrokerId(broker_id), asked))
    return answer


async def ask_one(world: World, *offsets: int, is_exact: bool = False) -> AnsweredPartition:
    """Return what broker 1 says of partition 0."""
    peer = await world.peer()
    answer = await ask(peer, asked_of(world, *offsets), is_exact=is_exact)
    peer.transport.close()
    return answer.partitions[0]


async def test_leader_tells_ends_and_places(world: World) -> None:
    """Coordinates are those of the file: five batches of one size, of which the group has read two and a half."""
    await world.topic(retention_ms=60_000)
    client = await world.client()
    for _ in range(5):
        await client.produce("t", batch(2))
    log = world.partition().log
    size = log.size_bytes // 5

    found = await ask_one(world, 0, 4, 5, 10, 11, is_exact=True)

    assert found.error is ErrorCode.NONE
    assert found.ends is not None
    ends = found.ends
    assert (ends.log_start, ends.high_watermark, ends.last_stable, ends.log_end) == (0, 10, 10, 10)
    assert (ends.first_bytes, ends.watermark_bytes, ends.end_bytes) == (0, 5 * size, 5 * size)
    assert (ends.retention_ms, ends.retention_bytes) == (60_000, -1)
    assert ends.newest_event_ms == log.newest_timestamp_ms
    places = [place for place in found.places if place is not None]
    # An offset in the middle of a batch lies where the batch begins; at the end and beyond there is no record.
    assert [(place.offset, place.coordinate_bytes) for place in places] == [(0, 0), (4, 2 * size), (5, 2 * size)]
    assert found.places[3:] == (None, None)
    assert {place.segment_end_bytes for place in places} == {5 * size}
    assert {place.kept_until_ms for place in places} == {ends.newest_event_ms + 60_000}


async def test_group_that_is_behind_the_log_start_reads_on_there(world: World) -> None:
    """What was deleted has no place."""
    await world.topic()
    client = await world.client()
    for _ in range(4):
        await client.produce("t", batch())
    await client.ask(
        ApiKey.DELETE_RECORDS,
        2,
        topics=[{"name": "t", "partitions": [{"partition_index": 0, "offset": 3}]}],
        timeout=5_000,
    )

    found = await ask_one(world, 1, is_exact=True)

    assert found.ends is not None
    assert found.ends.log_start == 3
    assert found.places[0] is not None
    assert found.places[0].offset == 3
    assert found.places[0].coordinate_bytes == 3 * (found.ends.end_bytes // 4)


@pytest.mark.brokers(2)
async def test_question_for_another_leader_is_refused(world: World) -> None:
    """An answer about another epoch would mix two histories of a log; numbers of a follower are none."""
    await world.topic(replicas=(1, 2))
    peer, follower = await world.peer(1), await world.peer(2)
    epoch = world.partition().leader_epoch
    unknown = AskedPartition(UUID(int=99), 0, 0, ())

    answer = await ask(
        peer, asked_of(world, epoch=epoch - 1), asked_of(world, epoch=epoch + 1), unknown, asked_of(world)
    )
    of_follower = await ask(follower, asked_of(world), broker_id=2)

    assert [each.error for each in answer.partitions] == [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NONE,
    ]
    assert answer.broker_epoch == world.broker().broker_epoch
    assert of_follower.partitions[0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_new_leader_waits_until_it_knows_what_was_committed(world: World) -> None:
    """Guards atomicity: its watermark may lie below a commit, and the lag would be negative."""
    await world.topic()
    real = world.partition()

    class _NewLeader:
        """A partition whose leader was just elected."""

        key = real.key
        leader = SimpleNamespace(are_offsets_available=False)
        log = real.log
        leader_epoch = real.leader_epoch
        high_watermark = real.high_watermark
        config = real.config

    measured = answer_partition(
        _NewLeader(),
        asked_of(world, 0),
        broker_id=BrokerId(1),
        wall_ms=lambda: 1,
        is_exact=False,
    )

    assert measured.answered == AnsweredPartition(ErrorCode.OFFSET_NOT_AVAILABLE)


async def test_time_of_a_batch_stands_in_where_nobody_noted_when_it_came(world: World) -> None:
    """Marked as estimated, unless the broker itself had set it."""
    await world.topic()
    await world.topic("stamped", message_timestamp_type="LogAppendTime")
    client = await world.client()
    await client.produce("t", batch(timestamp_ms=1_000_000))
    await client.produce("stamped", batch(timestamp_ms=1_000_000))
    peer = await world.peer()
    stamped = world.partition(topic="stamped")

    answer = await ask(
        peer, asked_of(world, 0), AskedPartition(stamped.topic_id, 0, stamped.leader_epoch, (Offset(0),))
    )

    (told,), (set_by_broker,) = (each.places for each in answer.partitions)
    assert told is not None
    assert set_by_broker is not None
    assert told.event_ms == 1_000_000
    assert set_by_broker.event_ms == set_by_broker.append_ms == stamped.log.newest_timestamp_ms
    assert not set_by_broker.is_estimated


@pytest.mark.brokers(1, internal_log_segment_bytes=300)
async def test_places_on_the_disk_are_found_by_workers_and_what_takes_long_is_missing(world: World) -> None:
    """The loop never waits, and neither does the asker for ever."""
    await world.topic()
    client = await world.client()
    for _ in range(12):
        await client.produce("t", batch(size_bytes=100))
    count = len(world.partition().log.segments)
    in_memory = await ask_one(world, 1, is_exact=True)
    world.slow_disk(1, 20)

    found = await ask_one(world, 1, is_exact=True)
    world.slow_disk(1, 3_000)
    too_late = await ask_one(world, 1, is_exact=True)
    world.slow_disk(1, 0)

    assert count > 2
    assert found.places == in_memory.places
    assert found.places[0] is not None
    assert too_late.ends == found.ends or too_late.ends is not None
    assert too_late.places == (None,)


class _Workers:
    """Workers that begin when the test says."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []

    def run_later(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Keep the work for later."""
        self.jobs.append((work, done))

    def run(self) -> None:
        """Do one piece of work."""
        work, done = self.jobs.pop(0)
        done(work())


class _Search:
    """A search whose place is found at once; it notes whether it was wanted then."""

    def __init__(self, is_wanted_after: list[bool]) -> None:
        self._is_wanted_after = is_wanted_after

    def run(self, is_wanted: Callable[[], bool]) -> OffsetPlace:
        """Return a place."""
        self._is_wanted_after.append(is_wanted())
        return OffsetPlace(Offset(0), 0, 0, 0, 0, 0, 0, is_estimated=False)


async def test_searches_end_when_the_answer_has_left(world: World) -> None:
    """Guards: workers went on looking for places that no answer had room for, and consumers waited for the disk."""
    workers: Any = _Workers()
    was_wanted: list[bool] = []
    search: Any = _Search(was_wanted)
    measured = [Measured(AnsweredPartition(ErrorCode.NONE, None, (None, None)), ((0, search), (1, search)))]
    answer_later = asyncio.ensure_future(completed(measured, workers))
    await world.later(0)
    workers.run()
    await world.later(SEARCHES_S + 0.1)
    workers.run()
    (answer,) = await answer_later

    assert [place is None for place in answer.places] == [False, True]
    assert was_wanted == [True]


@pytest.mark.parametrize("readers_max", [3, 0])
def test_readers_are_looked_for_as_long_as_there_is_room_for_them(
    monkeypatch: pytest.MonkeyPatch, readers_max: int
) -> None:
    """Guards: those of two thousand partitions were computed when the answer was full."""
    monkeypatch.setattr(answering, "READERS_MAX", readers_max)
    asked: list[int] = []

    class _Positions(ReadPositions):
        """Positions of which it is noted when they are asked for."""

        def of(self, key: TopicPartition, high_watermark: int, now_ms: int) -> tuple[ReaderPosition, ...]:
            asked.append(key.partition)
            return super().of(key, high_watermark, now_ms)

    positions = _Positions()
    for number in range(2):
        reading = positions.reading(f"c-{number}", "/10.0.0.1", Holding(), 1)
        assert reading is not None
        for partition in range(5):
            positions.note(reading, TopicPartition("t", partition), 0, 1)
    told = ToldReaders(positions, lambda: 1)
    counts = [len(told(TopicPartition("t", partition), Offset(1))) for partition in range(5)]

    assert sum(counts) == readers_max
    assert asked == ([0, 1] if readers_max else [])


async def test_more_partitions_than_allowed_close_the_connection(world: World) -> None:
    """Lists between brokers are bounded, too."""
    peer = await world.peer()
    body = bytearray(encode_request(LagRequest(False, [AskedPartition(UUID(int=1), 0, 0, ())] * PARTITIONS_MAX)))
    body[1:5] = (PARTITIONS_MAX + 1).to_bytes(4)

    peer.send(ApiKey.LAG, 0, bytes(body))
    await peer.lost()

    assert peer.is_lost


async def test_many_offsets_are_answered_in_slices(world: World) -> None:
    """Two thousand partitions in one request hold the loop for no longer than a few."""
    await world.topic()
    await (await world.client()).produce("t", batch())
    peer = await world.peer()
    asked: Any = [asked_of(world, 0, 0, 0, 0, 0)] * PARTITIONS_MAX

    answer = await ask(peer, *asked)

    assert len(answer.partitions) == PARTITIONS_MAX
    assert {len(each.places) for each in answer.partitions} == {5}
