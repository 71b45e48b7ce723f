"""The meter: which callbacks do too much at once."""

from contextvars import Context

import pytest

from syncline.virtual.time.clock import VirtualClock
from syncline.virtual.time.loop import VirtualLoop
from syncline.virtual.time.meter import CallMeter, MeteredClock
from syncline.virtual.time.process import Process


def nothing() -> None:
    """Do nothing, which is one call."""


def busy(times: int) -> None:
    """Make so many calls."""
    for _ in range(times):
        nothing()


def test_meter_keeps_the_most_calls_of_one_callback() -> None:
    """Several callbacks are not added up: between them, others have their turn."""
    meter = CallMeter(frozenset({"broker-1"}))
    process = Process("broker-1")
    for times in (10, 500, 20):
        meter.run(process, Context().run, busy, times)

    assert 500 <= meter.calls_max < 520
    assert meter.callbacks == 3


def test_meter_counts_the_work_of_brokers_alone() -> None:
    """Clients and links may do what they like."""
    meter = CallMeter(frozenset({"broker-1"}))
    meter.run(Process("client-1"), Context().run, busy, 1_000)
    meter.run(None, Context().run, busy, 1_000)

    assert (meter.calls_max, meter.callbacks) == (0, 0)


def test_meter_counts_no_longer_after_a_callback_that_failed() -> None:
    """The loop handles the error as ever."""
    meter = CallMeter(frozenset({"broker-1"}))
    with pytest.raises(ZeroDivisionError):
        meter.run(Process("broker-1"), lambda: busy(50) or 1 // 0)
    busy(1_000)

    assert 50 <= meter.calls_max < 100


def test_look_at_the_clock_divides_the_work_of_a_callback() -> None:
    """A real broker could have stopped there; the time that it reads is that of the host."""
    loop = VirtualLoop()
    clock = MeteredClock(VirtualClock(loop), loop)
    meter = loop.meter = CallMeter(frozenset({"broker-1"}))
    seen: list[int] = []

    def sliced() -> None:
        for _ in range(3):
            busy(200)
            seen.append(clock.mono_ms())

    meter.run(Process("broker-1"), sliced)
    loop.meter = None
    loop.close()

    assert 200 <= meter.calls_max < 220
    assert seen == [loop.now_ns // 1_000_000] * 3
