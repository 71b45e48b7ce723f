"""Consumer lag in words: the sentences name the rule, the numbers and the cause."""

import re
from collections.abc import Mapping

import pytest

from syncline.core.lag.burrow_status import group_status, partition_status
from syncline.core.lag.commit_ring import Commit
from syncline.core.lag.findings import GroupFacts, PartitionFacts, findings
from syncline.core.lag.rows import NO_READER, Speeds, group_row
from syncline.explain.words import lag_wording as wording
from syncline.explain.words.lag_sentences import describe, sentences, tell
from syncline.model.ids import Offset, TopicPartition
from syncline.model.lag import Fact, Finding, GroupStatus, LagCause, LagRow, PartitionVerdict, StatusRule
from tests.core.lag.positions import appended_ms, ends, place

from .rewording import mark

T3 = TopicPartition("t", 3)
MINUTE_MS = 60_000

# Numbers of each cause, as its rule gives them.
EVIDENCE: Mapping[LagCause, Mapping[str, Fact]] = {
    LagCause.LOSES_DATA: {
        "lost": 0,
        "loses_data": True,
        "unread": 1_200_000,
        "margin_s": 840.0,
        "catch_up_s": 1_200.0,
        "needed_per_s": 6_100.4,
        "partitions": 1,
    },
    LagCause.NO_MEMBERS: {"unread": 900, "silent_ms": 90_000},
    LagCause.REBALANCING: {"for_ms": 12_000, "members": 3},
    LagCause.STOPPED_COMMITTING: {
        "silent_ms": 90_000,
        "committed": 100,
        "fetch_offset": 900,
        "fetched_ago_ms": 400,
        "partitions": 1,
    },
    LagCause.NEVER_COMMITS: {"fetch_offset": 990, "fetch_lag": 10, "fetched_ago_ms": 10, "partitions": 1},
    LagCause.STUCK_POLL: {
        "fetched_ago_ms": 60_000,
        "unread": 900,
        "client_id": "app",
        "host": "10.0.0.1",
        "partitions": 3,
    },
    LagCause.HELD_BACK: {"share": 0.2, "client_id": "app", "partitions": 1},
    LagCause.WATERMARK_HELD: {"for_ms": 30_000, "records": 300, "partitions": 1},
    LagCause.HOT_PARTITION: {"share": 0.9615, "unread": 50_000, "mean_of_others": 500.2, "partitions": 5},
    LagCause.PRODUCE_BURST: {"produced_per_s": 350.0, "usual_per_s": 100.0, "consumed_per_s": 120.0, "partitions": 1},
}
SENTENCES = {
    LagCause.LOSES_DATA: (
        "t-3 will lose data in 14 min: 1,200,000 records to read, and the group needs 20 min to catch up."
        " It must read at least 6,100 records/s."
    ),
    LagCause.NO_MEMBERS: "The group has no members to read its 900 unread records. Its last commit was 90 s ago.",
    LagCause.REBALANCING: "The group has been rebalancing for 12 s, with 3 members: no member reads meanwhile.",
    LagCause.STOPPED_COMMITTING: (
        "The reader of t-3 keeps reading but does not commit: its last commit, of offset 100, was 90 s ago; "
        "it now fetches from offset 900 (last fetch 400 ms ago). After a restart, it would read the records "
        "in between again."
    ),
    LagCause.NEVER_COMMITS: (
        "The reader of t-3 has not committed yet: it fetches from offset 990, 10 behind the end (last fetch 10 ms ago)."
    ),
    LagCause.STUCK_POLL: (
        "app on 10.0.0.1 is a live member but has neither fetched t-3 for 60 s nor committed anything new, "
        "with 900 records waiting: it is busy processing, or stuck, or has paused the partition. Other "
        "partitions with the same cause: 2."
    ),
    LagCause.HELD_BACK: "A limit held app back for 20 % of the time while it read t-3.",
    LagCause.WATERMARK_HELD: (
        "300 records of t-3 cannot be read yet: its high watermark has stood still for 30 s. `syncline why` "
        "explains it."
    ),
    LagCause.HOT_PARTITION: (
        "One hot partition: t-3 holds 96 % of the lag, 50,000 records; the others have 500 each on average."
    ),
    LagCause.PRODUCE_BURST: ("Producers write 350 records/s to t-3, 3.5 times as many as usual; the group reads 120."),
}


@pytest.mark.parametrize("cause", LagCause)
def test_cause_in_words(cause: LagCause) -> None:
    """With its numbers."""
    assert sentences([Finding(cause, EVIDENCE[cause], T3)]) == [SENTENCES[cause]]


def test_one_is_no_plural() -> None:
    """Guards: "1 records unread", "with 1 members"."""
    ones = dict.fromkeys(("unread", "members", "records", "lost", "commits", "lag"), 1)
    for cause in LagCause:
        (told,) = sentences([Finding(cause, {**EVIDENCE[cause], **ones}, T3)])
        assert not re.search(r"\b1 (unread )?(records|members)", told), told
    assert losing(needed_per_s=1.0).endswith("It must read at least 1 record/s.")
    assert losing(lost=1, loses_data=False) == "The group has missed 1 record of t-3, deleted unread."
    verdict = PartitionVerdict(GroupStatus.OK, StatusRule.INCOMPLETE, 0.1, 1, ones)
    row = partition(0, [10], 11, appended_ms(0) + 10 * MINUTE_MS).row
    for rule in StatusRule:
        told = describe(row, verdict._replace(rule=rule))
        assert not re.search(r"\b1 (commits|offsets)", told), told
    assert "1 unread record, the oldest" in group(partition(0, [10], 11, appended_ms(0)))[0]


@pytest.mark.parametrize(
    ("needed_per_s", "told"),
    [(0.0001, "0.01"), (0.033, "0.033"), (0.5, "0.5"), (1.04, "1"), (9.99, "10"), (11.4, "11"), (6_100.4, "6,100")],
)
def test_rate_has_the_digits_that_say_something(needed_per_s: float, told: str) -> None:
    """Guards: a group that needs a record in half a minute was told to read one per second."""
    assert re.findall(r"at least (\S+) record", losing(needed_per_s=needed_per_s)) == [told]


def losing(**others: Fact) -> str:
    """Return the sentence about data that is lost, with other numbers."""
    (told,) = sentences([Finding(LagCause.LOSES_DATA, {**EVIDENCE[LagCause.LOSES_DATA], **others}, T3)])
    return told


def test_loss_is_told_as_far_as_it_is_known() -> None:
    """What is gone; what goes at the next clean-up; a group that never catches up, or has no speed yet."""
    assert losing(lost=300, loses_data=False) == "The group has missed 300 records of t-3, deleted unread."
    assert "at the next clean-up" in losing(margin_s=0.0, needed_per_s=float("inf"))
    assert "No speed would be enough." in losing(margin_s=0.0, needed_per_s=float("inf"))
    assert "at this speed the group never catches up" in losing(catch_up_s=float("inf"))
    assert "its speed is not known yet." in losing(catch_up_s=None, needed_per_s=None)


def partition(
    index: int, offsets: list[int], end: int, now_ms: int, step_ms: int = MINUTE_MS, lag: int | None = None
) -> PartitionFacts:
    """Return a partition with one commit per minute, the first at minute 0, and a record per second."""
    window = [
        Commit(offset, order, appended_ms(0) + order * step_ms, 0, max(0, end - offset) if lag is None else lag + order)
        for order, offset in enumerate(offsets)
    ]
    log = ends(end=end, at_ms=now_ms)
    verdict = partition_status(window, [end], now_ms)
    offset = Offset(offsets[-1]) if offsets else None
    at = None if offset is None or offset >= end else place(offset)
    row = group_row(TopicPartition("t", index), offset, log, at, verdict, Speeds(5.0, 1.0), NO_READER)
    return PartitionFacts(row, verdict)


def test_stopped_group_is_told_with_commit_window_and_oldest_record() -> None:
    """What a status in the manner of Burrow leaves out: why."""
    offsets = [1_000 * index for index in range(1, 11)]
    now_ms = appended_ms(0) + 9 * MINUTE_MS + 580_000
    row, verdict, *_ = partition(0, offsets, 22_345, now_ms)
    row = row._replace(staleness_ms=571_000)

    assert describe(row, verdict) == (
        "t-0 is STOP: last commit 9.7 min ago, window 9 min, 12,345 unread, oldest 9.5 min."
    )


def rules() -> dict[StatusRule, str]:
    """Return a sentence for each rule that decides."""
    now_ms = appended_ms(0) + 10 * MINUTE_MS
    told = {}
    for each in (
        partition(0, [], 100, now_ms),
        partition(0, [100] * 10, 100, now_ms),
        partition(0, [10] * 10, 100, now_ms),
        partition(0, [10] * 10, 100, now_ms + 30 * MINUTE_MS),
        partition(0, [50, 60, 20, 30, 40], 100, now_ms - 5 * MINUTE_MS),
        partition(0, list(range(10, 20)), 100, now_ms, lag=0),
        partition(0, list(range(10, 20)), 100, now_ms),
        partition(0, list(range(10, 20)), 100, now_ms, lag=50),
    ):
        told[each.verdict.rule] = describe(each.row, each.verdict)
    window = [None] * 9 + [Commit(10, 0, now_ms, 0, 90)]
    row = partition(0, [10], 100, now_ms).row
    for verdict in (
        partition_status(window, [100], now_ms, minimum_complete=0.5),
        partition_status(window, [100], now_ms, min_window_ms=MINUTE_MS),
        partition_status(window, [100], now_ms, unread=0),
    ):
        told[verdict.rule] = describe(row, verdict)
    return told


def test_each_rule_says_what_it_compared() -> None:
    """Eleven rules, eleven sentences without a hole."""
    told = rules()

    assert set(told) == set(StatusRule)
    assert not any("?" in text or "{" in text or "None" in text for text in told.values()), told
    assert (
        told[StatusRule.STALLED] == "t-0 is STALL: its last 10 commits all have offset 10, 90 unread, oldest 9.8 min."
    )
    assert told[StatusRule.REWOUND] == (
        "t-0 is REWIND: its commits fell from offset 60 to 20 and have not returned, 60 unread, oldest 4.3 min."
    )


def group(*partitions: PartitionFacts, members: int = 2) -> list[str]:
    """Return everything about a group."""
    rows: list[tuple[LagRow, PartitionVerdict]] = [(each.row, each.verdict) for each in partitions]
    verdict = group_status((row.key, each) for row, each in rows)
    return tell("g", verdict, rows, findings(GroupFacts(partitions, members, None)))


def test_l40_stuck_group_is_explained_with_its_hot_partition() -> None:
    """Five partitions; what t-3 has to read is a hundred times what each other has."""
    now_ms = appended_ms(0) + 10 * MINUTE_MS
    told = group(*(partition(index, [550 if index == 3 else 1_045] * 10, 1_050, now_ms) for index in range(5)))

    assert told[0].startswith("Group g is ERR: 520 unread records, the oldest waiting for 50 s.")
    assert told[1].startswith("t-3 is STALL: ")
    assert told[-1].startswith("One hot partition: t-3 holds 96 % of the lag")


def test_group_that_has_read_everything_is_told_in_one_sentence() -> None:
    """Partitions without commits, and with few of them, are counted."""
    now_ms = appended_ms(0) + 10 * MINUTE_MS
    half_full = partition(1, [100], 100, now_ms)
    half_full = half_full._replace(verdict=half_full.verdict._replace(complete=0.5))

    assert group(partition(0, [100] * 10, 100, now_ms)) == ["Group g is OK: it has read everything."]
    (told,) = group(partition(0, [], 100, now_ms), half_full)
    assert told == (
        "Group g is OK: it has read everything. Partitions without a commit: 1. 1 partition has too few "
        "commits so far to judge its status."
    )


def test_partition_that_was_judged_has_not_too_few_commits_to_judge() -> None:
    """Guards: "1 partition has too few commits yet to judge its status", and then that it is STOP."""
    now_ms = appended_ms(0) + 10 * MINUTE_MS
    stopped = partition(0, [50], 100, now_ms)
    stopped = stopped._replace(verdict=stopped.verdict._replace(complete=0.1))

    assert stopped.verdict.status is GroupStatus.STOP
    assert "too few commits" not in group(stopped)[0]
    assert group(stopped)[1].startswith("t-0 is STOP: ")


def test_lag_of_a_group_that_never_commits_is_not_known() -> None:
    """Guards: it was told to have read everything."""
    now_ms = appended_ms(0) + 10 * MINUTE_MS
    (told,) = group(partition(0, [], 100, now_ms), partition(1, [], 100, now_ms))

    assert told == "Group g is OK: its lag is not known. Partitions without a commit: 2."


def test_only_the_worst_partitions_are_described() -> None:
    """Five of seven; the rest is a number."""
    now_ms = appended_ms(0) + 10 * MINUTE_MS
    told = group(*(partition(index, [index] * 10, 100, now_ms) for index in range(7)))

    assert [text.split(" ")[0] for text in told[1:6]] == ["t-0", "t-1", "t-2", "t-3", "t-4"]
    assert told[6] == "Further partitions that are not OK: 2."


def everything() -> str:
    """Return all that these tests say of groups."""
    now_ms = appended_ms(0) + 10 * MINUTE_MS
    told = [
        *rules().values(),
        *(text for cause in LagCause for text in sentences([Finding(cause, EVIDENCE[cause], T3)])),
    ]
    told += [losing(lost=3), losing(margin_s=0.0, needed_per_s=float("inf")), losing(catch_up_s=float("inf"))]
    told += [losing(catch_up_s=None, margin_s=None)]
    told += group(partition(0, [], 100, now_ms), *(partition(index, [index], 100, now_ms) for index in range(1, 9)))
    told += group(partition(0, [], 100, now_ms))
    half_full = partition(0, [100] * 10, 100, now_ms)
    half_full = half_full._replace(verdict=half_full.verdict._replace(complete=0.5))
    told += [*group(half_full), *group(half_full, half_full)]
    return "\n".join(told)


def test_every_template_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each template is replaced by a mark and its fields: all marks are shown, and none is left over."""
    marks = mark(monkeypatch, wording)

    told = everything()

    assert [place for mark, place in marks.items() if mark not in told] == []
