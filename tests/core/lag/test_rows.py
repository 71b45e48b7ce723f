"""Rows of lag: what is clamped, what is flagged, what is unknown; never a negative number."""

import random
from math import inf

import pytest

from syncline.core.lag.rows import Reader, Speeds, check_row, first_unread, group_row, totals
from syncline.model.ids import Offset, TopicPartition
from syncline.model.lag import GroupStatus, LagRow, OffsetPlace, PartitionEnds, PartitionVerdict, StatusRule
from tests.core.lag.positions import appended_ms, ends, place

T0 = TopicPartition("t", 0)
FINE = PartitionVerdict(GroupStatus.OK, StatusRule.LAG_FELL, 1.0, 0, {})
SPEEDS = Speeds(5.0, 1.0)


def row(
    committed: int | None,
    log: PartitionEnds,
    at: OffsetPlace | None = None,
    speeds: Speeds = SPEEDS,
    reader: Reader | None = None,
) -> LagRow:
    """Return a row; the place is the usual one if the log has a record there."""
    offset = None if committed is None else Offset(committed)
    if offset is not None and at is None and first_unread(offset, log) < log.log_end:
        at = place(first_unread(offset, log))
    log.check_invariants()
    made = group_row(T0, offset, log, at, FINE, speeds, reader or Reader())
    check_row(made)
    return made


def test_row_of_a_group_in_the_middle() -> None:
    """600 of 1,000 records unread, appended one per second until now."""
    made = row(400, ends())

    assert (made.lag_hw, made.lag_lso, made.lag_leo, made.readable, made.lost) == (600, 600, 600, 600, 0)
    assert (made.lag_bytes, made.staleness_ms, made.event_lag_ms) == (60_000, 599_000, 599_000)
    assert (made.catch_up_s, made.retention_margin_s, made.loses_data) == (150, inf, False)


def test_l13_records_that_were_deleted_unread_are_lost_and_no_lag() -> None:
    """Committed 500, log from 800 to 1,000."""
    made = row(500, ends(log_start=800))

    assert (made.readable, made.lost) == (200, 300)
    assert (made.lag_bytes, made.staleness_ms) == (20_000, 199_000)
    assert made.lag_hw == 500, "as Kafka's tool shows it"


def test_l13_when_all_unread_records_are_deleted_nothing_is_late() -> None:
    """Committed 500, and the log is empty from 1,000 on: 500 are lost, and no byte and no second is left to read."""
    made = row(500, ends(log_start=1_000))

    assert (made.lag_hw, made.readable, made.lost) == (500, 0, 500)
    assert (made.lag_bytes, made.staleness_ms, made.event_lag_ms, made.retention_margin_s) == (0, 0, 0, inf)


def test_l13_without_a_commit_lag_is_unknown_and_not_0() -> None:
    """By `auto.offset.reset` it would be all or nothing."""
    made = row(None, ends())

    assert made == made._replace(lag_hw=None, readable=None, lag_bytes=None, staleness_ms=None, catch_up_s=None)
    assert made.fetch_lag is None


def test_place_without_a_time_has_bytes_and_no_staleness() -> None:
    """Guards against records that have waited since 1970."""
    made = row(400, ends(), place(400)._replace(append_ms=-1))

    assert (made.lag_bytes, made.staleness_ms, made.event_lag_ms) == (60_000, None, 599_000)


def test_negative_commit_is_none() -> None:
    """A client may store -1, which is what OffsetFetch answers without a commit; nothing was lost then."""
    made = row(-1, ends(log_start=800), place(800))

    assert (made.committed, made.lag_hw, made.lost, made.staleness_ms) == (None, None, 0, None)


def test_l39_reader_that_never_commits_has_the_lag_of_its_fetches() -> None:
    """It reads, so its position is known."""
    made = row(None, ends(), reader=Reader("m-1", "app", "10.0.0.1", Offset(990)))

    assert (made.committed, made.lag_hw, made.fetch_offset, made.fetch_lag) == (None, None, 990, 10)
    assert (made.member, made.client_id, made.host) == ("m-1", "app", "10.0.0.1")


def test_l12_offset_within_a_batch_counts_the_whole_batch() -> None:
    """Offset 1,537 in a batch at 52 MB of the second of four segments: what a fetch would return is 188 MB."""
    mb = 1_000_000
    log = ends(end=4_000, end_bytes=340 * mb, watermark_bytes=340 * mb)

    assert row(1_537, log, place(1_537, coordinate_bytes=(100 + 52) * mb)).lag_bytes == 188 * mb


def test_l14_staleness_rises_by_a_second_per_second_and_event_lag_does_not() -> None:
    """100 records, one per second; 40 were read; nothing is written for 60 s more."""
    log = ends(end=100)
    later = [row(40, log._replace(at_ms=appended_ms(99) + 1_000 * second)) for second in range(61)]

    assert [made.staleness_ms for made in later] == [59_000 + 1_000 * second for second in range(61)]
    assert {made.event_lag_ms for made in later} == {59_000}


def test_l20_marker_at_the_end_is_an_offset_and_no_record() -> None:
    """All is read; the commit is below the marker that ended the last transaction."""
    log = ends(end=1_000, readable_below_watermark=990)

    made = row(999, log, place(999, readable_before=990))

    assert (made.lag_hw, made.readable, made.loses_data) == (1, 0, False)


def test_l21_open_transaction_lies_between_two_ends() -> None:
    """50,000 records of it: a reader of committed records is at its end, one of all is not."""
    log = ends(end=60_000, last_stable=Offset(10_000))

    made = row(10_000, log)

    assert (made.lag_lso, made.lag_hw, made.lag_leo) == (0, 50_000, 50_000)


def test_unreplicated_records_count_in_bytes_and_not_as_waiting() -> None:
    """Nobody can read above the high watermark, and a fetch will have to read those bytes."""
    log = ends(end=1_000, high_watermark=Offset(900), last_stable=Offset(900), watermark_bytes=90_000)

    made = row(900, log)

    assert (made.lag_hw, made.lag_leo, made.lag_bytes, made.staleness_ms) == (0, 100, 10_000, 0)
    assert (made.catch_up_s, made.retention_margin_s) == (0, inf)


def test_commit_beyond_the_end_is_flagged_and_not_negative() -> None:
    """A client may commit any offset; a truncated log may end below an old commit."""
    made = row(5_000, ends())

    assert made.is_beyond_end
    assert (made.lag_hw, made.readable, made.lag_bytes, made.staleness_ms, made.event_lag_ms) == (0, 0, 0, 0, 0)


def test_unknown_place_leaves_bytes_and_times_unknown() -> None:
    """The leader is still looking; offsets are known already."""
    offset, log = Offset(400), ends()
    made = group_row(T0, offset, log, None, FINE, SPEEDS)
    check_row(made)

    assert (made.lag_hw, made.readable, made.lag_bytes, made.staleness_ms) == (600, 600, None, None)
    assert (made.retention_margin_s, made.loses_data) == (None, False)


def test_times_of_records_that_lie_are_clamped_or_unknown() -> None:
    """An old record behind newer ones; records without a time; estimated append times are marked."""
    assert row(400, ends(newest_event_ms=5)).event_lag_ms == 0
    assert row(400, ends(newest_event_ms=-1)).event_lag_ms is None
    assert row(400, ends(), place(400, event_ms=-1)).event_lag_ms is None
    assert row(400, ends(), place(400, is_estimated=True)).is_estimated


def test_l18_row_warns_before_retention_deletes_what_is_unread() -> None:
    """Time retention in 100 s: 600 records at 4 per second gained need 150 s, at 10 only 60."""
    log, at = ends(retention_ms=3_600_000), place(400, kept_until_ms=appended_ms(999) + 100_000)
    slow, fast = row(400, log, at, Speeds(5.0, 1.0)), row(400, log, at, Speeds(11.0, 1.0))

    assert (slow.catch_up_s, slow.retention_margin_s, slow.loses_data) == (150, 100, True)
    assert (fast.catch_up_s, fast.retention_margin_s, fast.loses_data) == (60, 100, False)


def test_l36_totals_leave_out_what_has_no_commit() -> None:
    """Commits 10, 20 and none, ends 15, 20 and 7: 5, 0 and nothing."""
    rows = [row(10, ends(end=15)), row(20, ends(end=20)), row(None, ends(end=7))]
    sums = totals(rows)

    assert [made.lag_hw for made in rows] == [5, 0, None]
    assert (sums.rows, sums.without_commit, sums.lag_hw, sums.lag_max, sums.readable) == (3, 1, 5, 5, 5)
    assert (sums.lag_bytes, sums.staleness_ms, sums.lost, sums.loses_data) == (500, 4_000, 0, False)
    assert (sums.lag_lso, sums.lag_leo) == (5, 5)


@pytest.mark.parametrize("rows", [[], [row(None, ends(end=15))]], ids=["no-partition", "no-commit"])
def test_totals_of_a_group_without_commits_are_unknown_and_not_0(rows: list[LagRow]) -> None:
    """Guards: a group that never commits looked as if it had read everything."""
    sums = totals(rows)

    assert (sums.lag_hw, sums.lag_lso, sums.lag_leo, sums.lag_max, sums.readable) == (None,) * 5
    assert (sums.lag_bytes, sums.staleness_ms, sums.event_lag_ms, sums.catch_up_s) == (None,) * 4


def test_total_of_what_no_leader_has_found_is_unknown() -> None:
    """Offsets are known, bytes and times are not."""
    sums = totals([group_row(T0, Offset(400), ends(), None, FINE, SPEEDS)])

    assert (sums.lag_hw, sums.lag_bytes, sums.staleness_ms, sums.event_lag_ms) == (600, None, None, None)


def test_l22_no_row_of_any_partition_is_negative() -> None:
    """Commits below, within, at and beyond a log, with every order of its ends that can be."""
    draw = random.Random(22)
    for _ in range(3_000):
        log_start, last_stable, watermark, log_end = sorted(draw.randrange(60) for _ in range(4))
        log = ends(
            log_start=log_start,
            end=log_end,
            high_watermark=Offset(watermark),
            last_stable=Offset(last_stable),
            watermark_bytes=100 * watermark,
            at_ms=appended_ms(0) + draw.randrange(80_000),
        )
        made = row(draw.randrange(80), log)

        assert made.is_beyond_end == (made.committed is not None and made.committed > log_end)
        assert made.lost == 0 or made.committed is None or made.committed < log_start


@pytest.mark.parametrize("committed", [0, 999, 1_000])
def test_lag_is_0_only_at_the_end(committed: int) -> None:
    """A committed offset is the next to be read."""
    assert (row(committed, ends()).lag_hw == 0) == (committed == 1_000)
