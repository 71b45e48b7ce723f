"""The memory of a group's members: bounded together, and counted until they leave."""

from syncline.core.groups.messages import GroupSettings
from syncline.model.errors import ErrorCode
from tests.core.group_driver import GroupDriver


def test_join_is_refused_when_the_members_together_are_too_large() -> None:
    """What a group takes is bounded, however many members share it; a known member may come back as it was."""
    driver = GroupDriver(GroupSettings(initial_rebalance_delay_ms=0, group_bytes_max=10_000))
    large = (("range", bytes(6_000)),)
    first = driver.joined(driver.join(protocols=large)).member_id
    driver.join(first, protocols=large)
    driver.tick()
    second = driver.joined(driver.join(protocols=large))
    again = driver.join(first, protocols=large)

    assert second.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.joined(again).error is ErrorCode.NONE


def test_memory_of_members_is_counted_until_they_leave() -> None:
    """Also of members that were read from the log, and of none when the coordinator has resigned."""
    driver = GroupDriver()
    member_id = driver.stable(1)[0]
    stable_bytes = driver.shard.member_bytes
    successor_bytes = driver.successor().shard.member_bytes
    driver.join(member_id, protocols=(("range", bytes(100_000)),))
    large_bytes = driver.shard.member_bytes
    driver.leave(member_id)

    assert 1_000 < stable_bytes == successor_bytes < 2_000
    assert 100_000 < large_bytes < 103_000
    assert driver.shard.member_bytes == 0
