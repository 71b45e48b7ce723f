"""Reading partitions for a fetch: finding each, checking that it may be read, and reading the granted bytes.

A look never blocks. It reads bytes in memory at once; worker threads read others from the disk and report to the
fetch. Log end, log start and high watermark are captured before the read: neither the answer nor the follower's
progress may include later records.
Source: KIP-74 (limits), KIP-392 (follower reads), KIP-595 (diverging epochs).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol
from uuid import UUID

from syncline.core.fetching.delayed import FetchLook
from syncline.core.fetching.limits import FetchBudget
from syncline.core.fetching.read_replicas import preferred_replica
from syncline.core.fetching.session import SessionPartition
from syncline.core.replication.truncation import check_leader_epoch, find_divergence
from syncline.model.errors import ErrorCode, RequestError
from syncline.model.ids import NONE, BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition
from syncline.node.fetching.row import Row, key_of
from syncline.node.fetching.serving import FetchServing
from syncline.node.fetching.throttled import ThrottledReads
from syncline.node.partitions.partition import Partition
from syncline.records.buffers import Buffer, FileRange, Part
from syncline.storage.arrivals.append_time_search import AppendTimesBetween
from syncline.storage.arrivals.append_times import ALL_UNKNOWN, CopiedTime
from syncline.storage.arrivals.read_facts import ReadReport
from syncline.storage.disk import UNMEASURED
from syncline.storage.errors import StorageError
from syncline.storage.segments.reading import Search, Slice
from syncline.wire.fetch import FetchRequest

# Errors that do not end the wait if other partitions of the request are readable.
PATIENT: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
# The first fetch version whose consumers may read from followers.
_FOLLOWER_READ_VERSION: Final = 11
# Kafka's id of a replica that is being moved between directories: it reads beside the leader in every version.
_FUTURE_REPLICA: Final = -3
# The first fetch version that has an error for a failed disk (KIP-112).
_STORAGE_ERROR_VERSION: Final = 6
# What the loop reads from the page cache for one fetch of a consumer: each MB takes it half a millisecond. Clients ask
# for a MB of each of a few partitions. Worker threads read the rest, which costs half as much again. A follower's
# answer has less (`leader_questions`).
READ_AT_ONCE_BYTES: Final = 4_000_000

# Less is read and sent like any answer: what precedes and follows a range is sent by calls of its own.
RANGE_BYTES_MIN: Final = 32_768

_NO_EPOCH: Final = LeaderEpoch(NONE)
# Means the same.
_ANY_EPOCH: Final = LeaderEpoch(-2)

# A named tuple's own constructor takes three times as long.
_make: Final = tuple.__new__


class WaitsForReads(Protocol):
    """A fetch, as its slow reads see it."""

    def read_began(self, size_bytes: int, /) -> None:
        """Wait for one more read, of at most so many bytes."""

    def read_ended(self, row: Row) -> None:
        """Continue: the read of this row has succeeded or failed."""


class PartitionReader:
    """Reads the partitions of one fetch request."""

    __slots__ = (
        "_at_once_bytes",
        "_fetch",
        "_is_watching",
        "_rack",
        "_serving",
        "_version",
        "sends_files",
        "throttled",
        "unknown",
    )

    def __init__(
        self, serving: FetchServing, fetch: FetchRequest, version: int, *, is_watching: bool, sends_files: bool
    ) -> None:
        """`is_watching`: a session remembers the partitions, so they are watched from the beginning.

        `sends_files`: the connection of a follower can send records that are not read.
        """
        self._serving = serving
        self._fetch = fetch
        self._version = version
        self._is_watching = is_watching
        self.sends_files = sends_files
        # What the loop may still read for this fetch.
        self._at_once_bytes = READ_AT_ONCE_BYTES
        # The consumer's rack, if this broker should look for a replica in it.
        is_sent_on = fetch.rack_id and fetch.replica_id < 0 and serving.configs.selects_near_replicas
        self._rack = fetch.rack_id if is_sent_on else ""
        # Partitions that did not exist when the request came; the answer says so, even if they are created meanwhile.
        self.unknown: dict[SessionPartition, ErrorCode] = {}
        # What throttles leave of a follower's fetch, None while nothing is throttled.
        self.throttled: ThrottledReads | None = None

    @property
    def looks_for_near_replicas(self) -> bool:
        """Whether the consumer may be sent to a replica in its own rack."""
        return bool(self._rack)

    def watch(self, rows: Iterable[Row]) -> None:
        """Watch the partitions of a request without a session: those that it has looked at, and others from then on."""
        self._is_watching = True
        for row in rows:
            if row.partition is not None:
                row.partition.watchers.add(row.entry)

    def _resolve(self, entry: SessionPartition) -> Partition | None:
        """Return the hosted partition that an entry names."""
        key = key_of(entry)
        partition = self._serving.known.find(key)
        if partition is None:
            topic, index = key
            if isinstance(topic, bytes):
                name = self._serving.cluster.image.topic_names.get(UUID(bytes=topic))
                if name is None:
                    return None
                topic = name
            partition = self._serving.partitions.get(_make(TopicPartition, (topic, index)))
            if partition is not None and topic is not key[0]:
                self._serving.known.found(key, partition)
        if partition is not None:
            entry.target = partition
            if self._is_watching:
                partition.watchers.add(entry)
        return partition

    def read(self, entry: SessionPartition, budget: FetchBudget, waiting: WaitsForReads, *, is_first_look: bool) -> Row:
        """Return the row of one partition; a read that has to wait reports to `waiting`."""
        row = Row(entry)
        if self.unknown and entry in self.unknown:
            row.fail(self.unknown[entry])
            return row
        partition = self._find(row, entry)
        if partition is None:
            if is_first_look and row.error in PATIENT:
                self.unknown[entry] = row.error
            return row
        row.partition = partition
        error = self._check(entry, partition)
        if error:
            row.fail(error)
            return row
        log, offset = partition.log, entry.fetch_offset
        # Captured before the read: the answer and the follower's progress may not include later records.
        row.log_end = log_end = log.log_end
        row.log_start = log_start = log.log_start
        row.high_watermark = high_watermark = log.high_watermark
        row.leader_epoch = partition.leader_epoch
        row.bound = bound = log_end if entry.is_follower else high_watermark
        assert high_watermark <= log_end, f"{partition} has its high watermark beyond its log"
        if self._rack and partition.leader is not None:
            preferred = preferred_replica(
                partition.leader, self._rack, self._serving.cluster.racks_of_unfenced(), offset
            )
            if preferred is not None:
                row.preferred = preferred
                return row
        found = find_divergence(log.epochs, entry.last_fetched_epoch, offset, log_start, log_end)
        if found is not None:
            if isinstance(found, ErrorCode):
                row.fail(found)
            else:
                row.diverging = (found.leader_epoch, found.end_offset)
            return row
        row.is_progress = entry.is_follower
        if offset < bound:
            self._read_records(row, partition, budget, waiting)
        else:
            budget.spend(0)
        return row

    def _find(self, row: Row, entry: SessionPartition) -> Partition | None:
        """Return the partition to read, or set the error in `row`."""
        partition = entry.target
        serving = self._serving
        if isinstance(partition, Partition) and serving.partitions.get(partition.key) is partition:
            return partition
        resolved = self._resolve(entry)
        if resolved is not None:
            return resolved
        if isinstance(partition, Partition):
            # It is here no longer, and the session does not keep it. Another topic may have its name.
            entry.target = partition.key
        image = serving.cluster.image
        topic, index = key_of(entry)
        if isinstance(topic, bytes):
            name = image.topic_names.get(UUID(bytes=topic))
            if name is None:
                row.fail(self._error_of_gone(entry))
                return None
            # From now on, the session knows the name, whatever becomes of the topic.
            entry.target = _make(TopicPartition, (name, index))
            topic = name
        is_elsewhere = image.partition(topic, index) is not None
        row.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER if is_elsewhere else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return None

    def _error_of_gone(self, entry: SessionPartition) -> ErrorCode:
        """Return the error of a topic id that no topic has: if the session knows its name, another may have that."""
        key = entry.target
        if not isinstance(key, TopicPartition):
            return ErrorCode.UNKNOWN_TOPIC_ID
        if self._serving.cluster.image.partition(key.topic, key.partition) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        is_here = key in self._serving.partitions
        return ErrorCode.INCONSISTENT_TOPIC_ID if is_here else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _check(self, entry: SessionPartition, partition: Partition) -> ErrorCode:
        if partition.log.is_offline:
            return self._storage_error
        leader, requested = partition.leader, entry.current_leader_epoch
        if requested == _ANY_EPOCH:
            requested = _NO_EPOCH
        if entry.is_follower and leader is not None:
            return leader.check_fetch(
                BrokerId(self._fetch.replica_id), requested, BrokerEpoch(self._fetch.replica_epoch)
            )
        if requested not in (_NO_EPOCH, partition.leader_epoch):
            return check_leader_epoch(requested, partition.leader_epoch)
        if leader is None:
            may_read = not entry.is_follower and (
                self._version >= _FOLLOWER_READ_VERSION or self._fetch.replica_id == _FUTURE_REPLICA
            )
            if not may_read or partition.follower is None:
                return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    @property
    def _storage_error(self) -> ErrorCode:
        """Return the error for a failed disk: old clients get one that makes them refresh their metadata."""
        is_known = self._version >= _STORAGE_ERROR_VERSION
        return ErrorCode.KAFKA_STORAGE_ERROR if is_known else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _read_records(self, row: Row, partition: Partition, budget: FetchBudget, waiting: WaitsForReads) -> None:
        entry, log, throttled = row.entry, partition.log, self.throttled
        limit_bytes, whole_first_batch = budget.grant(entry.max_bytes)
        if limit_bytes <= 0:
            if limit_bytes < 0:
                budget.spend(0)
                row.fail(ErrorCode.UNKNOWN_SERVER_ERROR)
                return
            if not whole_first_batch:
                return
        if throttled is not None:
            allowed_bytes = throttled.allow(row, partition, limit_bytes)
            if allowed_bytes is None:
                return
            limit_bytes = allowed_bytes
        try:
            plan = log.read_plan(entry.fetch_offset, limit_bytes, row.bound, whole_first_batch)
            # The size is unknown until the bytes are found; it is at most what was granted.
            size_bytes = limit_bytes
            times: Sequence[CopiedTime] | AppendTimesBetween = ()
            if isinstance(plan, Slice):
                size_bytes = plan.size_bytes
                if not size_bytes:
                    return
                if row.is_progress:
                    # A follower whose log begins with these records has no entry before them.
                    times = log.append_times.between(
                        entry.fetch_offset,
                        plan.position_bytes,
                        size_bytes,
                        with_floor=entry.fetch_offset == entry.log_start,
                    )
            is_large = size_bytes > self._at_once_bytes and not row.is_progress
            is_later = is_large or isinstance(times, AppendTimesBetween)
            data: Part | None = None
            if not is_later:
                if self.sends_files and size_bytes >= RANGE_BYTES_MIN and isinstance(plan, Slice):
                    unread = log.unread(entry.fetch_offset, plan)
                    if unread is not None and unread[1].leader_epoch == row.leader_epoch:
                        data, row.unread = unread
                if data is None:
                    data = self._serving.woken.reads.read(plan)
        except RequestError as error:
            row.fail(error.code)
            return
        except (StorageError, OSError):
            # The file of a closed segment could not be opened again.
            row.fail(self._storage_error)
            return
        budget.spend(size_bytes)
        if throttled is not None:
            throttled.reads(row, size_bytes)
        if data is None:
            self._read_later(row, partition, plan, size_bytes, waiting)
            return
        assert not isinstance(times, AppendTimesBetween), f"{row} is read before its append times are found"
        row.records = data
        row.append_times = times
        self._at_once_bytes -= size_bytes
        self._serving.counters.memory_read_bytes += size_bytes
        if isinstance(plan, Slice):
            if not row.is_progress:
                row.noted = log.read_noted(entry.fetch_offset, plan)
            if self._serving.lag.read_ahead.places:
                self._measured(row, partition, plan.base_bytes + plan.position_bytes, size_bytes)

    def keep(self, rows: Iterable[Row]) -> None:
        """Read the records that lie in files still: they will be sent some callbacks later."""
        for row in rows:
            if isinstance(row.records, FileRange):
                try:
                    row.records = row.records.read()
                except (EOFError, OSError):
                    row.fail(self._storage_error)

    def _read_later(
        self, row: Row, partition: Partition, plan: Slice | Search, size_bytes: int, waiting: WaitsForReads
    ) -> None:
        """Read in a worker."""
        waiting.read_began(size_bytes)
        row.is_reading = True
        disk = self._serving.disk_watch
        number = disk.read_began(partition.key, self._fetch.replica_id, self._serving.clock.mono_ms())
        report = partition.log.read_report(row.entry.fetch_offset, with_time=not row.is_progress)

        def done(result: Buffer | Exception) -> None:
            disk.read_ended(number)
            if not row.is_reading:
                # The fetch was answered without waiting for this read.
                return
            row.is_reading = False
            assert not row.records, f"{row} was read twice"
            if (
                self._serving.partitions.get(partition.key) is not partition
                or partition.leader_epoch != row.leader_epoch
            ):
                # The log may have been cut and rewritten during the read, or its files deleted.
                row.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            elif isinstance(result, Exception):
                row.fail(self._storage_error)
            else:
                row.records = result
                self._measure(row, partition, report)
                if row.records and not row.is_progress:
                    row.noted = report.noted()
                elif row.records and self._times_follow(row, partition, report, waiting):
                    return
            waiting.read_ended(row)

        plan.read_later(done, report)

    def _measure(self, row: Row, partition: Partition, report: ReadReport) -> None:
        """Count what a worker has read: what it found in memory, and what it had to wait for."""
        size_bytes, resident_bytes = len(row.records), report.resident_bytes
        if resident_bytes == UNMEASURED:
            # As if it were from the disk: some of it was not where the loop could get it.
            self._serving.counters.disk_read_bytes += size_bytes
            row.missed_bytes = UNMEASURED
            return
        self._serving.counters.memory_read_bytes += size_bytes
        coordinate_bytes = report.base_bytes + report.position_bytes
        self._measured(row, partition, coordinate_bytes, min(resident_bytes, size_bytes))
        self._serving.lag.read_ahead.brought(partition.key, coordinate_bytes + size_bytes, report.ahead_bytes)

    def _measured(self, row: Row, partition: Partition, coordinate_bytes: int, resident_bytes: int) -> None:
        """Note how much of a row's records came from the disk, of which so much was in memory in the end."""
        ahead = self._serving.lag.read_ahead
        row.missed_bytes = ahead.missed_bytes(partition.key, coordinate_bytes, len(row.records), resident_bytes)
        self._serving.counters.memory_read_bytes -= row.missed_bytes
        self._serving.counters.disk_read_bytes += row.missed_bytes

    def _times_follow(self, row: Row, partition: Partition, report: ReadReport, waiting: WaitsForReads) -> bool:
        """Give a follower's row the append times of records that a worker read; return whether that needs a worker.

        Then it is read until they are found.
        """
        entry = row.entry
        times = partition.log.append_times.between(
            entry.fetch_offset,
            report.position_bytes,
            len(row.records),
            with_floor=entry.fetch_offset == entry.log_start,
        )
        if not isinstance(times, AppendTimesBetween):
            row.append_times = times
            return False

        def found(result: list[CopiedTime] | Exception) -> None:
            if row.is_reading:
                row.is_reading = False
                # The records are good without them.
                unknown = ((entry.fetch_offset, ALL_UNKNOWN),)
                row.append_times = unknown if isinstance(result, Exception) else result
                waiting.read_ended(row)

        row.is_reading = True
        times.run_later(found)
        return True

    def glances(self, entries: Iterable[SessionPartition]) -> Iterator[FetchLook]:
        """Iterate over what a look would find, without reading."""
        for entry in entries:
            if entry in self.unknown:
                continue
            partition = entry.target
            if (
                not isinstance(partition, Partition)
                or self._serving.partitions.get(partition.key) is not partition
                or self._check(entry, partition)
            ):
                yield FetchLook(entry.fetch_offset, entry.fetch_offset, 0, is_broken=True)
                continue
            log = partition.log
            bound = log.log_end if entry.is_follower else log.high_watermark
            if entry.fetch_offset >= bound:
                yield FetchLook(entry.fetch_offset, bound, 0)
                continue
            found = find_divergence(
                log.epochs, entry.last_fetched_epoch, entry.fetch_offset, log.log_start, log.log_end
            )
            if found is not None:
                yield FetchLook(entry.fetch_offset, bound, 0, is_broken=True)
                continue
            readable = log.readable(entry.fetch_offset, bound)
            available_bytes = min(readable.size_bytes, max(entry.max_bytes, 1))
            is_on_older = readable.is_on_older_segment
            is_throttled = self.throttled is not None and self.throttled.is_closed(entry, partition)
            yield _make(FetchLook, (entry.fetch_offset, bound, available_bytes, is_on_older, is_throttled, False))
