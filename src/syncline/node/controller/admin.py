"""Administration: from a client's request to a decision, and from its answer to the reply.

The broker that received such a request forwards it to this one (FORWARD). `core`
decides; this module translates fields. Each topic or resource has an error of
its own in the reply; the request as a whole fails only if this broker is no
longer the controller.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from syncline.core.cluster.config_changes import KeyChange, Operation, ResourceChange, ResourceResult, alter_configs
from syncline.core.cluster.config_description import BrokerLayers, describe_topic
from syncline.core.cluster.decision import Decision, Why
from syncline.core.cluster.leader_elections import KINDS, ElectionResult, elect_leaders
from syncline.core.cluster.topics import (
    MorePartitions,
    NewTopic,
    TopicReference,
    TopicResult,
    create_partitions,
    create_topics,
    delete_topics,
)
from syncline.model.errors import ErrorCode
from syncline.model.ids import BrokerId
from syncline.model.metadata import NO_TOPIC_ID, MetadataImage, ProducerIdsAllocated
from syncline.model.reasons import Reason
from syncline.node.controller.active import ActiveController
from syncline.wire.api import ApiKey
from syncline.wire.codec import response_type
from syncline.wire.entities import build

PRODUCER_ID_BLOCK: Final = 1_000


class AdminRequest(NamedTuple):
    """A decoded request, and the broker that the client sent it to."""

    key: ApiKey
    version: int
    receiver: BrokerId
    entity: Any

    def reply_with(self, fields: dict[str, Any]) -> Any:
        """Return the reply entity of this request's version."""
        return build(response_type(self.key, self.version), {"throttle_time": 0, **fields})


# Called with the reply entity, or None when this broker is not the controller.
Reply = Callable[[Any], None]


def serve(controller: ActiveController, requested: AdminRequest, reply: Reply) -> bool:
    """Decide on an administrative request; return False if the API key is not administrative."""
    server = SERVERS.get(requested.key)
    if server is None:
        return False
    server(controller, requested, reply)
    return True


def _create_topics(controller: ActiveController, requested: AdminRequest, reply: Reply) -> None:
    request = requested.entity
    topics = [_new_topic(topic) for topic in request.topics]
    if _is_over(request):
        results = tuple(TopicResult(topic.name, ErrorCode.REQUEST_TIMED_OUT) for topic in topics)
        reply(requested.reply_with({"topics": [_created(result, None, controller, {}) for result in results]}))
        return
    created: dict[str, MetadataImage] = {}
    sent = {topic.name: dict(topic.configs) for topic in topics}

    def decide(image: MetadataImage, version: int) -> Decision[tuple[TopicResult, ...]]:
        decision = create_topics(
            image, topics, controller.config, below=controller.below, new_topic_id=controller.new_topic_id
        )
        created["image"] = image.apply(decision.changes, version)
        return _only_validated(decision) if request.validate_only else decision

    def answer(results: tuple[TopicResult, ...] | None) -> None:
        if results is None:
            reply(None)
            return
        image = created["image"] if requested.version >= 5 else None
        rows = [_created(result, image, controller, sent.get(result.name or "", {})) for result in results]
        reply(requested.reply_with({"topics": rows}))

    controller.decide(decide, answer)


def _new_topic(topic: Any) -> NewTopic:
    return NewTopic(
        str(topic.name),
        int(topic.num_partitions),
        int(topic.replication_factor),
        tuple((int(each.partition_index), tuple(each.broker_ids)) for each in topic.assignments),
        tuple((each.name, each.value) for each in topic.configs),
    )


def _created(
    result: TopicResult, image: MetadataImage | None, controller: ActiveController, sent: Mapping[str, str | None]
) -> dict[str, Any]:
    """Return the row of one topic; configurations that the client `sent` are echoed literally, as in Kafka."""
    row: dict[str, Any] = {
        "name": result.name,
        "topic_id": None if result.topic_id == NO_TOPIC_ID else result.topic_id,
        "error_code": result.error,
        "error_message": result.message,
        "num_partitions": result.partitions,
        "replication_factor": result.replication_factor,
        "configs": (),
    }
    if image is not None and result.error is ErrorCode.NONE and result.name is not None:
        layers = BrokerLayers(cluster=image.cluster_configs(), static=controller.config.static)
        row["configs"] = [
            {
                "name": entry.name,
                "value": sent.get(entry.name, entry.value),
                "read_only": entry.read_only,
                "config_source": int(entry.source),
                "is_sensitive": entry.is_sensitive,
            }
            for entry in describe_topic(image.topic_configs(result.name), layers)
        ]
    return row


def _delete_topics(controller: ActiveController, requested: AdminRequest, reply: Reply) -> None:
    request = requested.entity
    if requested.version >= 6:
        topics = [TopicReference(each.name, each.topic_id or NO_TOPIC_ID) for each in request.topics]
    else:
        topics = [TopicReference(str(name)) for name in request.topic_names]

    def decide(image: MetadataImage, _version: int) -> Decision[tuple[TopicResult, ...]]:
        if _is_over(request):
            return _refused_all(topics, ErrorCode.REQUEST_TIMED_OUT)
        if not controller.config.delete_topic_enable:
            code = ErrorCode.INVALID_REQUEST if requested.version < 3 else ErrorCode.TOPIC_DELETION_DISABLED
            return _refused_all(topics, code)
        return delete_topics(image, topics)

    def answer(results: tuple[TopicResult, ...] | None) -> None:
        if results is None:
            reply(None)
            return
        rows = [
            {
                "name": result.name if requested.version >= 6 else result.name or "",
                "topic_id": None if result.topic_id == NO_TOPIC_ID else result.topic_id,
                "error_code": result.error,
                "error_message": result.message,
            }
            for result in results
        ]
        reply(requested.reply_with({"responses": rows}))

    controller.decide(decide, answer)


def _refused_all(topics: Sequence[TopicReference], code: ErrorCode) -> Decision[tuple[TopicResult, ...]]:
    return Decision((), tuple(TopicResult(topic.name, code, None, topic.topic_id) for topic in topics))


def _create_partitions(controller: ActiveController, requested: AdminRequest, reply: Reply) -> None:
    request = requested.entity
    topics = [
        MorePartitions(
            str(topic.name),
            int(topic.count),
            None if topic.assignments is None else tuple(tuple(each.broker_ids) for each in topic.assignments),
        )
        for topic in request.topics
    ]

    def decide(image: MetadataImage, _version: int) -> Decision[tuple[TopicResult, ...]]:
        if _is_over(request):
            return Decision((), tuple(TopicResult(topic.name, ErrorCode.REQUEST_TIMED_OUT) for topic in topics))
        decision = create_partitions(image, topics, below=controller.below)
        return _only_validated(decision) if request.validate_only else decision

    def answer(results: tuple[TopicResult, ...] | None) -> None:
        if results is None:
            reply(None)
            return
        rows = [
            {"name": result.name, "error_code": result.error, "error_message": result.message} for result in results
        ]
        reply(requested.reply_with({"results": rows}))

    controller.decide(decide, answer)


def _alter_configs(controller: ActiveController, requested: AdminRequest, reply: Reply) -> None:
    request = requested.entity
    replace = requested.key == ApiKey.ALTER_CONFIGS
    resources = [
        ResourceChange(
            int(resource.resource_type),
            resource.resource_name,
            tuple(
                KeyChange(each.name, Operation.SET if replace else int(each.config_operation), each.value)
                for each in resource.configs
            ),
        )
        for resource in request.resources
    ]

    def decide(image: MetadataImage, _version: int) -> Decision[tuple[ResourceResult, ...]]:
        decision = alter_configs(image, resources, controller.config, receiver=requested.receiver, replace=replace)
        return _only_validated(decision) if request.validate_only else decision

    def answer(results: tuple[ResourceResult, ...] | None) -> None:
        if results is None:
            reply(None)
            return
        rows = [
            {
                "error_code": result.error,
                "error_message": result.message,
                "resource_type": result.kind,
                "resource_name": result.name,
            }
            for result in results
        ]
        reply(requested.reply_with({"responses": rows}))

    controller.decide(decide, answer)


def _elect_leaders(controller: ActiveController, requested: AdminRequest, reply: Reply) -> None:
    request = requested.entity
    wanted = None
    if request.topic_partitions is not None:
        wanted = [(str(each.topic), tuple(map(int, each.partitions))) for each in request.topic_partitions]
    number = int(getattr(request, "election_type", 0))
    kind = KINDS.get(number)
    refusal: tuple[ErrorCode, str | None] | None = None
    if _is_over(request):
        refusal = (ErrorCode.REQUEST_TIMED_OUT, None)
    elif kind is None and wanted != []:
        refusal = (ErrorCode.INVALID_REQUEST, f"Unknown election type {number}")
    if refusal is not None or kind is None:
        code, text = refusal or (ErrorCode.NONE, None)
        results = [ElectionResult(name, index, code, text) for name, indexes in wanted or () for index in indexes]
        reply(_elected(requested, code, results, wanted))
        return

    def decide(image: MetadataImage, _version: int) -> Decision[tuple[ElectionResult, ...]]:
        return elect_leaders(image, controller.config, kind, wanted)

    def answer(results: tuple[ElectionResult, ...] | None) -> None:
        if results is None:
            reply(None)
            return
        topics: Sequence[tuple[str, Sequence[int] | None]]
        topics = [(name, None) for name in controller.image.topics] if wanted is None else wanted
        reply(_elected(requested, ErrorCode.NONE, results, topics))

    controller.decide(decide, answer)


def _elected(
    requested: AdminRequest,
    code: ErrorCode,
    results: Sequence[ElectionResult],
    topics: Sequence[tuple[str, Sequence[int] | None]] | None,
) -> Any:
    """Return the reply: a row for each requested topic, empty where there is no result."""
    rows = []
    rest = deque(results)
    for name, indexes in topics or ():
        own: list[dict[str, Any]] = []
        while rest and rest[0].topic == name and (indexes is None or len(own) < len(indexes)):
            result = rest.popleft()
            own.append({"partition_id": result.partition, "error_code": result.error, "error_message": result.message})
        rows.append({"topic": name, "partition_result": own})
    return requested.reply_with({"error_code": code, "replica_election_results": rows})


def _describe_quorum(controller: ActiveController, requested: AdminRequest, reply: Reply) -> None:
    from syncline.node.controller.quorum import describe

    reply(requested.reply_with(describe(controller, requested.entity.topics)))


def _allocate_producer_ids(controller: ActiveController, requested: AdminRequest, reply: Reply) -> None:
    def decide(image: MetadataImage, _version: int) -> Decision[int]:
        first = image.next_producer_id
        changes = (ProducerIdsAllocated(first + PRODUCER_ID_BLOCK),)
        return Decision(changes, first, Why(Reason.PRODUCER_IDS_ALLOCATED))

    def answer(first: int | None) -> None:
        if first is None:
            reply(None)
            return
        fields = {"error_code": ErrorCode.NONE, "producer_id_start": first, "producer_id_len": PRODUCER_ID_BLOCK}
        reply(requested.reply_with(fields))

    controller.decide(decide, answer)


def _only_validated(decision: Decision[Any]) -> Decision[Any]:
    return Decision((), decision.answer)


def _is_over(request: Any) -> bool:
    """Return whether the request's time-out leaves no time; then it has no effect."""
    return bool(request.timeout.total_seconds() <= 0)


SERVERS: Final[dict[ApiKey, Callable[[ActiveController, AdminRequest, Reply], None]]] = {
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _alter_configs,
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.DESCRIBE_QUORUM: _describe_quorum,
    ApiKey.ALLOCATE_PRODUCER_IDS: _allocate_producer_ids,
}
