"""Who reads what in a group."""

import asyncio
from collections.abc import Sequence

from syncline.core.groups.messages import GroupDescription, GroupState, MemberDescription
from syncline.core.lag.rows import Reader
from syncline.model.errors import ErrorCode, RequestError
from syncline.model.ids import TopicPartition
from syncline.node.lag.members import ASSIGNMENT_BYTES_MAX, NO_MEMBERS, Members, members_of
from tests.node.lag.groups import assignment


class _Groups:
    """A coordinator with one group, or one that cannot tell."""

    def __init__(self, members: Sequence[MemberDescription] | None) -> None:
        self._members = members

    def describe(self, group_id: str, /) -> GroupDescription | None:
        """Return the group."""
        if self._members is None:
            raise RequestError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return GroupDescription(
            group_id=group_id,
            state=GroupState.STABLE,
            protocol_type="consumer",
            protocol_name="range",
            members=tuple(self._members),
            rebalances_since_ms=None,
        )

    def list_groups(self) -> Sequence[GroupDescription]:
        """Return nothing: nobody asks here."""
        return ()


def _member(member_id: str, assigned: bytes) -> MemberDescription:
    return MemberDescription(
        member_id=member_id,
        group_instance_id=None,
        client_id=f"client-{member_id}",
        client_host="/10.0.0.1",
        metadata=b"",
        assignment=assigned,
    )


def _members_of(members: Sequence[MemberDescription] | None) -> Members:
    return asyncio.run(members_of(_Groups(members), "g"))


def test_each_partition_has_the_member_that_it_is_assigned_to() -> None:
    """Without the slash with which coordinators show hosts."""
    found = _members_of([_member("a", assignment("t", 0, 2)), _member("b", assignment("t", 1))])

    assert (found.state, found.member_count) == (GroupState.STABLE, 2)
    assert found.readers[TopicPartition("t", 2)] == Reader("a", "client-a", "10.0.0.1")
    assert {key.partition: reader.member for key, reader in found.readers.items()} == {0: "a", 2: "a", 1: "b"}


def test_strange_assignments_are_members_without_partitions() -> None:
    """Guards the loop: a member chooses how long its assignment is."""
    long = assignment("t", *range(ASSIGNMENT_BYTES_MAX // 4))

    found = _members_of([_member("a", b"\1"), _member("b", long), _member("c", b"")])

    assert (found.member_count, dict(found.readers)) == (3, {})


def test_group_that_nobody_can_tell_of_has_no_members() -> None:
    """Its coordinator is still reading the log."""
    assert _members_of(None) == NO_MEMBERS
