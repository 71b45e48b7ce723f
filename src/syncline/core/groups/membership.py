"""Join, Sync, Heartbeat and Leave: what each may do in which state, and its answer.

The order of the checks is part of the protocol, since clients derive their next
step from the first error that applies. Facts that are easy to get wrong:

- A dynamic member joins in two steps (KIP-394): the first gives it its id.
  Until it joins with that id it is pending: the group exists, without members,
  and no rebalance begins; but if it leaves instead, a settled group rebalances.
- A rejoin that changes nothing is answered from the current generation; only
  the leader's, in a stable group, starts a rebalance.
- A static member that restarts takes its place again under a new id, without
  a rebalance as long as the chosen protocol stays; the old id is fenced.
- A waiting request is never forgotten: if its member sends another one, the
  first is answered with REBALANCE_IN_PROGRESS.

Source: KIP-62, KIP-345, KIP-394, KIP-559 (protocol in Sync), KIP-814 (skip
the assignment).
"""

from collections.abc import Callable

from syncline.core.groups.group import Group
from syncline.core.groups.member import Member, protocols_bytes
from syncline.core.groups.member_bytes import PROTOCOLS_MAX
from syncline.core.groups.messages import (
    GroupState,
    HeartbeatReply,
    JoinReply,
    JoinRequest,
    LeaveReply,
    MemberIdentity,
    Protocol,
    SyncReply,
    SyncRequest,
    Ticket,
)
from syncline.core.groups.outbox import Outbox, TimerKey, TimerKind, group_write_error
from syncline.core.groups.rebalance import Rebalance
from syncline.core.groups.records import GroupKey, group_record, is_storable
from syncline.model.errors import ErrorCode


class Membership:
    """The members of all groups of one coordinator; `draw_uuid` makes member ids."""

    def __init__(
        self, groups: dict[str, Group], outbox: Outbox, rebalance: Rebalance, draw_uuid: Callable[[], str]
    ) -> None:
        self._groups = groups
        self._out = outbox
        self._rebalance = rebalance
        self._draw_uuid = draw_uuid

    def join(self, ticket: Ticket, group_id: str, request: JoinRequest) -> None:
        """Answer a Join, or let it wait for the end of the rebalance."""
        group = self._groups.get(group_id)
        error = self._join_refusal(group, request)
        if error is not ErrorCode.NONE:
            member_id = "" if error is ErrorCode.GROUP_MAX_SIZE_REACHED else request.member_id
            self._out.reply(ticket, JoinReply(error=error, member_id=member_id))
            return
        if group is None:
            group = self._groups[group_id] = Group(group_id, wall_ms=self._out.at.wall_ms)
            group.count_in(self._out.member_bytes)
        group.is_visible = True
        if request.member_id in group.pending:
            self._add(ticket, group, request, request.member_id)
        elif request.member_id:
            self._rejoin(ticket, group, request, group.members[request.member_id])
        else:
            self._join_new(ticket, group, request)

    def _join_refusal(self, group: Group | None, request: JoinRequest) -> ErrorCode:
        settings = self._out.settings
        if not settings.session_timeout_min_ms <= request.session_timeout_ms <= settings.session_timeout_max_ms:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if group is None and request.member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if len(request.protocols) > PROTOCOLS_MAX or not _is_storable(request):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if not self._has_room_for(group, request) or not self._has_room(group, request.member_id):
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        names = [protocol.name for protocol in request.protocols]
        is_spoken = group is None or group.supports(request.protocol_type, names)
        if not request.protocol_type or not names or not is_spoken:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if group is None:
            return ErrorCode.NONE
        is_pending = request.member_id in group.pending and request.group_instance_id is None
        if request.member_id and not is_pending:
            error = group.refusal(request.member_id, request.group_instance_id)
            if error is not ErrorCode.NONE:
                return error
        return ErrorCode.NONE

    def _has_room_for(self, group: Group | None, request: JoinRequest) -> bool:
        """Return whether the group may take as much memory as with these protocols."""
        others_bytes = 0
        if group is not None:
            member = group.members.get(request.member_id)
            others_bytes = group.member_bytes - (member.size_bytes if member is not None else 0)
        return others_bytes + protocols_bytes(request.protocols) <= self._out.settings.group_bytes_max

    def _has_room(self, group: Group | None, member_id: str) -> bool:
        if group is None:
            return True
        size_max = self._out.settings.group_size_max
        member = group.members.get(member_id)
        if group.state is GroupState.EMPTY:
            return True
        if group.state is GroupState.PREPARING_REBALANCE:
            # Only waiting members count: so a group that is too large loses the last ones to rejoin.
            return (member is not None and member.join_ticket is not None) or group.joining_count < size_max
        return member is not None or len(group.members) < size_max

    def _join_new(self, ticket: Ticket, group: Group, request: JoinRequest) -> None:
        prefix = request.client_id if request.group_instance_id is None else request.group_instance_id
        member_id = f"{prefix}-{self._draw_uuid()}"
        if request.group_instance_id is not None:
            current_id = group.instance_member(request.group_instance_id)
            if current_id is None:
                self._add(ticket, group, request, member_id)
            else:
                self._replace(ticket, group, request, group.members[current_id], member_id)
        elif request.is_member_id_required:
            group.pending[member_id] = None
            self._out.start(TimerKey(TimerKind.SESSION, group.group_id, member_id), request.session_timeout_ms)
            self._out.reply(ticket, JoinReply(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))
        else:
            self._add(ticket, group, request, member_id)

    def _add(self, ticket: Ticket, group: Group, request: JoinRequest, member_id: str) -> None:
        if not group.members:
            group.protocol_type = request.protocol_type
        assert group.protocol_type == request.protocol_type, (
            f"{group.group_id} speaks {group.protocol_type}, and takes in {request.protocol_type}"
        )
        member = Member(
            member_id=member_id,
            group_instance_id=request.group_instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=request.protocols,
            is_new=True,
            join_ticket=ticket,
        )
        group.add(member)
        if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
            group.is_joined_in_window = True
        self._rebalance.start_session(group, member, self._out.settings.new_member_join_timeout_ms)
        self._rebalance.membership_changed(group)

    def _rejoin(self, ticket: Ticket, group: Group, request: JoinRequest, member: Member) -> None:
        is_unchanged = member.protocols == request.protocols
        is_leader = member.member_id == group.leader
        is_answered_now = (group.state is GroupState.COMPLETING_REBALANCE and is_unchanged) or (
            group.state is GroupState.STABLE and is_unchanged and not is_leader
        )
        if not is_answered_now:
            self._update(ticket, group, request, member)
            self._rebalance.membership_changed(group)
            return
        self._out.reply(
            ticket,
            JoinReply(
                error=ErrorCode.NONE,
                member_id=member.member_id,
                generation=group.generation,
                protocol_type=group.protocol_type,
                protocol_name=group.protocol_name,
                leader=group.leader or "",
                members=group.joined_members() if is_leader else (),
            ),
        )

    def _update(self, ticket: Ticket, group: Group, request: JoinRequest, member: Member) -> None:
        group.offer(member, request.protocols)
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        superseded = JoinReply(error=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id)
        self._rebalance.answer_join(member, superseded)
        member.join_ticket = ticket

    def _replace(self, ticket: Ticket, group: Group, request: JoinRequest, member: Member, member_id: str) -> None:
        old_id = member.member_id
        old_leader = group.leader or ""
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        self._fence(member)
        self._out.timers.cancel(TimerKey(TimerKind.SESSION, group.group_id, old_id))
        group.rename(member, member_id)
        self._update(ticket, group, request, member)
        self._rebalance.start_session(group, member)
        assert group.refusal(old_id, request.group_instance_id) is ErrorCode.FENCED_INSTANCE_ID, (
            f"{old_id} is not fenced"
        )
        if group.state is not GroupState.STABLE:
            # In COMPLETING_REBALANCE the leader may be assigning partitions to the old id: that needs a new round.
            self._rebalance.membership_changed(group)
        elif group.select_protocol() != group.protocol_name:
            self._rebalance.prepare(group)
        else:
            self._store_replacement(ticket, group, member, request, old_id=old_id, old_leader=old_leader, before=before)

    def _fence(self, member: Member) -> None:
        fenced = JoinReply(error=ErrorCode.FENCED_INSTANCE_ID, member_id=member.member_id)
        self._rebalance.answer_join(member, fenced)
        if member.sync_ticket is not None:
            self._out.reply(member.sync_ticket, SyncReply(error=ErrorCode.FENCED_INSTANCE_ID))
            member.sync_ticket = None

    def _store_replacement(
        self,
        ticket: Ticket,
        group: Group,
        member: Member,
        request: JoinRequest,
        *,
        old_id: str,
        old_leader: str,
        before: tuple[tuple[Protocol, ...], int, int],
    ) -> None:
        member_id = member.member_id

        def reply(error: ErrorCode) -> JoinReply:
            is_leader = group.leader == member_id and request.can_skip_assignment
            return JoinReply(
                error=error,
                member_id=member_id if error is ErrorCode.NONE else "",
                generation=group.generation,
                protocol_type=group.protocol_type,
                protocol_name=group.protocol_name,
                # Before v9 no reply can make a leader skip the assignment, so the reply names its old id as the leader.
                leader=(group.leader or "") if request.can_skip_assignment else old_leader,
                members=group.joined_members() if is_leader else (),
                skip_assignment=is_leader and error is ErrorCode.NONE,
            )

        def answered(error: ErrorCode) -> None:
            # If a rebalance has begun meanwhile, the Join waits for its end like any other.
            if member.join_ticket != ticket or group.state is not GroupState.STABLE:
                return
            self._rebalance.answer_join(member, reply(group_write_error(error)))
            if error is not ErrorCode.NONE and group.members.get(member_id) is member:
                protocols, member.rebalance_timeout_ms, member.session_timeout_ms = before
                group.offer(member, protocols)
                self._out.timers.cancel(TimerKey(TimerKind.SESSION, group.group_id, member_id))
                group.rename(member, old_id)
            self._rebalance.start_session(group, member)

        record = group_record(GroupKey(group.group_id), group.stored(group.assignments()))
        self._out.write((record,), applied=lambda: None, answered=answered)

    def sync(self, ticket: Ticket, group_id: str, request: SyncRequest) -> None:
        """Answer a Sync, or let it wait for the leader's."""
        group = self._groups.get(group_id)
        error = _sync_refusal(group, request)
        if group is None or error is not ErrorCode.NONE:
            self._out.reply(ticket, SyncReply(error=error))
            return
        member = group.members[request.member_id]
        assert request.generation == group.generation, f"a Sync of {request.generation} in {group.generation}"
        group.awaited_syncs.pop(member.member_id, None)
        if group.state is GroupState.STABLE:
            self._out.reply(
                ticket,
                SyncReply(
                    error=ErrorCode.NONE,
                    assignment=member.assignment,
                    protocol_type=group.protocol_type,
                    protocol_name=group.protocol_name,
                ),
            )
            return
        if member.sync_ticket is not None:
            self._out.reply(member.sync_ticket, SyncReply(error=ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_ticket = ticket
        if member.member_id == group.leader:
            given = {key: value for key, value in request.assignments.items() if key in group.members}
            self._rebalance.store_assignment(group, given)

    def heartbeat(
        self, ticket: Ticket, group_id: str, member_id: str, group_instance_id: str | None, generation: int
    ) -> None:
        """Answer a Heartbeat: it prolongs the session, and the reply announces a rebalance."""
        self._out.reply(ticket, HeartbeatReply(error=self._beat(group_id, member_id, group_instance_id, generation)))

    def _beat(self, group_id: str, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = group.refusal(member_id, group_instance_id)
        if error is not ErrorCode.NONE:
            return error
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self._rebalance.start_session(group, group.members[member_id])
        if group.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def leave(self, ticket: Ticket, group_id: str, identities: tuple[MemberIdentity, ...]) -> None:
        """Remove members at their own or an administrator's request."""
        group = self._groups.get(group_id)
        if group is None:
            unknown = tuple((identity, ErrorCode.UNKNOWN_MEMBER_ID) for identity in identities)
            self._out.reply(ticket, LeaveReply(error=ErrorCode.NONE, members=unknown))
            return
        outcomes = tuple((identity, self._leave_one(group, identity)) for identity in identities)
        self._out.reply(ticket, LeaveReply(error=ErrorCode.NONE, members=outcomes))
        # A pending member that leaves counts as well: a settled group rebalances for it, as Kafka's does.
        if group.state is not GroupState.EMPTY and any(error is ErrorCode.NONE for _, error in outcomes):
            self._rebalance.membership_changed(group)

    def _leave_one(self, group: Group, identity: MemberIdentity) -> ErrorCode:
        member_id = identity.member_id
        if member_id in group.pending:
            del group.pending[member_id]
            self._out.timers.cancel(TimerKey(TimerKind.SESSION, group.group_id, member_id))
            return ErrorCode.NONE
        if not member_id and identity.group_instance_id is not None:
            member_id = group.instance_member(identity.group_instance_id) or ""
        error = group.refusal(member_id, identity.group_instance_id)
        if error is ErrorCode.NONE:
            self._rebalance.remove(group, group.members[member_id])
        return error

    def session_over(self, group: Group, member_id: str) -> None:
        """Remove a member that sent nothing in time; forget a pending one that never came back."""
        if member_id in group.pending:
            del group.pending[member_id]
            self._rebalance.try_complete(group)
            return
        member = group.members.get(member_id)
        if member is None or member.is_excused:
            return
        self._rebalance.remove(group, member)
        self._rebalance.membership_changed(group)


# As long as the suffix of a member id: a dash and a UUID.
_ID_TAIL = "-" * 37


def _is_storable(request: JoinRequest) -> bool:
    """Return whether the stored form can hold the names and the member id made from one of them."""
    prefix = request.client_id if request.group_instance_id is None else request.group_instance_id
    texts = (request.protocol_type, prefix + _ID_TAIL, *(name for name, _ in request.protocols))
    return all(is_storable(text) for text in texts)


def _sync_refusal(group: Group | None, request: SyncRequest) -> ErrorCode:
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.refusal(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    is_type_other = request.protocol_type is not None and request.protocol_type != group.protocol_type
    is_name_other = request.protocol_name is not None and request.protocol_name != group.protocol_name
    if is_type_other or is_name_other:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE
