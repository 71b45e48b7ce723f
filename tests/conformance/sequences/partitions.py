"""CreatePartitions."""

from typing import Any

from tests.conformance.apis import CREATE_PARTITIONS, edges, every
from tests.conformance.requests import create_partitions, metadata
from tests.conformance.steps import Action, BrokerNumber, exact, sequence, topic

B0, B1, B2 = BrokerNumber(0), BrokerNumber(1), BrokerNumber(2)


@sequence(*every(CREATE_PARTITIONS), t=topic((0,)))
def adding(version: int) -> list[Action]:
    """From one to three, the new ones placed by the cluster."""
    return [
        create_partitions(version, ("t", 3)),
        metadata(9, ["t"], settle={"topics.0.partitions.2.error_code": 0}),
    ]


@sequence(*edges(CREATE_PARTITIONS), t=topic((0, 1)))
def assigning(version: int) -> list[Action]:
    """With an assignment for the new ones."""
    return [
        create_partitions(version, ("t", 3, [[B1, B2], [B2, B0]])),
        metadata(9, ["t"], settle={"topics.0.partitions.2.error_code": 0}),
    ]


@sequence(*edges(CREATE_PARTITIONS), t=topic((0,), (1,)))
def bad_counts(version: int) -> list[Action]:
    """The same count, fewer, none, negative: 37."""
    return [create_partitions(version, ("t", count)) for count in (2, 1, 0, -1)]


@sequence(*edges(CREATE_PARTITIONS), t=topic((0,)))
def unknown_topics(version: int) -> list[Action]:
    """Unknown topics are 3."""
    return [
        create_partitions(version, ("nope", 2)),
        create_partitions(version, (exact(""), 2)),
        create_partitions(version, (exact("a b"), 2)),
    ]


@sequence(*edges(CREATE_PARTITIONS), t=topic((0,)), u=topic((0,)))
def duplicates(version: int) -> list[Action]:
    """A topic twice is one refusal, others are served."""
    return [
        create_partitions(version, ("t", 2), ("t", 3), ("u", 2)),
        metadata(9, ["u"], settle={"topics.0.partitions.1.error_code": 0}),
    ]


@sequence(*edges(CREATE_PARTITIONS), t=topic((0, 1)))
def bad_assignments(version: int) -> list[Action]:
    """Too few, too many, another factor, a broker twice, an unknown broker, none at all: 39."""
    rows: tuple[Any, ...] = (
        [[B0, B1]],
        [[B0, B1]] * 3,
        [[B0], [B1]],
        [[B0, B0], [B1, B2]],
        [[B0, 99], [B1, B2]],
        [[], []],
    )
    return [*(create_partitions(version, ("t", 3, row)) for row in rows), metadata(9, ["t"])]


@sequence(*edges(CREATE_PARTITIONS), t=topic((0,)))
def validating(version: int) -> list[Action]:
    """validate_only changes nothing."""
    return [
        create_partitions(version, ("t", 3), validate_only=True),
        create_partitions(version, ("t", 1), validate_only=True),
        metadata(9, ["t"]),
    ]


@sequence(*edges(CREATE_PARTITIONS), t=topic((0,)))
def no_time_and_nothing(version: int) -> list[Action]:
    """Without time nothing happens; no topics, no rows."""
    return [create_partitions(version, ("t", 3), timeout=0), create_partitions(version), metadata(9, ["t"])]
