"""Shared parts of the scenarios about truncation: their modes, and configurations that leave nothing to chance."""

from collections.abc import Mapping
from typing import Final

from syncline.core.replication.truncation import TruncationMode

L: Final = 1
F: Final = 2
CONTROLLER: Final = 3

BY_WATERMARK: Final = TruncationMode.HIGH_WATERMARK.value
MODES: Final = {
    TruncationMode.EPOCH_FETCH.value: "each fetch compares the logs (KIP-595)",
    TruncationMode.EPOCH_REQUEST.value: "followers ask for the end of an epoch before their first fetch (KIP-279)",
    BY_WATERMARK: "each follower cuts its log at its own high watermark, as before KIP-101",
}

# No timeout fences or evicts a broker, and a fetch at the end of a log waits for records longer than a story lasts:
# a follower learns of a commit only with the next record.
QUIET: Final[Mapping[str, str]] = {
    "eligible.leader.replicas.enable": "false",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "60000",
    "replica.lag.time.max.ms": "120000",
    "replica.socket.timeout.ms": "120000",
    "replica.fetch.wait.max.ms": "100000",
    "replica.fetch.backoff.ms": "50",
    "replica.high.watermark.checkpoint.interval.ms": "50",
}


def truncation_mode(mode: str) -> Mapping[str, str]:
    """Return the configuration of a truncation mode."""
    return {"log.truncation.mode": mode}
