"""Journal events of consumer lag: how far consumers are behind, by what they fetch and by what groups commit.

They are members of `events.KnownEvent`; its rules for readers and writers of any age hold for them, too.

    fetch_lag            topic | interval_ms | fetches, read_bytes | behind_bytes, event_ms, age_ms, distance_bytes:
                         [{up_to, fetches, bytes}] | unknown_age_bytes
    group_lag            group, state, status string | members, interval_ms | partitions, missing
                         lag_records, lag_bytes, staleness_ms, event_lag_ms, lost
                         rows: [{topic, partition, committed, end, lag_bytes, staleness_ms, event_lag_ms, lost}]
    group_status_change  group | status_before, status_after string | evidence {}
                         findings: [{cause, topic, partition, evidence}]

Who writes what:

- every broker that consumers read from: what their fetches of each topic found (`fetch_lag`);
- the coordinator of a group: how far it is behind (`group_lag`), and that its status is another one
  (`group_status_change`; a decision, which is kept longer than samples).

Consumers of the journal count for nothing here: a sample would cause the next one.

Units: bytes of logs; offsets are exclusive ends; ms; `committed` and `end` (the high watermark) were read in this
order, so that no lag is negative. A bucket holds values above the bound of the one before and up to `up_to`; -1 is
the bound of what is above all bounds. An unknown number is -1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from syncline.model.ids import NONE, BrokerId
from syncline.model.immutable import Immutable
from syncline.model.lag import Fact

# One entry of a list in an event, by the names above.
Entry: TypeAlias = Mapping[str, "Fact | Mapping[str, Fact]"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class FetchLagSample(Immutable):
    """What consumers' fetches of one topic found in the interval that ended at `ts_ms`; "" stands for other topics."""

    TYPE: ClassVar[str] = "fetch_lag"

    ts_ms: int
    broker: BrokerId
    topic: str
    interval_ms: int
    fetches: int
    """Partitions of answers that carried records."""
    read_bytes: int
    behind_bytes: tuple[Entry, ...]
    """From the first batch of an answer to the end of its log."""
    event_ms: tuple[Entry, ...]
    """By how much that batch is older than the newest of its log, by the producers' times."""
    age_ms: tuple[Entry, ...] = ()
    """How long ago it was appended."""
    distance_bytes: tuple[Entry, ...] = ()
    """What its broker has written to all logs since."""
    unknown_age_bytes: int = 0
    """The bytes of answers that these two leave out."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class GroupLagSample(Immutable):
    """How far one group is behind: sums over its partitions, the longest waiting time, and its partitions."""

    TYPE: ClassVar[str] = "group_lag"

    ts_ms: int
    broker: BrokerId
    group: str
    state: str
    members: int
    interval_ms: int
    """Since the last sample of this group, or the usual interval."""
    status: str
    partitions: int
    """Those with a commit whose leader has answered: what the sums are over."""
    missing: int
    """Those whose leader has not answered."""
    lag_records: int
    """Offsets up to the high watermark."""
    lag_bytes: int
    staleness_ms: int
    """For how long the next record has waited, where it has waited longest."""
    event_lag_ms: int
    lost: int
    """Offsets that were deleted before the group read them."""
    rows: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class GroupStatusChange(Immutable):
    """The status of a group is another one; `evidence` is about the partition that decides it."""

    TYPE: ClassVar[str] = "group_status_change"

    ts_ms: int
    broker: BrokerId
    group: str
    status_before: str
    """NOTFOUND if this coordinator has not judged the group before."""
    status_after: str
    topic: str = ""
    partition: int = NONE
    evidence: Mapping[str, Fact] = field(default_factory=dict)
    findings: tuple[Entry, ...] = ()
