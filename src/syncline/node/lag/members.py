"""Who reads what in a group, as its coordinator sees it: members, their assignments, and whether they rebalance."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from syncline.core.groups.messages import GroupDescription, GroupState
from syncline.core.groups.records import assigned_partitions
from syncline.core.lag.rows import Reader
from syncline.model.errors import RequestError
from syncline.model.ids import TopicPartition

# A member chooses what its assignment holds, and each partition of it takes time: longer ones are not read.
ASSIGNMENT_BYTES_MAX: Final = 65_536


class DescribesGroups(Protocol):
    """The coordinator of this broker."""

    def describe(self, group_id: str, /) -> GroupDescription | None:
        """Return a group, None if there is none; raises `RequestError` if this broker cannot tell."""

    def list_groups(self) -> Sequence[GroupDescription]:
        """Return the groups that this broker coordinates; raises `RequestError` while it reads their log."""


class Members(NamedTuple):
    """The members of one group."""

    state: GroupState
    member_count: int
    readers: Mapping[TopicPartition, Reader]
    rebalances_since_ms: int | None = None
    """By the wall clock; None while the group does not rebalance."""


NO_MEMBERS: Final = Members(GroupState.EMPTY, 0, {})


async def members_of(groups: DescribesGroups, group_id: str) -> Members:
    """Return who is in a group; a long one takes several turns of the loop."""
    try:
        described = groups.describe(group_id)
    except RequestError:
        described = None
    if described is None:
        return NO_MEMBERS
    readers: dict[TopicPartition, Reader] = {}
    for member in described.members:
        if len(member.assignment) > ASSIGNMENT_BYTES_MAX:
            continue
        reader = Reader(member.member_id, member.client_id, member.client_host.removeprefix("/"))
        for topic, partition in assigned_partitions(member.assignment):
            readers[TopicPartition(topic, partition)] = reader
        await asyncio.sleep(0)
    return Members(described.state, len(described.members), readers, described.rebalances_since_ms)
