"""What a check covers (bounds), and which safeguards of the protocol are on (rules)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

REPLICAS_MAX: Final = 5


class Truncation(StrEnum):
    """How a follower finds the offset from which its log may differ from its leader's."""

    HIGH_WATERMARK = "high-watermark"
    """It cuts at its own high watermark without asking the leader (before KIP-101)."""
    ONE_ROUND = "one-round"
    """It asks once, and the answer is only an offset (KIP-101)."""
    EPOCH_REQUEST = "epoch-request"
    """It asks until both agree on an epoch (KIP-279)."""
    EPOCH_FETCH = "epoch-fetch"
    """Each fetch carries the epoch of the follower's last record (KIP-595)."""


class Property(StrEnum):
    """What must be true; the sentences are in docs/model-check.md."""

    LEADER_COMPLETENESS = "S1"
    COMMITS_STAND = "S2"
    LOG_MATCHING = "S3"
    ACCEPTED_FETCH = "S6"


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far histories go. The first leader epoch counts: two epochs allow one change of leader."""

    replicas: int = 2
    records: int = 2
    epochs: int = 2
    crashes: int = 2
    power_cuts: int = 0


@dataclass(frozen=True, slots=True)
class Rules:
    """The protocol's switches, and what is checked."""

    truncation: Truncation = Truncation.EPOCH_FETCH
    fence: bool = True
    """The leader refuses requests with another epoch than its own (KIP-320)."""
    epoch_start: bool = True
    """A follower must reach the start of the leader's epoch to enter the in-sync set (KAFKA-7128)."""
    catch_up: bool = True
    """A restarted replica ignores all announcements but the newest."""
    transfers: bool = True
    """Leadership may move without a failure."""
    leader_crashes_only: bool = False
    """Only the elected leader crashes."""
    isr_size_min: int = 1
    """With fewer members in sync nothing is committed."""
    properties: frozenset[Property] = frozenset(Property)
