"""Deadlines: never too early, at most a bucket too late, and one operation's failure does not affect the others."""

import asyncio
import gc
from collections.abc import Callable, Iterator

import pytest

from syncline.node.loop.deadlines import BUCKET_MS, Deadlines
from syncline.virtual.time.clock import VirtualClock
from syncline.virtual.time.loop import VirtualLoop
from tests.node.wire_client import at
from tests.node.world import World


class Operation:
    """An operation that records when it expired."""

    def __init__(self, then: Callable[[], object] | None = None) -> None:
        self.expired_ms: list[int] = []
        self._then = then

    def expired(self, now_ms: int) -> None:
        """Record the time."""
        self.expired_ms.append(now_ms)
        if self._then is not None:
            self._then()


class Stage:
    """Deadlines on a loop that starts at 1,000 ms."""

    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.deadlines = Deadlines(self.loop, VirtualClock(self.loop))

    def run_until(self, time_ms: int) -> None:
        """Let time pass."""
        self.loop.run_until_complete(self._sleep(time_ms - self.loop.now_ns // 1_000_000))

    @staticmethod
    async def _sleep(duration_ms: int) -> None:
        await asyncio.sleep(duration_ms / 1000)


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Return a stage whose loop is closed afterwards."""
    stage = Stage()
    yield stage
    stage.loop.close()


@pytest.mark.parametrize("deadline_ms", [1_000, 1_001, 1_009, 1_010, 1_011, 5_555])
def test_deadline_is_kept_to_a_bucket_when_it_passes(stage: Stage, deadline_ms: int) -> None:
    """Not before the deadline, and not more than a bucket after it."""
    operation = Operation()
    stage.deadlines.park(operation, deadline_ms)
    stage.run_until(10_000)

    assert len(operation.expired_ms) == 1
    assert 0 <= operation.expired_ms[0] - deadline_ms <= BUCKET_MS


@pytest.mark.parametrize("wait_ms", [1_000, 1_023, 1_024, 5_000, 30_000, 2**31 - 1])
def test_long_wait_is_kept_to_a_fiftieth(stage: Stage, wait_ms: int) -> None:
    """Not before the deadline, and not much after it."""
    operation = Operation()
    deadline_ms = 1_000 + wait_ms
    stage.deadlines.park(operation, deadline_ms, wait_ms)
    stage.run_until(deadline_ms + max(BUCKET_MS, wait_ms // 50) + 1)

    assert len(operation.expired_ms) == 1
    assert operation.expired_ms[0] >= deadline_ms


def test_requests_with_long_timeouts_leave_few_objects_when_they_are_answered(stage: Stage) -> None:
    """Small objects that come and go all over the heap for half a minute keep it from being given back."""
    gc.collect()
    before = len(gc.get_objects())
    for now_ms in range(1_000, 31_000, 5):
        operation = Operation()
        stage.deadlines.forget(operation, stage.deadlines.park(operation, now_ms + 30_000, 30_000))
    # Objects without references to others are none of the collector's: containers alone are counted.
    found = len(gc.get_objects()) - before

    assert found < 10


def test_deadline_does_not_pass_when_the_operation_is_forgotten(stage: Stage) -> None:
    """An operation that was answered in time does not expire; its neighbour in the bucket does."""
    answered, waiting = Operation(), Operation()
    bucket = stage.deadlines.park(answered, 2_000)
    stage.deadlines.park(waiting, 2_001)
    stage.deadlines.forget(answered, bucket)
    stage.run_until(3_000)

    assert answered.expired_ms == []
    assert len(waiting.expired_ms) == 1
    assert len(stage.deadlines) == 0


def test_deadline_in_the_past_expires_at_once_when_parked(stage: Stage) -> None:
    """A read that outlasts the wait is answered without another read."""
    operation = Operation()
    stage.deadlines.park(operation, 10)
    stage.run_until(1_002)

    assert operation.expired_ms == [1_001]


def test_deadline_is_kept_when_it_is_parked_after_a_later_one(stage: Stage) -> None:
    """The timer follows the earliest bucket, whatever the order of the operations."""
    late, early = Operation(), Operation()
    stage.deadlines.park(late, 9_000)
    stage.deadlines.park(early, 2_000)
    stage.run_until(20_000)

    assert (early.expired_ms, late.expired_ms) == ([2_010], [9_010])


def test_deadlines_of_others_are_kept_when_an_operation_fails(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """One that raises is logged; those of its bucket and of later ones expire all the same."""

    def fail() -> None:
        raise ZeroDivisionError("planted")

    operations = [Operation(fail), Operation(), Operation()]
    for operation, deadline_ms in zip(operations, (2_000, 2_000, 3_000), strict=True):
        stage.deadlines.park(operation, deadline_ms)
    stage.run_until(4_000)

    assert [len(operation.expired_ms) for operation in operations] == [1, 1, 1]
    assert "an operation failed when its deadline passed" in caplog.text


def test_deadline_is_kept_when_it_is_parked_while_another_expires(stage: Stage) -> None:
    """An operation that parks again, or makes another one park, is timed."""
    sooner, later = Operation(), Operation()

    def park_two() -> None:
        stage.deadlines.park(later, 8_000)
        stage.deadlines.park(sooner, 2_500)

    stage.deadlines.park(Operation(park_two), 2_000)
    stage.deadlines.park(Operation(), 5_000)
    stage.run_until(10_000)

    assert (sooner.expired_ms, later.expired_ms) == ([2_510], [8_010])


def test_deadlines_leave_no_timer_when_nothing_waits(stage: Stage) -> None:
    """Buckets that emptied before their time go with the first timer, and an idle broker has none."""
    forgotten = [Operation() for _ in range(3)]
    for number, operation in enumerate(forgotten):
        stage.deadlines.forget(operation, stage.deadlines.park(operation, 2_000 + 1_000 * number))
    stage.run_until(2_100)

    assert not stage.deadlines.is_armed


def test_deadlines_never_pass_when_they_were_closed(stage: Stage) -> None:
    """A broker that stops answers no more requests."""
    operation = Operation()
    stage.deadlines.park(operation, 2_000)
    stage.deadlines.close()
    stage.run_until(4_000)

    assert operation.expired_ms == []


def test_deadlines_show_who_waits(stage: Stage) -> None:
    """All of them, whenever their time is; not those that were answered."""
    operations = [Operation() for _ in range(4)]
    buckets = [stage.deadlines.park(each, 2_000 + 5 * number) for number, each in enumerate(operations)]
    stage.deadlines.forget(operations[1], buckets[1])
    waiting = list(stage.deadlines)
    stage.run_until(3_000)

    assert waiting == [operations[0], *operations[2:]]
    assert list(stage.deadlines) == []


async def test_deadline_holds_for_thousands_when_all_wait_for_nothing(world: World) -> None:
    """A thousand parked fetches are answered together, empty, when their wait is over."""
    await world.topic()
    client = await world.client()
    ids = [client.send_fetch({"t": [at(0)]}, max_wait_ms=700) for _ in range(1_000)]
    began = world.loop.time()
    rows = [await client.fetched_row(each) for each in ids]

    assert {bytes(row.records) for row in rows} == {b""}
    assert 0.7 <= world.loop.time() - began < 0.75
