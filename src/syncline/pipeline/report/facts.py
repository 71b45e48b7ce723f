"""The content of the report as plain data: without Spark, so that a test can draw a page from its own values.

Instants are Unix milliseconds, durations milliseconds, delays minutes. `None` for an end means "still so when the
journal ended".
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FlightCell:
    """The flights of one carrier that were scheduled to leave in one local hour."""

    carrier: str
    hour: int
    flight_count: int
    departed_count: int
    delay_sum_min: int

    @property
    def mean_delay_min(self) -> float | None:
        """Return how late the departed ones left on average."""
        return self.delay_sum_min / self.departed_count if self.departed_count else None


@dataclass(frozen=True, slots=True)
class IsrInterval:
    """A time in which a replica was in or out of the ISR, under one leader."""

    partition: int
    replica: int
    start_ms: int
    end_ms: int | None
    in_isr: bool
    is_leader: bool
    leader: int | None
    leader_epoch: int
    cause: str
    rule: str | None
    evidence: str | None


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """A change of a partition's leader, also to none."""

    at_ms: int
    partition: int
    before: int
    after: int
    leader_epoch: int
    reason: str
    clean: bool


@dataclass(frozen=True, slots=True)
class LagSample:
    """How far a follower was behind its leader at one moment."""

    at_ms: int
    partition: int
    follower: int
    lag_records: int | None
    lag_ms: int | None
    in_sync: bool


@dataclass(frozen=True, slots=True)
class GroupLagSample:
    """How far a group of consumers was behind in one partition at one moment, by its commits; bytes of the log."""

    at_ms: int
    group: str
    partition: int
    lag_records: int
    lag_bytes: int | None
    staleness_ms: int | None


@dataclass(frozen=True, slots=True)
class FaultMark:
    """A fault that was injected on purpose."""

    kind: str
    target: str
    start_ms: int
    end_ms: int | None
    note: str = ""

    @property
    def label(self) -> str:
        """Return the fault in two words."""
        return f"{self.kind} {self.target.replace('-', ' ')}"

    @property
    def broker(self) -> int | None:
        """Return the broker that was hit, None when the target is something else."""
        name, _, number = self.target.rpartition("-")
        return int(number) if name == "broker" and number.isdigit() else None


@dataclass(frozen=True, slots=True)
class Check:
    """A claim about the data, and whether it holds."""

    claim: str
    holds: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything on the page."""

    topic: str
    bootstrap: str
    made_at_ms: int
    took_ms: int
    record_count: int
    partition_count: int
    first_departure_ms: int
    last_departure_ms: int
    cancelled_count: int
    checks: tuple[Check, ...]
    cells: tuple[FlightCell, ...]
    carrier_names: dict[str, str]
    intervals: tuple[IsrInterval, ...]
    leader_changes: tuple[LeaderChange, ...]
    lag: tuple[LagSample, ...]
    group_lag: tuple[GroupLagSample, ...]
    faults: tuple[FaultMark, ...]
    journal_start_ms: int
    journal_end_ms: int
    journal_event_count: int
    replica_lag_time_max_ms: int | None
