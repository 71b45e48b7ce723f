"""Static members (KIP-345): restart, fencing, removal by instance."""

from typing import Any

from tests.conformance.group_requests import commit, describe_groups, heartbeat, join, leave, sync
from tests.conformance.sequences.groups import FIRST, GENERATION, M1, M2, SAVE_GENERATION, SECOND, THIRD
from tests.conformance.steps import Action, Receive, Saved, coordinator, sequence, topic

NEW = Saved("new")


def _alone(version: int) -> list[Action]:
    return [
        join(version, instance="i1", protocols=FIRST, save={"m1": "member_id", **SAVE_GENERATION}),
        sync(min(version, 5), member=M1, generation=GENERATION, instance="i1", assignments=[(M1, b"all")]),
    ]


def _pair(version: int) -> list[Action]:
    return [
        *_alone(version),
        join(version, instance="i2", protocols=SECOND, hold=True, connection="two"),
        heartbeat(3, member=M1, generation=GENERATION, instance="i1", settle={"error_code": 27}),
        join(version, member=M1, instance="i1", protocols=FIRST, save=SAVE_GENERATION),
        Receive(to=coordinator("g"), connection="two", save={"m2": "member_id"}),
        sync(3, member=M1, generation=GENERATION, instance="i1", assignments=[(M1, b"one"), (M2, b"two")]),
        sync(3, member=M2, generation=GENERATION, instance="i2"),
    ]


@sequence(5, 6, 7, 8, 9)
def joining(version: int) -> list[Action]:
    """A static member joins in one step; its id begins with the instance."""
    return [*_alone(version), describe_groups(5, "g")]


@sequence(5, 8, 9)
def leader_restarts(version: int) -> list[Action]:
    """A leader that comes back without its id gets a new one in the same generation."""
    return [
        *_pair(version),
        join(version, instance="i1", protocols=FIRST, save={"new": "member_id", **SAVE_GENERATION}),
        sync(min(version, 5), member=NEW, generation=GENERATION, instance="i1", assignments=[(NEW, b"changed")]),
        heartbeat(3, member=M2, generation=GENERATION, instance="i2"),
        heartbeat(3, member=M1, generation=GENERATION, instance="i1"),
    ]


@sequence(5, 9)
def follower_restarts(version: int) -> list[Action]:
    """A follower that comes back is a follower, without a rebalance."""
    return [
        *_pair(version),
        join(version, instance="i2", protocols=SECOND, save={"new": "member_id"}),
        sync(min(version, 5), member=NEW, generation=GENERATION, instance="i2"),
        heartbeat(3, member=M1, generation=GENERATION, instance="i1"),
    ]


@sequence(5, 9)
def restart_with_other_protocols(version: int) -> list[Action]:
    """With other metadata a restart is a rebalance."""
    return [
        *_alone(version),
        join(version, instance="i1", protocols=THIRD, save={"new": "member_id", **SAVE_GENERATION}),
    ]


@sequence(5, t=topic((0,)))
def fencing(version: int) -> list[Action]:
    """The old id of a restarted instance is 82 everywhere; other mixtures of ids and instances."""
    calls: list[Any] = [
        lambda member, instance: heartbeat(3, member=member, generation=GENERATION, instance=instance),
        lambda member, instance: sync(3, member=member, generation=GENERATION, instance=instance),
        lambda member, instance: commit(7, "g", {"t": {0: 1}}, member=member, generation=GENERATION, instance=instance),
        lambda member, instance: join(version, member=member, instance=instance, protocols=FIRST),
    ]
    return [
        *_alone(version),
        join(version, instance="i1", protocols=FIRST, save={"new": "member_id", **SAVE_GENERATION}),
        *(call(M1, "i1") for call in calls),
        *(call("nobody", "i1") for call in calls),
        *(call(NEW, "unknown") for call in calls),
        heartbeat(3, member=NEW, generation=GENERATION),
        heartbeat(3, member=NEW, generation=GENERATION, instance="i1"),
    ]


@sequence(3, 4, 5)
def leaving_by_instance(version: int) -> list[Action]:
    """By instance alone, with a wrong id (82), by an unknown instance (25), again (25)."""
    return [
        *_pair(5),
        leave(version, members=[("nobody", "i1"), ("", "unknown"), ("", "i2")]),
        leave(version, members=[("", "i2"), (M1, "i1")]),
        describe_groups(5, "g"),
    ]


@sequence(5)
def odd_instances(version: int) -> list[Action]:
    """Names of instances are not looked at."""
    return [join(version, f"g{index}", instance=name) for index, name in enumerate(("", ".", "a b", "x" * 250))]
