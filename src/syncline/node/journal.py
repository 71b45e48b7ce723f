"""The journal: decisions and samples, as events in a replicated topic of their own.

Events are collected and written a few times per second as one batch, to
whoever leads the journal's partition, with acks=1: the journal must never hold
up what it reports. While the journal topic cannot be written, events wait, up
to a bound; beyond it the oldest samples go first, then the oldest decisions.

Times in ms. The record's timestamp is the event's own.
"""

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from syncline.model.errors import ErrorCode
from syncline.model.events import Event, FollowerProgress, journal_key, to_json
from syncline.model.ids import JOURNAL_TOPIC, TopicPartition
from syncline.node.peer import PeerConnection, PeerLost
from syncline.records.builder import BatchBuilder
from syncline.wire.api import ApiKey
from syncline.wire.produce import encode_produce_request, parse_produce_response

if TYPE_CHECKING:
    import asyncio

    from syncline.node.broker import Broker

log = logging.getLogger("syncline.node")

FLUSH_MS: Final = 200
RETRY_MS: Final = 500
WAITING_EVENTS_MAX: Final = 20_000
BATCH_EVENTS_MAX: Final = 2_000
PRODUCE_VERSION: Final = 9


class Journal:
    """The events of one broker on their way to the journal topic."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._waiting: deque[Event] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._is_writing = False
        self._peer: PeerConnection | None = None
        self._peer_leader = -1
        self._is_closed = False

    def note(self, event: Event) -> None:
        """Take an event; it is written with the next batch."""
        if self._is_closed or not self._broker.config.journal_enable:
            return
        if len(self._waiting) >= WAITING_EVENTS_MAX:
            self._make_room()
        self._waiting.append(event)
        self._arm(FLUSH_MS)

    def close(self) -> None:
        """Stop writing; what waits is dropped."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._peer is not None:
            self._peer.close()

    async def flush(self) -> None:
        """Write what waits now, as far as possible: the broker is stopping."""
        if self._waiting and not self._is_writing:
            await self._write()

    def _make_room(self) -> None:
        for index, event in enumerate(self._waiting):
            if isinstance(event, FollowerProgress):
                del self._waiting[index]
                return
        self._waiting.popleft()

    def _arm(self, delay_ms: int) -> None:
        if self._timer is None and not self._is_writing and not self._is_closed:
            self._timer = self._broker.loop.call_later(delay_ms / 1000, self._fire)

    def _fire(self) -> None:
        self._timer = None
        if not self._is_writing:
            self._broker.spawn(self._write())

    async def _write(self) -> None:
        self._is_writing = True
        events = [self._waiting.popleft() for _ in range(min(len(self._waiting), BATCH_EVENTS_MAX))]
        is_written = False
        try:
            is_written = await self._write_batch(events)
        finally:
            self._is_writing = False
            if not is_written:
                self._waiting.extendleft(reversed(events))
            if self._waiting:
                self._arm(FLUSH_MS if is_written else RETRY_MS)

    async def _write_batch(self, events: list[Event]) -> bool:
        if not events:
            return True
        broker = self._broker
        record = broker.image.partition(JOURNAL_TOPIC, 0)
        if record is None:
            await broker.create_journal_topic()
            return False
        batch = self._encode(events)
        partition = broker.partitions.get(TopicPartition(JOURNAL_TOPIC, 0))
        if partition is not None and partition.leader is not None:
            code = partition.append_local(batch)
            broker.settle()
            return code == ErrorCode.NONE
        if not record.has_leader:
            return False
        return await self._send(record.leader, batch)

    @staticmethod
    def _encode(events: list[Event]) -> bytearray:
        builder = BatchBuilder()
        for event in events:
            builder.append(event.ts_ms, journal_key(event), to_json(event))
        return builder.build()

    async def _send(self, leader_id: int, batch: bytearray) -> bool:
        try:
            if self._peer is None or not self._peer.is_open or self._peer_leader != leader_id:
                if self._peer is not None:
                    self._peer.close()
                    self._peer = None
                target = self._broker.image.brokers.get(leader_id)  # type: ignore[call-overload]
                if target is None:
                    return False
                self._peer = await PeerConnection.connect(
                    target.internal_host, target.internal_port, f"broker-{self._broker.broker_id}-journal"
                )
                self._peer_leader = leader_id
            parts = encode_produce_request(
                PRODUCE_VERSION, acks=1, timeout_ms=5000, topics=[(JOURNAL_TOPIC, [(0, batch)])]
            )
            body = await self._peer.request_raw(ApiKey.PRODUCE, PRODUCE_VERSION, parts)
        except PeerLost:
            self._peer = None
            return False
        answer = parse_produce_response(body, PRODUCE_VERSION)
        return all(not row.error_code for _, rows in answer.topics for row in rows)
