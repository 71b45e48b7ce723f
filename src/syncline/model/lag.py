"""Words of consumer lag: where a partition ends, where an offset lies, and how far behind a group is.

There is no single lag. An end may be the high watermark, the last stable offset or the log end; a distance may be in
offsets, in records that can be read, in bytes of the log, or in time. Names say which.

Units: offsets count records and ends are exclusive; `*_ms` of instants are Unix milliseconds at the partition's leader.
A *byte coordinate* counts the bytes of a log since its broker opened it, so a distance in bytes is a difference of two.
It holds for one leader, one life of its process and one leader epoch.
"Unknown" is -1 in what travels between brokers, and None in a row.
"""

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple, TypeAlias

from syncline.model.ids import BrokerId, LeaderEpoch, Offset, TopicPartition

# A number or name that a verdict or a finding rests on.
Fact: TypeAlias = int | float | str | bool | None
# Of coordinates, times and counts that a leader cannot tell.
UNKNOWN: Final = -1


class GroupStatus(IntEnum):
    """Burrow's statuses under Burrow's numbers; of a group never more than ERR, of a partition never ERR."""

    NOTFOUND = 0
    OK = 1
    WARN = 2
    ERR = 3
    STOP = 4
    STALL = 5
    REWIND = 6


class StatusRule(StrEnum):
    """Which rule decided the status of a partition; the values appear in JSON."""

    NO_COMMITS = "no-commits"
    INCOMPLETE = "too-few-commits"
    NO_LAG = "no-lag"
    NOTHING_READABLE = "nothing-readable"
    TOO_EARLY = "too-early"
    STOPPED = "stopped"
    REWOUND = "rewound"
    LAG_WAS_LOW = "lag-was-low"
    STALLED = "stalled"
    LAG_NOT_FALLING = "lag-not-falling"
    LAG_FELL = "lag-fell"


class LagCause(StrEnum):
    """Why a group may be behind, or what it risks; the values appear in JSON and in the journal."""

    LOSES_DATA = "loses-data"
    NO_MEMBERS = "no-members"
    REBALANCING = "rebalancing"
    STOPPED_COMMITTING = "stopped-committing"
    NEVER_COMMITS = "never-commits"
    STUCK_POLL = "stuck-poll"
    HELD_BACK = "held-back"
    WATERMARK_HELD = "watermark-held"
    HOT_PARTITION = "hot-partition"
    PRODUCE_BURST = "produce-burst"


class PartitionEnds(NamedTuple):
    """Where a partition begins and ends, read by its leader in one step: all fields belong together."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    at_ms: int
    log_start: Offset
    high_watermark: Offset
    last_stable: Offset
    log_end: Offset
    first_bytes: int
    """Coordinate of the log start's segment."""
    watermark_bytes: int
    end_bytes: int
    newest_event_ms: int
    """Largest time that a producer has set; -1 without any."""
    written_bytes_per_s: float
    retention_ms: int
    """Negative: no limit."""
    retention_bytes: int
    """Negative: no limit."""
    held_since_ms: int
    """Since when the high watermark has stood still while the log end moved; -1 if it moves."""
    readable_below_watermark: int
    """Records that a consumer can read below the high watermark, from the origin of `OffsetPlace.readable_before`."""

    def check_invariants(self) -> None:
        """Raise `AssertionError` when the ends contradict each other."""
        assert 0 <= self.log_start <= self.high_watermark, f"a log from {self.log_start} to {self.high_watermark}"
        assert self.last_stable <= self.high_watermark <= self.log_end, f"ends out of order: {self}"
        assert self.first_bytes <= self.watermark_bytes <= self.end_bytes, f"coordinates out of order: {self}"


class OffsetPlace(NamedTuple):
    """Where an offset lies in its log: facts that do not change under one leader epoch.

    At the log end there is no record yet: its place is (end, -1, -1), and is not kept.
    """

    offset: Offset
    coordinate_bytes: int
    """Of the batch that holds the offset: a fetch returns it whole."""
    append_ms: int
    event_ms: int
    readable_before: int
    """Records that a consumer can read below the offset, from an origin of the log; -1 unknown."""
    kept_until_ms: int
    """When retention by time may delete its segment; -1 never."""
    segment_end_bytes: int
    """Coordinate of its segment's end, for retention by size."""
    is_estimated: bool
    """Whether `append_ms` rests on the time index, or lies in a gap of the append times."""


class PartitionVerdict(NamedTuple):
    """The status of one partition for one group, and what it rests on."""

    status: GroupStatus
    rule: StatusRule
    complete: float
    """Share of the window that has commits, from 0 to 1."""
    current_lag: int
    evidence: Mapping[str, Fact]


class GroupVerdict(NamedTuple):
    """The status of a group: that of its worst partition, or ERR."""

    status: GroupStatus
    complete: float
    """Share of its partitions whose window is full."""
    total_lag: int
    worst: TopicPartition | None
    """The partition with the largest lag, None without partitions."""


class LagRow(NamedTuple):
    """How far one group is behind in one partition; None where there is no commit, or no answer from the leader."""

    topic: str
    partition: int
    committed: Offset | None
    fetch_offset: Offset | None
    """What a member fetches next, also if it never commits."""
    fetch_lag: int | None
    """Offsets from there to the high watermark."""
    lag_hw: int | None
    lag_lso: int | None
    lag_leo: int | None
    readable: int | None
    """Unread records up to the high watermark that still exist; at most this many if a log has unknown holes."""
    lost: int
    """Offsets that were deleted before the group read them."""
    lag_bytes: int | None
    staleness_ms: int | None
    event_lag_ms: int | None
    catch_up_s: float | None
    """Infinite: never at this speed."""
    retention_margin_s: float | None
    """Infinite: nothing will be deleted; not above 0: at the next clean-up."""
    loses_data: bool
    status: GroupStatus
    rule: StatusRule
    is_estimated: bool
    is_beyond_end: bool
    """Whether the group committed an offset that the log does not have yet."""
    at_ms: int
    skew_ms: int
    """How long the leader's answer took: the row is as of `at_ms`, and at most this much older than the commit."""
    member: str
    client_id: str
    host: str

    @property
    def key(self) -> TopicPartition:
        """The partition of the row."""
        return TopicPartition(self.topic, self.partition)


class Finding(NamedTuple):
    """One reason why a group is behind, or one risk, with the numbers that show it."""

    cause: LagCause
    evidence: Mapping[str, Fact]
    partition: TopicPartition | None = None
    """None: the finding concerns the whole group."""
