"""Stops and starts of the whole cluster, at random: whatever happens in between, nothing acknowledged is lost."""

import pytest

from tests.virtual.stop_histories import check_seed

pytestmark = pytest.mark.virtual

SEEDS = 40


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_acknowledged_is_lost_by_stops_and_starts(seed: int) -> None:
    """Six rounds of stops, of all together or not, with blows in the middle, partial starts and lost disks."""
    events: list[str] = []

    assert check_seed(seed, events.append) == [], "\n".join(events)
