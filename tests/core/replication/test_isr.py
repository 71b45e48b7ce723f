"""ISR changes and AlterPartition, the leader's side: section B of the scenario catalogue."""

import pytest

from syncline.core.replication.effects import (
    NOTHING,
    IsrChange,
    IsrCommitted,
    IsrMember,
    IsrRefused,
    ProposeIsr,
    RefusalOutcome,
)
from syncline.core.replication.known_brokers import BrokerStanding
from syncline.core.replication.lag_policy import LagPolicy, MessageLag, TimeLag
from syncline.core.replication.proposals import ITEMS_PER_REQUEST_MAX, ProposalQueue
from syncline.model.errors import ErrorCode
from tests.core.s0 import LAG_MS, S0, standings

PHASES = [
    pytest.param(4999, 15_000, id="10001-old"),
    pytest.param(5000, 20_000, id="exactly-10000-old-at-first"),
    pytest.param(5001, 20_000, id="9999-old-at-first"),
]


@pytest.mark.parametrize(("caught_up", "evicted_at"), PHASES)
def test_b01_eviction_comes_after_one_to_one_and_a_half_windows(caught_up: int, evicted_at: int) -> None:
    """Only ticks evict, so their phase decides within that bound."""
    s = S0(replicas=(1, 2), log_end=10)
    s.put(2, 8, 8, caught_up, caught_up)
    evictions = []
    for now in range(0, 30_001, 5000):
        s.tick(now)
        evictions += [now] if s.isr == [1] else []

    assert evictions[0] == evicted_at
    assert LAG_MS < evicted_at - caught_up <= LAG_MS * 3 // 2


def test_b02_a_shrink_counts_only_once_confirmed() -> None:
    """Until the controller answers, the evicted member still holds the watermark."""
    s = S0(replicas=(1, 2), log_end=10, lag_ms=30_000, confirms=False)

    s.tick(30_001)
    (proposal,) = s.sent
    assert proposal.isr == (IsrMember(1, 10),)
    assert (proposal.leader_epoch, proposal.partition_epoch, proposal.kind) == (5, 20, IsrChange.SHRINK)
    assert (s.isr, s.maximal, s.hw) == ([1, 2], [1, 2], 0)
    s.answer(proposal, 30_050, partition_epoch=21)

    assert (s.isr, s.maximal, s.hw) == ([1], [1], 10)
    assert s.partition.partition_epoch == 21
    assert s.meter(IsrChange.SHRINK) == 1


def test_b03_one_change_at_a_time() -> None:
    """While a shrink is in flight nothing else is proposed, however late another follower is."""
    s = S0(log_end=10, confirms=False)
    s.put(3, 10, 10, 9000, 9000)
    s.tick(10_001)
    assert s.requested == [[1, 3]]
    s.append(11, 10_500)

    s.tick(20_000)
    assert len(s.sent) == 1
    s.answer(s.sent[0], 20_100)
    assert s.isr == [1, 3]
    s.tick(25_000)

    assert s.requested == [[1, 3], [1]]


def test_b04_all_late_members_leave_together() -> None:
    """One tick, one request."""
    s = S0(log_end=10, confirms=False)

    s.tick(10_001)

    assert s.requested == [[1]]


def test_b05_an_expansion_counts_at_once() -> None:
    """Below the watermark nothing happens; at it the follower is proposed, and counts."""
    s = S0(replicas=(1, 2), isr=(1,), log_end=10, high_watermark=10, epoch_start=10, confirms=False)

    s.f(2, 3, 100)
    assert s.sent == []
    s.f(2, 10, 200)
    assert (s.isr, s.maximal, (s.partition.in_sync.pending is not None)) == ([1], [1, 2], True)
    assert s.sent[0].isr == (IsrMember(1, 10), IsrMember(2, 20))
    s.answer(s.sent[0], 250)

    assert (s.isr, s.maximal) == ([1, 2], [1, 2])
    assert s.meter(IsrChange.EXPAND) == 1


def test_b06_joining_needs_the_leader_epochs_start_too() -> None:
    """A fresh leader's watermark may be below what its predecessor committed (KAFKA-7128)."""
    s = S0(isr=(1, 3), log_end=5, high_watermark=2, confirms=False)
    s.put(3, 2, 5, 50, 50)
    s.metadata([1, 3], at=60, leader_epoch=10)
    s.append(7, 70)

    s.f(2, 0, 80)
    s.f(2, 2, 90)
    assert s.sent == []
    s.f(2, 5, 100)

    assert s.requested == [[1, 3, 2]]
    assert s.hw == 2


@pytest.mark.parametrize("error", [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA])
def test_b07_a_controller_that_did_nothing_reverts_the_proposal(error: ErrorCode) -> None:
    """The next fetch may try again."""
    s = S0(isr=(1, 3), log_end=10, high_watermark=10, confirms=False)
    s.f(2, 10, 100)

    s.answer(s.sent[0], 150, error=error)
    assert (s.isr, s.maximal, (s.partition.in_sync.pending is not None)) == ([1, 3], [1, 3], False)
    assert s.failed_updates == 1
    s.f(2, 10, 600)

    assert s.requested == [[1, 3, 2], [1, 3, 2]]


WAITING_ERRORS = [
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.NEW_LEADER_ELECTED,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
]


@pytest.mark.parametrize("error", WAITING_ERRORS, ids=lambda error: error.name)
def test_b08_a_controller_that_knows_more_is_waited_for(error: ErrorCode) -> None:
    """The proposal stays pending, and safe, until metadata shows its outcome."""
    s = S0(log_end=10, confirms=False)
    s.put(3, 10, 10, 9000, 9000)
    s.tick(10_001)

    s.answer(s.sent[0], 10_050, error=error)
    s.tick(15_000)
    assert s.requested == [[1, 3]]
    assert ((s.partition.in_sync.pending is not None), s.maximal, s.failed_updates) == (True, [1, 2, 3], 1)
    s.metadata([1, 2], at=15_100, partition_epoch=22)

    assert (s.isr, s.maximal, (s.partition.in_sync.pending is not None)) == ([1, 2], [1, 2], False)


def test_b09_an_unknown_error_sends_the_same_item_again() -> None:
    """Twice refused, then accepted: three times the same proposal."""
    s = S0(isr=(1, 3), log_end=10, high_watermark=10, confirms=False)
    s.f(2, 10, 100)

    for at in (150, 250):
        effects = s.answer(s.sent[0], at, error=ErrorCode.UNKNOWN_SERVER_ERROR)
        assert isinstance(effects[0], IsrRefused)
        assert effects[0].outcome is RefusalOutcome.RETRIED
        assert effects[1] is s.sent[0]
    s.answer(s.sent[0], 350)

    assert len(s.sent) == 3
    assert s.isr == [1, 3, 2]
    assert s.failed_updates == 2


def test_b10_metadata_that_comes_first_wins() -> None:
    """The late answer is ignored, and no meter moves twice."""
    s = S0(log_end=10, confirms=False)
    s.put(3, 10, 10, 9000, 9000)
    s.tick(10_001)

    s.metadata([1, 3], at=10_020)
    effects = s.answer(s.sent[0], 10_050)

    assert effects is NOTHING
    assert s.isr == [1, 3]
    assert (s.meter(IsrChange.SHRINK), s.meter(IsrChange.METADATA), s.failed_updates) == (0, 1, 0)


def test_b10_the_same_record_again_does_not_drop_a_pending_proposal() -> None:
    """The controller may have accepted the expansion: forgetting it could commit past the new member."""
    s = S0(isr=(1, 3), log_end=10, high_watermark=10, confirms=False)
    s.f(2, 10, 100)

    s.metadata([1, 3], at=120, partition_epoch=20)

    assert (s.maximal, (s.partition.in_sync.pending is not None)) == ([1, 2, 3], True)


@pytest.mark.parametrize(("leader_epoch", "partition_epoch"), [(5, 19), (4, 21)], ids=["old-partition", "old-leader"])
def test_b11_a_success_of_another_time_is_ignored(leader_epoch: int, partition_epoch: int) -> None:
    """It counts as a failed update, and the proposal stays pending."""
    s = S0(isr=(1, 3), log_end=10, high_watermark=10, confirms=False)
    s.f(2, 10, 100)

    s.answer(s.sent[0], 150, leader_epoch=leader_epoch, partition_epoch=partition_epoch)

    assert (s.isr, s.maximal, (s.partition.in_sync.pending is not None)) == ([1, 3], [1, 2, 3], True)
    assert s.failed_updates == 1


def test_b12_a_fenced_follower_neither_joins_nor_holds_the_mark() -> None:
    """The leader is alone: what it appends is committed at once."""
    s = S0(replicas=(1, 2), isr=(1,), log_end=10, high_watermark=10, fenced=(2,))
    s.f(2, 10, 0)

    s.append(20, 1)

    assert s.sent == []
    assert s.hw == 20


def near_isr() -> S0:
    """Broker 2 reached the watermark, and its expansion was just refused."""
    s = S0(replicas=(1, 2), isr=(1,), log_end=10, high_watermark=10, confirms=False)
    s.f(2, 10, 0)
    s.answer(s.sent[0], 0, error=ErrorCode.INELIGIBLE_REPLICA)
    return s


def test_b13_a_caught_up_follower_holds_the_mark_until_it_joins() -> None:
    """Otherwise the mark would run ahead of it for ever under steady load."""
    s = near_isr()

    s.append(20, 1)
    assert s.hw == 10
    s.f(2, 20, 50)

    assert s.hw == 20
    assert s.requested == [[1, 2], [1, 2]]


@pytest.mark.parametrize("trigger", ["append", "tick"])
def test_b14_a_silent_follower_stops_holding_the_mark(trigger: str) -> None:
    """The first trigger after its window lets the mark go; a tick is one."""
    s = near_isr()
    s.append(20, 1)
    s.trigger(10_000)
    assert s.hw == 10

    if trigger == "append":
        s.append(20, 10_001)
    else:
        s.tick(10_001)

    assert s.hw == 20


@pytest.mark.parametrize(("fetched", "joins"), [(-1, True), (27, True), (28, False)])
def test_b15_eligibility_needs_the_incarnation_that_fetched(fetched: int, joins: bool) -> None:
    """Metadata has broker epoch 27; -1 comes from fetches without a broker epoch."""
    s = S0(isr=(1, 3), log_end=10, high_watermark=10, confirms=False)
    s.brokers.replace(standings(1, 3) | {2: BrokerStanding(27)})

    s.f(2, 10, 100, broker_epoch=fetched)

    assert s.requested == ([[1, 3, 2]] if joins else [])


def test_b15_a_broker_in_controlled_shutdown_does_not_join() -> None:
    """It is about to leave every ISR."""
    s = S0(isr=(1, 3), log_end=10, high_watermark=10, confirms=False)
    s.brokers.replace(standings(1, 3) | {2: BrokerStanding(20, is_shutting_down=True)})

    s.f(2, 10, 100)

    assert s.requested == []


def test_b17_an_equal_partition_epoch_confirms_an_idempotent_repeat() -> None:
    """The controller had applied it already: no new partition epoch."""
    s = S0(log_end=10, confirms=False)
    s.put(3, 10, 10, 9000, 9000)
    s.tick(10_001)

    s.answer(s.sent[0], 10_050, partition_epoch=20)

    assert (s.isr, s.partition.partition_epoch) == ([1, 3], 20)


def test_b18_the_gate_opens_when_the_expansion_is_confirmed() -> None:
    """Min ISR is judged on the committed set."""
    s = S0(isr=(1, 2), min_isr=3, log_end=10, confirms=False)
    s.f(2, 10, 50)
    assert s.hw == 0

    s.f(3, 10, 100)
    assert ((s.partition.in_sync.pending is not None), s.hw) == (True, 0)
    s.answer(s.sent[0], 150)

    assert s.hw == 10


def burst(policy: LagPolicy, *, gate: bool = True, fetch_at: int = 0) -> S0:
    """One acks=all batch of ten records at 9950, all followers at 100; a tick at 10 000."""
    s = S0(log_end=100, high_watermark=100, min_isr=2, gate=gate, policy=policy, now=9000)
    s.f(2, 100, 9900)
    s.f(3, 100, 9900)
    s.append(110, 9950)
    if fetch_at:
        s.f(2, 110, fetch_at)
    s.tick(10_000)
    return s


def test_b19_one_burst_evicts_everybody_in_messages_mode() -> None:
    """The gate keeps the mark, producers fail, and the next fetches bring everyone back."""
    s = burst(MessageLag(LAG_MS, 3))
    assert (s.isr, s.hw) == ([1], 100)
    assert s.partition.acknowledgement(110) is None
    assert s.partition.check_append(-1) is ErrorCode.NOT_ENOUGH_REPLICAS

    s.f(2, 110, 10_200)
    assert (s.isr, s.hw, s.partition.acknowledgement(110)) == ([1, 2], 110, ErrorCode.NONE)
    s.f(3, 110, 10_201)

    assert s.isr == [1, 2, 3]
    assert (s.meter(IsrChange.SHRINK), s.meter(IsrChange.EXPAND)) == (1, 2)


def test_b20_without_the_gate_the_leader_commits_alone() -> None:
    """Kafka before 3.7: the batch is committed on one replica and refused afterwards."""
    s = burst(MessageLag(LAG_MS, 3), gate=False)

    assert s.hw == 110
    assert s.partition.acknowledgement(110) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_b21_the_same_burst_changes_nothing_in_time_mode() -> None:
    """Both batches are committed once the followers fetched."""
    s = burst(TimeLag(LAG_MS))
    assert s.isr == [1, 2, 3]
    assert s.partition.check_append(-1) is ErrorCode.NONE
    s.append(111, 10_050)

    s.f(2, 111, 10_200)
    s.f(3, 111, 10_201)

    assert (s.hw, s.sent) == (111, [])
    assert s.partition.acknowledgement(110) is s.partition.acknowledgement(111) is ErrorCode.NONE


def test_b22_in_messages_mode_the_phase_of_the_tick_decides() -> None:
    """Ten milliseconds earlier, broker 2 stays and the batch succeeds."""
    s = burst(MessageLag(LAG_MS, 3), fetch_at=9990)

    assert (s.isr, s.hw) == ([1, 2], 110)
    assert s.partition.acknowledgement(110) is ErrorCode.NONE


def proposal() -> ProposeIsr:
    """Any proposal."""
    s = S0(log_end=10, confirms=False)
    s.tick(10_001)
    return s.sent[0]


def test_b23_a_second_unsent_item_is_refused_at_once() -> None:
    """The caller takes it as OPERATION_NOT_ATTEMPTED."""
    queue: ProposalQueue[str, ProposeIsr] = ProposalQueue()

    assert queue.submit("t-0", proposal())
    assert not queue.submit("t-0", proposal())
    queue.next_batch(0)

    assert queue.submit("t-0", proposal()), "the first one is in flight, no longer unsent"


def test_b24_a_top_level_error_keeps_all_items_and_pauses() -> None:
    """They are sent again after 50 ms, with whatever came meanwhile."""
    queue: ProposalQueue[str, ProposeIsr] = ProposalQueue()
    first, second = proposal(), proposal()
    queue.submit("t-0", first)
    assert queue.next_batch(1000) == [("t-0", first)]
    queue.submit("t-1", second)
    assert queue.next_batch(1000) == []

    queue.failed(1010)

    assert queue.next_batch(1059) == []
    assert queue.next_batch(1060) == [("t-0", first), ("t-1", second)]


def test_retried_refusal_is_not_sent_again_before_the_pause_is_over() -> None:
    """A controller that is behind would refuse it again at once, and again."""
    queue: ProposalQueue[str, ProposeIsr] = ProposalQueue()
    again = proposal()
    queue.submit("t-0", again)
    queue.next_batch(1000)
    queue.answered(["t-0"])
    queue.pause(1010)
    queue.submit("t-0", again)

    assert queue.next_batch(1059) == []
    assert queue.next_batch(1060) == [("t-0", again)]


def test_request_has_no_more_proposals_than_are_decided_at_once() -> None:
    """A broker that returns joins thousands of sets; each of them changes a record that all brokers apply."""
    queue: ProposalQueue[int, ProposeIsr] = ProposalQueue()
    for number in range(2 * ITEMS_PER_REQUEST_MAX + 1):
        queue.submit(number, proposal())
    first = [key for key, _ in queue.next_batch(0)]
    queue.failed(0)
    queue.submit(-1, proposal())
    batches = []
    while len(queue):
        batches.append([key for key, _ in queue.next_batch(1_000)])
        queue.answered(batches[-1])

    assert [len(each) for each in batches] == [ITEMS_PER_REQUEST_MAX, ITEMS_PER_REQUEST_MAX, 2]
    assert first == batches[0]
    assert [key for batch in batches for key in batch] == [*range(2 * ITEMS_PER_REQUEST_MAX + 1), -1]


def test_proposal_missing_from_an_answer_is_sent_again() -> None:
    """Only its answer removes an item."""
    queue: ProposalQueue[str, ProposeIsr] = ProposalQueue()
    first, second = proposal(), proposal()
    queue.submit("t-0", first)
    queue.submit("t-1", second)
    queue.next_batch(0)

    queue.answered(["t-1"])

    assert queue.next_batch(0) == [("t-0", first)]
    queue.answered(["t-0"])
    assert len(queue) == 0


def test_b25_a_member_admitted_at_the_mark_may_leave_at_the_next_tick() -> None:
    """Reaching the watermark suffices to join; it proves no time."""
    s = S0(isr=(1, 2), log_end=90, high_watermark=50, epoch_start=50)
    s.put(2, 50, 90, 19_900, 19_900)
    s.partition.in_sync.by_id[3].start_first_term(0, in_isr=False)

    s.f(3, 50, 19_900, captured=90)
    assert s.isr == [1, 2, 3]
    assert s.state(3)[3] is None
    s.tick(20_000)

    assert s.isr == [1, 2]


def test_evidence_tells_the_rule_the_numbers_and_the_followers_before() -> None:
    """A shrink's evidence can be written to the journal as it is."""
    s = S0(replicas=(1, 2), log_end=10)
    s.put(2, 8, 8, 700, 600)

    s.tick(10_700)

    committed = next(effect for effect in s.effects if isinstance(effect, IsrCommitted))
    assert (committed.before, committed.after) == ((1, 2), (1,))
    assert committed.evidence.as_json() == {
        "rule": "lag:time",
        "numbers": {"now_ms": 10_700, "replica_lag_time_max_ms": 10_000, "leader_log_end": 10, "leaving": "2"},
        "followers": [
            {
                "broker_id": 2,
                "broker_epoch": 20,
                "log_end": 8,
                "previous_log_end": 8,
                "last_fetch_ms": 700,
                "last_caught_up_ms": 600,
                "is_counted": True,
            }
        ],
    }
