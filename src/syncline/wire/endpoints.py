"""Addresses of brokers inside answers: they lead a client from a broker that does not lead to the leader (KIP-951)."""

from typing import NamedTuple


class NodeEndpoint(NamedTuple):
    """A broker that an answer mentions, and its address."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
