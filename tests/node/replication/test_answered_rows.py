"""Answers of many rows: they are processed in slices, and nothing of a lost one is."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from syncline.node.loop.loop_holds import LoopHolds
from syncline.node.replication.answered_rows import ROWS_PER_SLICE, SLICE_MS, AnsweredRows, ParsedRows, RowsToRead
from syncline.wire.fetch_response import FetchedPartition, FetchedRows, FetchResponse, encode_fetch_response

MANY = 3 * ROWS_PER_SLICE + 5


class HandClock:
    """A clock that shows what it is set to."""

    def __init__(self) -> None:
        self.now_ms = 0

    def mono_ms(self) -> int:
        """Return the time."""
        return self.now_ms

    def wall_ms(self) -> int:
        """Return the time."""
        return self.now_ms


class Turns:
    """The event loop: what is called soon is called by hand."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[..., None], *args: Any) -> None:
        """Keep a callback for the next turn."""
        self.soon.append(lambda: callback(*args))

    def turn(self) -> None:
        """Run what was kept."""
        soon, self.soon = self.soon, []
        for callback in soon:
            callback()


class Processing:
    """Rows that are processed, and what happened besides."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.loop = Turns()
        self.row_ms = 0
        self.seen: list[FetchedPartition] = []
        self.done: list[tuple[int, bytes]] = []
        self.pauses = 0
        self.ends: list[Exception | None] = []
        loop: Any = self.loop
        self.rows = AnsweredRows(
            loop, LoopHolds(self.clock), process=self._process, paused=self._paused, ended=self.ends.append
        )

    def _process(self, key: tuple[bytes, int], row: FetchedPartition) -> None:
        if row.error_code:
            raise ZeroDivisionError(f"row {key[1]}")
        self.seen.append(row)
        self.done.append((key[1], bytes(row.records)))
        self.clock.now_ms += self.row_ms

    def _paused(self) -> None:
        self.pauses += 1


def answer(buffer: bytearray, count: int = MANY, failing: int = -1) -> ParsedRows:
    """Return the rows of an answer whose records lie in a buffer, a byte each."""
    buffer[:] = bytes(number % 251 for number in range(count))
    view = memoryview(buffer)
    rows = [
        FetchedPartition(number, int(number == failing), records=view[number : number + 1]) for number in range(count)
    ]
    return ParsedRows([(b"id", rows)])


def received(count: int = MANY, missing_bytes: int = 0) -> tuple[bytearray, RowsToRead]:
    """Return a receive buffer with an answer whose rows have a record of a byte, and its rows."""
    rows = [FetchedPartition(number, 0, records=bytes([number % 251])) for number in range(count)]
    body = b"".join(encode_fetch_response(FetchResponse(topics=[(bytes(16), rows)]), 17))
    buffer = bytearray(b"head" + body)
    view = memoryview(buffer)
    return buffer, RowsToRead(FetchedRows(view[: len(view) - missing_bytes], 17, 4))


def test_rows_are_processed_in_slices_with_records_that_last() -> None:
    """The next answer overwrites the receive buffer; where no time passes, their number ends a slice."""
    buffer = bytearray(MANY)
    long_buffer, rows_to_read = received()
    for its_buffer, rows in ((buffer, answer(buffer)), (long_buffer, rows_to_read)):
        each = Processing()
        each.rows.begin(rows)
        counts = [len(each.done)]
        its_buffer[:] = bytes(len(its_buffer))
        while each.rows.left is not None:
            each.loop.turn()
            counts.append(len(each.done))

        assert counts == [ROWS_PER_SLICE, 2 * ROWS_PER_SLICE, 3 * ROWS_PER_SLICE, MANY]
        assert each.done == [(number, bytes([number % 251])) for number in range(MANY)]
        assert (each.pauses, each.ends, each.loop.soon) == (3, [None], [])


def test_records_are_copied_once_however_many_slices_follow() -> None:
    """A slice of slow rows has eight of them; to copy what is left with each would take longer than to write it."""
    each = Processing()
    each.row_ms = SLICE_MS
    each.rows.begin(answer(bytearray(MANY)))
    calls = 0

    def count(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        for _ in range(9):
            each.loop.turn()
    finally:
        sys.setprofile(None)

    assert calls < MANY
    assert len(each.done) == 10


def test_long_answer_is_copied_as_a_whole_and_read_row_by_row() -> None:
    """One copy of all records takes far less time than one of each, and to read thousands of rows takes ten ms."""
    each = Processing()
    calls = [0]

    def count(_frame: FrameType, event: str, _arg: object) -> None:
        calls[-1] += event in {"call", "c_call"}

    buffer, rows = received(30 * ROWS_PER_SLICE)
    sys.setprofile(count)
    try:
        each.rows.begin(rows)
        while each.rows.left is not None:
            calls.append(0)
            each.loop.turn()
    finally:
        sys.setprofile(None)

    first, *later = [memoryview(row.records).obj for row in each.seen[::ROWS_PER_SLICE]]
    assert first is buffer
    assert {id(whole) for whole in later} == {id(later[0])} != {id(buffer)}
    # The same work in each slice: nothing is done for all rows at once.
    assert max(calls) < 2 * min(calls[:-1])


def test_answer_that_makes_no_sense_ends_where_that_begins() -> None:
    """Whoever asked connects again, and asks for the rest; the rows before were sound."""
    each = Processing()
    each.rows.begin(received(missing_bytes=10)[1])
    while each.rows.left is not None:
        each.loop.turn()

    assert len(each.done) == MANY - 1
    assert [type(end).__name__ for end in each.ends] == ["DecodeError"]


def test_slow_rows_end_a_slice_by_the_clock() -> None:
    """A log that is opened for the first time takes a hundred times as long as one without records."""
    each = Processing()
    each.row_ms = SLICE_MS // 2
    each.rows.begin(answer(bytearray(MANY), 4))
    first = len(each.done)
    each.loop.turn()
    each.loop.turn()

    assert (first, len(each.done), each.ends) == (2, 4, [None])


def test_short_answer_is_processed_at_once() -> None:
    """The next fetch leaves in the callback that received the answer."""
    each = Processing()
    each.rows.begin(answer(bytearray(MANY), ROWS_PER_SLICE - 1))

    assert (len(each.done), each.ends, each.pauses) == (ROWS_PER_SLICE - 1, [None], 0)


def test_what_is_left_of_an_answer_is_dropped() -> None:
    """The connection is lost; an answer over the next one is another matter."""
    each = Processing()
    each.rows.begin(answer(bytearray(MANY)))
    each.rows.drop()
    was_under_way = each.rows.left is not None
    each.rows.begin(answer(bytearray(MANY), 3))
    each.loop.turn()

    assert not was_under_way
    assert [number for number, _ in each.done] == [*range(ROWS_PER_SLICE), 0, 1, 2]
    assert each.ends == [None]


def test_row_that_fails_ends_its_answer_in_any_slice() -> None:
    """Whoever asked for it connects again, and gets the rest once more."""
    for failing in (3, ROWS_PER_SLICE + 3):
        each = Processing()
        each.rows.begin(answer(bytearray(MANY), failing=failing))
        for _ in range(3):
            each.loop.turn()

        assert len(each.done) == failing
        assert [repr(end) for end in each.ends] == [f"ZeroDivisionError('row {failing}')"]
        assert each.rows.left is None
