"""Idempotent producers: which batch continues a sequence, which is a retry, which is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.core.producer_state import ACCEPTED, SEQUENCE_MAX, Accepted, Duplicate, ProducerTable, Refused
from syncline.model.errors import ErrorCode
from syncline.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader


def header(
    sequence: int,
    *,
    count: int = 1,
    base_offset: int = 0,
    producer_id: int = 9,
    producer_epoch: int = 0,
    attributes: int = 0,
    timestamp_ms: int = 1000,
) -> BatchHeader:
    """Return the header of a batch of producer 9."""
    return BatchHeader(
        base_offset=base_offset,
        batch_length=100,
        leader_epoch=0,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=count - 1,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        record_count=count,
    )


def code(table: ProducerTable, batch: BatchHeader) -> ErrorCode:
    """Return the error of a check, NONE if the batch may be appended."""
    verdict = table.check(batch)
    return verdict.code if isinstance(verdict, Refused) else ErrorCode.NONE


@pytest.fixture
def six_batches() -> ProducerTable:
    """Producer 9, epoch 0, with batches of sequences 0-1, 2-3, ... 10-11 at offsets 0 to 11."""
    table = ProducerTable()
    for sequence in range(0, 12, 2):
        table.record(header(sequence, count=2, base_offset=sequence))
    return table


def test_g07_check_answers_with_the_old_offsets_when_one_of_the_last_five_is_resent(six_batches: ProducerTable) -> None:
    """Sequences 2-3 are the fifth youngest: still known."""
    assert six_batches.check(header(2, count=2)) == Duplicate(base_offset=2, last_offset=3, timestamp_ms=1000)


def test_g07_check_refuses_when_an_older_batch_is_resent(six_batches: ProducerTable) -> None:
    """Sequences 0-1 are the sixth: not known any more, so out of order."""
    assert code(six_batches, header(0, count=2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_g07_check_accepts_the_next_sequence_and_refuses_a_gap(six_batches: ProducerTable) -> None:
    """12 follows 11; 15 does not follow 13."""
    assert six_batches.check(header(12, count=2)) is ACCEPTED

    six_batches.record(header(12, count=2, base_offset=12))

    assert code(six_batches, header(15)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize(
    ("producer_epoch", "sequence", "expected"),
    [
        pytest.param(0, 0, ErrorCode.INVALID_PRODUCER_EPOCH, id="older epoch"),
        pytest.param(2, 5, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, id="newer epoch not from 0"),
        pytest.param(2, 0, ErrorCode.NONE, id="newer epoch from 0"),
    ],
)
def test_g08_check_judges_the_producer_epoch(producer_epoch: int, sequence: int, expected: ErrorCode) -> None:
    """Epoch 1 is known."""
    table = ProducerTable()
    table.record(header(0, producer_epoch=1))

    assert code(table, header(sequence, producer_epoch=producer_epoch)) == expected


def test_g08_sequence_wraps_to_zero_after_the_largest() -> None:
    """2 147 483 647 is followed by 0."""
    table = ProducerTable()
    table.record(header(SEQUENCE_MAX))

    assert isinstance(table.check(header(0)), Accepted)
    assert code(table, header(1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_g08_check_accepts_any_sequence_when_the_producer_is_unknown() -> None:
    """Retention may have removed all that was known of a live producer."""
    assert ProducerTable().check(header(7)) is ACCEPTED


def test_check_accepts_any_sequence_of_a_producer_without_an_epoch() -> None:
    """Kafka compares sequences within an epoch, and -1 is none."""
    table = ProducerTable()
    table.record(header(0, producer_epoch=-1))

    assert table.check(header(9, producer_epoch=-1)) is ACCEPTED


def test_check_accepts_when_the_batch_has_no_producer() -> None:
    """Without a producer id there is no sequence to keep."""
    assert ProducerTable().check(header(-1, producer_id=-1, producer_epoch=-1)) is ACCEPTED


def test_check_refuses_a_plain_batch_when_the_producer_has_an_open_transaction() -> None:
    """A transaction must be finished before its producer writes without one."""
    table = ProducerTable()
    table.record(header(0, attributes=TRANSACTIONAL_BIT))

    assert code(table, header(1)) == ErrorCode.INVALID_TXN_STATE
    assert code(table, header(1, attributes=TRANSACTIONAL_BIT)) == ErrorCode.NONE

    table.record(header(-1, base_offset=1, attributes=TRANSACTIONAL_BIT | CONTROL_BIT))

    assert code(table, header(1)) == ErrorCode.NONE


def test_check_changes_nothing() -> None:
    """Only a stored batch counts (M46)."""
    table = ProducerTable()
    table.check(header(0))
    table.check(header(0, producer_epoch=5))

    assert table == ProducerTable()


def test_expire_forgets_the_silent_but_never_an_open_transaction() -> None:
    """The time since the last append counts; at the limit the producer goes."""
    table = ProducerTable()
    table.record(header(0, producer_id=1, timestamp_ms=1000))
    table.record(header(0, producer_id=2, timestamp_ms=1001))
    table.record(header(0, producer_id=3, timestamp_ms=1000, attributes=TRANSACTIONAL_BIT))

    assert table.expire(now_ms=1500, expiration_ms=500) == 1
    assert list(table.entries) == [2, 3]


def test_table_tells_which_record_it_rests_on_last(six_batches: ProducerTable) -> None:
    """The newest record has offset 11."""
    assert six_batches.rests_on() == 11


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(1, 3)), max_size=40))
def test_accepted_batches_always_continue_their_sequence(steps: list[tuple[int, int, int]]) -> None:
    """Whatever is offered, what was accepted in one epoch has no gap and no repetition."""
    table = ProducerTable()
    stored: dict[tuple[int, int], int] = {}
    offset = 0
    for producer_epoch, distance, count in steps:
        known = stored.get((9, producer_epoch), 0)
        batch = header(known + distance, count=count, base_offset=offset, producer_epoch=producer_epoch)
        if isinstance(table.check(batch), Accepted):
            assert distance == 0 or not table.entries or (9, producer_epoch) not in stored
            table.record(batch)
            table.check_invariants()
            stored[9, producer_epoch] = known + distance + count
            offset += count
