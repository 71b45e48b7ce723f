"""A broker's way to the controller: register, be heard of, follow the metadata, ask.

The channel also holds the controller role when this broker wins the lease; it
then speaks to it over the network like to any other, so that there is one path.

Two connections lead to the controller, because the answers on one come in the
order of the requests: on the *stream* a request waits until there is news, on
the *control* connection everything else is asked. When one of them breaks, or
the store names another holder, both are closed and the search begins anew, at
first every few milliseconds.

What was asked and not answered is asked again of whoever is controller then:
proposals of ISRs until they are answered (KIP-497), requests of clients until
their time is over. A request may thus be carried out twice; the second time it
finds its work done, as with any client that retries.

Invariant: `image` only ever goes forward, one whole version after another, and
`on_image` has been called for each image before anything else is done with it.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from syncline.coordination.port import Coordination, Holder, Lease
from syncline.core.replication.effects import IsrAnswer, IsrChange, ProposeIsr, RefusalOutcome
from syncline.core.replication.isr import outcome_of
from syncline.core.replication.proposals import ProposalQueue
from syncline.model.broker_config import BrokerConfig
from syncline.model.errors import ErrorCode
from syncline.model.events import Event
from syncline.model.ids import NONE, BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch
from syncline.model.metadata import MetadataDelta, MetadataImage, Recovery, difference
from syncline.node.clock import Clock
from syncline.node.controller.active import ActiveController
from syncline.node.controller.private_messages import (
    News,
    Poll,
    apply_news,
    decode_error,
    decode_forward_answer,
    decode_news,
    encode_forward,
    encode_poll,
    encode_stop,
)
from syncline.node.links import Links, client_id_of
from syncline.node.peer import PeerConnection, PeerLost
from syncline.node.request import Request
from syncline.wire.api import ApiKey
from syncline.wire.codec import decode_response, encode_request, request_type
from syncline.wire.entities import build

log = logging.getLogger("syncline.controller")

SEARCH_FIRST_S: Final = 0.002
SEARCH_LAST_S: Final = 0.25
LEAVE_HEARTBEAT_S: Final = 0.02
# How often the store is asked who holds the lease, and whether that broker still lives: a holder that stands still
# is noticed a session time-out after it was last seen alive, and it is seen no more often than this.
OBSERVE_S: Final = 0.5

_REGISTRATION_VERSION: Final = 4
_HEARTBEAT_VERSION: Final = 1
_ALTER_PARTITION_VERSION: Final = 3
_CREATE_TOPICS_VERSION: Final = 7

OnImage = Callable[[MetadataImage, MetadataImage, MetadataDelta], None]


class RegistrationRefused(Exception):
    """A broker cannot join the cluster, and trying again would not help."""


@dataclass(frozen=True, kw_only=True)
class BrokerIdentity:
    """Who this broker process is, and where it listens."""

    broker_id: BrokerId
    host: str
    port: int
    internal_host: str
    internal_port: int
    rack: str | None
    incarnation_id: UUID
    previous_broker_epoch: int = NONE
    cluster_id: str = ""


_PartitionKey = tuple[UUID, int]
_Proposed = tuple[ProposeIsr, Callable[[IsrAnswer], None]]


class _Forwarding(NamedTuple):
    """A request on its way; `answered` gets the body of the reply, or None when the time is over."""

    key: int
    version: int
    body: bytes
    deadline_ms: int
    answered: Callable[[bytes | None], None]


class Channel:
    """One broker's connection to the controller, whoever that is."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        rng: random.Random,
        coordination: Coordination,
        config: BrokerConfig,
        identity: BrokerIdentity,
        on_image: OnImage,
        on_event: Callable[[Event], None],
        links: Links | None = None,
        check_invariants: bool = False,
    ) -> None:
        self.image = MetadataImage()
        self.broker_epoch = BrokerEpoch(NONE)
        # The controller role, while this broker holds the lease.
        self.active: ActiveController | None = None
        # The directory ids of the replicas that this broker cannot serve; heartbeats tell them.
        self.failed_replicas: Callable[[], Sequence[UUID]] = tuple
        self._loop = loop
        self._clock = clock
        self._rng = rng
        self._coordination = coordination
        self._config = config
        self._identity = identity
        self._on_image = on_image
        self._on_event = on_event
        self._links = links or Links()
        self._check_invariants = check_invariants
        self._control: PeerConnection | None = None
        self._stream: PeerConnection | None = None
        # Whether the controller knows that this broker speaks over `_control`: what it is asked before is void to it,
        # and its NOT_CONTROLLER would cost the connection.
        self._is_registered = False
        self._lease_epoch = 0
        self._wake = asyncio.Event()
        self._ready: asyncio.Future[None] = loop.create_future()
        self._task: asyncio.Task[None] | None = None
        self._observer: asyncio.TimerHandle | None = None
        self._proposals: ProposalQueue[_PartitionKey, _Proposed] = ProposalQueue()
        self._proposal_timer: asyncio.TimerHandle | None = None
        self._unsent: deque[_Forwarding] = deque()
        # Since when the controller owes an answer, or could not be reached; None: it is fine.
        self.unanswered_since_ms: int | None = None
        self._is_leaving = False
        # Whether the controller last refused this process because another one of its id is alive.
        self._is_duplicate = False
        # Whether it stops together with all others, and waits for them.
        self._holds_still = False
        self._may_stop: asyncio.Future[None] = loop.create_future()
        self._is_stopped = False
        self._producer_ids = range(0)

    async def start(self) -> None:
        """Join the cluster; return when this broker is part of it, its image applied.

        The inter-broker listener must be serving. Raises `RegistrationRefused`.
        """
        identity = self._identity
        candidate = Holder(identity.broker_id, identity.internal_host, identity.internal_port, 0)
        self._coordination.campaign(candidate, self._won)
        self._observe()
        self._task = self._loop.create_task(self._follow())
        timeout_s = self._config.initial_broker_registration_timeout_ms / 1_000
        timer = self._loop.call_later(timeout_s, self._not_in_time, timeout_s)
        try:
            await self._ready
        finally:
            timer.cancel()

    @property
    def is_connected(self) -> bool:
        """Whether a connection to the controller is there and this broker is registered over it."""
        return self._control is not None and self._control.is_open and self._is_registered

    def set_config(self, config: BrokerConfig) -> None:
        """Go by another configuration from now on."""
        self._config = config
        if self.active is not None:
            self.active.set_config(config)

    def heartbeat_now(self) -> None:
        """Be heard of at once: there is news that should not wait for the next heartbeat."""
        self._wake.set()

    def propose_isr(
        self, topic_id: UUID, partition: int, proposal: ProposeIsr, answered: Callable[[IsrAnswer], None]
    ) -> None:
        """Ask for an ISR; `answered` is called once, unless the channel is stopped before."""
        if not self._proposals.submit((topic_id, partition), (proposal, answered)):
            self._loop.call_soon(answered, IsrAnswer(ErrorCode.OPERATION_NOT_ATTEMPTED))
            return
        # Proposals of one turn of the loop travel together.
        self._send_proposals_in(0)

    def forward(self, request: Request) -> None:
        """Have the controller answer a client's request; the client waits."""

        def answered(body: bytes | None) -> None:
            if body is None:
                request.close()
            else:
                request.reply_parts((body,))

        self._ask(request.key, request.version, bytes(request.body[request.position :]), answered)

    async def ask(self, key: ApiKey, version: int, entity: Any) -> Any:
        """Return the controller's reply to a request of this broker itself, None when there was none in time."""
        replied: asyncio.Future[bytes | None] = self._loop.create_future()

        def answered(body: bytes | None) -> None:
            if not replied.done():
                replied.set_result(body)

        self._ask(key, version, encode_request(entity), answered)
        body = await replied
        return None if body is None else decode_response(key, version, body)

    async def create_topic(
        self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> tuple[ErrorCode, str | None]:
        """Create a topic that this broker needs; return what became of it."""
        entity = build(
            request_type(ApiKey.CREATE_TOPICS, _CREATE_TOPICS_VERSION),
            {
                "topics": [
                    {
                        "name": name,
                        "num_partitions": partitions,
                        "replication_factor": replication_factor,
                        "assignments": (),
                        "configs": [{"name": each, "value": value} for each, value in configs.items()],
                    }
                ],
                "timeout": self._config.request_timeout_ms,
                "validate_only": False,
            },
        )
        reply = await self.ask(ApiKey.CREATE_TOPICS, _CREATE_TOPICS_VERSION, entity)
        if reply is None:
            return ErrorCode.REQUEST_TIMED_OUT, None
        result = reply.topics[0]
        return ErrorCode(int(result.error_code)), result.error_message

    async def producer_id(self) -> int | None:
        """Return a producer id that nobody had before, None when no controller gave any in time."""
        while not self._producer_ids:
            entity = build(
                request_type(ApiKey.ALLOCATE_PRODUCER_IDS, 0),
                {"broker_id": self._identity.broker_id, "broker_epoch": self.broker_epoch},
            )
            reply = await self.ask(ApiKey.ALLOCATE_PRODUCER_IDS, 0, entity)
            if reply is None or int(reply.error_code):
                return None
            first = int(reply.producer_id_start)
            self._producer_ids = range(first, first + int(reply.producer_id_len))
        taken = self._producer_ids[0]
        self._producer_ids = self._producer_ids[1:]
        return taken

    async def leave(self, timeout_s: float) -> bool:
        """Hand everything over (controlled shutdown); return whether the controller let this broker go."""
        if self._task is None or self._is_stopped:
            return False
        self._is_leaving = True
        self._wake.set()
        timer = self._loop.call_later(timeout_s, self._stop_waiting)
        try:
            await self._may_stop
        except asyncio.CancelledError:
            if not self._may_stop.cancelled():
                raise
            return False
        finally:
            timer.cancel()
        return True

    async def leave_with_all(self, timeout_s: float) -> bool:
        """Stop together with all other brokers; return whether all are ready, so that this one need not hand over.

        Meanwhile this broker is not heard of: a heartbeat that arrived late would put it into service again.
        """
        if self._task is None or self._is_stopped:
            return False
        self._holds_still = True
        deadline_s = self._loop.time() + timeout_s
        while self._loop.time() < deadline_s:
            error = await self._ask_to_stop(deadline_s - self._loop.time())
            record = self.image.brokers.get(self._identity.broker_id)
            is_fenced = record is not None and record.broker_epoch == self.broker_epoch and record.fenced
            if error is ErrorCode.NONE or is_fenced:
                return True
            if error is ErrorCode.REQUEST_TIMED_OUT:
                break
            # Another broker may be the controller next, or this one.
            await asyncio.sleep(LEAVE_HEARTBEAT_S)
        self._holds_still = False
        self._wake.set()
        return False

    async def _ask_to_stop(self, timeout_s: float) -> ErrorCode:
        control = self._control
        if control is None or not control.is_open or not self._is_registered:
            return ErrorCode.NOT_CONTROLLER
        body = encode_stop(self._identity.broker_id, self.broker_epoch)
        try:
            async with asyncio.timeout(timeout_s):
                return decode_error(await control.request_raw(ApiKey.STOP_TOGETHER, 0, (body,)), 0)
        except PeerLost:
            return ErrorCode.NOT_CONTROLLER
        except TimeoutError:
            return ErrorCode.REQUEST_TIMED_OUT

    async def stop(self) -> None:
        """Give up the lease and all connections; unanswered requests of clients are closed."""
        self._is_stopped = True
        for timer in (self._observer, self._proposal_timer):
            if timer is not None:
                timer.cancel()
        active, self.active = self.active, None
        if active is not None:
            active.stop()
            self._coordination.resign(active.lease_epoch)
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                if not task.cancelled():
                    raise
        self._disconnect()
        unsent, self._unsent = self._unsent, deque()
        for forwarding in unsent:
            forwarding.answered(None)
        self._coordination.close()
        if not self._ready.done():
            self._ready.cancel()

    # The lease.

    def _won(self, lease: Lease) -> None:
        if self._is_stopped:
            return
        log.info("broker %s is the controller, lease %s", self._identity.broker_id, lease.lease_epoch)
        if self.active is not None:
            self.active.stop()
        self.active = ActiveController(
            loop=self._loop,
            clock=self._clock,
            rng=self._rng,
            coordination=self._coordination,
            lease=lease,
            config=self._config,
            broker_id=self._identity.broker_id,
            incarnation_id=self._identity.incarnation_id,
            on_event=self._on_event,
            on_deposed=self._deposed,
            links=self._links,
            check_invariants=self._check_invariants,
        )
        self._wake.set()

    def _deposed(self) -> None:
        self.active = None
        self._disconnect()

    def _observe(self) -> None:
        if self._is_stopped:
            return
        period_s = min(OBSERVE_S, self._config.broker_session_timeout_ms / 18_000)
        self._observer = self._loop.call_later(period_s, self._observe)
        self._coordination.observe(self._clock.mono_ms(), self._config.broker_session_timeout_ms)
        if self._control is not None:
            holder = self._coordination.holder()
            if holder is not None and holder.lease_epoch != self._lease_epoch:
                # The controller that this broker speaks to has been deposed, or stands still.
                self._disconnect()
        self._drop_overdue()

    # Following the controller.

    async def _follow(self) -> None:
        pause_s = SEARCH_FIRST_S
        while not self._is_stopped:
            holder = self._coordination.holder()
            if holder is not None and await self._connect(holder):
                try:
                    if await self._stay():
                        pause_s = SEARCH_FIRST_S
                except (PeerLost, TimeoutError) as error:
                    log.debug("broker %s lost the controller: %r", self._identity.broker_id, error)
                finally:
                    self._disconnect()
            self._wake.clear()
            await self._sleep(pause_s)
            pause_s = min(SEARCH_LAST_S, pause_s * 1.5)

    async def _connect(self, holder: Holder) -> bool:
        name = client_id_of(self._identity.broker_id)
        where = (holder.broker_id, holder.host, holder.port, name, self._lost)
        try:
            control = await self._links.connect(*where)
            self._control = control
            self._stream = await self._links.connect(*where)
        except PeerLost:
            self._disconnect()
            return False
        self._lease_epoch = holder.lease_epoch
        return control.is_open

    def _lost(self) -> None:
        self._wake.set()

    def _disconnect(self) -> None:
        control, self._control = self._control, None
        stream, self._stream = self._stream, None
        if control is not None and self.unanswered_since_ms is None:
            self.unanswered_since_ms = self._clock.mono_ms()
        self._is_registered = False
        for peer in (control, stream):
            if peer is not None:
                peer.close()
        self._wake.set()

    async def _stay(self) -> bool:
        """Register, and be heard of until the connection breaks; return False if registering failed."""
        control, stream = self._control, self._stream
        assert control is not None, "connected before"
        assert stream is not None, "connected before"
        if not await self._register(control):
            return False
        self._is_registered = True
        self._poll()
        self._send_forwardings()
        self._send_proposals()
        # Without the stream this broker would be heard of, and hear nothing.
        while self._control is control and control.is_open and stream.is_open:
            self._wake.clear()
            if not self._holds_still and not await self._heartbeat(control):
                return True
            interval_s = self._config.broker_heartbeat_interval_ms / 1_000
            await self._sleep(LEAVE_HEARTBEAT_S if self._is_leaving else interval_s)
        return True

    async def _sleep(self, seconds: float) -> None:
        """Wait, or until somebody wakes this broker up."""
        timer = self._loop.call_later(seconds, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    async def _register(self, control: PeerConnection) -> bool:
        identity = self._identity
        entity = build(
            request_type(ApiKey.BROKER_REGISTRATION, _REGISTRATION_VERSION),
            {
                "broker_id": identity.broker_id,
                "cluster_id": identity.cluster_id or self.image.cluster_id,
                "incarnation_id": identity.incarnation_id,
                "listeners": [
                    {"name": "CLIENT", "host": identity.host, "port": identity.port, "security_protocol": 0},
                    {
                        "name": "INTERNAL",
                        "host": identity.internal_host,
                        "port": identity.internal_port,
                        "security_protocol": 0,
                    },
                ],
                "features": (),
                "rack": identity.rack,
                "log_dirs": (),
                "previous_broker_epoch": identity.previous_broker_epoch,
            },
        )
        reply = await self._answer_in_time(control.request(ApiKey.BROKER_REGISTRATION, _REGISTRATION_VERSION, entity))
        error = ErrorCode(int(reply.error_code))
        if error is ErrorCode.NONE:
            self.broker_epoch = BrokerEpoch(int(reply.broker_epoch))
            return True
        self._is_duplicate = error is ErrorCode.DUPLICATE_BROKER_REGISTRATION
        if error is ErrorCode.INCONSISTENT_CLUSTER_ID:
            self._refuse(
                f"its data belongs to cluster {identity.cluster_id}, not to this one."
                " Use another data directory, or remove this one if its data may go"
            )
        return False

    async def _answer_in_time(self, asking: Awaitable[Any]) -> Any:
        """Return an answer of the controller; raises TimeoutError after a session's time.

        A connection may be open and carry nothing any more. Without an end to the wait a broker whose registration
        was lost on such a one would stay out of the cluster.
        """
        async with asyncio.timeout(self._config.broker_session_timeout_ms / 1_000):
            return await asking

    def _not_in_time(self, timeout_s: float) -> None:
        if self._is_duplicate:
            self._refuse(
                f"another process has registered with this id, and lived on for {timeout_s:g} s."
                " Stop that one, or give this one another id"
            )
        else:
            self._refuse(
                f"no controller took it within {timeout_s:g} s."
                " The brokers' logs tell who should be the controller, and what it lacks"
            )

    def _refuse(self, why: str) -> None:
        if not self._ready.done():
            self._ready.set_exception(RegistrationRefused(f"broker {self._identity.broker_id} cannot join: {why}."))

    async def _heartbeat(self, control: PeerConnection) -> bool:
        """Tell the controller that this broker lives; return False if it has to register again."""
        entity = build(
            request_type(ApiKey.BROKER_HEARTBEAT, _HEARTBEAT_VERSION),
            {
                "broker_id": self._identity.broker_id,
                "broker_epoch": self.broker_epoch,
                "current_metadata_offset": self.image.version,
                "want_fence": False,
                "want_shut_down": self._is_leaving,
                "offline_log_dirs": tuple(self.failed_replicas()),
            },
        )
        if self.unanswered_since_ms is None:
            self.unanswered_since_ms = self._clock.mono_ms()
        reply = await self._answer_in_time(control.request(ApiKey.BROKER_HEARTBEAT, _HEARTBEAT_VERSION, entity))
        error = ErrorCode(int(reply.error_code))
        if error is not ErrorCode.NONE:
            return False
        self.unanswered_since_ms = None
        if reply.should_shut_down and self._is_leaving and not self._may_stop.done():
            self._may_stop.set_result(None)
        return True

    def _stop_waiting(self) -> None:
        if not self._may_stop.done():
            self._may_stop.cancel()

    # Following the metadata.

    def _poll(self) -> None:
        stream = self._stream
        if stream is None or not stream.is_open:
            return
        poll = Poll(self._identity.broker_id, self.broker_epoch, self.image.version)

        def on_answer(frame: memoryview | None, position: int) -> None:
            if frame is not None and stream is self._stream:
                self._take(decode_news(frame, position))

        stream.send(ApiKey.METADATA_DELTAS, 0, (encode_poll(poll),), on_answer)

    def _take(self, news: News) -> None:
        old = self.image
        if news.error is not ErrorCode.NONE or news.version < old.version:
            # Not a controller any more; or one that does not know yet that it is not.
            self._disconnect()
            return
        new = apply_news(old, news)
        if new.version != old.version:
            self.image = new
            self._on_image(old, new, difference(old, new))
            self._look_at_self(new)
        # Asking for what follows says that everything before has been applied.
        self._poll()

    def _look_at_self(self, new: MetadataImage) -> None:
        record = new.brokers.get(self._identity.broker_id)
        if record is None or record.broker_epoch != self.broker_epoch:
            return
        if record.active and not self._ready.done():
            self._ready.set_result(None)
        if record.fenced and not self._is_leaving:
            # Fenced until the controller hears that this broker knows its own registration.
            self._wake.set()

    # Asking.

    def _ask(self, key: int, version: int, body: bytes, answered: Callable[[bytes | None], None]) -> None:
        deadline_ms = self._clock.mono_ms() + self._config.request_timeout_ms
        self._unsent.append(_Forwarding(key, version, body, deadline_ms, answered))
        self._send_forwardings()

    def _send_forwardings(self) -> None:
        control = self._control
        if control is None or not control.is_open or not self._is_registered:
            return
        unsent, self._unsent = self._unsent, deque()
        for forwarding in unsent:
            self._send_forwarding(control, forwarding)

    def _send_forwarding(self, control: PeerConnection, forwarding: _Forwarding) -> None:
        def on_answer(frame: memoryview | None, position: int) -> None:
            error, body = (ErrorCode.NETWORK_EXCEPTION, b"")
            if frame is not None:
                error, body = decode_forward_answer(frame, position)
            if error is ErrorCode.NONE:
                forwarding.answered(body)
            elif error is ErrorCode.INVALID_REQUEST or self._is_stopped:
                forwarding.answered(None)
            else:
                self._unsent.append(forwarding)
                if frame is not None:
                    self._disconnect()

        head = encode_forward(forwarding.key, forwarding.version, self._identity.broker_id)
        control.send(ApiKey.FORWARD, 0, (head, forwarding.body), on_answer)

    def _drop_overdue(self) -> None:
        now_ms = self._clock.mono_ms()
        overdue = [forwarding for forwarding in self._unsent if forwarding.deadline_ms < now_ms]
        if overdue:
            self._unsent = deque(forwarding for forwarding in self._unsent if forwarding.deadline_ms >= now_ms)
            for forwarding in overdue:
                forwarding.answered(None)

    # Proposing.

    def _send_proposals_in(self, delay_s: float) -> None:
        if self._proposal_timer is None and not self._is_stopped:
            self._proposal_timer = self._loop.call_later(delay_s, self._send_proposals)

    def _send_proposals(self) -> None:
        if self._proposal_timer is not None:
            self._proposal_timer.cancel()
            self._proposal_timer = None
        control = self._control
        if control is None or not control.is_open or not self._is_registered:
            return
        now_ms = self._clock.mono_ms()
        batch = self._proposals.next_batch(now_ms)
        if not batch:
            if len(self._proposals) and now_ms < self._proposals.retry_at_ms:
                self._send_proposals_in((self._proposals.retry_at_ms - now_ms) / 1_000)
            return
        sent = dict(batch)

        def on_answer(frame: memoryview | None, position: int) -> None:
            if self._is_stopped:
                return
            if frame is None:
                self._proposals.failed(self._clock.mono_ms())
                self._send_proposals_in(0)
            else:
                reply = decode_response(ApiKey.ALTER_PARTITION, _ALTER_PARTITION_VERSION, frame, position)
                self._proposals_answered(sent, reply)

        entity = _alter_partition(
            self._identity.broker_id, self.broker_epoch, {key: proposal for key, (proposal, _) in sent.items()}
        )
        control.send(ApiKey.ALTER_PARTITION, _ALTER_PARTITION_VERSION, (encode_request(entity),), on_answer)

    def _proposals_answered(self, sent: Mapping[_PartitionKey, _Proposed], reply: Any) -> None:
        error = ErrorCode(int(reply.error_code))
        if error is not ErrorCode.NONE:
            self._proposals.failed(self._clock.mono_ms())
            if error in {ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH}:
                # Find the controller again, register again if need be.
                self._disconnect()
        else:
            answers = {key: answer for key, answer in _isr_answers(reply) if key in sent}
            self._proposals.answered(answers)
            if any(_is_to_be_retried(answer.error) for answer in answers.values()):
                self._proposals.pause(self._clock.mono_ms())
            for key, answer in answers.items():
                sent[key][1](answer)
        self._send_proposals_in(0)


def _is_to_be_retried(error: ErrorCode) -> bool:
    return error is not ErrorCode.NONE and outcome_of(error) is RefusalOutcome.RETRIED


def _alter_partition(
    broker_id: BrokerId, broker_epoch: BrokerEpoch, proposals: Mapping[_PartitionKey, ProposeIsr]
) -> Any:
    topics: dict[UUID, list[dict[str, Any]]] = {}
    for (topic_id, partition), proposal in proposals.items():
        topics.setdefault(topic_id, []).append(
            {
                "partition_index": partition,
                "leader_epoch": proposal.leader_epoch,
                "new_isr_with_epochs": [
                    {"broker_id": member.broker_id, "broker_epoch": member.broker_epoch} for member in proposal.isr
                ],
                "leader_recovery_state": int(Recovery.RECOVERED),
                "partition_epoch": proposal.partition_epoch,
                "relinquish": proposal.kind is IsrChange.RELINQUISH,
            }
        )
    return build(
        request_type(ApiKey.ALTER_PARTITION, _ALTER_PARTITION_VERSION),
        {
            "broker_id": broker_id,
            "broker_epoch": broker_epoch,
            "topics": [{"topic_id": topic_id, "partitions": rows} for topic_id, rows in topics.items()],
        },
    )


def _isr_answers(reply: Any) -> list[tuple[_PartitionKey, IsrAnswer]]:
    return [
        (
            (topic.topic_id, int(row.partition_index)),
            IsrAnswer(
                ErrorCode(int(row.error_code)),
                LeaderEpoch(int(row.leader_epoch)),
                PartitionEpoch(int(row.partition_epoch)),
                tuple(BrokerId(int(broker)) for broker in row.isr),
            ),
        )
        for topic in reply.topics
        for row in topic.partitions
    ]
