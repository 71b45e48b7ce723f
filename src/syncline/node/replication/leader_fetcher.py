"""Fetches from one leader all partitions that this broker follows there.

One request is in flight at a time, and the next leaves inside the callback
that has processed the answer, right after the records were written: there is
no task between two fetches, and nothing is copied between socket and disk.
What to ask, and what to make of an answer, `core.fetcher` and `core.follower`
decide.

In `epoch-request` mode partitions that have a new leader are compared before
they are fetched: one request asks for all of them where their last epochs end
in the leader's log, and takes the turn of a fetch.

Times in ms of the node's clock. Source: KIP-227, KIP-279, KIP-595.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from syncline.core.fetching.fetcher import Fetcher, FetchRequestPlan
from syncline.core.replication.evidence import Evidence
from syncline.core.replication.follower import (
    AskLeaderEnd,
    AskLeaderStart,
    EpochQuestion,
    FetchAsk,
    FollowerEffects,
    FollowerFailed,
    FollowerPartition,
    FollowerPhase,
    RestartLog,
    TruncateLog,
)
from syncline.core.replication.leader_epochs import EpochEnd
from syncline.model.errors import ErrorCode
from syncline.model.events import Json
from syncline.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset
from syncline.node.clock import Clock
from syncline.node.cluster_view import ClusterView
from syncline.node.counters import Counters
from syncline.node.departures import Departures
from syncline.node.disk_watch import NOTABLE_MS
from syncline.node.links import Links, client_id_of
from syncline.node.live_configs import LiveConfigs
from syncline.node.observer import Observer
from syncline.node.partition import Partition
from syncline.node.peer import PeerConnection, PeerLost
from syncline.node.replication.cuts import Cut, Cuts
from syncline.node.tasks import Tasks
from syncline.storage.errors import CorruptRecordsError, LogOfflineError, StorageError, UnexpectedOffsetError
from syncline.storage.log import PartitionLog
from syncline.wire.api import ApiKey
from syncline.wire.codec import decode_response, encode_request, request_type
from syncline.wire.entities import build
from syncline.wire.errors import DecodeError
from syncline.wire.fetch import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    encode_fetch_request,
    parse_fetch_response,
)
from syncline.wire.primitives import INT32

log = logging.getLogger("syncline.node")

FETCH_VERSION: Final = 17
LIST_OFFSETS_VERSION: Final = 9
EPOCH_END_VERSION: Final = 4
LATEST: Final = -1
EARLIEST: Final = -2
# Larger answers do not replicate faster, they only leave the processor's cache (data path measurements).
RESPONSE_BYTES_MAX: Final = 2 << 20
RECONNECT_MS: Final = 2
RECONNECT_MS_MAX: Final = 500

Key = tuple[bytes, int]


class KnowsRegistration(Protocol):
    """The way to the controller, as far as fetches show it."""

    @property
    def broker_epoch(self) -> BrokerEpoch:
        """Return the epoch of this process's registration."""


class JournalsTruncations(Protocol):
    """What reports truncations."""

    def truncated(self, partition: Partition, leader_id: int, log_end_before: Offset, evidence: Evidence, /) -> None:
        """Report a truncation that a leader's history asked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FetcherSurroundings:
    """What a fetcher uses of its broker; all fetchers share one."""

    broker_id: BrokerId
    registration: KnowsRegistration
    loop: asyncio.AbstractEventLoop
    clock: Clock
    cluster: ClusterView
    configs: LiveConfigs
    tasks: Tasks
    links: Links
    departures: Departures
    observer: Observer
    counters: Counters
    cuts: Cuts
    journal: JournalsTruncations
    settle: Callable[[], None]


class LeaderFetcher:
    """The fetcher of one leader broker."""

    def __init__(self, surroundings: FetcherSurroundings, leader_id: int) -> None:
        self._surroundings = surroundings
        self.leader_id = leader_id
        self._fetcher: Fetcher[Key] = Fetcher()
        self._partitions: dict[Key, Partition] = {}
        self._peer: PeerConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._reconnect_ms = RECONNECT_MS
        self._is_in_flight = False
        self._request_number = 0
        self._wake_timer: asyncio.TimerHandle | None = None
        self._watchdog: asyncio.TimerHandle | None = None
        self._sent_at_ms = 0
        self._is_closed = False
        # Since when the leader owes an answer, or a connection; None: it does not.
        self._unanswered_since_ms: int | None = surroundings.clock.mono_ms()
        # Partitions whose empty log is being filled, and since when.
        self._fresh: dict[Key, int] = {}
        # Logs that are to be cut as soon as their disks have told how.
        self._cuts: dict[Key, Cut] = {}
        self._beats_sent = 0
        # Beats of the leader over connections that are no more.
        self._beats_heard = 0
        # For the metrics: since when, how many fetches, how many bytes of records.
        self.created_ms = surroundings.clock.mono_ms()
        self.fetch_count = 0
        self.fetched_bytes = 0

    def __len__(self) -> int:
        return len(self._partitions)

    # What others may want to know of it.

    @property
    def unanswered_since_ms(self) -> int | None:
        """Return since when the leader has not answered what it was asked, or cannot be reached; None: it is fine."""
        return self._unanswered_since_ms if self._partitions and not self._is_closed else None

    def beat(self) -> None:
        """Let the leader know that this follower is there, and misses it."""
        if self._peer is not None and self._peer.is_open:
            self._beats_sent += 1
            self._peer.tell(ApiKey.PEER_BEAT, 0, (INT32.pack(self._surroundings.broker_id),))

    def forget_beats(self) -> None:
        """Count beats from here on."""
        self._beats_sent = self._beats_heard = 0
        if self._peer is not None:
            self._peer.beats_heard = 0

    def follows(self, partition: Partition) -> bool:
        """Return whether it fetches this partition."""
        return self._partitions.get(self._key(partition)) is partition

    def line(self) -> dict[str, Json]:
        """Return how the line to the leader is."""
        peer = self._peer
        return {
            "connection": "none" if peer is None else "open" if peer.is_open else "lost",
            "beats_heard": self._beats_heard + (0 if peer is None else peer.beats_heard),
            "beats_sent": self._beats_sent,
            "partitions": len(self._partitions),
        }

    # Which partitions.

    def add(self, partition: Partition) -> None:
        """Follow a partition from this leader; `go` afterwards."""
        key = self._key(partition)
        follower = partition.follower
        assert follower is not None
        self._partitions[key] = partition
        if partition.is_fresh:
            partition.is_fresh = False
            self._fresh[key] = self._surroundings.clock.mono_ms()
        effects = follower.follow(
            LeaderEpoch(partition.leader_epoch),
            log_start=partition.log.log_start,
            log_end=partition.log.log_end,
            high_watermark=partition.high_watermark,
            latest_epoch=partition.log.epochs.latest_epoch,
        )
        self._fetcher.add(key, follower)
        self._perform(key, partition, effects)

    def remove(self, partition: Partition) -> None:
        """Follow it no more. A cut that is not done yet never will be: the next role decides afresh."""
        key = self._key(partition)
        self._cancel_cut(key)
        if self._fresh.pop(key, None) is not None:
            # Whoever leads next finds it where this one left it.
            partition.is_fresh = True
            self._surroundings.observer.catching_up_ended(partition.key)
        if self._partitions.pop(key, None) is not None:
            self._fetcher.remove(key)

    def log_start_moved(self, partition: Partition) -> None:
        """Tell the leader of a new log start with the next fetch."""
        key = self._key(partition)
        if key in self._partitions and partition.follower is not None:
            partition.follower.log_start = partition.log.log_start
            self._fetcher.touch(key)

    @staticmethod
    def _key(partition: Partition) -> Key:
        return (partition.topic_id.bytes, partition.key.partition)

    # The cycle.

    def go(self) -> None:
        """Send the next fetch if none is in flight and something is ready."""
        if self._is_in_flight or self._is_closed:
            return
        if self._wake_timer is not None:
            self._wake_timer.cancel()
            self._wake_timer = None
        if self._peer is None:
            if self._connecting is None and self._partitions:
                self._connecting = self._surroundings.tasks.spawn(self._connect())
            return
        if not self._peer.is_open:
            # It broke while no fetch was under way, so no answer told of it.
            self._broke()
            return
        now_ms = self._surroundings.clock.mono_ms()
        questions = self._fetcher.next_questions(now_ms)
        if questions:
            self._ask_epochs(questions, now_ms)
            return
        plan = self._fetcher.next_request(now_ms)
        if plan is None:
            self._sleep(now_ms)
            return
        self._send(plan, now_ms)

    def _sleep(self, now_ms: int) -> None:
        wake_ms = self._fetcher.next_wake_ms()
        if wake_ms is not None:
            self._wake_timer = self._surroundings.loop.call_later(max(1, wake_ms - now_ms) / 1000, self._woken)

    def _woken(self) -> None:
        self._wake_timer = None
        self.go()

    def _send(self, plan: FetchRequestPlan[Key], now_ms: int) -> None:
        assert self._peer is not None
        config = self._surroundings.configs.broker
        topics: dict[bytes, list[FetchPartition]] = {}
        for (topic_id, index), ask in plan.listed:
            topics.setdefault(topic_id, []).append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=ask.leader_epoch,
                    fetch_offset=ask.fetch_offset,
                    last_fetched_epoch=ask.last_fetched_epoch,
                    log_start_offset=ask.log_start,
                    partition_max_bytes=config.replica_fetch_max_bytes,
                )
            )
        forgotten: dict[bytes, list[int]] = {}
        for topic_id, index in plan.forgotten:
            forgotten.setdefault(topic_id, []).append(index)
        request = FetchRequest(
            replica_id=self._surroundings.broker_id,
            replica_epoch=self._surroundings.registration.broker_epoch,
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=min(config.replica_fetch_response_max_bytes, RESPONSE_BYTES_MAX),
            isolation_level=0,
            session_id=plan.session_id,
            session_epoch=plan.session_epoch,
            topics=list(topics.items()),
            forgotten=list(forgotten.items()),
            rack_id="",
        )
        self._is_in_flight = True
        self.fetch_count += 1
        self._request_number += 1
        number = self._request_number
        self._sent_at_ms = now_ms
        if self._unanswered_since_ms is None:
            self._unanswered_since_ms = now_ms
        self._watch()
        self._peer.send(
            ApiKey.FETCH,
            FETCH_VERSION,
            (encode_fetch_request(request, FETCH_VERSION),),
            lambda frame, position: self._answered(number, frame, position),
        )

    def _ask_epochs(self, questions: list[tuple[Key, EpochQuestion]], now_ms: int) -> None:
        """Ask the leader where the last epochs of these logs end in its own."""
        assert self._peer is not None
        topics: dict[str, list[dict[str, int]]] = {}
        for key, asked in questions:
            partition = self._partitions[key]
            row = {
                "partition": partition.key.partition,
                "current_leader_epoch": asked.leader_epoch,
                "leader_epoch": asked.epoch,
            }
            topics.setdefault(partition.key.topic, []).append(row)
        request: Any = build(
            request_type(ApiKey.OFFSET_FOR_LEADER_EPOCH, EPOCH_END_VERSION),
            {
                "replica_id": self._surroundings.broker_id,
                "topics": [{"topic": topic, "partitions": rows} for topic, rows in topics.items()],
            },
        )
        self._is_in_flight = True
        self._request_number += 1
        number = self._request_number
        self._sent_at_ms = now_ms
        self._watch()
        self._peer.send(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            EPOCH_END_VERSION,
            (encode_request(request),),
            lambda frame, position: self._epochs_answered(number, questions, frame, position),
        )

    def _epochs_answered(
        self, number: int, questions: list[tuple[Key, EpochQuestion]], frame: memoryview | None, position: int
    ) -> None:
        if number != self._request_number or self._is_closed:
            return
        self._is_in_flight = False
        if frame is None:
            self._broke()
            return
        self._unanswered_since_ms = None
        self._reconnect_ms = RECONNECT_MS
        self._surroundings.departures.answered(self.leader_id)
        try:
            response = decode_response(ApiKey.OFFSET_FOR_LEADER_EPOCH, EPOCH_END_VERSION, bytes(frame[position:]))
        except DecodeError as error:
            log.warning("malformed answer of broker %s about its epochs: %s", self.leader_id, error)
            self._drop_connection()
            return
        rows = {(str(topic.topic), int(row.partition)): row for topic in response.topics for row in topic.partitions}
        for key, asked in questions:
            partition = self._partitions.get(key)
            follower = partition.follower if partition is not None else None
            if partition is None or follower is None or not follower.fits(asked):
                continue
            row = rows.get((partition.key.topic, partition.key.partition))
            code = ErrorCode.UNKNOWN_SERVER_ERROR if row is None else ErrorCode(int(row.error_code))
            if row is None or code:
                effects = follower.refused(asked, code, self._surroundings.clock.mono_ms())
            else:
                effects = follower.compared(
                    EpochEnd(LeaderEpoch(int(row.leader_epoch)), Offset(int(row.end_offset))),
                    partition.log.epochs,
                    partition.log.log_end,
                    partition.high_watermark,
                )
            self._perform(key, partition, effects)
        self.go()
        self._surroundings.settle()

    def _answered(self, number: int, frame: memoryview | None, position: int) -> None:
        if number != self._request_number or self._is_closed:
            return
        self._is_in_flight = False
        if frame is None:
            self._broke()
            return
        self._unanswered_since_ms = None
        self._reconnect_ms = RECONNECT_MS
        self._surroundings.departures.answered(self.leader_id)
        try:
            response = parse_fetch_response(frame, FETCH_VERSION, position)
        except DecodeError as error:
            log.warning("malformed fetch answer of broker %s: %s", self.leader_id, error)
            self._drop_connection()
            return
        if response.error_code:
            self._fetcher.session_refused(ErrorCode(response.error_code))
        else:
            self._fetcher.answered(response.session_id)
            try:
                for topic_id, rows in response.topics:
                    assert isinstance(topic_id, bytes)
                    for row in rows:
                        self._process((topic_id, row.partition), row)
            except Exception:
                # Our bug. Without the next fetch all partitions of this leader would stop in silence: begin anew.
                log.exception("an answer of broker %s could not be processed", self.leader_id)
                self._resume_at_log_ends()
                self._drop_connection()
        self.go()
        self._surroundings.settle()

    def _resume_at_log_ends(self) -> None:
        """Believe the logs: records may have been written whose arrival nobody took note of."""
        for key, partition in self._partitions.items():
            follower = partition.follower
            if follower is not None and follower.phase is FollowerPhase.FETCHING:
                _resume_at_log_end(follower, partition.log)
                self._fetcher.touch(key)

    # Connection.

    async def _connect(self) -> None:
        try:
            while not self._is_closed and self._partitions:
                record = self._surroundings.cluster.image.brokers.get(self.leader_id)  # type: ignore[call-overload]
                if record is not None:
                    try:
                        self._peer = await self._surroundings.links.connect(
                            self.leader_id,
                            record.internal_host,
                            record.internal_port,
                            client_id_of(self._surroundings.broker_id, "fetcher"),
                        )
                    except PeerLost:
                        pass
                    else:
                        # It answers; what it will be asked now, it has not been asked yet.
                        self._unanswered_since_ms = None
                        break
                await asyncio.sleep(self._reconnect_ms / 1000)
                self._reconnect_ms = min(self._reconnect_ms * 2, RECONNECT_MS_MAX)
        finally:
            self._connecting = None
        self.go()

    def _broke(self) -> None:
        self._surroundings.departures.connection_broke(self.leader_id)
        self._lost()

    def _lost(self) -> None:
        if self._peer is not None:
            self._beats_heard += self._peer.beats_heard
            self._peer = None
        if self._unanswered_since_ms is None:
            self._unanswered_since_ms = self._surroundings.clock.mono_ms()
        self._fetcher.disconnected(self._surroundings.clock.mono_ms())
        self.go()

    def _drop_connection(self) -> None:
        peer, self._peer = self._peer, None
        if peer is not None:
            self._request_number += 1
            self._is_in_flight = False
            self._beats_heard += peer.beats_heard
            peer.close()
            self._lost()

    def _watch(self) -> None:
        """Have one lazy timer see that answers come: it is re-armed when it fires, never cancelled per request."""
        if self._watchdog is None:
            timeout_ms = self._surroundings.configs.broker.replica_socket_timeout_ms
            self._watchdog = self._surroundings.loop.call_later(timeout_ms / 1000, self._check_answer)

    def _check_answer(self) -> None:
        self._watchdog = None
        if not self._is_in_flight or self._is_closed:
            return
        if (
            self._surroundings.clock.mono_ms() - self._sent_at_ms
            >= self._surroundings.configs.broker.replica_socket_timeout_ms
        ):
            log.warning("broker %s has not answered a fetch in time; connecting again", self.leader_id)
            self._drop_connection()
        else:
            self._watch()

    def leader_moved(self) -> None:
        """Connect anew: the leader's process is another one, or lives elsewhere."""
        if self._peer is not None:
            self._drop_connection()

    def close(self) -> None:
        """Stop fetching."""
        self._is_closed = True
        for key in list(self._cuts):
            self._cancel_cut(key)
        for timer in (self._wake_timer, self._watchdog):
            if timer is not None:
                timer.cancel()
        if self._connecting is not None:
            self._connecting.cancel()
        if self._peer is not None:
            self._peer.close()
            self._peer = None

    # Answers.

    def _process(self, key: Key, row: FetchedPartition) -> None:
        partition = self._partitions.get(key)
        sent = self._fetcher.sent(key)
        follower = partition.follower if partition is not None else None
        if partition is None or sent is None or follower is None or not follower.accepts(sent):
            return
        now_ms = self._surroundings.clock.mono_ms()
        if row.error_code:
            effects = follower.refused(sent, ErrorCode(row.error_code), now_ms)
        elif row.diverging_epoch is not None:
            epoch, end_offset = row.diverging_epoch
            effects = follower.diverged(
                EpochEnd(LeaderEpoch(epoch), Offset(end_offset)),
                partition.log.epochs,
                partition.log.log_end,
                partition.high_watermark,
            )
        else:
            effects = self._append(partition, row, now_ms)
            if row.records:
                self._fetcher.processed(key)
            if self._fresh and key in self._fresh:
                self._note_catching_up(key, partition, row)
        self._fetcher.touch(key)
        if effects:
            self._perform(key, partition, effects)

    def _note_catching_up(self, key: Key, partition: Partition, row: FetchedPartition) -> None:
        if not self._surroundings.observer.catching_up(partition, self._fresh[key], self.leader_id, row.high_watermark):
            del self._fresh[key]

    def _append(self, partition: Partition, row: FetchedPartition, now_ms: int) -> FollowerEffects:
        follower, partition_log = partition.follower, partition.log
        assert follower is not None
        try:
            if row.records:
                clock = self._surroundings.clock
                began_ms = clock.mono_ms()
                partition_log.append_as_follower(row.records)
                took_ms = clock.mono_ms() - began_ms
                if took_ms >= NOTABLE_MS:
                    self._surroundings.observer.disk.wrote(partition.key, took_ms)
                self._surroundings.counters.replicated_in(len(row.records))
                self.fetched_bytes += len(row.records)
                partition.watchers.log_end_moved()
            partition.take_leader_mark(Offset(row.high_watermark))
            if row.log_start_offset > partition_log.log_start:
                target = Offset(min(row.log_start_offset, partition.high_watermark))
                if partition_log.raise_log_start(target):
                    partition.watchers.log_start_moved()
        except CorruptRecordsError as error:
            log.warning("%s: broker %s sent records that fail their checksum: %s", partition.key, self.leader_id, error)
            follower.back_off(now_ms)
            return ()
        except (LogOfflineError, UnexpectedOffsetError) as error:
            return follower.fail(str(error))
        except StorageError as error:
            # No room, no descriptors: that passes. An answer may take several writes, and the first ones are done.
            log.warning("%s: %s", partition.key, error)
            _resume_at_log_end(follower, partition_log)
            follower.back_off(now_ms)
            return ()
        follower.appended(
            log_end=partition_log.log_end,
            log_start=partition_log.log_start,
            latest_epoch=partition_log.epochs.latest_epoch,
            leader_high_watermark=Offset(row.high_watermark),
        )
        return ()

    def _perform(self, key: Key, partition: Partition, effects: FollowerEffects) -> None:
        for effect in effects:
            match effect:
                case TruncateLog():
                    self._truncate(key, partition, effect)
                case RestartLog():
                    self._restart(partition, effect)
                case AskLeaderEnd():
                    self._surroundings.tasks.spawn(self._ask_offset(key, partition, LATEST))
                case AskLeaderStart():
                    self._surroundings.tasks.spawn(self._ask_offset(key, partition, EARLIEST))
                case FollowerFailed():
                    log.error("%s is no longer followed: %s", partition.key, effect.reason)
        self._fetcher.restated(key)

    def _truncate(self, key: Key, partition: Partition, effect: TruncateLog) -> None:
        """Have the log cut, at once or when the disk has told where; the follower is TRUNCATING meanwhile."""
        self._cancel_cut(key)
        before = partition.log.log_end
        is_late = False

        def done(error: StorageError | None) -> None:
            self._cuts.pop(key, None)
            self._truncated(partition, before, effect.evidence, error)
            if is_late:
                self._fetcher.restated(key)
                self.go()
                self._surroundings.settle()

        cut = self._surroundings.cuts.order(partition, effect.offset, done)
        follower = partition.follower
        if follower is not None and follower.phase is FollowerPhase.TRUNCATING:
            self._cuts[key] = cut
            is_late = True

    def _cancel_cut(self, key: Key) -> None:
        cut = self._cuts.pop(key, None)
        if cut is not None:
            cut.cancel()

    def _restart(self, partition: Partition, effect: RestartLog) -> None:
        before, error = partition.log.log_end, None
        try:
            with self._surroundings.cuts.holding_loop(partition.key):
                partition.log.restart_at(effect.start_offset)
        except StorageError as refusal:
            error = refusal
        self._truncated(partition, before, effect.evidence, error)

    def _truncated(self, partition: Partition, before: Offset, evidence: Evidence, error: StorageError | None) -> None:
        """Go on at the end of a log that was cut, or could not be."""
        follower = partition.follower
        assert follower is not None
        if error is not None:
            follower.fail(str(error))
            return
        partition.truncated()
        self._surroundings.journal.truncated(partition, self.leader_id, before, evidence)
        _resume_at_log_end(follower, partition.log)

    async def _ask_offset(self, key: Key, partition: Partition, timestamp: int) -> None:
        """Ask the leader where its log ends or starts, after it refused our offset."""
        follower = partition.follower
        if follower is None:
            return
        ask = follower.ask()
        code, offset = await self._list_offset(partition, ask, timestamp)
        if self._partitions.get(key) is not partition or partition.follower is not follower:
            return
        if follower.leader_epoch != ask.leader_epoch or follower.phase is not FollowerPhase.ASKING:
            return
        effects: FollowerEffects
        if code:
            effects = follower.refused(ask, code, self._surroundings.clock.mono_ms())
        elif timestamp == LATEST:
            effects = follower.leader_end_known(
                Offset(offset), log_end=partition.log.log_end, high_watermark=partition.high_watermark
            )
        else:
            effects = follower.leader_start_known(
                Offset(offset), log_end=partition.log.log_end, now_ms=self._surroundings.clock.mono_ms()
            )
        self._perform(key, partition, effects)
        self.go()

    async def _list_offset(self, partition: Partition, ask: FetchAsk, timestamp: int) -> tuple[ErrorCode, int]:
        if self._peer is None:
            return ErrorCode.NETWORK_EXCEPTION, -1
        request: Any = build(
            request_type(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION),
            {
                "replica_id": self._surroundings.broker_id,
                "isolation_level": 0,
                "topics": [
                    {
                        "name": partition.key.topic,
                        "partitions": [
                            {
                                "partition_index": partition.key.partition,
                                "current_leader_epoch": ask.leader_epoch,
                                "timestamp": timestamp,
                            }
                        ],
                    }
                ],
            },
        )
        try:
            response = await self._peer.request(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, request)
        except PeerLost:
            return ErrorCode.NETWORK_EXCEPTION, -1
        row = response.topics[0].partitions[0]
        return ErrorCode(int(row.error_code)), int(row.offset)


def _resume_at_log_end(follower: FollowerPartition, partition_log: PartitionLog) -> None:
    """Let a follower fetch on from where its log ends now."""
    follower.truncated(partition_log.log_end, partition_log.epochs.latest_epoch, partition_log.log_start)
