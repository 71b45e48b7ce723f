"""Settings of a log: the storage part of a topic's configuration.

Names are Kafka's (`segment.bytes` is `segment_bytes`), times milliseconds,
sizes bytes, -1 "without limit" where Kafka has it so. `segment.jitter.ms` has
no place here: segments are rolled by record time, so partitions do not roll at
the same instant in the first place.
"""

from dataclasses import dataclass
from typing import Final

UNLIMITED: Final = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """Settings of one log, or of all logs of a topic."""

    segment_bytes: int = 1_073_741_824
    segment_ms: int = 604_800_000
    segment_index_bytes: int = 10_485_760
    index_interval_bytes: int = 4096
    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    file_delete_delay_ms: int = 60_000
    # Records after which a flush is started; Kafka's default is to leave flushing to the operating system.
    flush_messages: int = UNLIMITED
    # Whether `cleanup.policy` has "delete": without it only what lies below the log start goes.
    is_delete_policy: bool = True
