"""The option table of the Spark source as cases: options, and which of the records they mean.

All clusters hold the same topics, so that a case has one answer for Syncline, for Apache Kafka, and for Spark's own
connector. `is_ours` marks options that only this source has, or means differently (`docs/divergences.md`).
"""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

T0 = 1_700_000_000_000
PLAIN, OTHER, CUT = "live-plain", "live-other", "live-cut"
CUT_AT = 6


@dataclass(frozen=True)
class Record:
    """A record as it was produced; a partition's times are a second apart."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]

    @property
    def time_ms(self) -> int:
        """Return its timestamp."""
        return T0 + 1000 * self.offset

    def row(self, *, with_headers: bool, with_gap: bool) -> list[Any]:
        """Return the row that `live_rows` makes of it."""
        cells = [self.topic, self.partition, self.offset, self.time_ms, 0, _hex(self.key), _hex(self.value)]
        return [*cells, *([_json(self.headers)] if with_headers else []), *([None] if with_gap else [])]


@dataclass(frozen=True)
class Missing:
    """A row for offsets that are gone."""

    topic: str
    partition: int
    offset: int
    end: int
    reason: str

    @property
    def row(self) -> list[Any]:
        """Return the row that `live_rows` makes of it."""
        gap = json.dumps({"end": self.end, "reason": self.reason}, separators=(",", ":"))
        return [self.topic, self.partition, self.offset, None, None, None, None, gap]


def _hex(content: bytes | None) -> str | None:
    return None if content is None else content.hex().upper()


def _json(headers: tuple[tuple[str, bytes], ...]) -> str | None:
    if not headers:
        return None
    return json.dumps(
        [{"key": key, "value": b64encode(value).decode()} for key, value in headers], separators=(",", ":")
    )


def _record(topic: str, partition: int, offset: int) -> Record:
    key = None if offset % 5 == 0 else b"k%d" % offset
    value = None if offset % 7 == 0 else b"v%d" % offset * (1 + offset % 3)
    return Record(topic, partition, offset, key, value, (("n", b"%d" % offset),) if offset % 4 == 0 else ())


# Partition 2 of the first topic is empty.
COUNTS = {(PLAIN, 0): 300, (PLAIN, 1): 40, (PLAIN, 2): 0, (OTHER, 0): 25, (CUT, 0): 10}
RECORDS = [_record(*place, offset) for place, count in COUNTS.items() for offset in range(count)]
# What retention has left.
KEPT = [record for record in RECORDS if record.topic != CUT or record.offset >= CUT_AT]

Meant = Callable[[Record], bool]


@dataclass(frozen=True)
class Case:
    """A query and what it returns: the records that are `meant`, or an error for `None`."""

    name: str
    options: Mapping[str, str]
    meant: Meant | None
    streams: bool = False
    is_ours: bool = False
    batch_records_max: int | None = None
    missing: tuple[Missing, ...] = ()

    @property
    def rows(self) -> list[list[Any]]:
        """Return the rows that it is to return, sorted."""
        assert self.meant is not None
        with_headers = self.options.get("includeHeaders") == "true"
        with_gap = self.options.get("includeGaps", "false") != "false"
        rows = [record.row(with_headers=with_headers, with_gap=with_gap) for record in KEPT if self.meant(record)]
        return sorted([*rows, *(missing.row for missing in self.missing)], key=lambda row: row[:3])


def _of(*topics: str) -> Meant:
    return lambda record: record.topic in topics


def _plain(**bounds: tuple[int, int]) -> Meant:
    """Return the records of the first topic, `p0=(4, 9)` from offset 4 below 9; other partitions whole."""
    whole = (0, 10**9)

    def meant(record: Record) -> bool:
        low, high = bounds.get(f"p{record.partition}", whole)
        return record.topic == PLAIN and low <= record.offset < high

    return meant


def _places(*values: int) -> str:
    return json.dumps({PLAIN: {str(partition): value for partition, value in enumerate(values)}})


def _nothing(_record: Record) -> bool:
    return False


SUBSCRIBE = {"subscribe": PLAIN}
FROM_LOST = {"subscribe": CUT, "startingOffsets": json.dumps({CUT: {"0": 2}})}
LOST = Missing(CUT, 0, 2, CUT_AT, "expired")
OTHER_ID = {**SUBSCRIBE, "topicIds": json.dumps({PLAIN: "AAAAAAAAAAAAAAAAAAAAAQ"})}
EARLIEST = {**SUBSCRIBE, "startingOffsets": "earliest"}

BATCHES = [
    Case("subscribe", SUBSCRIBE, _of(PLAIN)),
    Case("subscribe-two", {"subscribe": f"{OTHER}, {PLAIN}"}, _of(PLAIN, OTHER)),
    Case("pattern", {"subscribePattern": "live-(plain|other)"}, _of(PLAIN, OTHER)),
    Case("pattern-of-java", {"subscribePattern": r"live-\p{Alpha}++"}, _of(PLAIN, OTHER, CUT)),
    # The connector finds the pattern anywhere in a name, and reads the first topic.
    Case("pattern-is-whole", {"subscribePattern": "plain"}, _nothing, is_ours=True),
    Case("assign", {"assign": json.dumps({PLAIN: [0, 2], OTHER: [0]})}, lambda r: r.topic != CUT and r.partition != 1),
    Case("from-offsets", {**SUBSCRIBE, "startingOffsets": _places(290, -2, 0)}, _plain(p0=(290, 300))),
    Case("to-offsets", {**SUBSCRIBE, "endingOffsets": _places(7, -1, 0)}, _plain(p0=(0, 7))),
    Case(
        "from-and-to-offsets",
        {**SUBSCRIBE, "startingOffsets": _places(3, 8, -2), "endingOffsets": _places(9, 8, -1)},
        _plain(p0=(3, 9), p1=(0, 0)),
    ),
    Case(
        "from-time",
        {**SUBSCRIBE, "startingTimestamp": str(T0 + 9_500), "startingOffsetsByTimestampStrategy": "latest"},
        _plain(p0=(10, 300), p1=(10, 40)),
    ),
    Case("to-time", {**SUBSCRIBE, "endingTimestamp": str(T0 + 100_000)}, _plain(p0=(0, 100))),
    Case(
        "between-times",
        {
            "assign": json.dumps({PLAIN: [0, 1]}),
            "startingOffsetsByTimestamp": json.dumps({PLAIN: {"0": T0 + 5_000, "1": T0}}),
            "endingOffsetsByTimestamp": json.dumps({PLAIN: {"0": T0 + 8_000, "1": T0 + 999_000}}),
        },
        _plain(p0=(5, 8)),
    ),
    Case(
        "one-time-goes-first",
        {
            "assign": json.dumps({PLAIN: [0]}),
            "startingTimestamp": str(T0 + 290_000),
            "startingOffsetsByTimestamp": json.dumps({PLAIN: {"0": T0}}),
            "startingOffsets": json.dumps({PLAIN: {"0": 1}}),
        },
        lambda r: r.topic == PLAIN and r.partition == 0 and r.offset >= 290,
    ),
    Case(
        "times-go-before-offsets",
        {
            "assign": json.dumps({PLAIN: [0]}),
            "endingOffsetsByTimestamp": json.dumps({PLAIN: {"0": T0 + 2_000}}),
            "endingOffsets": json.dumps({PLAIN: {"0": 100}}),
        },
        lambda r: r.topic == PLAIN and r.partition == 0 and r.offset < 2,
    ),
    Case("more-tasks", {**SUBSCRIBE, "minPartitions": "9"}, _of(PLAIN)),
    Case("smaller-tasks", {**SUBSCRIBE, "maxRecordsPerPartition": "33", "minPartitions": "20"}, _of(PLAIN)),
    Case("slots", {**SUBSCRIBE, "slots": "3"}, _of(PLAIN), is_ours=True),
    Case("headers", {**SUBSCRIBE, "includeHeaders": "true"}, _of(PLAIN)),
    Case("kept-records", {"subscribe": CUT}, _of(CUT)),
    Case(
        "lost-records",
        {**FROM_LOST, "failOnDataLoss": "false"},
        _of(CUT),
    ),
    Case("gaps", {**FROM_LOST, "includeGaps": "true"}, _of(CUT), is_ours=True, missing=(LOST,)),
    Case("gaps-and-vacancies", {**FROM_LOST, "includeGaps": "all"}, _of(CUT), is_ours=True, missing=(LOST,)),
    Case("no-gaps", {**SUBSCRIBE, "includeGaps": "all"}, _of(PLAIN), is_ours=True),
    Case(
        "gaps-of-another-topic",
        {**OTHER_ID, "includeGaps": "true", "startingOffsets": _places(7, 0, 0), "endingOffsets": _places(300, 40, 0)},
        _nothing,
        is_ours=True,
        missing=(Missing(PLAIN, 0, 7, 300, "topic gone"), Missing(PLAIN, 1, 0, 40, "topic gone")),
    ),
    Case("committed", {**SUBSCRIBE, "kafka.isolation.level": "read_committed"}, _of(PLAIN)),
    Case("group-id", {**SUBSCRIBE, "kafka.group.id": "live", "groupIdPrefix": "live"}, _of(PLAIN)),
    Case(
        "patience",
        {
            **SUBSCRIBE,
            "kafkaConsumer.pollTimeoutMs": "20000",
            "fetchOffset.numRetries": "2",
            "fetchOffset.retryIntervalMs": "20",
        },
        _of(PLAIN),
    ),
    Case("of-kafka", {**SUBSCRIBE, "kafka.max.poll.records": "20", "kafka.client.id": "live"}, _of(PLAIN)),
    Case("small-fetches", {**SUBSCRIBE, "fetchBytes": "500", "bootstrapTimeoutMs": "5000"}, _of(PLAIN), is_ours=True),
]

STREAMS = [
    Case("stream-earliest", EARLIEST, _of(PLAIN), streams=True),
    Case("stream-latest", SUBSCRIBE, _nothing, streams=True),
    Case(
        "stream-from-offsets",
        {**SUBSCRIBE, "startingOffsets": _places(290, -1, -2)},
        _plain(p0=(290, 300), p1=(40, 40)),
        streams=True,
    ),
    Case(
        "stream-from-time",
        {**SUBSCRIBE, "startingTimestamp": str(T0 + 30_000), "startingOffsetsByTimestampStrategy": "latest"},
        _plain(p0=(30, 300), p1=(30, 40)),
        streams=True,
    ),
    Case(
        "stream-pattern",
        {"subscribePattern": "live-[op].*", "startingOffsets": "earliest"},
        _of(PLAIN, OTHER),
        streams=True,
    ),
    Case("stream-headers", {**EARLIEST, "includeHeaders": "true"}, _of(PLAIN), streams=True),
    Case(
        "stream-limited", {**EARLIEST, "maxOffsetsPerTrigger": "100"}, _of(PLAIN), streams=True, batch_records_max=102
    ),
    Case(
        "stream-at-least",
        {**EARLIEST, "minOffsetsPerTrigger": "50", "maxTriggerDelay": "1m", "maxOffsetsPerTrigger": "90"},
        _of(PLAIN),
        streams=True,
        is_ours=True,
        batch_records_max=92,
    ),
    Case(
        "stream-bytes",
        {**EARLIEST, "maxBytesPerTrigger": "3000"},
        _of(PLAIN),
        streams=True,
        is_ours=True,
        batch_records_max=250,
    ),
    Case(
        "stream-group",
        {**EARLIEST, "commitOffsetsToGroup": "true", "kafka.group.id": "live-stream"},
        _of(PLAIN),
        streams=True,
        is_ours=True,
    ),
    Case("stream-gaps", {**FROM_LOST, "includeGaps": "true"}, _of(CUT), streams=True, is_ours=True, missing=(LOST,)),
]

REFUSED = [
    Case("refused-no-topic", {}, None),
    Case("refused-two-topics", {**SUBSCRIBE, "subscribePattern": "x"}, None),
    Case("refused-from-latest", {**SUBSCRIBE, "startingOffsets": "latest"}, None),
    Case("refused-to-earliest", {**SUBSCRIBE, "endingOffsets": "earliest"}, None),
    Case("refused-some-partitions", {**SUBSCRIBE, "startingOffsets": json.dumps({PLAIN: {"0": 1}})}, None),
    Case(
        "refused-end-before-start",
        {**SUBSCRIBE, "startingOffsets": _places(9, 0, 0), "endingOffsets": _places(8, 1, 0)},
        None,
    ),
    Case("refused-no-such-time", {**SUBSCRIBE, "startingTimestamp": str(T0 + 10**9)}, None),
    Case("refused-reset", {**SUBSCRIBE, "kafka.auto.offset.reset": "earliest"}, None),
    Case("refused-no-tasks", {**SUBSCRIBE, "minPartitions": "0"}, None),
    Case("refused-lost-records", FROM_LOST, None),
    Case("refused-another-topic", OTHER_ID, None, is_ours=True),
    Case("refused-gaps", {**FROM_LOST, "includeGaps": "true", "failOnDataLoss": "true"}, None, is_ours=True),
    Case(
        "refused-past-the-end",
        {**SUBSCRIBE, "endingOffsets": _places(301, 1, 0), "kafkaConsumer.pollTimeoutMs": "3000"},
        None,
    ),
    Case("refused-end-of-a-stream", {**SUBSCRIBE, "endingOffsets": "latest"}, None, streams=True),
    Case(
        "refused-impossible-batch",
        {**SUBSCRIBE, "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"},
        None,
        streams=True,
    ),
    Case("refused-misspelled", {**SUBSCRIBE, "kafka.isolation.levle": "read_committed"}, None, is_ours=True),
]

CASES = [*BATCHES, *STREAMS, *REFUSED]
