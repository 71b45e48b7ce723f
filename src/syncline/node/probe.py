"""The probe: what a simulated world learns of moments inside a broker, as they happen.

A probe is called with the kind of moment ("lead", "high-watermark", ...), the partition, its leader epoch and an
offset. On real machines nothing is attached.
"""

from collections.abc import Callable

from syncline.model.ids import TopicPartition

Probe = Callable[[str, TopicPartition, int, int], None]


def no_probe(_kind: str, _key: TopicPartition, _leader_epoch: int, _offset: int) -> None:
    """Observe nothing."""
