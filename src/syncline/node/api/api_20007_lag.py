"""Lag (private key 20007), version 0, between brokers only.

A group's coordinator asks where partitions of this leader end, where the offsets lie that the group has committed, and
who reads (`lag.messages` has the format). Each partition is measured in one step, so that its numbers belong together.
Places that are not in memory are looked up by workers, a bounded number of them and not for long; what is not found is
missing in the answer.
"""

from typing import TYPE_CHECKING, Protocol

from syncline.model.ids import TopicPartition
from syncline.node.lag.answering import Measured, ToldReaders, answer_partition, completed, no_readers
from syncline.node.lag.messages import AnsweredPartition, decode_request, encode_head, encode_partition
from syncline.wire.api import ApiKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.model.ids import BrokerEpoch
    from syncline.node.lag.on_demand import LagOnDemand
    from syncline.node.serving.request import Request, Steps
    from syncline.node.views.parts import HasPartitions, RunsTasks
    from syncline.node.views.values import HasBrokerId, HasClock, HasImage

    class Host(HasBrokerId, HasClock, HasImage, HasPartitions, RunsTasks, Protocol):
        """What this handler uses of its broker."""

        @property
        def broker_epoch(self) -> BrokerEpoch:
            """Return the epoch of this process's registration."""

        @property
        def lag(self) -> LagOnDemand:
            """Return what measures lag."""


KEY = ApiKey.LAG


def handle(broker: "Host", request: "Request") -> "Steps":
    """Measure one partition after the other, then wait for what workers find."""
    asked = yield from decode_request(request.body, request.position)
    readers = ToldReaders(broker.lag.positions, broker.clock.mono_ms) if asked.with_readers else no_readers
    measured: list[Measured] = []
    for each in asked.partitions:
        key = TopicPartition(broker.image.topic_names.get(each.topic_id, ""), each.partition)
        partition = broker.partitions.get(key)
        if partition is not None and partition.topic_id != each.topic_id:
            partition = None
        measured.append(
            answer_partition(
                partition,
                each,
                broker_id=broker.broker_id,
                wall_ms=broker.clock.wall_ms,
                is_exact=asked.is_exact,
                readers=readers,
            )
        )
        yield
    if any(each.searches for each in measured):
        broker.spawn(_complete(broker, request, measured))
    else:
        yield from _answer(broker, request, [each.answered for each in measured])


async def _complete(broker: "Host", request: "Request", measured: "Sequence[Measured]") -> None:
    """Answer when workers have found the places that are not in memory, or it takes too long."""
    answered = await completed(measured, broker.lag.disk)
    if not request.is_done:
        request.step(_answer(broker, request, answered))


def _answer(broker: "Host", request: "Request", answered: "Sequence[AnsweredPartition]") -> "Steps":
    parts = [encode_head(broker.broker_epoch, len(answered))]
    for each in answered:
        parts.append(encode_partition(each))
        yield
    request.reply_parts((b"".join(parts),))
