"""Join, Sync, Heartbeat and Leave of classic groups: what Apache Kafka 4.3 was seen to answer, row by row."""

from typing import Any

import pytest

from syncline.core.groups.member_bytes import PROTOCOLS_MAX
from syncline.core.groups.messages import GroupSettings
from syncline.core.groups.records import parse_group_value
from syncline.model.errors import ErrorCode
from tests.core.group_driver import GROUP, GroupDriver, subscription

RANGE = ("range", subscription("t"))
STICKY = ("sticky", subscription("t", "u"))


# Checks of a Join, in their order


@pytest.mark.parametrize(
    ("given", "options", "error", "echoed"),
    [
        pytest.param("none", {"session_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT, "", id="session-too-short"),
        pytest.param("none", {"session_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT, "", id="session-too-long"),
        pytest.param(
            "none",
            {"session_ms": 1, "protocols": (), "member_id": "x"},
            ErrorCode.INVALID_SESSION_TIMEOUT,
            "x",
            id="session-before-protocols",
        ),
        pytest.param("none", {"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "", id="no-protocols"),
        pytest.param("none", {"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "", id="no-type"),
        pytest.param("none", {"member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID, "x", id="member-of-no-group"),
        pytest.param(
            "none",
            {"member_id": "x", "protocols": ()},
            ErrorCode.UNKNOWN_MEMBER_ID,
            "x",
            id="member-of-no-group-before-protocols",
        ),
        pytest.param("stable", {"member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID, "x", id="unknown-member"),
        pytest.param(
            "stable",
            {"member_id": "x", "protocol_type": "connect"},
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            "x",
            id="type-before-unknown-member",
        ),
        pytest.param(
            "stable", {"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "", id="other-type"
        ),
        pytest.param(
            "stable", {"protocols": (STICKY,)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "", id="no-common-protocol"
        ),
        pytest.param(
            "none",
            {"protocols": tuple((f"p{number}", b"") for number in range(PROTOCOLS_MAX + 1))},
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            "",
            id="more-protocols-than-any-client-has",
        ),
        pytest.param(
            "none", {"protocols": (("range", bytes(17 << 20)),)}, ErrorCode.GROUP_MAX_SIZE_REACHED, "", id="too-large"
        ),
        pytest.param("none", {}, ErrorCode.MEMBER_ID_REQUIRED, "c-uuid1", id="first-step"),
    ],
)
def test_join_is_refused_by_the_first_check_that_fails(
    given: str, options: dict[str, Any], error: ErrorCode, echoed: str
) -> None:
    """Each refusal has its code, echoes the id as Kafka does, and has an error's empty fields."""
    driver = GroupDriver()
    if given == "stable":
        driver.stable(1)

    reply = driver.joined(driver.join(**options))

    assert (reply.error, reply.member_id) == (error, echoed)
    assert (reply.generation, reply.leader, reply.members) == (-1, "", ())
    assert (reply.protocol_type, reply.protocol_name, reply.skip_assignment) == (None, None, False)


def test_join_of_a_known_member_is_refused_when_it_changes_to_another_protocol() -> None:
    """23 also for an old member: the others do not share the protocols that it now offers."""
    driver = GroupDriver()
    leader, follower = driver.stable(2)

    reply = driver.joined(driver.join(follower, protocols=(STICKY,)))

    assert (reply.error, reply.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, follower)
    assert driver.beat(leader, driver.generation()) is ErrorCode.NONE


def test_join_below_v4_needs_no_second_step() -> None:
    """v0-3 with an empty id joins at once."""
    driver = GroupDriver()

    ticket = driver.join(version=3)
    driver.tick()

    reply = driver.joined(ticket)
    assert (reply.error, reply.member_id, reply.leader, reply.generation) == (
        ErrorCode.NONE,
        "c-uuid1",
        "c-uuid1",
        1,
    )


def test_join_is_refused_when_the_group_is_full() -> None:
    """group.max.size bounds who may join; known members stay."""
    driver = GroupDriver(GroupSettings(initial_rebalance_delay_ms=0, group_size_max=1))
    driver.stable(1)

    assert driver.joined(driver.join()).error is ErrorCode.GROUP_MAX_SIZE_REACHED


# Pending members


def test_pending_member_makes_an_empty_group_and_no_rebalance() -> None:
    """A member that only has its id does not disturb other members."""
    driver = GroupDriver()
    driver.join()
    assert driver.state() == "Empty"
    (member,) = driver.stable(1)

    driver.join()

    assert driver.beat(member, driver.generation()) is ErrorCode.NONE
    assert driver.state() == "Stable"


def test_pending_member_is_forgotten_after_its_session_timeout() -> None:
    """The id is good for as long as the session timeout; then it is unknown."""
    driver = GroupDriver()
    member_id = driver.joined(driver.join(session_ms=6_000)).member_id

    driver.advance(6_000)

    assert driver.joined(driver.join(member_id)).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_pending_member_is_waited_for_by_a_rebalance_until_it_leaves() -> None:
    """A running rebalance waits for a member that has only its id, and completes when that member leaves."""
    driver = GroupDriver()
    (leader,) = driver.stable(1)
    pending = driver.joined(driver.join()).member_id
    rejoin = driver.join(leader)
    assert rejoin not in driver.answers

    assert driver.leave(pending) == [ErrorCode.NONE]

    assert driver.joined(rejoin).generation == 2


# Barriers


def test_join_gives_the_leader_all_members_and_followers_none() -> None:
    """Both name the leader; only the leader gets the members with their metadata for the chosen protocol."""
    driver = GroupDriver()
    first, _ = driver.new_member()
    driver.tick()
    second, follower_ticket = driver.new_member()
    leader_ticket = driver.join(first)

    leader, follower = driver.joined(leader_ticket), driver.joined(follower_ticket)

    assert (leader.leader, follower.leader, leader.generation, follower.generation) == (first, first, 2, 2)
    assert [(each.member_id, each.metadata) for each in leader.members] == [(first, RANGE[1]), (second, RANGE[1])]
    assert follower.members == ()
    assert (leader.protocol_type, leader.protocol_name) == ("consumer", "range")


@pytest.mark.parametrize(
    ("offers", "chosen"),
    [
        pytest.param(("xy", "yx"), "x", id="tie-goes-to-the-first-member"),
        pytest.param(("xy", "yx", "yx"), "y", id="majority"),
        pytest.param(("xy", "y"), "y", id="only-one-in-common"),
    ],
)
def test_join_chooses_the_protocol_by_vote(offers: tuple[str, ...], chosen: str) -> None:
    """Each member votes for the first of its list that all support."""
    driver = GroupDriver(GroupSettings())
    tickets = []
    for offer in offers:
        protocols = tuple((name, name.encode()) for name in offer)
        tickets.append(driver.new_member(protocols=protocols, protocol_type="p")[1])

    driver.advance(60_000)

    assert {driver.joined(ticket).protocol_name for ticket in tickets} == {chosen}
    assert {each.metadata for each in driver.joined(tickets[0]).members} == {chosen.encode()}


@pytest.mark.parametrize(
    ("second_join_ms", "answered_ms"),
    [
        pytest.param(None, 3_000, id="alone"),
        pytest.param(1_000, 6_000, id="a-member-joined-in-the-first-window"),
    ],
)
def test_join_of_an_empty_group_waits_in_windows(second_join_ms: int | None, answered_ms: int) -> None:
    """A window in which a new member joined is followed by another one."""
    driver = GroupDriver(GroupSettings())
    _, ticket = driver.new_member()
    if second_join_ms is not None:
        driver.advance(second_join_ms)
        driver.new_member()
        driver.advance(answered_ms - second_join_ms - 1)
    else:
        driver.advance(answered_ms - 1)
    assert ticket not in driver.answers

    driver.advance(1)

    assert driver.joined(ticket).generation == 1


def test_join_without_a_delay_collects_the_members_of_one_instant() -> None:
    """With an initial delay of 0 members that join before the next tick share the first generation."""
    driver = GroupDriver(GroupSettings(initial_rebalance_delay_ms=0))
    tickets = [driver.new_member()[1] for _ in range(2)]

    driver.advance(1)

    assert [driver.joined(ticket).generation for ticket in tickets] == [1, 1]


def test_join_windows_are_bounded_by_the_rebalance_timeout() -> None:
    """However many members join, the first is answered within the rebalance timeout."""
    driver = GroupDriver(GroupSettings())
    _, ticket = driver.new_member(rebalance_ms=7_000)
    for _ in range(6):
        driver.advance(1_000)
        driver.new_member(rebalance_ms=7_000)
    driver.advance(999)
    assert ticket not in driver.answers

    driver.advance(1)

    assert len(driver.joined(ticket).members) == 7


def test_join_of_a_group_that_became_empty_waits_a_window_again() -> None:
    """Emptying raises the generation, and the delay applies whenever the group was Empty."""
    driver = GroupDriver(GroupSettings())
    member, _ = driver.new_member()
    driver.advance(3_000)
    driver.leave(member)
    assert (driver.inner_state(), driver.generation()) == ("Empty", 2)
    _, ticket = driver.new_member()
    driver.advance(2_999)
    assert ticket not in driver.answers

    driver.advance(1)

    assert driver.joined(ticket).generation == 3


def test_rebalance_removes_members_that_do_not_rejoin_in_the_rebalance_timeout() -> None:
    """The waiting Join is answered at the group's (largest) rebalance timeout; the absentee is unknown then."""
    driver = GroupDriver()
    absent, present = driver.stable(2, rebalance_ms=2_000)
    ticket = driver.join(present, protocols=(RANGE, STICKY), rebalance_ms=1_000)
    assert driver.beat(absent, driver.generation()) is ErrorCode.REBALANCE_IN_PROGRESS
    driver.advance(1_999)
    assert ticket not in driver.answers

    driver.advance(1)

    assert driver.joined(ticket).leader == present
    assert driver.beat(absent, driver.generation()) is ErrorCode.UNKNOWN_MEMBER_ID


def test_rebalance_does_not_hold_the_session_against_a_member_that_waits() -> None:
    """A Join that we hold keeps its member alive far beyond its session timeout."""
    driver = GroupDriver()
    absent, present = driver.stable(2, session_ms=6_000, rebalance_ms=60_000)
    ticket = driver.join(present, protocols=(RANGE, STICKY), session_ms=6_000, rebalance_ms=60_000)
    for _ in range(20):
        driver.advance(2_500)
        assert driver.beat(absent, driver.generation()) is ErrorCode.REBALANCE_IN_PROGRESS
    assert ticket not in driver.answers

    driver.advance(10_000)

    assert driver.joined(ticket).error is ErrorCode.NONE


def test_rebalance_goes_on_without_a_member_whose_session_ends_before_it_rejoins() -> None:
    """A rebalance waits for a member that neither rejoins nor heartbeats no longer than its session."""
    driver = GroupDriver()
    _, present = driver.stable(2, session_ms=6_000, rebalance_ms=60_000)
    ticket = driver.join(present, protocols=(RANGE, STICKY), session_ms=6_000, rebalance_ms=60_000)

    driver.advance(6_000)

    assert [each.member_id for each in driver.joined(ticket).members] == [present]


def test_new_member_that_never_heartbeats_is_given_up_while_its_join_waits() -> None:
    """A defunct client's parked Join ends after five minutes; it may retry."""
    driver = GroupDriver()
    keeper = driver.stable(1, rebalance_ms=3_600_000, session_ms=1_800_000)[0]
    _, ticket = driver.new_member(rebalance_ms=3_600_000)
    driver.advance(299_999)
    assert ticket not in driver.answers

    driver.advance(1)

    assert (driver.joined(ticket).error, driver.joined(ticket).member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert driver.beat(keeper, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_sync_of_a_follower_waits_for_the_leaders() -> None:
    """Entries for strangers are ignored; a member without one gets no bytes."""
    driver = GroupDriver()
    first, _ = driver.new_member()
    driver.tick()
    second, _ = driver.new_member()
    driver.join(first)
    waiting = driver.sync(second, 2)
    assert waiting not in driver.answers

    leading = driver.sync(first, 2, {first: b"all", "stranger": b"x"})

    assert driver.synced(leading).assignment == b"all"
    assert (driver.synced(waiting).assignment, driver.synced(waiting).error) == (b"", ErrorCode.NONE)
    assert (driver.synced(waiting).protocol_type, driver.synced(waiting).protocol_name) == ("consumer", "range")


def test_sync_is_answered_only_when_the_log_has_the_assignment() -> None:
    """No member works on an assignment that the next coordinator might not know."""
    driver = GroupDriver()
    member, _ = driver.new_member()
    driver.tick()
    driver.is_committing = False
    ticket = driver.sync(member, 1, {member: b"a"})
    assert (ticket in driver.answers, driver.state()) == (False, "CompletingRebalance")

    driver.commit_log()

    assert (driver.synced(ticket).assignment, driver.state()) == (b"a", "Stable")


def test_sync_whose_write_fails_sends_everyone_to_rejoin() -> None:
    """The error is translated, the generation is over."""
    driver = GroupDriver()
    member, _ = driver.new_member()
    driver.tick()
    driver.is_committing = False
    ticket = driver.sync(member, 1, {member: b"a"})

    driver.commit_log(ErrorCode.NOT_ENOUGH_REPLICAS)

    assert driver.synced(ticket).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.beat(member, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_sync_whose_write_takes_too_long_is_answered_and_a_late_commit_changes_nothing() -> None:
    """After offsets.commit.timeout.ms the client hears 15; what the log commits later belongs to a generation gone."""
    driver = GroupDriver()
    member, _ = driver.new_member()
    driver.tick()
    driver.is_committing = False
    ticket = driver.sync(member, 1, {member: b"a"})
    driver.advance(5_000)
    assert driver.synced(ticket).error is ErrorCode.COORDINATOR_NOT_AVAILABLE

    driver.commit_log()

    assert driver.inner_state() == "PreparingRebalance"


def test_second_sync_of_a_member_replaces_the_first_which_is_answered() -> None:
    """A client that lost its connection and asks again leaves no request without an answer."""
    driver = GroupDriver()
    first, _ = driver.new_member()
    driver.tick()
    second, _ = driver.new_member()
    driver.join(first)
    old = driver.sync(second, 2)

    new = driver.sync(second, 2)

    assert driver.synced(old).error is ErrorCode.REBALANCE_IN_PROGRESS
    driver.sync(first, 2, {second: b"a"})
    assert driver.synced(new).assignment == b"a"


@pytest.mark.parametrize(
    ("phase", "options", "error"),
    [
        pytest.param("none", {}, ErrorCode.UNKNOWN_MEMBER_ID, id="no-group"),
        pytest.param("stable", {"member": "x"}, ErrorCode.UNKNOWN_MEMBER_ID, id="unknown-member"),
        pytest.param("stable", {"generation": 0}, ErrorCode.ILLEGAL_GENERATION, id="old-generation"),
        pytest.param("stable", {"generation": -1}, ErrorCode.ILLEGAL_GENERATION, id="generation-none"),
        pytest.param("preparing", {}, ErrorCode.REBALANCE_IN_PROGRESS, id="preparing"),
        pytest.param("stable", {"protocol_type": "p"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, id="other-type"),
        pytest.param("stable", {"protocol_name": "p"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, id="other-name"),
        pytest.param("stable", {"protocol_type": "consumer", "protocol_name": "range"}, ErrorCode.NONE, id="same"),
    ],
)
def test_sync_is_refused_by_state_and_identity(phase: str, options: dict[str, Any], error: ErrorCode) -> None:
    """Each refusal has its code, no assignment and null protocol fields; STABLE gives the stored assignment."""
    driver = GroupDriver()
    member = driver.stable(1)[0] if phase != "none" else "m"
    if phase == "preparing":
        driver.new_member()
    given = dict(options)

    reply = driver.synced(
        driver.sync(given.pop("member", member), given.pop("generation", 1), {member: b"ignored"}, **given)
    )

    assert reply.error is error
    if error is ErrorCode.NONE:
        assert reply.assignment == member.encode()
    else:
        assert (reply.assignment, reply.protocol_type, reply.protocol_name) == (b"", None, None)


@pytest.mark.parametrize(
    ("phase", "member", "generation", "error"),
    [
        pytest.param("none", None, 1, ErrorCode.UNKNOWN_MEMBER_ID, id="no-group"),
        pytest.param("stable", "x", 1, ErrorCode.UNKNOWN_MEMBER_ID, id="unknown-member"),
        pytest.param("stable", None, 7, ErrorCode.ILLEGAL_GENERATION, id="wrong-generation"),
        pytest.param("stable", None, -1, ErrorCode.ILLEGAL_GENERATION, id="generation-none"),
        pytest.param("stable", None, 1, ErrorCode.NONE, id="stable"),
        pytest.param("completing", None, 1, ErrorCode.NONE, id="completing"),
        pytest.param("preparing", None, 1, ErrorCode.REBALANCE_IN_PROGRESS, id="preparing-not-yet-back"),
        pytest.param("rejoined", None, 1, ErrorCode.REBALANCE_IN_PROGRESS, id="preparing-and-back"),
        pytest.param("empty", None, 2, ErrorCode.UNKNOWN_MEMBER_ID, id="empty"),
    ],
)
def test_heartbeat_tells_where_the_group_is(phase: str, member: str | None, generation: int, error: ErrorCode) -> None:
    """Unknown 25, other generation 22, PREPARING_REBALANCE 27, else 0."""
    driver = GroupDriver()
    member_id = "m"
    if phase == "completing":
        member_id, _ = driver.new_member()
        driver.tick()
    elif phase != "none":
        member_id = driver.stable(1)[0]
    if phase in ("preparing", "rejoined"):
        driver.new_member()
        driver.join()  # a pending member keeps the rebalance open
    if phase == "rejoined":
        driver.join(member_id)
    if phase == "empty":
        driver.leave(member_id)

    assert driver.beat(member_id if member is None else member, generation) is error


# Rejoining


def test_rejoin_of_the_leader_while_completing_changes_nothing() -> None:
    """Same generation, same members, no rebalance; waiting followers keep waiting."""
    driver = GroupDriver()
    first, _ = driver.new_member()
    driver.tick()
    second, _ = driver.new_member()
    before = driver.joined(driver.join(first))
    waiting = driver.sync(second, 2)

    again = driver.joined(driver.join(first))

    assert again == before
    assert waiting not in driver.answers


def test_leader_that_stays_silent_while_completing_is_put_out_and_followers_rejoin() -> None:
    """The leader's session expires; the followers' Syncs are answered with 27."""
    driver = GroupDriver()
    first, _ = driver.new_member(session_ms=6_000)
    driver.tick()
    second, _ = driver.new_member()
    driver.join(first, session_ms=6_000)
    waiting = driver.sync(second, 2)

    driver.advance(6_000)

    assert driver.synced(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.beat(first, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_rejoin_of_a_follower_in_a_stable_group_is_answered_at_once() -> None:
    """Current generation, no members, and the others notice nothing."""
    driver = GroupDriver()
    leader, follower = driver.stable(2)
    generation = driver.generation()

    reply = driver.joined(driver.join(follower))

    assert (reply.error, reply.generation, reply.leader, reply.members) == (ErrorCode.NONE, generation, leader, ())
    assert driver.beat(leader, generation) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("who", "protocols"),
    [
        pytest.param(0, (RANGE,), id="leader-with-the-same"),
        pytest.param(1, (RANGE, STICKY), id="follower-with-more"),
        pytest.param(1, (("range", subscription("u")),), id="follower-with-another-subscription"),
    ],
)
def test_rejoin_in_a_stable_group_begins_a_rebalance(who: int, protocols: tuple[tuple[str, bytes], ...]) -> None:
    """The leader's always does, a follower's when it offers something else."""
    driver = GroupDriver()
    members = driver.stable(2)
    generation = driver.generation()

    ticket = driver.join(members[who], protocols=protocols)

    assert ticket not in driver.answers
    assert driver.beat(members[1 - who], generation) is ErrorCode.REBALANCE_IN_PROGRESS


def test_member_that_leaves_while_completing_begins_a_rebalance() -> None:
    """The others' heartbeats answer 27."""
    driver = GroupDriver()
    first, _ = driver.new_member()
    driver.tick()
    second, _ = driver.new_member()
    driver.join(first)

    driver.leave(second)

    assert driver.beat(first, 2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_member_that_joined_but_never_syncs_is_put_out_after_the_rebalance_timeout() -> None:
    """Even though its session is longer; the group is Empty then."""
    driver = GroupDriver()
    member, _ = driver.new_member(rebalance_ms=2_000, session_ms=30_000)
    driver.tick()
    driver.advance(1_999)
    assert driver.inner_state() == "CompletingRebalance"

    driver.advance(1)

    assert driver.beat(member, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.inner_state() == "Empty"


def test_member_is_put_out_when_its_session_ends_and_a_heartbeat_prolongs_it() -> None:
    """The session counts from the member's last request."""
    driver = GroupDriver()
    (member,) = driver.stable(1)
    driver.advance(9_000)
    assert driver.beat(member, 1) is ErrorCode.NONE
    driver.advance(9_999)
    assert driver.inner_state() == "Stable"

    driver.advance(1)

    assert driver.inner_state() == "Empty"
    assert driver.generation() == 2


# Leaving


def test_leave_answers_each_member_in_order() -> None:
    """Unknown and repeated members have 25 of their own; an empty list is no error."""
    driver = GroupDriver()
    member, _ = driver.stable(2)

    assert driver.leave() == []
    assert driver.leave(member, "x", member) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert driver.leave("x", group="nope") == [ErrorCode.UNKNOWN_MEMBER_ID]


@pytest.mark.parametrize(
    ("who", "error"),
    [
        pytest.param(("wrong", "i"), ErrorCode.FENCED_INSTANCE_ID, id="wrong-member-id"),
        pytest.param(("", "i"), ErrorCode.NONE, id="by-instance"),
        pytest.param(("", "j"), ErrorCode.UNKNOWN_MEMBER_ID, id="unknown-instance"),
        pytest.param(("", None), ErrorCode.UNKNOWN_MEMBER_ID, id="no-member"),
    ],
)
def test_leave_by_instance(who: tuple[str, str], error: ErrorCode) -> None:
    """An administrator removes a static member by its instance id alone."""
    driver = GroupDriver()
    driver.join(instance="i")
    driver.tick()

    assert driver.leave(who) == [error]


def test_leave_of_a_waiting_member_answers_its_join() -> None:
    """No request is left behind."""
    driver = GroupDriver(GroupSettings())
    member, ticket = driver.new_member()

    driver.leave(member)

    assert driver.joined(ticket).error is ErrorCode.UNKNOWN_MEMBER_ID


# Static members


def test_static_member_joins_in_one_step_under_its_instances_name() -> None:
    """Its id is instanceId-UUID, also at v4+."""
    driver = GroupDriver()

    ticket = driver.join(instance="i")
    driver.tick()

    assert driver.joined(ticket).member_id == "i-uuid1"


@pytest.mark.parametrize("instance", ["", ".", "a b", "x" * 250])
def test_static_member_may_have_any_instance_id(instance: str) -> None:
    """Instance ids are not validated."""
    driver = GroupDriver()

    ticket = driver.join(instance=instance)
    driver.tick()

    assert driver.joined(ticket).error is ErrorCode.NONE


def _stable_static(driver: GroupDriver) -> tuple[str, str]:
    """Bring up a stable group of the instances "i" (leader) and "j"; return the member ids."""
    first = driver.join(instance="i")
    driver.tick()
    leader = driver.joined(first).member_id
    second = driver.join(instance="j")
    driver.join(leader, instance="i")
    follower = driver.joined(second).member_id
    driver.sync(follower, 2, instance="j")
    driver.sync(leader, 2, {leader: b"L", follower: b"F"}, instance="i")
    assert driver.state() == "Stable"
    return leader, follower


@pytest.mark.parametrize(
    ("version", "leader_is", "member_count", "skip"),
    [
        pytest.param(5, "old", 0, False, id="v5"),
        pytest.param(8, "old", 0, False, id="v8"),
        pytest.param(9, "new", 2, True, id="v9"),
    ],
)
def test_static_leader_restarts_without_a_rebalance(
    version: int, leader_is: str, member_count: int, *, skip: bool
) -> None:
    """New id, same generation. Before v9 the reply makes it a follower; from v9 on it skips the assignment."""
    driver = GroupDriver()
    old, follower = _stable_static(driver)

    reply = driver.joined(driver.join(instance="i", version=version))

    assert (reply.error, reply.generation) == (ErrorCode.NONE, 2)
    assert reply.member_id not in ("", old)
    assert reply.leader == (old if leader_is == "old" else reply.member_id)
    assert (len(reply.members), reply.skip_assignment) == (member_count, skip)
    assert driver.beat(follower, 2) is ErrorCode.NONE
    assert driver.beat(old, 2, instance="i") is ErrorCode.FENCED_INSTANCE_ID
    sync = driver.synced(driver.sync(reply.member_id, 2, {reply.member_id: b"ignored"}, instance="i"))
    assert sync.assignment == b"L"


def test_static_follower_restarts_as_a_follower() -> None:
    """Members empty, skip_assignment false, also at v9."""
    driver = GroupDriver()
    leader, _ = _stable_static(driver)

    reply = driver.joined(driver.join(instance="j"))

    assert (reply.leader, reply.members, reply.skip_assignment) == (leader, (), False)


def test_static_restart_is_answered_only_when_stored_and_undone_when_that_fails() -> None:
    """The next coordinator must know the new id; if it cannot, the old one stays good."""
    driver = GroupDriver()
    old, _ = _stable_static(driver)
    driver.is_committing = False
    ticket = driver.join(instance="i")
    assert ticket not in driver.answers

    driver.commit_log(ErrorCode.NOT_ENOUGH_REPLICAS)

    assert driver.joined(ticket).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.beat(old, 2, instance="i") is ErrorCode.NONE


def test_static_restart_with_another_protocol_list_begins_a_rebalance() -> None:
    """When the chosen protocol would change, a new generation is needed."""
    driver = GroupDriver()
    old = driver.join(instance="i", protocols=(RANGE, STICKY))
    driver.tick()
    old_id = driver.joined(old).member_id
    driver.sync(old_id, 1, {}, instance="i")

    reply = driver.joined(driver.join(instance="i", protocols=(STICKY, RANGE)))

    assert (reply.generation, reply.protocol_name) == (2, "sticky")


def test_static_restart_while_completing_begins_a_rebalance() -> None:
    """The leader may be assigning to the old id just now."""
    driver = GroupDriver()
    first = driver.join(instance="i")
    driver.tick()
    leader = driver.joined(first).member_id
    driver.join(instance="j")
    driver.join(leader, instance="i")

    driver.join(instance="j")

    assert driver.beat(leader, 2, instance="i") is ErrorCode.REBALANCE_IN_PROGRESS


def test_static_member_that_does_not_rejoin_stays_until_its_session_ends() -> None:
    """A rebalance does not remove static members: that is their purpose."""
    driver = GroupDriver()
    leader, _ = _stable_static(driver)
    ticket = driver.join(leader, instance="i")
    driver.advance(60_000)
    assert ticket in driver.answers

    assert len(driver.joined(ticket).members) == 1, "its session of 10 s has ended meanwhile"


def test_static_member_down_through_a_short_rebalance_keeps_its_place() -> None:
    """With a session longer than the rebalance, the absent instance is in the next generation."""
    driver = GroupDriver()
    first = driver.join(instance="i", session_ms=60_000, rebalance_ms=2_000)
    driver.tick()
    leader = driver.joined(first).member_id
    driver.join(instance="j", session_ms=60_000, rebalance_ms=2_000)
    driver.join(leader, instance="i", session_ms=60_000, rebalance_ms=2_000)
    driver.sync(leader, 2, {}, instance="i")

    ticket = driver.join(leader, instance="i", session_ms=60_000, rebalance_ms=2_000)
    driver.advance(2_000)

    assert [each.group_instance_id for each in driver.joined(ticket).members] == ["i", "j"]


@pytest.mark.parametrize(
    ("member", "instance", "error"),
    [
        pytest.param("old", "i", ErrorCode.FENCED_INSTANCE_ID, id="old-id"),
        pytest.param("stranger", "i", ErrorCode.FENCED_INSTANCE_ID, id="unknown-id"),
        pytest.param("new", "k", ErrorCode.UNKNOWN_MEMBER_ID, id="unknown-instance"),
        pytest.param("new", None, ErrorCode.NONE, id="right-id-without-instance"),
        pytest.param("new", "i", ErrorCode.NONE, id="right"),
    ],
)
def test_static_member_is_fenced_in_every_request(member: str, instance: str | None, error: ErrorCode) -> None:
    """Join, Sync, Heartbeat and OffsetCommit judge an instance alike."""
    driver = GroupDriver()
    old, _ = _stable_static(driver)
    new = driver.joined(driver.join(instance="i")).member_id
    member_id = {"old": old, "new": new}.get(member, member)

    assert driver.beat(member_id, 2, instance=instance) is error
    assert driver.synced(driver.sync(member_id, 2, instance=instance)).error is error
    assert driver.commit_error(member_id, 2, instance=instance) is error
    join = driver.join(member_id, instance=instance)
    assert driver.answers[join].error is error if error else join not in driver.answers


def test_static_restart_answers_the_requests_of_its_past_life() -> None:
    """A Join that still waits under the old id is fenced."""
    driver = GroupDriver(GroupSettings())
    waiting = driver.join(instance="i")

    driver.join(instance="i")

    assert driver.joined(waiting).error is ErrorCode.FENCED_INSTANCE_ID


# What others see


def test_describe_shows_what_is_settled() -> None:
    """Metadata while Stable only, an old assignment until the next one begins, the type even when Empty."""
    driver = GroupDriver()
    member, _ = driver.new_member()
    driver.tick()
    completing = driver.shard.describe(GROUP)
    assert completing is not None
    assert (completing.state.value, completing.protocol_type, completing.protocol_name) == (
        "CompletingRebalance",
        "consumer",
        "",
    )
    assert [(each.metadata, each.assignment) for each in completing.members] == [(b"", b"")]

    driver.sync(member, 1, {member: b"a"})
    stable = driver.shard.describe(GROUP)
    assert stable is not None
    assert (stable.protocol_name, stable.members[0].metadata, stable.members[0].assignment) == ("range", RANGE[1], b"a")
    assert stable.members[0].client_host == "/127.0.0.1"

    driver.new_member()
    preparing = driver.shard.describe(GROUP)
    assert preparing is not None
    assert (preparing.state.value, preparing.protocol_name) == ("PreparingRebalance", "")
    assert [(each.metadata, each.assignment) for each in preparing.members] == [(b"", b"a"), (b"", b"")]

    driver.leave(*[each.member_id for each in preparing.members])
    empty = driver.shard.describe(GROUP)
    assert empty is not None
    assert (empty.state.value, empty.protocol_type, empty.protocol_name) == ("Empty", "consumer", "")


# Taking over


def test_successor_knows_a_stable_group_from_the_log() -> None:
    """Members, generation, assignment and static instances survive; heartbeats go on."""
    driver = GroupDriver()
    leader, follower = _stable_static(driver)

    successor = driver.successor()

    assert successor.beat(leader, 2, instance="i") is ErrorCode.NONE
    assert successor.synced(successor.sync(follower, 2, instance="j")).assignment == b"F"
    assert successor.joined(successor.join(instance="i")).skip_assignment
    successor.advance(10_000)
    assert successor.beat(follower, 2) is ErrorCode.UNKNOWN_MEMBER_ID, "it gets a fresh session, but only one"


def test_successor_knows_an_empty_group_and_its_generation() -> None:
    """The generation goes on, so that former members can be recognised."""
    driver = GroupDriver()
    driver.leave(*driver.stable(1))

    successor = driver.successor()

    assert (successor.state(), successor.generation()) == ("Empty", 2)


def test_resigning_answers_everything_that_waits() -> None:
    """Joins, Syncs and writes are answered with NOT_COORDINATOR, each once."""
    driver = GroupDriver()
    first, _ = driver.new_member()
    driver.tick()
    second, _ = driver.new_member()
    driver.join(first)
    driver.is_committing = False
    syncs = [driver.sync(second, 2), driver.sync(first, 2, {})]
    join = driver.join(group="other", version=3)
    commit = driver.commit(group="third")

    driver.resign()

    assert {driver.answers[ticket].error for ticket in (*syncs, join)} == {ErrorCode.NOT_COORDINATOR}
    assert set(driver.answers[commit].errors) == {ErrorCode.NOT_COORDINATOR}


def test_group_record_is_what_kafka_stores() -> None:
    """The metadata record names type, generation, protocol, leader and members with their assignment."""
    driver = GroupDriver()
    (member,) = driver.stable(1)

    value = driver.log[-1].value
    assert value is not None
    stored = parse_group_value(value)

    assert (stored.protocol_type, stored.generation, stored.protocol_name, stored.leader) == (
        "consumer",
        1,
        "range",
        member,
    )
    assert [(each.subscription, each.assignment) for each in stored.members] == [(RANGE[1], member.encode())]


def test_join_with_a_name_too_long_to_store_is_refused() -> None:
    """The member id made of it would not fit its length field in the log."""
    driver = GroupDriver()

    assert driver.joined(driver.join(client_id="c" * 32_767)).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.joined(driver.join(instance="i" * 32_731)).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_group_tells_since_when_it_rebalances_whoever_has_asked() -> None:
    """Both phases are one rebalance; a member that joins meanwhile prolongs it, and begins none."""
    driver = GroupDriver()
    (first,) = driver.stable(1)
    described = [_rebalances_since_ms(driver)]
    driver.advance(1_000)
    began_ms = driver.at.wall_ms
    second, _ = driver.new_member()
    driver.advance(500)
    described.append(_rebalances_since_ms(driver))
    driver.join(first)
    driver.advance(500)
    described.append(_rebalances_since_ms(driver))
    assert driver.state() == "CompletingRebalance"
    for member_id in (second, first):
        driver.sync(member_id, driver.generation(), {} if member_id == first else None)
    described.append(_rebalances_since_ms(driver))

    assert described == [None, began_ms, began_ms, None]


def _rebalances_since_ms(driver: GroupDriver) -> int | None:
    found = driver.shard.describe(GROUP)
    assert found is not None
    return found.rebalances_since_ms
