"""The documented checks: with each safeguard the protocol is clean; without it, what breaks, and after how many steps.

A row that must fail is as important as a clean one: a model in which the known
mistakes cannot happen proves nothing about the protocol.
"""

from typing import Final, NamedTuple

from syncline.check.bounds import Bounds, Property, Rules, Truncation


class Row(NamedTuple):
    """One check and its expected result."""

    name: str
    bounds: Bounds
    rules: Rules
    violated: Property | None
    """The property that breaks; None if everything holds."""
    depth: int
    """The length of the shortest history that breaks it, or the depth of the whole state space."""
    says: str


_ONLY_S6: Final = frozenset({Property.ACCEPTED_FETCH})
_NOT_S6: Final = frozenset(Property) - _ONLY_S6

TABLE: Final = (
    Row(
        "loss",
        Bounds(2, 2, 2, 2),
        Rules(Truncation.HIGH_WATERMARK, transfers=False),
        Property.LEADER_COMPLETENESS,
        10,
        "cutting at the own high watermark loses committed records (E08)",
    ),
    Row(
        "divergence",
        Bounds(2, 2, 2, 2),
        Rules(Truncation.HIGH_WATERMARK, transfers=False, properties=_ONLY_S6),
        Property.ACCEPTED_FETCH,
        14,
        "and lets logs differ at the same offset (E11)",
    ),
    Row(
        "divergence-as-printed",
        Bounds(2, 3, 3, 1),
        Rules(Truncation.HIGH_WATERMARK, transfers=False, leader_crashes_only=True),
        None,
        20,
        "but not if only the leader crashes: the old leader repairs itself",
    ),
    Row(
        "one-round",
        Bounds(2, 3, 3, 2),
        Rules(Truncation.ONE_ROUND, fence=False),
        Property.ACCEPTED_FETCH,
        9,
        "an answer without an epoch fails on two quick elections (KIP-279)",
    ),
    Row(
        "no-fence",
        Bounds(2, 3, 3, 2),
        Rules(Truncation.EPOCH_REQUEST, fence=False, properties=_NOT_S6),
        Property.LOG_MATCHING,
        10,
        "a deposed leader is asked where to cut, and sends records (KIP-320)",
    ),
    Row(
        "epoch-request",
        Bounds(2, 3, 3, 2),
        Rules(Truncation.EPOCH_REQUEST),
        None,
        29,
        "with the fence it is sound",
    ),
    Row("epoch-fetch", Bounds(2, 3, 3, 2), Rules(), None, 27, "what Syncline does by default is sound"),
    Row(
        "no-epoch-start",
        Bounds(3, 1, 3, 0),
        Rules(epoch_start=False),
        Property.LEADER_COMPLETENESS,
        12,
        "a new leader takes in a follower that lacks what its predecessor committed (KAFKA-7128)",
    ),
    Row(
        "no-catch-up",
        Bounds(2, 2, 3, 2),
        Rules(catch_up=False),
        Property.LEADER_COMPLETENESS,
        13,
        "a restarted leader believes its last announcement, and commits alone",
    ),
)

LARGE_TABLE: Final = (
    Row("three-epochs", Bounds(3, 1, 3, 1), Rules(), None, 30, "three replicas, two changes of leader"),
    Row("two-records", Bounds(3, 2, 2, 1), Rules(), None, 28, "three replicas, two records"),
)
