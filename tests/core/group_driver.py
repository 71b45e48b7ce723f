"""Drives a `GroupShard` as the shell does, with a log that commits at once, later, or not."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from syncline.core.groups.groups import GroupShard
from syncline.core.groups.messages import (
    CommitRequest,
    GroupSettings,
    Instant,
    JoinReply,
    JoinRequest,
    MemberIdentity,
    OffsetToCommit,
    Persist,
    Protocol,
    Reply,
    SyncReply,
    SyncRequest,
)
from syncline.core.groups.records import GroupRecord
from syncline.model.errors import ErrorCode
from syncline.model.ids import Offset

GROUP = "g"
WALL_MS = 1_700_000_000_000
NO_DELAY = GroupSettings(initial_rebalance_delay_ms=0)


def subscription(*topics: str) -> bytes:
    """Return a version 0 consumer-protocol subscription without user data."""
    parts = [b"\x00\x00", len(topics).to_bytes(4, "big")]
    for topic in topics:
        parts += (len(topic).to_bytes(2, "big"), topic.encode())
    return b"".join((*parts, b"\xff\xff\xff\xff"))


class GroupDriver:
    """One shard, its log, its clock, and the answers that came so far, by ticket."""

    def __init__(
        self,
        settings: GroupSettings = NO_DELAY,
        *,
        log: list[GroupRecord] | None = None,
        now_ms: int = 1_000,
        uuid_prefix: str = "uuid",
    ) -> None:
        self.now_ms = now_ms
        self.log: list[GroupRecord] = [] if log is None else log
        self.open: list[Persist] = []
        self.answers: dict[int, Any] = {}
        self.is_committing = True
        self._last_ticket = 0
        self._uuid_count = 0
        self._uuid_prefix = uuid_prefix
        self.shard = GroupShard(settings, self._draw_uuid)
        for record in self.log:
            self.shard.replay(record.key, record.value, self.at)
        self.perform(self.shard.loaded(self.at))

    def _draw_uuid(self) -> str:
        self._uuid_count += 1
        return f"{self._uuid_prefix}{self._uuid_count}"

    @property
    def at(self) -> Instant:
        """Return the time of the next event."""
        return Instant(self.now_ms, WALL_MS + self.now_ms)

    def ticket(self) -> int:
        """Return a ticket that was not used yet."""
        self._last_ticket += 1
        return self._last_ticket

    def perform(self, effects: Any) -> None:
        """Take the answers, append to the log, and check the invariants."""
        for effect in effects:
            if isinstance(effect, Reply):
                assert effect.ticket not in self.answers, f"ticket {effect.ticket} was answered twice"
                self.answers[effect.ticket] = effect.reply
            else:
                self.open.append(effect)
        if self.is_committing:
            self.commit_log()
        self.shard.check_invariants()

    def commit_log(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Decide the fate of everything appended so far."""
        while self.open:
            write = self.open.pop(0)
            if error is ErrorCode.NONE:
                self.log += write.records
            effects = self.shard.persisted(write.write_id, error, self.at)
            for effect in effects:
                if isinstance(effect, Reply):
                    assert effect.ticket not in self.answers, f"ticket {effect.ticket} was answered twice"
                    self.answers[effect.ticket] = effect.reply
                else:
                    self.open.append(effect)
        self.shard.check_invariants()

    def advance(self, by_ms: int) -> None:
        """Advance the time, from deadline to deadline."""
        end_ms = self.now_ms + by_ms
        while (deadline_ms := self.shard.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.perform(self.shard.tick(self.at))
        self.now_ms = end_ms

    def tick(self) -> None:
        """Handle the deadlines that are due now."""
        self.advance(0)

    def resign(self) -> None:
        """Take the partition away."""
        self.perform(self.shard.resigned())

    def successor(self, settings: GroupSettings = NO_DELAY) -> "GroupDriver":
        """Return the next coordinator, which starts from this one's committed log."""
        return GroupDriver(settings, log=list(self.log), now_ms=self.now_ms, uuid_prefix="next")

    # Requests: each returns its ticket.

    def join(
        self,
        member_id: str = "",
        *,
        group: str = GROUP,
        instance: str | None = None,
        client_id: str = "c",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        protocol_type: str = "consumer",
        protocols: tuple[tuple[str, bytes], ...] = (("range", subscription("t")),),
        version: int = 9,
    ) -> int:
        """Send a Join; return its ticket."""
        ticket = self.ticket()
        request = JoinRequest(
            member_id=member_id,
            group_instance_id=instance,
            client_id=client_id,
            client_host="/127.0.0.1",
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols=tuple(Protocol(*each) for each in protocols),
            is_member_id_required=version >= 4,
            can_skip_assignment=version >= 9,
        )
        self.perform(self.shard.join(ticket, group, request, self.at))
        return ticket

    def new_member(self, **options: Any) -> tuple[str, int]:
        """Do both steps of a dynamic member's join; return its id and the ticket of the second."""
        first = self.answers[self.join(**options)]
        assert first.error is ErrorCode.MEMBER_ID_REQUIRED, first
        return first.member_id, self.join(first.member_id, **options)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        group: str = GROUP,
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> int:
        """Send a Sync; return its ticket."""
        ticket = self.ticket()
        request = SyncRequest(
            member_id=member_id,
            group_instance_id=instance,
            generation=generation,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=assignments or {},
        )
        self.perform(self.shard.sync(ticket, group, request, self.at))
        return ticket

    def beat(self, member_id: str, generation: int, *, group: str = GROUP, instance: str | None = None) -> ErrorCode:
        """Heartbeat; return the error."""
        ticket = self.ticket()
        self.perform(
            self.shard.heartbeat(
                ticket, group, member_id=member_id, group_instance_id=instance, generation=generation, at=self.at
            )
        )
        error: ErrorCode = self.answers[ticket].error
        return error

    def leave(self, *who: str | tuple[str, str], group: str = GROUP) -> list[ErrorCode]:
        """Leave by member ids, or by (member id, instance)."""
        ticket = self.ticket()
        pairs = [(each, None) if isinstance(each, str) else each for each in who]
        identities = [MemberIdentity(member_id=each[0], group_instance_id=each[1]) for each in pairs]
        self.perform(self.shard.leave(ticket, group, identities, self.at))
        reply = self.answers[ticket]
        assert reply.error is ErrorCode.NONE
        return [error for _, error in reply.members]

    def commit(
        self,
        member_id: str = "",
        generation: int = -1,
        *offsets: tuple[str, int, int] | OffsetToCommit,
        group: str = GROUP,
        instance: str | None = None,
        version: int = 9,
    ) -> int:
        """Commit offsets; return the ticket."""
        ticket = self.ticket()
        wanted = [
            each
            if isinstance(each, OffsetToCommit)
            else OffsetToCommit(topic=each[0], partition=each[1], offset=Offset(each[2]), leader_epoch=-1, metadata="")
            for each in offsets or (("t", 0, 1),)
        ]
        request = CommitRequest(
            member_id=member_id,
            group_instance_id=instance,
            generation=generation,
            offsets=tuple(wanted),
            knows_group_id_not_found=version >= 9,
        )
        self.perform(self.shard.commit(ticket, group, request, self.at))
        return ticket

    def commit_error(self, *args: Any, **options: Any) -> ErrorCode:
        """Commit, and return the one error."""
        (error,) = set(self.answers[self.commit(*args, **options)].errors)
        return error

    def delete_group(self, group: str = GROUP) -> int:
        """Delete a group; return the ticket."""
        ticket = self.ticket()
        self.perform(self.shard.delete_group(ticket, group, self.at))
        return ticket

    def delete_offsets(self, *places: tuple[str, int], group: str = GROUP) -> Any:
        """Delete offsets; return the answer."""
        ticket = self.ticket()
        self.perform(self.shard.delete_offsets(ticket, group, places, self.at))
        return self.answers[ticket]

    # What is there

    def offset(self, topic: str = "t", partition: int = 0, group: str = GROUP) -> int | None:
        """Return a committed offset, None if there is none."""
        stored = self.shard.offsets_of(group).get(topic, {}).get(partition)
        return None if stored is None else stored.offset

    def state(self, group: str = GROUP) -> str:
        """Return the state as others see it."""
        found = self.shard.describe(group)
        return "Dead" if found is None else found.state.value

    def inner_state(self, group: str = GROUP) -> str | None:
        """Return the state as it is, committed or not."""
        return next((each.state.value for each in self.shard.statistics() if each.group_id == group), None)

    def joined(self, ticket: int) -> JoinReply:
        """Return the answer to a Join, which must have come."""
        reply = self.answers[ticket]
        assert isinstance(reply, JoinReply)
        return reply

    def synced(self, ticket: int) -> SyncReply:
        """Return the answer to a Sync, which must have come."""
        reply = self.answers[ticket]
        assert isinstance(reply, SyncReply)
        return reply

    def stable(self, count: int, **options: Any) -> list[str]:
        """Bring a group of `count` members to STABLE, each assigned its own id; return their ids, leader first."""
        members: list[str] = []
        for _ in range(count):
            members.append(self.new_member(**options)[0])
            self.tick()
            for member_id in members[:-1]:
                self.join(member_id, **options)
        generation = self.generation()
        for member_id in reversed(members):
            assignments = {each: each.encode() for each in members}
            self.sync(member_id, generation, assignments if member_id == members[0] else None)
        assert self.state() == "Stable"
        return members

    def generation(self, group: str = GROUP) -> int:
        """Return the group's generation, committed or not."""
        return next(each.generation for each in self.shard.statistics() if each.group_id == group)


def without_members(reply: JoinReply) -> JoinReply:
    """Return a reply with the member list blanked, to compare the rest."""
    return dataclasses.replace(reply, members=())
