"""ElectLeaders where every leader is the preferred one; elections that change something are in `departed_elections`."""

from tests.conformance.apis import ELECT_LEADERS, every
from tests.conformance.requests import PREFERRED, UNCLEAN, elect_leaders
from tests.conformance.steps import Action, Name, broker, exact, sequence, topic

VERSIONS = every(ELECT_LEADERS)


@sequence(*VERSIONS, t=topic((0, 1), (1, 2)))
def not_needed(version: int) -> list[Action]:
    """Leaders that are the preferred ones stay."""
    return [elect_leaders(version, {"t": [0]}), elect_leaders(version, {"t": [0, 1]})]


@sequence(1, 2, t=topic((0, 1)))
def unclean_not_needed(version: int) -> list[Action]:
    """A partition with a leader has no unclean election."""
    return [elect_leaders(version, {"t": [0]}, UNCLEAN)]


@sequence(*VERSIONS, t=topic((0,)))
def unknown(version: int) -> list[Action]:
    """Unknown topics and partitions are 3, beside others."""
    return [
        elect_leaders(version, {exact("nope"): [0, 1]}),
        elect_leaders(version, {"t": [0, 1, -1, 99]}),
        elect_leaders(version, {exact("nope"): [0], "t": [0]}),
        elect_leaders(version, {exact(""): [0]}),
        elect_leaders(version, {exact("bad name!"): [0]}),
    ]


@sequence(1, 2, t=topic((0,)))
def unknown_unclean(version: int) -> list[Action]:
    """The same for unclean elections."""
    return [elect_leaders(version, {exact("nope"): [0], "t": [0, 7]}, UNCLEAN)]


@sequence(*VERSIONS, t=topic((0,), (1,)))
def duplicates(version: int) -> list[Action]:
    """A partition named twice is answered twice; so is a topic."""
    return [
        elect_leaders(version, {"t": [0, 0, 1]}),
        elect_leaders(version, [(Name("t"), [0]), (Name("t"), [1])]),
        elect_leaders(version, [(Name("t"), [0]), (Name("t"), [0])]),
    ]


@sequence(*VERSIONS, t=topic((0,)))
def nothing(version: int) -> list[Action]:
    """No topics, and a topic without partitions."""
    return [
        elect_leaders(version, {}),
        elect_leaders(version, {"t": []}),
        elect_leaders(version, {exact("nope"): []}),
    ]


@sequence(*VERSIONS, t=topic((0,), (1,)))
def all_partitions(version: int) -> list[Action]:
    """Null asks for all partitions; what needs no election is left out."""
    return [elect_leaders(version, None)]


@sequence(1, 2, t=topic((0,), (1,)))
def all_partitions_unclean(version: int) -> list[Action]:
    """The same for unclean elections."""
    return [elect_leaders(version, None, UNCLEAN)]


@sequence(1, 2, t=topic((0,)))
def unknown_kinds(version: int) -> list[Action]:
    """An unknown kind of election is 42, for the request and each partition."""
    return [
        *(elect_leaders(version, {"t": [0, 5]}, kind) for kind in (2, -1, 127)),
        elect_leaders(version, {}, 9),
        elect_leaders(version, None, 9),
    ]


@sequence(0, t=topic((0,)))
def kind_is_preferred_in_version_0(version: int) -> list[Action]:
    """The first version has no kinds."""
    return [elect_leaders(version, {"t": [0]}, UNCLEAN)]


@sequence(*VERSIONS, t=topic((0,)))
def every_broker(version: int) -> list[Action]:
    """Any broker takes the request."""
    return [elect_leaders(version, {"t": [0]}, to=broker(rank)) for rank in range(3)]


@sequence(0, 2, t=topic((0,)))
def long_timeouts(version: int) -> list[Action]:
    """The time given does not matter to an answer that needs none."""
    return [elect_leaders(version, {"t": [0]}, PREFERRED, timeout=timeout) for timeout in (1_000, 2**31 - 1)]
