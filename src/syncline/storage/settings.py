"""Settings of a log: the storage part of a topic's configuration.

Names are Kafka's (`segment.bytes` is `segment_bytes`), times are milliseconds,
sizes bytes, and -1 means "without limit" where it does in Kafka.
`segment.jitter.ms` is not needed: segments roll by record time, so partitions
do not roll at the same instant anyway.
"""

from dataclasses import dataclass
from typing import Final

from syncline.model.immutable import Immutable

UNLIMITED: Final = 2**63 - 1


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LogSettings(Immutable):
    """Settings of one log, or of all logs of a topic."""

    segment_bytes: int = 1_073_741_824
    segment_ms: int = 604_800_000
    segment_index_bytes: int = 10_485_760
    index_interval_bytes: int = 4096
    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    file_delete_delay_ms: int = 60_000
    # Start a flush after this many records; by default, as in Kafka, the operating system decides.
    flush_messages: int = UNLIMITED
    # Whether `cleanup.policy` has "delete"; without it, retention removes only what lies below the log start.
    is_delete_policy: bool = True
