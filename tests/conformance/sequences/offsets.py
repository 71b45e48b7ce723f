"""OffsetCommit, OffsetFetch, OffsetDelete."""

from typing import Any

from tests.conformance.apis import OFFSET_COMMIT, OFFSET_FETCH, edges, every
from tests.conformance.group_requests import (
    commit,
    delete_offsets,
    describe_groups,
    fetch_offsets,
    heartbeat,
    join,
    list_groups,
    subscribing,
    sync,
)
from tests.conformance.sequences.groups import FIRST, GENERATION, M1, M2, SECOND, enter, second_joins, stable_alone
from tests.conformance.steps import (
    Action,
    Name,
    Saved,
    Step,
    coordinator,
    exact,
    other_than_coordinator,
    sequence,
    topic,
)


def _offset(offset: int, **fields: Any) -> dict[str, Any]:
    return {"committed_offset": offset, **fields}


@sequence(*every(OFFSET_COMMIT), t=topic((0,), (0,)))
def committing(version: int) -> list[Action]:
    """A commit without a member makes a group; then it is read."""
    return [
        commit(version, "g", {"t": {0: _offset(5, committed_metadata="note", committed_leader_epoch=3), 1: 7}}),
        fetch_offsets(5, "g", {"t": [0, 1]}),
        fetch_offsets(5, "g", None),
    ]


@sequence(*every(OFFSET_FETCH), t=topic((0,), (0,)))
def fetching(version: int) -> list[Action]:
    """Committed, never committed, unknown; all topics from v2; none."""
    asked = fetch_offsets(version, "g", None) if version >= 2 else fetch_offsets(version, "g", {})
    return [
        fetch_offsets(version, "g", {"t": [0], exact("nope"): [0]}),
        commit(6, "g", {"t": {0: _offset(5, committed_metadata="note", committed_leader_epoch=0)}}),
        fetch_offsets(version, "g", {"t": [0, 1, 9], exact("nope"): [0]}),
        asked,
        fetch_offsets(version, "g", {}),
        fetch_offsets(version, "g", {"t": [0]}, to=other_than_coordinator("g")),
        fetch_offsets(version, "never", {"t": [0]}),
    ]


@sequence(2, 9)
def fetching_nothing(version: int) -> list[Action]:
    """A group that never was has nothing."""
    return [fetch_offsets(version, "never", None)]


@sequence(8, 9, t=topic((0,)))
def several_groups(version: int) -> list[Action]:
    """Groups are answered one by one, also twice; no groups, no answers."""
    one = {"group_id": Name("g"), "topics": [{"name": Name("t"), "partition_indexes": [0]}]}
    everything = {"group_id": Name("g"), "topics": None}
    return [
        commit(6, "g", {"t": {0: 5}}),
        Step(key=OFFSET_FETCH, version=version, body={"groups": [one, everything, one]}, to=coordinator("g")),
        Step(key=OFFSET_FETCH, version=version, body={"groups": []}),
    ]


@sequence(7, 8, 9, t=topic((0,)))
def stable_offsets(version: int) -> list[Action]:
    """Without transactions require_stable changes nothing."""
    return [commit(6, "g", {"t": {0: 5}}), fetch_offsets(version, "g", {"t": [0]}, require_stable=True)]


@sequence(9, t=topic((0,)))
def member_epochs(version: int) -> list[Action]:
    """Member ids and epochs of a fetch mean nothing in a classic group."""
    return [
        commit(6, "g", {"t": {0: 5}}),
        fetch_offsets(version, "g", {"t": [0]}, member_id="nobody", member_epoch=7),
    ]


@sequence(2, 5, 9, t=topic((0,)))
def metadata_length(version: int) -> list[Action]:
    """4096 characters are fine, one more is 12 for that partition; null is kept as empty."""
    return [
        commit(version, "g", {"t": {0: _offset(1, committed_metadata="x" * 4096)}}),
        commit(version, "g", {"t": {0: _offset(2, committed_metadata="x" * 4097)}}),
        fetch_offsets(5, "g", {"t": [0]}),
        commit(version, "g", {"t": {0: _offset(3, committed_metadata=None)}}),
        fetch_offsets(5, "g", {"t": [0]}),
    ]


@sequence(*edges(OFFSET_COMMIT), t=topic((0,)))
def unknown_places(version: int) -> list[Action]:
    """Unknown partitions and topics are 3, the rest is stored."""
    return [commit(version, "g", {"t": {0: 1, 9: 2, -1: 3}, exact("nope"): {0: 4}}), fetch_offsets(5, "g", None)]


@sequence(*edges(OFFSET_COMMIT), t=topic((0,)))
def odd_offsets(version: int) -> list[Action]:
    """Offsets are not judged."""
    return [
        step
        for offset in (-1, -5, 0, 10**15)
        for step in (commit(version, "g", {"t": {0: offset}}), fetch_offsets(5, "g", {"t": [0]}))
    ]


@sequence(6, 9, t=topic((0,)))
def duplicates(version: int) -> list[Action]:
    """The last of two entries wins."""
    return [
        commit(version, "g", {"t": [(0, 1), (0, 2)]}),
        fetch_offsets(5, "g", {"t": [0]}),
        commit(version, "g", [("t", {0: 3}), ("t", {0: 4})]),
        fetch_offsets(5, "g", {"t": [0, 0]}),
    ]


@sequence(*edges(OFFSET_COMMIT), t=topic((0,)))
def nothing(version: int) -> list[Action]:
    """Empty topics hide every error."""
    return [
        commit(version, "g", {}),
        commit(version, "g", {}, generation=5, member="nobody"),
        commit(version, "g", {}, to=other_than_coordinator("g")),
    ]


@sequence(2, 7, 8, 9, t=topic((0,)))
def unknown_group(version: int) -> list[Action]:
    """A generation in a group that does not exist: 22, and 69 from v9."""
    return [
        commit(version, "g", {"t": {0: 1}}, generation=0, member="m"),
        commit(version, "g", {"t": {0: 1}}, generation=1),
        commit(version, "g", {"t": {0: 1}}, generation=-1, member="ignored"),
        commit(version, "g", {"t": {0: 1}}, generation=0, member="m"),
        commit(version, "g", {"t": {0: 1}}, to=other_than_coordinator("g")),
    ]


@sequence(2, 6, 8, 9, t=topic((0,)))
def by_members(version: int) -> list[Action]:
    """With members only they may commit, in their generation."""
    return [
        *stable_alone(),
        commit(version, "g", {"t": {0: 1}}, member=M1, generation=GENERATION),
        commit(version, "g", {"t": {0: 2}}),
        commit(version, "g", {"t": {0: 2}}, generation=GENERATION),
        commit(version, "g", {"t": {0: 2}}, member=M1),
        commit(version, "g", {"t": {0: 2}}, member=M1, generation=Saved("generation", 1)),
        commit(version, "g", {"t": {0: 2}}, member=M1, generation=Saved("generation", -1)),
        commit(version, "g", {"t": {0: 2}}, member="nobody", generation=GENERATION),
        fetch_offsets(5, "g", {"t": [0]}),
    ]


@sequence(6, 9, t=topic((0,)))
def before_sync(version: int) -> list[Action]:
    """Before the assignment is known a commit is 27."""
    return [*enter(5, "m1", protocols=FIRST), commit(version, "g", {"t": {0: 1}}, member=M1, generation=GENERATION)]


@sequence(6, 9, t=topic((0,)))
def while_joining(version: int) -> list[Action]:
    """During a rebalance the old generation may still commit."""
    return [
        *stable_alone(),
        *enter(5, "m2", protocols=SECOND, hold=True, connection="two"),
        heartbeat(3, member=M1, generation=GENERATION, settle={"error_code": 27}),
        commit(version, "g", {"t": {0: 1}}, member=M1, generation=GENERATION),
        commit(version, "g", {"t": {0: 2}}, member=M2, generation=GENERATION),
        commit(version, "g", {"t": {0: 3}}, member=M1, generation=Saved("generation", 1)),
        fetch_offsets(5, "g", {"t": [0]}),
    ]


@sequence(6, t=topic((0,)))
def after_rebalance(version: int) -> list[Action]:
    """The generation before is refused."""
    return [
        *stable_alone(),
        *second_joins(),
        sync(3, member=M1, generation=GENERATION, assignments=[(M1, b"one")]),
        commit(version, "g", {"t": {0: 1}}, member=M1, generation=Saved("generation", -1)),
        commit(version, "g", {"t": {0: 1}}, member=M2, generation=GENERATION),
    ]


@sequence(2, 9, t=topic((0,)))
def empty_group_name(version: int) -> list[Action]:
    """The empty name is a group like any other for offsets alone."""
    return [commit(version, exact(""), {"t": {0: 1}}), fetch_offsets(5, exact(""), {"t": [0]})]


@sequence(7, t=topic((0,)))
def unknown_instance(version: int) -> list[Action]:
    """An unknown instance."""
    return [*stable_alone(), commit(version, "g", {"t": {0: 1}}, member=M1, generation=GENERATION, instance="unknown")]


@sequence(t=topic((0,), (0,)), other=topic((0,)))
def deleting(_: int) -> list[Action]:
    """Offsets of a group without members are deleted; unknown places are 3, unknown groups 69."""
    return [
        delete_offsets("nope", {"t": [0]}),
        delete_offsets(exact(""), {"t": [0]}),
        commit(6, "g", {"t": {0: 1, 1: 2}, "other": {0: 3}}),
        delete_offsets("g", {"t": [0, 0, 9], exact("nope"): [0]}),
        fetch_offsets(5, "g", None),
        delete_offsets("g", {"t": [0]}),
        delete_offsets("g", {}),
        delete_offsets("g", {"t": [1]}, to=other_than_coordinator("g")),
    ]


@sequence(t=topic((0,)), other=topic((0,)))
def deleting_in_use(_: int) -> list[Action]:
    """Topics that a member subscribes to are 86, others are deleted."""
    return [
        commit(6, "g", {"t": {0: 1}, "other": {0: 3}}),
        join(5, protocols=subscribing("t"), save={"m1": "member_id"}),
        join(5, member=M1, protocols=subscribing("t"), save={"generation": "generation_id"}),
        sync(3, member=M1, generation=GENERATION, assignments=[(M1, b"")]),
        delete_offsets("g", {"t": [0], "other": [0]}),
        fetch_offsets(5, "g", None),
    ]


@sequence(t=topic((0,)))
def group_of_offsets(_: int) -> list[Action]:
    """What a group of only offsets looks like."""
    return [commit(6, "g", {"t": {0: 1}}), describe_groups(5, "g"), list_groups(5)]


@sequence(*edges(OFFSET_COMMIT), t=topic((0,), (0,)))
def topics_listed_twice(version: int) -> list[Action]:
    """Every row is answered; if a partition is unknown, there is one row for each topic."""
    return [
        commit(version, "g", [("t", {0: 1}), ("t", {1: 2}), ("t", {})]),
        commit(version, "g", [("t", {0: 3}), ("t", {9: 1, 0: 4}), (exact("nope"), {0: 1}), (exact("nope"), {})]),
        commit(version, "g", [("t", {}), (exact("nope"), {})]),
        commit(version, "g", {"t": {}}),
        fetch_offsets(5, "g", {"t": [0, 1]}),
    ]


@sequence(*edges(OFFSET_COMMIT), t=topic((0,)))
def partition_listed_twice(version: int) -> list[Action]:
    """Each entry for itself: one is stored, one has too much metadata."""
    entries = [(0, _offset(1)), (0, _offset(2, committed_metadata="x" * 4097))]
    return [commit(version, "g", {"t": entries}), fetch_offsets(5, "g", {"t": [0]})]


@sequence(t=topic((0,), (0,)))
def deleting_from_topics_listed_twice(_: int) -> list[Action]:
    """Every row is answered; if a partition is unknown, there is one row for each topic."""
    return [
        commit(6, "g", {"t": {0: 1, 1: 2}}),
        delete_offsets("g", [("t", [1]), ("t", [1, 0])]),
        delete_offsets("g", [("t", [1]), ("t", [9, 1]), (exact("nope"), [0]), (exact("nope"), [])]),
        delete_offsets("g", [("t", []), (exact("nope"), [])]),
        delete_offsets("g", {"t": []}),
    ]
