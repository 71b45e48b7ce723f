"""The observer: what this broker notices about itself and others, for later explanations.

Events of decisions show what was decided; only observations distinguish the causes.
Once per second, and more often while something is unusual, the observer checks what
the other parts have recorded (when a fetch was sent, when one arrived). It decides
nothing.

A check that runs late shows that this process did not run. The silence of other
brokers in that time proves nothing about them.

Times in ms of the node's monotonic clock.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from syncline.core.replication.known_brokers import KnownBrokers
from syncline.model.events import Event, Json
from syncline.model.ids import BrokerId, TopicPartition
from syncline.node.clock import Clock, StoppedMs
from syncline.node.counting.disk_watch import DiskWatch
from syncline.node.counting.episodes import Episodes
from syncline.node.metadata.cluster_view import ClusterView
from syncline.node.metadata.live_configs import LiveConfigs
from syncline.node.observing.follower_watch import FollowerWatch

if TYPE_CHECKING:
    from syncline.core.replication.effects import ProposeIsr
    from syncline.node.partitions.partition import Partition

log = logging.getLogger("syncline.node")

LOOK_MS: Final = 1_000
# The interval while something is unusual; beats are sent as often.
CLOSE_LOOK_MS: Final = 250
# Report a loop that did not run for longer than this.
STALL_MS: Final = 1_000
# A check that runs later than this does not judge other brokers.
LATE_MS: Final = 300
# How long a fetch may be unanswered beyond its long poll, and a request to the controller altogether.
PATIENCE_MS: Final = 1_000


class BeatingLeaderConnection(Protocol):
    """What beats use of the connection to one leader."""

    def beat(self) -> None:
        """Send a beat: this follower is alive and misses its leader."""

    def forget_beats(self) -> None:
        """Restart the counts of beats at 0."""


class ObservedLeader(Protocol):
    """The fetcher of one leader, as the observer sees it."""

    @property
    def unanswered_since_ms(self) -> int | None:
        """Return since when the leader has not answered, or cannot be reached; None while it answers."""

    @property
    def connection(self) -> "BeatingLeaderConnection":
        """Return the connection to the leader."""

    def describe(self) -> dict[str, Json]:
        """Return the state of the connection, for an event."""


class ObservedController(Protocol):
    """The channel to the controller, as the observer sees it."""

    @property
    def unanswered_since_ms(self) -> int | None:
        """Return since when the controller has not answered, or cannot be reached; None while it answers."""

    @property
    def is_connected(self) -> bool:
        """Whether this broker is connected and registered."""


class Observer:
    """The observations of one broker."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        cluster: ClusterView,
        configs: LiveConfigs,
        known_brokers: KnownBrokers,
        partitions: "Mapping[TopicPartition, Partition]",
        leaders: Mapping[int, ObservedLeader],
        controller: ObservedController,
        note: Callable[[Event], None],
        stopped_ms: StoppedMs,
    ) -> None:
        self._broker_id = broker_id
        self._loop = loop
        self._clock = clock
        self._cluster = cluster
        self._configs = configs
        self._partitions = partitions
        self._leaders = leaders
        self._controller = controller
        self.episodes = Episodes(broker_id, clock, note)
        self.disk_watch = DiskWatch(broker_id, clock, self.episodes, stopped_ms)
        self.followers = FollowerWatch(
            clock=clock,
            cluster=cluster,
            configs=configs,
            known_brokers=known_brokers,
            partitions=partitions,
            episodes=self.episodes,
        )
        self._timer: asyncio.TimerHandle | None = None
        self._due_ms = 0
        # ISR proposals without an answer, and since when.
        self._proposed: dict[TopicPartition, tuple[ProposeIsr, int]] = {}

    def start(self) -> None:
        """Start the periodic check."""
        self._arm(LOOK_MS)

    def close(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def proposed(self, key: TopicPartition, proposal: "ProposeIsr") -> None:
        """Record that an ISR was proposed."""
        self._proposed[key] = (proposal, self._clock.mono_ms())

    def proposal_answered(self, key: TopicPartition) -> None:
        """Record that the controller has answered."""
        self._proposed.pop(key, None)
        self.episodes.end(("proposal", key))

    def catching_up(self, partition: "Partition", since_ms: int, leader: int, leader_end: int) -> bool:
        """Report how far an empty log has been filled; return whether it has yet to catch up."""
        log_, name = partition.log, ("catching-up", partition.key)
        took_ms = max(1, self._clock.mono_ms() - since_ms)
        evidence: dict[str, Json] = {
            "leader": leader,
            "log_start": log_.log_start,
            "log_end": log_.log_end,
            "leader_end": leader_end,
            "records_per_s": 1_000 * (log_.log_end - log_.log_start) // took_ms,
        }
        if leader_end > log_.log_start:
            self.episodes.hold(name, "catching-up", self._broker_id, since_ms, lambda: evidence, partition.key)
        if log_.log_end >= leader_end:
            self.episodes.end(name, lambda: evidence)
            return False
        return True

    def catching_up_ended(self, key: TopicPartition) -> None:
        """Report that an empty log has caught up or is no longer being filled."""
        self.episodes.end(("catching-up", key))

    def _arm(self, delay_ms: int) -> None:
        self._due_ms = self._clock.mono_ms() + delay_ms
        self._timer = self._loop.call_later(delay_ms / 1_000, self._fire)

    def _fire(self) -> None:
        late_ms = self._clock.mono_ms() - self._due_ms
        try:
            self._look(late_ms)
        except Exception:
            log.exception("the periodic check failed")
        is_unusual = len(self.episodes) > 0 or self.disk_watch.is_busy or late_ms > LATE_MS or self._is_suspicious()
        self._arm(CLOSE_LOOK_MS if is_unusual else LOOK_MS)

    def _look(self, late_ms: int) -> None:
        now_ms = self._clock.mono_ms()
        held_ms, held_by = self.disk_watch.take_held()
        if late_ms > STALL_MS:
            self.episodes.over(
                "stall",
                self._broker_id,
                now_ms - late_ms,
                now_ms,
                {"held_by_disk_ms": min(held_ms, late_ms), **held_by},
            )
        self.disk_watch.look(now_ms)
        judges = late_ms <= LATE_MS
        self.followers.look(now_ms, judges=judges)
        if judges:
            self._look_at_leaders(now_ms)
            self._look_at_controller(now_ms)
            self._look_at_proposals(now_ms)

    def _is_suspicious(self) -> bool:
        """Return whether an answer takes longer than usual, so that the next check should be soon."""
        now_ms = self._clock.mono_ms()
        controller_since_ms = self._controller.unanswered_since_ms
        if controller_since_ms is not None and now_ms - controller_since_ms > LATE_MS:
            return True
        usual_ms = self._configs.broker.replica_fetch_wait_max_ms + LATE_MS
        return any(
            since_ms is not None and now_ms - since_ms > usual_ms
            for since_ms in [fetcher.unanswered_since_ms for fetcher in self._leaders.values()]
        )

    def _look_at_leaders(self, now_ms: int) -> None:
        patience_ms = self._configs.broker.replica_fetch_wait_max_ms + PATIENCE_MS
        for leader_id, fetcher in self._leaders.items():
            name = ("leader-silent", leader_id)
            since_ms = fetcher.unanswered_since_ms
            if since_ms is None or now_ms - since_ms <= patience_ms:
                self.episodes.end(name, fetcher.describe)
                continue
            if not self.episodes.is_open(name):
                fetcher.connection.forget_beats()
            fetcher.connection.beat()
            self.episodes.hold(name, "leader-silent", leader_id, since_ms, fetcher.describe)

    def _look_at_controller(self, now_ms: int) -> None:
        since_ms = self._controller.unanswered_since_ms
        if since_ms is None or now_ms - since_ms <= PATIENCE_MS:
            self.episodes.end("controller", self._describe_controller)
            return
        self.episodes.hold(
            "controller",
            "controller-unreachable",
            self._cluster.image.controller_id,
            since_ms,
            self._describe_controller,
        )

    def _describe_controller(self) -> dict[str, Json]:
        return {
            "connection": "open" if self._controller.is_connected else "none",
            "controller": self._cluster.image.controller_id,
            "metadata_version": self._cluster.image.version,
            "proposals_waiting": len(self._proposed),
        }

    def _look_at_proposals(self, now_ms: int) -> None:
        for key, (proposal, since_ms) in list(self._proposed.items()):
            partition = self._partitions.get(key)
            leader = None if partition is None else partition.leader
            if leader is None or leader.in_sync.pending is None:
                self.proposal_answered(key)
            elif now_ms - since_ms > PATIENCE_MS:
                self.episodes.hold(
                    ("proposal", key),
                    "proposal-pending",
                    self._cluster.image.controller_id,
                    since_ms,
                    lambda proposal=proposal, isr=leader.isr: {  # type: ignore[misc]
                        "change": proposal.kind.value,
                        "rule": proposal.evidence.rule,
                        "isr": list(isr),
                        "proposed": list(proposal.broker_ids),
                    },
                    key,
                )
