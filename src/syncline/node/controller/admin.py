"""Administration: from a client's request to a decision, and from its answer to the reply.

The broker that received such a request forwards it to this one (FORWARD). `core`
decides; this module translates fields. Each topic or resource has an error of
its own in the reply; the request as a whole fails only if this broker is no
longer the controller.
"""

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from syncline.core.cluster.config_description import BrokerLayers, describe_topic
from syncline.core.cluster.decision import Decision, Why
from syncline.core.cluster.topics import (
    EXCESSIVE,
    METADATA_TOPIC,
    PARTITIONS_PER_REQUEST_MAX,
    MorePartitions,
    NewTopic,
    TopicReference,
    TopicResult,
    create_partitions,
    create_topics,
    delete_topics,
    requested_partitions,
)
from syncline.model.errors import ErrorCode
from syncline.model.metadata import NO_TOPIC_ID, Change, ConfigsChanged, MetadataImage, ProducerIdsAllocated
from syncline.model.reasons import Reason
from syncline.node.controller.active import ActiveController
from syncline.node.controller.admin_requests import AdminRequest, Fields, Reply, decide_in_parts, is_over
from syncline.node.loop.list_parts import in_independent_parts, in_parts, made_in_steps
from syncline.node.serving.request import Steps
from syncline.wire.api import ApiKey
from syncline.wire.rows import Rows, SharedRows

if TYPE_CHECKING:
    from syncline.core.cluster.leader_elections import ElectionResult

PRODUCER_ID_BLOCK: Final = 1_000
# Partitions, topics or configurations of one decision; more are decided in parts, each a few milliseconds' work.
DECIDED_AT_ONCE: Final = 25
KEYS_PER_RESOURCE: Final = 20
CHARS_PER_RESOURCE: Final = 4_096
ELECTED_AT_ONCE: Final = 200


def serve(controller: ActiveController, requested: AdminRequest, reply: Reply) -> Generator[None, None, bool]:
    """Decide on an administrative request, in steps; return False if the API key is not administrative."""
    server = SERVERS.get(requested.key)
    if server is None:
        return False
    steps = server(controller, requested, reply)
    if steps is not None:
        yield from steps
    return True


def _create_topics(controller: ActiveController, requested: AdminRequest, reply: Reply) -> Steps:
    request = requested.entity
    topics: list[NewTopic] = []
    for each in request.topics:
        topics.append((yield from _new_topic(each)))
        yield
    are_refused, is_excessive = yield from _judged(topics, controller)
    refusal: tuple[ErrorCode, str | None] | None = None
    if is_over(request) and not are_refused:
        refusal = ErrorCode.REQUEST_TIMED_OUT, None
    elif is_excessive:
        refusal = ErrorCode.POLICY_VIOLATION, EXCESSIVE
    if refusal is not None:
        code, message = refusal
        results = yield from made_in_steps(topics, lambda topic: TopicResult(topic.name, code, message))
        reply({"topics": Rows(results, lambda result: _created(result, None))})
        return
    described = _CreatedConfigs(controller, topics) if requested.version >= 5 else None

    def partitions_of(topic: NewTopic) -> int:
        return max(1, requested_partitions(topic, controller.config))

    parts = yield from in_independent_parts(
        topics, DECIDED_AT_ONCE, subject=lambda topic: topic.name, weight=partitions_of
    )

    def decide(part: Sequence[NewTopic], image: MetadataImage) -> Decision[tuple[TopicResult, ...]]:
        decision = create_topics(
            image,
            part,
            controller.config,
            below=controller.below,
            new_topic_id=controller.new_topic_id,
        )
        if described is not None:
            described.decided(image, decision.changes)
        return _only_validated(decision) if request.validate_only else decision

    def answered(results: list[TopicResult] | None) -> None:
        if results is None:
            reply(None)
            return
        # Each row has some thirty configurations inside: a hundred topics take too long for one call.
        parts = None if described is None else lambda result: _created(result, described)["configs"]
        reply({"topics": Rows(results, lambda result: _created(result, described), parts)})

    decide_in_parts(controller, requested, parts, decide, answered)


def _judged(topics: Sequence[NewTopic], controller: ActiveController) -> Generator[None, None, tuple[bool, bool]]:
    """Return whether every topic is refused by its name alone, and whether all together want too many partitions."""
    times = yield from _times(topic.name for topic in topics)
    wanted, are_refused = 0, True
    for topic in topics:
        if times[topic.name] == 1 and topic.name != METADATA_TOPIC:
            wanted += requested_partitions(topic, controller.config)
            are_refused = False
        yield
    return are_refused, wanted > PARTITIONS_PER_REQUEST_MAX


def _times(keys: Iterable[Hashable]) -> Generator[None, None, dict[Hashable, int]]:
    """Return how often a request names each of these: what it names twice is refused before its time counts."""
    times: dict[Hashable, int] = {}
    for key in keys:
        times[key] = times.get(key, 0) + 1
        yield
    return times


def _new_topic(topic: Any) -> Generator[None, None, NewTopic]:
    assignments = yield from made_in_steps(
        topic.assignments, lambda each: (int(each.partition_index), tuple(each.broker_ids))
    )
    configs = yield from made_in_steps(topic.configs, lambda each: (each.name, each.value))
    return NewTopic(
        str(topic.name), int(topic.num_partitions), int(topic.replication_factor), tuple(assignments), tuple(configs)
    )


class _CreatedConfigs:
    """The configurations of created topics, for the reply; most topics of a request have the same."""

    def __init__(self, controller: ActiveController, topics: Sequence[NewTopic]) -> None:
        self._static = controller.config.static
        self._sent = {topic.name: topic.configs for topic in topics if topic.configs}
        self._own: dict[str, Mapping[str, str | None]] = {}
        self._cluster: Mapping[str, str] = {}
        self._rows: dict[tuple[tuple[str, str | None], ...], SharedRows] = {}

    def decided(self, image: MetadataImage, changes: Iterable[Change]) -> None:
        """Record what a decision on `image` sets."""
        self._cluster = image.cluster_configs()
        for change in changes:
            if isinstance(change, ConfigsChanged):
                self._own[change.resource.name] = change.values

    def of(self, topic: str) -> SharedRows:
        """Return the rows of a topic; configurations that the client sent are echoed literally, as in Kafka."""
        sent = self._sent.get(topic, ())
        rows = self._rows.get(sent)
        if rows is None:
            own = {name: text for name, text in self._own.get(topic, {}).items() if text is not None}
            echoed = dict(sent)
            rows = self._rows[sent] = SharedRows(
                [
                    {
                        "name": entry.name,
                        "value": echoed.get(entry.name, entry.value),
                        "read_only": entry.read_only,
                        "config_source": int(entry.source),
                        "is_sensitive": entry.is_sensitive,
                    }
                    for entry in describe_topic(own, BrokerLayers(cluster=self._cluster, static=self._static))
                ]
            )
        return rows


def _created(result: TopicResult, described: _CreatedConfigs | None) -> Fields:
    """Return the row of one topic."""
    configs: SharedRows | tuple[()] = ()
    if described is not None and result.error is ErrorCode.NONE and result.name is not None:
        configs = described.of(result.name)
    return {
        "name": result.name,
        "topic_id": None if result.topic_id == NO_TOPIC_ID else result.topic_id,
        "error_code": result.error,
        "error_message": result.message,
        "num_partitions": result.partitions,
        "replication_factor": result.replication_factor,
        "configs": configs,
    }


def _delete_topics(controller: ActiveController, requested: AdminRequest, reply: Reply) -> Steps:
    request = requested.entity
    if requested.version >= 6:
        topics = yield from made_in_steps(
            request.topics, lambda each: TopicReference(each.name, each.topic_id or NO_TOPIC_ID)
        )
    else:
        topics = yield from made_in_steps(request.topic_names, lambda name: TopicReference(str(name)))

    times = yield from _times(topics)
    has_no_time = False
    for topic in topics if is_over(request) else ():
        if times[topic] == 1 and (topic.name is None) != (topic.topic_id == NO_TOPIC_ID):
            has_no_time = True
            break
        yield

    def subject(topic: TopicReference) -> Hashable:
        # One topic may be named by its name and by its id.
        return topic.name if topic.name is not None else controller.image.topic_names.get(topic.topic_id, topic)

    def decide(part: Sequence[TopicReference], image: MetadataImage) -> Decision[tuple[TopicResult, ...]]:
        if not controller.config.delete_topic_enable:
            code = ErrorCode.INVALID_REQUEST if requested.version < 3 else ErrorCode.TOPIC_DELETION_DISABLED
            return _refused_all(part, code)
        if has_no_time:
            return _refused_all(part, ErrorCode.REQUEST_TIMED_OUT)
        return delete_topics(image, part)

    def row(result: TopicResult) -> Fields:
        return {
            "name": result.name if requested.version >= 6 else result.name or "",
            "topic_id": None if result.topic_id == NO_TOPIC_ID else result.topic_id,
            "error_code": result.error,
            "error_message": result.message,
        }

    def answered(results: list[TopicResult] | None) -> None:
        reply(None if results is None else {"responses": Rows(results, row)})

    parts = yield from in_independent_parts(topics, DECIDED_AT_ONCE, subject=subject)
    decide_in_parts(controller, requested, parts, decide, answered)


def _refused_all(topics: Sequence[TopicReference], code: ErrorCode) -> Decision[tuple[TopicResult, ...]]:
    return Decision((), tuple(TopicResult(topic.name, code, None, topic.topic_id) for topic in topics))


def _create_partitions(controller: ActiveController, requested: AdminRequest, reply: Reply) -> Steps:
    request = requested.entity
    topics: list[MorePartitions] = []
    for topic in request.topics:
        assignments = None
        if topic.assignments is not None:
            assignments = tuple((yield from made_in_steps(topic.assignments, lambda each: tuple(each.broker_ids))))
        topics.append(MorePartitions(str(topic.name), int(topic.count), assignments))
        yield

    times = yield from _times(topic.name for topic in topics)
    has_no_time = is_over(request) and 1 in times.values()

    def decide(part: Sequence[MorePartitions], image: MetadataImage) -> Decision[tuple[TopicResult, ...]]:
        if has_no_time:
            return Decision((), tuple(TopicResult(topic.name, ErrorCode.REQUEST_TIMED_OUT) for topic in part))
        decision = create_partitions(image, part, below=controller.below)
        return _only_validated(decision) if request.validate_only else decision

    def row(result: TopicResult) -> Fields:
        return {"name": result.name, "error_code": result.error, "error_message": result.message}

    def answered(results: list[TopicResult] | None) -> None:
        reply(None if results is None else {"results": Rows(results, row)})

    parts = yield from in_independent_parts(topics, DECIDED_AT_ONCE, subject=lambda topic: topic.name)
    decide_in_parts(controller, requested, parts, decide, answered)


def _alter_configs(controller: ActiveController, requested: AdminRequest, reply: Reply) -> Steps:
    # Not at the top, as in `_elect_leaders`: the first request of most clusters creates a topic, and a client waits.
    from syncline.core.cluster.config_changes import KeyChange, Operation, ResourceChange, ResourceResult, alter_configs

    request = requested.entity
    replace = requested.key == ApiKey.ALTER_CONFIGS
    resources: list[ResourceChange] = []

    def change(each: Any) -> KeyChange:
        return KeyChange(each.name, Operation.SET if replace else int(each.config_operation), each.value)

    for resource in request.resources:
        keys = yield from made_in_steps(resource.configs, change)
        resources.append(ResourceChange(int(resource.resource_type), resource.resource_name, tuple(keys)))
        yield

    def decide(part: Sequence[ResourceChange], image: MetadataImage) -> Decision[tuple[ResourceResult, ...]]:
        decision = alter_configs(image, part, controller.config, receiver=requested.receiver, replace=replace)
        return _only_validated(decision) if request.validate_only else decision

    def row(result: ResourceResult) -> Fields:
        return {
            "error_code": result.error,
            "error_message": result.message,
            "resource_type": result.kind,
            "resource_name": result.name,
        }

    def answered(results: list[ResourceResult] | None) -> None:
        reply(None if results is None else {"responses": Rows(results, row)})

    def weight(resource: ResourceChange) -> int:
        # Of many keys, their number weighs.
        chars = sum(len(key.value or "") for key in resource.keys[:KEYS_PER_RESOURCE])
        return 1 + len(resource.keys) // KEYS_PER_RESOURCE + chars // CHARS_PER_RESOURCE

    parts = yield from in_independent_parts(
        resources,
        DECIDED_AT_ONCE,
        subject=lambda resource: resource.subject,
        weight=weight,
    )
    decide_in_parts(controller, requested, parts, decide, answered)


def _elect_leaders(controller: ActiveController, requested: AdminRequest, reply: Reply) -> Steps:
    from syncline.core.cluster.leader_elections import KINDS, ElectionResult, elect_leaders

    request = requested.entity
    wanted: list[tuple[str, Sequence[int]]] | None = None
    if request.topic_partitions is not None:
        wanted = []
        for each in request.topic_partitions:
            wanted.append((str(each.topic), tuple(map(int, each.partitions))))
            yield
    number = int(getattr(request, "election_type", 0))
    kind = KINDS.get(number)
    refusal: tuple[ErrorCode, str | None] | None = None
    if is_over(request):
        refusal = (ErrorCode.REQUEST_TIMED_OUT, None)
    elif kind is None and wanted != []:
        refusal = (ErrorCode.INVALID_REQUEST, f"Unknown election type {number}")
    if refusal is not None or kind is None:
        code, text = refusal or (ErrorCode.NONE, None)
        results: list[ElectionResult] = []
        for name, indexes in wanted or ():
            for index in indexes:
                results.append(ElectionResult(name, index, code, text))
                yield
            yield
        reply(_elected(code, results, wanted))
        return

    def decide(part: Sequence[tuple[str, Sequence[int]]], image: MetadataImage) -> Decision[tuple[ElectionResult, ...]]:
        return elect_leaders(image, controller.config, kind, None if wanted is None else part)

    def answered(results: list[ElectionResult] | None) -> None:
        if results is None:
            reply(None)
            return
        topics: Sequence[tuple[str, Sequence[int] | None]]
        topics = [(name, None) for name in controller.image.topics] if wanted is None else wanted
        reply(_elected(ErrorCode.NONE, results, topics))

    part: list[tuple[str, Sequence[int]]] = []
    parts, part_weight = [part], 0
    for name, indexes in wanted or ():
        # Elections are independent of each other, whatever is repeated.
        for some in in_parts(indexes, ELECTED_AT_ONCE):
            # A topic without partitions takes time, too.
            weight = max(1, len(some))
            if part_weight + weight > ELECTED_AT_ONCE:
                part, part_weight = [], 0
                parts.append(part)
            part.append((name, some))
            part_weight += weight
            yield
    decide_in_parts(controller, requested, parts, decide, answered)


def _elected(
    code: ErrorCode,
    results: "Sequence[ElectionResult]",
    topics: Sequence[tuple[str, Sequence[int] | None]] | None,
) -> Fields:
    """Return the reply: a row for each requested topic, empty where there is no result."""
    begin, count = 0, len(results)

    def row(topic: tuple[str, Sequence[int] | None]) -> Fields:
        # Rows are made once each and in order, as the results are.
        nonlocal begin
        name, indexes = topic
        end, end_max = begin, count if indexes is None else min(count, begin + len(indexes))
        while end < end_max and results[end].topic == name:
            end += 1
        own, begin = results[begin:end], end
        return {"topic": name, "partition_result": Rows(own, _election)}

    rows = Rows(topics or (), row, lambda topic: topic[1] or ())
    return {"error_code": code, "replica_election_results": rows}


def _election(result: "ElectionResult") -> Fields:
    return {"partition_id": result.partition, "error_code": result.error, "error_message": result.message}


def _describe_quorum(controller: ActiveController, requested: AdminRequest, reply: Reply) -> Steps:
    from syncline.node.controller.quorum import describe

    reply((yield from describe(controller, requested.entity.topics)))


def _allocate_producer_ids(controller: ActiveController, _requested: AdminRequest, reply: Reply) -> None:
    def decide(image: MetadataImage, _version: int) -> Decision[int]:
        first = image.next_producer_id
        changes = (ProducerIdsAllocated(first + PRODUCER_ID_BLOCK),)
        return Decision(changes, first, Why(Reason.PRODUCER_IDS_ALLOCATED))

    def answer(first: int | None) -> None:
        if first is None:
            reply(None)
            return
        reply({"error_code": ErrorCode.NONE, "producer_id_start": first, "producer_id_len": PRODUCER_ID_BLOCK})

    controller.decide(decide, answer)


def _only_validated(decision: Decision[Any]) -> Decision[Any]:
    return Decision((), decision.answer)


def _alter_reassignments(controller: ActiveController, requested: AdminRequest, reply: Reply) -> Steps:
    from syncline.node.controller.reassignments import alter

    yield from alter(controller, requested, reply)


def _list_reassignments(controller: ActiveController, requested: AdminRequest, reply: Reply) -> Steps:
    from syncline.node.controller.reassignments import list_all

    yield from list_all(controller, requested, reply)


SERVERS: Final[dict[ApiKey, Callable[[ActiveController, AdminRequest, Reply], Steps | None]]] = {
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _alter_configs,
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _alter_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _list_reassignments,
    ApiKey.DESCRIBE_QUORUM: _describe_quorum,
    ApiKey.ALLOCATE_PRODUCER_IDS: _allocate_producer_ids,
}
