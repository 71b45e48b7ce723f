"""The active controller: decides, commits, applies, answers; in this order.

It decides at once, and answers when the decision and everything that it rests on is committed (`commits.py`). Then
the committed image advances, the brokers that wait for metadata get it (`metadata_feed.py`), the requester is answered,
and the journal gets the decision's events. So no answer contains anything that a successor would not know.

A commit refused because the lease is lost ends this controller at once: it answers all uncommitted requests with
NOT_CONTROLLER, and none of them has had an effect.

Time comes from the loop's timers and the injected clock (`rounds.py`). Besides time, the only evidence of a death is a
refused connection (`death_watch.py`).
"""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from uuid import UUID

from syncline.coordination.port import Batch, Coordination, Lease
from syncline.core.cluster.broker_lifecycle import Registration, RegistrationAnswer, register
from syncline.core.cluster.broker_sessions import BrokerSessions
from syncline.core.cluster.decision import Decision, Why
from syncline.core.cluster.demotions import Demotions
from syncline.model.broker_config import BrokerConfig
from syncline.model.errors import ErrorCode
from syncline.model.events import Event
from syncline.model.ids import BrokerEpoch, BrokerId
from syncline.model.metadata import (
    CLUSTER_DEFAULTS,
    BrokerRecord,
    Change,
    ClusterCreated,
    ConfigsChanged,
    ControllerChanged,
    MetadataImage,
)
from syncline.model.reasons import Reason
from syncline.node.clock import Clock
from syncline.node.controller.broker_watch import BrokerWatch
from syncline.node.controller.cluster_ids import new_cluster_id, new_topic_id
from syncline.node.controller.commits import Answered, Commits, Decide, ignore, refuse
from syncline.node.controller.death_watch import DeathWatches
from syncline.node.controller.decision_journal import DecisionJournal
from syncline.node.controller.fencings import Fencings
from syncline.node.controller.metadata_feed import MetadataFeed, PollAnswer
from syncline.node.controller.private_messages import Poll, encode_no_news
from syncline.node.controller.registrations import Registrations
from syncline.node.controller.rounds import Rounds
from syncline.node.controller.stop_together import StopAnswer, StopTogether
from syncline.node.links.links import Links

log = logging.getLogger("syncline.controller")


class ActiveController:
    """The controller role, while this broker holds the lease."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        rng: random.Random,
        coordination: Coordination,
        lease: Lease,
        config: BrokerConfig,
        broker_id: BrokerId,
        incarnation_id: UUID,
        on_event: Callable[[Event], None],
        on_deposed: Callable[[], None],
        links: Links | None = None,
        check_invariants: bool = False,
    ) -> None:
        self.config = config
        self.clock = clock
        self.sessions = BrokerSessions(config.broker_session_timeout_ms)
        # Leaders that relinquished partitions (KIP-501); like sessions, only this controller knows them.
        self.demotions = Demotions()
        self.lease_epoch = lease.lease_epoch
        self.registrations = Registrations(loop)
        self._rng = rng
        self._coordination = coordination
        self._broker_id = broker_id
        self._incarnation_id = incarnation_id
        self._journal = DecisionJournal(loop, clock, broker_id, on_event)
        self._on_deposed = on_deposed
        self._commits = Commits(
            loop,
            coordination,
            lease.image,
            lease.lease_epoch,
            on_moved=self._moved,
            on_answered=self._journal.committed,
            on_lease_lost=self.depose,
            check_invariants=check_invariants,
        )
        self._feed = MetadataFeed(lease.lease_epoch)
        self._broker_watch = BrokerWatch(broker_id, clock, on_event)
        self.fencings = Fencings(self._commits, lambda: self.config)
        self._stops = StopTogether(loop, self._commits)
        self._deaths = DeathWatches(
            loop, broker_id, links or Links(), on_gone=self._found_gone, on_looked=self.registrations.looked_at
        )
        _warn_of_bounces(config)
        self.rounds = self._take_over(loop, lease)

    def _take_over(self, loop: asyncio.AbstractEventLoop, lease: Lease) -> Rounds:
        now_ms = self.clock.mono_ms()
        brokers = lease.image.brokers
        for record in brokers.values():
            self.sessions.begin(record.broker_id, record.broker_epoch, now_ms)
        self._inaugurate()
        if lease.silent is not None and lease.silent != self._broker_id:
            self.fencings.fence(lease.silent, Why(Reason.LEASE_HOLDER_SILENT))
        rounds = Rounds(
            loop,
            self.clock,
            commits=self._commits,
            sessions=self.sessions,
            demotions=self.demotions,
            fencings=self.fencings,
            stops=self._stops,
            broker_watch=self._broker_watch,
            config=lambda: self.config,
            renew=self._renew,
            inaugurate=self._inaugurate_again,
        )
        self._deaths.follow(brokers)
        self.registrations.hold_for(
            record.broker_id
            for record in brokers.values()
            if not record.fenced and record.broker_id not in {self._broker_id, lease.silent}
        )
        return rounds

    def __repr__(self) -> str:
        return (
            f"<controller {self._broker_id}, lease {self.lease_epoch}, version {self.image.version},"
            f" {self._commits.waiting_count} decisions wait{'' if self.is_active else ', over'}>"
        )

    @property
    def is_active(self) -> bool:
        """Whether this broker is still the controller, as far as it knows."""
        return self._commits.is_open

    @property
    def is_starting(self) -> bool:
        """Whether the cluster is starting again after all brokers stopped together."""
        return self.rounds.is_starting

    @property
    def image(self) -> MetadataImage:
        """The committed state."""
        return self._commits.committed

    @property
    def timed_out_count(self) -> int:
        """How many brokers were fenced because they were silent, for the metrics."""
        return self.rounds.timed_out_count

    def below(self, bound: int) -> int:
        """Return a random number from 0 up to, not including, `bound`."""
        return self._rng.randrange(bound)

    def new_topic_id(self) -> UUID:
        """Return the id of a topic to be created."""
        return new_topic_id(self._rng)

    @property
    def unclean_election_count(self) -> int:
        """Return how many elections may have lost records."""
        return self._journal.unclean_election_count

    def set_config(self, config: BrokerConfig) -> None:
        """Use this broker's configuration for what the cluster's metadata does not set."""
        if not self.config.quick_bounce_enable:
            _warn_of_bounces(config)
        self.config = config

    def decide(self, decide: Decide, answered: Answered, *, proposed_by_leader: bool = False) -> None:
        """Make a decision; `answered` gets its answer, or None if this broker is no longer the controller."""
        self._commits.decide(decide, answered, proposed_by_leader=proposed_by_leader)

    def register(self, registration: Registration, answered: Answered) -> None:
        """Register a broker process, once this controller knows which other processes are gone."""
        if self.registrations.are_held and self.is_active:
            self.registrations.hold(lambda: self.register(registration, answered))
            return
        # Two processes cannot listen on one port, so the process before the one that registers with it is gone. And
        # this broker's own process is the only one on its data directory. (Its earlier registration is not fenced
        # before the others are checked: after an outage of all brokers, the last one to leave an ISR may lead first.)
        known = self._commits.tentative.brokers.get(registration.broker_id)
        endpoint = (registration.internal_host, registration.internal_port)
        predecessor_gone = registration.incarnation_id == self._incarnation_id.hex or (
            known is not None and (known.internal_host, known.internal_port) == endpoint
        )

        def decide(image: MetadataImage, version: int) -> Decision[RegistrationAnswer]:
            return register(
                image,
                self.sessions,
                registration,
                self.config,
                version=version,
                now_ms=self.clock.mono_ms(),
                predecessor_gone=predecessor_gone,
            )

        self.decide(decide, answered)

    def poll(self, poll: Poll, answer: PollAnswer) -> None:
        """Answer with the changes after the broker's version, once there are some."""
        if not self.is_active:
            answer(encode_no_news(ErrorCode.NOT_CONTROLLER))
            return
        now_ms = self.clock.mono_ms()
        self.sessions.saw_metadata(poll.broker_id, poll.broker_epoch, poll.version)
        session = self.sessions.of(poll.broker_id)
        if session is not None and session.broker_epoch == poll.broker_epoch:
            self.sessions.touch(poll.broker_id, now_ms)
            if poll.version == self.image.version:
                session.caught_up_ms = now_ms
        self._feed.poll(poll, answer, self.image)

    def stop_together(self, broker_id: BrokerId, broker_epoch: BrokerEpoch, answer: StopAnswer) -> None:
        """Record that a broker is ready to stop with all others; answer when all are."""
        self._stops.ready(broker_id, broker_epoch, answer)

    def check_invariants(self) -> None:
        """Assert what must hold between two callbacks of the loop."""
        if self.is_active:
            self._commits.check_invariants()
            self._feed.check_invariants(self.image)

    def depose(self) -> None:
        """Stop at once: another broker has the lease."""
        log.warning("broker %s is no longer the controller: lease %s is over", self._broker_id, self.lease_epoch)
        self.stop()
        self._on_deposed()

    def stop(self) -> None:
        """Stop being the controller; refuse every waiting request."""
        if not self.is_active:
            return
        undecided = self._commits.close()
        self.rounds.stop()
        self.registrations.stop()
        self._deaths.stop()
        self._stops.answer_all(ErrorCode.NOT_CONTROLLER)
        refuse(undecided)
        self.registrations.release()
        self._feed.close()

    def _renew(self) -> bool:
        is_renewed = self._coordination.renew(self.lease_epoch)
        if not is_renewed:
            self.depose()
        return is_renewed

    def _inaugurate(self) -> None:
        self.decide(
            lambda image, _: Decision(self._inauguration(image), None, Why(Reason.CONTROLLER_TOOK_OVER)), ignore
        )

    def _inaugurate_again(self) -> None:
        """Record this controller in the metadata, if the store could not write that before."""
        image = self._commits.tentative
        if (image.controller_id, image.controller_epoch) != (self._broker_id, self.lease_epoch):
            self._inaugurate()

    def _inauguration(self, image: MetadataImage) -> tuple[Change, ...]:
        changes: list[Change] = []
        if not image.cluster_id:
            changes.append(ClusterCreated(new_cluster_id(self._rng)))
        changes.append(ControllerChanged(self._broker_id, self.lease_epoch))
        if self.config.eligible_leader_replicas_enable and "min.insync.replicas" not in image.cluster_configs():
            # Eligibility depends on it, so it must not differ from broker to broker (KIP-966).
            minimum = str(self.config.min_insync_replicas)
            changes.append(ConfigsChanged(CLUSTER_DEFAULTS, {"min.insync.replicas": minimum}))
        return tuple(changes)

    def _moved(self, batches: Sequence[Batch]) -> None:
        """Send the committed changes to the brokers; the requesters are answered afterwards."""
        image = self.image
        self._feed.remember(batches)
        self._broker_watch.committed(image.version)
        self._deaths.follow(image.brokers)
        self._feed.spread(image)

    def _found_gone(self, record: BrokerRecord) -> None:
        if self.config.quick_bounce_enable:
            return  # Its next process is to find everything as if nothing had happened.
        known = self.image.brokers.get(record.broker_id, record)
        # A broker with one disk ends when that fails.
        numbers = {"failed_count": len(known.failed)} if known.failed else {}
        self.fencings.fence_process(record.broker_id, record.broker_epoch, Why(Reason.PROCESS_GONE, numbers))


def _warn_of_bounces(config: BrokerConfig) -> None:
    if config.quick_bounce_enable:
        log.warning(
            "quick.bounce.enable is on: a restarted broker counts as in sync whatever it lost, and a broker "
            "that died is not fenced before its session ends. Committed records can be lost. Use it for "
            "demonstrations only."
        )
