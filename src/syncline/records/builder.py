"""Building batches: for the broker's own topics, for tools, for tests.

Records get consecutive offsets; times are relative to the first record's. The
result is what a leader would store: the caller gives base offset and epoch or
stamps them later, and the CRC covers the rest.

Units: timestamps are milliseconds since the Unix epoch, sizes bytes.
"""

from collections.abc import Sequence
from typing import TypeAlias

from syncline.records.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    MAGIC,
    NO_TIMESTAMP,
    OVERHEAD_BYTES,
    TRANSACTIONAL_BIT,
    BatchHeader,
    reseal,
    write_header,
)
from syncline.records.compression import Codec, compress
from syncline.records.varint import write_signed

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


class BatchBuilder:
    """Collects records for one batch."""

    __slots__ = ("_base_timestamp", "_header", "_max_timestamp", "_records", "count")

    def __init__(
        self,
        *,
        base_offset: int = 0,
        leader_epoch: int = -1,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        is_transactional: bool = False,
        is_control: bool = False,
    ) -> None:
        attributes = (TRANSACTIONAL_BIT if is_transactional else 0) | (CONTROL_BIT if is_control else 0)
        self._header = BatchHeader(
            base_offset,
            0,
            leader_epoch,
            MAGIC,
            0,
            attributes,
            -1,
            NO_TIMESTAMP,
            NO_TIMESTAMP,
            producer_id,
            producer_epoch,
            base_sequence,
            0,
        )
        self._base_timestamp = NO_TIMESTAMP
        self._max_timestamp = NO_TIMESTAMP
        self._records = bytearray()
        self.count = 0

    @property
    def size_bytes(self) -> int:
        """The size of the batch if it were built now, uncompressed."""
        return HEADER_BYTES + len(self._records)

    def append(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers = ()) -> None:
        """Add one record."""
        if self.count == 0:
            self._base_timestamp = timestamp_ms
        self._max_timestamp = max(self._max_timestamp, timestamp_ms)
        body = bytearray(1)
        write_signed(body, timestamp_ms - self._base_timestamp)
        write_signed(body, self.count)
        _write_bytes(body, key)
        _write_bytes(body, value)
        write_signed(body, len(headers))
        for name, content in headers:
            _write_bytes(body, name.encode())
            _write_bytes(body, content)
        write_signed(self._records, len(body))
        self._records += body
        self.count += 1

    def build(self, compression: int = Codec.NONE) -> bytearray:
        """Return the batch; callers may then append more records and build a larger one."""
        assert self.count, "a batch has at least one record"
        records = compress(compression, self._records) if compression else self._records
        header = self._header._replace(
            batch_length=HEADER_BYTES - OVERHEAD_BYTES + len(records),
            attributes=self._header.attributes | compression,
            last_offset_delta=self.count - 1,
            base_timestamp=self._base_timestamp,
            max_timestamp=self._max_timestamp,
            record_count=self.count,
        )
        return assemble(header, records)


def assemble(header: BatchHeader, records: bytes | bytearray | memoryview) -> bytearray:
    """Return a batch of `header` and its (already compressed) `records`, with the right CRC."""
    out = bytearray(HEADER_BYTES)
    write_header(out, 0, header)
    out += records
    reseal(out, 0, len(out))
    return out


def _write_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out.append(1)
        return
    write_signed(out, len(value))
    out += value
