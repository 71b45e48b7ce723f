"""One classic consumer group: its members, and what follows from them alone.

This is the state and its bookkeeping; `rebalance` and `membership` decide when
it changes.

A group that only stores offsets has no protocol type and stays EMPTY for ever.
The states and their transitions:

    EMPTY ──first join──> PREPARING_REBALANCE ──all joined or time over──> COMPLETING_REBALANCE
      ^                      ^      │                                         │ leader's Sync stored
      └──── no member ───────┼──────┘ <────── join, leave, expiry ──────── STABLE

Invariants: the leader is a member; every static instance names a member;
`tally` counts, for each protocol, the members that offer it. A pending member
(it has its id, but has not joined with it yet) is not a member, but a rebalance
waits for it.
Source: KIP-62, KIP-345, KIP-394, KIP-814.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from syncline.core.groups.member import Member, restored
from syncline.core.groups.member_bytes import MemberBytes
from syncline.core.groups.messages import REBALANCES, GroupDescription, GroupState, JoinedMember, Protocol
from syncline.core.groups.records import GroupRecordError, StoredGroup, subscribed_topics
from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE
from syncline.model.tables import shrink

CONSUMER_PROTOCOL_TYPE = "consumer"

# The transitions of the diagram above.
_MOVES: Final = {
    GroupState.EMPTY: (GroupState.PREPARING_REBALANCE,),
    GroupState.PREPARING_REBALANCE: (GroupState.COMPLETING_REBALANCE, GroupState.EMPTY),
    GroupState.COMPLETING_REBALANCE: (GroupState.STABLE, GroupState.PREPARING_REBALANCE),
    GroupState.STABLE: (GroupState.PREPARING_REBALANCE,),
}


class Group:
    """The state of one group."""

    def __init__(self, group_id: str, *, wall_ms: int) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.EMPTY
        self.state_timestamp_ms = wall_ms
        # Since when it rebalances, None while it does not.
        self.rebalances_since_ms: int | None = None
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        # Members by id, in the order in which they joined.
        self.members: dict[str, Member] = {}
        self.pending: dict[str, None] = {}
        # Members of this generation whose Sync has not come yet.
        self.awaited_syncs: dict[str, None] = {}
        # In an initial rebalance: whether a member joined in this window, and how much longer windows may continue.
        self.is_joined_in_window = False
        self.windows_rest_ms = 0
        # Clients see a group once a member has joined, or the log holds an offset of it.
        self.is_visible = False
        self.subscribed: frozenset[str] | None = None
        self._instances: dict[str, str] = {}
        self._tally: dict[str, int] = {}
        # The memory that the members take, and the sum over all groups of the coordinator, once it counts this one.
        self.member_bytes = 0
        self._all_member_bytes = MemberBytes()

    def count_in(self, all_member_bytes: MemberBytes) -> None:
        """Count the members of this group together with those of others."""
        all_member_bytes.add(self.member_bytes)
        self._all_member_bytes = all_member_bytes

    def add(self, member: Member) -> None:
        """Add a member; the first one sets the protocol type and leads."""
        assert member.member_id not in self.members, f"{member.member_id} is in {self.group_id} already"
        self.pending.pop(member.member_id, None)
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self._instances, f"{member.group_instance_id} has a member already"
            self._instances[member.group_instance_id] = member.member_id
        self._count(member, 1)
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> None:
        """Forget a member; the next in order of joining leads if it was the leader."""
        member = self.members.pop(member_id)
        shrink(self.members)
        self._count(member, -1)
        self.awaited_syncs.pop(member_id, None)
        if member.group_instance_id is not None:
            del self._instances[member.group_instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        assert (self.leader is None) == (not self.members), f"{len(self.members)} members are led by {self.leader}"

    def offer(self, member: Member, protocols: tuple[Protocol, ...]) -> None:
        """Replace the protocols that a member offers."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)

    def rename(self, member: Member, member_id: str) -> None:
        """Give a static member the id of its next incarnation; it keeps its place, assignment and leadership."""
        old_id = member.member_id
        assert member.group_instance_id is not None, "only static members come back under another id"
        assert self._instances[member.group_instance_id] == old_id, (
            f"{member.group_instance_id} is {self._instances[member.group_instance_id]}, not {old_id}"
        )
        assert member_id not in self.members, f"{old_id} takes the id of another member, {member_id}"
        self.members = {member_id if key == old_id else key: value for key, value in self.members.items()}
        self._instances[member.group_instance_id] = member_id
        if self.awaited_syncs.pop(old_id, 0) is None:
            self.awaited_syncs[member_id] = None
        if self.leader == old_id:
            self.leader = member_id
        member.member_id = member_id

    def _count(self, member: Member, step: int) -> None:
        self.member_bytes += step * member.size_bytes
        self._all_member_bytes.add(step * member.size_bytes)
        # A name offered twice by one member is still one member's offer.
        for name in dict.fromkeys(protocol.name for protocol in member.protocols):
            self._tally[name] = self._tally.get(name, 0) + step
            assert self._tally[name] >= 0, f"{name} is offered by {self._tally[name]} members of {self.group_id}"
            if not self._tally[name]:
                del self._tally[name]

    def instance_member(self, group_instance_id: str) -> str | None:
        """Return the id of the member that is now this instance."""
        return self._instances.get(group_instance_id)

    def refusal(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Return NONE if this is a member, otherwise why not."""
        if group_instance_id is not None:
            current = self._instances.get(group_instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    @property
    def rebalance_timeout_ms(self) -> int:
        """Return how long a rebalance may take: the longest that a member asked for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def joining_count(self) -> int:
        """Return how many members have a waiting Join."""
        return sum(member.join_ticket is not None for member in self.members.values())

    @property
    def has_everyone_joined(self) -> bool:
        """Return whether all members have joined, so that the rebalance may complete."""
        return not self.pending and all(member.join_ticket is not None for member in self.members.values())

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Return whether a member that offers this may join: an empty group takes any."""
        if self.state is GroupState.EMPTY:
            return True
        return protocol_type == self.protocol_type and any(
            self._tally.get(name, 0) == len(self.members) for name in names
        )

    def select_protocol(self) -> str:
        """Return the protocol with the most votes; on a tie, that of the member that joined first."""
        candidates = [name for name, count in self._tally.items() if count == len(self.members)]
        assert candidates, f"the members of {self.group_id} share no protocol"
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.vote(candidates)
            votes[name] = votes.get(name, 0) + 1
        return max(votes, key=lambda name: votes[name])

    @property
    def is_consumer_group(self) -> bool:
        """Return whether the members speak the consumer protocol, whose subscriptions can be read."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def is_subscribed(self, topic: str) -> bool:
        """Return whether a member reads `topic`; unknown subscriptions might contain any topic."""
        if self.subscribed is None:
            return self.is_consumer_group
        return topic in self.subscribed

    def read_subscriptions(self) -> frozenset[str] | None:
        """Return the topics that the members read under the chosen protocol; None when that is not known."""
        if not self.is_consumer_group:
            return None
        topics: dict[str, None] = {}
        for member in self.members.values():
            names = subscribed_topics(member.metadata(self.protocol_name or ""))
            if names is None:
                return None
            topics.update(dict.fromkeys(names))
        return frozenset(topics)

    def move_to(self, state: GroupState, *, wall_ms: int) -> None:
        """Change the state along a transition of the diagram."""
        assert state in _MOVES[self.state], f"{self.group_id} moves from {self.state.value} to {state.value}"
        self.previous_state, self.state = self.state, state
        self.state_timestamp_ms = wall_ms
        if state not in REBALANCES:
            self.rebalances_since_ms = None
        elif self.rebalances_since_ms is None:
            self.rebalances_since_ms = wall_ms

    def begin_generation(self, *, wall_ms: int) -> None:
        """Close the generation: its members are those of the group now."""
        late = [each.member_id for each in self.members.values() if each.join_ticket is None]
        assert all(self.members[each].group_instance_id is not None for each in late), (
            f"{self.group_id}: {late} have not joined generation {self.generation + 1}"
        )
        # Generations wrap as Kafka's do, to 0: negative ones mean "none".
        self.generation = (self.generation + 1) & 0x7FFFFFFF
        self.awaited_syncs = dict.fromkeys(self.members)
        if self.members:
            self.protocol_name = self.select_protocol()
            self.move_to(GroupState.COMPLETING_REBALANCE, wall_ms=wall_ms)
        else:
            self.protocol_name = None
            self.move_to(GroupState.EMPTY, wall_ms=wall_ms)
        self.subscribed = self.read_subscriptions()

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """Return what the leader needs for the assignment."""
        return tuple(
            JoinedMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata(self.protocol_name or ""),
            )
            for member in self.members.values()
        )

    def described(self) -> GroupDescription:
        """Return the group as others see it; metadata only while the protocol is settled."""
        protocol_name = self.protocol_name if self.state is GroupState.STABLE else None
        return GroupDescription(
            group_id=self.group_id,
            state=self.state,
            protocol_type=self.protocol_type or "",
            protocol_name=protocol_name or "",
            members=tuple(member.described(protocol_name) for member in self.members.values()),
            rebalances_since_ms=self.rebalances_since_ms,
        )

    def stored(self, assignments: Mapping[str, bytes]) -> StoredGroup:
        """Return the group as it is stored with these assignments; a missing one is empty."""
        assert (self.leader is None) == (not self.members), f"{self.group_id} is stored with leader {self.leader}"
        assert assignments.keys() <= self.members.keys(), f"{assignments.keys() - self.members.keys()} are no members"
        return StoredGroup(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol_name=self.protocol_name,
            leader=self.leader,
            state_timestamp_ms=self.state_timestamp_ms,
            members=tuple(
                member.stored(self.protocol_name or "", assignments.get(member.member_id, b""))
                for member in self.members.values()
            ),
        )

    def assignments(self) -> dict[str, bytes]:
        """Return every member's assignment."""
        return {member.member_id: member.assignment for member in self.members.values()}

    def check_invariants(self) -> None:
        """Assert what must hold between any two events."""
        assert (self.leader is None) == (not self.members), f"{self.group_id}: leader {self.leader}"
        assert self.leader is None or self.leader in self.members, f"{self.group_id}: leader {self.leader} has left"
        for instance, member_id in self._instances.items():
            assert self.members[member_id].group_instance_id == instance, f"{self.group_id}: {instance} is {member_id}"
        static_count = sum(member.group_instance_id is not None for member in self.members.values())
        assert len(self._instances) == static_count, f"{self.group_id}: {len(self._instances)} of {static_count} static"
        size_bytes = sum(member.size_bytes for member in self.members.values())
        assert self.member_bytes == size_bytes, (
            f"{self.group_id}: {self.member_bytes} bytes are counted of {size_bytes}"
        )
        names = [name for member in self.members.values() for name in {each.name for each in member.protocols}]
        assert self._tally == {name: names.count(name) for name in names}, f"{self.group_id}: tally {self._tally}"
        assert not self.pending.keys() & self.members.keys(), f"{self.group_id}: pending and member at once"
        assert self.awaited_syncs.keys() <= self.members.keys(), f"{self.group_id}: awaits a Sync of a stranger"
        assert self.windows_rest_ms >= 0, f"{self.group_id}: {self.windows_rest_ms} ms of windows are left"
        for member in self.members.values():
            self._check_tickets(member)
        is_settled = self.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
        if is_settled or self.state is GroupState.EMPTY:
            assert is_settled == bool(self.members), f"{self.group_id}: {self.state} with {len(self.members)} members"
        if is_settled:
            assert self.protocol_name is not None, f"{self.group_id}: {self.state} without a protocol"

    def _check_tickets(self, member: Member) -> None:
        """Assert that a member waits only for what its group's state can still give it."""
        who = f"{member.member_id} of {self.group_id} in {self.state.value}"
        assert member.join_ticket is None or member.sync_ticket is None, f"{who} waits for Join and Sync"
        if member.join_ticket is not None:
            # In a stable group a static member's Join waits until the log has its new id.
            is_replacement = self.state is GroupState.STABLE and member.group_instance_id is not None
            assert self.state is GroupState.PREPARING_REBALANCE or is_replacement, f"{who} waits for a generation"
        if member.sync_ticket is not None:
            assert self.state is GroupState.COMPLETING_REBALANCE, f"{who} waits for an assignment"
            assert member.member_id not in self.awaited_syncs, f"{who} waits, and its Sync is awaited"


def restored_group(group_id: str, stored: StoredGroup, *, wall_ms: int) -> Group:
    """Return the group that was stored: STABLE with its members, or EMPTY. Raises GroupRecordError."""
    instances = [each.group_instance_id for each in stored.members if each.group_instance_id is not None]
    if len({each.member_id for each in stored.members}) < len(stored.members) or len(set(instances)) < len(instances):
        raise GroupRecordError(f"generation {stored.generation} of {group_id} was stored with a member twice")
    group = Group(group_id, wall_ms=wall_ms)
    group.generation = stored.generation
    group.protocol_type = stored.protocol_type or None
    group.protocol_name = stored.protocol_name
    group.is_visible = True
    for member in stored.members:
        group.add(restored(member, stored.protocol_name or ""))
    if group.members:
        group.state = group.previous_state = GroupState.STABLE
        if stored.leader in group.members:
            group.leader = stored.leader
    if stored.state_timestamp_ms != NONE:
        group.state_timestamp_ms = stored.state_timestamp_ms
    group.subscribed = group.read_subscriptions()
    return group
