"""One fetch request, from its first look at the partitions to its answer.

A fetch with too little data parks; any change that may make it answerable wakes it, and it looks again. If some bytes
have to be read from the disk, it decides when the last read has ended. A follower's progress counts once per request,
at its first look, with the log end captured before the read.

Woken fetches are collected and answered at the end of the callback that woke them, so that one produce request with
several partitions costs one answer.

Many partitions are looked at in steps (`node.serving.stepping`), for consumers and followers alike: to the rest of
this class, such a look is one more read that it waits for.
Source: KIP-74 (limits), KIP-227 (sessions), KIP-501 (slow reads).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from syncline.core.fetching.delayed import fetch_ready
from syncline.core.fetching.limits import RECORD_ROWS_MAX, FetchBudget
from syncline.core.fetching.session import NO_SESSION_ID, FetchContext, SessionPartition
from syncline.core.replication.slow_leader.waits import PendingEntry, PendingRequest
from syncline.model.errors import ErrorCode
from syncline.model.ids import BrokerId, Offset
from syncline.node.fetching.answer import CONSUMER, answer
from syncline.node.fetching.caught_up import caught_up
from syncline.node.fetching.judged import (
    NOTHING,
    has_news,
    judged,
    lacks_records,
    may_not_wait,
    must_answer,
    without_records,
)
from syncline.node.fetching.positions import note_positions
from syncline.node.fetching.progress import report_progress
from syncline.node.fetching.reader import PartitionReader
from syncline.node.fetching.row import PARTITIONS_AT_ONCE, PARTITIONS_PER_STEP, Row
from syncline.node.fetching.serving import FetchServing
from syncline.node.fetching.throttled import ThrottledReads
from syncline.node.loop.list_parts import in_parts
from syncline.node.partitions.partition import Partition
from syncline.wire.fetch import FetchRequest

if TYPE_CHECKING:
    from syncline.node.serving.request import Request, Steps


class FetchOperation:
    """A fetch request without an answer."""

    __slots__ = (
        "_bucket",
        "_context",
        "_fetch",
        "_is_first_look",
        "_is_forced",
        "_pending",
        "_reader",
        "_reading_bytes",
        "_reads_left",
        "_request",
        "_rows",
        "_serving",
        "_stays",
        "_taken_up_ms",
        "_throttled",
        "is_answered",
    )

    def __init__(self, serving: FetchServing, request: "Request", fetch: FetchRequest, context: FetchContext) -> None:
        self._serving = serving
        self._request = request
        self._fetch = fetch
        self._context = context
        self._rows: list[Row] = []
        self._reads_left = 0
        # What its reads may take, as long as there are any.
        self._reading_bytes = 0
        self._bucket = -1
        self._stays = context.session_id != NO_SESSION_ID
        self._reader = PartitionReader(
            serving,
            fetch,
            request.version,
            is_watching=self._stays,
            sends_files=fetch.replica_id >= 0 and request.version >= 12 and request.connection.files is not None,
        )
        self._is_first_look = True
        self._is_forced = False
        self._taken_up_ms = 0
        # The pending fetch of a follower that slow reads protect (KIP-501).
        self._pending: PendingRequest | None = None
        # What throttles leave of a follower's fetch, None while nothing is throttled.
        self._throttled: ThrottledReads | None = None
        self.is_answered = False
        request.on_lost = self._give_up

    @property
    def is_follower(self) -> bool:
        """Whether the fetch is a follower's."""
        return self._fetch.replica_id >= 0

    @property
    def partition_count(self) -> int:
        """How many partitions may wake it."""
        return self._context.partition_count

    def start(self, now_ms: int) -> None:
        """Look at the partitions for the first time."""
        self._taken_up_ms = now_ms
        entries = None
        if self._fetch.replica_id >= 0:
            self._serving.followers.fetched(self._fetch.replica_id, self._request.connection, now_ms)
            if not self._serving.throttle.is_active:
                # There may be thousands: they are sorted once.
                entries = self._context.pending()
                if self._waits_at_ends(entries):
                    return
        elif self._reader.looks_for_near_replicas:
            # A replica near the consumer may have caught up without a change of the partition itself.
            self._context.look_at_all()
        self._look(entries=entries)

    def _waits_at_ends(self, entries: list[SessionPartition]) -> bool:
        """Count the progress of a follower that has all records, and park; False: there is more to do than that.

        `entries` are pending; no throttle is active.
        """
        serving, fetch = self._serving, self._fetch
        if (
            fetch.max_wait_ms <= 0
            or fetch.min_bytes <= 0
            or fetch.max_bytes <= 0
            or not self._context.partition_count
            or len(entries) > PARTITIONS_AT_ONCE
        ):
            return False
        partitions = caught_up(entries, fetch, serving.partitions)
        if partitions is None:
            return False
        self._is_first_look = False
        for entry, partition in zip(entries, partitions, strict=True):
            partition.counters.fetches += 1
            report_progress(
                serving, fetch, self._taken_up_ms, entry, partition, entry.fetch_offset, entry.current_leader_epoch
            )
        if serving.outgoing.senders:
            # What this fetch has committed is acknowledged before the fetch parks, which takes longer.
            serving.outgoing.leave()
        self._park()
        if lacks_records(entries):
            # Counting its progress may have led to more records.
            serving.woken.wake(self)
        return True

    def _stay(self) -> None:
        """Be woken by the partitions from now on, and count for the client: the answer is not made at once."""
        if not self._stays:
            self._stays = True
            self._context.stay()
            self._reader.watch(self._rows)

    def wake(self) -> None:
        """Look again after a change; answer if there is enough."""
        if self.is_answered or self._reads_left:
            return
        if self._rows:
            # Its remaining reads were abandoned, because their partitions have another leader.
            self._decide()
            return
        room_bytes = self._request.connection.holding.answer_bytes_max()
        if not room_bytes:
            # With no memory for an answer, it waits for its deadline.
            return
        if self._throttled is not None:
            self._throttled.free(self._context.session, self._serving.clock.mono_ms())
        entries = self._context.pending()
        wanted_bytes = min(self._fetch.min_bytes, self._fetch.max_bytes)
        # A follower usually wants one byte. Then what it lacks is enough, or cannot be read, which is answered, too.
        is_any_enough = self._fetch.replica_id >= 0 and wanted_bytes <= 1 and self._throttled is None
        if (is_any_enough and lacks_records(entries)) or fetch_ready(self._reader.glances(entries), wanted_bytes):
            self._leave_purgatory()
            self._is_forced = True
            self._look(room_bytes, entries)

    def expired(self, now_ms: int) -> None:
        """Answer with what there is: the maximum wait has passed."""
        if self.is_answered or self._reads_left:
            return
        if self._fetch.replica_id >= 0:
            self._serving.counters.follower_fetch_expiries += 1
        else:
            self._serving.counters.fetch_expiries += 1
        self._bucket = -1
        self._is_forced = True
        self._look()

    def _changed(self, _entry: SessionPartition) -> None:
        self._serving.woken.wake(self)

    def throttle_opened(self) -> None:
        """Look again: a quota may have something left."""
        self._serving.woken.wake(self)

    def _leave_purgatory(self) -> None:
        if self._throttled is not None:
            self._serving.throttle.forget(self)
        if self._bucket >= 0:
            self._serving.deadlines.forget(self, self._bucket)
            self._bucket = -1

    def _give_up(self) -> None:
        """End without an answer: the connection is gone."""
        self.is_answered = True
        self._leave_purgatory()
        self._rows = []
        if self._throttled is not None:
            self._throttled.end()
        session = self._context.session
        if self._pending is not None:
            self._serving.slow_reads.lost(self, self._pending, session)
        # The session may continue over another connection, where its next fetch may be parked already.
        if session.on_change == self._changed or self._context.session_id == NO_SESSION_ID:
            self._context.finish()

    def _look(self, room_bytes: int | None = None, entries: list[SessionPartition] | None = None) -> None:
        """Read what there is; `room_bytes` is the memory for an answer, `entries` are pending, None: not known yet."""
        if self._pending is not None:
            self._pending.unpark(self._serving.clock.mono_ms())
        if room_bytes is None:
            room_bytes = self._request.connection.holding.answer_bytes_max()
        budget = FetchBudget(
            min(self._fetch.max_bytes, self._serving.configs.broker.fetch_max_bytes, room_bytes),
            rows_max=RECORD_ROWS_MAX if self._fetch.replica_id >= 0 and self._context.session_id else None,
            has_room=room_bytes > 0,
        )
        if self._serving.throttle.is_active and self._fetch.replica_id >= 0:
            throttled = self._throttled = self._reader.throttled = self._throttled or ThrottledReads(
                self._serving.throttle, BrokerId(self._fetch.replica_id), is_full=self._context.is_full
            )
            throttled.look(self._context.session, self._serving.clock.mono_ms())
        if entries is None or self._throttled is not None:
            # A throttle may have freed some.
            entries = self._context.pending()
        if len(entries) > PARTITIONS_AT_ONCE:
            self._stay()
            self.read_began(0)
            # What is found now is sent some callbacks later.
            self._reader.sends_files = False
            self._request.step(self._look_in_steps(entries, budget))
            return
        self._rows = [self._reader.read(entry, budget, self, is_first_look=self._is_first_look) for entry in entries]
        if not self._reads_left:
            self._decide()
        else:
            self._reader.keep(self._rows)
            self._stay()
            self._pend()

    def _look_in_steps(self, entries: Sequence[SessionPartition], budget: FetchBudget) -> "Steps":
        rows = self._rows = []
        may_skip = self._fetch.replica_id >= 0 and self._throttled is None
        for part in in_parts(entries, PARTITIONS_PER_STEP):
            some = without_records(part) if may_skip and budget.is_spent else part
            rows += [self._reader.read(entry, budget, self, is_first_look=self._is_first_look) for entry in some]
            yield
        assert rows is self._rows, f"{len(rows)} partitions were looked at twice"
        self._reads_left -= 1
        if not self._reads_left:
            self._decide()
        else:
            self._pend()

    def read_began(self, size_bytes: int) -> None:
        """Wait for one more read, and count the memory that it takes: many fetches may read at once."""
        self._reads_left += 1
        if size_bytes:
            self._reading_bytes += size_bytes
            self._request.connection.hold(size_bytes)

    def read_ended(self, row: Row) -> None:
        """Decide, if this was the last read."""
        assert self._reads_left > 0, f"{row} was not waited for"
        if row.pending is not None:
            self._slow_read_ended(row, row.pending)
        self._reads_left -= 1
        if not self._reads_left:
            self._decide()
            self._serving.woken.settle()

    # Slow reads (KIP-501): only if a read has to wait and the feature is on.

    def _pend(self) -> None:
        """Register this request, and count the partitions that were read at once."""
        slow_reads = self._serving.slow_reads
        if slow_reads.rules is None or self._fetch.replica_id < 0:
            return
        request = self._pending
        if request is None:
            now_ms = self._serving.clock.mono_ms()
            # All earlier looks found everything in memory, so until now the request waited for data, not for the disk.
            parked_ms = 0 if self._is_first_look else now_ms - self._taken_up_ms
            request = self._pending = slow_reads.opened(
                self, self._context.session, self._fetch.replica_epoch, self._taken_up_ms, parked_ms
            )
        for row in self._rows:
            leader = None if row.partition is None else row.partition.leader
            known = request.looked.get(row.entry)
            if known is not None and known.is_void:
                known = None
            slow_leader = None if leader is None else leader.slow_leader
            if known is None and row.is_progress and slow_leader is not None:
                offset = Offset(row.entry.fetch_offset)
                known = slow_leader.fetch_pends(BrokerId(self._fetch.replica_id), offset, request)
            request.looked[row.entry] = row.pending = known
            if row.is_reading:
                if known is not None:
                    known.is_read = False
            elif self._is_first_look:
                self._count_row(row)
            elif known is not None:
                known.is_read = True

    def _slow_read_ended(self, row: Row, pending: PendingEntry) -> None:
        """Report the end of one slow read."""
        slow_reads = self._serving.slow_reads
        if row.error:
            slow_reads.read_failed(pending)
            return
        if self._is_first_look:
            lost_ms = pending.request.lost_ms
            pending.ended_ms = self._serving.clock.mono_ms() if lost_ms is None else lost_ms
            self._count_row(row)
        pending.is_read = True
        slow_reads.read_ended(pending)

    def leadership_ended(self, partition: Partition, error: ErrorCode) -> None:
        """Stop waiting for the reads of a partition that this broker no longer leads."""
        for row in self._rows:
            if row.partition is not partition:
                continue
            if row.pending is not None:
                self._serving.slow_reads.read_failed(row.pending)
                row.pending = None
            if row.is_reading:
                row.is_reading = False
                row.fail(error)
                self._reads_left -= 1
        if not self._reads_left and self._rows:
            self._serving.woken.wake(self)

    def _decide(self) -> None:
        if self._reading_bytes:
            # From now on they are part of the answer.
            size_bytes, self._reading_bytes = self._reading_bytes, 0
            self._request.connection.release(size_bytes)
        if self.is_answered:
            return
        rows = self._rows
        if len(rows) > PARTITIONS_AT_ONCE:
            self.read_began(0)
            self._request.step(self._decide_in_steps())
            return
        if self._is_first_look:
            self._is_first_look = False
            self._count_progress(rows)
            if self._fetch.replica_id >= 0 and self._serving.outgoing.senders:
                # What this fetch has committed is acknowledged before the fetch parks, which takes longer.
                self._serving.outgoing.leave()
        if (
            self._is_forced
            or must_answer(self._fetch, self._context.partition_count, len(rows), judged(rows))
            or may_not_wait(self._context, self._request)
        ):
            self._answer()
            return
        self._park()
        if has_news(rows):
            # Counting this request's own progress may have changed something before the request began to watch.
            self._serving.woken.wake(self)

    def _decide_in_steps(self) -> "Steps":
        """Do the same with many rows; to the rest of this class, it is one more read that this fetch waits for."""
        parts = in_parts(self._rows, PARTITIONS_PER_STEP)
        sums = NOTHING
        for some in parts:
            if self._is_first_look:
                self._count_progress(some)
            sums = judged(some, sums)
            yield
        if self._is_first_look and self._fetch.replica_id >= 0:
            self._serving.outgoing.leave()
        self._is_first_look = False
        self._reads_left -= 1
        if (
            self._is_forced
            or must_answer(self._fetch, self._context.partition_count, len(self._rows), sums)
            or may_not_wait(self._context, self._request)
        ):
            self._answer()
            return
        self._park()
        # It is woken by what happens from now on. Something may have happened since it looked.
        for some in parts:
            yield
            if self.is_answered or self._reads_left:
                return
            if has_news(some):
                self._serving.woken.wake(self)
                return

    def _park(self) -> None:
        self._stay()
        self._rows = []
        assert self._bucket < 0, f"parked a second time, in bucket {self._bucket}"
        if self._pending is not None:
            self._pending.park(self._serving.clock.mono_ms())
        deadline_ms = self._taken_up_ms + self._fetch.max_wait_ms
        self._bucket = self._serving.deadlines.park(self, deadline_ms, self._fetch.max_wait_ms)
        self._context.session.on_change = self._changed
        if self._throttled is not None:
            self._throttled.hold(self._context.session, is_answered=False)
            quotas = self._throttled.awaited(self._context.session)
            if quotas:
                self._serving.throttle.wait(self, quotas)
            self._throttled.end()
        # What it keeps is counted with its session.
        self._request.park(0)

    def _count_progress(self, rows: Sequence[Row]) -> None:
        """Report to each leader what this fetch proves about the follower that sent it, or where a consumer reads."""
        if self._fetch.replica_id == CONSUMER:
            note_positions(self._serving.positions, self._request, rows, self._taken_up_ms)
        for row in rows:
            partition = row.partition
            if partition is not None:
                partition.counters.fetches += 1
            if row.is_progress and not row.is_counted:
                self._count_row(row)

    def _count_row(self, row: Row) -> None:
        """Report what a row proves to the leader of its partition, once."""
        row.is_counted = True
        if row.is_progress and row.partition is not None:
            report_progress(
                self._serving,
                self._fetch,
                self._taken_up_ms,
                row.entry,
                row.partition,
                row.log_end,
                row.leader_epoch,
                row.pending,
            )

    def _answer(self) -> None:
        assert not self.is_answered, f"a second answer, of {self._rows}"
        assert not self._reads_left, f"answered with {self._reads_left} reads under way"
        self.is_answered = True
        serving, context = self._serving, self._context
        if self._fetch.replica_id >= 0:
            serving.followers.answered(self._fetch.replica_id, self._request.connection)
        self._leave_purgatory()
        if self._pending is not None:
            serving.slow_reads.answered(self, self._pending, context.session)
        rows, self._rows = self._rows, []
        answer(self._request, self._fetch, context, serving, rows, self._reader.unknown, self._throttled)
