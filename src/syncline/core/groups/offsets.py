"""Committed offsets: what a commit must satisfy, what a fetch sees, and when they expire.

`stored` is what the log has committed, and all that a client can see. A commit
in progress is only counted in `pending`, so that its partition does not expire
and a deletion covers it too; it becomes visible in log order when the log
commits it. So a later coordinator, which reads the log, knows everything that
this one has acknowledged or shown (H11).

Expiry, by the wall clock: an offset with its own expiry time expires then, any
other after `offsets.retention.minutes` without members, counted from when the
group became empty or, if it never had members, from the commit. While a consumer
group is stable, offsets of topics that no member reads expire by their commit
time; in any other state none expires.
Source: KIP-211, KIP-496 (deletion of offsets).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from syncline.core.groups.group import Group
from syncline.core.groups.messages import (
    CommitReply,
    CommitRequest,
    DeleteReply,
    GroupState,
    OffsetDeleteReply,
    OffsetToCommit,
    Ticket,
)
from syncline.core.groups.outbox import Outbox, group_write_error, offset_write_error
from syncline.core.groups.rebalance import Rebalance
from syncline.core.groups.records import (
    CommittedOffset,
    GroupKey,
    GroupRecord,
    OffsetKey,
    group_record,
    is_storable,
    offset_record,
)
from syncline.core.groups.watch import CommitWatch
from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE

# There may be many tombstones; a batch of them must fit max.message.bytes.
TOMBSTONES_PER_WRITE_MAX: Final = 1_000

TopicOffsets = dict[int, CommittedOffset]


class Offsets:
    """The committed offsets of all groups of one coordinator."""

    def __init__(
        self, groups: dict[str, Group], outbox: Outbox, rebalance: Rebalance, watch: CommitWatch | None = None
    ) -> None:
        self._groups = groups
        self._out = outbox
        self._rebalance = rebalance
        self._watch = watch
        self._stored: dict[str, dict[str, TopicOffsets]] = {}
        self._pending: dict[str, dict[tuple[str, int], int]] = {}

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """Return the committed offsets of a group by topic and partition; empty for an unknown group."""
        return self._stored.get(group_id, {})

    def store(self, key: OffsetKey, value: CommittedOffset | None) -> None:
        """Apply a record that the log has committed."""
        watch = self._watch
        if value is not None:
            self._stored.setdefault(key.group_id, {}).setdefault(key.topic, {})[key.partition] = value
            if watch is not None:
                watch.stored(key.group_id, key.topic, key.partition, value.offset, value.commit_timestamp_ms)
            return
        if watch is not None:
            watch.forgotten(key.group_id, key.topic, key.partition)
        topics = self._stored.get(key.group_id, {})
        partitions = topics.get(key.topic, {})
        partitions.pop(key.partition, None)
        if key.topic in topics and not partitions:
            del topics[key.topic]
        if key.group_id in self._stored and not topics:
            del self._stored[key.group_id]

    def replay(self, key: OffsetKey, value: CommittedOffset | None) -> None:
        """Apply a record of the log that this coordinator found; a copy that a renewal has made is no other commit."""
        known = self.of_group(key.group_id).get(key.topic, {}).get(key.partition)
        if value is None or value != known:
            self.store(key, value)

    def group_ids(self) -> tuple[str, ...]:
        """Return the groups that have offsets."""
        return tuple(self._stored)

    def commit(self, ticket: Ticket, group_id: str, request: CommitRequest) -> None:
        """Store offsets for a member, or for a client that uses a group without members to keep offsets."""
        error = self._commit_refusal(group_id, request)
        errors: list[ErrorCode] = []
        accepted: dict[OffsetKey, CommittedOffset] = {}
        for wanted in request.offsets:
            outcome = error
            if error is ErrorCode.NONE and self._is_too_large(wanted.metadata):
                outcome = ErrorCode.OFFSET_METADATA_TOO_LARGE
            errors.append(outcome)
            if outcome is ErrorCode.NONE:
                accepted[OffsetKey(group_id, wanted.topic, wanted.partition)] = self._committed(wanted)
        if not accepted:
            self._out.reply(ticket, CommitReply(errors=errors))
            return
        if group_id not in self._groups:
            group = self._groups[group_id] = Group(group_id, wall_ms=self._out.at.wall_ms)
            group.count_in(self._out.member_bytes)
        self._write_commit(ticket, group_id, accepted, errors)

    def _commit_refusal(self, group_id: str, request: CommitRequest) -> ErrorCode:
        group = self._groups.get(group_id)
        if group is None:
            if request.generation < 0:
                return ErrorCode.NONE
            # KIP-848 gave clients that know v9 the more precise error.
            return ErrorCode.GROUP_ID_NOT_FOUND if request.knows_group_id_not_found else ErrorCode.ILLEGAL_GENERATION
        if request.generation < 0 and group.state is GroupState.EMPTY:
            return ErrorCode.NONE
        error = group.refusal(request.member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            return error
        if request.generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if group.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        # A member that commits is alive.
        self._rebalance.start_session(group, group.members[request.member_id])
        return ErrorCode.NONE

    def _committed(self, wanted: OffsetToCommit) -> CommittedOffset:
        return CommittedOffset(
            offset=wanted.offset,
            leader_epoch=wanted.leader_epoch,
            metadata=wanted.metadata,
            commit_timestamp_ms=self._out.at.wall_ms,
            expire_timestamp_ms=wanted.expire_timestamp_ms,
        )

    def _is_too_large(self, metadata: str) -> bool:
        """Return whether a client's text exceeds the configured limit, or what a record can hold."""
        return _utf16_length(metadata) > self._out.settings.offset_metadata_max or not is_storable(metadata)

    def _write_commit(
        self,
        ticket: Ticket,
        group_id: str,
        accepted: Mapping[OffsetKey, CommittedOffset],
        errors: Sequence[ErrorCode],
    ) -> None:
        def applied() -> None:
            for key, value in accepted.items():
                self.store(key, value)
            group = self._groups.get(group_id)
            if group is not None:
                group.is_visible = True

        def answered(error: ErrorCode) -> None:
            failure = offset_write_error(error)
            outcomes = [failure if outcome is ErrorCode.NONE else outcome for outcome in errors]
            self._out.reply(ticket, CommitReply(errors=outcomes))

        records = tuple(offset_record(key, value) for key, value in accepted.items())
        self._write_offsets(group_id, tuple(accepted), records, applied, answered)

    def _write_offsets(
        self,
        group_id: str,
        keys: Sequence[OffsetKey],
        records: tuple[GroupRecord, ...],
        applied: Callable[[], None],
        answered: Callable[[ErrorCode], None],
    ) -> None:
        """Write, and count the partitions as pending until the write has ended."""
        pending = self._pending.setdefault(group_id, {})
        for key in keys:
            pending[key.topic, key.partition] = pending.get((key.topic, key.partition), 0) + 1

        def ended() -> None:
            for key in keys:
                place = (key.topic, key.partition)
                assert pending.get(place, 0) > 0, f"a write of {place} of {group_id} ends that was not under way"
                pending[place] -= 1
                if not pending[place]:
                    del pending[place]
            if not pending and self._pending.get(group_id) is pending:
                del self._pending[group_id]

        self._out.write(records, applied=applied, answered=answered, ended=ended)

    def delete_offsets(self, ticket: Ticket, group_id: str, places: Sequence[tuple[str, int]]) -> None:
        """Delete offsets of partitions that no member reads."""
        group = self._visible(group_id)
        error = ErrorCode.NONE
        if group is None:
            error = ErrorCode.GROUP_ID_NOT_FOUND
        elif group.state is not GroupState.EMPTY and not group.is_consumer_group:
            # The subscriptions of another protocol are unknown, so any topic may be in use.
            error = ErrorCode.NON_EMPTY_GROUP
        if group is None or error is not ErrorCode.NONE:
            self._out.reply(ticket, OffsetDeleteReply(error=error, errors={}))
            return
        is_empty = group.state is GroupState.EMPTY
        errors = {
            (topic, partition): ErrorCode.NONE
            if is_empty or not group.is_subscribed(topic)
            else ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            for topic, partition in places
        }
        known = dict.fromkeys(self._places(group_id))
        doomed = [place for place, outcome in errors.items() if outcome is ErrorCode.NONE and place in known]

        def answered(error: ErrorCode) -> None:
            failure = group_write_error(error)
            outcomes = {place: failure if outcome is ErrorCode.NONE else outcome for place, outcome in errors.items()}
            self._out.reply(ticket, OffsetDeleteReply(error=ErrorCode.NONE, errors=outcomes))

        self._bury(group_id, doomed, answered)

    def delete_group(self, ticket: Ticket, group_id: str) -> None:
        """Delete a group without members, and its offsets."""
        group = self._visible(group_id)
        if group is None or group.state is not GroupState.EMPTY:
            error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else ErrorCode.NON_EMPTY_GROUP
            self._out.reply(ticket, DeleteReply(error=error))
            return
        self._bury_group(group, lambda error: self._out.reply(ticket, DeleteReply(error=group_write_error(error))))

    def forget_topics(self, topics: Iterable[str]) -> None:
        """Delete the offsets of deleted topics: a later topic of the same name is another topic."""
        gone = frozenset(topics)
        for group_id in dict.fromkeys((*self._stored, *self._pending)):
            doomed = [place for place in self._places(group_id) if place[0] in gone]
            self._bury_in_parts(group_id, doomed)

    def _visible(self, group_id: str) -> Group | None:
        group = self._groups.get(group_id)
        return group if group is not None and group.is_visible else None

    def _places(self, group_id: str) -> Iterator[tuple[str, int]]:
        """Yield each partition with an offset, committed or pending, once."""
        stored = self._stored.get(group_id, {})
        yield from ((topic, partition) for topic, partitions in stored.items() for partition in partitions)
        for topic, partition in self._pending.get(group_id, {}):
            if partition not in stored.get(topic, {}):
                yield topic, partition

    def _bury_group(self, group: Group, answered: Callable[[ErrorCode], None]) -> None:
        group_id = group.group_id
        assert not group.members, f"{group_id} is deleted with {len(group.members)} members"
        # Removed at once: a member that joins later joins a new group, whose records follow these.
        del self._groups[group_id]
        self._bury_in_parts(group_id, list(self._places(group_id)))

        def failed_or_done(error: ErrorCode) -> None:
            if error not in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT):
                self._groups.setdefault(group_id, group)
            answered(error)

        self._out.write((group_record(GroupKey(group_id), None),), applied=lambda: None, answered=failed_or_done)

    def _bury(self, group_id: str, places: Sequence[tuple[str, int]], answered: Callable[[ErrorCode], None]) -> None:
        keys = tuple(OffsetKey(group_id, topic, partition) for topic, partition in places)
        if not keys:
            answered(ErrorCode.NONE)
            return

        def applied() -> None:
            for key in keys:
                self.store(key, None)

        self._write_offsets(group_id, keys, tuple(offset_record(key, None) for key in keys), applied, answered)

    def _bury_in_parts(self, group_id: str, places: Sequence[tuple[str, int]]) -> None:
        for start in range(0, len(places), TOMBSTONES_PER_WRITE_MAX):
            self._bury(group_id, places[start : start + TOMBSTONES_PER_WRITE_MAX], lambda _: None)

    def expire(self) -> None:
        """Delete expired offsets, and the groups that are then empty."""
        for group_id, group in list(self._groups.items()):
            doomed = [place for place, value in self._judged(group) if self._is_expired(group, value)]
            is_unused = group.state is GroupState.EMPTY and not group.pending and group_id not in self._pending
            if not is_unused or len(doomed) < sum(map(len, self._stored.get(group_id, {}).values())):
                self._bury_in_parts(group_id, doomed)
            elif group.is_visible:
                self._bury_group(group, lambda _: None)
            else:
                del self._groups[group_id]

    def _judged(self, group: Group) -> Iterator[tuple[tuple[str, int], CommittedOffset]]:
        """Yield the offsets that may expire in the group's state."""
        is_unused = group.state is GroupState.EMPTY
        is_known = group.state is GroupState.STABLE and group.is_consumer_group and group.subscribed is not None
        if not is_unused and not is_known:
            return
        pending = self._pending.get(group.group_id, {})
        for topic, partitions in self._stored.get(group.group_id, {}).items():
            if is_unused or not group.is_subscribed(topic):
                for partition, value in partitions.items():
                    if (topic, partition) not in pending:
                        yield (topic, partition), value

    def _is_expired(self, group: Group, value: CommittedOffset) -> bool:
        if value.expire_timestamp_ms != NONE:
            return self._out.at.wall_ms >= value.expire_timestamp_ms
        is_left_alone = group.state is GroupState.EMPTY and group.protocol_type is not None
        since_ms = group.state_timestamp_ms if is_left_alone else value.commit_timestamp_ms
        return self._out.at.wall_ms - since_ms >= self._out.settings.offsets_retention_ms

    def check_invariants(self) -> None:
        """Assert what must hold between any two events."""
        for group_id, topics in self._stored.items():
            assert topics, f"{group_id} is kept without an offset"
            assert all(topics.values()), f"{group_id} keeps a topic without an offset"
        for group_id, pending in self._pending.items():
            assert pending, f"{group_id} is counted without a write under way"
            assert min(pending.values()) > 0, f"{group_id} counts {min(pending.values())} writes under way"
        assert self._out.has_open_writes or not self._pending, "offsets are pending without an open write"


def _utf16_length(text: str) -> int:
    """Return the length as Kafka counts it: in UTF-16 units."""
    return len(text) + sum(character > "\uffff" for character in text)
