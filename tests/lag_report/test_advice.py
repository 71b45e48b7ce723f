"""What follows from a broker's answer: memory, readers, and whether measurements agree, with exact numbers."""

from dataclasses import replace

import pytest

from syncline.core.lag.buckets import BYTES
from syncline.lag_report.advice import WANTED, advise
from syncline.lag_report.agreement import Outcome, agreements, mean_points
from syncline.lag_report.answers import facts_of
from syncline.lag_report.facts import OTHERS
from tests.lag_report.readings import FAR, GB, MB, TAIL, R, W, answer, falling, quiet, reader


def test_group_is_one_reader_and_what_nobody_is_known_of_another() -> None:
    """Members are added up; the rest of the total is read by others."""
    facts = facts_of(1, answer(readers=[*answer()["readers"][:2], reader("x", [[FAR, 50, 5 * GB]])]), None)

    assert [(each.name, sum(each.distances.bytes)) for each in facts.readers] == [
        ("group A", 100 * GB),
        ("client x at 10.0.0.7", 5 * GB),
        (OTHERS, 15 * GB),
    ]
    assert facts.demands["group A"].read_bytes_per_s == pytest.approx(100 * MB)
    assert (facts.memory_bytes, facts_of(1, answer(), 8 * GB).memory_bytes) == (40 * GB, 8 * GB)


def test_system_that_cannot_measure_old_records_measures_nothing() -> None:
    """Reads of new records alone would all be hits."""
    facts = facts_of(1, answer(unmeasured_bytes=1), None)

    assert facts.measured_hit_ratio is None
    assert agreements([("broker 1", facts)]) == ()


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"buckets": [[11, 1, 1]]}, "no bucket of distances up to 2^11"),
        ({"buckets": [[46, 1, 1]]}, "no bucket of distances up to 2^46"),
        ({"readers": [reader("a", [[TAIL, 1, 101 * GB]])]}, "readers read 101000000000 bytes of 100000000000"),
    ],
)
def test_answer_that_contradicts_itself_is_refused(changed: dict[str, object], sentence: str) -> None:
    """Numbers of another histogram would give a wrong curve."""
    with pytest.raises(ValueError, match=sentence.replace("^", r"\^")):
        facts_of(1, answer(**changed), None)


def test_advice_names_memory_and_reader() -> None:
    """Five of six bytes are at the tail; who is two hours behind needs a terabyte, the others nothing."""
    advice = advise(facts_of(1, answer(), None))

    assert advice.now.hit_ratio == pytest.approx(5 / 6)
    assert advice.now.disk_bytes_per_s == pytest.approx(20 * MB)
    # 40 GB turn over with what is written and what is read from the disk.
    assert advice.now.residence_s == pytest.approx(40 * GB / (W + 20 * MB))
    # 94 % of the far bucket, on the log scale, and 1 % of what is read pollutes.
    distance_bytes = 2.0 ** (FAR - 1 + 1 - 0.06)
    assert advice.wanted_bytes == pytest.approx(distance_bytes * (1 + 0.01 * R / W), rel=1e-6)
    assert not advice.has_enough
    assert [(row.reader, row.share) for row in advice.misses] == [("group B", 1.0), ("group A", 0.0)]
    assert advice.worst == "group B"
    assert advice.needed_without_worst is not None
    assert advice.needed_without_worst < 2**TAIL * 1.02


def test_pages_that_nothing_kept_are_out_of_reach_of_any_memory() -> None:
    """A twentieth of the bytes is behind all bounds: 95 % can be served, 99 % cannot."""
    beyond = BYTES.first_exponent + BYTES.bound_count
    facts = facts_of(1, answer(buckets=[[TAIL, 10, 95 * GB], [beyond, 1, 5 * GB]], readers=[]), None)
    advice = advise(facts)

    assert facts.out_of_reach == pytest.approx(0.05)
    assert dict(advice.needed)[0.95] is not None
    assert advice.wanted_bytes is None
    assert (advice.worst, advice.misses[0].reader) == (None, OTHERS)


def test_broker_without_reads_has_no_misses() -> None:
    """Nothing is divided by nothing."""
    facts = facts_of(3, quiet(), None)
    advice = advise(facts)

    assert (advice.now.hit_ratio, facts.measured_hit_ratio, advice.misses) == (1.0, None, ())
    assert agreements([("broker 3", facts)]) == ()
    assert mean_points(()) is None


def test_facts_without_a_reader_are_those_of_the_others() -> None:
    """Bytes, rate and readers."""
    facts = facts_of(1, answer(), None).without("group B")

    assert (facts.read_bytes, facts.read_bytes_per_s) == (100 * GB, pytest.approx(100 * MB))
    assert [each.name for each in facts.readers] == ["group A"]
    assert facts.measured_hit_ratio is None


def test_agreement_compares_what_was_measured_with_the_model_per_interval() -> None:
    """Within 5 points it agrees; else the memory of which the model would have been right is named."""
    facts = facts_of(1, falling(memory_bytes=4 * MB), None)
    predicted = advise(facts).now.hit_ratio
    shares = {"more": 0.98, "same": predicted - 0.04, "fewer": 0.5}
    intervals = [
        (name, replace(facts, hit_bytes=round(share * 10**9), miss_bytes=10**9 - round(share * 10**9)))
        for name, share in shares.items()
    ]
    more, same, fewer = agreements(intervals)

    assert [each.outcome for each in (more, same, fewer)] == [
        Outcome.MORE_HITS,
        Outcome.AGREES,
        Outcome.FEWER_HITS,
    ]
    assert same.points == pytest.approx(-4)
    for each in (more, fewer):
        assert each.behaves_like_bytes is not None
        like = replace(facts, memory_bytes=round(each.behaves_like_bytes))
        assert advise(like).now.hit_ratio == pytest.approx(each.measured, abs=0.001)
    mean = mean_points((more, same, fewer))
    assert mean == pytest.approx((100 * (0.98 - predicted) + 4 + 100 * (predicted - 0.5)) / 3)


def test_memory_for_one_reader_serves_that_reader() -> None:
    """With what all misses take: at that memory it has its share, a little below it does not."""
    facts = facts_of(1, falling(), None)
    for name, needed in advise(facts).needed_by_reader.items():
        for share, memory_bytes in needed:
            if memory_bytes is None:
                continue
            at, below = (
                {row.reader: row.hit_ratio for row in advise(replace(facts, memory_bytes=round(size))).misses}[name]
                for size in (memory_bytes + 1, memory_bytes * 0.9)
            )
            assert at >= share - 1e-6
            assert below < share


def test_advised_memory_serves_what_was_wanted() -> None:
    """The curve at that memory is at 99 %, a little below it is not."""
    facts = facts_of(1, falling(), None)
    wanted_bytes = advise(facts).wanted_bytes
    assert wanted_bytes is not None

    assert advise(replace(facts, memory_bytes=round(wanted_bytes))).now.hit_ratio == pytest.approx(WANTED, abs=1e-6)
    assert not advise(replace(facts, memory_bytes=round(wanted_bytes * 0.95))).has_enough
