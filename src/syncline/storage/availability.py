"""Whether one log may still be used, and what its callers get when it may not.

One hard idea: an I/O error either leaves the log as it was (no room, no
descriptor: the call is refused and may be retried) or takes it offline, since
after a failed write or sync the file may hold anything. An offline log stays
offline until the broker restarts and recovers it.

Invariants: the first error that took a log offline stays its reason, and
`on_offline` gets only that one. Source: KAFKA-10778.
"""

from collections.abc import Callable
from typing import NoReturn

from syncline.model.ids import TopicPartition
from syncline.storage.disk import BrokenFileError
from syncline.storage.errors import (
    DiskFullError,
    LogOfflineError,
    NoDescriptorError,
    StorageError,
    is_full,
    is_out_of_descriptors,
)


class Availability:
    """Whether one log is usable, closed, or offline."""

    __slots__ = ("_on_offline", "_topic_partition", "failure", "is_closed")

    def __init__(self, topic_partition: TopicPartition, on_offline: Callable[[OSError], None]) -> None:
        self.failure: OSError | None = None
        self.is_closed = False
        self._topic_partition = topic_partition
        self._on_offline = on_offline

    def close(self) -> None:
        """Allow no further use, and report no failure any more: there is no log that could go offline."""
        self.is_closed = True
        # It belongs to the log, which has this object: references in a circle would keep a deleted log in memory.
        self._on_offline = _unreported

    def check(self) -> None:
        """Raise LogOfflineError or StorageError if the log may not be used."""
        if self.failure is not None:
            raise LogOfflineError(f"{self._topic_partition} is offline since {self.failure}")
        if self.is_closed:
            raise StorageError(f"{self._topic_partition} was closed")

    def refuse(self, error: OSError, verb: str) -> NoReturn:
        """Raise DiskFullError or NoDescriptorError if the log is intact; else LogOfflineError, and take it offline."""
        if is_full(error) and not isinstance(error, BrokenFileError):
            raise DiskFullError(f"Cannot {verb} {self._topic_partition}: {error.strerror}") from error
        if is_out_of_descriptors(error):
            raise NoDescriptorError(f"Cannot {verb} {self._topic_partition}: {error.strerror}") from error
        self.fail(error, verb)

    def fail(self, error: Exception, verb: str) -> NoReturn:
        """Take the log offline and raise LogOfflineError."""
        self.take_offline(error if isinstance(error, OSError) else OSError(str(error)))
        raise LogOfflineError(f"Cannot {verb} {self._topic_partition}: {error}") from error

    def fail_later(self, error: Exception, verb: str) -> None:
        """Take the log offline for an error in background work."""
        self.take_offline(error if isinstance(error, OSError) else OSError(f"cannot {verb}: {error!r}"))

    def take_offline(self, error: OSError) -> None:
        """Take the log offline, unless an earlier error has done so."""
        if self.failure is None:
            self.failure = error
            self._on_offline(error)


def _unreported(_error: OSError) -> None:
    """Serve as `on_offline` of a closed log."""
