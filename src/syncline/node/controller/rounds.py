"""What a controller does periodically.

In each round, several times per session timeout: renew the lease, decide again what could not be committed, end the
rest of a cluster that has just started, fence the broker that was silent for longest. At intervals of their own:
elect preferred leaders, and unclean leaders where that is allowed.

A round that runs much too late shows that this process did not run: the brokers' silence meanwhile proves nothing,
so each gets a new session.

Units: monotonic ms.
"""

import asyncio
from collections.abc import Callable
from typing import Final
from uuid import UUID

from syncline.core.cluster.broker_sessions import BrokerSessions
from syncline.core.cluster.decision import Decision, Why
from syncline.core.cluster.demotions import Demotions
from syncline.core.cluster.standing import is_at_rest, preferred_elections, rest_ends, unclean_elections
from syncline.model.broker_config import BrokerConfig
from syncline.model.ids import BrokerId
from syncline.model.metadata import MetadataImage
from syncline.model.reasons import Reason
from syncline.node.clock import Clock
from syncline.node.controller.broker_watch import BrokerWatch
from syncline.node.controller.commits import Commits, ignore
from syncline.node.controller.fencings import Fencings
from syncline.node.controller.stop_together import StopTogether

# How long partitions of a cluster that stopped as a whole wait for their in-sync sets.
START_S: Final = 1.0


class Rounds:
    """The timers of one controller."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        *,
        commits: Commits,
        sessions: BrokerSessions,
        demotions: Demotions,
        fencings: Fencings,
        stops: StopTogether,
        broker_watch: BrokerWatch,
        config: Callable[[], BrokerConfig],
        renew: Callable[[], bool],
        inaugurate: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._commits = commits
        self._sessions = sessions
        self._demotions = demotions
        self._fencings = fencings
        self._stops = stops
        self._broker_watch = broker_watch
        self._config = config
        # Returns False when the lease is another broker's, and this controller has stopped.
        self._renew = renew
        # Records this controller in the metadata, if the store could not write that before.
        self._inaugurate = inaugurate
        self.timed_out_count = 0
        now_ms = clock.mono_ms()
        records = (record for topic in commits.committed.topics.values() for record in topic.partitions)
        is_resting = any(is_at_rest(record) for record in records)
        self._starting_until_ms = now_ms + int(START_S * 1_000) if is_resting else None
        self._renewed_ms = self._balanced_ms = self._unclean_ms = self._ticked_ms = now_ms
        self._tick_s = max(0.01, min(0.5, config().broker_session_timeout_ms / 18_000))
        self._timer = loop.call_later(self._tick_s, self.tick)

    @property
    def is_starting(self) -> bool:
        """Return whether the cluster is starting again after all brokers stopped together."""
        return self._starting_until_ms is not None

    def stop(self) -> None:
        """Cancel the timers."""
        self._timer.cancel()

    def tick(self) -> None:
        """Do what is due; called by the timer and by tests."""
        if not self._commits.is_open:
            return
        self._timer = self._loop.call_later(self._tick_s, self.tick)
        config = self._config()
        now_ms = self._clock.mono_ms()
        if now_ms - self._ticked_ms > 2_000 * self._tick_s + 1_000:
            for broker_id in self._commits.tentative.brokers:
                self._sessions.touch(broker_id, now_ms)
        self._ticked_ms = now_ms
        if now_ms - self._renewed_ms >= config.broker_heartbeat_interval_ms / 2:
            self._renewed_ms = now_ms
            if not self._renew():
                return
        self._inaugurate()
        self._fencings.redo_lost()
        self._end_rest(now_ms)
        self._stops.stop_if_all_are_ready()
        self._end_sessions(now_ms)
        self._elect(now_ms)

    def _end_rest(self, now_ms: int) -> None:
        if self._starting_until_ms is not None and now_ms >= self._starting_until_ms:
            self._starting_until_ms = None
            self._commits.decide(
                lambda image, _: Decision(rest_ends(image, self._config()), None, Why(Reason.MEMBER_ABSENT)),
                ignore,
            )

    def _end_sessions(self, now_ms: int) -> None:
        committed, tentative = self._commits.committed, self._commits.tentative
        unfenced = [broker for broker, record in tentative.brokers.items() if not record.fenced]
        interval_ms = self._config().broker_heartbeat_interval_ms
        self._broker_watch.look(unfenced, self._sessions, committed.version, interval_ms)
        overdue = self._sessions.expired(unfenced, now_ms)
        if overdue is not None:
            self.timed_out_count += 1
            numbers = {
                "timeout_ms": self._sessions.session_timeout_ms,
                "silent_ms": self._sessions.silent_ms(overdue, now_ms),
            }
            self._fencings.fence(overdue, Why(Reason.SESSION_TIMED_OUT, numbers))

    def _elect(self, now_ms: int) -> None:
        config = self._config()
        if now_ms - self._balanced_ms >= config.leader_imbalance_check_interval_seconds * 1_000:
            self._balanced_ms = now_ms
            if config.auto_leader_rebalance_enable:
                self._commits.decide(lambda image, _: self._balanced(image, now_ms), ignore)
        if now_ms - self._unclean_ms >= config.unclean_leader_election_interval_ms:
            self._unclean_ms = now_ms
            self._commits.decide(
                lambda image, _: Decision(unclean_elections(image, self._config()), None, Why(Reason.UNCLEAN_ALLOWED)),
                ignore,
            )

    def _balanced(self, image: MetadataImage, now_ms: int) -> Decision[None]:
        def is_demoted(topic_id: UUID, partition: int, broker_id: BrokerId) -> bool:
            return self._demotions.is_demoted(topic_id, partition, broker_id, image, now_ms)

        return Decision(
            preferred_elections(image, self._config(), is_demoted), None, Why(Reason.PREFERRED_REPLICA_BACK)
        )
