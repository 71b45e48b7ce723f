"""The records of `__consumer_offsets`, byte for byte Kafka's.

Two kinds of record share the topic, distinguished by the version that opens the
key: 0 and 1 are a committed offset, 2 is a group's metadata. A null value is a
tombstone. Tools that read Kafka's own topic read this one.

Written: OffsetCommitKey v1 with OffsetCommitValue v3 (v1 when the commit asked
for a retention time of its own, since only v1 can say so), GroupMetadataKey v2
with GroupMetadataValue v3. Read: every earlier value version too. A key of an
unknown version belongs to a newer feature and is skipped.

Layout: big-endian; string = int16 length + UTF-8, nullable with length -1;
bytes and arrays with int32 length. Times are Unix milliseconds, NONE = absent.
Source: Kafka's OffsetCommitKey/Value.json, GroupMetadataKey/Value.json.
"""

import struct
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from syncline.model.ids import NONE, Offset
from syncline.model.immutable import Immutable

OFFSET_KEY_VERSION: Final = 1
GROUP_KEY_VERSION: Final = 2
OFFSET_VALUE_VERSION: Final = 3
OFFSET_VALUE_WITH_EXPIRY_VERSION: Final = 1
GROUP_VALUE_VERSION: Final = 3
STRING_BYTES_MAX: Final = 32_767

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")


class GroupRecordError(ValueError):
    """A record with a known key version but invalid bytes: no coordinator wrote it."""


class GroupRecord(NamedTuple):
    """One record as bytes; `value` None is a tombstone."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OffsetKey(Immutable):
    """Names the committed offset of a group in a partition."""

    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GroupKey(Immutable):
    """Names the metadata of a group."""

    group_id: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CommittedOffset(Immutable):
    """A committed offset; `expire_timestamp_ms` NONE means that the broker's retention decides."""

    offset: Offset
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NONE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class StoredMember(Immutable):
    """The stored form of a member: it keeps only the metadata for the chosen protocol."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class StoredGroup(Immutable):
    """A group at the end of a rebalance: the state from which a new coordinator starts."""

    protocol_type: str
    generation: int
    protocol_name: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[StoredMember, ...]


AnyKey: TypeAlias = OffsetKey | GroupKey


def is_storable(text: str) -> bool:
    """Return whether `text` fits a string of these records."""
    # A character is at most three bytes per UTF-16 unit, so short texts need no encoding to be sure.
    return len(text) * 4 <= STRING_BYTES_MAX or len(text.encode()) <= STRING_BYTES_MAX


def offset_record(key: OffsetKey, value: CommittedOffset | None) -> GroupRecord:
    """Return the record of a committed offset, or its tombstone."""
    key_bytes = b"".join(
        (_INT16.pack(OFFSET_KEY_VERSION), _string(key.group_id), _string(key.topic), _INT32.pack(key.partition))
    )
    if value is None:
        return GroupRecord(key_bytes, None)
    if value.expire_timestamp_ms != NONE:
        return GroupRecord(
            key_bytes,
            b"".join(
                (
                    _INT16.pack(OFFSET_VALUE_WITH_EXPIRY_VERSION),
                    _INT64.pack(value.offset),
                    _string(value.metadata),
                    _INT64.pack(value.commit_timestamp_ms),
                    _INT64.pack(value.expire_timestamp_ms),
                )
            ),
        )
    return GroupRecord(
        key_bytes,
        b"".join(
            (
                _INT16.pack(OFFSET_VALUE_VERSION),
                _INT64.pack(value.offset),
                _INT32.pack(value.leader_epoch),
                _string(value.metadata),
                _INT64.pack(value.commit_timestamp_ms),
            )
        ),
    )


def group_record(key: GroupKey, value: StoredGroup | None) -> GroupRecord:
    """Return the record of a group's metadata, or its tombstone."""
    key_bytes = _INT16.pack(GROUP_KEY_VERSION) + _string(key.group_id)
    if value is None:
        return GroupRecord(key_bytes, None)
    parts = [
        _INT16.pack(GROUP_VALUE_VERSION),
        _string(value.protocol_type),
        _INT32.pack(value.generation),
        _nullable_string(value.protocol_name),
        _nullable_string(value.leader),
        _INT64.pack(value.state_timestamp_ms),
        _INT32.pack(len(value.members)),
    ]
    for member in value.members:
        parts += (
            _string(member.member_id),
            _nullable_string(member.group_instance_id),
            _string(member.client_id),
            _string(member.client_host),
            _INT32.pack(member.rebalance_timeout_ms),
            _INT32.pack(member.session_timeout_ms),
            _bytes(member.subscription),
            _bytes(member.assignment),
        )
    return GroupRecord(key_bytes, b"".join(parts))


def parse_key(data: bytes) -> AnyKey | None:
    """Return what a key names; None when its version belongs to an unknown feature."""
    reader = _Reader(data)
    version = reader.int16()
    if version in (0, OFFSET_KEY_VERSION):
        return OffsetKey(reader.string(), reader.string(), reader.int32())
    if version == GROUP_KEY_VERSION:
        return GroupKey(reader.string())
    return None


def parse_offset_value(data: bytes) -> CommittedOffset:
    """Return a committed offset, of any value version."""
    reader = _Reader(data)
    version = reader.int16()
    if not 0 <= version <= OFFSET_VALUE_VERSION:
        raise GroupRecordError(f"offset commit value has version {version}, known are 0-{OFFSET_VALUE_VERSION}")
    offset = Offset(reader.int64())
    leader_epoch = reader.int32() if version >= OFFSET_VALUE_VERSION else NONE
    metadata = reader.string()
    commit_timestamp_ms = reader.int64()
    expire_timestamp_ms = reader.int64() if version == OFFSET_VALUE_WITH_EXPIRY_VERSION else NONE
    return CommittedOffset(offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms)


def parse_group_value(data: bytes) -> StoredGroup:
    """Return a group's metadata, of any value version."""
    reader = _Reader(data)
    version = reader.int16()
    if not 0 <= version <= GROUP_VALUE_VERSION:
        raise GroupRecordError(f"group metadata value has version {version}, known are 0-{GROUP_VALUE_VERSION}")
    protocol_type = reader.string()
    generation = reader.int32()
    protocol_name = reader.nullable_string()
    leader = reader.nullable_string()
    state_timestamp_ms = reader.int64() if version >= 2 else NONE
    members = tuple(_parse_member(reader, version) for _ in range(reader.int32()))
    return StoredGroup(
        protocol_type=protocol_type,
        generation=generation,
        protocol_name=protocol_name,
        leader=leader,
        state_timestamp_ms=state_timestamp_ms,
        members=members,
    )


def _parse_member(reader: "_Reader", version: int) -> StoredMember:
    member_id = reader.string()
    group_instance_id = reader.nullable_string() if version >= 3 else None
    client_id = reader.string()
    client_host = reader.string()
    rebalance_timeout_ms = reader.int32() if version >= 1 else NONE
    session_timeout_ms = reader.int32()
    return StoredMember(
        member_id=member_id,
        group_instance_id=group_instance_id,
        client_id=client_id,
        client_host=client_host,
        # Version 0 knew one timeout only, and used it for both.
        rebalance_timeout_ms=session_timeout_ms if rebalance_timeout_ms == NONE else rebalance_timeout_ms,
        session_timeout_ms=session_timeout_ms,
        subscription=reader.blob(),
        assignment=reader.blob(),
    )


def subscribed_topics(metadata: bytes) -> tuple[str, ...] | None:
    """Return the topics of a consumer-protocol subscription; None when it cannot be read.

    Version 0 is the prefix of all later versions, so only it is parsed.
    """
    try:
        reader = _Reader(metadata)
        if reader.int16() < 0:
            return None
        return tuple(reader.string() for _ in range(reader.int32()))
    except GroupRecordError:
        return None


def assigned_partitions(assignment: bytes) -> tuple[tuple[str, int], ...]:
    """Return the partitions of a consumer-protocol assignment; none when it cannot be read.

    Version 0 is the prefix of all later versions, so only it is parsed.
    """
    try:
        reader = _Reader(assignment)
        if reader.int16() < 0:
            return ()
        return tuple(
            (topic, reader.int32())
            for topic in (reader.string() for _ in range(reader.int32()))
            for _ in range(reader.int32())
        )
    except GroupRecordError:
        return ()


def _string(text: str) -> bytes:
    data = text.encode()
    assert len(data) <= STRING_BYTES_MAX, f"{len(data)} bytes in a string that holds {STRING_BYTES_MAX}: {text[:40]}..."
    return _INT16.pack(len(data)) + data


def _nullable_string(text: str | None) -> bytes:
    return _INT16.pack(NONE) if text is None else _string(text)


def _bytes(data: bytes) -> bytes:
    return _INT32.pack(len(data)) + data


class _Reader:
    """Reads the layout above; raises `GroupRecordError` instead of reading past the end."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def _take(self, size_bytes: int) -> bytes:
        end = self._position + size_bytes
        if size_bytes < 0 or end > len(self._data):
            raise GroupRecordError(f"{size_bytes} bytes wanted at {self._position} of {len(self._data)}")
        taken = self._data[self._position : end]
        self._position = end
        return taken

    def int16(self) -> int:
        return int.from_bytes(self._take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self._take(8), "big", signed=True)

    def nullable_string(self) -> str | None:
        size_bytes = self.int16()
        if size_bytes == NONE:
            return None
        try:
            return self._take(size_bytes).decode()
        except UnicodeDecodeError as error:
            raise GroupRecordError(f"a string is not UTF-8: {error}") from error

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise GroupRecordError("a string is null that must not be")
        return text

    def blob(self) -> bytes:
        return self._take(self.int32())
