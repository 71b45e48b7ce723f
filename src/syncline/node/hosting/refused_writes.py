"""A disk that refuses writes although nothing on it is broken: it has no room, or the process has no descriptors.

One refused append shows that this broker can neither lead nor follow, and that concerns all its replicas, because they
share one disk. The next heartbeat reports it, and the controller moves leaderships to brokers that can write. Clients
get errors that they retry, and requests of followers are tried again as before.

Nothing is broken, so no restart is needed: a worker regularly writes a file where the last append was refused. When
that succeeds, the broker reports that it can write. A disk with a little room accepts the file and refuses what comes
next; so a broker that relapses waits for twice as long, up to a bound.

The log has two lines per episode, and the journal an observation with the number of refusals.

Times in ms of the node's monotonic clock. Source: ours, in the way of KIP-112; with a single log directory, Kafka's
broker stops.
"""

import asyncio
import contextlib
import errno
import logging
from collections.abc import Callable
from typing import Final
from uuid import UUID

from syncline.model.events import Json
from syncline.model.ids import BrokerId, TopicPartition
from syncline.model.impairments import Refusal, refusal_id
from syncline.node.clock import Clock
from syncline.node.counting.episodes import Episodes
from syncline.storage.disk import Disk
from syncline.storage.errors import refusal_of

log = logging.getLogger("syncline.node")

# A replica has to be back in the ISR within 10 s of room: the longest pause leaves 6 s for a probe that waits for the
# disk, a heartbeat, and catching up.
PROBE_FIRST_MS: Final = 1_000
PROBE_LAST_MS: Final = 4_000
# Another refusal this soon after a successful probe is a relapse.
RELAPSE_MS: Final = 60_000
# A fetch of a follower brings up to 1 MiB per partition (replica.fetch.max.bytes): less room does not last.
PROBE_BYTES: Final = 1 << 20
# A start removes files with this ending, in the log directory and in those of partitions.
PROBE_FILE: Final = "probe.tmp"

_WORDS: Final = {
    Refusal.NO_ROOM: "its disk is full",
    Refusal.NO_DESCRIPTORS: "this process or the machine has no file descriptors left",
}
_REMEDIES: Final = {
    Refusal.NO_ROOM: "Free space on the disk of its log directory",
    Refusal.NO_DESCRIPTORS: "Raise the limit of open files, or close connections",
}


class RefusedWrites:
    """Whether the disk of one broker accepts writes."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        disk: Disk,
        log_directory: str,
        episodes: Episodes,
        heartbeat_now: Callable[[], None],
    ) -> None:
        self._broker_id = broker_id
        self._loop = loop
        self._clock = clock
        self._disk = disk
        self._log_directory = log_directory
        self._episodes = episodes
        self._heartbeat_now = heartbeat_now
        # None: the disk accepts writes, as far as this broker knows.
        self.refusal: Refusal | None = None
        self._error: OSError | None = None
        self._key: TopicPartition | None = None
        self._since_ms = 0
        self._refused_count = 0
        # For the metrics: of all episodes.
        self.refused_total = 0
        self._accepted_ms: int | None = None
        self._pause_ms = PROBE_FIRST_MS
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def ids(self) -> tuple[UUID, ...]:
        """Return what the next heartbeat reports, as ids of offline directories."""
        return () if self.refusal is None else (refusal_id(self.refusal),)

    def refused(self, key: TopicPartition, error: BaseException, /) -> None:
        """Record a failed append; errors that are no refusals of the disk do not matter."""
        cause = refusal_of(error)
        if cause is None or self._is_closed:
            return
        self._key, self._error = key, cause.error
        self.refused_total += 1
        if self.refusal is not None:
            self._refused_count += 1
            self._hold()
            return
        now_ms = self._clock.mono_ms()
        is_relapse = self._accepted_ms is not None and now_ms - self._accepted_ms < RELAPSE_MS
        self._pause_ms = min(PROBE_LAST_MS, 2 * self._pause_ms) if is_relapse else PROBE_FIRST_MS
        self.refusal, self._since_ms, self._refused_count = cause.refusal, now_ms, 1
        log.error(
            "broker %s cannot write, because %s; until it can, other members of the ISR lead its partitions. "
            "%s. (%s: %s)",
            self._broker_id,
            _WORDS[cause.refusal],
            _REMEDIES[cause.refusal],
            key,
            cause.error.strerror,
        )
        self._hold()
        self._arm()
        self._heartbeat_now()

    def close(self) -> None:
        """Stop probing."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._timer = self._loop.call_later(self._pause_ms / 1_000, self._probe)

    def _probe(self) -> None:
        """Write a file where the last append was refused: a quota, or a fault, may concern that place only."""
        self._timer = None
        assert self.refusal is not None, "a disk that accepts writes is probed"
        place = f"{self._log_directory}/{self._key}"
        if not self._disk.exists(place):
            place = self._log_directory
        path = f"{place}/{PROBE_FILE}"
        disk = self._disk
        disk.run_later(lambda: disk.replace_file(path, bytes(PROBE_BYTES)), lambda outcome: self._probed(path, outcome))

    def _probed(self, path: str, outcome: Exception | None) -> None:
        if self._is_closed:
            return
        with contextlib.suppress(OSError):
            self._disk.remove(path)
        if outcome is not None:
            self._hold()
            self._arm()
            return
        log.warning(
            "broker %s can write again, after %.1f s and %s refused writes",
            self._broker_id,
            (self._clock.mono_ms() - self._since_ms) / 1_000,
            self._refused_count,
        )
        self._episodes.end("writes-refused", self._describe)
        self.refusal, self._accepted_ms = None, self._clock.mono_ms()
        self._heartbeat_now()

    def _hold(self) -> None:
        self._episodes.hold("writes-refused", "writes-refused", self._broker_id, self._since_ms, self._describe)

    def _describe(self) -> dict[str, Json]:
        assert self.refusal is not None, "there is nothing to describe"
        assert self._error is not None, "a refusal has an error"
        return {
            "refusal": self.refusal.value,
            "errno": errno.errorcode.get(self._error.errno or 0, "?"),
            "on": str(self._key),
            "refused_count": self._refused_count,
        }
