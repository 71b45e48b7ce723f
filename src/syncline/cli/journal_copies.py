"""The journal from one of its followers, while its leader is silent: the client library reads only from leaders.

Followers serve consumers, too (KIP-392), up to their own high watermark, which may lack the events of the last moment.
Any replica looks up a timestamp if the client asks as a debugging tool (replica id -2).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from syncline.cli.direct import Direct
from syncline.local.layout import LocalClusterError
from syncline.model.ids import JOURNAL_TOPIC
from syncline.wire.api import ApiKey

# How long each follower may take for an answer: any copy will do.
PATIENCE_S: Final = 2.0
_CONSUMER: Final = -1
_DEBUGGER: Final = -2
_EARLIEST: Final = -2
_NO_SESSION: Final = -1
_AT_ONCE_BYTES: Final = 1 << 20


class Copied(NamedTuple):
    """Key and value of a record."""

    key: bytes
    value: bytes


class JournalCopy(NamedTuple):
    """The records of a time span, whether they begin with the journal, and the broker that has this copy."""

    records: list[Copied]
    is_from_start: bool
    broker: int


def read_copy(
    servers: str, holders: Sequence[int], since_ms: int, until_ms: int | None, is_useful: Callable[[Copied], bool]
) -> JournalCopy | None:
    """Return the useful records of the copy that is first to answer, None if no broker of `holders` has one to give."""
    with Direct(servers, PATIENCE_S) as cluster:
        try:
            cluster.learn_brokers()
        except LocalClusterError:
            return None
        for broker in holders:
            try:
                return _read(cluster, broker, since_ms, until_ms, is_useful)
            except (LocalClusterError, _RefusedError):
                continue
    return None


class _RefusedError(Exception):
    """A broker has no copy that it can read now."""


def _read(
    cluster: Direct, broker: int, since_ms: int, until_ms: int | None, is_useful: Callable[[Copied], bool]
) -> JournalCopy:
    earliest = _offset(cluster, broker, _EARLIEST)
    start = _offset(cluster, broker, max(0, since_ms))
    stop = -1 if until_ms is None else _offset(cluster, broker, until_ms)
    if start < 0:
        return JournalCopy([], is_from_start=False, broker=broker)
    records: list[Copied] = []
    at = start
    while stop < 0 or at < stop:
        row = _fetched(cluster, broker, at)
        before = at
        for offset, record in _records(row.records):
            if before <= offset and (stop < 0 or offset < stop) and is_useful(record):
                records.append(record)
            at = max(at, offset + 1)
        if at == before:
            # At its high watermark: a fetch in the middle has at least one whole batch.
            break
    return JournalCopy(records, is_from_start=start <= earliest, broker=broker)


def _offset(cluster: Direct, broker: int, time_ms: int) -> int:
    """Return the first offset that is not older than a time, -1 if there is none."""
    part = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": time_ms}
    fields = {
        "replica_id": _DEBUGGER,
        "isolation_level": 0,
        "topics": [{"name": JOURNAL_TOPIC, "partitions": [part]}],
    }
    answer = cluster.ask_broker(broker, ApiKey.LIST_OFFSETS, fields)
    (row,) = (each for topic in answer.topics for each in topic.partitions)
    _check(row)
    return int(row.offset)


def _fetched(cluster: Direct, broker: int, offset: int) -> Any:
    part = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": _AT_ONCE_BYTES,
    }
    fields = {
        "replica_id": _CONSUMER,
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": _AT_ONCE_BYTES,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": _NO_SESSION,
        "topics": [{"topic": JOURNAL_TOPIC, "partitions": [part]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    answer = cluster.ask_broker(broker, ApiKey.FETCH, fields)
    (row,) = (each for topic in answer.responses for each in topic.partitions)
    _check(row)
    return row


def _check(row: Any) -> None:
    if int(row.error_code):
        raise _RefusedError


def _records(data: bytes | None) -> Iterator[tuple[int, Copied]]:
    """Yield the offset and the record of each that can be read; the rest of a damaged copy is refused."""
    from syncline.records.batch import crc_matches, iterate
    from syncline.records.errors import DecodeError
    from syncline.records.record import read_records

    buffer = memoryview(data or b"")
    try:
        for position, header in iterate(buffer, 0, len(buffer)):
            if not crc_matches(buffer, position, header):
                raise _RefusedError
            for record in read_records(buffer, position, header):
                yield record.offset, Copied(record.key or b"", record.value or b"")
    except DecodeError:
        raise _RefusedError from None
