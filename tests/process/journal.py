"""What a topic of a real cluster holds, and what the journal says, read with a client."""

import contextlib
import json
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from tests.cluster import LocalCluster
from tests.patience import eventually
from tests.process.load import QUIET


def values(cluster: LocalCluster, topic: str, partition: int = 0) -> list[bytes]:
    """Return what a partition holds now."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "reader", **QUIET})
    try:
        place = TopicPartition(topic, partition, OFFSET_BEGINNING)
        end = _end_of(consumer, place)
        consumer.assign([place])
        found: list[bytes] = []
        while len(found) < end:
            messages = consumer.consume(end, 0.5)
            found += [message.value() for message in messages if not message.error()]
        return found
    finally:
        consumer.close()


def _end_of(consumer: Consumer, place: TopicPartition, within_s: float = 10.0) -> int:
    """Return where a partition ends; a new leader may take a moment to know."""

    def look() -> int:
        with contextlib.suppress(KafkaException):
            return int(consumer.get_watermark_offsets(place, timeout=10)[1])
        return -1

    end = eventually(look, lambda seen: seen >= 0, within_s=within_s)
    assert end >= 0, f"the end of {place} is not to be had"
    return end


def events(cluster: LocalCluster, within_s: float = 5.0, **fields: str) -> list[dict[str, Any]]:
    """Return the journal's events with these fields, as soon as there are any."""

    def look() -> list[dict[str, Any]]:
        found = [json.loads(value) for value in values(cluster, "__syncline_journal")]
        return [each for each in found if fields.items() <= each.items()]

    seen = eventually(look, bool, within_s=within_s)
    assert seen, f"no event with {fields} in the journal"
    return seen


def lags_of_removal_ms(cluster: LocalCluster, topic: str, follower: int) -> list[int]:
    """Return how long `follower` had been behind, by the leader's clock, each time it left the ISR for its lag."""
    found = []
    for event in events(cluster, type="isr_change", topic=topic, change="shrink", rule="lag:time"):
        evidence = event["evidence"]
        found += [
            evidence["now_ms"] - view["last_caught_up_ms"]
            for view in evidence["followers"]
            if view["broker_id"] == follower not in event["after"]
        ]
    return found
