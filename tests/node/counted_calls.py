"""How much a broker of a test may do before it gives others their turn."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from syncline.virtual.time.meter import CallMeter
from tests.node.world import World

# A call, with the work between two calls, takes about half a microsecond, and nothing may hold a loop for 10 ms.
CALLS_MAX = 20_000


@asynccontextmanager
async def counted(world: World, calls_max: int = CALLS_MAX) -> AsyncIterator[None]:
    """Fail if a broker makes more calls than these before it gives others their turn, or looks whether it should."""
    meter = world.loop.meter = CallMeter(frozenset(f"broker-{each}" for each in world.hosts))
    try:
        yield
    finally:
        world.loop.meter = None
    assert meter.calls_max <= calls_max, f"{meter.calls_max} calls without a look at the clock"
