"""Hints in answers: the current leader, and the addresses of brokers (KIP-951).

The same two structures, in tagged fields, in the answers to Produce (from
version 10) and Fetch (current leader from 12, endpoints from 16).
"""

import struct
from collections.abc import Sequence
from typing import Final, TypeAlias

from syncline.records.buffers import Buffer
from syncline.wire.endpoints import NodeEndpoint
from syncline.wire.primitives import (
    INT32,
    compact_string,
    nullable_compact_string,
    read_compact_count,
    read_compact_string,
    read_nullable_compact_string,
    skip_tags,
    varint,
)

# (leader's broker id, leader epoch); -1 where there is none.
LeaderIdAndEpoch: TypeAlias = tuple[int, int]

_LEADER: Final = struct.Struct(">iiB")
_LEADER_READ: Final = struct.Struct(">ii")


def encode_leader(leader: LeaderIdAndEpoch) -> bytes:
    """Return the payload of the tagged field."""
    return _LEADER.pack(leader[0], leader[1], 0)


def read_leader(buffer: Buffer, position: int) -> LeaderIdAndEpoch:
    """Return (leader id, leader epoch) of the payload at `position`."""
    leader_id, leader_epoch = _LEADER_READ.unpack_from(buffer, position)
    return leader_id, leader_epoch


def encode_endpoints(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """Return the payload of the tagged field."""
    out = bytearray(varint(len(endpoints) + 1))
    for node_id, host, port, rack in endpoints:
        out += INT32.pack(node_id) + compact_string(host) + INT32.pack(port) + nullable_compact_string(rack) + b"\x00"
    return bytes(out)


def read_endpoints(buffer: Buffer, position: int) -> list[NodeEndpoint]:
    """Return the endpoints of the payload at `position`."""
    count, position = read_compact_count(buffer, position, 11)
    endpoints = []
    for _ in range(count):
        (node_id,) = INT32.unpack_from(buffer, position)
        host, position = read_compact_string(buffer, position + 4)
        (port,) = INT32.unpack_from(buffer, position)
        rack, position = read_nullable_compact_string(buffer, position + 4)
        position = skip_tags(buffer, position)
        endpoints.append(NodeEndpoint(node_id, host, port, rack))
    return endpoints
