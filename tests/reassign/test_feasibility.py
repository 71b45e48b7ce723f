"""Which rates end a move in time and leave clients their share."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.reassign.feasibility import Link, judge, reasons
from syncline.reassign.formulas import Load, Part, Role, bottleneck

MB = 1e6
GB = 10**9
RECEIVING = Part(6, Role.RECEIVING)
# A link of 1 Gbit/s, 240 GB to receive, 12 MB/s to keep up with, 15 MB/s of other replication.
PARTS = {RECEIVING: Load(240 * GB, 12 * MB)}
LINKS = {RECEIVING: Link(125 * MB, 15 * MB)}


def test_t59_deadline_that_leaves_room_gets_the_least_harmful_rate() -> None:
    """Four hours: 28.67 to 35 MB/s; a tenth above the lowest takes 3 h 25 min."""
    verdict = judge(PARTS, LINKS, keep_percent=60, time_s=14_400)

    assert verdict.is_feasible
    assert verdict.min_bytes_per_s == pytest.approx(28.67 * MB, rel=1e-3)
    assert verdict.max_bytes_per_s == pytest.approx(35 * MB)
    assert verdict.rate_bytes_per_s == pytest.approx(31.53 * MB, rel=1e-3)
    assert verdict.time_s == pytest.approx(12_288, rel=1e-3)
    assert reasons(verdict, keep_percent=60, time_s=14_400) == []


def test_without_a_deadline_the_fastest_harmless_rate_is_chosen() -> None:
    """35 MB/s take 2 h 54 min."""
    verdict = judge(PARTS, LINKS, keep_percent=60)

    assert verdict.rate_bytes_per_s == pytest.approx(35 * MB)
    assert verdict.time_s == pytest.approx(10_435, rel=1e-3)


@pytest.mark.parametrize("scale", [1, 1_000])
def test_t59_deadline_that_leaves_no_rate_gets_both_ways_out(scale: int) -> None:
    """Two hours need 45.33 MB/s: either 10,435 s while clients keep 60 %, or 51.7 % in 7,200 s. Scaled, too."""
    parts = {RECEIVING: Load(240 * GB // scale, 12 * MB / scale)}
    links = {RECEIVING: Link(125 * MB / scale, 15 * MB / scale)}

    verdict = judge(parts, links, keep_percent=60, time_s=7_200)

    assert not verdict.is_feasible
    assert verdict.min_bytes_per_s == pytest.approx(45.33 * MB / scale, rel=1e-3)
    assert verdict.time_s_min == pytest.approx(10_435, abs=1)
    assert verdict.keep_percent_max == pytest.approx(51.7, abs=0.05)
    sentences = reasons(verdict, keep_percent=60, time_s=7_200)
    assert "broker 6 would have to receive 45.3" in sentences[0]
    assert sentences[1:] == [
        "The move is possible in 10,435 s (2 h 54 min) or more while clients keep 60 %.",
        "If clients keep at most 51.7 %, the move is possible in 7,200 s.",
    ]


def test_keep_up_above_what_clients_leave_has_no_deadline() -> None:
    """With 95 % for clients nothing is left to keep up; only a smaller share helps."""
    verdict = judge(PARTS, LINKS, keep_percent=95, time_s=7_200)

    assert verdict.time_s_min is None
    assert verdict.keep_percent_max == pytest.approx(51.7, abs=0.05)
    assert len(reasons(verdict, keep_percent=95, time_s=7_200)) == 2


def test_link_below_what_a_deadline_needs_has_no_share() -> None:
    """In a minute 4 GB/s are needed: only more time helps."""
    verdict = judge(PARTS, LINKS, time_s=60)

    assert verdict.keep_percent_max is None
    assert verdict.time_s_min == pytest.approx(240e9 / (110 - 12) / MB)


@pytest.mark.parametrize("time_s", [None, 3_600.0])
def test_nothing_to_copy_is_done_at_once(time_s: float | None) -> None:
    """A pure reorder needs no rate."""
    verdict = judge({}, {}, keep_percent=50, time_s=time_s)

    assert verdict.is_feasible
    assert verdict.time_s == 0


@given(
    st.dictionaries(
        st.builds(Part, st.integers(1, 4), st.sampled_from(list(Role))),
        st.tuples(
            st.integers(1, 10**12),
            st.floats(0, 1e8),
            st.one_of(st.just(math.inf), st.floats(1e6, 1e10)),
            st.floats(0, 1e7),
        ),
        min_size=1,
    ),
    st.floats(0, 100),
    st.floats(1, 1e6),
)
def test_verdict_keeps_its_word(
    rows: dict[Part, tuple[int, float, float, float]], keep_percent: float, time_s: float
) -> None:
    """A chosen rate ends in time and is harmless; each way out, taken, leads to a rate."""
    parts = {part: Load(size, keep_up) for part, (size, keep_up, _, _) in rows.items()}
    links = {part: Link(capacity, other) for part, (_, _, capacity, other) in rows.items()}

    verdict = judge(parts, links, keep_percent=keep_percent, time_s=time_s)

    if verdict.rate_bytes_per_s is not None:
        slowest = bottleneck(parts, verdict.rate_bytes_per_s)
        assert slowest is not None
        assert slowest.time_s <= time_s * (1 + 1e-9)
        assert verdict.rate_bytes_per_s <= verdict.max_bytes_per_s
        return
    if verdict.time_s_min is not None:
        assert judge(parts, links, keep_percent=keep_percent, time_s=verdict.time_s_min * (1 + 1e-6)).is_feasible
        assert not judge(parts, links, keep_percent=keep_percent, time_s=verdict.time_s_min * 0.999).is_feasible
    if verdict.keep_percent_max is not None and verdict.keep_percent_max > 1e-3:
        assert judge(parts, links, keep_percent=verdict.keep_percent_max - 1e-3, time_s=time_s).is_feasible
