"""The group coordinator of one partition of `__consumer_offsets`: all groups stored there.

It is a replicated state machine whose log is that partition. A coordinator
that takes over replays the committed log (`replay`, then `loaded`); one that
leads answers requests and appends what must survive to the log (`Persist`); one
that has lost its partition answers all waiting requests with NOT_COORDINATOR
(`resigned`) and must not be used again: the next leader's log decides the fate
of its open writes, so a later acknowledgement could be false (M39).

Every event returns effects, to be performed in order, and gets the time as an
argument; `tick` is due at `next_deadline_ms`.

Easy to miss: heartbeats and rebalances exist in memory only. A member of a
loaded group gets a fresh session, and an unfinished rebalance restarts with the
members' next heartbeats.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, assert_never

from syncline.core.groups.group import Group, restored_group
from syncline.core.groups.membership import Membership
from syncline.core.groups.messages import (
    CommitRequest,
    Effect,
    GroupDescription,
    GroupSettings,
    GroupState,
    GroupStatistics,
    Instant,
    JoinReply,
    JoinRequest,
    MemberIdentity,
    Reply,
    SyncRequest,
    Ticket,
)
from syncline.core.groups.offsets import Offsets
from syncline.core.groups.outbox import Outbox, TimerKey, TimerKind
from syncline.core.groups.rebalance import Rebalance
from syncline.core.groups.records import (
    CommittedOffset,
    GroupKey,
    OffsetKey,
    parse_group_value,
    parse_key,
    parse_offset_value,
)
from syncline.core.groups.watch import CommitWatch
from syncline.model.errors import ErrorCode

_EXPIRY: Final = TimerKey(TimerKind.EXPIRY)


class GroupShard:
    """The groups of one partition; see the module."""

    def __init__(self, settings: GroupSettings, draw_uuid: Callable[[], str], watch: CommitWatch | None = None) -> None:
        self._settings = settings
        self._groups: dict[str, Group] = {}
        self._out = Outbox(settings)
        self._rebalance = Rebalance(self._out)
        self._membership = Membership(self._groups, self._out, self._rebalance, draw_uuid)
        self._offsets = Offsets(self._groups, self._out, self._rebalance, watch)
        self.is_loaded = False

    def replay(self, key: bytes, value: bytes | None, at: Instant) -> None:
        """Apply one committed record; raises `GroupRecordError`."""
        assert not self.is_loaded, "a coordinator that leads writes the log, it does not read it"
        named = parse_key(key)
        if named is None:
            return
        match named:
            case OffsetKey():
                self._offsets.replay(named, None if value is None else parse_offset_value(value))
            case GroupKey(group_id=group_id):
                if value is None:
                    self._groups.pop(group_id, None)
                else:
                    self._groups[group_id] = restored_group(group_id, parse_group_value(value), wall_ms=at.wall_ms)
            case _:
                assert_never(named)

    def loaded(self, at: Instant) -> tuple[Effect, ...]:
        """Begin to answer: everything committed before this term was replayed."""
        assert not self.is_loaded, "a term begins once"
        self.is_loaded = True
        self._out.begin(at)
        for group_id in self._offsets.group_ids():
            if group_id not in self._groups:
                group = self._groups[group_id] = Group(group_id, wall_ms=at.wall_ms)
                group.is_visible = True
        for group in self._groups.values():
            group.count_in(self._out.member_bytes)
            for member in group.members.values():
                self._rebalance.start_session(group, member)
        self._out.start(_EXPIRY, self._settings.offsets_retention_check_interval_ms)
        return self._out.take()

    def resigned(self) -> tuple[Reply, ...]:
        """Answer all waiting requests: this broker no longer leads the partition."""
        for group in self._groups.values():
            for member in group.members.values():
                refusal = JoinReply(error=ErrorCode.NOT_COORDINATOR, member_id=member.member_id)
                self._rebalance.answer_join(member, refusal)
            self._rebalance.abandon_assignment(group, ErrorCode.NOT_COORDINATOR)
        self._out.give_up_all()
        self.is_loaded = False
        return tuple(effect for effect in self._out.take() if isinstance(effect, Reply))

    def persisted(self, write_id: int, error: ErrorCode, at: Instant) -> tuple[Effect, ...]:
        """Handle the fate of a `Persist`; each is reported once."""
        self._begin(at)
        self._out.persisted(write_id, error)
        return self._out.take()

    def tick(self, at: Instant) -> tuple[Effect, ...]:
        """Handle every deadline that has passed."""
        self._begin(at)
        self._out.give_up_overdue()
        while (key := self._out.timers.pop_due(at.now_ms)) is not None:
            self._due(key)
        return self._out.take()

    def _begin(self, at: Instant) -> None:
        """Begin an event."""
        assert self.is_loaded, "an event for a coordinator that does not lead its partition"
        self._out.begin(at)

    def _due(self, key: TimerKey) -> None:
        if key.kind is TimerKind.EXPIRY:
            self._offsets.expire()
            self._out.start(_EXPIRY, self._settings.offsets_retention_check_interval_ms)
            return
        group = self._groups.get(key.group_id)
        if group is None:
            return
        match key.kind:
            case TimerKind.SESSION:
                self._membership.session_over(group, key.member_id)
            case TimerKind.JOIN:
                self._rebalance.join_time_over(group)
            case TimerKind.SYNC:
                self._rebalance.sync_time_over(group)
            case _:
                assert_never(key.kind)

    def next_deadline_ms(self) -> int | None:
        """Return when `tick` is due, at the latest; None for never."""
        return self._out.next_deadline_ms()

    @property
    def member_bytes(self) -> int:
        """Return the memory that the members of all groups take; 0 before the log is read."""
        return self._out.member_bytes.total

    def join(self, ticket: Ticket, group_id: str, request: JoinRequest, at: Instant) -> tuple[Effect, ...]:
        """JoinGroup; the answer may wait for the end of a rebalance."""
        self._begin(at)
        self._membership.join(ticket, group_id, request)
        return self._out.take()

    def sync(self, ticket: Ticket, group_id: str, request: SyncRequest, at: Instant) -> tuple[Effect, ...]:
        """SyncGroup; the answer may wait for the leader's."""
        self._begin(at)
        self._membership.sync(ticket, group_id, request)
        return self._out.take()

    def heartbeat(
        self,
        ticket: Ticket,
        group_id: str,
        *,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        at: Instant,
    ) -> tuple[Effect, ...]:
        """Heartbeat."""
        self._begin(at)
        self._membership.heartbeat(ticket, group_id, member_id, group_instance_id, generation)
        return self._out.take()

    def leave(
        self, ticket: Ticket, group_id: str, identities: Iterable[MemberIdentity], at: Instant
    ) -> tuple[Effect, ...]:
        """LeaveGroup."""
        self._begin(at)
        self._membership.leave(ticket, group_id, tuple(identities))
        return self._out.take()

    def commit(self, ticket: Ticket, group_id: str, request: CommitRequest, at: Instant) -> tuple[Effect, ...]:
        """OffsetCommit."""
        self._begin(at)
        self._offsets.commit(ticket, group_id, request)
        return self._out.take()

    def delete_group(self, ticket: Ticket, group_id: str, at: Instant) -> tuple[Effect, ...]:
        """DeleteGroups, for one group."""
        self._begin(at)
        self._offsets.delete_group(ticket, group_id)
        return self._out.take()

    def delete_offsets(
        self, ticket: Ticket, group_id: str, places: Sequence[tuple[str, int]], at: Instant
    ) -> tuple[Effect, ...]:
        """OffsetDelete."""
        self._begin(at)
        self._offsets.delete_offsets(ticket, group_id, places)
        return self._out.take()

    def forget_topics(self, topics: Iterable[str], at: Instant) -> tuple[Effect, ...]:
        """Delete the offsets of topics that were deleted."""
        self._begin(at)
        self._offsets.forget_topics(topics)
        return self._out.take()

    def offsets_of(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """Return a group's committed offsets by topic and partition."""
        return self._offsets.of_group(group_id)

    def describe(self, group_id: str) -> GroupDescription | None:
        """Return the description of a group; None when no member has joined it and it has no committed offset."""
        group = self._groups.get(group_id)
        return group.described() if group is not None and group.is_visible else None

    def list_groups(self) -> tuple[GroupDescription, ...]:
        """Return the descriptions of all groups, without members."""
        return tuple(
            GroupDescription(
                group_id=group.group_id,
                state=group.state,
                protocol_type=group.protocol_type or "",
                protocol_name="",
                members=(),
                rebalances_since_ms=group.rebalances_since_ms,
            )
            for group in self._groups.values()
            if group.is_visible
        )

    def statistics(self) -> tuple[GroupStatistics, ...]:
        """Return a short view of every group, for status displays."""
        return tuple(
            GroupStatistics(
                group_id=group.group_id,
                state=group.state,
                generation=group.generation,
                member_count=len(group.members),
            )
            for group in self._groups.values()
        )

    def check_invariants(self) -> None:
        """Assert what must hold between any two events."""
        if self.is_loaded:
            self._out.check_invariants()
            self._offsets.check_invariants()
            member_bytes = sum(group.member_bytes for group in self._groups.values())
            assert self.member_bytes == member_bytes, f"{self.member_bytes} bytes are counted of {member_bytes}"
        for group_id, group in self._groups.items():
            assert group.group_id == group_id, f"{group.group_id} is found as {group_id}"
            group.check_invariants()
            if self.is_loaded:
                self._check_deadlines(group)

    def _check_deadlines(self, group: Group) -> None:
        """Assert that every wait in a group has a deadline."""
        timers, group_id = self._out.timers, group.group_id
        for member_id in (*group.pending, *group.members):
            member = group.members.get(member_id)
            is_excused = member is not None and member.is_excused
            assert is_excused or TimerKey(TimerKind.SESSION, group_id, member_id) in timers, (
                f"{member_id} of {group_id} has no session in {group.state.value}"
            )
        if group.state is GroupState.PREPARING_REBALANCE:
            assert TimerKey(TimerKind.JOIN, group_id) in timers, f"{group_id} waits for members for ever"
        if group.awaited_syncs:
            assert TimerKey(TimerKind.SYNC, group_id) in timers, f"{group_id} waits for Syncs for ever"
