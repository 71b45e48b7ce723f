"""DescribeProducers: what a replica remembers of idempotent producers, and how much of it one answer holds."""

import gc
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest

from syncline.core.producer_state import ProducerState
from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.node.api import api_61_describe_producers
from syncline.wire.api import ApiKey
from syncline.wire.rows import is_long
from tests.conformance.batches import batch, encode
from tests.node.wire_client import WireClient
from tests.node.world import World


async def described(client: WireClient, *partitions: int) -> list[Any]:
    """Ask for partitions of one topic; return their rows."""
    answer = await client.ask(
        ApiKey.DESCRIBE_PRODUCERS, 0, topics=[{"name": "t", "partition_indexes": list(partitions)}]
    )
    return list(answer.topics[0].partitions)


@pytest.mark.brokers(1)
async def test_an_answer_describes_a_bounded_number_of_producers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a request costs is bounded by what it carries: it may name the same partition again and again."""
    await world.topic("t")
    client = await world.client()
    for producer_id in (71, 72):
        await client.produce("t", encode(batch("a", producer_id=producer_id, producer_epoch=3, base_sequence=0)))
    monkeypatch.setattr(api_61_describe_producers, "DESCRIBED_MAX", 3)
    first, second = await described(client, 0, 0)

    assert [(each.producer_id, each.producer_epoch, each.last_sequence) for each in first.active_producers] == [
        (71, 3, 0),
        (72, 3, 0),
    ]
    assert (second.error_code, second.active_producers) == (ErrorCode.INVALID_REQUEST, ())
    assert "fewer partitions" in second.error_message


def answered(partition_count: int, producer_count: int) -> dict[str, Any]:
    """Return the fields of an answer about partitions with so many producers in each."""
    entries = dict.fromkeys(range(producer_count), ProducerState(0))
    partition = SimpleNamespace(is_offline=False, log=SimpleNamespace(producers=SimpleNamespace(entries=entries)))
    asked = SimpleNamespace(topics=(SimpleNamespace(name="t", partition_indexes=tuple(range(partition_count))),))
    keys = [TopicPartition("t", index) for index in range(partition_count)]
    broker: Any = SimpleNamespace(image=SimpleNamespace(topics={"t"}), partitions=dict.fromkeys(keys, partition))
    answers: list[dict[str, Any]] = []

    def decode_in_steps() -> Generator[None, None, Any]:
        yield
        return asked

    request: Any = SimpleNamespace(decode_in_steps=decode_in_steps, answer=answers.append)
    for _ in api_61_describe_producers.handle(broker, request):
        pass
    return answers[0]


def test_rows_are_made_when_they_are_written() -> None:
    """Guards: those of a hundred thousand partitions took tens of megabytes, and the loop for 30 ms to be freed."""
    gc.collect()
    before = len(gc.get_objects())
    fields = answered(20_000, 0)
    made_count = len(gc.get_objects()) - before

    assert is_long(fields)
    # The partitions' names are the test's own.
    assert made_count - 20_000 < 1_000


@pytest.mark.parametrize(
    ("partitions", "producers", "expected"),
    [
        pytest.param(3, 50, False, id="few"),
        pytest.param(1, 300, True, id="many-producers"),
        pytest.param(300, 0, True, id="many-partitions"),
    ],
)
def test_an_answer_with_many_rows_is_written_in_steps(partitions: int, producers: int, expected: bool) -> None:
    """Whether the rows are partitions or producers."""
    assert is_long(answered(partitions, producers)) is expected
