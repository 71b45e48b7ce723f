"""How to reach the brokers, as every process of a query knows it.

Settings travel to tasks in other processes, so they hold plain values and no connection.

Units: milliseconds, bytes.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from syncline.pipeline.client.security import Security

Address: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How to reach the brokers, how long to try, and how much to fetch at once.

    `patience_ms` is for a cluster that answered before, `bootstrap_timeout_ms` for one that never did. At least
    `retry_count_min` retries are made, whatever the time; `retry_interval_ms` lies between two attempts, a growing
    pause for `None`.
    """

    bootstrap: tuple[Address, ...]
    client_id: str = "syncline-source"
    read_committed: bool = False
    request_timeout_ms: int = 30_000
    patience_ms: int = 120_000
    fetch_bytes_max: int = 8 << 20
    bootstrap_timeout_ms: int = 8_000
    retry_count_min: int = 0
    retry_interval_ms: int | None = None
    security: Security = field(default_factory=Security)

    @property
    def bootstrap_text(self) -> str:
        """Return the bootstrap brokers as the user writes them."""
        return ",".join(f"{host}:{port}" for host, port in self.bootstrap)
