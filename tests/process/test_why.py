"""`syncline why` on real brokers, one incident of the quickest kinds; all twelve are in `tests.incidents`."""

import random
import time

import pytest

from tests.incidents.causes import CAUSES
from tests.incidents.ground import Ground, ground
from tests.patience import eventually

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def where() -> "object":
    """One cluster for all."""
    with ground() as started:
        yield started


@pytest.mark.parametrize("cause", ["follower-paused", "network-cut-one-way"])
def test_why_names_the_true_cause(where: Ground, cause: str) -> None:
    """The command, the journal, the brokers and the fault are all real."""
    since_ms = time.time_ns() // 1_000_000
    truth = CAUSES[cause](where, random.Random(1))
    where.settle()
    # The events of all brokers, and those that tell that it is over, are in the journal a moment later.
    answer = eventually(lambda: where.why(truth.place, since_ms), lambda seen: seen["cause"] == cause)

    assert answer["cause"] == cause, "\n".join(answer["words"])
    assert answer["main"]["lost"] == truth.lost
    assert answer["main"]["for"]
