"""How a quota on replication is kept: strictly, or as Kafka keeps it.

`KAFKA` looks only at what was already recorded. While one round of answers is at most some seconds of the quota the
bound is tight; beyond a window's worth it is a multiple of the quota, and there is a floor below which no quota
reaches. `STRICT` holds every quota from 10 kB/s on.
"""

from enum import Enum


class ThrottleMode(Enum):
    """The values of `replication.quota.mode`."""

    STRICT = "strict"
    KAFKA = "kafka"
