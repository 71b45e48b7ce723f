"""The groups of this coordinator with their commits and members, for brokers that show the whole cluster.

Pages begin behind a group's id rather than at a number, because groups come and go between two pages.
"""

from bisect import bisect_right
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from typing import Final

from syncline.core.groups.messages import GroupDescription, GroupState
from syncline.core.groups.records import assigned_partitions
from syncline.model.errors import RequestError
from syncline.model.ids import TopicPartition
from syncline.node.lag.commits import Commits
from syncline.node.lag.members import ASSIGNMENT_BYTES_MAX, DescribesGroups
from syncline.node.lag.row_messages import (
    STEP_ROWS,
    CoordinatedGroup,
    GroupMember,
    GroupRow,
    RowsAnswer,
    RowsRequest,
    encode_answer,
)
from syncline.node.partitions.partition import Partition

# A page ends with the group that reaches this: about 40 KiB.
PAGE_ROWS: Final = 2_000


class GroupRows:
    """What one broker answers to GROUP_ROWS."""

    def __init__(
        self,
        *,
        commits: Commits,
        groups: Callable[[], DescribesGroups],
        partitions: Mapping[TopicPartition, Partition],
    ) -> None:
        self._commits = commits
        self._groups = groups
        self._partitions = partitions

    def page(self, request: RowsRequest) -> Generator[None, None, bytes]:
        """Return the body of the answer, in steps."""
        group_ids = self._group_ids()
        first = bisect_right(group_ids, request.after)
        groups: list[CoordinatedGroup] = []
        row_count = 0
        while first + len(groups) < len(group_ids) and row_count < PAGE_ROWS:
            group = yield from self._group(group_ids[first + len(groups)])
            groups.append(group)
            row_count += 1 + sum(map(len, group.topics.values()))
            yield
        log_bytes = (yield from self._log_bytes()) if request.has_sizes else {}
        has_more = first + len(groups) < len(group_ids)
        return (yield from encode_answer(RowsAnswer(has_more, log_bytes, groups)))

    def _group_ids(self) -> list[str]:
        named = dict.fromkeys(group_id for group_id, _ in self._commits.groups())
        # While some logs are still being read, the groups of the others are known by their commits.
        with suppress(RequestError):
            named.update(dict.fromkeys(group.group_id for group in self._groups().list_groups()))
        return sorted(named)

    def _group(self, group_id: str) -> Generator[None, None, CoordinatedGroup]:
        described: GroupDescription | None = None
        with suppress(RequestError):
            described = self._groups().describe(group_id)
        slab = self._commits.slab(group_id)
        found: dict[str, dict[int, GroupRow]] = {}
        if slab is not None:
            for batch in slab.batches(STEP_ROWS):
                for newest in batch:
                    rows = found.setdefault(newest.key.topic, {})
                    rows[newest.key.partition] = GroupRow(newest.key.partition, newest.offset, -1)
                yield
        members: list[GroupMember] = []
        for member in () if described is None else described.members:
            if len(member.assignment) <= ASSIGNMENT_BYTES_MAX:
                for topic, partition in assigned_partitions(member.assignment):
                    rows = found.setdefault(topic, {})
                    row = rows.get(partition, GroupRow(partition, -1, -1))
                    rows[partition] = row._replace(member=len(members))
            members.append(GroupMember(member.member_id, member.client_id, member.client_host.removeprefix("/")))
            yield
        topics: dict[str, list[GroupRow]] = {}
        for topic in sorted(found):
            in_order = topics[topic] = []
            for partition in sorted(found[topic]):
                in_order.append(found[topic][partition])
                if len(in_order) % STEP_ROWS == 0:
                    yield
        return CoordinatedGroup(
            group_id=group_id,
            state=(GroupState.EMPTY if described is None else described.state).value,
            protocol_type="" if described is None else described.protocol_type,
            protocol="" if described is None else described.protocol_name,
            commit_count=0 if slab is None else slab.commit_count,
            members=members,
            topics=topics,
        )

    def _log_bytes(self) -> Generator[None, None, dict[str, int]]:
        sizes: dict[str, int] = {}
        for number, (key, partition) in enumerate(tuple(self._partitions.items())):
            sizes[key.topic] = sizes.get(key.topic, 0) + partition.log.size_bytes
            if number % STEP_ROWS == STEP_ROWS - 1:
                yield
        return sizes
