"""Loop holds: what is counted, and that the metrics show it."""

import asyncio
import contextlib
import gc
import weakref

import pytest

from syncline.model.errors import ErrorCode
from syncline.node.broker import Broker
from syncline.node.loop.loop_holds import LoopHolds
from syncline.node.loop.tasks import Tasks
from syncline.node.serving.request import Request
from syncline.wire.api import ApiKey
from tests.node.metrics.scraping import scrape
from tests.node.world import World

MS = 1_000_000


class HandClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_ms = 0

    def mono_ms(self) -> int:
        """Return the time."""
        return self.now_ms

    def wall_ms(self) -> int:
        """Return the time."""
        return self.now_ms


async def test_a_request_that_holds_the_loop_shows_in_the_metrics(world: World) -> None:
    """One slow handler is found by the histogram's upper buckets and by the longest hold."""

    def hold(_broker: Broker, request: Request) -> None:
        world.loop.now_ns += 35 * MS
        request.reply_parts((b"",))

    before = await scrape(world)
    world.broker().dispatcher.handlers.replace(ApiKey.LIST_GROUPS, hold)
    client = await world.client()
    await client.body(client.send(ApiKey.LIST_GROUPS, 0))
    after = await scrape(world)

    def beyond(bound_s: float) -> list[float]:
        names = ("syncline_event_loop_hold_seconds_count", "syncline_event_loop_hold_seconds_bucket")
        return [page[names[0]] - page.of(names[1], le=bound_s) for page in (before, after)]

    assert beyond(0.02) == [0, 1]
    assert beyond(0.05) == [0, 0]
    assert after["syncline_event_loop_hold_seconds_sum"] == pytest.approx(0.035)
    assert after["syncline_event_loop_longest_hold_seconds"] == pytest.approx(0.035)
    assert after.of("syncline_event_loop_longest_hold_by_work_seconds", work="ListGroups") == pytest.approx(0.035)
    # Nothing else runs on a simulated host.
    assert after["syncline_event_loop_own_hold_seconds_sum"] == pytest.approx(0.035)
    assert after.of("syncline_event_loop_longest_own_hold_by_work_seconds", work="ListGroups") == pytest.approx(0.035)


@pytest.mark.brokers(2)
async def test_answers_of_other_brokers_are_counted(world: World) -> None:
    """A follower spends its time in its leaders' answers."""
    counted = sum(world.broker(2).dispatcher.holds.held_ms.buckets)
    await world.topic()
    follower = world.broker(2)

    assert follower.image.topics
    assert sum(follower.dispatcher.holds.held_ms.buckets) > counted


def test_results_of_threads_are_counted() -> None:
    """They come through the loop's queue, one callback each; one that fails is counted, too."""
    clock = HandClock()
    holds = LoopHolds(clock)
    seen: list[ErrorCode] = []

    def take(code: ErrorCode) -> None:
        clock.now_ms += 12
        if code:
            raise ValueError(code)
        seen.append(code)

    call = holds.counted(lambda callback, *args: callback(*args))
    call(take, ErrorCode.NONE)
    with pytest.raises(ValueError, match="-1"):
        call(take, ErrorCode.UNKNOWN_SERVER_ERROR)

    assert seen == [ErrorCode.NONE]
    assert (holds.longest_ms, holds.held_ms.total, sum(holds.held_ms.buckets)) == (12, 24, 2)
    assert holds.longest_by_work == {"results of threads": 12}


def test_longest_hold_of_each_kind_of_work_is_known(caplog: pytest.LogCaptureFixture) -> None:
    """What keeps to the rule is not remembered; what exceeds the bound is logged each time it takes longer."""
    caplog.set_level("INFO")
    clock = HandClock()
    holds = LoopHolds(clock)
    for held_ms, work in ((10, "progress"), (11, "sweep"), (60, ApiKey.FETCH), (55, ApiKey.FETCH), (70, "progress")):
        clock.now_ms += held_ms
        holds.ended(clock.now_ms - held_ms, work)

    assert holds.longest_by_work == {"sweep": 11, ApiKey.FETCH: 60, "progress": 70}
    assert [record.args for record in caplog.records] == [(60, "API key 1", 60), (70, "progress", 70)]


def test_waiting_for_a_processor_is_no_work_of_the_broker() -> None:
    """Such a hold shows as it is; beside it, how much of it was work, if it breaks the rule at all."""
    clock, worked_ms = HandClock(), {0: 7, 10: None, 40: 40, 140: 4}
    holds = LoopHolds(clock, worked_ms.__getitem__)
    for began_ms, ended_ms, work in ((0, 10, "a"), (10, 40, "a"), (40, 140, "b"), (140, 153, "c")):
        clock.now_ms = ended_ms
        holds.ended(began_ms, work)

    assert holds.longest_by_work == {"a": 30, "b": 100, "c": 13}
    assert holds.longest_own_by_work == {"a": 30, "b": 40}
    assert (holds.own_ms.total, sum(holds.own_ms.buckets)) == (30 + 40 + 4, 3)


async def test_each_turn_of_a_task_is_counted_and_the_task_is_as_it_was(world: World) -> None:
    """Guards: a scrape that held the loop between two waits was in no metric."""
    clock = HandClock()
    holds = LoopHolds(clock)
    loop = world.loop
    never: asyncio.Future[None] = loop.create_future()

    async def work() -> str:
        clock.now_ms += 12
        await asyncio.sleep(0)
        clock.now_ms += 25
        failing: asyncio.Future[None] = loop.create_future()
        loop.call_soon(failing.set_exception, ValueError("it failed"))
        try:
            await failing
        except ValueError as error:
            said = str(error)
        try:
            await never
        except asyncio.CancelledError:
            clock.now_ms += 40
        return said

    task = loop.create_task(holds.in_turns(work(), "work"))
    for _ in range(10):
        await asyncio.sleep(0)
    task.cancel()

    assert await task == "it failed"
    assert (sum(holds.held_ms.buckets), holds.held_ms.total, holds.longest_by_work) == (4, 77, {"work": 40})


def test_a_failed_task_fails_as_without_counting() -> None:
    """The exception of a coroutine is that of its task."""

    async def work() -> None:
        raise ValueError("it failed")

    with pytest.raises(ValueError, match="it failed"):
        asyncio.run(LoopHolds(HandClock()).in_turns(work(), "work"))


@pytest.mark.parametrize("ending", ["cancelled", "caught"])
def test_ended_task_leaves_nothing_for_the_collector(ending: str) -> None:
    """Guards: an exception that passed through the turns kept all that its task had, until the collector looked."""

    class Kept:
        """What a task has."""

    async def work(_kept: Kept) -> None:
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0 if ending == "caught" else None):
                await never

    async def run() -> "weakref.ref[Kept]":
        kept = Kept()
        seen = weakref.ref(kept)
        task = asyncio.ensure_future(LoopHolds(HandClock()).in_turns(work(kept), "work"))
        del kept
        await asyncio.sleep(0)
        if ending == "cancelled":
            task.cancel()
        await asyncio.wait([task])
        return seen

    gc.disable()
    try:
        assert asyncio.run(run())() is None
    finally:
        gc.enable()


def test_task_that_is_cancelled_before_its_first_turn_is_closed() -> None:
    """Guards: the log said that its coroutine was never awaited."""

    async def work() -> None:
        """Do nothing."""

    async def run() -> None:
        coroutine = work()
        Tasks(asyncio.get_running_loop(), LoopHolds(HandClock())).spawn(coroutine).cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert coroutine.cr_frame is None

    asyncio.run(run())


def test_coroutine_that_never_begins_ends_with_its_turns() -> None:
    """Guards: a broker that stopped at once said that its tasks were never awaited."""

    async def work() -> None:
        """Do nothing."""

    coroutine = work()
    LoopHolds(HandClock()).in_turns(coroutine, "work").close()

    assert coroutine.cr_frame is None
