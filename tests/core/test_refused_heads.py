"""Which batches are refused with one that its client sends again."""

from typing import Any

from syncline.core.refused_heads import BEHIND_MAX, HEAD_AGE_MAX_MS, HEADS_MAX, RefusedHeads
from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.records.batch import BatchHeader
from syncline.records.builder import BatchBuilder

KEY = TopicPartition("t", 0)
REFUSAL = ErrorCode.NOT_LEADER_OR_FOLLOWER


def header(sequence: int, *, producer_id: int = 7, epoch: int = 0) -> BatchHeader:
    """Return the header of a batch of one record."""
    builder = BatchBuilder(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    builder.append(0, b"", b"")
    return BatchHeader.parse(builder.build())


def behind(heads: RefusedHeads, batch: BatchHeader, key: TopicPartition = KEY, **options: Any) -> ErrorCode | None:
    """Return what a batch that does not continue the log is refused with."""
    return heads.refusal_behind(key, batch, options.pop("now_ms", 0), **{"continues": False, **options})


def test_batches_behind_a_refused_one_are_refused_with_it_until_it_comes_again() -> None:
    """A second refusal does not make another head: what matters is the first batch that is missing."""
    heads = RefusedHeads()
    heads.refused(KEY, header(5), REFUSAL, 0)
    heads.refused(KEY, header(6), ErrorCode.KAFKA_STORAGE_ERROR, 1)

    assert behind(heads, header(7)) == REFUSAL
    assert behind(heads, header(5)) is None
    assert behind(heads, header(7)) is None


def test_other_producers_epochs_and_partitions_are_not_held_back() -> None:
    """Another epoch of the producer ends it: its client has begun again."""
    heads = RefusedHeads()
    heads.refused(KEY, header(5), REFUSAL, 0)

    assert behind(heads, header(7, producer_id=8)) is None
    assert behind(heads, header(7), TopicPartition("t", 1)) is None
    assert behind(heads, header(7)) == REFUSAL
    assert behind(heads, header(0, epoch=1)) is None
    assert not heads.heads


def test_a_batch_that_continues_the_log_ends_it() -> None:
    """What was refused has been appended elsewhere, or was in the log already."""
    heads = RefusedHeads()
    heads.refused(KEY, header(5), REFUSAL, 0)

    assert behind(heads, header(6), continues=True) is None
    assert not heads.heads


def test_a_client_that_never_sends_it_again_is_told_the_truth() -> None:
    """No more batches are refused than a client has in flight, and none after a time."""
    heads = RefusedHeads()
    heads.refused(KEY, header(5), REFUSAL, 0)
    answers = [behind(heads, header(sequence)) for sequence in range(6, 12)]
    heads.refused(KEY, header(5), REFUSAL, 0)
    late = behind(heads, header(6), now_ms=HEAD_AGE_MAX_MS + 1)

    assert answers == [REFUSAL] * BEHIND_MAX + [None, None]
    assert late is None


def test_heads_are_bounded_in_number_and_age() -> None:
    """The oldest goes first; batches without a producer id are none."""
    heads = RefusedHeads()
    for producer_id in range(HEADS_MAX + 2):
        heads.refused(KEY, header(0, producer_id=producer_id), REFUSAL, producer_id // HEADS_MAX)
    count, first = len(heads.heads), next(iter(heads.heads))
    heads.refused(KEY, header(-1, producer_id=-1), REFUSAL, HEAD_AGE_MAX_MS + 1)
    heads.refused(KEY, header(0), REFUSAL, HEAD_AGE_MAX_MS + 1)

    assert (count, first) == (HEADS_MAX, (KEY, 2))
    assert list(heads.heads) == [(KEY, HEADS_MAX), (KEY, HEADS_MAX + 1), (KEY, 7)]
