"""Why a group is behind: causes that the numbers of brokers show, each with those numbers.

One hard idea: a lag has many causes, and most of them look alike from outside. A broker knows more: whether members
fetch without committing, or commit without fetching; whether the group rebalances; whether the records are there to be
read at all. Each rule below asks for one such pattern, and is silent when its numbers are missing. Several may apply at
once; they come in the order of `LagCause`, and each names its worst partition and how many there are.

A partition is *behind* when its status is above OK, when it will lose data, or when its next record has waited for
`BEHIND_MS`. Every consumer lags a little at every moment, and no cause is looked for there.
Units: records, ms, rates per second; `*_ago_ms` and `*_for_ms` are durations up to now.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from syncline.core.lag.forecast import rate_to_save
from syncline.model.ids import TopicPartition
from syncline.model.lag import Fact, Finding, GroupStatus, LagCause, LagRow, PartitionVerdict

# Above what a consumer that polls and commits as usual may need.
BEHIND_MS: Final = 10_000
# Clients fetch at least each half second while they poll.
FETCHES_RECENTLY_MS: Final = 5_000
FETCHES_NO_MORE_MS: Final = 30_000
# Every change of the in-sync set holds the watermark for a moment.
HELD_MS: Final = 10_000
# A partition is hot when it has this many times the mean lag of the others, and most of the group's lag.
HOT_TIMES: Final = 10
HOT_SHARE: Final = 0.5
BURST_TIMES: Final = 3
# Which part of the time a client must have waited for a limit to be slowed down by it.
HELD_BACK_SHARE: Final = 0.1


class PartitionFacts(NamedTuple):
    """What brokers know of a group in one partition; None and -1 are unknown."""

    row: LagRow
    verdict: PartitionVerdict
    fetched_ago_ms: int = -1
    """Since the last fetch of the group's reader."""
    moved_ago_ms: int = -1
    """Since its last commit of another offset."""
    held_back_share: float = 0.0
    """Which part of the last interval the reader's answers were held back, by a quota or for memory."""
    watermark_held_for_ms: int = 0
    produced_per_s: float | None = None
    usual_produced_per_s: float | None = None
    consumed_per_s: float | None = None

    @property
    def unread(self) -> int:
        """Records that the group could read now."""
        return self.row.readable or 0

    @property
    def is_behind(self) -> bool:
        """Whether it makes sense to ask why."""
        row = self.row
        is_late = row.staleness_ms is not None and row.staleness_ms >= BEHIND_MS
        return self.unread > 0 and (is_late or row.loses_data or self.verdict.status > GroupStatus.OK)


class GroupFacts(NamedTuple):
    """What brokers know of a group."""

    partitions: Sequence[PartitionFacts]
    members: int
    rebalances_for_ms: int | None
    """Since its rebalance began; None while it does not."""


def findings(facts: GroupFacts) -> tuple[Finding, ...]:
    """Return the causes, in the order of `LagCause`, each at most once; nothing for a group that keeps up."""
    found = [rule(facts) for rule in _RULES]
    causes = [finding for finding in found if finding is not None]
    assert [each.cause for each in causes] == [cause for cause in LagCause if any(cause is e.cause for e in causes)], (
        f"causes out of order: {causes}"
    )
    return tuple(causes)


def _loses_data(facts: GroupFacts) -> Finding | None:
    endangered = [each for each in facts.partitions if each.row.loses_data or each.row.lost]

    def evidence(worst: PartitionFacts) -> dict[str, Fact]:
        row, margin_s = worst.row, worst.row.retention_margin_s
        numbers: dict[str, Fact] = {
            "lost": row.lost,
            "loses_data": row.loses_data,
            "unread": worst.unread,
            "margin_s": margin_s,
            "catch_up_s": row.catch_up_s,
        }
        if row.loses_data and margin_s is not None and worst.produced_per_s is not None:
            numbers["needed_per_s"] = rate_to_save(worst.unread, margin_s, worst.produced_per_s)
        return numbers

    return _of_worst(LagCause.LOSES_DATA, endangered, evidence)


def _no_members(facts: GroupFacts) -> Finding | None:
    unread = sum(each.unread for each in facts.partitions)
    if facts.members or not unread or facts.rebalances_for_ms is not None:
        return None
    silent_ms = [
        each.verdict.evidence["silent_ms"] for each in facts.partitions if "silent_ms" in each.verdict.evidence
    ]
    least_ms = min((ms for ms in silent_ms if isinstance(ms, int)), default=None)
    return Finding(LagCause.NO_MEMBERS, {"unread": unread, "silent_ms": least_ms})


def _rebalancing(facts: GroupFacts) -> Finding | None:
    if facts.rebalances_for_ms is None:
        return None
    return Finding(LagCause.REBALANCING, {"for_ms": facts.rebalances_for_ms, "members": facts.members})


def _stopped_committing(facts: GroupFacts) -> Finding | None:
    """It reads on beyond its commit, which does not move: after a restart it would read all of that again."""
    return _of_worst(
        LagCause.STOPPED_COMMITTING,
        [
            each
            for each in facts.partitions
            if each.verdict.status in {GroupStatus.STOP, GroupStatus.STALL}
            and _fetches(each)
            and each.row.committed is not None
            and (each.row.fetch_offset or 0) > each.row.committed
        ],
        lambda worst: {
            "silent_ms": worst.verdict.evidence.get("silent_ms"),
            "committed": worst.row.committed,
            "fetch_offset": worst.row.fetch_offset,
            "fetched_ago_ms": worst.fetched_ago_ms,
        },
    )


def _never_commits(facts: GroupFacts) -> Finding | None:
    return _of_worst(
        LagCause.NEVER_COMMITS,
        [each for each in facts.partitions if each.row.committed is None and _fetches(each)],
        lambda worst: {
            "fetch_offset": worst.row.fetch_offset,
            "fetch_lag": worst.row.fetch_lag,
            "fetched_ago_ms": worst.fetched_ago_ms,
        },
    )


def _stuck_poll(facts: GroupFacts) -> Finding | None:
    """A member that sends heartbeats neither fetches nor commits anything new: its program is busy with what it got."""
    if facts.rebalances_for_ms is not None:
        return None
    return _of_worst(
        LagCause.STUCK_POLL,
        [each for each in facts.partitions if _is_stuck(each)],
        lambda worst: {
            "fetched_ago_ms": worst.fetched_ago_ms,
            "unread": worst.row.fetch_lag if worst.row.committed is None else worst.unread,
            "client_id": worst.row.client_id,
            "host": worst.row.host,
        },
    )


def _is_stuck(each: PartitionFacts) -> bool:
    row = each.row
    if not row.member or each.fetched_ago_ms < FETCHES_NO_MORE_MS or 0 <= each.moved_ago_ms < FETCHES_NO_MORE_MS:
        return False
    # Who has fetched all may wait for more, with one request for a long time. Who is held back cannot fetch.
    if row.fetch_lag == 0 or each.held_back_share >= HELD_BACK_SHARE:
        return False
    return each.is_behind or (row.committed is None and row.fetch_lag is not None)


def _held_back(facts: GroupFacts) -> Finding | None:
    return _of_worst(
        LagCause.HELD_BACK,
        [each for each in facts.partitions if each.is_behind and each.held_back_share >= HELD_BACK_SHARE],
        lambda worst: {"share": worst.held_back_share, "client_id": worst.row.client_id},
    )


def _watermark_held(facts: GroupFacts) -> Finding | None:
    """Find records above the high watermark, which consumers cannot read yet; the group can do nothing about it."""

    def above(each: PartitionFacts) -> int:
        row = each.row
        return 0 if row.lag_leo is None or row.lag_hw is None else row.lag_leo - row.lag_hw

    held = [each for each in facts.partitions if each.watermark_held_for_ms >= HELD_MS and above(each)]
    return _of_worst(
        LagCause.WATERMARK_HELD,
        held,
        lambda worst: {"for_ms": worst.watermark_held_for_ms, "records": above(worst)},
    )


def _hot_partition(facts: GroupFacts) -> Finding | None:
    """One partition holds nearly everything: more members would not help, another key would.

    Without members, it is only where most was written. Partitions of unknown lag, such as those without a commit, count
    neither as hot nor as read.
    """
    known = [each for each in facts.partitions if each.row.readable is not None]
    unread = sum(each.unread for each in known)
    others = len(known) - 1
    if others < 1 or not unread or not facts.members:
        return None
    worst = max(known, key=lambda each: each.unread)
    mean_of_others = (unread - worst.unread) / others
    is_hot = worst.unread > HOT_SHARE * unread and worst.unread >= HOT_TIMES * mean_of_others
    if not (is_hot and worst.is_behind):
        return None
    evidence: Mapping[str, Fact] = {
        "share": worst.unread / unread,
        "unread": worst.unread,
        "mean_of_others": mean_of_others,
        "partitions": len(known),
    }
    return Finding(LagCause.HOT_PARTITION, evidence, worst.row.key)


def _produce_burst(facts: GroupFacts) -> Finding | None:
    """Producers are faster than usual and than the group; it may well catch up by itself."""

    def is_burst(each: PartitionFacts) -> bool:
        produced, usual, consumed = each.produced_per_s, each.usual_produced_per_s, each.consumed_per_s
        if produced is None or usual is None or consumed is None:
            return False
        return produced >= BURST_TIMES * usual and produced > consumed

    return _of_worst(
        LagCause.PRODUCE_BURST,
        [each for each in facts.partitions if each.is_behind and is_burst(each)],
        lambda worst: {
            "produced_per_s": worst.produced_per_s,
            "usual_per_s": worst.usual_produced_per_s,
            "consumed_per_s": worst.consumed_per_s,
        },
    )


def _fetches(each: PartitionFacts) -> bool:
    return each.row.fetch_offset is not None and 0 <= each.fetched_ago_ms <= FETCHES_RECENTLY_MS


def _of_worst(
    cause: LagCause, concerned: Sequence[PartitionFacts], evidence: Callable[[PartitionFacts], Mapping[str, Fact]]
) -> Finding | None:
    """Return a finding about the partition with most to read, with the number of all that are concerned."""
    if not concerned:
        return None
    worst = max(concerned, key=lambda each: (each.unread, each.row.fetch_lag or 0))
    key: TopicPartition = worst.row.key
    return Finding(cause, {**evidence(worst), "partitions": len(concerned)}, key)


_RULES: Final[tuple[Callable[[GroupFacts], Finding | None], ...]] = (
    _loses_data,
    _no_members,
    _rebalancing,
    _stopped_committing,
    _never_commits,
    _stuck_poll,
    _held_back,
    _watermark_held,
    _hot_partition,
    _produce_burst,
)
assert len(_RULES) == len(LagCause), "each cause has its rule"
