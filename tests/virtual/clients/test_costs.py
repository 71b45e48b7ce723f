"""L10: requests that cost much, and none holds a broker for long."""

import pytest

from syncline.virtual.clients import costs
from syncline.virtual.clients.costs import COSTLY, CostlyClient
from tests.node.world import World


def violations_of(number: int) -> list[str]:
    """Send one costly request to a broker of three, and return what was wrong once it is answered."""
    world = World(3)
    client = CostlyClient(world.cluster)

    async def scene() -> None:
        client.send(1, "broker-1", number)
        await world.until(lambda: client.answered and world.loop.meter is None)

    world.run(scene)
    return client.violations


@pytest.mark.parametrize("number", range(len(COSTLY)))
def test_costly_request_is_answered_and_holds_no_callback_for_long(number: int) -> None:
    """One callback did all of it, and held all other clients of the broker meanwhile."""
    assert violations_of(number) == []


def test_callback_that_does_too_much_at_once_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the request, its broker and the number of calls."""
    monkeypatch.setattr(costs, "CALLS_MAX", 100)
    [reported] = violations_of(1)

    assert reported.startswith("L10 FIND_COORDINATOR to broker-1: ")
