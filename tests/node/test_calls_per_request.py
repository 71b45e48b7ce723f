"""How many functions one request of a single record calls in the brokers that serve it: it grows unnoticed otherwise.

A call takes some 50 to 100 ns. A request with one record makes several hundred in the leader and its two followers, and
each bound and limit that is looked at adds a few, which no measurement on a busy machine shows. Virtual time makes
the number the same in each run.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

import syncline
from tests.node.wire_client import batch
from tests.node.world import World

REQUESTS = 200
# As many as there are, and some 2 % more. Raise it only for what is worth its time on every request.
CALLS_MAX = 638
# Of a consumer's fetch without a session.
FETCH_CALLS_MAX = 142

PRODUCT = str(Path(syncline.__file__).parent)
VIRTUAL = str(Path(PRODUCT) / "virtual")


@contextmanager
def counted_calls() -> Iterator[Counter[str]]:
    """Count the calls of the product's Python functions by name, without those that stand for the world."""
    calls: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(PRODUCT) and not path.startswith(VIRTUAL):
            calls[f"{Path(path).stem}.{frame.f_code.co_qualname}"] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(before)


@pytest.mark.brokers(3)
async def test_a_request_with_one_record_calls_no_more_functions_than_it_did(world: World) -> None:
    """Guard the time that every request takes, whatever the machine does meanwhile."""
    await world.topic(replicas=(1, 2, 3))
    client = await world.client()
    for _ in range(20):
        await client.produce("t", batch())
    with counted_calls() as calls:
        for _ in range(REQUESTS):
            assert not (await client.produce("t", batch())).error_code
    _check(calls, CALLS_MAX)


async def test_a_fetch_of_one_record_calls_no_more_functions_than_it_did(world: World) -> None:
    """Guard what consumers pay, with everything that is noted and counted of where they read."""
    await world.topic()
    client = await world.client()
    await client.produce("t", batch())
    for _ in range(20):
        await client.fetch("t", 0)
    with counted_calls() as calls:
        for _ in range(REQUESTS):
            assert (await client.fetch("t", 0)).records
    _check(calls, FETCH_CALLS_MAX)


def _check(calls: Counter[str], calls_max: int) -> None:
    per_request = calls.total() / REQUESTS
    most = "\n".join(f"{count / REQUESTS:8.2f} {name}" for name, count in calls.most_common(40))
    assert per_request <= calls_max, (
        f"{per_request:.1f} calls per request, {calls_max} are allowed; most of them:\n{most}"
    )
