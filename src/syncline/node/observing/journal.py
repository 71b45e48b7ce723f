"""The journal: decisions and samples, as events in a replicated topic of their own.

A few times per second a broker writes its new events as one batch to the leader
of the journal's partition, with acks=all: a leader that is cut off and does not
know yet that it was deposed would lose what only it has, and people ask about
just these events later. No decision waits for its event to be written. While the
journal topic cannot be written, events wait, up to a number and a size; beyond it, the oldest
samples are dropped first, then the oldest decisions. An event whose
acknowledgement was lost is written again, so readers may see it twice. Tools on
this machine can read the waiting events (`journal.unwritten`), which matter most
during an outage.

Times in ms. The record's timestamp is the event's own.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from syncline.model.errors import ErrorCode
from syncline.model.events import Event, FollowerProgress, Sample, journal_key, to_json
from syncline.model.ids import JOURNAL_TOPIC, BrokerId, TopicPartition
from syncline.node.links.links import Links, client_id_of
from syncline.node.links.peer import PeerConnection, PeerLost
from syncline.node.loop.tasks import Tasks
from syncline.node.metadata.cluster_view import ClusterView
from syncline.node.metadata.live_configs import LiveConfigs
from syncline.node.metadata.topic_creation import TopicCreation
from syncline.node.observing.waiting_events import WaitingEvents
from syncline.records.builder import BatchBuilder
from syncline.storage.errors import is_refusal
from syncline.wire.api import ApiKey
from syncline.wire.produce import encode_produce_request, parse_produce_response

if TYPE_CHECKING:
    from syncline.node.partitions.partition import Partition
    from syncline.node.views.values import HasBrokerId

    class Host(HasBrokerId, Protocol):
        """What the verb uses of its broker."""

        @property
        def journal(self) -> "Journal":
            """Return the journal."""


log = logging.getLogger("syncline.node")

FLUSH_MS: Final = 200
RETRY_MS: Final = 500
WAITING_EVENTS_MAX: Final = 20_000
# What they may take: a sample of a group with many partitions takes as much as a hundred others.
WAITING_BYTES_MAX: Final = 32 << 20
# How many of the waiting events `journal.unwritten` returns: the newest.
SHOWN_EVENTS_MAX: Final = 5_000
# One batch stays far below `max.message.bytes`; a cluster that loses a broker has thousands of events at once.
BATCH_BYTES_MAX: Final = 256 << 10
# Events that are written without a break; each takes some 10 microseconds.
WRITTEN_AT_ONCE: Final = 50
# A leader waits for its followers; one that has stopped must not keep the events from its successor for long.
ANSWER_TIMEOUT_S: Final = 60.0
LOOK_S: Final = 0.5
LAST_FLUSH_TIMEOUT_S: Final = 1.0
# A batch that was refused with one of these would be refused every time.
_HOPELESS: Final = frozenset(
    {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE}
)
PRODUCE_VERSION: Final = 9


class Journal:
    """The events of one broker on their way to the journal topic."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        loop: asyncio.AbstractEventLoop,
        cluster: ClusterView,
        configs: LiveConfigs,
        partitions: "Mapping[TopicPartition, Partition]",
        tasks: Tasks,
        topics: TopicCreation,
        links: Links,
        settle: Callable[[], None],
    ) -> None:
        self._broker_id = broker_id
        self._loop = loop
        self._cluster = cluster
        self._configs = configs
        self._partitions = partitions
        self._tasks = tasks
        self._topics = topics
        self._links = links
        self._settle = settle
        self._waiting = WaitingEvents(WAITING_EVENTS_MAX, WAITING_BYTES_MAX)
        # Events of the batch in flight; they count as unwritten until it is acknowledged.
        self._in_flight: list[Event] = []
        self._timer: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self._peer: PeerConnection | None = None
        self._peer_leader = -1
        self._is_closed = False
        # Called with each event, even without a journal topic: for observers in the same process.
        self.on_event: Callable[[Event], object] | None = None

    def note(self, event: Event) -> None:
        """Add an event to the next batch."""
        if self.on_event is not None:
            self.on_event(event)
        if self._is_closed or not self._configs.broker.journal_enable:
            return
        self._waiting.append(event)
        self._arm(FLUSH_MS)

    @property
    def unwritten(self) -> list[Event]:
        """The events that are not yet acknowledged by the topic."""
        return [*self._in_flight, *self._waiting]

    def close(self) -> None:
        """Stop writing; drop the waiting events."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._peer is not None:
            self._peer.close()

    def ensure_topic(self) -> None:
        """Request the topic's creation if the cluster does not have it yet."""
        if JOURNAL_TOPIC not in self._cluster.image.topics:
            self._tasks.spawn(self._topics.create_journal())

    async def flush(self) -> None:
        """Write as many waiting events as possible in a short time: the broker is stopping."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_FLUSH_TIMEOUT_S):
                await self._idle.wait()
                left = WAITING_EVENTS_MAX + 1
                while 0 < len(self._waiting) < left:
                    left = len(self._waiting)
                    await self._write()

    def _arm(self, delay_ms: int) -> None:
        if self._timer is None and self._idle.is_set() and not self._is_closed:
            self._timer = self._loop.call_later(delay_ms / 1000, self._fire)

    def _fire(self) -> None:
        self._timer = None
        if self._idle.is_set():
            self._tasks.spawn(self._write())

    async def _write(self) -> None:
        if not self._idle.is_set():
            return
        self._idle.clear()
        events: list[Event] = []
        is_done = False
        try:
            self._in_flight = events
            batch = await self._take_batch(events)
            is_done = not events or await self._write_batch(batch)
        finally:
            self._idle.set()
            self._in_flight = []
            if not is_done:
                self._waiting.put_back(events)
            if self._waiting:
                self._arm(FLUSH_MS if is_done else RETRY_MS)

    async def _take_batch(self, events: list[Event]) -> bytearray:
        """Move waiting events into `events`, as many as fit, and return them as a batch."""
        builder = BatchBuilder()
        while self._waiting and builder.size_bytes < BATCH_BYTES_MAX:
            event = self._waiting.popleft()
            events.append(event)
            builder.append(event.ts_ms, journal_key(event), to_json(event))
            if len(events) % WRITTEN_AT_ONCE == 0:
                await asyncio.sleep(0)
        return builder.build() if events else bytearray()

    async def _write_batch(self, batch: bytearray) -> bool:
        """Return whether a batch is done with: acknowledged, or refused for good."""
        record = self._cluster.image.partition(JOURNAL_TOPIC, 0)
        if record is None:
            await self._topics.create_journal()
            return False
        partition = self._partitions.get(TopicPartition(JOURNAL_TOPIC, 0))
        if partition is not None and partition.leader is not None:
            code = await self._append(partition, batch)
        elif record.has_leader:
            code = await self._send(record.leader, batch)
        else:
            return False
        if code in _HOPELESS:
            log.error("the journal refused a batch of %s bytes; its events are dropped: %s", len(batch), code.name)
        return code == ErrorCode.NONE or code in _HOPELESS

    async def _append(self, partition: "Partition", batch: bytearray) -> ErrorCode:
        """Append a batch to this broker's own log; return when it is committed or has failed."""
        written: asyncio.Future[ErrorCode] = self._loop.create_future()

        def done(code: ErrorCode, _base_offset: int) -> None:
            if not written.done():
                written.set_result(code)

        partition.append_internal(batch, done)
        self._settle()
        return await written

    async def _send(self, leader_id: int, batch: bytearray) -> ErrorCode:
        asked = self._loop.create_task(self._ask(leader_id, batch))
        waited_s = 0.0
        try:
            while not asked.done() and self._leads(leader_id) and waited_s < ANSWER_TIMEOUT_S:
                await asyncio.wait({asked}, timeout=LOOK_S)
                waited_s += LOOK_S
            if asked.done():
                body = asked.result()
            else:
                self._drop_peer()
                return ErrorCode.NETWORK_EXCEPTION
        except PeerLost:
            self._drop_peer()
            return ErrorCode.NETWORK_EXCEPTION
        finally:
            asked.cancel()
        _, rows = parse_produce_response(body, PRODUCE_VERSION).topics[0]
        return ErrorCode(rows[0].error_code)

    async def _ask(self, leader_id: int, batch: bytearray) -> bytes:
        peer = await self._peer_of(leader_id)
        parts = encode_produce_request(
            PRODUCE_VERSION, acks=-1, timeout_ms=int(ANSWER_TIMEOUT_S * 1_000), topics=[(JOURNAL_TOPIC, [(0, batch)])]
        )
        return await peer.request_raw(ApiKey.PRODUCE, PRODUCE_VERSION, parts)

    def _leads(self, broker_id: int) -> bool:
        record = self._cluster.image.partition(JOURNAL_TOPIC, 0)
        return record is not None and record.leader == broker_id

    async def _peer_of(self, leader_id: int) -> PeerConnection:
        """Return the connection to the journal's leader, a new one if the leader changed."""
        if self._peer is None or not self._peer.is_open or self._peer_leader != leader_id:
            self._drop_peer()
            target = self._cluster.image.brokers.get(leader_id)  # type: ignore[call-overload]
            if target is None:
                raise PeerLost(f"broker {leader_id} is not known")
            try:
                self._peer = await self._links.connect(
                    leader_id,
                    target.internal_host,
                    target.internal_port,
                    client_id_of(self._broker_id, "journal"),
                )
            except PeerLost as error:
                # The controller says why it moved the partitions of a broker without descriptors, even its own.
                spare = self._links.spare(leader_id)
                if spare is None or error.__cause__ is None or not is_refusal(error.__cause__):
                    raise
                return spare
            self._peer_leader = leader_id
        return self._peer

    def _drop_peer(self) -> None:
        peer, self._peer = self._peer, None
        if peer is not None:
            peer.close()


def show(broker: "Host", fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the events that this broker has not written yet, as JSON texts: the verb `journal.unwritten`.

    Samples are left out, but for those of `topic` and `partition`.
    """
    place = (fields.get("topic"), fields.get("partition"))
    events = [
        event
        for event in broker.journal.unwritten
        if not isinstance(event, Sample)
        or (isinstance(event, FollowerProgress) and (event.topic, event.partition) == place)
    ]
    return {"broker": broker.broker_id, "events": [to_json(event).decode() for event in events[-SHOWN_EVENTS_MAX:]]}
