"""The records that every client writes and reads: each shape that a record can have, small.

Timestamps are given by the producer, one second apart, so that look-ups by
time have one right answer.
"""

import base64
import time
from collections.abc import Container
from typing import Any

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 2
# Whole seconds of an hour ago: retention must not reach the records while the tests run.
FIRST_TIMESTAMP_MS = (int(time.time()) - 3600) * 1000
STEP_MS = 1000
# Shapes of records that not every client can say.
NULL_RECORDS = "records without key and value"
NULL_HEADERS = "headers without value"

Record = dict[str, Any]


def text(data: bytes | None) -> str | None:
    """Return bytes as the agents' JSON carries them."""
    return None if data is None else base64.b64encode(data).decode()


def record(
    number: int, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], *, partition: int
) -> Record:
    """Return one record for an agent to send."""
    return {
        "partition": partition,
        "key": text(key),
        "value": text(value),
        "headers": [[name, text(content)] for name, content in headers],
        "timestamp_ms": FIRST_TIMESTAMP_MS + number * STEP_MS,
    }


def shapes(unsayable: Container[str] = ()) -> list[Record]:
    """Return a record of each shape in each partition, but for those that a client cannot say."""
    contents: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
        (b"key", b"value", []),
        (None, b"no key", []),
        (b"no value", None, []),
        (b"", b"", []),
        (b"headers", b"value", [("one", b"1"), ("two", bytes(range(256))), ("empty", b"")]),
        ("schlüssel".encode(), "värde \N{SNOWMAN}".encode(), [("ключ", "значение".encode())]),
        (b"compressible", b"abcdefgh" * 2000, []),
        (b"incompressible", bytes((number * 167 + number // 256 * 59) % 251 for number in range(3000)), []),
    ]
    if NULL_RECORDS not in unsayable:
        contents.append((None, None, []))
    if NULL_HEADERS not in unsayable:
        contents.append((b"null header", b"value", [("none", None)]))
    contents.append((b"repeated header", b"value", [("again", b"1"), ("again", b"2")]))
    return [
        record(number, key, value, headers, partition=partition)
        for partition in range(PARTITIONS)
        for number, (key, value, headers) in enumerate(contents)
    ]


def numbered(count: int, *, partitions: int = 1, start: int = 0) -> list[Record]:
    """Return records that tell their own number, spread over the partitions in turn."""
    return [
        record(number, b"key", b"%d" % number, [], partition=number % partitions)
        for number in range(start, start + count)
    ]


def in_order(records: list[Record]) -> list[Record]:
    """Return records as they lie in the log: by partition, and in each as they were sent."""
    return sorted(records, key=lambda each: each["partition"])


def without_offsets(records: list[Record]) -> list[Record]:
    """Return what was read in the order of the log, in the form in which it was sent."""
    lying = sorted(records, key=lambda each: (each["partition"], each["offset"]))
    return [{name: content for name, content in each.items() if name != "offset"} for each in lying]
