"""Limits on the connections of clients, as configured.

A limit per address has overrides, `host:number` separated by commas. Addresses are compared as numbers, so that
`::ffff:127.0.0.1` is 127.0.0.1; names are resolved when they are configured (`Places`).

Source: KIP-402 (max.connections), KIP-308 (overrides), KIP-612 (creation rate).
"""

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from syncline.model.broker_config import BrokerConfig
from syncline.model.config_types import INT_MAX, address_counts

MS_PER_S: Final = 1_000


class ConnectionLimits(NamedTuple):
    """How many connections there may be, and how fast clients may make them."""

    connections_max: int = INT_MAX
    per_address_max: int = INT_MAX
    # By host, as configured or as resolved.
    overrides: Mapping[str, int] = {}
    created_per_s_max: int = INT_MAX

    def of_address(self, address: str) -> int:
        """Return how many connections one address may have."""
        return self.overrides.get(address, self.per_address_max)

    @property
    def unresolved(self) -> tuple[str, ...]:
        """Return the hosts with overrides that are names."""
        return tuple(host for host in self.overrides if not _is_address(host))


def connection_limits(config: BrokerConfig) -> ConnectionLimits:
    """Return the limits that a configuration sets."""
    return ConnectionLimits(
        connections_max=config.max_connections,
        per_address_max=config.max_connections_per_ip,
        overrides={
            plain_address(host): count for host, count in address_counts(config.max_connections_per_ip_overrides)
        },
        created_per_s_max=config.max_connection_creation_rate,
    )


def plain_address(host: str) -> str:
    """Return an address in one spelling; a name as it is."""
    if ":" not in host:
        return host
    # Costs a millisecond at a start; most addresses have one spelling.
    import ipaddress

    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _is_address(host: str) -> bool:
    import ipaddress

    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class CreationRate:
    """When the next client may have a place: a bucket that holds the connections of one second."""

    __slots__ = ("_at_ms", "_tokens")

    def __init__(self) -> None:
        self._tokens: float = INT_MAX
        self._at_ms = 0

    def wait_ms(self, now_ms: int, created_per_s_max: int) -> int:
        """Return for how long the next connection has to wait; 0 takes its token."""
        elapsed_ms = now_ms - self._at_ms
        assert elapsed_ms >= 0, f"the time went back by {-elapsed_ms} ms"
        self._at_ms = now_ms
        self._tokens = min(created_per_s_max, self._tokens + elapsed_ms * created_per_s_max / MS_PER_S)
        if self._tokens >= 1:
            self._tokens -= 1
            return 0
        if not created_per_s_max:
            # No connection until the configuration changes; it is looked at again every second.
            return MS_PER_S
        return max(1, math.ceil((1 - self._tokens) * MS_PER_S / created_per_s_max))
