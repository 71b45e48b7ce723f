"""Where offsets lie, for tools on this machine: a verb of the control API.

    lag.places   topic, partition, offsets   -> ends of the partition; places: one per offset, null where there is no
                                                record, or where it was not found in time

The partition's leader answers; another broker says so in `standing`, with Kafka's name of the error. The place of an
offset below the log start is that of the first record that still exists.
Units as in `model.lag`; null is unknown.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from syncline.model.errors import ErrorCode
from syncline.model.ids import Offset, TopicPartition
from syncline.model.lag import UNKNOWN, OffsetPlace, PartitionEnds
from syncline.node.control.verbs import ControlRefused
from syncline.node.lag.answering import answer_partition, completed
from syncline.node.lag.messages import STEP_OFFSETS_MAX, AskedPartition

if TYPE_CHECKING:
    from syncline.node.lag.on_demand import LagOnDemand
    from syncline.node.views.parts import HasPartitions
    from syncline.node.views.values import HasBrokerId, HasClock

    class Host(HasBrokerId, HasClock, HasPartitions, Protocol):
        """What this verb uses of its broker."""

        @property
        def lag(self) -> LagOnDemand:
            """Return what measures lag."""


Answer = dict[str, Any]


async def places(broker: "Host", fields: Mapping[str, Any]) -> Answer:
    """Return where a partition of this leader ends, and where offsets lie in it."""
    topic, index, offsets = fields.get("topic"), fields.get("partition"), fields.get("offsets")
    if not isinstance(topic, str) or not isinstance(index, int):
        raise ControlRefused('a partition is named by "topic" (text) and "partition" (number).')
    if not isinstance(offsets, list) or not all(isinstance(each, int) and 0 <= each < 2**63 for each in offsets):
        raise ControlRefused('"offsets" is a list of offsets from 0 on.')
    if len(offsets) > STEP_OFFSETS_MAX:
        raise ControlRefused(f"at most {STEP_OFFSETS_MAX} offsets are looked up at once, not {len(offsets)}.")
    partition = broker.partitions.get(TopicPartition(topic, index))
    if partition is None:
        return {"broker": broker.broker_id, "standing": ErrorCode.NOT_LEADER_OR_FOLLOWER.name}
    asked = AskedPartition(partition.topic_id, index, partition.leader_epoch, tuple(map(Offset, offsets)))
    measured = answer_partition(
        partition, asked, broker_id=broker.broker_id, wall_ms=broker.clock.wall_ms, is_exact=True
    )
    (answered,) = await completed([measured], broker.lag.disk)
    return {
        "broker": broker.broker_id,
        "standing": answered.error.name,
        "ends": None if answered.ends is None else _ends(answered.ends),
        "places": [None if each is None else _place(each) for each in answered.places],
    }


def _ends(ends: PartitionEnds) -> Answer:
    return {
        "at_ms": ends.at_ms,
        "log_start": ends.log_start,
        "high_watermark": ends.high_watermark,
        "log_end": ends.log_end,
        "end_bytes": ends.end_bytes,
        "newest_event_ms": _known(ends.newest_event_ms),
        "readable_below_watermark": _known(ends.readable_below_watermark),
    }


def _place(place: OffsetPlace) -> Answer:
    return {
        "offset": place.offset,
        "coordinate_bytes": place.coordinate_bytes,
        "append_ms": _known(place.append_ms),
        "event_ms": _known(place.event_ms),
        "readable_before": _known(place.readable_before),
        "kept_until_ms": _known(place.kept_until_ms),
        "is_estimated": place.is_estimated,
    }


def _known(number: int) -> int | None:
    return None if number == UNKNOWN else number
