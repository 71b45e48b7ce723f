"""Addresses of brokers inside answers: where a client that asked a broker that does not lead should go (KIP-951)."""

from typing import NamedTuple


class NodeEndpoint(NamedTuple):
    """A broker that an answer mentions, and how to reach it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
