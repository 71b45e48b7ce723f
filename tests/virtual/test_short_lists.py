"""Followers with more partitions than one request lists, and more with records than one answer has.

Simulated clusters are too small for that: so the bounds are.
"""

import pytest

from syncline.core.fetching import fetcher
from syncline.node.fetching import answer, judged, operation
from syncline.virtual.simulation import RunSettings, run_seed

pytestmark = [pytest.mark.virtual, pytest.mark.interpreted]


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_lost_and_nothing_waits_for_ever(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One partition with records in an answer, two listed in a request, and every look in steps."""
    monkeypatch.setattr(operation, "RECORD_ROWS_MAX", 1)
    monkeypatch.setattr(fetcher, "LISTED_MAX", 2)
    for module in (answer, judged, operation):
        monkeypatch.setattr(module, "PARTITIONS_AT_ONCE", 1)
    monkeypatch.setattr(operation, "PARTITIONS_PER_STEP", 1)

    assert run_seed(seed, RunSettings(seconds=30, with_lasting_faults=seed % 2 == 1)).failures == []
