"""One row of consumer lag: from a commit, the ends of its partition and the place of the next record.

All clamps and flags are here, and each is for a case that happens. A group may have committed what retention deleted
since: those records are *lost*, and the lag in bytes and time begins at the log start. A client may commit any offset,
also one that the log does not have: the row is flagged, and nothing is negative. A partition may have no commit: then
its lag is not 0 but unknown.

A negative lag cannot come from a race, since the commit was read before the leader's ends were: a watermark never falls
below what was committed. So a lag of 0 is a lag of 0.

Units: offsets, bytes, ms, seconds; `at_ms` is the leader's wall clock.
"""

from collections.abc import Iterable
from math import inf
from typing import Final, NamedTuple, TypeVar

from syncline.core.lag.append_time import staleness_ms
from syncline.core.lag.forecast import catch_up_s, loses_data, reading_s, retention_margin_s
from syncline.model.ids import Offset, TopicPartition
from syncline.model.lag import UNKNOWN, LagRow, OffsetPlace, PartitionEnds, PartitionVerdict

_Number = TypeVar("_Number", int, float)


class Speeds(NamedTuple):
    """How fast a group and the producers are, in offsets per second; None if that is not known yet."""

    consumed_per_s: float | None
    produced_per_s: float | None


class Reader(NamedTuple):
    """Which member reads a partition, and from where it fetches next; empty and None without one."""

    member: str = ""
    client_id: str = ""
    host: str = ""
    fetch_offset: Offset | None = None


NO_READER = Reader()


class GroupTotals(NamedTuple):
    """A group in all its partitions. Sums are over the rows that have the number, and None if none has it."""

    rows: int
    without_commit: int
    lag_hw: int | None
    lag_lso: int | None
    lag_leo: int | None
    lag_max: int | None
    readable: int | None
    lost: int
    lag_bytes: int | None
    staleness_ms: int | None
    """The largest one, like those below: a group is as late as its latest partition."""
    event_lag_ms: int | None
    catch_up_s: float | None
    retention_margin_s: float | None
    loses_data: bool


def first_unread(committed: Offset, ends: PartitionEnds) -> Offset:
    """Return the offset whose place a row needs: what the group reads next of what still exists."""
    return max(committed, ends.log_start)


def unread_records(committed: Offset, ends: PartitionEnds, place: OffsetPlace | None) -> int:
    """Return how many records a group can still read up to the high watermark.

    Where leader and place know the records, without markers and holes; else offsets, which are at least as many.
    """
    offsets = max(0, ends.high_watermark - first_unread(committed, ends))
    counts = (UNKNOWN if place is None else place.readable_before, ends.readable_below_watermark)
    return offsets if UNKNOWN in counts else min(offsets, max(0, counts[1] - counts[0]))


def group_row(
    key: TopicPartition,
    committed: Offset | None,
    ends: PartitionEnds,
    place: OffsetPlace | None,
    verdict: PartitionVerdict,
    speeds: Speeds,
    reader: Reader = NO_READER,
    skew_ms: int = 0,
) -> LagRow:
    """Return the row of one group and partition, as of `ends.at_ms`; the ends hold what their invariants say.

    `place` is that of `first_unread`, None if the leader has not found it. `verdict` may be older, by one refresh.
    """
    assert skew_ms >= 0, f"the leader answered {-skew_ms} ms before it was asked"
    if committed is not None and committed < 0:
        # Coordinators store whatever a client commits; OffsetFetch says -1 where there is no commit.
        committed = None
    lag = _NO_COMMIT if committed is None else _lag(committed, ends, place, speeds)
    fetched = reader.fetch_offset
    return LagRow(
        topic=key.topic,
        partition=key.partition,
        committed=committed,
        fetch_offset=fetched,
        fetch_lag=None if fetched is None else max(0, ends.high_watermark - fetched),
        lag_hw=None if committed is None else max(0, ends.high_watermark - committed),
        lag_lso=None if committed is None else max(0, ends.last_stable - committed),
        lag_leo=None if committed is None else max(0, ends.log_end - committed),
        readable=lag.readable,
        lost=0 if committed is None else max(0, ends.log_start - committed),
        lag_bytes=lag.lag_bytes,
        staleness_ms=lag.staleness_ms,
        event_lag_ms=lag.event_lag_ms,
        catch_up_s=lag.catch_up_s,
        retention_margin_s=lag.margin_s,
        loses_data=bool(lag.readable)
        and loses_data(lag.margin_s, lag.catch_up_s, reading_s(lag.readable or 0, speeds.consumed_per_s)),
        status=verdict.status,
        rule=verdict.rule,
        is_estimated=place is not None and place.is_estimated,
        is_beyond_end=committed is not None and committed > ends.log_end,
        at_ms=ends.at_ms,
        skew_ms=skew_ms,
        member=reader.member,
        client_id=reader.client_id,
        host=reader.host,
    )


def totals(rows: Iterable[LagRow]) -> GroupTotals:
    """Return the sums and the worst of a group's rows; what no row knows is None, as all is without commits."""
    all_rows = list(rows)
    known = [row for row in all_rows if row.committed is not None]
    margins_s = [row.retention_margin_s for row in known if row.retention_margin_s is not None]
    return GroupTotals(
        rows=len(all_rows),
        without_commit=len(all_rows) - len(known),
        lag_hw=_sum(row.lag_hw for row in known),
        lag_lso=_sum(row.lag_lso for row in known),
        lag_leo=_sum(row.lag_leo for row in known),
        lag_max=_largest(row.lag_hw for row in known),
        readable=_sum(row.readable for row in known),
        lost=sum(row.lost for row in known),
        lag_bytes=_sum(row.lag_bytes for row in known),
        staleness_ms=_largest(row.staleness_ms for row in known),
        event_lag_ms=_largest(row.event_lag_ms for row in known),
        catch_up_s=_largest(row.catch_up_s for row in known),
        retention_margin_s=min(margins_s, default=None),
        loses_data=any(row.loses_data for row in known),
    )


def _sum(numbers: Iterable[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _largest(numbers: Iterable[_Number | None]) -> _Number | None:
    return max((number for number in numbers if number is not None), default=None)


def check_row(row: LagRow) -> None:
    """Raise `AssertionError` when a row shows what cannot be."""
    for amount in (row.lag_hw, row.lag_lso, row.lag_leo, row.readable, row.lag_bytes, row.staleness_ms):
        assert amount is None or amount >= 0, f"a negative lag: {row}"
    if row.committed is None:
        assert row.lag_hw is None, f"a lag without a commit: {row}"
        return
    assert row.lag_hw is not None, f"a commit without a lag: {row}"
    assert row.lag_leo is not None, f"a commit without a lag: {row}"
    assert row.lag_lso is not None, f"a commit without a lag: {row}"
    assert row.lag_lso <= row.lag_hw <= row.lag_leo, f"lags out of order: {row}"
    assert row.readable is not None, f"a commit without unread records: {row}"
    assert row.readable + row.lost <= row.lag_hw, f"more unread records than offsets: {row}"


class _Lag(NamedTuple):
    """What needs more than a subtraction of offsets; None is unknown."""

    readable: int | None
    catch_up_s: float | None
    lag_bytes: int | None
    staleness_ms: int | None
    event_lag_ms: int | None
    margin_s: float | None


_NO_COMMIT: Final = _Lag(None, None, None, None, None, None)


def _lag(committed: Offset, ends: PartitionEnds, place: OffsetPlace | None, speeds: Speeds) -> _Lag:
    readable = unread_records(committed, ends, place)
    needed_s = catch_up_s(readable, *speeds)
    if first_unread(committed, ends) >= ends.log_end:
        # There is no record at the end, so no place either, and nothing that retention could delete; what the group had
        # not read may be deleted already.
        return _Lag(readable, needed_s, 0, 0, 0, inf)
    if place is None:
        return _Lag(readable, needed_s, None, None, None, None)
    unread = first_unread(committed, ends)
    assert place.offset == unread, f"the place of {place.offset}, and the next record is {unread}"
    is_timed = UNKNOWN not in (place.event_ms, ends.newest_event_ms)
    return _Lag(
        readable,
        needed_s,
        max(0, ends.end_bytes - place.coordinate_bytes),
        # A leader that finds the place of a batch may not find when it came.
        None if place.append_ms == UNKNOWN else staleness_ms(unread, ends.high_watermark, place.append_ms, ends.at_ms),
        max(0, ends.newest_event_ms - place.event_ms) if is_timed else None,
        retention_margin_s(place, ends, ends.at_ms) if unread < ends.high_watermark else inf,
    )
