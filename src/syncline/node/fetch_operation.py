"""One fetch request, from its look at the partitions to its answer.

A look never blocks: bytes in memory are read at once, others are read by the
disk's workers, and the decision is made when the last read has ended. A fetch
with too little to answer parks; whatever may make it answerable wakes it, and
it looks anew. The follower's progress counts once per request, at its first
look, with the log end captured before the read (replication rules 2.2).

Woken fetches are collected and answered at the end of the callback that woke
them, so that one produce request with several partitions costs one answer.
Source: KIP-74 (limits), KIP-227 (sessions), KIP-392 (follower reads), KIP-595 (diverging epochs).
"""

from typing import TYPE_CHECKING, Final, cast
from uuid import UUID

from syncline.core.fetching.delayed import FetchLook, fetch_ready, must_answer_now
from syncline.core.fetching.limits import FetchBudget
from syncline.core.fetching.read_replicas import preferred_replica
from syncline.core.fetching.session import NO_SESSION_ID, FetchContext, SessionPartition
from syncline.core.replication.pending_fetches import PendingEntry, PendingRequest
from syncline.core.replication.truncation import check_leader_epoch, find_divergence
from syncline.model.errors import ErrorCode, RequestError
from syncline.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset, TopicPartition
from syncline.node.partition import Partition
from syncline.node.request import Buffer
from syncline.storage.errors import StorageError
from syncline.storage.reading import Slice
from syncline.wire.endpoints import NodeEndpoint
from syncline.wire.fetch import FetchedPartition, FetchRequest, FetchResponse, encode_fetch_response

if TYPE_CHECKING:
    from syncline.node.broker import Broker
    from syncline.node.request import Request

READ_COMMITTED: Final = 1
# Unknown topics are reported, but beside good partitions they do not end the wait.
_PATIENT = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
_HINTED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
# The first fetch version whose consumers may read from followers, and whose answers carry leader hints.
_FOLLOWER_READ_VERSION: Final = 11
_HINT_VERSION: Final = 16
# The first fetch version that may be told of a failed disk (KIP-112).
_STORAGE_ERROR_VERSION: Final = 6


def _key_of(entry: SessionPartition) -> tuple[str | bytes, int]:
    """Return (topic name or id, partition): how this room names the partitions of a session."""
    return cast("tuple[str | bytes, int]", entry.key)


class _Row:
    """What one look found of one partition."""

    __slots__ = (
        "bound",
        "diverging",
        "entry",
        "error",
        "high_watermark",
        "is_counted",
        "is_progress",
        "is_reading",
        "leader_epoch",
        "log_end",
        "log_start",
        "partition",
        "pending",
        "preferred",
        "records",
    )

    def __init__(self, entry: SessionPartition) -> None:
        self.entry = entry
        self.partition: Partition | None = None
        self.error = ErrorCode.NONE
        self.records: Buffer = b""
        self.diverging: tuple[int, int] | None = None
        # The replica that the reader is sent to instead of being served.
        self.preferred = -1
        self.high_watermark = Offset(-1)
        self.log_start = Offset(-1)
        self.log_end = Offset(-1)
        self.bound = Offset(-1)
        self.leader_epoch = LeaderEpoch(-1)
        self.is_progress = False
        self.is_counted = False
        self.is_reading = False
        # What was registered for a follower that has to wait for the disk.
        self.pending: PendingEntry | None = None

    def fail(self, error: ErrorCode) -> None:
        self.error = error
        self.records = b""
        self.high_watermark = self.log_start = Offset(-1)
        self.is_progress = False


class FetchOperation:
    """A fetch request on its way to its answer."""

    __slots__ = (
        "_broker",
        "_bucket",
        "_context",
        "_fetch",
        "_is_first_look",
        "_is_forced",
        "_pending",
        "_rack",
        "_reads_left",
        "_request",
        "_rows",
        "_taken_up_ms",
        "_unknown",
        "is_answered",
    )

    def __init__(self, broker: "Broker", request: "Request", fetch: FetchRequest, context: FetchContext) -> None:
        self._broker = broker
        self._request = request
        self._fetch = fetch
        self._context = context
        self._rows: list[_Row] = []
        self._reads_left = 0
        self._bucket = -1
        # Where the consumer stands, if this broker is to look for a replica near it.
        self._rack = fetch.rack_id if fetch.rack_id and broker.selects_near_replicas and fetch.replica_id < 0 else ""
        self._is_first_look = True
        self._is_forced = False
        self._taken_up_ms = 0
        # What this broker owes a follower while slow reads protect it (KIP-501).
        self._pending: PendingRequest | None = None
        # What did not exist when the request came; that is its answer, whatever happens while it waits.
        self._unknown: dict[SessionPartition, ErrorCode] = {}
        self.is_answered = False
        request.on_lost = self._give_up

    @property
    def is_follower(self) -> bool:
        """Whether another broker asks, which follows the partitions."""
        return self._fetch.replica_id >= 0

    @property
    def partition_count(self) -> int:
        """How many partitions may wake it."""
        return self._context.partition_count

    def start(self) -> None:
        """Look at the partitions for the first time."""
        for entry in self._context.added:
            self._resolve(entry)
        self._taken_up_ms = self._broker.clock.mono_ms()
        if self._fetch.replica_id >= 0:
            self._broker.observer.followers.asked(self._fetch.replica_id, self._request.connection, self._taken_up_ms)
        elif self._rack:
            # A follower may have become near enough while the partition itself stood still.
            self._context.look_at_all()
        self._look()

    def wake(self) -> None:
        """Look again after something moved; answer if that suffices."""
        if self.is_answered or self._reads_left:
            return
        if self._rows:
            # Its last reads were given up, as their partitions have another leader.
            self._decide()
            return
        if fetch_ready(self._glances(), min(self._fetch.min_bytes, self._fetch.max_bytes)):
            self._leave_purgatory()
            self._is_forced = True
            self._look()

    def expired(self, now_ms: int) -> None:
        """Answer with whatever there is: the wait is over."""
        if self.is_answered or self._reads_left:
            return
        if self._fetch.replica_id >= 0:
            self._broker.counters.follower_fetch_expiries += 1
        else:
            self._broker.counters.fetch_expiries += 1
        self._bucket = -1
        self._is_forced = True
        self._look()

    def _changed(self, _entry: SessionPartition) -> None:
        self._broker.wake(self)

    def _leave_purgatory(self) -> None:
        if self._bucket >= 0:
            self._broker.deadlines.forget(self, self._bucket)
            self._bucket = -1

    def _give_up(self) -> None:
        """End without an answer: the connection is gone, and so is whoever waited."""
        self.is_answered = True
        self._leave_purgatory()
        self._rows = []
        session = self._context.session
        if self._pending is not None:
            self._broker.slow_reads.lost(self, self._pending, session)
        # A session goes on over another connection, where its next fetch may be parked already.
        if session.on_change == self._changed or self._context.session_id == NO_SESSION_ID:
            self._context.finish()

    # Looking.

    def _resolve(self, entry: SessionPartition) -> Partition | None:
        """Return the hosted partition that an entry names, and watch it."""
        topic, index = _key_of(entry)
        if isinstance(topic, bytes):
            name = self._broker.image.topic_names.get(UUID(bytes=topic))
            if name is None:
                return None
            topic = name
        partition = self._broker.partitions.get(TopicPartition(topic, index))
        if partition is not None:
            entry.target = partition
            partition.watchers.add(entry)
        return partition

    def _look(self) -> None:
        if self._pending is not None:
            self._pending.unpark(self._broker.clock.mono_ms())
        budget = FetchBudget(min(self._fetch.max_bytes, self._broker.config.fetch_max_bytes))
        self._rows = [self._read(entry, budget) for entry in self._context.pending()]
        if not self._reads_left:
            self._decide()
        elif self._broker.slow_reads.rules is not None and self._fetch.replica_id >= 0:
            self._pend()

    def _read(self, entry: SessionPartition, budget: FetchBudget) -> _Row:
        row = _Row(entry)
        if entry in self._unknown:
            row.fail(self._unknown[entry])
            return row
        partition = self._find(row, entry)
        if partition is None:
            if self._is_first_look and row.error in _PATIENT:
                self._unknown[entry] = row.error
            return row
        row.partition = partition
        error = self._check(entry, partition)
        if error:
            row.fail(error)
            return row
        log = partition.log
        # Captured before the read: the answer and the follower's progress must not see what comes after.
        row.log_end = log.log_end
        row.log_start = log.log_start
        row.high_watermark = partition.high_watermark
        row.leader_epoch = LeaderEpoch(partition.leader_epoch)
        row.bound = row.log_end if entry.is_follower else row.high_watermark
        if self._rack and partition.leader is not None:
            preferred = preferred_replica(
                partition.leader, self._rack, self._broker.racks_of_living(), Offset(entry.fetch_offset)
            )
            if preferred is not None:
                row.preferred = preferred
                return row
        found = find_divergence(log.epochs, entry.last_fetched_epoch, entry.fetch_offset, row.log_start, row.log_end)
        if found is not None:
            if isinstance(found, ErrorCode):
                row.fail(found)
            else:
                row.diverging = (found.leader_epoch, found.end_offset)
            return row
        row.is_progress = entry.is_follower
        if entry.fetch_offset < row.bound:
            self._read_records(row, partition, budget)
        else:
            budget.spend(0)
        return row

    def _find(self, row: _Row, entry: SessionPartition) -> Partition | None:
        """Return the partition to read, or put the reason why there is none into `row`."""
        partition = entry.target
        broker = self._broker
        assert partition is None or isinstance(partition, Partition)
        if partition is not None and broker.partitions.get(partition.key) is partition:
            return partition
        was_known = partition is not None
        topic, index = _key_of(entry)
        if isinstance(topic, bytes):
            name = broker.image.topic_names.get(UUID(bytes=topic))
            if name is None:
                is_recreated = isinstance(partition, Partition) and partition.key.topic in broker.image.topics
                row.fail(
                    ErrorCode.INCONSISTENT_TOPIC_ID
                    if is_recreated
                    else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    if was_known
                    else ErrorCode.UNKNOWN_TOPIC_ID
                )
                return None
            topic = name
        resolved = self._resolve(entry)
        if resolved is not None:
            return resolved
        is_elsewhere = broker.image.partition(topic, index) is not None
        row.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER if is_elsewhere else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return None

    def _check(self, entry: SessionPartition, partition: Partition) -> ErrorCode:
        if partition.is_offline:
            return self._storage_error
        leader = partition.leader
        requested = LeaderEpoch(-1 if entry.current_leader_epoch == -2 else entry.current_leader_epoch)
        if entry.is_follower and leader is not None:
            return leader.check_fetch(
                BrokerId(self._fetch.replica_id), requested, BrokerEpoch(self._fetch.replica_epoch)
            )
        error = check_leader_epoch(requested, LeaderEpoch(partition.leader_epoch))
        if error:
            return error
        if leader is None:
            may_read = not entry.is_follower and (
                self._request.version >= _FOLLOWER_READ_VERSION or self._fetch.replica_id == -2
            )
            if not may_read or partition.follower is None:
                return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    @property
    def _storage_error(self) -> ErrorCode:
        """Return what a failed disk is called: old clients do not know the word, and look for another leader."""
        is_known = self._request.version >= _STORAGE_ERROR_VERSION
        return ErrorCode.KAFKA_STORAGE_ERROR if is_known else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _read_records(self, row: _Row, partition: Partition, budget: FetchBudget) -> None:
        grant = budget.grant(row.entry.max_bytes)
        if grant.is_negative:
            budget.spend(0)
            row.fail(ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        if grant.max_bytes == 0 and not grant.whole_first_batch:
            return
        try:
            plan = partition.log.read_plan(
                row.entry.fetch_offset, grant.max_bytes, row.bound, at_least_one=grant.whole_first_batch
            )
            # The size of what has yet to be found is not known; it is at most what was granted.
            size_bytes = plan.size_bytes if isinstance(plan, Slice) else grant.max_bytes
            if isinstance(plan, Slice) and not size_bytes:
                return
            data = plan.read_resident()
        except RequestError as error:
            row.fail(error.code)
            return
        except (StorageError, OSError):
            # A segment that was closed meanwhile may not even be opened again.
            row.fail(self._storage_error)
            return
        budget.spend(size_bytes)
        if data is not None:
            row.records = data
            counters = self._broker.counters
            counters.memory_read_bytes += size_bytes
            if not row.is_progress and isinstance(plan, Slice):
                counters.consumer_read(data, partition.log.bytes_behind(plan), partition.log.newest_timestamp_ms)
            return
        self._reads_left += 1
        row.is_reading = True
        disk = self._broker.observer.disk
        number = disk.read_began(partition.key, self._fetch.replica_id, self._broker.clock.mono_ms())

        def done(result: Buffer | Exception) -> None:
            disk.read_ended(number)
            if not row.is_reading:
                # It was answered without waiting for this.
                return
            row.is_reading = False
            if (
                self._broker.partitions.get(partition.key) is not partition
                or partition.leader_epoch != row.leader_epoch
            ):
                # The log may have been cut and written anew while it was read, or its files be gone.
                row.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            elif isinstance(result, Exception):
                row.fail(self._storage_error)
            else:
                row.records = result
                self._broker.counters.disk_read_bytes += len(result)
                if row.records and not row.is_progress:
                    behind_bytes = partition.log.bytes_from(Offset(row.entry.fetch_offset))
                    self._broker.counters.consumer_read(result, behind_bytes, partition.log.newest_timestamp_ms)
            if row.pending is not None:
                self._read_ended(row, row.pending)
            self._reads_left -= 1
            if not self._reads_left:
                self._decide()
                self._broker.settle()

        plan.read_later(done)

    # Owing a follower an answer (KIP-501): only where a read has to wait, and the feature is on.

    def _pend(self) -> None:
        """Register this request, and count at once what was read at once."""
        slow_reads = self._broker.slow_reads
        request = self._pending
        if request is None:
            now_ms = self._broker.clock.mono_ms()
            # All looks before this one found everything in memory: the rest of the time it waited for data.
            parked_ms = 0 if self._is_first_look else now_ms - self._taken_up_ms
            request = self._pending = slow_reads.opened(
                self, self._context.session, self._fetch.replica_epoch, self._taken_up_ms, parked_ms
            )
        for row in self._rows:
            leader = None if row.partition is None else row.partition.leader
            known = request.looked.get(row.entry)
            if known is not None and known.is_void:
                known = None
            if known is None and row.is_progress and leader is not None:
                known = leader.fetch_pends(BrokerId(self._fetch.replica_id), Offset(row.entry.fetch_offset), request)
            request.looked[row.entry] = row.pending = known
            if row.is_reading:
                if known is not None:
                    known.is_read = False
            elif self._is_first_look:
                self._note_progress(row)
            elif known is not None:
                known.is_read = True

    def _read_ended(self, row: _Row, pending: PendingEntry) -> None:
        """Take note of the end of one slow read."""
        slow_reads = self._broker.slow_reads
        if row.error:
            slow_reads.read_failed(pending)
            return
        if self._is_first_look:
            lost_ms = pending.request.lost_ms
            self._note_progress(row, self._broker.clock.mono_ms() if lost_ms is None else lost_ms)
        pending.is_read = True
        slow_reads.read_ended(pending)

    def leadership_ended(self, partition: Partition, error: ErrorCode) -> None:
        """Wait no longer for the reads of a partition that this broker has ceased to lead."""
        for row in self._rows:
            if row.partition is not partition:
                continue
            if row.pending is not None:
                self._broker.slow_reads.read_failed(row.pending)
                row.pending = None
            if row.is_reading:
                row.is_reading = False
                row.fail(error)
                self._reads_left -= 1
        if not self._reads_left and self._rows:
            self._broker.wake(self)

    def _glances(self) -> list[FetchLook]:
        """Return the cheap view of what a look would find."""
        looks = []
        for entry in self._context.pending():
            if entry in self._unknown:
                continue
            partition = entry.target
            if (
                not isinstance(partition, Partition)
                or self._broker.partitions.get(partition.key) is not partition
                or self._check(entry, partition)
            ):
                looks.append(FetchLook(entry.fetch_offset, entry.fetch_offset, 0, is_broken=True))
                continue
            log = partition.log
            bound = log.log_end if entry.is_follower else partition.high_watermark
            if entry.fetch_offset >= bound:
                looks.append(FetchLook(entry.fetch_offset, bound, 0))
                continue
            found = find_divergence(
                log.epochs, entry.last_fetched_epoch, entry.fetch_offset, log.log_start, log.log_end
            )
            if found is not None:
                looks.append(FetchLook(entry.fetch_offset, bound, 0, is_broken=True))
                continue
            readable = log.readable(entry.fetch_offset, bound)
            available_bytes = min(readable.size_bytes, max(entry.max_bytes, 1))
            looks.append(FetchLook(entry.fetch_offset, bound, available_bytes, readable.is_on_older_segment))
        return looks

    # Deciding.

    def _decide(self) -> None:
        if self.is_answered:
            return
        rows = self._rows
        if self._is_first_look:
            self._is_first_look = False
            self._count_progress()
        if self._is_forced or self._must_answer():
            self._answer()
            return
        self._rows = []
        if self._pending is not None:
            self._pending.park(self._broker.clock.mono_ms())
        deadline_ms = self._taken_up_ms + self._fetch.max_wait_ms
        self._bucket = self._broker.deadlines.park(self, deadline_ms)
        self._context.session.on_change = self._changed
        if any(row.partition is not None and row.entry.fetch_offset < row.partition.log.log_end for row in rows):
            # Something may have moved while this request's own progress was counted, before it listened.
            self._broker.wake(self)

    def _must_answer(self) -> bool:
        readable_bytes = 0
        has_urgent = False
        good_count = 0
        for row in self._rows:
            readable_bytes += len(row.records)
            if row.error:
                has_urgent = has_urgent or row.error not in _PATIENT
            else:
                good_count += 1
                has_urgent = (
                    has_urgent or row.diverging is not None or row.entry.fetch_offset > row.bound or row.preferred >= 0
                )
        quiet_count = self._context.partition_count - len(self._rows)
        if self._rows and not good_count and quiet_count <= 0:
            has_urgent = True
        return must_answer_now(
            max_wait_ms=self._fetch.max_wait_ms,
            min_bytes=self._fetch.min_bytes,
            max_bytes=self._fetch.max_bytes,
            partition_count=self._context.partition_count,
            readable_bytes=readable_bytes,
            has_urgent=has_urgent,
        )

    def _count_progress(self) -> None:
        """Tell each leader what this fetch proves about the follower that sent it."""
        for row in self._rows:
            partition = row.partition
            if partition is not None:
                partition.counters.fetches += 1
            if row.is_progress and not row.is_counted:
                self._note_progress(row)

    def _note_progress(self, row: _Row, served_ms: int | None = None) -> None:
        """Tell one partition's leader; `served_ms` is the end of a slow read."""
        row.is_counted = True
        partition = row.partition
        if not row.is_progress or partition is None or partition.leader is None:
            return
        entry = row.entry
        effects = partition.leader.follower_fetched(
            BrokerId(self._fetch.replica_id),
            entry.fetch_offset,
            entry.log_start,
            row.log_end,
            BrokerEpoch(self._fetch.replica_epoch),
            row.leader_epoch,
            self._taken_up_ms,
            stamp=entry,
            entry=row.pending,
            served_ms=served_ms,
        )
        if effects:
            partition.perform(effects)
        self._broker.low_watermarks.moved(partition)

    # Answering.

    def _answer(self) -> None:
        self.is_answered = True
        if self._fetch.replica_id >= 0:
            self._broker.observer.followers.answered(self._fetch.replica_id, self._request.connection)
        self._leave_purgatory()
        context = self._context
        if self._pending is not None:
            self._broker.slow_reads.answered(self, self._pending, context.session)
        topics: dict[str | bytes, list[FetchedPartition]] = {}
        endpoints: dict[int, NodeEndpoint] = {}
        for row in self._rows:
            entry = row.entry
            belongs = context.settle(
                entry,
                record_bytes=len(row.records),
                high_watermark=row.high_watermark,
                log_start=row.log_start,
                error=row.error,
                is_notable=row.diverging is not None or row.preferred >= 0,
                at_bound=entry.fetch_offset >= row.bound,
            )
            if row.records:
                self._count_out(row)
            elif row.error == ErrorCode.UNKNOWN_SERVER_ERROR and row.partition is not None:
                row.partition.counters.failed_fetches += 1
            if belongs:
                topic, _ = _key_of(entry)
                topics.setdefault(topic, []).append(self._fetched(row, endpoints))
        response = FetchResponse(
            error_code=ErrorCode.NONE,
            session_id=context.session_id,
            topics=list(topics.items()),
            node_endpoints=tuple(endpoints.values()),
        )
        self._rows = []
        context.finish()
        self._request.reply_parts(encode_fetch_response(response, self._request.version))

    def _count_out(self, row: _Row) -> None:
        if row.entry.is_follower:
            self._broker.counters.replication_bytes_out += len(row.records)
        elif row.partition is not None:
            row.partition.counters.bytes_out += len(row.records)

    def _fetched(self, row: _Row, endpoints: dict[int, NodeEndpoint]) -> FetchedPartition:
        _, index = _key_of(row.entry)
        if row.error:
            leader = None
            if row.error in _HINTED and self._request.version >= _HINT_VERSION:
                topic = self._topic_name(row.entry)
                leader, endpoint = self._broker.leader_hint(topic, index, row.error)
                # Followers know where brokers are.
                if endpoint is not None and not row.entry.is_follower:
                    endpoints[endpoint.node_id] = endpoint
            return FetchedPartition(
                partition=index,
                error_code=row.error,
                aborted_transactions=[] if row.entry in self._unknown else None,
                current_leader=leader,
            )
        return FetchedPartition(
            partition=index,
            error_code=ErrorCode.NONE,
            high_watermark=row.high_watermark,
            last_stable_offset=row.high_watermark,
            log_start_offset=row.log_start,
            records=row.records,
            aborted_transactions=[] if self._fetch.isolation_level == READ_COMMITTED else None,
            preferred_read_replica=row.preferred,
            diverging_epoch=row.diverging,
        )

    def _topic_name(self, entry: SessionPartition) -> str:
        topic, _ = _key_of(entry)
        if isinstance(topic, bytes):
            return self._broker.image.topic_names.get(UUID(bytes=topic), "")
        return str(topic)
