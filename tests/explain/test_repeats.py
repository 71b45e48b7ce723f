"""Findings that changed nothing and differ in times alone are told as one; every finding stays in the diagnosis."""

import dataclasses

import pytest

from syncline.explain.diagnosis.findings import Effect
from syncline.explain.diagnosis.repeats import repeats_of
from syncline.explain.words.sentences import tell

from . import incidents
from .witnesses import NOON, PARTITION, TOPIC, Witnesses, diagnosed, observation, shown, slow_disk, stall, throttled

PLACE = {"topic": TOPIC, "partition": PARTITION}


def slow_writes(*begins: int, broker: int = 1) -> Witnesses:
    """Return writes of 700 ms each."""
    return [slow_disk(broker, begin, begin + 700, "write") for begin in begins]


@pytest.mark.parametrize(
    ("witnesses", "counts"),
    [
        pytest.param(slow_writes(0, 4_000, 8_000), [3], id="one-cause"),
        pytest.param(
            [*slow_writes(0, 20_000), *slow_writes(10_000, 30_000, broker=2)], [2, 2], id="two-brokers-by-turns"
        ),
        pytest.param([*slow_writes(0, 20_000), stall(1, 40_000, 43_000)], [2, 1], id="two-causes"),
        pytest.param(
            [*slow_writes(0, 20_000), observation("slow-disk", 1, 1, 40_000, 43_000, op="cut", **PLACE)[:1]],
            [2, 1],
            id="the-last-goes-on",
        ),
        pytest.param(
            [throttled(by, 0, 900, "flights-3@3") for by in (1, 2)],
            [1, 1],
            id="two-throttles",
        ),
        pytest.param(incidents.leader_wrote_slowly_before_and_after_a_join(), [3, 1, 2], id="an-effect-divides"),
    ],
)
def test_repeats_are_what_changed_nothing_for_one_cause(witnesses: Witnesses, counts: list[int]) -> None:
    """Between two effects, whatever lies between them."""
    found = repeats_of(diagnosed(*witnesses).findings)

    assert [len(each.findings) for each in found] == counts
    assert all(len(each.findings) == 1 or each.longest.effect is Effect.NOTHING for each in found)


def test_repeats_lose_no_finding_and_keep_the_order_of_the_first_ones() -> None:
    """The diagnosis, and so the JSON of `why`, has them all."""
    diagnosis = diagnosed(*incidents.leader_wrote_slowly_for_a_minute())
    found = repeats_of(diagnosis.findings)

    assert len(diagnosis.findings) == 11
    assert sorted(id(each) for repeats in found for each in repeats.findings) == sorted(map(id, diagnosis.findings))
    assert [each.findings[0].ts_ms - NOON for each in found] == [0, 14_900]


def test_longest_finding_stands_for_all() -> None:
    """Its operations are the evidence; the span is that of all."""
    (repeats,) = repeats_of(
        diagnosed(
            slow_disk(1, 0, 700, "write"),
            slow_disk(1, 10_000, 15_000, "write"),
            slow_disk(1, 30_000, 30_900, "write"),
        ).findings
    )

    assert repeats.longest is repeats.findings[1]
    assert repeats.end_ms == NOON + 30_900


@pytest.mark.parametrize("count", [1, 2, 40])
def test_slow_disk_of_minutes_takes_one_paragraph(count: int) -> None:
    """Guards: `why` had more than forty paragraphs that differed in their times."""
    paragraphs = tell(diagnosed(*slow_writes(*range(0, count * 2_900, 2_900))), shown)

    assert len(paragraphs) == 2
    assert (f"something was unusual {count} times." in paragraphs[0]) is (count > 1)


def test_repeats_have_one_leader() -> None:
    """Of two leaders something else is ruled out, though the titles are equal."""
    first, second = diagnosed(*slow_writes(0, 4_000)).findings

    assert len(repeats_of([first, second])) == 1
    assert len(repeats_of([first, dataclasses.replace(second, leader=3)])) == 2
