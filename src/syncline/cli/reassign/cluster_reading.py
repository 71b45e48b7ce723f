"""What a cluster is, for plans of moves: brokers, partitions, moves, and what each broker has on its disk."""

import time
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from syncline.cli.cluster_configs import BROKER
from syncline.cli.direct import BrokerSilentError, Direct, refuse_errors
from syncline.cli.screen import warn
from syncline.local.layout import LocalClusterError
from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE, TopicPartition
from syncline.reassign.cluster_state import BrokerState, ClusterState, MoveState, PartitionState
from syncline.reassign.log_dir_states import Copies, Place
from syncline.reassign.move_map import Running
from syncline.reassign.plan_file import Target
from syncline.reassign.throttle_state import QUOTA_MODE
from syncline.wire.api import ApiKey

_TIMEOUT_MS: Final = 30_000
_SETTLES_S: Final = 1.0
_AGAIN_S: Final = 0.1


def read_cluster(
    cluster: Direct,
    topics: Collection[str] | None = None,
    *,
    with_sizes: bool = False,
    only_moving: bool = False,
) -> ClusterState:
    """Return the state of a cluster: of all topics, of these alone, or of those that move; unknown ones are missing.

    Sizes take a request to every broker; one that does not answer has none, and is silent. Raises LocalClusterError.
    """
    # Moves first: one that ends between the two answers still runs here. The other way round it would have ended
    # elsewhere. That may also seem so because the controller says what moves, and any broker what it has applied.
    running, move_of, moves = read_moves(cluster)
    if only_moving:
        topics = {key.topic for key in running}
    asked = None if topics is None else [{"topic_id": None, "name": name} for name in sorted(topics)]
    answer = cluster.ask(
        ApiKey.METADATA,
        {"topics": asked, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False},
    )
    brokers = {
        int(each.node_id): BrokerState(str(each.host), int(each.port), each.rack)
        for each in sorted(answer.brokers, key=lambda each: int(each.node_id))
    }
    cluster.learn({broker: (state.host, state.port) for broker, state in brokers.items()})
    partitions = {
        TopicPartition(str(topic.name), int(each.partition_index)): PartitionState(
            tuple(map(int, each.replica_nodes)), tuple(map(int, each.isr_nodes)), int(each.leader_id)
        )
        for topic in answer.topics
        if not int(topic.error_code)
        for each in topic.partitions
    }
    state = ClusterState(
        time.monotonic_ns() // 1_000_000,
        brokers,
        dict(sorted(partitions.items())),
        running,
        {},
        owns_throttles=bool(moves) or _owns_throttles(cluster, brokers),
        moves=moves,
        move_of=move_of,
    )
    return _with_sizes(cluster, state) if with_sizes else state


def read_ended(cluster: Direct, targets: Sequence[Target], *, with_sizes: bool = False) -> ClusterState:
    """Return the state of the targets' topics, to judge how moves ended.

    A broker applies what the controller decided some time later, so what seems to have ended elsewhere is looked at
    again for up to a second. Raises LocalClusterError.
    """
    topics = {target.key.topic for target in targets}
    deadline_s = time.monotonic() + _SETTLES_S
    while True:
        state = read_cluster(cluster, topics, with_sizes=with_sizes)
        replicas = state.replicas()
        is_clear = all(each.key in state.running or replicas.get(each.key) == each.replicas for each in targets)
        if is_clear or time.monotonic() > deadline_s:
            return state
        time.sleep(_AGAIN_S)


def read_moves(
    cluster: Direct,
) -> tuple[dict[TopicPartition, Running], dict[TopicPartition, str], dict[str, MoveState]]:
    """Return what moves, whose move it is, and the moves; Apache Kafka has no moves."""
    answer = cluster.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, {"timeout": _TIMEOUT_MS, "topics": None})
    refuse_errors("cannot list reassignments", int(answer.error_code), answer.error_message)
    running = {}
    move_of = {}
    for topic in answer.topics:
        for each in topic.partitions:
            key = TopicPartition(str(topic.name), int(each.partition_index))
            running[key] = Running(
                tuple(map(int, each.replicas)),
                tuple(map(int, each.adding_replicas)),
                tuple(map(int, each.removing_replicas)),
            )
            if each.move_id:
                move_of[key] = str(each.move_id)
    moves = {
        str(each.move_id): MoveState(
            str(each.move_id),
            str(each.name),
            int(each.throttle),
            int(each.started_ms),
            str(each.control),
            int(each.deadline_ms),
            int(each.impact_percent),
        )
        for each in answer.moves
    }
    return dict(sorted(running.items())), move_of, moves


def warn_of_silent(state: ClusterState) -> None:
    """Say which brokers gave no sizes, and what stands in for them."""
    for broker, known in state.brokers.items():
        if known.is_silent:
            warn(
                f"broker {broker} does not answer: its free space is unknown, and its replicas count as large as their "
                "largest copies elsewhere"
            )


def require_brokers(state: ClusterState, brokers: Iterable[int]) -> None:
    """Raise `LocalClusterError` for the first broker that does not run, in the tool's words."""
    for broker in brokers:
        if broker not in state.brokers:
            raise LocalClusterError(f"Unknown broker id {broker}")


def require_partitions(state: ClusterState, keys: Iterable[TopicPartition]) -> None:
    """Raise `LocalClusterError` for partitions that do not exist, in the tool's words."""
    missing = [str(key) for key in sorted(keys) if key not in state.partitions]
    if missing:
        raise LocalClusterError(f"Unable to find partition: {','.join(missing)}")


def _owns_throttles(cluster: Direct, brokers: Iterable[int]) -> bool:
    """Return whether moves own their throttles: brokers of such a cluster have a configuration that Kafka's lack."""
    for broker in sorted(brokers, key=cluster.is_late):
        asked = {"resource_type": BROKER, "resource_name": str(broker), "configuration_keys": [QUOTA_MODE]}
        fields = {"resources": [asked], "include_synonyms": False, "include_documentation": False}
        try:
            answer = cluster.ask_broker(broker, ApiKey.DESCRIBE_CONFIGS, fields)
        except BrokerSilentError:
            continue
        return any(str(entry.name) == QUOTA_MODE for result in answer.results for entry in result.configs)
    return False


def _with_sizes(cluster: Direct, state: ClusterState) -> ClusterState:
    topics: dict[str, list[int]] = {}
    for key in state.partitions:
        topics.setdefault(key.topic, []).append(key.partition)
    fields = {"topics": [{"topic": topic, "partitions": indexes} for topic, indexes in topics.items()]}
    sizes: dict[Place, int] = {}
    log_dirs: dict[Place, Copies] = {}
    answers = cluster.ask_brokers(state.brokers, ApiKey.DESCRIBE_LOG_DIRS, fields)
    if len(answers) < len(state.brokers):
        # While one was waited for, the others went on: the sizes of a look must be of one moment, or rates are wrong.
        answers = cluster.ask_brokers(answers, ApiKey.DESCRIBE_LOG_DIRS, fields)
    brokers = {broker: known._replace(is_silent=broker not in answers) for broker, known in state.brokers.items()}
    failed = set()
    for broker, answer in answers.items():
        usable_bytes = -1
        directories = []
        for directory in answer.results:
            if int(directory.error_code) == ErrorCode.KAFKA_STORAGE_ERROR:
                failed.add(broker)
            if int(directory.error_code):
                continue
            directories.append(str(directory.log_dir))
            usable_bytes = max(usable_bytes, int(getattr(directory, "usable_bytes", -1)))
            _take(broker, directory, sizes, log_dirs)
        brokers[broker] = brokers[broker]._replace(
            usable_bytes=usable_bytes,
            directories=tuple(directories),
            nothing_received_s=_seconds(getattr(answer, "nothing_received_ms", NONE)),
            nothing_sent_s=_seconds(getattr(answer, "nothing_sent_ms", NONE)),
        )
    return state._replace(
        at_ms=time.monotonic_ns() // 1_000_000,
        brokers=brokers,
        sizes=sizes,
        log_dirs=log_dirs,
        failed_directories=frozenset(failed),
    )


def _seconds(duration_ms: int) -> float | None:
    return None if duration_ms == NONE else duration_ms / 1000


def _take(broker: int, directory: Any, sizes: dict[Place, int], log_dirs: dict[Place, Copies]) -> None:
    path = str(directory.log_dir)
    for topic in directory.topics:
        for each in topic.partitions:
            place = Place(TopicPartition(str(topic.name), int(each.partition_index)), broker)
            copies = log_dirs.get(place)
            if each.is_future_key:
                log_dirs[place] = Copies("" if copies is None else copies.current, path)
            else:
                log_dirs[place] = Copies(path, "" if copies is None else copies.future)
                sizes[place] = int(each.partition_size)
