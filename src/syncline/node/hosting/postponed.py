"""Partitions that cannot be hosted yet: the disk had no space, or the process no descriptors, for their logs.

Nothing is broken, so all of them are tried again a second later.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from syncline.model.ids import TopicPartition

log = logging.getLogger("syncline.node")

RETRY_S: Final = 1.0


class PostponedPartitions:
    """The partitions of one broker that wait for space or descriptors."""

    def __init__(self, loop: asyncio.AbstractEventLoop, retry: Callable[[Iterable[TopicPartition]], None]) -> None:
        self._loop = loop
        self._retry = retry
        self._keys: dict[TopicPartition, None] = {}
        # Those of them that the log has named: one line each, however often they are tried.
        self._reported: dict[TopicPartition, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def add(self, key: TopicPartition, error: BaseException) -> None:
        """Try a partition again in a moment."""
        if key not in self._reported:
            log.warning("%s cannot be served yet; the broker will try again: %s", key, error)
            self._reported[key] = None
        self._keys[key] = None
        if self._timer is None:
            self._timer = self._loop.call_later(RETRY_S, self._due)

    def _due(self) -> None:
        self._timer = None
        keys, self._keys = self._keys, {}
        assert keys, "the timer runs while nothing waits for room"
        self._retry(keys)
        self._reported = {key: None for key in self._reported if key in self._keys}

    def close(self) -> None:
        """Stop retrying."""
        if self._timer is not None:
            self._timer.cancel()
