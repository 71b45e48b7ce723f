"""Events that wait for the journal: their order, and which are dropped."""

import sys
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_args

import pytest

from syncline.model.events import Event, Fault, FollowerProgress, Sample
from syncline.model.ids import BrokerId
from syncline.model.lag_events import GroupLagSample
from syncline.node.observing.waiting_events import WaitingEvents, held_bytes

MB = 1 << 20


def decision(number: int) -> Fault:
    """Return a distinct decision."""
    return Fault(ts_ms=number, broker=1, kind="test", target=str(number), phase="begin")


def sample(number: int) -> FollowerProgress:
    """Return a distinct sample."""
    return FollowerProgress(
        ts_ms=number,
        broker=1,
        topic="t",
        partition=number,
        leader_epoch=0,
        follower=2,
        log_end=0,
        follower_log_end=0,
        high_watermark=0,
        lag_records=0,
        lag_ms=0,
        in_sync=True,
        interval_ms=1_000,
    )


def group_sample(number: int, row_count: int = 100) -> GroupLagSample:
    """Return a sample of a group with many partitions; no two values are one object."""
    numbers = ("partition", "committed", "end", "lag_bytes", "staleness_ms", "event_lag_ms", "lost")
    rows: list[dict[str, Any]] = [
        {"topic": "topic", **{name: 10_000 * number + 100 * each + index for index, name in enumerate(numbers)}}
        for each in range(row_count)
    ]
    return GroupLagSample(
        ts_ms=number,
        broker=BrokerId(1),
        group="group",
        state="Stable",
        members=1,
        interval_ms=1_000,
        status="OK",
        partitions=row_count,
        missing=0,
        lag_records=0,
        lag_bytes=0,
        staleness_ms=0,
        event_lag_ms=0,
        lost=0,
        rows=tuple(rows),
    )


def taken_bytes(value: object) -> int:
    """Return what Python says that a value takes; names of fields are shared by all events."""
    inner: list[object] = []
    if isinstance(value, Mapping):
        inner = list(value.values())
    elif isinstance(value, tuple):
        inner = list(value)
    elif hasattr(value, "__slots__"):
        inner = [getattr(value, name) for name in value.__slots__]
    return sys.getsizeof(value) + sum(map(taken_bytes, inner))


def test_samples_and_decisions_keep_their_order() -> None:
    """Those that come back, twice even, precede all that came meanwhile."""
    events: list[Event] = [sample(1), decision(2), decision(3), sample(4), sample(5), decision(6)]
    waiting = WaitingEvents(10, MB)
    for event in events:
        waiting.append(event)
    for _ in range(2):
        removed = [waiting.popleft() for _ in range(3)]
        waiting.put_back(removed)
    waiting.append(decision(7))

    assert list(waiting) == [*events, decision(7)]
    assert [waiting.popleft() for _ in range(len(waiting))] == [*events, decision(7)]


def test_samples_are_dropped_before_decisions() -> None:
    """The oldest first; also if more wait than may, since some came back."""
    waiting = WaitingEvents(3, MB)
    for number in (1, 2, 3):
        waiting.append(decision(number))
    removed = [waiting.popleft(), waiting.popleft()]
    waiting.append(sample(4))
    waiting.append(decision(5))
    waiting.put_back(removed)
    waiting.append(sample(6))

    assert list(waiting) == [decision(3), decision(5), sample(6)]


@pytest.mark.parametrize("kind", get_args(Sample))
def test_samples_of_each_kind_go_before_decisions(kind: type[Event]) -> None:
    """What no longer fits are the samples, whatever they measured."""
    waiting = WaitingEvents(2, MB)
    values: dict[str, Any] = {each.name: "" if each.type is str else 1 for each in fields(kind)}
    measured = kind(**values)
    waiting.append(decision(1))
    waiting.append(measured)
    waiting.append(decision(2))

    assert list(waiting) == [decision(1), decision(2)]


def test_events_that_wait_are_bounded_by_what_they_take() -> None:
    """Guards: a sample of a large group takes 50 kB, and twenty thousand of them waited while nothing was written."""
    waiting = WaitingEvents(20_000, MB)
    waiting.append(decision(1))
    for number in range(2, 100):
        waiting.append(group_sample(number))
    waiting.append(decision(100))
    held = list(waiting)

    assert sum(map(taken_bytes, held)) < 2 * MB
    assert [held[0], *held[-2:]] == [decision(1), group_sample(99), decision(100)]
    assert 5 < len(held) < 30
    # What came back is counted, what was removed is not.
    removed = [waiting.popleft() for _ in range(len(waiting))]
    waiting.put_back(removed)
    waiting.append(group_sample(101))
    assert list(waiting) == [decision(1), *held[2:], group_sample(101)]


@pytest.mark.parametrize(
    "event", [decision(1_000), sample(1_000), group_sample(1_000, row_count=1), group_sample(1_000)]
)
def test_what_an_event_takes_is_estimated(event: Event) -> None:
    """Within a factor of two."""
    assert 0.5 < held_bytes(event) / taken_bytes(event) < 2
