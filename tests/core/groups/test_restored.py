"""Groups from records that are sound in themselves and describe no group."""

import pytest

from syncline.core.groups.group import restored_group
from syncline.core.groups.records import GroupRecordError, StoredGroup, StoredMember


def member(member_id: str, instance: str | None) -> StoredMember:
    """Return a member as it is stored."""
    return StoredMember(
        member_id=member_id,
        group_instance_id=instance,
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=1,
        session_timeout_ms=2,
        subscription=b"",
        assignment=b"",
    )


@pytest.mark.parametrize(
    "members",
    [
        pytest.param((member("a", None), member("a", None)), id="member"),
        pytest.param((member("a", "i"), member("b", "i")), id="instance"),
    ],
)
def test_group_with_a_member_twice_is_refused(members: tuple[StoredMember, ...]) -> None:
    """Whoever wrote it, the coordinator reports a record that it cannot load."""
    stored = StoredGroup(
        protocol_type="p", generation=9, protocol_name="r", leader="a", state_timestamp_ms=4, members=members
    )

    with pytest.raises(GroupRecordError, match="generation 9 of g was stored with a member twice"):
        restored_group("g", stored, wall_ms=0)
