"""AlterPartition (key 56), versions 2-3, between brokers only.

v2 topic ids, v3 broker epochs with the ISR (KIP-903), and a tagged field of our
own with which a leader relinquishes a partition (KIP-501; `wire.alter_partition_v3`).
A leader proposes its in-sync set to the active controller.
"""

from typing import TYPE_CHECKING, Any

from syncline.core.cluster.alter_partition import AlterPartitionAnswer, IsrRequest, IsrResult, alter_partition
from syncline.core.cluster.decision import Decision
from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE, BrokerId, LeaderEpoch, PartitionEpoch
from syncline.model.metadata import NO_TOPIC_ID, MetadataImage, Recovery
from syncline.wire.api import ApiKey
from syncline.wire.codec import response_type
from syncline.wire.entities import build

if TYPE_CHECKING:
    from syncline.node.serving.request import Request
    from syncline.node.views.parts import MayBeController

KEY = ApiKey.ALTER_PARTITION


def handle(broker: "MayBeController", request: "Request") -> None:
    """Decide, and answer when the decision is committed."""
    active = broker.controller.active
    asked = request.decode()

    def answered(answer: AlterPartitionAnswer | None) -> None:
        request.reply(_reply(request.version, answer or AlterPartitionAnswer(ErrorCode.NOT_CONTROLLER)))

    sender = BrokerId(int(asked.broker_id))
    if active is None or not active.registrations.is_current(sender, request.connection):
        answered(None)
        return
    requests = [_isr_request(topic, row, request.version) for topic in asked.topics for row in topic.partitions]

    def decide(image: MetadataImage, _version: int) -> Decision[AlterPartitionAnswer]:
        return alter_partition(
            image,
            sender,
            int(asked.broker_epoch),
            requests,
            active.config,
            demotions=active.demotions,
            now_ms=active.clock.mono_ms(),
        )

    active.decide(decide, answered, proposed_by_leader=True)


def _isr_request(topic: Any, row: Any, version: int) -> IsrRequest:
    if version >= 3:
        isr = tuple((BrokerId(int(each.broker_id)), int(each.broker_epoch)) for each in row.new_isr_with_epochs)
    else:
        isr = tuple((BrokerId(int(broker)), NONE) for broker in row.new_isr)
    return IsrRequest(
        topic.topic_id or NO_TOPIC_ID,
        int(row.partition_index),
        LeaderEpoch(int(row.leader_epoch)),
        PartitionEpoch(int(row.partition_epoch)),
        isr,
        Recovery(int(row.leader_recovery_state)),
        bool(getattr(row, "relinquish", False)),
    )


def _reply(version: int, answer: AlterPartitionAnswer) -> Any:
    topics: dict[Any, list[dict[str, Any]]] = {}
    for result in answer.results:
        topics.setdefault(result.topic_id, []).append(_row(result))
    fields = {
        "throttle_time": 0,
        "error_code": answer.error,
        "topics": [{"topic_id": topic_id, "partitions": rows} for topic_id, rows in topics.items()],
    }
    return build(response_type(KEY, version), fields)


def _row(result: IsrResult) -> dict[str, Any]:
    state = result.state
    known = state is not None and result.error is ErrorCode.NONE
    return {
        "partition_index": result.partition,
        "error_code": result.error,
        "leader_id": state.leader if known and state is not None else NONE,
        "leader_epoch": state.leader_epoch if known and state is not None else NONE,
        "isr": state.isr if known and state is not None else (),
        "leader_recovery_state": int(state.recovery) if known and state is not None else 0,
        "partition_epoch": state.partition_epoch if known and state is not None else NONE,
    }
