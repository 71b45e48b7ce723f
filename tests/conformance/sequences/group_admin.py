"""ListGroups, DescribeGroups, DeleteGroups."""

from tests.conformance.apis import DELETE_GROUPS, DESCRIBE_GROUPS, LIST_GROUPS, edges, every
from tests.conformance.group_requests import (
    commit,
    delete_groups,
    describe_groups,
    fetch_offsets,
    heartbeat,
    leave,
    list_groups,
)
from tests.conformance.sequences.groups import (
    GENERATION,
    M1,
    SECOND,
    enter,
    second_joins,
    stable_alone,
    stable_pair,
)
from tests.conformance.steps import Action, exact, other_than_coordinator, sequence, topic


@sequence(*every(LIST_GROUPS), t=topic((0,)))
def listing(version: int) -> list[Action]:
    """A stable group; then an empty one; not at another broker."""
    return [
        list_groups(version),
        *stable_alone(),
        list_groups(version),
        list_groups(version, to=other_than_coordinator("g")),
        leave(4, members=[M1]),
        list_groups(version),
    ]


@sequence(4, 5)
def listing_by_state(version: int) -> list[Action]:
    """States are filtered in any case; unknown ones match nothing."""
    return [
        *stable_alone(),
        *(
            list_groups(version, states=states)
            for states in (["Stable"], ["stable"], ["Empty"], ["nonsense"], ["Empty", "STABLE"])
        ),
    ]


@sequence(5)
def listing_by_type(version: int) -> list[Action]:
    """So are types."""
    return [
        *stable_alone(),
        *(list_groups(version, types=types) for types in (["classic"], ["Classic"], ["consumer"], ["nonsense"])),
    ]


@sequence(*every(DESCRIBE_GROUPS))
def describing(version: int) -> list[Action]:
    """Unknown, stable, rebalancing."""
    return [
        describe_groups(version, "g"),
        *stable_pair(),
        describe_groups(version, "g"),
        *enter(5, "m3", protocols=SECOND, hold=True, connection="three"),
        heartbeat(3, member=M1, generation=GENERATION, settle={"error_code": 27}),
        describe_groups(version, "g"),
    ]


@sequence(0, 5, 6)
def describing_empty(version: int) -> list[Action]:
    """A group that everybody left."""
    return [*stable_alone(), describe_groups(version, "g"), leave(4, members=[M1]), describe_groups(version, "g")]


@sequence(5, 6)
def describing_before_assignment(version: int) -> list[Action]:
    """A group that was stable, and waits for a new assignment."""
    return [*stable_alone(), *second_joins(), describe_groups(version, "g")]


@sequence(*edges(DESCRIBE_GROUPS), 3, 5)
def describing_others(version: int) -> list[Action]:
    """Unknown groups are dead, since v6 an error, too; duplicates, another broker, operations on request."""
    return [
        describe_groups(version, "nope"),
        describe_groups(version, exact("")),
        describe_groups(version, "nope", "nope"),
        describe_groups(version, "g", to=other_than_coordinator("g")),
        describe_groups(version),
        *([describe_groups(version, "nope", authorized=True)] if version >= 3 else []),
    ]


@sequence(3, 5, 6)
def operations(version: int) -> list[Action]:
    """Operations on a live group."""
    return [*stable_alone(), describe_groups(version, "g", authorized=True)]


@sequence(*every(DELETE_GROUPS), t=topic((0,)))
def deleting(version: int) -> list[Action]:
    """In use 68, empty 0, then unknown 69; its offsets are gone."""
    return [
        delete_groups(version, "nope"),
        *stable_alone(),
        delete_groups(version, "g"),
        commit(6, "g", {"t": {0: 1}}, member=M1, generation=GENERATION),
        leave(4, members=[M1]),
        delete_groups(version, "g"),
        delete_groups(version, "g"),
        fetch_offsets(5, "g", None),
        describe_groups(5, "g"),
    ]


@sequence(*edges(DELETE_GROUPS))
def deleting_oddly(version: int) -> list[Action]:
    """Duplicates once, another broker 16, the empty name, none."""
    return [
        delete_groups(version, "nope", "nope"),
        delete_groups(version, "g", to=other_than_coordinator("g")),
        delete_groups(version, exact("")),
        delete_groups(version),
    ]


@sequence(2, t=topic((0,)))
def deleting_offsets_only(version: int) -> list[Action]:
    """A group of only offsets is deleted."""
    return [commit(6, "g", {"t": {0: 1}}), delete_groups(version, "g"), fetch_offsets(5, "g", {"t": [0]})]
