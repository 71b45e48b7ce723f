"""Committed offsets: commits, fetches, deletions, expiry; what Apache Kafka 4.3 was seen to answer, row by row."""

from typing import Any

import pytest

from syncline.core.groups.messages import GroupSettings, OffsetToCommit
from syncline.model.errors import ErrorCode
from syncline.model.ids import Offset
from tests.core.group_driver import GROUP, NO_DELAY, WALL_MS, GroupDriver, subscription

DAY_MS = 86_400_000
RETENTION_MS = NO_DELAY.offsets_retention_ms
CHECK_MS = NO_DELAY.offsets_retention_check_interval_ms


def _commit_of(
    offset: int = 1, *, topic: str = "t", partition: int = 0, metadata: str = "", expire_ms: int = -1
) -> Any:
    return OffsetToCommit(
        topic=topic,
        partition=partition,
        offset=Offset(offset),
        leader_epoch=4,
        metadata=metadata,
        expire_timestamp_ms=expire_ms,
    )


# Commit


@pytest.mark.parametrize(
    ("phase", "who", "generation", "version", "error"),
    [
        pytest.param("none", "", -1, 9, ErrorCode.NONE, id="unknown-group-generation-none"),
        pytest.param("none", "m", -1, 9, ErrorCode.NONE, id="unknown-group-member-id-is-ignored"),
        pytest.param("none", "m", 1, 8, ErrorCode.ILLEGAL_GENERATION, id="unknown-group-with-generation-v8"),
        pytest.param("none", "m", 1, 9, ErrorCode.GROUP_ID_NOT_FOUND, id="unknown-group-with-generation-v9"),
        pytest.param("empty", "", -1, 9, ErrorCode.NONE, id="empty-generation-none"),
        pytest.param("empty", "m", 2, 9, ErrorCode.UNKNOWN_MEMBER_ID, id="empty-with-generation"),
        pytest.param("stable", "", -1, 9, ErrorCode.UNKNOWN_MEMBER_ID, id="stable-no-member"),
        pytest.param("stable", "", 1, 9, ErrorCode.UNKNOWN_MEMBER_ID, id="stable-no-member-right-generation"),
        pytest.param("stable", "member", -1, 9, ErrorCode.ILLEGAL_GENERATION, id="stable-member-generation-none"),
        pytest.param("stable", "member", 2, 9, ErrorCode.ILLEGAL_GENERATION, id="stable-member-next-generation"),
        pytest.param("stable", "x", 1, 9, ErrorCode.UNKNOWN_MEMBER_ID, id="stable-unknown-member"),
        pytest.param("stable", "member", 1, 9, ErrorCode.NONE, id="stable-member"),
        pytest.param("completing", "member", 1, 9, ErrorCode.REBALANCE_IN_PROGRESS, id="before-sync"),
        pytest.param("preparing", "member", 1, 9, ErrorCode.NONE, id="preparing-old-generation"),
        pytest.param("preparing", "newcomer", 1, 9, ErrorCode.NONE, id="preparing-waiting-newcomer"),
        pytest.param("preparing", "member", 2, 9, ErrorCode.ILLEGAL_GENERATION, id="preparing-next-generation"),
    ],
)
def test_commit_is_judged_by_group_member_and_generation(
    phase: str, who: str, generation: int, version: int, error: ErrorCode
) -> None:
    """Each refusal has its code, and stores nothing."""
    driver = GroupDriver()
    member = newcomer = "m"
    if phase == "completing":
        member, _ = driver.new_member()
        driver.tick()
    elif phase != "none":
        (member,) = driver.stable(1)
    if phase == "empty":
        driver.leave(member)
    if phase == "preparing":
        newcomer, _ = driver.new_member()
    member_id = {"member": member, "newcomer": newcomer}.get(who, who)

    assert driver.commit_error(member_id, generation, ("t", 0, 7), version=version) is error
    assert driver.offset() == (7 if error is ErrorCode.NONE else None)


def test_commit_of_an_unknown_instance_is_refused() -> None:
    """25, not 82: the instance does not exist."""
    driver = GroupDriver()
    (member,) = driver.stable(1)

    assert driver.commit_error(member, 1, instance="i") is ErrorCode.UNKNOWN_MEMBER_ID


def test_commit_outside_a_generation_makes_a_group_without_protocol_type() -> None:
    """It is listed as Empty, type ""."""
    driver = GroupDriver()

    driver.commit()

    (listed,) = driver.shard.list_groups()
    assert (listed.group_id, listed.state.value, listed.protocol_type) == (GROUP, "Empty", "")


def test_commit_to_the_group_without_a_name_is_accepted() -> None:
    """The empty name is that of a group like any other for commits and fetches."""
    driver = GroupDriver()

    assert driver.commit_error("", -1, ("t", 0, 3), group="") is ErrorCode.NONE
    assert driver.offset(group="") == 3


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        pytest.param("x" * 4_096, ErrorCode.NONE, id="longest"),
        pytest.param("x" * 4_097, ErrorCode.OFFSET_METADATA_TOO_LARGE, id="too-long"),
        pytest.param("\u20ac" * 4_096, ErrorCode.NONE, id="characters-not-bytes"),
        pytest.param("\U0001f600" * 2_049, ErrorCode.OFFSET_METADATA_TOO_LARGE, id="surrogate-pairs-count-twice"),
    ],
)
def test_commit_with_metadata_is_judged_partition_by_partition(metadata: str, error: ErrorCode) -> None:
    """One text that is too long does not affect the other partitions."""
    driver = GroupDriver()

    ticket = driver.commit("", -1, _commit_of(metadata=metadata), _commit_of(partition=1, metadata="ok"))

    assert driver.answers[ticket].errors == [error, ErrorCode.NONE]
    stored = driver.shard.offsets_of(GROUP)["t"]
    assert (0 in stored) == (error is ErrorCode.NONE)
    assert (stored[1].metadata, stored[1].leader_epoch) == ("ok", 4)


@pytest.mark.parametrize(("metadata", "is_kept"), [("x" * 32_767, True), ("\u20ac" * 10_923, False)])
def test_commit_with_metadata_that_no_record_can_hold_is_refused(metadata: str, is_kept: bool) -> None:
    """Whatever limit is configured, a string of a record has at most 32,767 bytes."""
    driver = GroupDriver(GroupSettings(initial_rebalance_delay_ms=0, offset_metadata_max=100_000))

    ticket = driver.commit("", -1, _commit_of(metadata=metadata))

    error = ErrorCode.NONE if is_kept else ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert driver.answers[ticket].errors == [error]


@pytest.mark.parametrize("offset", [-1, -5, 10**15])
def test_commit_of_any_offset_is_accepted(offset: int) -> None:
    """Offsets are the client's business."""
    driver = GroupDriver()

    assert driver.commit_error("", -1, ("t", 0, offset)) is ErrorCode.NONE
    assert driver.offset() == offset


def test_commit_of_one_partition_twice_keeps_the_last() -> None:
    """Both are answered 0."""
    driver = GroupDriver()

    driver.commit("", -1, ("t", 0, 5), ("t", 0, 3))

    assert driver.offset() == 3


def test_commit_is_shown_and_answered_only_when_the_log_has_it_h11() -> None:
    """A fetch never returns an offset that the next coordinator might not know."""
    driver = GroupDriver()
    driver.commit("", -1, ("t", 0, 5))
    driver.is_committing = False
    ticket = driver.commit("", -1, ("t", 0, 9))
    assert (ticket in driver.answers, driver.offset()) == (False, 5)

    driver.commit_log()

    assert (driver.answers[ticket].errors, driver.offset()) == ([ErrorCode.NONE], 9)


@pytest.mark.parametrize(
    ("failure", "answered"),
    [
        pytest.param(ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE, id="replicas"),
        pytest.param(ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR, id="leadership"),
        pytest.param(ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR, id="disk"),
        pytest.param(ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE, id="size"),
    ],
)
def test_commit_that_cannot_be_written_says_why(failure: ErrorCode, answered: ErrorCode) -> None:
    """The log's error is translated to one that clients know what to do with; nothing is stored."""
    driver = GroupDriver()
    driver.is_committing = False
    ticket = driver.commit()

    driver.commit_log(failure)

    assert (driver.answers[ticket].errors, driver.offset()) == ([answered], None)


def test_commit_that_takes_too_long_is_answered_and_still_stored_when_the_log_commits_it() -> None:
    """The state always equals the committed log, also for a client that has given up."""
    driver = GroupDriver()
    driver.is_committing = False
    ticket = driver.commit("", -1, ("t", 0, 9))
    driver.advance(5_000)
    assert driver.answers[ticket].errors == [ErrorCode.COORDINATOR_NOT_AVAILABLE]

    driver.commit_log()

    assert driver.offset() == 9


def test_commit_prolongs_the_session() -> None:
    """A member that commits is alive."""
    driver = GroupDriver()
    (member,) = driver.stable(1)
    driver.advance(9_000)
    driver.commit(member, 1)

    driver.advance(9_000)

    assert driver.inner_state() == "Stable"


def test_successor_knows_every_acknowledged_offset_h11() -> None:
    """Offsets, epochs and texts come back from the log; tombstones hold."""
    driver = GroupDriver()
    driver.commit("", -1, _commit_of(7, metadata="here"), _commit_of(8, partition=1))
    driver.commit(group="gone")
    driver.delete_group(group="gone")
    driver.delete_offsets(("t", 1))

    successor = driver.successor()

    assert successor.shard.offsets_of(GROUP) == driver.shard.offsets_of(GROUP)
    assert (successor.offset(), successor.offset(partition=1), successor.state("gone")) == (7, None, "Dead")
    assert successor.shard.offsets_of(GROUP)["t"][0].metadata == "here"


# Deletion


@pytest.mark.parametrize(
    ("given", "error"),
    [
        pytest.param("none", ErrorCode.GROUP_ID_NOT_FOUND, id="unknown"),
        pytest.param("pending", ErrorCode.NONE, id="only-a-pending-member"),
        pytest.param("joining", ErrorCode.NON_EMPTY_GROUP, id="before-the-first-sync"),
        pytest.param("stable", ErrorCode.NON_EMPTY_GROUP, id="stable"),
        pytest.param("empty", ErrorCode.NONE, id="empty"),
        pytest.param("offsets", ErrorCode.NONE, id="only-offsets"),
    ],
)
def test_group_is_deleted_when_it_has_no_members(given: str, error: ErrorCode) -> None:
    """Unknown 69, not empty 68; a deleted group is Dead, and its offsets are gone."""
    driver = GroupDriver()
    if given == "pending":
        driver.join()
    elif given == "joining":
        driver.new_member()
        driver.tick()
    elif given == "offsets":
        driver.commit()
    elif given != "none":
        (member,) = driver.stable(1)
        driver.commit(member, 1)
    if given == "empty":
        driver.leave(member)

    ticket = driver.delete_group()

    assert driver.answers[ticket].error is error
    if error is ErrorCode.NONE:
        assert (driver.state(), driver.offset(), driver.shard.list_groups()) == ("Dead", None, ())
        assert driver.successor().offset() is None


def test_group_deletion_reaches_a_commit_that_is_under_way() -> None:
    """In the log the tombstone comes after the commit: nothing of the group is left."""
    driver = GroupDriver()
    driver.commit("", -1, ("t", 0, 1))
    driver.is_committing = False
    driver.commit("", -1, ("t", 1, 2))

    driver.delete_group()
    driver.commit_log()

    assert (driver.offset(), driver.offset(partition=1)) == (None, None)
    assert driver.successor().shard.offsets_of(GROUP) == {}


def test_group_whose_deletion_fails_is_still_there() -> None:
    """A refused write changes nothing."""
    driver = GroupDriver()
    driver.commit("", -1, ("t", 0, 1))
    driver.is_committing = False
    ticket = driver.delete_group()

    driver.commit_log(ErrorCode.NOT_ENOUGH_REPLICAS)

    assert driver.answers[ticket].error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (driver.state(), driver.offset()) == ("Empty", 1)


def test_offset_deletion_spares_what_members_read() -> None:
    """86 for topics of a subscription, 0 for others, whether or not there is an offset."""
    driver = GroupDriver()
    (member,) = driver.stable(1)
    driver.commit(member, 1, ("t", 0, 1), ("u", 0, 2))

    reply = driver.delete_offsets(("t", 0), ("u", 0), ("u", 1))

    assert reply.error is ErrorCode.NONE
    assert reply.errors == {
        ("t", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ("u", 0): ErrorCode.NONE,
        ("u", 1): ErrorCode.NONE,
    }
    assert (driver.offset(), driver.offset("u")) == (1, None)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        pytest.param("none", ErrorCode.GROUP_ID_NOT_FOUND, id="unknown"),
        pytest.param("other-type", ErrorCode.NON_EMPTY_GROUP, id="members-of-another-protocol"),
    ],
)
def test_offset_deletion_is_refused_as_a_whole(given: str, error: ErrorCode) -> None:
    """The topics that members of an unknown protocol read are unknown."""
    driver = GroupDriver()
    if given == "other-type":
        driver.stable(1, protocol_type="connect")

    assert driver.delete_offsets(("t", 0)).error is error


def test_offset_deletion_spares_everything_when_a_subscription_cannot_be_read() -> None:
    """An unreadable subscription may contain any topic."""
    driver = GroupDriver()
    (member,) = driver.stable(1, protocols=(("range", b"?"),))
    driver.commit(member, 1)

    assert driver.delete_offsets(("t", 0)).errors == {("t", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}


def test_offsets_of_a_deleted_topic_are_forgotten() -> None:
    """A topic of the same name is another topic."""
    driver = GroupDriver()
    driver.commit("", -1, ("t", 0, 1), ("u", 0, 2))

    driver.perform(driver.shard.forget_topics(["t"], driver.at))

    assert (driver.offset(), driver.offset("u")) == (None, 2)
    assert driver.successor().offset() is None


# Expiry


def test_offsets_of_a_group_that_never_had_members_expire_by_their_commit() -> None:
    """Each by its own time; the group goes with the last."""
    driver = GroupDriver()
    driver.commit("", -1, ("t", 0, 1))
    driver.advance(DAY_MS)
    driver.commit("", -1, ("t", 1, 2))

    driver.advance(RETENTION_MS - DAY_MS + CHECK_MS)
    assert (driver.offset(), driver.offset(partition=1)) == (None, 2)

    driver.advance(DAY_MS)
    assert (driver.state(), driver.successor().shard.offsets_of(GROUP)) == ("Dead", {})


def test_offsets_of_an_abandoned_group_expire_from_the_moment_it_was_empty() -> None:
    """However old the commits are, the members' absence is what counts."""
    driver = GroupDriver()
    (member,) = driver.stable(1, session_ms=1_800_000)
    driver.commit(member, 1)
    for _ in range(60):
        driver.advance(1_700_000)
        driver.beat(member, 1)
    driver.leave(member)

    driver.advance(RETENTION_MS - CHECK_MS)
    assert driver.offset() == 1

    driver.advance(2 * CHECK_MS)
    assert driver.offset() is None


def test_offsets_of_a_live_group_expire_only_for_topics_that_no_member_reads() -> None:
    """The subscription protects its topics; others go by commit time."""
    settings = GroupSettings(initial_rebalance_delay_ms=0, offsets_retention_ms=DAY_MS)
    driver = GroupDriver(settings)
    (member,) = driver.stable(1, session_ms=1_800_000)
    driver.commit(member, 1, ("t", 0, 1), ("u", 0, 2))

    for _ in range(60):
        driver.advance(1_700_000)
        driver.beat(member, 1)

    assert (driver.offset(), driver.offset("u"), driver.state()) == (1, None, "Stable")


def test_offsets_of_a_live_group_of_another_protocol_do_not_expire() -> None:
    """What it reads is not known."""
    settings = GroupSettings(initial_rebalance_delay_ms=0, offsets_retention_ms=DAY_MS)
    driver = GroupDriver(settings)
    (member,) = driver.stable(1, session_ms=1_800_000, protocol_type="connect")
    driver.commit(member, 1)

    for _ in range(60):
        driver.advance(1_700_000)
        driver.beat(member, 1)

    assert driver.offset() == 1


def test_offset_with_a_retention_time_of_its_own_expires_then() -> None:
    """v2-4 of OffsetCommit; the successor knows it, too."""
    driver = GroupDriver()
    driver.commit("", -1, _commit_of(1, expire_ms=WALL_MS + DAY_MS), _commit_of(2, partition=1))
    driver = driver.successor()

    driver.advance(DAY_MS + CHECK_MS)

    assert (driver.offset(), driver.offset(partition=1)) == (None, 2)


def test_offset_under_way_does_not_expire() -> None:
    """The newer commit would be buried with the older one."""
    driver = GroupDriver()
    driver.commit("", -1, ("t", 0, 1))
    driver.advance(RETENTION_MS - CHECK_MS)
    driver.is_committing = False
    driver.commit("", -1, ("t", 0, 2))

    driver.advance(2 * CHECK_MS)
    driver.commit_log()

    assert driver.offset() == 2


def test_group_without_offsets_and_members_is_deleted_at_the_next_check() -> None:
    """Nothing is left of it, in memory or in the log."""
    driver = GroupDriver()
    driver.leave(*driver.stable(1))

    driver.advance(CHECK_MS)

    assert (driver.state(), driver.inner_state(), driver.successor().inner_state()) == ("Dead", None, None)


def test_many_offsets_are_deleted_in_batches_that_fit() -> None:
    """A thousand tombstones at most in one write."""
    driver = GroupDriver()
    driver.commit("", -1, *[("t", partition, 1) for partition in range(2_500)])
    driver.is_committing = False

    driver.delete_group()

    assert [len(write.records) for write in driver.open] == [1_000, 1_000, 500, 1]


def test_subscription_is_that_of_the_chosen_protocol() -> None:
    """A member's subscription under another protocol does not count."""
    driver = GroupDriver()
    (member,) = driver.stable(1, protocols=(("a", subscription("t")), ("b", subscription("u"))))
    driver.commit(member, 1, ("u", 0, 1))

    assert driver.delete_offsets(("u", 0)).errors == {("u", 0): ErrorCode.NONE}
