"""The simulated disk against the Disk port's conformance suite."""

import random
from collections.abc import Callable, Iterator

import pytest

from syncline.virtual.determinism.trace import Trace
from syncline.virtual.disk.disk import DiskSettings, SimDisk
from syncline.virtual.disk.medium import Medium
from syncline.virtual.time.loop import DeadlockError, VirtualLoop
from tests.storage.disk_conformance import DiskConformance, Settle


class TestSimDisk(DiskConformance):
    """Files in memory."""

    @pytest.fixture
    def loop(self) -> Iterator[VirtualLoop]:
        """Return a loop that is closed afterwards."""
        loop = VirtualLoop()
        yield loop
        loop.close()

    @pytest.fixture
    def disk(self, loop: VirtualLoop) -> SimDisk:
        """Return a disk without chance misses."""
        medium = Medium("host", random.Random(1))
        return SimDisk(loop, medium, random.Random(2), Trace(), DiskSettings(miss_probability=0))

    @pytest.fixture
    def root(self) -> str:
        """Return a directory that does not exist yet."""
        return "/data"

    @pytest.fixture
    def settle(self, loop: VirtualLoop) -> Settle:
        """Return what turns the loop until nothing is left to do."""

        def turn(condition: Callable[[], object]) -> None:
            try:
                while True:
                    loop.turn()
            except DeadlockError:
                assert condition()

        return turn
