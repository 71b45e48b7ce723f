"""From where the members of a group fetch: what the leaders told of readers, as far as these are members.

A Fetch request names no group. So a reader is taken for a member where client id, host and assignment fit one member of
all groups that this broker coordinates, and where it is one program (`core/lag/readers.py`). A group that another
broker coordinates is not known here: if two programs with one name read a partition for two such groups, and one of
them stands still, the other's position is shown for both.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, TypeAlias

from syncline.core.groups.messages import MemberDescription
from syncline.core.groups.records import assigned_partitions
from syncline.core.lag.readers import MemberAssignment, ReaderKey, attribute
from syncline.model.errors import RequestError
from syncline.model.ids import TopicPartition
from syncline.node.lag.members import ASSIGNMENT_BYTES_MAX, DescribesGroups, Members
from syncline.node.lag.read_positions import ReaderPosition

# Groups whose members are looked at before the loop is freed, and how long their assignments may be together: less than
# a millisecond.
GROUPS_PER_TURN: Final = 20
BYTES_PER_TURN: Final = 4_096
# Who reads, by partition.
Told: TypeAlias = Mapping[TopicPartition, Iterable[ReaderPosition]]


async def fetching_members(
    group_id: str, members: Members, told: Told, groups: DescribesGroups, group_ids: Callable[[], Iterable[str]]
) -> Mapping[TopicPartition, ReaderPosition]:
    """Return from where the members of a group fetch, by partition; `group_ids` tells all groups of this broker."""
    positions = {
        ReaderKey(each.client_id, each.host, key): each
        for key, readers in told.items()
        if key in members.readers
        for each in readers
        if not each.is_shared
    }
    if not positions:
        return {}
    names = frozenset((key.client_id, key.host) for key in positions)
    assignments = await assignments_of(groups, group_ids(), names)
    found = {}
    for key, member in attribute(positions, assignments).items():
        reader = members.readers[key.partition]
        if member is not None and (member.group_id, member.member_id) == (group_id, reader.member):
            found[key.partition] = positions[key]
    return found


async def assignments_of(
    groups: DescribesGroups, group_ids: Iterable[str], names: AbstractSet[tuple[str, str]] | None = None
) -> list[MemberAssignment]:
    """Return the members of groups that have partitions, hosts without the slash; `names`: only those clients."""
    found: list[MemberAssignment] = []
    read_bytes = 0
    for count, group_id in enumerate(group_ids, start=1):
        if count % GROUPS_PER_TURN == 0:
            await asyncio.sleep(0)
        try:
            described = groups.describe(group_id)
        except RequestError:
            continue
        for member in () if described is None else described.members:
            if names is None or (member.client_id, member.client_host.removeprefix("/")) in names:
                found.append(_assignment(group_id, member))
                read_bytes += len(member.assignment)
                if read_bytes >= BYTES_PER_TURN:
                    read_bytes = 0
                    await asyncio.sleep(0)
    return [each for each in found if each.partitions]


def _assignment(group_id: str, member: MemberDescription) -> MemberAssignment:
    is_read = len(member.assignment) <= ASSIGNMENT_BYTES_MAX
    partitions = assigned_partitions(member.assignment) if is_read else ()
    return MemberAssignment(
        group_id,
        member.member_id,
        member.client_id,
        member.client_host.removeprefix("/"),
        frozenset(TopicPartition(*each) for each in partitions),
    )
