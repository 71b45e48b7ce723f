"""DescribeTopicPartitions: what a long answer leaves behind."""

from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

from syncline.node.api import api_75_describe_topic_partitions


def test_what_a_page_was_made_of_is_freed_in_turns() -> None:
    """Guards: the spans of a hundred thousand names went at once, and held the loop for 30 ms."""
    names = [f"n{each}" for each in range(300)]
    broker: Any = SimpleNamespace(
        image=SimpleNamespace(topics={}), config=SimpleNamespace(max_request_partition_size_limit=2_000)
    )
    topics = [SimpleNamespace(name=name) for name in names]
    asked = SimpleNamespace(topics=topics, cursor=None, response_partition_limit=2_000)

    def decode_in_steps() -> Generator[None, None, Any]:
        yield
        return asked

    request: Any = SimpleNamespace(decode_in_steps=decode_in_steps, answer=lambda _: None, named=[])
    for _ in api_75_describe_topic_partitions.handle(broker, request):
        pass

    assert [each.name for each in request.named] == sorted(names)
