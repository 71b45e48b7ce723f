"""The figures of `make bench-sustained`, what it says of a bound that is not kept, and its picture."""

from xml.etree import ElementTree as ET

import pytest

from benchmarks.sustained_outcome import BARE, BOUNDS, KEPT, OURS, THEIRS, Outcome, Sample, table
from benchmarks.sustained_picture import draw

GB = 1_000_000_000


def outcome(side: str, *rates_mb_s: float, cpu_s_gb: float = 3.0) -> Outcome:
    """Return a side that acknowledged at these rates, each for a second."""
    samples = [Sample(0.0, 0, 0.0)]
    for second, rate in enumerate(rates_mb_s, start=1):
        acknowledged = samples[-1].acknowledged_bytes + int(rate * 1e6)
        samples.append(Sample(float(second), acknowledged, acknowledged / GB * cpu_s_gb))
    return Outcome(side, samples)


def sides(ours: Outcome) -> dict[str, Outcome]:
    """Return it with the two that it is compared with."""
    return {
        OURS: ours,
        KEPT: outcome(KEPT, *[200] * 6, cpu_s_gb=9.0),
        BARE: outcome(BARE, *[150] * 8, cpu_s_gb=7.0),
        THEIRS: outcome(THEIRS, *[60] * 20, cpu_s_gb=20.0),
    }


def test_speed_and_processor_time_are_of_all_bytes() -> None:
    """Whatever single seconds were."""
    ours = outcome(OURS, 300, 100, 200)

    assert (ours.mb_s, ours.cpu_s_gb) == (pytest.approx(200), pytest.approx(3))


def test_halves_are_of_the_bytes_and_not_of_the_time() -> None:
    """A side that becomes slow takes longer for its second half."""
    ours = outcome(OURS, 300, 100, 100, 100)

    assert ours.halves_mb_s() == (pytest.approx(300), pytest.approx(100))
    assert ours.last_to_first == pytest.approx(1 / 3)


def test_each_bound_that_is_not_kept_has_its_sentence() -> None:
    """And the table says which."""
    fine = sides(outcome(OURS, *[250] * 4))
    slow = sides(outcome(OURS, 300, 300, 60, 60, 60, 60, 60, cpu_s_gb=5.0))

    assert all(bound.is_met(fine) for bound in BOUNDS)
    unmet = [bound.sentence(slow) for bound in BOUNDS if not bound.is_met(slow)]
    assert unmet == [
        "sustained, MB/s: 2.14x, the bound is ≥ 4x",
        "sustained, broker CPU per GB: 0.25x, the bound is ≤ 0.2x",
        "last half of the bytes to the first: 0.27x, the bound is ≥ 0.85x",
    ]
    assert [line.count("missed") for line in table(slow)[-5:]] == [1, 1, 1, 0, 0]


def test_what_only_passes_on_is_no_bound_but_stands_beside_them() -> None:
    """It is the most that a broker could reach."""
    assert table(sides(outcome(OURS, *[250] * 4)))[-1] == "| only passes on, page cache kept, MB/s | 2.50x | | |"


def test_picture_is_sound_and_has_a_curve_of_each_side_in_both_panels() -> None:
    """It is a file of its own: nothing comes from elsewhere."""
    drawn = draw(sides(outcome(OURS, *[250] * 4)))
    root = ET.fromstring(drawn)

    paths = [each.get("class") for each in root.iter("{http://www.w3.org/2000/svg}path")]
    assert paths == ["ours", "kept", "bare", "theirs"] * 2
    assert "href" not in drawn
    assert "url(" not in drawn.replace("url(#out)", "")
