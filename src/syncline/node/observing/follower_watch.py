"""Which followers fetch from a leader, and which are missing.

A follower fetches again as soon as it has its answer, so one that has not fetched
for long is missing: dead, paused, or behind a cut connection. To distinguish these,
leader and follower send each other *beats*, but only while one misses the other: a
few bytes on the connection that the fetches use, which need no answer. Which beats
arrive shows which direction of a connection is cut.

The hot path is two calls per fetch request, each a look-up and some stores.
Times in ms of the node's monotonic clock.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from syncline.core.replication.known_brokers import KnownBrokers
from syncline.model.events import Json
from syncline.model.ids import TopicPartition
from syncline.node.clock import Clock
from syncline.node.counting.episodes import Episodes
from syncline.node.metadata.cluster_view import ClusterView
from syncline.node.metadata.live_configs import LiveConfigs

if TYPE_CHECKING:
    from syncline.model.metadata import MetadataImage
    from syncline.node.partitions.partition import Partition

# Beyond a follower's own pause after a refusal.
PATIENCE_MS: Final = 500
NEVER_MS: Final = -(1 << 60)


class BeatingConnection(Protocol):
    """A connection over which this leader can send a follower a beat."""

    def beat(self) -> None:
        """Send a beat, which no request asked for."""


class _Follower:
    """What a leader knows about one follower's fetches."""

    __slots__ = (
        "answered_ms",
        "beat_ms",
        "beats_heard",
        "beats_sent",
        "connection",
        "expected_ms",
        "is_pending",
        "last_fetch_ms",
        "lost_ms",
    )

    def __init__(self) -> None:
        self.connection: BeatingConnection | None = None
        self.last_fetch_ms = NEVER_MS
        self.answered_ms = NEVER_MS
        self.lost_ms = NEVER_MS
        # Since when it has something to fetch from this broker; NEVER_MS: nothing.
        self.expected_ms = NEVER_MS
        self.is_pending = False
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
        self._followers: dict[int, _Follower] = {}
        self._image: MetadataImage | None = None

    def fetched(self, replica: int, connection: BeatingConnection, now_ms: int) -> None:
        """Record a follower's fetch."""
        follower = self._followers.get(replica)
        if follower is None:
            if replica not in self._cluster.image.brokers:
                return
            follower = self._followers[replica] = _Follower()
        follower.connection = connection
        follower.last_fetch_ms = now_ms
        follower.is_pending = True

    def answered(self, replica: int, connection: BeatingConnection) -> None:
        """Record the answer to a fetch, unless the follower uses another connection by now."""
        follower = self._followers.get(replica)
        if follower is not None and follower.connection is connection:
            follower.answered_ms = self._clock.mono_ms()
            follower.is_pending = False

    def connection_lost(self, connection: BeatingConnection) -> None:
        """Record that a connection has ended."""
        for follower in self._followers.values():
            if follower.connection is connection:
                follower.connection = None
                follower.is_pending = False
                follower.lost_ms = self._clock.mono_ms()

    def beat_came(self, replica: int, connection: BeatingConnection) -> None:
        """Record that a follower misses this leader, and send it a beat."""
        follower = self._followers.get(replica)
        if follower is not None:
            follower.beats_heard += 1
            follower.beat_ms = self._clock.mono_ms()
        connection.beat()

    def last_fetch(self, replica: int) -> tuple[int | None, bool]:
        """Return when a follower last fetched, and whether it waits for the answer."""
        follower = self._followers.get(replica)
        if follower is None or follower.last_fetch_ms == NEVER_MS:
            return None, False
        return follower.last_fetch_ms, follower.is_pending

    def views(self, now_ms: int) -> list[dict[str, Json]]:
        """Return the state of each follower."""
        return [
            {"broker": replica, **_numbers(follower, now_ms)} for replica, follower in sorted(self._followers.items())
        ]

    def look(self, now_ms: int, *, judges: bool) -> None:
        """Report missing followers, and send them beats; without `judges`, only record which brokers should fetch."""
        if self._image is not self._cluster.image:
            self._image = self._cluster.image
            self._expect(now_ms)
        if not judges:
            return
        patience_ms = self._configs.broker.replica_fetch_backoff_ms + PATIENCE_MS
        for replica, follower in self._followers.items():
            name = ("follower-silent", replica)
            if follower.is_pending or follower.expected_ms == NEVER_MS:
                self._end(name, follower, now_ms)
                continue
            since_ms = max(follower.last_fetch_ms, follower.answered_ms, follower.expected_ms)
            if now_ms - since_ms <= patience_ms:
                self._end(name, follower, now_ms)
                continue
            if not self._episodes.is_open(name):
                if not self._known_brokers.is_unfenced(replica) and follower.connection is None:  # type: ignore[arg-type]
                    # The controller has fenced it and journalled the reason.
                    continue
                follower.beats_heard = follower.beats_sent = 0
            if follower.connection is not None:
                follower.beats_sent += 1
                follower.connection.beat()
            self._episodes.hold(
                name,
                "follower-silent",
                replica,
                since_ms,
                lambda follower=follower: _numbers(follower, now_ms),  # type: ignore[misc]
            )

    def _end(self, name: tuple[str, int], follower: _Follower, now_ms: int) -> None:
        self._episodes.end(name, lambda: _numbers(follower, now_ms))

    def _expect(self, now_ms: int) -> None:
        """Record which brokers have something to fetch from this one."""
        expected: dict[int, None] = {}
        for partition in self._partitions.values():
            if partition.leader is not None:
                for each in partition.leader.followers:
                    expected[each.broker_id] = None
        for replica, follower in self._followers.items():
            if replica not in expected:
                follower.expected_ms = NEVER_MS
        for replica in expected:
            follower = self._followers.get(replica) or _Follower()
            self._followers[replica] = follower
            if follower.expected_ms == NEVER_MS:
                follower.expected_ms = now_ms


def _numbers(follower: _Follower, now_ms: int) -> dict[str, Json]:
    """Return the figures of a follower as evidence; -1 means never."""

    def ago(at_ms: int) -> int:
        return -1 if at_ms == NEVER_MS else now_ms - at_ms

    return {
        "connection": "lost" if follower.connection is None and follower.lost_ms != NEVER_MS else _state(follower),
        "last_fetch_ago_ms": ago(follower.last_fetch_ms),
        "lost_ago_ms": ago(follower.lost_ms) if follower.connection is None else -1,
        "beats_heard": follower.beats_heard,
        "beats_sent": follower.beats_sent,
        "last_beat_ago_ms": ago(follower.beat_ms) if follower.beats_heard else -1,
        "is_owed": follower.is_pending,
    }


def _state(follower: _Follower) -> str:
    return "none" if follower.connection is None else "open"
