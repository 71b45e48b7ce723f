"""The probe: how a simulated world observes changes inside a broker as they happen.

A probe is called with the kind of change ("lead", "high-watermark", ...), the partition, its leader epoch and an
offset. Real brokers have none.
"""

from collections.abc import Callable

from syncline.model.ids import TopicPartition

Probe = Callable[[str, TopicPartition, int, int], None]


def no_probe(_kind: str, _key: TopicPartition, _leader_epoch: int, _offset: int) -> None:
    """Observe nothing."""
