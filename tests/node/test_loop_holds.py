"""Loop holds: what is counted, and that the metrics show it."""

import pytest

from syncline.model.errors import ErrorCode
from syncline.node.broker import Broker
from syncline.node.loop_holds import LoopHolds
from syncline.node.request import Request
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
    assert [record.args for record in caplog.records] == [(60, "API key 1"), (70, "progress")]
