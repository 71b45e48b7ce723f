"""FindCoordinator: for groups, in batches, for keys and types that are odd."""

from tests.conformance.apis import FIND_COORDINATOR, every
from tests.conformance.group_requests import find_coordinator
from tests.conformance.steps import Action, broker, exact, sequence


@sequence(*every(FIND_COORDINATOR))
def of_a_group(version: int) -> list[Action]:
    """Every broker names the same coordinator."""
    return [find_coordinator(version, "g", to=broker(rank)) for rank in range(3)]


@sequence(0, 3, 4, 6)
def of_the_empty_group(version: int) -> list[Action]:
    """The empty name is a key like any other."""
    return [find_coordinator(version, exact(""))]


@sequence(4, 6)
def several(version: int) -> list[Action]:
    """One answer per key, in order, duplicates repeated; no keys, no answers."""
    return [find_coordinator(version, "g", "h", "g"), find_coordinator(version)]


@sequence(1, 3, 4, 6)
def unknown_types(version: int) -> list[Action]:
    """Key types that mean nothing are 42."""
    return [find_coordinator(version, "g", key_type=kind) for kind in (3, -1)]


@sequence(1, 4, 5)
def share_type(version: int) -> list[Action]:
    """Share groups need v6."""
    return [find_coordinator(version, "g", key_type=2)]
