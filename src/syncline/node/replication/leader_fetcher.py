"""Fetches from one leader all partitions that this broker follows from it.

The next fetch is sent inside the callback that has processed the answer, right after the records were written: there is
no task between two fetches, and nothing is copied between socket and disk, unless an answer has so many rows that it is
processed in slices. `core/fetching/fetcher.py` and
`core/replication/follower.py` decide what to ask and what an answer means.

In `epoch-request` mode the fetcher compares partitions that have a new leader before it fetches them: one request, in
place of a fetch, asks for all of them where their last epochs end in the leader's log.

Times in ms of the node's clock. Source: KIP-227, KIP-279, KIP-595.
"""

import asyncio
import logging
from typing import Final, assert_never

from syncline.core.fetching.fetcher import Fetcher, FetchRequestPlan
from syncline.core.replication.follower import (
    AskLeaderEnd,
    AskLeaderStart,
    AwaitMetadata,
    EpochQuestion,
    FollowerEffects,
    FollowerFailed,
    FollowerPhase,
    RestartLog,
    TruncateLog,
)
from syncline.core.replication.leader_epochs import EpochEnd
from syncline.model.errors import ErrorCode
from syncline.model.events import Json
from syncline.model.ids import LeaderEpoch, Offset
from syncline.model.tables import shrink
from syncline.node.links.peer import PeerLost
from syncline.node.partitions.partition import Partition
from syncline.node.replication.answered_rows import FEW_ROWS, AnsweredRows, ParsedRows, RowsToRead
from syncline.node.replication.followed_logs import FollowedLogs, resume_at_log_ends
from syncline.node.replication.leader_connection import LeaderConnection
from syncline.node.replication.leader_questions import (
    EARLIEST,
    EPOCH_END_VERSION,
    FETCH_VERSION,
    LATEST,
    LIST_OFFSETS_VERSION,
    Key,
    epochs_answer,
    epochs_request,
    fetch_request,
    offset_answer,
    offset_request,
)
from syncline.node.replication.surroundings import FetcherSurroundings
from syncline.node.replication.throttled import ThrottledFetches
from syncline.wire.api import ApiKey
from syncline.wire.codec import encode_request
from syncline.wire.errors import DecodeError
from syncline.wire.fetch import encode_fetch_request
from syncline.wire.fetch_response import (
    FetchedPartition,
    FetchedRows,
    FetchResponse,
    has_more_rows,
    parse_fetch_response,
)

log = logging.getLogger("syncline.node")

# An answer of at most so many bytes is read before its first row is processed.
SHORT_BYTES: Final = 1_024


class LeaderFetcher:
    """The fetcher of one leader broker."""

    def __init__(self, surroundings: FetcherSurroundings, leader_id: int) -> None:
        self._surroundings = surroundings
        self.leader_id = leader_id
        self._fetcher: Fetcher[Key] = Fetcher()
        self._partitions: dict[Key, Partition] = {}
        self.connection = LeaderConnection(
            leader_id,
            surroundings,
            is_wanted=lambda: bool(self._partitions),
            on_open=self.go,
            on_lost=self._connection_lost,
        )
        self._logs = FollowedLogs(
            leader_id,
            surroundings,
            on_late_cut=self._cut_late,
            send_doubt=self.connection.send_doubt,
            ask_append_times=self.connection.ask_append_times,
            follows=lambda key, partition: self._partitions.get(key) is partition,
        )
        self._answer = AnsweredRows(
            surroundings.loop,
            surroundings.holds,
            process=self._process,
            paused=surroundings.settle,
            ended=self._processed,
        )
        self._wake_timer: asyncio.TimerHandle | None = None
        # None while nothing is throttled.
        self.throttled: ThrottledFetches | None = None
        self.throttle_changed()
        # For the metrics: the time of creation, and the number of fetches.
        self.created_ms = surroundings.clock.mono_ms()
        self.fetch_count = 0

    def __len__(self) -> int:
        return len(self._partitions)

    def __repr__(self) -> str:
        return f"<fetcher of {len(self._partitions)} partitions over {self.connection}>"

    @property
    def fetched_bytes(self) -> int:
        """Return how many bytes of records the leader has sent."""
        return self._logs.fetched_bytes

    @property
    def unanswered_since_ms(self) -> int | None:
        """Return since when the leader has not answered, or is unreachable; None if it answers or is not needed."""
        return self.connection.unanswered_since_ms if self._partitions else None

    def describe(self) -> dict[str, Json]:
        """Return the state of the connection to the leader, as events carry it."""
        return {**self.connection.describe(), "partitions": len(self._partitions)}

    def follows(self, partition: Partition) -> bool:
        """Return whether this fetcher fetches a partition."""
        return self._partitions.get(_key(partition)) is partition

    def add(self, partition: Partition) -> None:
        """Follow a partition from this leader; the caller then calls `go`."""
        key = _key(partition)
        follower = partition.follower
        assert follower is not None, f"{partition} does not follow"
        if not self._partitions:
            self.connection.wanted_again()
        self._partitions[key] = partition
        self._logs.begin(key, partition)
        effects = follower.follow(
            LeaderEpoch(partition.leader_epoch),
            log_start=partition.log.log_start,
            log_end=partition.log.log_end,
            high_watermark=partition.high_watermark,
            latest_epoch=partition.log.epochs.latest_epoch,
        )
        self._fetcher.add(key, follower)
        if self.throttled is not None:
            self.throttled.look_at(key, partition)
        self._perform(key, partition, effects)

    def remove(self, partition: Partition) -> None:
        """Stop following a partition."""
        key = _key(partition)
        self._logs.end(key, partition)
        if self.throttled is not None:
            self.throttled.leave(key)
        if self._partitions.pop(key, None) is not None:
            shrink(self._partitions)
            self._fetcher.remove(key)

    def throttle_changed(self) -> None:
        """Begin or end to ask for throttles; which partitions they concern is found out by `look_at`."""
        throttle = self._surroundings.throttle
        if self.throttled is not None and not throttle.is_active:
            self.throttled.close(self._surroundings.clock.mono_ms())
            self.throttled = None
        elif self.throttled is None and throttle.is_active:
            self.throttled = ThrottledFetches(
                throttle, self._fetcher, self._partitions, self._surroundings.broker_id, self.go
            )

    def look_at(self, key: Key) -> None:
        """Find out whether a partition is throttled, if it is followed from this leader; the caller then calls `go`."""
        partition = self._partitions.get(key)
        if partition is not None and self.throttled is not None:
            self.throttled.look_at(key, partition)

    def close(self) -> None:
        """Stop fetching."""
        self._answer.drop()
        if self.throttled is not None:
            self.throttled.close(self._surroundings.clock.mono_ms())
        self._logs.close()
        if self._wake_timer is not None:
            self._wake_timer.cancel()
        self.connection.close()

    def check_invariants(self) -> None:
        """Assert that this fetcher fetches exactly the partitions that follow this leader."""
        assert len(self._fetcher) == len(self._partitions), f"{self} has {len(self._fetcher)} followers"
        for key, partition in self._partitions.items():
            assert key in self._fetcher, f"{partition} is followed, and not fetched"
            assert partition.follower is not None, f"{partition} is fetched, and does not follow"
        self._logs.check_invariants(self._partitions)
        if self.throttled is not None:
            self.throttled.check_invariants()

    def go(self) -> None:
        """Send the next fetch if none is in flight and something is ready."""
        if self._answer.left is not None or not self.connection.is_free:
            return
        if self._wake_timer is not None:
            self._wake_timer.cancel()
            self._wake_timer = None
        if not self.connection.open_or_connect():
            return
        now_ms = self._surroundings.clock.mono_ms()
        questions = self._fetcher.next_questions(now_ms)
        if questions:
            self._ask_epochs(questions, now_ms)
            return
        decide_ms = None
        if self.throttled is not None:
            decide_ms = self.throttled.share_out(now_ms, self._surroundings.configs.broker.replica_fetch_max_bytes)
        wait_ms = None if decide_ms is None else decide_ms - now_ms
        plan = self._fetcher.next_request(now_ms)
        if plan is None:
            self._sleep(now_ms, decide_ms)
            return
        self._fetch(plan, now_ms, 0 if plan.is_partial else wait_ms)

    def _sleep(self, now_ms: int, decide_ms: int | None) -> None:
        times_ms = [at_ms for at_ms in (self._fetcher.next_wake_ms(), decide_ms) if at_ms is not None]
        if times_ms:
            wake_ms = min(times_ms)
            self._wake_timer = self._surroundings.loop.call_later(max(1, wake_ms - now_ms) / 1000, self.go)

    def _connection_lost(self) -> None:
        now_ms = self._surroundings.clock.mono_ms()
        self._answer.drop()
        if self.throttled is not None:
            self.throttled.ended(now_ms)
        self._fetcher.disconnected(now_ms)
        self.go()

    def _cut_late(self, key: Key) -> None:
        self._fetcher.restated(key)
        self.go()
        self._surroundings.settle()

    def _fetch(self, plan: FetchRequestPlan[Key], now_ms: int, max_wait_ms: int | None) -> None:
        surroundings = self._surroundings
        request = fetch_request(
            plan,
            surroundings.configs.broker,
            surroundings.broker_id,
            surroundings.registration.broker_epoch,
            max_wait_ms=max_wait_ms,
        )
        self.fetch_count += 1
        parts = (encode_fetch_request(request, FETCH_VERSION),)
        self.connection.send(ApiKey.FETCH, FETCH_VERSION, parts, self._fetched, now_ms)

    def _fetched(self, frame: memoryview, position: int) -> None:
        response: FetchResponse | FetchedRows
        try:
            if len(frame) > SHORT_BYTES and has_more_rows(frame, FETCH_VERSION, position, FEW_ROWS):
                response = FetchedRows(frame, FETCH_VERSION, position)
            else:
                response = parse_fetch_response(frame, FETCH_VERSION, position)
        except DecodeError as error:
            _malformed(self.connection, error)
            return
        if response.error_code:
            self._fetcher.session_refused(ErrorCode(response.error_code))
        else:
            self._fetcher.answered(response.session_id)
            if isinstance(response, FetchedRows):
                self._answer.begin(RowsToRead(response))
                return
            topics = response.topics
            if len(topics) > 1 or (topics and len(topics[0][1]) > FEW_ROWS):
                self._answer.begin(ParsedRows(topics))
                return
            # Most answers have few rows, or none.
            try:
                for topic_id, rows in topics:
                    assert isinstance(topic_id, bytes), f"fetch version {FETCH_VERSION} names topics by id"
                    for row in rows:
                        self._process((topic_id, row.partition), row)
            except Exception as error:  # noqa: BLE001 - logged there
                self._processed(error)
                return
        self.go()
        self._surroundings.settle()

    def _processed(self, failure: Exception | None) -> None:
        if isinstance(failure, DecodeError):
            _malformed(self.connection, failure)
        elif failure is not None:
            # Our bug. Without a next fetch, all partitions of this leader would stop silently: connect again.
            log.error("a response from broker %s could not be processed", self.leader_id, exc_info=failure)
            for key in resume_at_log_ends(self._partitions):
                self._fetcher.touch(key)
            self.connection.drop()
        self.go()
        self._surroundings.settle()

    def _process(self, key: Key, row: FetchedPartition) -> None:
        partition = self._partitions.get(key)
        sent = self._fetcher.sent(key)
        follower = partition.follower if partition is not None else None
        if partition is None or sent is None or follower is None or not follower.accepts(sent):
            return
        if row.error_code:
            effects = follower.refused(sent, ErrorCode(row.error_code), self._surroundings.clock.mono_ms())
        elif row.diverging_epoch is not None:
            epoch, end_offset = row.diverging_epoch
            effects = follower.diverged(
                EpochEnd(LeaderEpoch(epoch), Offset(end_offset)),
                partition.log.epochs,
                partition.log.log_end,
                partition.high_watermark,
            )
        else:
            effects = self._logs.append(key, partition, row)
            if row.records:
                self._fetcher.processed(key)
            if self.throttled is not None:
                self.throttled.received(key, partition, len(row.records), self._surroundings.clock.mono_ms())
                self.throttled.look_at(key, partition)
            self._logs.report_catching_up(key, partition, row.high_watermark)
        self._fetcher.touch(key)
        if effects:
            self._perform(key, partition, effects)

    def _ask_epochs(self, questions: list[tuple[Key, EpochQuestion]], now_ms: int) -> None:
        request = epochs_request(questions, self._partitions, self._surroundings.broker_id)
        self.connection.send(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            EPOCH_END_VERSION,
            (encode_request(request),),
            lambda frame, position: self._epochs_known(questions, frame, position),
            now_ms,
        )

    def _epochs_known(self, questions: list[tuple[Key, EpochQuestion]], frame: memoryview, position: int) -> None:
        try:
            rows = epochs_answer(bytes(frame[position:]))
        except DecodeError as error:
            log.warning("malformed response from broker %s about its epochs: %s", self.leader_id, error)
            self.connection.drop()
            return
        for key, asked in questions:
            partition = self._partitions.get(key)
            follower = partition.follower if partition is not None else None
            if partition is None or follower is None or not follower.fits(asked):
                continue
            row = rows.get(partition.key)
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

    def _perform(self, key: Key, partition: Partition, effects: FollowerEffects) -> None:
        for effect in effects:
            match effect:
                case TruncateLog():
                    self._logs.truncate(key, partition, effect)
                case RestartLog():
                    self._logs.restart(partition, effect)
                case AskLeaderEnd():
                    self._surroundings.tasks.spawn(self._ask_offset(key, partition, LATEST))
                case AskLeaderStart():
                    self._surroundings.tasks.spawn(self._ask_offset(key, partition, EARLIEST))
                case AwaitMetadata():
                    log.info(
                        "%s waits for newer metadata: broker %s has a newer leader epoch", partition.key, self.leader_id
                    )
                case FollowerFailed():
                    log.error("%s is no longer followed: %s", partition.key, effect.reason)
                case _:
                    assert_never(effect)
        self._fetcher.restated(key)

    async def _ask_offset(self, key: Key, partition: Partition, timestamp: int) -> None:
        """Ask the leader where its log ends or starts, after it refused the fetch offset."""
        follower = partition.follower
        if follower is None:
            return
        ask = follower.ask()
        request = offset_request(partition.key, ask, timestamp, self._surroundings.broker_id)
        try:
            code, offset = offset_answer(
                await self.connection.request(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, request)
            )
        except PeerLost:
            code, offset = ErrorCode.NETWORK_EXCEPTION, -1
        if self._partitions.get(key) is not partition or partition.follower is not follower:
            return
        if follower.leader_epoch != ask.leader_epoch or follower.phase is not FollowerPhase.ASKING:
            return
        now_ms, log_end = self._surroundings.clock.mono_ms(), partition.log.log_end
        effects: FollowerEffects
        if code:
            effects = follower.refused(ask, code, now_ms)
        elif timestamp == LATEST:
            effects = follower.leader_end_known(
                Offset(offset), log_end=log_end, high_watermark=partition.high_watermark
            )
        else:
            effects = follower.leader_start_known(Offset(offset), log_end=log_end, now_ms=now_ms)
        self._perform(key, partition, effects)
        self.go()


def _malformed(connection: LeaderConnection, error: DecodeError) -> None:
    log.warning("malformed fetch response from broker %s: %s", connection.leader_id, error)
    connection.drop()


def _key(partition: Partition) -> Key:
    return (partition.topic_id.bytes, partition.key.partition)
