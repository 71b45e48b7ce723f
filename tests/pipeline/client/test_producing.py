"""Produce requests are what brokers read, and their answers are read with all that they may hold."""

import io
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.produce.v8 import response as v8
from kio.schema.types import TopicName
from kio.serial import entity_writer
from kio.static.primitive import i32, i32Timedelta, i64

from syncline.model.ids import TopicPartition
from syncline.pipeline.client import producing
from syncline.pipeline.client.refusals import RetriableError
from syncline.pipeline.errors import BrokerError
from syncline.wire.produce import parse_produce

_places = st.builds(TopicPartition, st.text("abcé", min_size=1, max_size=6), st.integers(0, 9))


@given(batches=st.dictionaries(_places, st.binary(min_size=1, max_size=40), min_size=1), name=st.none() | st.text("xy"))
def test_broker_reads_what_the_request_says(batches: dict[TopicPartition, bytes], name: str | None) -> None:
    """Syncline's own parser finds every batch, under its topic and partition, with acks=all."""
    body = producing.request(batches, transactional_id=name, timeout_ms=1_234)

    read = parse_produce(memoryview(body), 8, 0)
    found = {
        TopicPartition(topic, index): body[start:end] for topic, parts in read.topics for index, start, end in parts
    }
    assert found == batches
    assert (read.acks, read.timeout_ms) == (-1, 1_234)


def test_answer_gives_each_partitions_code() -> None:
    """Also behind texts of errors, which only a refused partition has."""

    def row(index: int, code: ErrorCode, text: str | None) -> v8.PartitionProduceResponse:
        return v8.PartitionProduceResponse(
            index=i32(index),
            error_code=code,
            base_offset=i64(-1),
            record_errors=(v8.BatchIndexAndErrorMessage(batch_index=i32(0), batch_index_error_message=text),) * 2,
            error_message=text,
        )

    rows = (row(3, ErrorCode.invalid_record, "no key"), row(1, ErrorCode.none, None))
    topics = (
        v8.TopicProduceResponse(name=TopicName("é"), partition_responses=rows),
        v8.TopicProduceResponse(name=TopicName("b"), partition_responses=rows[1:]),
    )
    message = v8.ProduceResponse(responses=topics, throttle_time=i32Timedelta.parse(timedelta(0)))
    buffer = io.BytesIO()
    entity_writer(v8.ProduceResponse)(buffer, message)

    found = producing.answer(memoryview(buffer.getvalue()))

    assert found == {TopicPartition("é", 3): 87, TopicPartition("é", 1): 0, TopicPartition("b", 1): 0}
    with pytest.raises(RetriableError):
        producing.answer(memoryview(buffer.getvalue()[:20]))


@pytest.mark.parametrize(
    ("code", "kind", "sentence"),
    [
        pytest.param(47, producing.FencedError, "another attempt at the same task has taken over", id="fenced"),
        pytest.param(45, producing.OutOfOrderError, "holds records that another attempt", id="out of order"),
        pytest.param(10, BrokerError, "lower the option kafka.max.request.size", id="too large"),
        pytest.param(29, BrokerError, "the broker denies the records for a-0.*an ACL must allow", id="denied"),
    ],
)
def test_refusal_is_a_sentence_with_what_to_do(code: int, kind: type[Exception], sentence: str) -> None:
    """No user has to look up a number."""
    with pytest.raises(kind, match=sentence):
        producing._is_appended(code, TopicPartition("a", 0))


def test_duplicate_is_a_success_and_passing_errors_are_tried_again() -> None:
    """A batch that is there already needs nothing more; a leader may move."""
    assert [producing._is_appended(code, TopicPartition("a", 0)) for code in (0, 46, 6, 19)] == [
        True,
        True,
        False,
        False,
    ]
