"""Classic groups: joining, syncing, heartbeats, leaving, rebalances. Static members have their own module."""

from typing import Any

from tests.conformance.apis import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP, edges, every
from tests.conformance.group_requests import consumer_subscription, describe_groups, heartbeat, join, leave, sync
from tests.conformance.steps import Action, Pause, Receive, Saved, coordinator, exact, other_than_coordinator, sequence

M1, M2, M3 = Saved("m1"), Saved("m2"), Saved("m3")
GENERATION = Saved("generation")
FIRST = (("range", consumer_subscription("first")),)
SECOND = (("range", consumer_subscription("second")),)
THIRD = (("range", consumer_subscription("third")),)
SAVE_GENERATION = {"generation": "generation_id"}


def enter(version: int, member: str, **more: Any) -> list[Action]:
    """Join as a new member: one step below v4, two from v4."""
    entered = {member: "member_id", **SAVE_GENERATION}
    if version < 4 or "instance" in more:
        return [join(version, save=entered, **more)]
    first = dict(more)
    for option in ("hold", "connection"):
        first.pop(option, None)
    if more.get("hold"):
        entered = {}
    return [
        join(version, save={member: "member_id"}, **first),
        join(version, member=Saved(member), save=entered, **more),
    ]


def stable_alone(version: int = 5, member: str = "m1", **more: Any) -> list[Action]:
    """A stable group of one."""
    more.setdefault("protocols", FIRST)
    return [
        *enter(version, member, **more),
        sync(min(version, 5), member=Saved(member), generation=GENERATION, assignments=[(Saved(member), b"all")]),
    ]


def second_joins(version: int = 5) -> list[Action]:
    """A second member joins a stable group, the first one rejoins: a new generation, not yet synced."""
    return [
        *enter(version, "m2", protocols=SECOND, hold=True, connection="two"),
        heartbeat(3, member=M1, generation=GENERATION, settle={"error_code": 27}),
        join(version, member=M1, protocols=FIRST, save=SAVE_GENERATION, rebalance=10_000),
        Receive(to=coordinator("g"), connection="two", save={"m2": "member_id"}),
    ]


def stable_pair(version: int = 5) -> list[Action]:
    """A stable group of two."""
    return [
        *stable_alone(version),
        *second_joins(version),
        sync(min(version, 5), member=M1, generation=GENERATION, assignments=[(M1, b"one"), (M2, b"two")]),
        sync(min(version, 5), member=M2, generation=GENERATION),
    ]


@sequence(*every(JOIN_GROUP))
def one_member(version: int) -> list[Action]:
    """A member alone: join, sync, heartbeat, leave."""
    return [
        *stable_alone(version),
        heartbeat(min(version, 4), member=M1, generation=GENERATION),
        leave(min(version, 5), members=[M1]),
        heartbeat(min(version, 4), member=M1, generation=GENERATION),
    ]


@sequence(0, 3, 4, 5, 7, 9)
def two_members(version: int) -> list[Action]:
    """A second member starts a rebalance; the leader sees both; assignments reach each."""
    return [
        *stable_pair(version),
        heartbeat(3, member=M1, generation=GENERATION),
        heartbeat(3, member=M2, generation=GENERATION),
        describe_groups(5, "g"),
    ]


@sequence(0, 4, 5, 6, 7, 9)
def refused_joins(version: int) -> list[Action]:
    """Empty group 24, timeouts out of bounds 26, no protocols 23, unknown member 25."""
    return [
        join(version, exact("")),
        join(version, session=5_999),
        join(version, session=1_800_001),
        join(version, session=-1),
        join(version, protocols=()),
        join(version, protocol_type=""),
        join(version, member="nobody"),
        join(version, to=other_than_coordinator("g")),
    ]


@sequence(0, 5, 9)
def refused_by_members(version: int) -> list[Action]:
    """Another protocol type or no common protocol is 23, for newcomers and for members."""
    return [
        *stable_alone(version),
        join(version, protocol_type="connect"),
        join(version, protocols=(("other", consumer_subscription("other")),)),
        join(version, member=M1, protocol_type="connect"),
        heartbeat(3, member=M1, generation=GENERATION),
    ]


@sequence(5)
def protocol_vote(version: int) -> list[Action]:
    """Each member votes for the first of its protocols that all support."""
    return [
        *stable_alone(version, protocols=(("x", consumer_subscription("1x")), ("y", consumer_subscription("1y")))),
        *enter(
            version,
            "m2",
            protocols=(
                ("y", consumer_subscription("2y")),
                ("x", consumer_subscription("2x")),
                ("z", consumer_subscription("2z")),
            ),
            hold=True,
            connection="two",
        ),
        heartbeat(3, member=M1, generation=GENERATION, settle={"error_code": 27}),
        *enter(
            version,
            "m3",
            protocols=(("y", consumer_subscription("3y")), ("x", consumer_subscription("3x"))),
            hold=True,
            connection="three",
        ),
        heartbeat(3, member=M1, generation=GENERATION),
        join(
            version,
            member=M1,
            protocols=(("x", consumer_subscription("1x")), ("y", consumer_subscription("1y"))),
            save=SAVE_GENERATION,
        ),
        Receive(to=coordinator("g"), connection="two"),
        Receive(to=coordinator("g"), connection="three"),
    ]


@sequence(*every(HEARTBEAT))
def heartbeats(version: int) -> list[Action]:
    """Unknown group or member 25, wrong generation 22, empty group name 24, another broker 16."""
    return [
        heartbeat(version, "nope", member="m", generation=1),
        *stable_alone(),
        heartbeat(version, member=M1, generation=GENERATION),
        heartbeat(version, member="nobody", generation=GENERATION),
        heartbeat(version, member=M1, generation=Saved("generation", 1)),
        heartbeat(version, member=M1, generation=-1),
        heartbeat(version, exact(""), member=M1, generation=1),
        heartbeat(version, member=M1, generation=GENERATION, to=other_than_coordinator("g")),
    ]


@sequence(5)
def heartbeats_by_state(version: int) -> list[Action]:
    """Heartbeats while joining (27), while waiting for the leader's assignment (0), when stable (0)."""
    return [
        *enter(version, "m1", protocols=FIRST),
        heartbeat(3, member=M1, generation=GENERATION),
        sync(3, member=M1, generation=GENERATION, assignments=[(M1, b"all")]),
        *second_joins(version),
        heartbeat(3, member=M1, generation=GENERATION),
        heartbeat(3, member=M2, generation=GENERATION),
        heartbeat(3, member=M1, generation=Saved("generation", -1)),
    ]


@sequence(*every(SYNC_GROUP))
def syncs(version: int) -> list[Action]:
    """Refusals of a sync, and the stored assignment for a member that asks again."""
    return [
        sync(version, "nope", member="m", generation=1),
        *enter(5, "m1", protocols=FIRST),
        sync(version, member="nobody", generation=GENERATION),
        sync(version, member=M1, generation=Saved("generation", 1)),
        sync(version, exact(""), member=M1, generation=1),
        sync(version, member=M1, generation=GENERATION, assignments=[(M1, b"mine"), ("nobody", b"lost")]),
        sync(version, member=M1, generation=GENERATION, assignments=[(M1, b"other")]),
        sync(version, member=M1, generation=GENERATION, to=other_than_coordinator("g")),
    ]


@sequence(5)
def sync_protocols(version: int) -> list[Action]:
    """From v5 a sync that names another protocol is 23."""
    return [
        *enter(9, "m1", protocols=FIRST),
        sync(version, member=M1, generation=GENERATION, protocol_type="connect", protocol_name="range"),
        sync(version, member=M1, generation=GENERATION, protocol_type=None, protocol_name=None),
        sync(version, member=M1, generation=GENERATION, protocol_type="consumer", protocol_name=None),
        sync(version, member=exact("nobody"), generation=GENERATION, protocol_type=None, protocol_name="range"),
        sync(version, member=M1, generation=GENERATION, protocol_type="consumer", protocol_name="other"),
        sync(
            version,
            member=M1,
            generation=GENERATION,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[(M1, b"a")],
        ),
        sync(version, member=M1, generation=GENERATION, protocol_type="consumer", protocol_name="other"),
    ]


@sequence(0, 3, 5)
def follower_syncs_first(version: int) -> list[Action]:
    """A follower's sync waits for the leader's; a member without an assignment gets empty bytes."""
    return [
        *stable_alone(),
        *second_joins(),
        sync(version, member=M2, generation=GENERATION, connection="two", hold=True),
        sync(version, member=M1, generation=GENERATION, assignments=[(M1, b"one")]),
        Receive(to=coordinator("g"), connection="two"),
    ]


@sequence(5)
def sync_while_joining(version: int) -> list[Action]:
    """Sync during a rebalance is 27."""
    return [
        *stable_alone(),
        *enter(5, "m2", protocols=SECOND, hold=True, connection="two"),
        heartbeat(3, member=M1, generation=GENERATION, settle={"error_code": 27}),
        sync(version, member=M1, generation=GENERATION),
        sync(version, member=M2, generation=GENERATION),
    ]


@sequence(5, 9)
def follower_rejoins(version: int) -> list[Action]:
    """In a stable group a follower that rejoins unchanged gets its generation; no rebalance begins."""
    return [
        *stable_pair(version),
        join(version, member=M2, protocols=SECOND),
        heartbeat(3, member=M1, generation=GENERATION),
    ]


@sequence(5, 9)
def follower_changes(version: int) -> list[Action]:
    """A follower with other metadata starts a rebalance."""
    return [
        *stable_pair(version),
        join(version, member=M2, protocols=THIRD, hold=True, connection="two"),
        heartbeat(3, member=M1, generation=GENERATION, settle={"error_code": 27}),
        join(version, member=M1, protocols=FIRST, save=SAVE_GENERATION),
        Receive(to=coordinator("g"), connection="two"),
    ]


@sequence(5, 9)
def leader_rejoins(version: int) -> list[Action]:
    """In a stable group a leader that rejoins starts a rebalance."""
    return [
        *stable_pair(version),
        join(version, member=M1, protocols=FIRST, hold=True, connection="one"),
        heartbeat(3, member=M2, generation=GENERATION, settle={"error_code": 27}),
        join(version, member=M2, protocols=SECOND, save=SAVE_GENERATION),
        Receive(to=coordinator("g"), connection="one"),
    ]


@sequence(5)
def leader_rejoins_before_sync(version: int) -> list[Action]:
    """Before the assignment is known a leader that rejoins unchanged gets the same generation again."""
    return [
        *stable_alone(),
        *second_joins(),
        sync(3, member=M2, generation=GENERATION, connection="two", hold=True),
        join(version, member=M1, protocols=FIRST),
        sync(3, member=M1, generation=GENERATION, assignments=[(M1, b"one"), (M2, b"two")]),
        Receive(to=coordinator("g"), connection="two"),
    ]


@sequence(5)
def leaves_while_syncing(version: int) -> list[Action]:
    """Who leaves before the assignment is known sends the others back to join."""
    return [
        *stable_alone(version),
        *second_joins(version),
        leave(4, members=[M2]),
        heartbeat(3, member=M1, generation=GENERATION),
    ]


@sequence(*every(LEAVE_GROUP))
def leaving(version: int) -> list[Action]:
    """Unknown members, unknown groups, leaving twice, the empty group, another broker."""
    return [
        leave(version, "nope", members=["m"]),
        *stable_alone(),
        leave(version, members=["nobody"]),
        leave(version, members=[M1], to=other_than_coordinator("g")),
        leave(version, exact(""), members=["m"]),
        leave(version, members=[M1]),
        leave(version, members=[M1]),
        describe_groups(5, "g"),
    ]


@sequence(3, 5)
def leaving_together(version: int) -> list[Action]:
    """Several members in one request, one of them unknown; and none."""
    return [
        *stable_pair(),
        leave(version, members=[M1, "nobody", M2]),
        leave(version, members=[]),
        describe_groups(5, "g"),
    ]


@sequence(5)
def one_of_two_leaves(version: int) -> list[Action]:
    """The other one has to rejoin, and is alone."""
    return [
        *stable_pair(version),
        leave(4, members=[M1]),
        heartbeat(3, member=M2, generation=GENERATION),
        join(version, member=M2, protocols=SECOND, save=SAVE_GENERATION),
        sync(3, member=M2, generation=GENERATION, assignments=[(M2, b"all")]),
    ]


@sequence(5)
def silent_member(version: int) -> list[Action]:
    """A member that does not rejoin is removed when the rebalance timeout ends."""
    return [
        *stable_alone(version, rebalance=600),
        *enter(version, "m2", protocols=SECOND, rebalance=500, hold=True, connection="two"),
        Receive(to=coordinator("g"), connection="two", waits_ms=600),
        heartbeat(3, member=M1, generation=GENERATION),
        describe_groups(5, "g"),
    ]


@sequence(5)
def member_that_does_not_sync(version: int) -> list[Action]:
    """A member that joined and does not sync is removed after the rebalance timeout."""
    return [
        *enter(version, "m1", protocols=FIRST, rebalance=500),
        heartbeat(3, member=M1, generation=GENERATION),
        heartbeat(3, member=M1, generation=GENERATION, settle={"error_code": 25}),
        describe_groups(5, "g", settle={"groups.0.group_state": "Empty"}),
    ]


@sequence(5)
def expired_session(version: int) -> list[Action]:
    """A member that is silent for its session timeout is removed."""
    return [
        *stable_alone(version, session=6_000),
        heartbeat(3, member=M1, generation=GENERATION),
        describe_groups(5, "g", settle={"groups.0.group_state": "Empty"}),
        heartbeat(3, member=M1, generation=GENERATION),
    ]


@sequence(5)
def generations_count_on(version: int) -> list[Action]:
    """An emptied group goes on with its generation."""
    return [
        *stable_alone(version),
        leave(4, members=[M1]),
        *enter(version, "m2", protocols=SECOND),
        sync(3, member=M2, generation=GENERATION, assignments=[(M2, b"all")]),
    ]


@sequence(4, 9)
def pending_member(version: int) -> list[Action]:
    """A member id that was only handed out makes no group and disturbs none."""
    return [
        join(version, save={"m2": "member_id"}),
        *stable_alone(version),
        join(version, save={"m3": "member_id"}),
        heartbeat(3, member=M1, generation=GENERATION),
        leave(4, members=[M3]),
        describe_groups(5, "g"),
    ]


@sequence(9)
def pending_member_leaves(version: int) -> list[Action]:
    """A pending member that leaves: a lone group stays as it was, a group between two barriers begins anew."""
    return [
        join(version, save={"m2": "member_id"}),
        leave(4, members=[M2]),
        describe_groups(5, "g"),
        *enter(version, "m1", protocols=FIRST),
        join(version, save={"m3": "member_id"}),
        leave(4, members=[M3]),
        describe_groups(5, "g"),
        heartbeat(3, member=M1, generation=GENERATION),
        join(version, member=M1, protocols=FIRST, save=SAVE_GENERATION),
    ]


@sequence(*edges(JOIN_GROUP))
def other_client_id(version: int) -> list[Action]:
    """Member ids begin with the client id."""
    return [join(version, f"g{index}", client_id=each) for index, each in enumerate(("somebody", None, ""))]


@sequence(8, 9)
def reasons(version: int) -> list[Action]:
    """A reason changes nothing."""
    return [join(version, reason="because", save={"m1": "member_id"}), join(version, member=M1, reason="x" * 300)]


@sequence(*edges(JOIN_GROUP))
def refused_for_several_reasons(version: int) -> list[Action]:
    """The session timeout comes first, then an unknown group, the protocols, the member; all but 16 name the member."""
    return [
        join(version, member="nobody", session=0, protocols=()),
        join(version, member="nobody", protocols=()),
        *stable_alone(4),
        join(version, member="nobody", protocol_type="connect"),
        join(version, member="nobody", protocols=()),
        join(version, member="nobody", protocols=FIRST),
        join(version, member="nobody", to=other_than_coordinator("g")),
        join(version, exact(""), member="nobody"),
    ]


@sequence(5)
def leaving_while_its_sync_waits(version: int) -> list[Action]:
    """Kafka never answers that sync; here it is 25."""
    waiting = {"connection": "waiting", "hold": True}
    return [
        *stable_alone(version),
        *second_joins(version),
        sync(version, member=M2, generation=GENERATION, **waiting),
        Pause(100),
        leave(4, members=[M2]),
        Receive(to=coordinator("g"), connection="waiting", answer_ms=1_500),
        heartbeat(3, member=M1, generation=GENERATION),
    ]
