"""Woken fetches: parked ones that look again when the current callback ends.

A change of a partition wakes the fetches that wait for it; each looks once, however many of its partitions changed. A
callback that may have changed one ends with `settle`; otherwise the next turn of the loop calls it. A callback that
always ends so says it at its beginning (`will_settle`), so that no turn of the loop is armed that finds nothing to do.
"""

import asyncio
import logging
from typing import Protocol

from syncline.node.fetching.shared_reads import SharedReads

log = logging.getLogger("syncline.node")


class Sleeper(Protocol):
    """A parked fetch."""

    def wake(self) -> None:
        """Look again; answer if there is enough."""


class WokenFetches:
    """The fetches of one broker that will look again."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # A dict stands for an ordered set.
        self._woken: dict[Sleeper, None] = {}
        # Whether it is just now that they look again.
        self.is_settling = False
        # Whether the current callback ends with `settle`, or a turn of the loop will call it.
        self.will_settle = False
        self.reads = SharedReads()

    def __len__(self) -> int:
        return len(self._woken)

    def wake(self, fetch: Sleeper) -> None:
        """Let a parked fetch look again when the current callback ends."""
        self._woken[fetch] = None
        if not self.will_settle:
            self.will_settle = True
            self._loop.call_soon(self.settle)

    def settle(self) -> None:
        """Let all woken fetches look again."""
        if self.is_settling:
            return
        if not self._woken:
            self.will_settle = False
            return
        # What these looks wake looks below, too.
        self.is_settling = self.will_settle = True
        self.reads.begin()
        try:
            while self._woken:
                woken, self._woken = self._woken, {}
                for fetch in woken:
                    try:
                        fetch.wake()
                    except Exception:
                        # A failure must not keep the other woken fetches parked.
                        log.exception("a parked fetch failed")
        finally:
            self.is_settling = self.will_settle = False
            self.reads.end()
        assert not self._woken, f"{len(self._woken)} fetches sleep on although they were woken"
