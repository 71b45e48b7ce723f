"""The active controller: decides, commits, applies, answers; in this order.

A decision is taken at once, on the *tentative* image: the committed one with
all decisions before it, so that decisions need not wait for each other's
commits. While a commit is under way, those that follow gather and make up the
next one. When a commit is done its batches become the committed image, go out
to the brokers that wait for news, and only then are the answers given, also to
those that changed nothing but rested on what was not committed yet.

A commit refused for a lost lease ends this controller on the spot: everything
not yet committed is answered with NOT_CONTROLLER, and nothing was done.

Time comes from the loop's timers and the injected clock. The world's only
evidence beside time is `death_watch`.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from syncline.coordination.port import Batch, Coordination, Lease, LeaseLost
from syncline.core.cluster.broker_lifecycle import Registration, RegistrationAnswer, fence, register, stop_together
from syncline.core.cluster.broker_sessions import BrokerSessions
from syncline.core.cluster.decision import Decision, Why
from syncline.core.cluster.decision_events import events_of
from syncline.core.cluster.demotions import Demotions
from syncline.core.cluster.standing import is_at_rest, preferred_elections, rest_ends, unclean_elections
from syncline.model.broker_config import BrokerConfig
from syncline.model.errors import ErrorCode
from syncline.model.events import Election, Event
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
from syncline.model.metadata_json import encode_changes
from syncline.model.reasons import Reason
from syncline.node.clock import Clock
from syncline.node.controller.broker_watch import BrokerWatch
from syncline.node.controller.cluster_ids import new_cluster_id, new_topic_id
from syncline.node.controller.death_watch import DeathWatch
from syncline.node.controller.private_messages import (
    Poll,
    encode_deltas,
    encode_no_news,
    encode_snapshot,
)
from syncline.node.links import Links

log = logging.getLogger("syncline.controller")

# Batches kept for brokers that lag behind; one that lags further takes a snapshot.
HISTORY_BATCHES_MAX: Final = 1_000
# Batches after which the store is given a snapshot.
COMPACT_AFTER_BATCHES: Final = 2_000
# How long a new controller holds registrations back until it knows which brokers are gone.
FIRST_LOOK_S: Final = 0.1
# How long partitions of a cluster that stopped as a whole wait for the broker that led them.
START_S: Final = 1.0
# How long brokers of a cluster that stops wait for each other before each leaves by itself.
STOP_TOGETHER_S: Final = 2.0

Decide = Callable[[MetadataImage, int], Decision[Any]]
# Called with the decision's answer, or None when this broker is not the controller any more.
Answered = Callable[[Any], None]
PollAnswer = Callable[[bytes], None]


class _Pending(NamedTuple):
    """A decision that waits for its commit; `changes` may be empty."""

    version: int
    before: MetadataImage
    after: MetadataImage
    changes: Sequence[Change]
    answer: Any
    answered: Answered
    why: Why
    proposed_by_leader: bool


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
    ) -> None:
        self.config = config
        self.clock = clock
        self.sessions = BrokerSessions(config.broker_session_timeout_ms)
        # Leaders that gave partitions up (KIP-501); as with sessions, the memory of this controller alone.
        self.demotions = Demotions()
        self.lease_epoch = lease.lease_epoch
        self._loop = loop
        self._rng = rng
        self._coordination = coordination
        self._broker_id = broker_id
        self._incarnation_id = incarnation_id
        self._on_event = on_event
        self._on_deposed = on_deposed
        self._links = links or Links()
        # For the metrics: brokers fenced for their silence, and elections that may have lost records.
        self.timed_out_count = 0
        self.unclean_election_count = 0
        self._committed = lease.image
        self._tentative = lease.image
        self._history: deque[Batch] = deque(maxlen=HISTORY_BATCHES_MAX)
        self._batches_since_snapshot = 0
        self._waiting: list[_Pending] = []
        self._in_commit: list[_Pending] = []
        self._polls: dict[BrokerId, tuple[Poll, PollAnswer]] = {}
        self._watches: dict[BrokerId, tuple[BrokerRecord, DeathWatch]] = {}
        # Brokers to be fenced whose fencing could not be written: their epoch, and why.
        self._lost_fencings: dict[BrokerId, tuple[BrokerEpoch, Why]] = {}
        self._unlooked: set[BrokerId] = set()
        self._held_registrations: list[Callable[[], None]] = []
        # The connection over which each broker registered last.
        self._lines: dict[BrokerId, object] = {}
        self._broker_watch = BrokerWatch(broker_id, clock, on_event)
        # Brokers of a cluster that stops as a whole, ready to do so: their epochs, and who waits for the word.
        self._ready_to_stop: dict[BrokerId, tuple[BrokerEpoch, Callable[[ErrorCode], None]]] = {}
        self._stop_timer: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._first_look: asyncio.TimerHandle | None = None
        self._is_active = True
        _warn_of_bounces(config)
        self._start(lease.silent)

    @property
    def is_active(self) -> bool:
        """Whether this is still the controller, as far as it knows."""
        return self._is_active

    @property
    def is_starting(self) -> bool:
        """Whether the cluster has just begun to start after all of it was stopped."""
        return self._starting_until_ms is not None

    @property
    def image(self) -> MetadataImage:
        """The committed state."""
        return self._committed

    def below(self, bound: int) -> int:
        """Return a random number from 0 up to, not including, `bound`."""
        return self._rng.randrange(bound)

    def new_topic_id(self) -> UUID:
        """Return the id of a topic to be created."""
        return new_topic_id(self._rng)

    def decide(self, decide: Decide, answered: Answered, *, proposed_by_leader: bool = False) -> None:
        """Take a decision; `answered` gets its answer when everything that it rests on is committed."""
        if not self._is_active:
            self._loop.call_soon(answered, None)
            return
        before = self._tentative
        version = before.version + 1
        decision = decide(before, version)
        if not decision.changes:
            if before is self._committed:
                answered(decision.answer)
                return
            version = before.version
            after = before
        else:
            after = self._tentative = before.apply(decision.changes, version)
        self._waiting.append(
            _Pending(
                version, before, after, decision.changes, decision.answer, answered, decision.why, proposed_by_leader
            )
        )
        if not self._in_commit:
            self._commit()

    def speaks_over(self, broker_id: BrokerId, line: object) -> None:
        """Note the connection over which a broker registers: what still comes over an older one is void."""
        self._lines[broker_id] = line

    def is_heard_over(self, broker_id: BrokerId, line: object) -> bool:
        """Return whether `line` is the newest connection of that broker.

        A leader that was refused goes back to the ISR it had. Should an earlier copy of its proposal then arrive
        over a connection that it has given up, and be accepted, the watermark would pass a member that it does
        not know of. A client's forwarded request that is late in the same way could undo what that client did since.
        """
        return self._lines.get(broker_id) is line

    def register(self, registration: Registration, answered: Answered) -> None:
        """Register a broker process, as soon as it is known which other processes are gone."""
        if self._unlooked and self._is_active:
            self._held_registrations.append(lambda: self.register(registration, answered))
            return
        # Two processes cannot listen at one port: whoever registers with it has outlived the one before. And this
        # process itself has its data directory to itself. (It is not fenced before others are looked at: after an
        # outage of all, the last one to leave an ISR is the one that may lead first.)
        known = self._tentative.brokers.get(registration.broker_id)
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
        """Answer with what came after the broker's version; later, if nothing did."""
        if not self._is_active:
            answer(encode_no_news(ErrorCode.NOT_CONTROLLER))
            return
        now_ms = self.clock.mono_ms()
        self.sessions.saw_metadata(poll.broker_id, poll.broker_epoch, poll.version)
        session = self.sessions.of(poll.broker_id)
        if session is not None and session.broker_epoch == poll.broker_epoch:
            self.sessions.touch(poll.broker_id, now_ms)
            if poll.version == self._committed.version:
                session.caught_up_ms = now_ms
        earlier = self._polls.pop(poll.broker_id, None)
        if earlier is not None:
            earlier[1](encode_no_news(ErrorCode.NONE))
        if poll.version == self._committed.version:
            self._polls[poll.broker_id] = (poll, answer)
        else:
            answer(self._news_since(poll.version))

    def stop_together(
        self, broker_id: BrokerId, broker_epoch: BrokerEpoch, answer: Callable[[ErrorCode], None]
    ) -> None:
        """Take note that a broker appends nothing more; when that is true of all, none leads and all may stop."""
        self._ready_to_stop[broker_id] = (broker_epoch, answer)
        if self._stop_timer is None:
            self._stop_timer = self._loop.call_later(STOP_TOGETHER_S, self._answer_stops, ErrorCode.REQUEST_TIMED_OUT)
        self._stop_if_all_are_ready()

    def _stop_if_all_are_ready(self) -> None:
        serving = {each.broker_id: each.broker_epoch for each in self._tentative.brokers.values() if not each.fenced}
        ready = {broker_id: broker_epoch for broker_id, (broker_epoch, _) in self._ready_to_stop.items()}
        if not ready or any(ready.get(broker_id) != broker_epoch for broker_id, broker_epoch in serving.items()):
            return

        def answered(is_done: bool | None) -> None:
            self._answer_stops(ErrorCode.NONE if is_done else ErrorCode.NOT_CONTROLLER)

        self.decide(lambda image, _: stop_together(image), answered)

    def _answer_stops(self, error: ErrorCode) -> None:
        if self._stop_timer is not None:
            self._stop_timer.cancel()
            self._stop_timer = None
        waiting, self._ready_to_stop = self._ready_to_stop, {}
        for _, answer in waiting.values():
            answer(error)

    def set_config(self, config: BrokerConfig) -> None:
        """Take over this broker's configuration as the cluster's last resort."""
        if not self.config.quick_bounce_enable:
            _warn_of_bounces(config)
        self.config = config

    def stop(self) -> None:
        """Stop being the controller; whatever waits is told so."""
        if not self._is_active:
            return
        self._is_active = False
        for timer in (self._timer, self._first_look):
            if timer is not None:
                timer.cancel()
        for _, watch in self._watches.values():
            watch.stop()
        self._watches.clear()
        self._answer_stops(ErrorCode.NOT_CONTROLLER)
        undecided, self._waiting, self._in_commit = [*self._in_commit, *self._waiting], [], []
        for pending in undecided:
            _tell(pending, None)
        self._release_registrations()
        polls, self._polls = self._polls, {}
        for _, answer in polls.values():
            answer(encode_no_news(ErrorCode.NOT_CONTROLLER))

    # Taking over.

    def _start(self, silent: BrokerId | None) -> None:
        now_ms = self.clock.mono_ms()
        for record in self._committed.brokers.values():
            self.sessions.begin(record.broker_id, record.broker_epoch, now_ms)
        self._inaugurate()
        if silent is not None and silent != self._broker_id:
            self._fence(silent, Why(Reason.LEASE_HOLDER_SILENT))
        records = (record for topic in self._committed.topics.values() for record in topic.partitions)
        is_resting = any(is_at_rest(record) for record in records)
        self._starting_until_ms = now_ms + int(START_S * 1_000) if is_resting else None
        self._renewed_ms = self._balanced_ms = self._unclean_ms = self._ticked_ms = now_ms
        self._tick_s = max(0.01, min(0.5, self.config.broker_session_timeout_ms / 18_000))
        self._timer = self._loop.call_later(self._tick_s, self._tick)
        for record in self._committed.brokers.values():
            if not record.fenced and record.broker_id not in {self._broker_id, silent}:
                self._unlooked.add(record.broker_id)
        self._watch_brokers()
        if self._unlooked:
            self._first_look = self._loop.call_later(FIRST_LOOK_S, self._looked_long_enough)

    def _inaugurate(self) -> None:
        self.decide(
            lambda image, _: Decision(self._inauguration(image), None, Why(Reason.CONTROLLER_TOOK_OVER)), _ignore
        )

    def _inauguration(self, image: MetadataImage) -> tuple[Change, ...]:
        changes: list[Change] = []
        if not image.cluster_id:
            changes.append(ClusterCreated(new_cluster_id(self._rng)))
        changes.append(ControllerChanged(self._broker_id, self.lease_epoch))
        if self.config.eligible_leader_replicas_enable and "min.insync.replicas" not in image.cluster_configs():
            # Who is eligible depends on it, so it may not differ from broker to broker (KIP-966).
            minimum = str(self.config.min_insync_replicas)
            changes.append(ConfigsChanged(CLUSTER_DEFAULTS, {"min.insync.replicas": minimum}))
        return tuple(changes)

    def _looked_at(self, broker_id: BrokerId) -> None:
        self._unlooked.discard(broker_id)
        if not self._unlooked:
            # After the fencing that the look may lead to.
            self._loop.call_soon(self._release_registrations)

    def _looked_long_enough(self) -> None:
        self._unlooked.clear()
        self._release_registrations()

    def _release_registrations(self) -> None:
        held, self._held_registrations = self._held_registrations, []
        for register_now in held:
            register_now()

    # Committing.

    def _commit(self) -> None:
        while self._waiting and not self._waiting[0].changes:
            # Nothing before it is uncommitted any more.
            pending = self._waiting.pop(0)
            _tell(pending, pending.answer)
        if not self._waiting or self._in_commit or not self._is_active:
            return
        self._in_commit, self._waiting = self._waiting, []
        batches = [Batch(each.version, encode_changes(each.changes)) for each in self._in_commit if each.changes]
        self._coordination.commit(batches, self.lease_epoch, lambda failure: self._committed_all(batches, failure))

    def _committed_all(self, batches: Sequence[Batch], failure: Exception | None) -> None:
        if not self._is_active:
            return
        if isinstance(failure, LeaseLost):
            self.depose()
            return
        done, self._in_commit = self._in_commit, []
        if failure is not None:
            self._give_up(done, failure)
            return
        self._committed = done[-1].after
        self._history.extend(batches)
        self._broker_watch.committed(self._committed.version)
        self._watch_brokers()
        self._spread()
        for pending in done:
            _tell(pending, pending.answer)
        self._tell_journal(done)
        self._compact_if_due(len(batches))
        if not self._in_commit:
            self._commit()

    def _give_up(self, done: Sequence[_Pending], failure: Exception) -> None:
        """Take back what could not be written, and everything that was decided on top of it."""
        log.error("%s", failure)
        self._tentative = self._committed
        waiting, self._waiting = self._waiting, []
        for pending in (*done, *waiting):
            _tell(pending, None)

    def depose(self) -> None:
        """Stop at once: the lease is somebody else's."""
        log.warning("broker %s is not the controller any more: lease %s is over", self._broker_id, self.lease_epoch)
        self.stop()
        self._on_deposed()

    def _compact_if_due(self, batch_count: int) -> None:
        self._batches_since_snapshot += batch_count
        if self._batches_since_snapshot >= COMPACT_AFTER_BATCHES:
            self._batches_since_snapshot = 0
            self._coordination.compact(self._committed, self.lease_epoch)

    def _tell_journal(self, done: Sequence[_Pending]) -> None:
        ts_ms = self.clock.wall_ms()
        for pending in done:
            for event in events_of(
                pending.before,
                pending.changes,
                why=pending.why,
                proposed_by_leader=pending.proposed_by_leader,
                writer=self._broker_id,
                ts_ms=ts_ms,
            ):
                if isinstance(event, Election) and not event.clean:
                    self.unclean_election_count += 1
                self._on_event(event)

    # Spreading.

    def _spread(self) -> None:
        polls, self._polls = self._polls, {}
        news: dict[int, bytes] = {}
        for poll, answer in polls.values():
            body = news.get(poll.version)
            if body is None:
                body = news[poll.version] = self._news_since(poll.version)
            answer(body)

    def _news_since(self, version: int) -> bytes:
        missing = self._committed.version - version
        if not 0 < missing <= len(self._history):
            return encode_snapshot(self._committed, self.lease_epoch)
        recent = [self._history[index] for index in range(len(self._history) - missing, len(self._history))]
        return encode_deltas(recent, self.lease_epoch, self._committed.version)

    # Watching.

    def _watch_brokers(self) -> None:
        brokers = self._committed.brokers
        for broker_id in [each for each in self._watches if each not in brokers or brokers[each].fenced]:
            self._watches.pop(broker_id)[1].stop()
        for broker_id, record in brokers.items():
            if record.fenced or broker_id == self._broker_id:
                continue
            watched = self._watches.get(broker_id)
            if watched is not None:
                if watched[0].broker_epoch == record.broker_epoch:
                    continue
                watched[1].stop()
            self._watches[broker_id] = (record, self._watch(record))

    def _watch(self, record: BrokerRecord) -> DeathWatch:
        return DeathWatch(
            self._loop,
            record.internal_host,
            record.internal_port,
            reach=lambda: self._links.reach(record.broker_id),
            on_gone=lambda: self._found_gone(record),
            on_looked=lambda: self._looked_at(record.broker_id),
        )

    def _found_gone(self, record: BrokerRecord) -> None:
        if self.config.quick_bounce_enable:
            return  # Its next process is to find everything as if nothing had happened.
        known = self._tentative.brokers.get(record.broker_id)
        if known is not None and known.broker_epoch == record.broker_epoch:
            self._fence(record.broker_id, Why(Reason.PROCESS_GONE))

    def _fence(self, broker_id: BrokerId, why: Why) -> None:
        def decide(image: MetadataImage, _version: int) -> Decision[bool]:
            decision = fence(image, broker_id, self.config, why)
            return Decision(decision.changes, True, decision.why)

        def answered(is_done: bool | None) -> None:
            known = self._committed.brokers.get(broker_id)
            if not is_done and known is not None:
                self._lost_fencings[broker_id] = (known.broker_epoch, why)

        self.decide(decide, answered)

    def _redo_what_was_lost(self) -> None:
        """Decide again what nobody else asks for twice, where the store could not write it."""
        if (self._tentative.controller_id, self._tentative.controller_epoch) != (self._broker_id, self.lease_epoch):
            self._inaugurate()
        lost, self._lost_fencings = self._lost_fencings, {}
        for broker_id, (broker_epoch, why) in lost.items():
            known = self._tentative.brokers.get(broker_id)
            if known is not None and known.broker_epoch == broker_epoch:
                self._fence(broker_id, why)

    # Clockwork.

    def _tick(self) -> None:
        if not self._is_active:
            return
        self._timer = self._loop.call_later(self._tick_s, self._tick)
        now_ms = self.clock.mono_ms()
        if now_ms - self._ticked_ms > 2_000 * self._tick_s + 1_000:
            # This process did not run: the others' silence meanwhile says nothing about them.
            for broker_id in self._tentative.brokers:
                self.sessions.touch(broker_id, now_ms)
        self._ticked_ms = now_ms
        if now_ms - self._renewed_ms >= self.config.broker_heartbeat_interval_ms / 2:
            self._renewed_ms = now_ms
            if not self._coordination.renew(self.lease_epoch):
                self.depose()
                return
        self._redo_what_was_lost()
        if self._starting_until_ms is not None and now_ms >= self._starting_until_ms:
            self._starting_until_ms = None
            self.decide(
                lambda image, _: Decision(rest_ends(image, self.config), None, Why(Reason.LAST_LEADER_ABSENT)),
                _ignore,
            )
        if self._ready_to_stop:
            self._stop_if_all_are_ready()
        unfenced = [broker for broker, record in self._tentative.brokers.items() if not record.fenced]
        self._broker_watch.look(
            unfenced, self.sessions, self._committed.version, self.config.broker_heartbeat_interval_ms
        )
        overdue = self.sessions.expired(unfenced, now_ms)
        if overdue is not None:
            self.timed_out_count += 1
            numbers = {
                "timeout_ms": self.sessions.session_timeout_ms,
                "silent_ms": self.sessions.silent_ms(overdue, now_ms),
            }
            self._fence(overdue, Why(Reason.SESSION_TIMED_OUT, numbers))
        if now_ms - self._balanced_ms >= self.config.leader_imbalance_check_interval_seconds * 1_000:
            self._balanced_ms = now_ms
            if self.config.auto_leader_rebalance_enable:
                self.decide(lambda image, _: self._balanced(image, now_ms), _ignore)
        if now_ms - self._unclean_ms >= self.config.unclean_leader_election_interval_ms:
            self._unclean_ms = now_ms
            self.decide(
                lambda image, _: Decision(unclean_elections(image, self.config), None, Why(Reason.UNCLEAN_ALLOWED)),
                _ignore,
            )

    def _balanced(self, image: MetadataImage, now_ms: int) -> Decision[None]:
        def is_demoted(topic_id: UUID, partition: int, broker_id: BrokerId) -> bool:
            return self.demotions.is_demoted(topic_id, partition, broker_id, image, now_ms)

        return Decision(preferred_elections(image, self.config, is_demoted), None, Why(Reason.PREFERRED_REPLICA_BACK))


def _warn_of_bounces(config: BrokerConfig) -> None:
    if config.quick_bounce_enable:
        log.warning(
            "quick.bounce.enable is on: a broker that was restarted counts as in sync whatever it lost, and one that"
            " died is not fenced before its session ends. Committed records can be lost."
            " Use it for demonstrations only."
        )


def _tell(pending: _Pending, answer: Any) -> None:
    try:
        pending.answered(answer)
    except Exception:
        # An answer that cannot be given is its requester's loss; the others of the same commit wait for theirs.
        log.exception("the controller cannot answer (%s)", pending.why.reason)


def _ignore(_answer: object) -> None:
    """Nobody waits for this decision."""
