"""What a leader checks before it appends a client's batch to its log.

One hard idea: the order of the checks decides which error a client gets if
several apply, and it is Kafka's order. `admit` checks the form (one batch, a
known magic, a codec that the request's version may use), before the broker
checks whether it leads the partition; `prepare` follows and checks the content:
size and CRC, counts, producer fields, timestamps, keys. A batch that passes may
be stamped and appended as it lies in the buffer.

A compressed batch stays closed, with two exceptions: a compacted topic (every record
needs a key), and header timestamps that contradict each other or are outside the
limits (the answer names the records). So a wrong but plausible maximum timestamp
is stored as sent, and so is a compressed body that cannot be read; Kafka, which
opens every compressed batch, corrects the first and refuses the second. Of an
uncompressed batch `body_check` compares the records with the header, and bounds
their timestamps; only if limits lie within these bounds are all of them read.

Units: sizes are bytes, times milliseconds since the Unix epoch.
Source: KIP-467 (record errors), KIP-937 (timestamp limits), Kafka 4.3 as observed.
"""

import struct
from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from syncline.model.errors import ErrorCode, RequestError
from syncline.records.batch import (
    APPEND_TIME_BIT,
    COMPRESSION_BITS,
    CONTROL_BIT,
    HEADER_BYTES,
    LENGTH_MIN,
    MAGIC,
    NO_TIMESTAMP,
    OVERHEAD_BYTES,
    BatchHeader,
    crc_matches,
    rewrite,
    stamp_append_time,
)
from syncline.records.body_check import BodyCheck, Verdict, check_body
from syncline.records.buffers import Buffer, WritableBuffer
from syncline.records.compression import Codec
from syncline.records.errors import DecodeError
from syncline.records.record import keyless, timestamps

ZSTD_SINCE: Final = 7
# The smallest record of any message format; nothing with a smaller size is a batch.
_CLAIM_BYTES_MIN: Final = 14
# Up to and including the magic, which has the same position in all formats.
_BYTES_UP_TO_MAGIC: Final = 17
_LENGTH: Final = struct.Struct(">i")
TIMESTAMP_MAX: Final = (1 << 63) - 1
# A small compressed batch may contain millions of records, and reading each takes microseconds; no client reads an
# answer with so many errors.
OPENED_RECORDS_MAX: Final = 500_000
# Reading so many takes a millisecond or two, and decompressing may take any time.
OPENED_AT_ONCE_MAX: Final = 500
RECORD_ERRORS_MAX: Final = 1_000
# Looking up an enumeration member costs as much as a call.
_CODEC_MAX: Final = int(Codec.ZSTD)
_OK: Final = Verdict.OK

RecordErrors = Sequence[tuple[int, str | None]]


class Fault(Enum):
    """What is wrong with a refused batch; metrics count these kinds."""

    MAGIC = "magic"
    CHECKSUM = "checksum"
    OFFSETS = "offsets or sequence"
    KEYLESS = "no key"
    OTHER = "other"


class InvalidBatch(RequestError):
    """A batch is refused.

    `record_errors` names the bad records, as (index in the batch, what is wrong). `fills_log_start` says that the
    answer carries the partition's log start, as Kafka's answer does if the content of the batch is refused.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        record_errors: RecordErrors = (),
        *,
        fills_log_start: bool = False,
        fault: Fault = Fault.OTHER,
    ) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors
        self.fills_log_start = fills_log_start
        self.fault = fault


class NeedsOpening(Exception):
    """A batch must be opened, which takes too long for a caller with other things to do; nothing is changed yet."""


class TopicRules(NamedTuple):
    """What a topic requires of its batches."""

    topic_partition: str
    message_bytes_max: int
    segment_bytes_max: int
    append_time: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    compacted: bool


def admit(buffer: Buffer, start: int, end: int, produce_version: int) -> BatchHeader:
    """Return the header of the one batch in `buffer[start:end]`. Raises InvalidBatch."""
    if end - start >= HEADER_BYTES and produce_version >= ZSTD_SINCE:
        header = BatchHeader.parse(buffer, start)
        if header.magic == MAGIC and header.batch_length == end - start - OVERHEAD_BYTES:
            return header
    return _admit_unusual(buffer, start, end, produce_version)


def _admit_unusual(buffer: Buffer, start: int, end: int, produce_version: int) -> BatchHeader:
    """Return the header of the one batch in any other buffer, or refuse it with the reason."""
    size = _claimed_size(buffer, start, end)
    if size is None:
        raise InvalidBatch(
            ErrorCode.INVALID_RECORD,
            f"Produce requests with version {produce_version} must have at least one record batch per partition.",
        )
    magic = buffer[start + 16]
    if magic != MAGIC:
        raise InvalidBatch(
            ErrorCode.INVALID_RECORD,
            f"Produce requests with version {produce_version} need records in format {MAGIC}, not {magic}.",
            fault=Fault.MAGIC,
        )
    if size < HEADER_BYTES:
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"A record batch cannot have {size} bytes.")
    header = BatchHeader.parse(buffer, start)
    if header.compression > Codec.ZSTD and produce_version < ZSTD_SINCE:
        raise InvalidBatch(ErrorCode.UNKNOWN_SERVER_ERROR, _unknown_codec(header))
    if header.compression == Codec.ZSTD and produce_version < ZSTD_SINCE:
        raise InvalidBatch(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce requests with version {produce_version} cannot use ZStandard; version {ZSTD_SINCE} can.",
        )
    # Bytes after the batch are dropped if they cannot be another one.
    if end - start > size and _claimed_size(buffer, start + size, end) is not None:
        raise InvalidBatch(
            ErrorCode.INVALID_RECORD,
            f"Produce requests with version {produce_version} must have exactly one record batch per partition.",
        )
    return header


def _claimed_size(buffer: Buffer, start: int, end: int) -> int | None:
    """Return the size of the batch at `start`, None if there is no whole one; refuse bytes that cannot be a batch."""
    available = end - start
    if available < OVERHEAD_BYTES:
        return None
    (length,) = _LENGTH.unpack_from(buffer, start + 8)
    if length < _CLAIM_BYTES_MIN:
        raise InvalidBatch(
            ErrorCode.CORRUPT_MESSAGE,
            f"Record size {length} is less than the minimum record overhead ({_CLAIM_BYTES_MIN}).",
        )
    if available < _BYTES_UP_TO_MAGIC:
        return None
    if buffer[start + 16] > MAGIC:
        raise InvalidBatch(
            ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {buffer[start + 16]}.", fault=Fault.MAGIC
        )
    size = int(length) + OVERHEAD_BYTES
    return size if size <= available else None


def prepare(
    buffer: WritableBuffer, position: int, header: BatchHeader, rules: TopicRules, now_ms: int, *, is_busy: bool = False
) -> BatchHeader:
    """Check an admitted batch, apply the topic's rules to it where it lies, and return its header after that.

    Raises InvalidBatch; and NeedsOpening if the caller `is_busy` and the records of the batch must be read, which may
    take seconds. The caller then has a worker do the same.
    """
    if header.base_offset != 0:
        raise _refused(
            ErrorCode.INVALID_RECORD,
            f"The batch's base offset is {header.base_offset}, it must be 0.",
            fault=Fault.OFFSETS,
        )
    if header.batch_length + OVERHEAD_BYTES > rules.message_bytes_max:
        raise _too_large(header, rules)
    if header.batch_length < LENGTH_MIN or not crc_matches(buffer, position, header):
        raise InvalidBatch(
            ErrorCode.CORRUPT_MESSAGE,
            f"Record is corrupt (its checksum does not match, {rules.topic_partition}).",
            fault=Fault.CHECKSUM,
        )
    _check_fields(header)
    body = _check_body(buffer, position, header, is_busy=is_busy)
    if rules.compacted:
        _check_openable(header, is_busy=is_busy)
        _check_keys(buffer, position, header, rules)
    if rules.append_time:
        if header.is_append_time:
            raise _append_time_refused(header)
        header = stamp_append_time(buffer, position, header, now_ms)
    else:
        header = _with_create_time(buffer, position, header, body, rules, now_ms, is_busy=is_busy)
    if header.batch_length + OVERHEAD_BYTES > rules.segment_bytes_max:
        raise InvalidBatch(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"Message batch size is {header.size_bytes} bytes in append to partition {rules.topic_partition}, which "
            f"exceeds the maximum configured segment size of {rules.segment_bytes_max}.",
        )
    return header


def _refused(
    code: ErrorCode, message: str, record_errors: RecordErrors = (), fault: Fault = Fault.OTHER
) -> InvalidBatch:
    return InvalidBatch(code, message, record_errors, fills_log_start=True, fault=fault)


def _too_large(header: BatchHeader, rules: TopicRules) -> InvalidBatch:
    return InvalidBatch(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"The record batch size in the append to {rules.topic_partition} is {header.size_bytes} bytes which exceeds "
        f"the maximum configured value of {rules.message_bytes_max}.",
    )


def _check_fields(header: BatchHeader) -> None:
    """Refuse a header whose fields contradict each other, or say what clients may not write."""
    count, attributes = header.record_count, header.attributes
    if (
        0 < count == header.last_offset_delta + 1
        and not attributes & CONTROL_BIT
        and attributes & COMPRESSION_BITS <= _CODEC_MAX
        and (header.producer_id < 0 or header.base_sequence >= 0)
    ):
        return
    if header.last_offset_delta < 0:
        raise _refused(
            ErrorCode.INVALID_RECORD,
            f"Batch has an invalid offset range: [{header.base_offset}, {header.last_offset}].",
            fault=Fault.OFFSETS,
        )
    if count <= 0:
        raise _refused(
            ErrorCode.INVALID_RECORD, f"Invalid reported count for record batch: {count}.", fault=Fault.OFFSETS
        )
    if count != header.last_offset_delta + 1:
        raise _refused(
            ErrorCode.INVALID_RECORD,
            f"Inconsistent batch offset range [{header.base_offset}, {header.last_offset}] and count of records "
            f"{count}.",
            fault=Fault.OFFSETS,
        )
    if header.is_control:
        raise _refused(ErrorCode.INVALID_RECORD, "Clients are not allowed to write control records.")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise _refused(
            ErrorCode.INVALID_RECORD,
            f"Invalid sequence number {header.base_sequence} in record batch with producerId {header.producer_id}.",
            fault=Fault.OFFSETS,
        )
    if header.compression > Codec.ZSTD:
        raise _refused(ErrorCode.UNKNOWN_SERVER_ERROR, _unknown_codec(header))


def _unknown_codec(header: BatchHeader) -> str:
    return f"Unknown compression type id: {header.compression}."


def _append_time_refused(header: BatchHeader) -> InvalidBatch:
    text = "Invalid timestamp type in message. Producer should not set timestamp type to LogAppendTime."
    return _timestamps_refused([(index, text) for index in range(min(header.record_count, RECORD_ERRORS_MAX))])


def _timestamps_refused(record_errors: RecordErrors) -> InvalidBatch:
    return _refused(
        ErrorCode.INVALID_TIMESTAMP,
        "One or more records have been rejected due to invalid timestamp",
        record_errors,
    )


def _check_body(buffer: Buffer, position: int, header: BatchHeader, *, is_busy: bool) -> BodyCheck:
    """Return what is known of the records; refuse them if they contradict the header."""
    body = check_body(buffer, position, header)
    if body.verdict is _OK:
        return body
    if body.verdict is Verdict.NEEDS_WALK:
        _check_openable(header, is_busy=is_busy)
        body = check_body(buffer, position, header, lengths_max=None)
    if body.verdict is Verdict.BAD:
        raise _refused(ErrorCode.INVALID_RECORD, f"The records of the batch contradict its header: {body.reason}.")
    return body


def _with_create_time(
    buffer: WritableBuffer,
    position: int,
    header: BatchHeader,
    body: BodyCheck,
    rules: TopicRules,
    now_ms: int,
    *,
    is_busy: bool,
) -> BatchHeader:
    """Return the header, corrected if it contradicts the records; refuse timestamps outside the limits."""
    base_ms, max_ms = header.base_timestamp, header.max_timestamp
    # Without limits, the field itself is one: deltas may exceed it.
    oldest_ms = max(now_ms - rules.timestamp_before_max_ms, -TIMESTAMP_MAX - 1)
    newest_ms = min(now_ms + rules.timestamp_after_max_ms, TIMESTAMP_MAX)
    if header.attributes & APPEND_TIME_BIT:
        _check_time_of_all(header, oldest_ms=oldest_ms, newest_ms=newest_ms)
        # On this topic the bit means nothing, and readers would take it seriously.
        attributes = header.attributes & ~APPEND_TIME_BIT
        return rewrite(buffer, position, header, attributes=attributes, max_timestamp=max(max_ms, NO_TIMESTAMP))
    plausible = NO_TIMESTAMP <= max_ms >= base_ms and max_ms <= newest_ms
    plausible = plausible and (base_ms >= oldest_ms or base_ms == NO_TIMESTAMP)
    if plausible and body.delta_max_ms is not None:
        plausible = base_ms - body.delta_max_ms >= oldest_ms and base_ms + body.delta_max_ms <= newest_ms
    elif plausible and not header.compression:
        # A client fills in the largest timestamp, but no field has the smallest one.
        plausible = rules.timestamp_before_max_ms == TIMESTAMP_MAX
    if plausible:
        return header
    _check_openable(header, is_busy=is_busy)
    max_ms = _largest_timestamp(buffer, position, header, oldest_ms=oldest_ms, newest_ms=newest_ms)
    if max_ms == header.max_timestamp:
        return header
    return rewrite(buffer, position, header, attributes=header.attributes, max_timestamp=max_ms)


def _check_time_of_all(header: BatchHeader, *, oldest_ms: int, newest_ms: int) -> None:
    """Judge a batch whose type bit says that each of its records has the batch's largest timestamp."""
    max_ms = header.max_timestamp
    if max_ms == NO_TIMESTAMP:
        # Kafka passes over the bit only for records that have a time.
        raise _append_time_refused(header)
    if not oldest_ms <= max_ms <= newest_ms:
        count = min(header.record_count, RECORD_ERRORS_MAX)
        raise _timestamps_refused(
            [(index, _out_of_range(max_ms, header.base_offset + index, oldest_ms, newest_ms)) for index in range(count)]
        )


def _largest_timestamp(buffer: Buffer, position: int, header: BatchHeader, *, oldest_ms: int, newest_ms: int) -> int:
    """Return the largest timestamp in the batch; refuse timestamps outside the limits."""
    errors: list[tuple[int, str | None]] = []
    largest_ms = NO_TIMESTAMP
    try:
        for index, (offset, timestamp_ms) in enumerate(timestamps(buffer, position, header)):
            largest_ms = max(largest_ms, timestamp_ms)
            if timestamp_ms != NO_TIMESTAMP and not oldest_ms <= timestamp_ms <= newest_ms:
                errors.append((index, _out_of_range(timestamp_ms, offset, oldest_ms, newest_ms)))
                if len(errors) == RECORD_ERRORS_MAX:
                    break
    except DecodeError as error:
        raise _unreadable(header, error) from error
    if errors:
        raise _timestamps_refused(errors)
    return largest_ms


def _out_of_range(timestamp_ms: int, offset: int, oldest_ms: int, newest_ms: int) -> str:
    return (
        f"Timestamp {timestamp_ms} of message with offset {offset} is out of range. "
        f"The timestamp should be within [{oldest_ms}, {newest_ms}]"
    )


def _check_openable(header: BatchHeader, *, is_busy: bool) -> None:
    """Refuse a batch that is not opened by anyone; raise NeedsOpening if a busy caller must not do it."""
    if header.record_count > OPENED_RECORDS_MAX:
        raise _refused(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"A batch of {header.record_count} records is not opened, {OPENED_RECORDS_MAX} are the most.",
        )
    if is_busy and (header.compression or header.record_count > OPENED_AT_ONCE_MAX):
        raise NeedsOpening


def _check_keys(buffer: Buffer, position: int, header: BatchHeader, rules: TopicRules) -> None:
    try:
        missing = keyless(buffer, position, header)
    except DecodeError as error:
        raise _unreadable(header, error) from error
    if not missing:
        return
    text = f"Compacted topic cannot accept message without key in topic partition {rules.topic_partition}"
    shown = ", ".join(f"RecordError(batchIndex={index}, message='{text}')" for index in missing[:3])
    raise _refused(
        ErrorCode.INVALID_RECORD,
        f"One or more records have been rejected due to {len(missing)} record errors in total, "
        f"and only showing the first three errors at most: [{shown}]",
        [(index, text) for index in missing[:RECORD_ERRORS_MAX]],
        fault=Fault.KEYLESS,
    )


def _unreadable(header: BatchHeader, error: DecodeError) -> InvalidBatch:
    """Return the refusal of an unreadable body: for a compressed one, Kafka reports an error of its own."""
    code = ErrorCode.UNKNOWN_SERVER_ERROR if header.compression else ErrorCode.INVALID_RECORD
    return _refused(code, f"The records of the batch cannot be read: {error}.")
