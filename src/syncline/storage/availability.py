"""Whether one log may still be used, and what its callers get when it may not.

One hard idea: an I/O error either leaves the log as it was (no room, no
descriptor: the call is refused and may be retried) or takes it offline, since
after a failed write or sync the file may hold anything. An offline log stays
offline until the broker restarts and recovers it.

A change of several steps may be refused between two of them, when it is too late
to leave the log as it was. Then its rest is kept, the log is not *whole*, and every
later call begins with the rest and is refused until that is done.

Invariants: the first error that took a log offline stays its reason, and
`on_offline` gets only that one. Source: KAFKA-10778.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from syncline.model.ids import TopicPartition
from syncline.storage.errors import LogOfflineError, StorageError, is_refusal, storage_error


class Availability:
    """Whether one log is usable, closed, or offline."""

    __slots__ = ("_on_offline", "_rest", "failure", "is_closed", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, on_offline: Callable[[OSError], None]) -> None:
        self.failure: OSError | None = None
        self.is_closed = False
        self.topic_partition = topic_partition
        self._on_offline = on_offline
        # What is left to do of a change that was refused half-way, and the verb for it.
        self._rest: tuple[str, Callable[[], None]] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether no change of the log is half done."""
        return self._rest is None

    def close(self) -> None:
        """Allow no further use, and report no failure any more: there is no log that could go offline."""
        self.is_closed = True
        # Both belong to the log, which has this object: references in a circle would keep a deleted log in memory.
        self._on_offline = _unreported
        self._rest = None

    def check(self) -> None:
        """Raise LogOfflineError or StorageError if the log may not be used; first complete what is half done."""
        if self.failure is not None:
            raise LogOfflineError(f"{self.topic_partition} is offline since {self.failure}")
        if self.is_closed:
            raise StorageError(f"{self.topic_partition} was closed")
        if self._rest is not None:
            self._go_on()

    def complete(self, verb: str, steps: Callable[[], None]) -> None:
        """Do what cannot be undone. `steps` may run several times: if the disk refuses one, all run again later."""
        assert self._rest is None, f"{self.topic_partition} is changed again before the last change is done"
        self._rest = (verb, steps)
        self._go_on()

    def _go_on(self) -> None:
        assert self._rest is not None, "there is nothing left to do"
        verb, steps = self._rest
        with self.refusing(verb):
            steps()
        self._rest = None

    @contextmanager
    def refusing(self, verb: str) -> Iterator[None]:
        """Pass any OSError from the block to `refuse`."""
        try:
            yield
        except OSError as error:
            self.refuse(error, verb)

    def refuse(self, error: OSError, verb: str) -> NoReturn:
        """Raise DiskFullError or NoDescriptorError if the disk only refused; else take the log offline."""
        if is_refusal(error):
            raise storage_error(error, f"Cannot {verb} {self.topic_partition}") from error
        self.fail(error, verb)

    def fail(self, error: Exception, verb: str) -> NoReturn:
        """Take the log offline and raise LogOfflineError."""
        self.take_offline(error if isinstance(error, OSError) else OSError(str(error)))
        raise LogOfflineError(f"Cannot {verb} {self.topic_partition}: {error}") from error

    def fail_later(self, error: Exception, verb: str) -> None:
        """Take the log offline for an error in background work."""
        self.take_offline(error if isinstance(error, OSError) else OSError(f"cannot {verb}: {error!r}"))

    def take_offline(self, error: OSError) -> None:
        """Take the log offline, unless an earlier error has done so."""
        if self.failure is None:
            self.failure = error
            self._on_offline(error)


def _unreported(_error: OSError) -> None:
    """Ignore the error: the log is closed."""
