"""What is read from brokers' metrics, and which figures break which limit."""

import math
import os
from dataclasses import replace

from syncline.node.counting.counters import Histogram
from syncline.node.metrics.table import LONGEST_LOOP_HOLD, LONGEST_OWN_HOLD_BY_WORK, LOOP_HOLDS, OWN_LOOP_HOLDS
from syncline.node.metrics.text import Page
from tests.attack.holds import Holds
from tests.attack.verdict import MB, Figures, Limits, not_rested, row
from tests.attack.watch import run_queue_wait_ms

LIMITS = Limits()


def page_of(held_ms: list[int], own_ms: int = 0) -> str:
    """Return the metrics page of a broker whose loop was held so often and so long; in one hold it worked `own_ms`."""
    histogram = Histogram((1, 10, 50, 100))
    for each in held_ms:
        histogram.note(each)
    page = Page()
    page.add_histogram(LOOP_HOLDS, histogram, per_unit=1_000)
    page.add(LONGEST_LOOP_HOLD, max(held_ms) / 1_000)
    own = Histogram((1, 10, 50, 100))
    if own_ms:
        own.note(own_ms)
        page.add(LONGEST_OWN_HOLD_BY_WORK, own_ms / 1_000, "fetch")
    page.add_histogram(OWN_LOOP_HOLDS, own, per_unit=1_000)
    return b"".join(page.sections()).decode()


def figures(*, acks_ms: tuple[float, ...] = (1.0,), held_ms: int = 1, peak_bytes: int = MB) -> Figures:
    """Return figures of a case that keeps to all limits but for what is given."""
    return Figures("case", acks_ms, Holds.read(page_of([held_ms])), {1: peak_bytes})


def test_holds_are_read_from_a_page_of_the_brokers_own() -> None:
    """Quantiles are bounds of buckets, the longest hold is exact."""
    holds = Holds.read(page_of([1] * 990 + [7] * 9 + [73]))

    assert holds.count == 1_000
    assert holds.quantile_ms(0.99) == 1
    assert holds.quantile_ms(0.999) == 10
    assert holds.longest_ms == 73


def test_holds_of_before_do_not_count() -> None:
    """A new longest hold is exact; without one, the newer holds are known by their bucket."""
    before = Holds.read(page_of([1, 30]))

    assert Holds.read(page_of([1, 30, 73])).since(before).longest_ms == 73
    assert Holds.read(page_of([1, 30, 7])).since(before).longest_ms == 10
    assert Holds.read(page_of([1, 30])).since(before).count == 0
    assert Holds.read(page_of([1, 30])).since(before).longest_ms == 0


def test_a_broker_that_has_started_again_has_no_before() -> None:
    """Its counters begin anew."""
    assert Holds.read(page_of([73])).since(Holds.read(page_of([1] * 10))).longest_ms == 73


def test_table_says_when_the_machine_kept_the_brokers_from_running() -> None:
    """A hold is measured by the clock, so it may be the machine's doing."""
    kept = replace(figures(held_ms=73), waited_ms=240.0)

    assert row(figures(held_ms=73), ["hold"]).endswith("BROKEN: hold")
    assert row(kept, ["hold"]).endswith("BROKEN: hold (a broker waited 240 ms for a processor)")


def test_a_hold_is_judged_by_what_was_not_waiting_for_a_processor() -> None:
    """What waiting does not explain counts as the broker's, such as a wait for the disk."""
    waited = Figures("case", (1.0,), Holds.read(page_of([73], own_ms=20)), {1: MB}, waited_ms=240.0)
    worked = Figures("case", (1.0,), Holds.read(page_of([73], own_ms=60)), {1: MB}, waited_ms=240.0)

    assert waited.broken(LIMITS) == []
    assert worked.broken(LIMITS) == ["hold 60 > 50 ms"]
    assert replace(waited, waited_ms=10.0).broken(LIMITS) == ["hold 63 > 50 ms"]


def test_work_in_holds_of_before_does_not_count() -> None:
    """As with the holds themselves."""
    before = Holds.read(page_of([73], own_ms=60))
    after = Holds.read(page_of([73, 70], own_ms=60)).since(before)

    assert after.own is not None
    assert after.own.longest_ms == 0
    assert after.longest_ms == 73


def test_wait_for_a_processor_is_read_from_the_system() -> None:
    """Of this process; one that is gone has none."""
    assert run_queue_wait_ms(os.getpid()) > 0
    assert run_queue_wait_ms(2**30) == 0


def test_holds_of_several_brokers_add_up() -> None:
    """One of them may be the one that is held."""
    holds = Holds.read(page_of([1] * 9)).with_(Holds.read(page_of([73])))

    assert holds.count == 10
    assert holds.longest_ms == 73
    assert holds.quantile_ms(0.9) == 1
    assert holds.quantile_ms(1.0) == 73


def test_each_limit_is_named_when_it_is_broken() -> None:
    """And none is when all are kept."""
    assert figures().broken(LIMITS) == []
    assert figures(acks_ms=(1.0,) * 99 + (501.0,)).broken(LIMITS) == ["slowest ack 501 > 500 ms"]
    assert figures(held_ms=51).broken(LIMITS) == ["hold 51 > 50 ms"]
    assert figures(peak_bytes=401 * MB).broken(LIMITS) == ["memory 401 > 400 MB"]


def test_one_acknowledgement_in_a_hundred_counts_when_there_were_many() -> None:
    """One pause delays several at once; the slowest has a limit of its own."""
    slow = (101.0,) * 11

    assert figures(acks_ms=(1.0,) * 988 + slow).broken(LIMITS) == []
    assert figures(acks_ms=(1.0,) * 989 + slow).broken(LIMITS) == ["p99 101 > 100 ms"]


def test_one_hold_in_a_thousand_counts_when_there_were_many() -> None:
    """Of few holds, one in a thousand is little else than the longest, which has a limit of its own."""
    long = Holds.read(page_of([1] * 99_799 + [11] * 200))

    assert replace(figures(), holds=long).broken(LIMITS) == []
    assert replace(figures(), holds=long.with_(Holds.read(page_of([1])))).broken(LIMITS) == [
        "p99.9 of holds 11 > 10 ms"
    ]


def test_a_neighbour_without_any_acknowledgement_breaks_the_limits() -> None:
    """Silence is no figure, and no success."""
    assert figures(acks_ms=()).slowest_ack_ms == math.inf
    assert len(figures(acks_ms=()).broken(LIMITS)) == 2


def test_memory_that_is_kept_after_the_rest_is_named() -> None:
    """A fifth more than at the start is allowed."""
    assert not_rested({1: 50 * MB, 2: 50 * MB}, {1: 60 * MB, 2: 61 * MB}, LIMITS) == [
        "broker 2 keeps 61 MB of 50 at its start"
    ]
