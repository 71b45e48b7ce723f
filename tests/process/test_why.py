"""`syncline why` on real brokers, one incident of the quickest kinds; all twelve are in `tests.incidents`."""

import random
import time

import pytest

from tests.incidents.causes import CAUSES
from tests.incidents.ground import Ground, ground

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
    time.sleep(2.5)
    answer = where.why(truth.place, since_ms)

    assert answer["cause"] == cause, "\n".join(answer["words"])
    assert answer["main"]["lost"] == truth.lost
    assert answer["main"]["for"]
