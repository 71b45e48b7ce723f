"""Which followers a leader hears, and which it misses.

A follower fetches again as soon as it has its answer, so one that owes a fetch
for long is missing: dead, paused, or behind a cut line. To tell these apart
both ends send *beats* while they miss each other, and only then: a few bytes on
the connection that the fetches use, in one direction, which ask for no answer.
Whose beats arrive where shows which direction of a line is cut.

The hot path is two calls per fetch request, each a look-up and some stores.
Times in ms of the node's monotonic clock.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from syncline.core.replication.known_brokers import KnownBrokers
from syncline.model.events import Json
from syncline.model.ids import TopicPartition
from syncline.node.clock import Clock
from syncline.node.cluster_view import ClusterView
from syncline.node.episodes import Episodes
from syncline.node.live_configs import LiveConfigs

if TYPE_CHECKING:
    from syncline.model.metadata import MetadataImage
    from syncline.node.partition import Partition

# Beyond a follower's own pause after a refusal.
PATIENCE_MS: Final = 500
NEVER_MS: Final = -(1 << 60)


class BeatingConnection(Protocol):
    """A connection over which a follower can be sent a beat."""

    def beat(self) -> None:
        """Send a beat, which no request asked for."""


class _Line:
    """What a leader knows of one follower's fetches."""

    __slots__ = (
        "answered_ms",
        "asked_ms",
        "beat_ms",
        "beats_heard",
        "beats_sent",
        "connection",
        "expected_ms",
        "is_owed",
        "lost_ms",
    )

    def __init__(self) -> None:
        self.connection: BeatingConnection | None = None
        self.asked_ms = NEVER_MS
        self.answered_ms = NEVER_MS
        self.lost_ms = NEVER_MS
        # Since when it has something to fetch here; NEVER_MS: nothing.
        self.expected_ms = NEVER_MS
        self.is_owed = False
        self.beat_ms = NEVER_MS
        self.beats_heard = 0
        self.beats_sent = 0


class FollowerWatch:
    """The followers of everything that one broker leads."""

    def __init__(
        self,
        *,
        clock: Clock,
        cluster: ClusterView,
        configs: LiveConfigs,
        known_brokers: KnownBrokers,
        partitions: "Mapping[TopicPartition, Partition]",
        episodes: Episodes,
    ) -> None:
        self._clock = clock
        self._cluster = cluster
        self._configs = configs
        self._known_brokers = known_brokers
        self._partitions = partitions
        self._episodes = episodes
        self._lines: dict[int, _Line] = {}
        self._image: MetadataImage | None = None

    # Hot path.

    def asked(self, replica: int, connection: BeatingConnection, now_ms: int) -> None:
        """Note a follower's fetch."""
        line = self._lines.get(replica)
        if line is None:
            if replica not in self._cluster.image.brokers:
                return
            line = self._lines[replica] = _Line()
        line.connection = connection
        line.asked_ms = now_ms
        line.is_owed = True

    def answered(self, replica: int, connection: BeatingConnection) -> None:
        """Note the answer to it; one on a connection that the follower has left is none."""
        line = self._lines.get(replica)
        if line is not None and line.connection is connection:
            line.answered_ms = self._clock.mono_ms()
            line.is_owed = False

    # Rare.

    def connection_lost(self, connection: BeatingConnection) -> None:
        """Note that a connection has ended."""
        for line in self._lines.values():
            if line.connection is connection:
                line.connection = None
                line.is_owed = False
                line.lost_ms = self._clock.mono_ms()

    def beat_came(self, replica: int, connection: BeatingConnection) -> None:
        """Note that a follower misses this leader; have it hear that the leader is there."""
        line = self._lines.get(replica)
        if line is not None:
            line.beats_heard += 1
            line.beat_ms = self._clock.mono_ms()
        connection.beat()

    def asked_ms(self, replica: int) -> tuple[int | None, bool]:
        """Return when a follower fetched last, and whether it waits for the answer."""
        line = self._lines.get(replica)
        if line is None or line.asked_ms == NEVER_MS:
            return None, False
        return line.asked_ms, line.is_owed

    def views(self, now_ms: int) -> list[dict[str, Json]]:
        """Return what is known of each follower, for whoever asks from outside."""
        return [{"broker": replica, **_numbers(line, now_ms)} for replica, line in sorted(self._lines.items())]

    def look(self, now_ms: int, *, judges: bool) -> None:
        """Find who is missing, tell it, and send beats; without `judges` only take note of who should fetch."""
        if self._image is not self._cluster.image:
            self._image = self._cluster.image
            self._expect(now_ms)
        if not judges:
            return
        patience_ms = self._configs.broker.replica_fetch_backoff_ms + PATIENCE_MS
        for replica, line in self._lines.items():
            name = ("follower-silent", replica)
            if line.is_owed or line.expected_ms == NEVER_MS:
                self._end(name, line, now_ms)
                continue
            since_ms = max(line.asked_ms, line.answered_ms, line.expected_ms)
            if now_ms - since_ms <= patience_ms:
                self._end(name, line, now_ms)
                continue
            if not self._episodes.is_open(name):
                if not self._known_brokers.is_unfenced(replica) and line.connection is None:  # type: ignore[arg-type]
                    # The controller has given it up, and has said why.
                    continue
                line.beats_heard = line.beats_sent = 0
            if line.connection is not None:
                line.beats_sent += 1
                line.connection.beat()
            self._episodes.hold(
                name,
                "follower-silent",
                replica,
                since_ms,
                lambda line=line: _numbers(line, now_ms),  # type: ignore[misc]
            )

    def _end(self, name: tuple[str, int], line: _Line, now_ms: int) -> None:
        self._episodes.end(name, lambda: _numbers(line, now_ms))

    def _expect(self, now_ms: int) -> None:
        """Find out who has something to fetch here."""
        expected: dict[int, None] = {}
        for partition in self._partitions.values():
            if partition.leader is not None:
                for follower in partition.leader.followers:
                    expected[follower.broker_id] = None
        for replica, line in self._lines.items():
            if replica not in expected:
                line.expected_ms = NEVER_MS
        for replica in expected:
            line = self._lines.get(replica) or _Line()
            self._lines[replica] = line
            if line.expected_ms == NEVER_MS:
                line.expected_ms = now_ms


def _numbers(line: _Line, now_ms: int) -> dict[str, Json]:
    """Return what is known of a follower; -1 is never."""

    def ago(at_ms: int) -> int:
        return -1 if at_ms == NEVER_MS else now_ms - at_ms

    return {
        "connection": "lost" if line.connection is None and line.lost_ms != NEVER_MS else _state(line),
        "last_fetch_ago_ms": ago(line.asked_ms),
        "lost_ago_ms": ago(line.lost_ms) if line.connection is None else -1,
        "beats_heard": line.beats_heard,
        "beats_sent": line.beats_sent,
        "last_beat_ago_ms": ago(line.beat_ms) if line.beats_heard else -1,
        "is_owed": line.is_owed,
    }


def _state(line: _Line) -> str:
    return "none" if line.connection is None else "open"
