"""What one look of a fetch found in one partition."""

from collections.abc import Sequence
from typing import Final

from syncline.core.fetching.session import SessionPartition
from syncline.core.replication.slow_leader.waits import PendingEntry
from syncline.model.errors import ErrorCode
from syncline.model.ids import LeaderEpoch, Offset
from syncline.node.partition import Partition
from syncline.node.request import Buffer
from syncline.storage.append_times import CopiedTime
from syncline.storage.read_facts import ReadFacts

# More partitions are looked at in steps: each takes some 5 microseconds, and up to 100 if it has records.
PARTITIONS_AT_ONCE: Final = 50
PARTITIONS_PER_STEP: Final = 5


def key_of(entry: SessionPartition) -> tuple[str | bytes, int]:
    """Return (topic name or id, partition): how this package identifies the partitions of a session."""
    key = entry.key
    assert isinstance(key, tuple), f"{key} is no topic with a partition"
    return key


class Row:
    """What one look found in one partition."""

    __slots__ = (
        "append_times",
        "bound",
        "diverging",
        "entry",
        "error",
        "facts",
        "high_watermark",
        "is_counted",
        "is_progress",
        "is_reading",
        "leader_epoch",
        "log_end",
        "log_start",
        "partition",
        "pending",
        "preferred",
        "records",
    )

    def __init__(self, entry: SessionPartition) -> None:
        self.entry = entry
        self.partition: Partition | None = None
        self.error = ErrorCode.NONE
        self.records: Buffer = b""
        # When this leader appended some of the records; only for followers.
        self.append_times: Sequence[CopiedTime] = ()
        # What the read told of how far behind the reader is; None for followers.
        self.facts: ReadFacts | None = None
        self.diverging: tuple[int, int] | None = None
        # The replica to which the reader is redirected.
        self.preferred = -1
        self.high_watermark = Offset(-1)
        self.log_start = Offset(-1)
        self.log_end = Offset(-1)
        # The reader may have records below this offset: the log end for a follower, the high watermark for a consumer.
        self.bound = Offset(-1)
        self.leader_epoch = LeaderEpoch(-1)
        # Whether the request proves a follower's progress, and whether the leader has counted it.
        self.is_progress = False
        self.is_counted = False
        self.is_reading = False
        # The registration of a follower that waits for the disk.
        self.pending: PendingEntry | None = None

    def __repr__(self) -> str:
        state = self.error.name if self.error else "reading" if self.is_reading else f"{len(self.records)} bytes"
        return f"<row {self.entry.key} {self.log_start}..{self.log_end} bound {self.bound}: {state}>"

    def fail(self, error: ErrorCode) -> None:
        """Answer this partition with an error."""
        self.error = error
        self.records = b""
        self.high_watermark = self.log_start = Offset(-1)
        self.is_progress = False
