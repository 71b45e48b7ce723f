"""Effects: what a leader's partition orders its shell to do, or reports to it.

One hard idea: deciding and doing are separate. Effects are plain frozen data, so
that the broker, the simulation and a test interpret the same decision, and the
journal can record it with its evidence. Each prints itself in one line that
names the rule of its evidence; golden traces are made of these lines.

Units: offsets are exclusive ends; times in ms of the node's monotonic clock.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from syncline.core.replication.evidence import Evidence
from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE, BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch
from syncline.model.immutable import Immutable

_NO_LEADER_EPOCH: Final = LeaderEpoch(NONE)
_NO_PARTITION_EPOCH: Final = PartitionEpoch(NONE)


class IsrChange(Enum):
    """Why an ISR changes."""

    SHRINK = "shrink"
    EXPAND = "expand"
    METADATA = "metadata"
    # The same members in the order of succession: the leader hands the partition over.
    RELINQUISH = "relinquish"


class RefusalOutcome(Enum):
    """What the leader does with a proposal that the controller refused."""

    REVERTED = "reverted"
    AWAITING_METADATA = "awaiting-metadata"
    RETRIED = "retried"
    IGNORED = "ignored"


class IsrMember(NamedTuple):
    """A member of a proposed ISR, and the incarnation that fetched (-1: unknown)."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch

    def __repr__(self) -> str:
        return f"{self.broker_id}" if self.broker_epoch == NONE else f"{self.broker_id}@{self.broker_epoch}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ProposeIsr:
    """Ask the controller for a new ISR. The object is its own token: hand it back with the answer."""

    isr: tuple[IsrMember, ...]
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    kind: IsrChange
    evidence: Evidence

    @property
    def broker_ids(self) -> tuple[BrokerId, ...]:
        """The proposed members, in order."""
        return tuple(member.broker_id for member in self.isr)

    def __repr__(self) -> str:
        return (
            f"ProposeIsr({self.kind.value} {list(self.isr)} epochs {self.leader_epoch}/{self.partition_epoch}"
            f" by {self.evidence.rule})"
        )


class IsrAnswer(NamedTuple):
    """The controller's answer to one proposal."""

    error: ErrorCode
    leader_epoch: LeaderEpoch = _NO_LEADER_EPOCH
    partition_epoch: PartitionEpoch = _NO_PARTITION_EPOCH
    isr: tuple[BrokerId, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HighWatermarkAdvanced(Immutable):
    """Everything below `high_watermark` is now committed: complete produces, wake consumers."""

    high_watermark: Offset

    def __repr__(self) -> str:
        return f"HighWatermarkAdvanced({self.high_watermark})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IsrCommitted(Immutable):
    """The committed ISR is now `after`; answer waiting produces, count the meter of `kind`."""

    before: tuple[BrokerId, ...]
    after: tuple[BrokerId, ...]
    kind: IsrChange
    partition_epoch: PartitionEpoch
    evidence: Evidence

    def __repr__(self) -> str:
        return (
            f"IsrCommitted({self.kind.value} {list(self.before)} -> {list(self.after)}"
            f" partition epoch {self.partition_epoch} by {self.evidence.rule})"
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IsrRefused(Immutable):
    """The controller did not accept a proposal; counts as a failed ISR update."""

    proposal: ProposeIsr
    error: ErrorCode
    outcome: RefusalOutcome
    evidence: Evidence

    def __repr__(self) -> str:
        return f"IsrRefused({self.proposal.kind.value} {self.error.name}, {self.outcome.value})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WatermarkHeld(Immutable):
    """Records wait above a watermark that has not moved since `since_ms`; reported once per cause."""

    high_watermark: Offset
    log_end: Offset
    since_ms: int
    evidence: Evidence

    def __repr__(self) -> str:
        return f"WatermarkHeld({self.high_watermark} of {self.log_end} since {self.since_ms} by {self.evidence.rule})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WatermarkResumed(Immutable):
    """A watermark that was reported as held has moved on."""

    high_watermark: Offset
    held_ms: int

    def __repr__(self) -> str:
        return f"WatermarkResumed({self.high_watermark} after {self.held_ms} ms)"


class ProtectionPhase(Enum):
    """State of the protection of a member that is in sync only because its leader has not answered it."""

    BEGAN = "began"
    ENDED = "ended"
    CAP_EXCEEDED = "cap-exceeded"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ProtectionChanged(Immutable):
    """A tick begins or ceases to spare a member that the lag rule gives up. `since_ms`: when sparing began."""

    broker_id: BrokerId
    phase: ProtectionPhase
    since_ms: int
    evidence: Evidence

    def __repr__(self) -> str:
        return f"ProtectionChanged({self.broker_id} {self.phase.value} since {self.since_ms})"


class SkipReason(Enum):
    """Why a leader that serves too slowly still keeps the partition."""

    CHANGE_PENDING = "change-pending"
    LEADER_INACTIVE = "leader-inactive"
    NO_CANDIDATE = "no-candidate"
    TENURE = "tenure"
    BACKOFF = "backoff"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RelinquishSkipped(Immutable):
    """A slow leader keeps the partition for `reason`; reported once per request and reason."""

    reason: SkipReason
    evidence: Evidence

    def __repr__(self) -> str:
        return f"RelinquishSkipped({self.reason.value})"


Effect = (
    HighWatermarkAdvanced
    | ProposeIsr
    | IsrCommitted
    | IsrRefused
    | WatermarkHeld
    | WatermarkResumed
    | ProtectionChanged
    | RelinquishSkipped
)
Effects = tuple[Effect, ...]

NOTHING: Final[Effects] = ()
