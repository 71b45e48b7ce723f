"""Offsets that hold no record are told once and whole, however brokers cut their answers."""

import itertools

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.ahead import Arrived
from syncline.pipeline.client.fetching import Fetched
from syncline.pipeline.source.data_loss import Gap, GapReason
from syncline.pipeline.source.reading import with_vacancies
from syncline.pipeline.source.vacancies import Vacancies
from tests.pipeline.batches import TRANSACTIONAL, Record, batch, control_batch

PLACE = TopicPartition("flights", 0)
OTHER = TopicPartition("flights", 1)
ENDS = {PLACE: 17, OTHER: 10}
SCHEMA = pa.schema(
    [
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("gap", pa.struct([("end", pa.int64()), ("reason", pa.string())])),
    ]
)


def _spans(present: set[int], size: int) -> list[tuple[int, int]]:
    vacant = [offset for offset in range(size) if offset not in present]
    runs = itertools.groupby(enumerate(vacant), lambda pair: pair[1] - pair[0])
    return [(run[0][1], run[-1][1] + 1) for run in (list(group) for _, group in runs)]


@settings(deadline=None)
@given(present=st.sets(st.integers(0, 59)), cuts=st.sets(st.integers(1, 59)))
def test_spans_are_what_no_record_covers_whatever_the_cuts(present: set[int], cuts: set[int]) -> None:
    """A span that goes over several answers is one."""
    vacancies, told = Vacancies(), []
    for start, end in itertools.pairwise([0, *sorted(cuts), 60]):
        found = np.array(sorted(offset for offset in present if start <= offset < end), np.int64)
        told += vacancies.read(PLACE, start, end, [found])
    told += vacancies.rest()

    assert [(gap.start, gap.end) for gap in told] == _spans(present, 60)
    assert {gap.reason for gap in told} <= {GapReason.NO_RECORD}
    assert vacancies.rest() == []


def test_span_ends_where_offsets_are_lost() -> None:
    """What is gone in between has a row of its own; partitions do not mix."""
    vacancies = Vacancies()
    told = vacancies.read(PLACE, 0, 10, [np.arange(8)])
    told += vacancies.read(OTHER, 10, 20, [np.arange(12, 20)])
    told += vacancies.read(PLACE, 15, 20, [np.arange(17, 20)])

    assert told + vacancies.rest() == [
        Gap(OTHER, 10, 12, GapReason.NO_RECORD),
        Gap(PLACE, 8, 10, GapReason.NO_RECORD),
        Gap(PLACE, 15, 17, GapReason.NO_RECORD),
    ]


def _answer(*parts: tuple[TopicPartition, int, bytes, tuple[tuple[int, int], ...]]) -> list[Arrived]:
    """Return one answer that holds the batches of several partitions, each asked for from an offset on."""
    view = memoryview(b"".join(raw for _, _, raw, _ in parts))
    arrived, position = [], 0
    for place, offset, raw, aborted in parts:
        fetched = Fetched(0, view, position, position + len(raw), 10**6, 10**6, 0, aborted)
        position += len(raw)
        next_offset = min(fetched.next_offset(offset), ENDS[place])
        arrived.append(Arrived(place, offset, next_offset, fetched, is_gone=False, is_first=not arrived))
    return arrived


def _records(count: int) -> list[Record]:
    return [Record(None, b"v", 1_600_000_000_000)] * count


def test_rows_of_real_batches_and_of_what_lies_between() -> None:
    """Compaction within and between batches, an aborted transaction and its marker, in answers of two partitions."""
    aborted = batch(_records(2), base_offset=12, attributes=TRANSACTIONAL, producer_id=7)
    marker = control_batch(base_offset=14, producer_id=7, commit=False)
    answers = [
        _answer(
            (PLACE, 0, batch(_records(3), base_offset=2, deltas=[0, 1, 5]), ()),
            (OTHER, 5, batch(_records(5), base_offset=5), ()),
        ),
        _answer((PLACE, 8, batch(_records(2), base_offset=10) + aborted, ((12, 7),))),
        _answer((PLACE, 14, marker + batch(_records(4), base_offset=15), ())),
    ]
    rows = [row for part in with_vacancies(answers, ENDS, SCHEMA) for row in part.to_pylist()]

    assert sorted(
        (row["partition"], row["offset"], row["gap"]["end"], row["gap"]["reason"]) for row in rows if row["gap"]
    ) == [(0, 0, 2, "no record"), (0, 4, 7, "no record"), (0, 8, 10, "no record"), (0, 12, 15, "no record")]
    kept = [(row["partition"], row["offset"]) for row in rows if not row["gap"]]
    assert sorted(kept) == [
        *((0, offset) for offset in (2, 3, 7, 10, 11, 15, 16)),
        *((1, offset) for offset in range(5, 10)),
    ]
    assert all(row["value"] == (None if row["gap"] else b"v") for row in rows)
