"""How a classic group gets from one generation to the next.

A rebalance is two barriers. At the first, every member's Join waits until all
have joined (or the time is over): that closes the generation, and the leader gets
the list of its members. At the second, every member's Sync waits for the leader's,
which carries the assignment; once the log has it, the group is stable.

How long each wait lasts:

- For members to rejoin: the longest rebalance timeout in the group. A member
  that has not joined by then is removed, unless it is static: then its session
  decides.
- A group that was empty collects members in windows of
  `group.initial.rebalance.delay.ms`: a window in which a member joined is
  followed by another, within the rebalance timeout, so that a group that
  starts up rebalances once and not once per member.
- For members to Sync: the same rebalance timeout again.

Source: KIP-134 (initial delay), KIP-345 (static members).
"""

from syncline.core.groups.group import Group
from syncline.core.groups.member import Member
from syncline.core.groups.messages import GroupState, JoinReply, SyncReply
from syncline.core.groups.outbox import Outbox, TimerKey, TimerKind, group_write_error
from syncline.core.groups.records import GroupKey, group_record
from syncline.model.errors import ErrorCode


class Rebalance:
    """The rebalances of all groups of one coordinator."""

    def __init__(self, outbox: Outbox) -> None:
        self._out = outbox

    def membership_changed(self, group: Group) -> None:
        """Rebalance; in a running rebalance, complete it when all members have joined."""
        if group.state is GroupState.PREPARING_REBALANCE:
            self.try_complete(group)
        else:
            self.prepare(group)

    def prepare(self, group: Group) -> None:
        """Ask every member to rejoin."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self.abandon_assignment(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.awaited_syncs.clear()
        self._out.timers.cancel(TimerKey(TimerKind.SYNC, group.group_id))
        is_initial = group.state is GroupState.EMPTY
        group.move_to(GroupState.PREPARING_REBALANCE, wall_ms=self._out.at.wall_ms)
        if is_initial:
            delay_ms = self._out.settings.initial_rebalance_delay_ms
            group.is_joined_in_window = False
            group.windows_rest_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._out.start(TimerKey(TimerKind.JOIN, group.group_id), delay_ms)
        elif group.has_everyone_joined:
            self._complete(group)
        else:
            self._out.start(TimerKey(TimerKind.JOIN, group.group_id), group.rebalance_timeout_ms)

    def try_complete(self, group: Group) -> None:
        """Close the generation if all members have joined; an initial rebalance waits for its time, not for members."""
        if (
            group.state is GroupState.PREPARING_REBALANCE
            and group.previous_state is not GroupState.EMPTY
            and group.has_everyone_joined
        ):
            self._complete(group)

    def remove(self, group: Group, member: Member) -> None:
        """Remove a member and answer its waiting requests; the caller handles the effect on the group."""
        self._out.timers.cancel(TimerKey(TimerKind.SESSION, group.group_id, member.member_id))
        self.answer_join(member, JoinReply(error=ErrorCode.UNKNOWN_MEMBER_ID))
        if member.sync_ticket is not None:
            self._out.reply(member.sync_ticket, SyncReply(error=ErrorCode.UNKNOWN_MEMBER_ID))
            member.sync_ticket = None
        group.remove(member.member_id)

    def start_session(self, group: Group, member: Member, timeout_ms: int | None = None) -> None:
        """Expect the member's next request within its session timeout, or within `timeout_ms`."""
        self._out.start(
            TimerKey(TimerKind.SESSION, group.group_id, member.member_id),
            member.session_timeout_ms if timeout_ms is None else timeout_ms,
        )

    def answer_join(self, member: Member, reply: JoinReply) -> None:
        """Answer the member's Join if one waits."""
        if member.join_ticket is not None:
            self._out.reply(member.join_ticket, reply)
            member.join_ticket = None

    def join_time_over(self, group: Group) -> None:
        """The wait for members, or one window of an initial rebalance, is over."""
        if group.state is not GroupState.PREPARING_REBALANCE:
            return
        if group.previous_state is GroupState.EMPTY and group.is_joined_in_window and group.windows_rest_ms > 0:
            window_ms = min(self._out.settings.initial_rebalance_delay_ms, group.windows_rest_ms)
            # A delay of 0 gives a window of 0 ms: it ends at the next tick, and the rest stays.
            assert 0 <= window_ms <= group.windows_rest_ms, f"{group.group_id}: a window of {window_ms} ms"
            group.is_joined_in_window = False
            group.windows_rest_ms -= window_ms
            self._out.start(TimerKey(TimerKind.JOIN, group.group_id), window_ms)
            return
        self._complete(group)

    def sync_time_over(self, group: Group) -> None:
        """Remove the members that joined but sent no Sync."""
        if not group.awaited_syncs:
            return
        assert group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE), (
            f"{group.group_id} awaits Syncs in {group.state.value}"
        )
        for member_id in list(group.awaited_syncs):
            self.remove(group, group.members[member_id])
        self.prepare(group)

    def _complete(self, group: Group) -> None:
        self._out.timers.cancel(TimerKey(TimerKind.JOIN, group.group_id))
        late = [member for member in group.members.values() if member.join_ticket is None]
        for member in late:
            if member.group_instance_id is None:
                self.remove(group, member)
        if group.members and not _elect_joined_leader(group):
            # Only static members are left, and none has joined: their sessions decide, not this rebalance.
            self._out.start(TimerKey(TimerKind.JOIN, group.group_id), group.rebalance_timeout_ms)
            return
        before = group.generation
        group.begin_generation(wall_ms=self._out.at.wall_ms)
        assert group.generation == before + 1 or group.generation == 0, f"generation {group.generation} after {before}"
        if group.members:
            self._announce(group)
        else:
            self._store_empty(group)

    def _announce(self, group: Group) -> None:
        everyone = group.joined_members()
        for member in group.members.values():
            self.answer_join(
                member,
                JoinReply(
                    error=ErrorCode.NONE,
                    member_id=member.member_id,
                    generation=group.generation,
                    protocol_type=group.protocol_type,
                    protocol_name=group.protocol_name,
                    leader=group.leader or "",
                    members=everyone if member.member_id == group.leader else (),
                ),
            )
            member.is_new = False
            self.start_session(group, member)
        self._out.start(TimerKey(TimerKind.SYNC, group.group_id), group.rebalance_timeout_ms)

    def _store_empty(self, group: Group) -> None:
        # No request waits for this write: a coordinator that starts from an older record rebalances the same way.
        record = group_record(GroupKey(group.group_id), group.stored({}))
        self._out.write((record,), applied=lambda: None, answered=lambda _: None)

    def store_assignment(self, group: Group, assignments: dict[str, bytes]) -> None:
        """Write the leader's assignment; the group is stable when the log has it."""
        assert group.state is GroupState.COMPLETING_REBALANCE, f"{group.group_id} is assigned in {group.state.value}"
        generation = group.generation

        def is_current() -> bool:
            return group.state is GroupState.COMPLETING_REBALANCE and group.generation == generation

        def applied() -> None:
            if is_current():
                self._hand_out(group, assignments)

        def answered(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE and is_current():
                self.abandon_assignment(group, group_write_error(error))
                self.prepare(group)

        record = group_record(GroupKey(group.group_id), group.stored(assignments))
        self._out.write((record,), applied=applied, answered=answered)

    def _hand_out(self, group: Group, assignments: dict[str, bytes]) -> None:
        strangers = assignments.keys() - group.members.keys()
        assert not strangers, f"{group.group_id}: {strangers} are assigned partitions, and are no members"
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            if member.sync_ticket is not None:
                self._out.reply(
                    member.sync_ticket,
                    SyncReply(
                        error=ErrorCode.NONE,
                        assignment=member.assignment,
                        protocol_type=group.protocol_type,
                        protocol_name=group.protocol_name,
                    ),
                )
                member.sync_ticket = None
                # A session that expired while the Sync waited was excused, and nothing else restarts it.
                self.start_session(group, member)
        group.move_to(GroupState.STABLE, wall_ms=self._out.at.wall_ms)

    def abandon_assignment(self, group: Group, error: ErrorCode) -> None:
        """Forget all assignments, and answer the waiting Syncs with `error`."""
        for member in group.members.values():
            member.assignment = b""
            if member.sync_ticket is not None:
                self._out.reply(member.sync_ticket, SyncReply(error=error))
                member.sync_ticket = None
                self.start_session(group, member)


def _elect_joined_leader(group: Group) -> bool:
    """Elect a joined member: the old leader if it has joined, else the first that has; False if none has."""
    if group.leader is not None and group.members[group.leader].join_ticket is not None:
        return True
    for member in group.members.values():
        if member.join_ticket is not None:
            group.leader = member.member_id
            return True
    return False
