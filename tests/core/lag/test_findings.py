"""Causes: each is found where its numbers show it, and not beside that."""

from math import inf

import pytest

from syncline.core.lag.burrow_status import partition_status
from syncline.core.lag.commit_ring import Commit
from syncline.core.lag.findings import GroupFacts, PartitionFacts, findings
from syncline.core.lag.rows import Reader, Speeds, group_row
from syncline.model.ids import Offset, TopicPartition
from syncline.model.lag import Finding, GroupStatus, LagCause, PartitionEnds, PartitionVerdict, StatusRule
from tests.core.lag.positions import appended_ms, ends, place

FINE = PartitionVerdict(GroupStatus.OK, StatusRule.LAG_FELL, 1.0, 3, {})
READER = Reader("m-1", "app", "10.0.0.1")


def facts(
    partition: int,
    committed: int | None,
    log: PartitionEnds | None = None,
    *,
    verdict: PartitionVerdict | None = None,
    reader: Reader = READER,
    kept_until_ms: int = -1,
    **others: object,
) -> PartitionFacts:
    """Return a partition of a thousand records; its commits stand where the last one is, unless a verdict is given."""
    log = log or ends()
    if verdict is None:
        window = [] if committed is None else [Commit(committed, 0, log.at_ms - 90_000, 0, 1)] * 10
        verdict = partition_status(window, [log.high_watermark], log.at_ms)
    offset = None if committed is None else Offset(committed)
    unread = None if offset is None else max(offset, log.log_start)
    found = None if unread is None or unread >= log.log_end else place(unread, kept_until_ms=kept_until_ms)
    row = group_row(TopicPartition("t", partition), offset, log, found, verdict, Speeds(5.0, 1.0), reader)
    return PartitionFacts(row, verdict, **others)


def found(*partitions: PartitionFacts, members: int = 1, rebalances_for_ms: int | None = None) -> list[Finding]:
    """Return the findings of a group."""
    return list(findings(GroupFacts(partitions, members, rebalances_for_ms)))


def causes(*partitions: PartitionFacts, members: int = 1, rebalances_for_ms: int | None = None) -> list[LagCause]:
    """Return the causes that were found."""
    return [each.cause for each in found(*partitions, members=members, rebalances_for_ms=rebalances_for_ms)]


def test_group_that_keeps_up_has_no_findings() -> None:
    """All is read, or the next record has waited for a moment only."""
    assert causes(facts(0, 1_000), facts(1, 997, verdict=FINE)) == []


def test_l40_partition_that_holds_nearly_all_of_the_lag_is_named() -> None:
    """Five partitions, of which t-3 has a hundred times the lag of each other: 96 %."""
    group = [facts(index, 100_000 - (500 if index != 3 else 50_000), ends(end=100_000)) for index in range(5)]

    (hot,) = found(*group)

    assert (hot.cause, hot.partition) == (LagCause.HOT_PARTITION, TopicPartition("t", 3))
    assert hot.evidence["share"] == pytest.approx(0.9615, abs=0.0001)
    assert hot.evidence["mean_of_others"] == 500


def test_lag_that_is_spread_is_not_hot() -> None:
    """Neither half of it in two partitions, nor a group with a single one, nor one that is only a moment late."""
    assert causes(facts(0, 100), facts(1, 100)) == []
    assert causes(facts(0, 100)) == []
    assert causes(facts(0, 995, verdict=FINE), facts(1, 1_000)) == []


def test_partition_of_unknown_lag_makes_no_other_one_hot() -> None:
    """Guards: a commit in t-0 alone made it hot, with others that had read everything."""
    assert causes(facts(0, 100), facts(1, None), facts(2, None)) == []

    (hot,) = found(facts(0, 100), facts(1, 999), facts(2, None))

    assert (hot.cause, hot.evidence["partitions"], hot.evidence["mean_of_others"]) == (LagCause.HOT_PARTITION, 2, 1)


def test_reader_that_goes_on_without_committing_has_stopped_committing() -> None:
    """90 s since the last commit, a fetch each half second, far beyond it."""
    ahead = facts(0, 100, reader=READER._replace(fetch_offset=Offset(900)), fetched_ago_ms=400)

    (stopped,) = found(ahead)

    assert stopped == Finding(
        LagCause.STOPPED_COMMITTING,
        {"silent_ms": 90_000, "committed": 100, "fetch_offset": 900, "fetched_ago_ms": 400, "partitions": 1},
        TopicPartition("t", 0),
    )
    assert causes(ahead._replace(fetched_ago_ms=-1)) == []
    assert causes(facts(0, 100, reader=READER._replace(fetch_offset=Offset(100)), fetched_ago_ms=400)) == []


def test_l39_reader_without_any_commit_never_commits() -> None:
    """Its lag is that of its fetches."""
    reads = facts(0, None, reader=READER._replace(fetch_offset=Offset(990)), fetched_ago_ms=10)

    (never,) = found(reads)

    assert (never.cause, never.evidence["fetch_lag"]) == (LagCause.NEVER_COMMITS, 10)
    assert causes(facts(0, None)) == []


def test_member_that_lives_and_does_not_fetch_is_stuck() -> None:
    """No fetch for a minute, and 900 records to read; while the group rebalances, nobody may fetch."""
    stuck = facts(0, 100, fetched_ago_ms=60_000)

    (poll,) = found(stuck)

    assert (poll.cause, poll.evidence["fetched_ago_ms"]) == (LagCause.STUCK_POLL, 60_000)
    assert poll.evidence["client_id"] == "app"
    assert causes(stuck, rebalances_for_ms=5_000) == [LagCause.REBALANCING]
    assert causes(facts(0, 1_000, fetched_ago_ms=60_000)) == []
    # It has fetched all and waits for more, but does not commit; or the broker does not read its connection.
    assert causes(facts(0, 100, reader=READER._replace(fetch_offset=Offset(1_000)), fetched_ago_ms=60_000)) == []
    assert causes(stuck._replace(held_back_share=0.5)) == [LagCause.HELD_BACK]
    # Whether it ever commits makes no difference.
    never = facts(0, None, reader=READER._replace(fetch_offset=Offset(400)), fetched_ago_ms=60_000)
    assert [(each.cause, each.evidence["unread"]) for each in found(never)] == [(LagCause.STUCK_POLL, 600)]
    # It is slow: it still commits what it got a minute ago.
    assert causes(stuck._replace(moved_ago_ms=5_000)) == []


def test_group_without_members_reads_nothing() -> None:
    """The plainest cause; not while members are still joining, and not if all is read."""
    (nobody,) = found(facts(0, 100, reader=Reader()), facts(1, 1_000, reader=Reader()), members=0)

    assert nobody == Finding(LagCause.NO_MEMBERS, {"unread": 900, "silent_ms": 90_000})
    assert causes(facts(0, 1_000), members=0) == []
    assert causes(facts(0, 100), members=0, rebalances_for_ms=10) == [LagCause.REBALANCING]


def test_records_that_nobody_may_read_yet_are_not_the_groups_fault() -> None:
    """The watermark stands 300 records below the log end, for half a minute."""
    log = ends(high_watermark=Offset(700), last_stable=Offset(700), watermark_bytes=70_000)

    (held,) = found(facts(0, 700, log, watermark_held_for_ms=30_000))

    assert (held.cause, held.evidence["records"], held.evidence["for_ms"]) == (LagCause.WATERMARK_HELD, 300, 30_000)
    assert causes(facts(0, 700, log, watermark_held_for_ms=5_000)) == []
    assert causes(facts(0, 1_000, watermark_held_for_ms=30_000)) == []


def test_client_that_is_held_back_is_found_where_it_is_behind() -> None:
    """A fifth of the time."""
    (held,) = found(facts(0, 100, held_back_share=0.2))

    assert (held.cause, held.evidence["share"]) == (LagCause.HELD_BACK, 0.2)
    assert causes(facts(0, 1_000, held_back_share=0.2), facts(1, 100, held_back_share=0.05)) == [LagCause.HOT_PARTITION]


def test_producers_that_are_faster_than_usual_and_than_the_group_are_a_burst() -> None:
    """Three times the usual rate, or more; without rates nothing is said."""
    burst = facts(0, 100, produced_per_s=300.0, usual_produced_per_s=100.0, consumed_per_s=120.0)

    (found_burst,) = found(burst)

    assert found_burst.cause is LagCause.PRODUCE_BURST
    assert causes(burst._replace(produced_per_s=290.0)) == []
    assert causes(burst._replace(consumed_per_s=310.0)) == []
    assert causes(burst._replace(usual_produced_per_s=None)) == []


def test_l18_group_that_is_too_slow_for_retention_is_told_the_rate_that_it_needs() -> None:
    """900 records in 100 s while one per second comes: 10 per second."""
    log = ends(retention_ms=3_600_000)

    (danger,) = found(facts(0, 100, log, kept_until_ms=appended_ms(999) + 100_000, produced_per_s=1.0))

    assert (danger.cause, danger.partition) == (LagCause.LOSES_DATA, TopicPartition("t", 0))
    assert danger.evidence["margin_s"] == 100
    assert danger.evidence["needed_per_s"] == 10
    assert danger.evidence["catch_up_s"] == 225


def test_l13_group_whose_records_are_gone_is_told_so() -> None:
    """Committed 500, and the log begins at 800."""
    (lost,) = found(facts(0, 500, ends(log_start=800)))

    assert (lost.cause, lost.evidence["lost"], lost.evidence["loses_data"]) == (LagCause.LOSES_DATA, 300, False)
    assert lost.evidence["margin_s"] == inf


def test_causes_come_in_the_order_of_their_weight_with_the_worst_partition() -> None:
    """Three stuck partitions; the one with most to read stands for them."""
    group = [facts(index, committed, fetched_ago_ms=60_000) for index, committed in enumerate((300, 100, 200))]
    group.append(facts(3, None, reader=READER._replace(fetch_offset=Offset(1)), fetched_ago_ms=0))

    never, stuck = found(*group)

    assert (never.cause, stuck.cause) == (LagCause.NEVER_COMMITS, LagCause.STUCK_POLL)
    assert (stuck.partition, stuck.evidence["partitions"]) == (TopicPartition("t", 1), 3)
    assert {each.verdict.status for each in group} == {GroupStatus.STOP, GroupStatus.OK}
