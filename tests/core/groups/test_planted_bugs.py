"""Bugs planted in the rules of groups: an assertion trips before a client or the log could see the damage."""

import pytest

from syncline.core.groups.group import Group
from syncline.core.groups.messages import GroupState
from syncline.core.groups.rebalance import Rebalance
from syncline.model.errors import ErrorCode
from tests.core.group_driver import GroupDriver


def test_member_that_is_given_no_session_trips(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a deadline it would keep its partitions for ever after it died."""
    monkeypatch.setattr(Rebalance, "start_session", lambda *_args: None)
    driver = GroupDriver()

    with pytest.raises(AssertionError, match="has no session in"):
        driver.join(instance="i")


def test_generation_that_closes_before_all_have_joined_trips(monkeypatch: pytest.MonkeyPatch) -> None:
    """The late member would go on reading what the new generation assigns to others."""
    driver = GroupDriver()
    driver.stable(2)
    monkeypatch.setattr(Group, "has_everyone_joined", True)
    monkeypatch.setattr(Rebalance, "remove", lambda *_args: None)

    with pytest.raises(AssertionError, match="have not joined generation"):
        driver.new_member()


def test_group_that_skips_a_state_trips(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stable without a stored assignment: a successor would know another one."""
    begin = Group.begin_generation

    def begin_and_skip(group: Group, *, wall_ms: int) -> None:
        begin(group, wall_ms=wall_ms)
        group.move_to(GroupState.EMPTY, wall_ms=wall_ms)

    monkeypatch.setattr(Group, "begin_generation", begin_and_skip)
    driver = GroupDriver()
    driver.new_member()

    with pytest.raises(AssertionError, match="moves from CompletingRebalance to Empty"):
        driver.tick()


def test_leader_that_leaves_and_still_leads_trips(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every member would wait for its assignment."""
    driver = GroupDriver()
    leader, _ = driver.stable(2)
    remove = Group.remove

    def remove_but_keep_leader(group: Group, member_id: str) -> None:
        before = group.leader
        remove(group, member_id)
        group.leader = before

    monkeypatch.setattr(Group, "remove", remove_but_keep_leader)

    with pytest.raises(AssertionError, match="has left"):
        driver.leave(leader)


def test_write_whose_fate_is_reported_twice_trips() -> None:
    """The second report would count a commit under way as settled, and its offset could expire."""
    driver = GroupDriver()
    driver.is_committing = False
    driver.commit("", -1, ("t", 0, 7))
    (write,) = driver.open
    driver.commit_log()

    with pytest.raises(AssertionError, match=f"the fate of write {write.write_id} is reported twice"):
        driver.shard.persisted(write.write_id, ErrorCode.NONE, driver.at)


def test_assignment_to_a_stranger_trips(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log would name a member that the group does not have, and no member would read its partitions."""
    driver = GroupDriver()
    member_id, _ = driver.new_member()
    driver.tick()
    store = Rebalance.store_assignment
    monkeypatch.setattr(
        Rebalance, "store_assignment", lambda self, group, _given: store(self, group, {"stranger": b"a"})
    )

    with pytest.raises(AssertionError, match="stranger"):
        driver.sync(member_id, driver.generation(), {member_id: b"a"})
