"""Requests that start, change and cancel moves, in either kind of cluster.

Where moves own their throttles, one request says everything, and all of it happens or nothing. In Apache Kafka the
throttle is configurations, set before the request in the order of its tool: lists, then rates, then the move, so that
no byte moves unthrottled. If then a partition is refused, or a request fails, the lists and rates that nothing needs
are again what they were before.
"""

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from syncline.cli.direct import Direct, error_text, refuse_errors
from syncline.cli.reassign.cluster_reading import read_cluster
from syncline.cli.reassign.throttle_configs import read_throttles, set_lists, set_rates
from syncline.cli.signals import undisturbed
from syncline.local.layout import LocalClusterError
from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE, TopicPartition
from syncline.reassign.cluster_state import ClusterState
from syncline.reassign.log_dir_states import Place
from syncline.reassign.move_map import Movement, brokers_of, follower_lists, leader_lists, movements
from syncline.reassign.plan_file import Target
from syncline.reassign.throttle_state import FOLLOWER_LIST, FOLLOWER_RATE, LEADER_LIST, LEADER_RATE, LISTS, Throttles
from syncline.wire.api import ApiKey

TWO_GOALS: Final = "--deadline and --max-client-impact both control the rate: give one of them."
_TIMEOUT_MS: Final = 60_000
_AGAIN_S: Final = 0.1


class Throttle(NamedTuple):
    """What bounds a move, and by what its command adapts the bound; NONE and "" for neither."""

    bytes_per_s: int = NONE
    control: str = ""
    deadline_ms: int = NONE
    impact_percent: int = NONE


class Goal(NamedTuple):
    """To what a command adapts the rate: a deadline (Unix ms), or by how much longer clients may wait.

    `link_bytes_per_s` is what a broker can carry in one direction, if somebody knows it.
    """

    deadline_ms: int = NONE
    impact_percent: int = NONE
    link_bytes_per_s: int = NONE

    def throttle(self, bytes_per_s: int) -> Throttle:
        """Return the throttle of a move with this goal."""
        if self.deadline_ms != NONE:
            return Throttle(bytes_per_s, "deadline", deadline_ms=self.deadline_ms)
        if self.impact_percent != NONE:
            return Throttle(bytes_per_s, "impact", impact_percent=self.impact_percent)
        return Throttle(bytes_per_s)


class Outcome(NamedTuple):
    """What became of a request: the refused partitions with the reason, and the id of the move if it is one.

    `without_rate` are brokers of Apache Kafka that take part, and are down: nobody can give them a rate.
    """

    refused: dict[TopicPartition, str]
    move_id: str = ""
    without_rate: tuple[int, ...] = ()


def start(
    cluster: Direct,
    state: ClusterState,
    targets: Sequence[Target],
    throttle: Throttle,
    *,
    name: str,
    allow_factor: bool,
) -> Outcome:
    """Move partitions to their targets. Raises LocalClusterError if the request as a whole fails."""
    wanted = {target.key: target.replicas for target in targets}
    if state.owns_throttles:
        return _request(cluster, wanted, throttle, name=name, allow_factor=allow_factor)
    if throttle.bytes_per_s == NONE:
        return _request(cluster, wanted, None, allow_factor=allow_factor)
    moving = movements(state.running, targets, state.replicas())
    earlier = read_throttles(cluster, state, {key.topic for key in moving})
    try:
        without_rate = limit(cluster, state, moving, throttle.bytes_per_s)
        outcome = _request(cluster, wanted, None, allow_factor=allow_factor)
        if outcome.refused:
            started = [target for target in targets if target.key not in outcome.refused]
            needed = movements(state.running, started, state.replicas()) if started else {}
            put_back(cluster, state, moving, needed, earlier)
    except BaseException:
        with undisturbed():
            _undo(cluster, state, moving, earlier)
        raise
    return outcome._replace(without_rate=without_rate)


def cancel(cluster: Direct, keys: Sequence[TopicPartition]) -> Outcome:
    """Cancel the moves of these partitions."""
    return _request(cluster, dict.fromkeys(keys), None)


def change(cluster: Direct, state: ClusterState, move_id: str, throttle: Throttle) -> tuple[int, ...]:
    """Change the throttle of what runs: of one move, or in Apache Kafka of all that moves.

    Returns the brokers that take part, and are down in Apache Kafka, where nobody can give them a rate.
    """
    if state.owns_throttles:
        _request(cluster, {}, throttle, move_id=move_id)
        return ()
    return _limit_brokers(cluster, state, movements(state.running, [], state.replicas()), throttle.bytes_per_s)


def limit(
    cluster: Direct, state: ClusterState, moving: Mapping[TopicPartition, Movement], bytes_per_s: int
) -> tuple[int, ...]:
    """Set KIP-73's lists for all that moves, then its rates at all brokers that take part; return those that are down.

    A broker that is down neither sends nor receives, and to move away from it is the usual reason of a move.
    """
    leaders, followers = leader_lists(moving), follower_lists(moving)
    set_lists(cluster, {topic: {LEADER_LIST: leaders[topic], FOLLOWER_LIST: followers[topic]} for topic in leaders})
    return _limit_brokers(cluster, state, moving, bytes_per_s)


def put_back(
    cluster: Direct,
    state: ClusterState,
    limited: Mapping[TopicPartition, Movement],
    needed: Mapping[TopicPartition, Movement],
    earlier: Throttles,
) -> None:
    """In Apache Kafka, put back the lists and rates of before, except those that are needed by what moves.

    Every topic and every broker that runs is tried before the first failure is raised, as LocalClusterError.
    """
    leaders, followers = leader_lists(needed), follower_lists(needed)
    lists: dict[str, dict[str, str | None]] = {}
    for topic in dict.fromkeys(key.topic for key in limited):
        before = earlier.lists.get(topic, {})
        lists[topic] = (
            {LEADER_LIST: leaders[topic], FOLLOWER_LIST: followers[topic]}
            if topic in leaders
            else {name: before.get(name) for name in LISTS}
        )
    try:
        set_lists(cluster, lists)
    finally:
        put_back_rates(cluster, state, sorted(set(brokers_of(limited)) - set(brokers_of(needed))), earlier)


def release(
    cluster: Direct, state: ClusterState, moving: Mapping[TopicPartition, Movement], earlier: Throttles
) -> None:
    """After a move in Apache Kafka, put back the lists and rates of before, except for what still moves."""
    put_back(cluster, state, moving, movements(state.running, [], state.replicas()), earlier)


def put_back_rates(cluster: Direct, state: ClusterState, brokers: Iterable[int], earlier: Throttles) -> None:
    """Set the rates of these brokers, as far as they run, to what each had of its own."""
    failures = []
    for broker in brokers:
        before = {name: earlier.rates.get(broker, {}).get(name) for name in (LEADER_RATE, FOLLOWER_RATE)}
        own = {name: rate.bytes_per_s if rate and rate.source == "broker" else None for name, rate in before.items()}
        if broker in state.brokers:
            try:
                set_rates(cluster, state, [broker], own)
            except LocalClusterError as error:
                failures.append(str(error))
    if failures:
        raise LocalClusterError(" ".join(failures))


def still_limited(cluster: Direct, state: ClusterState, running: ClusterState) -> None:
    """After a cancellation, keep the throttle of what still moves, and remove the rest of it."""
    before = movements(state.running, [], state.replicas())
    after = movements(running.running, [], running.replicas())
    put_back(cluster, running, before, after, Throttles({}, {}))


def move_log_dirs(cluster: Direct, wished: Mapping[Place, str], timeout_ms: int) -> tuple[list[Place], list[Place]]:
    """Start moves between directories; return those that started, and those whose replica did not exist in time.

    Raises LocalClusterError for any other refusal.
    """
    waiting = dict(wished)
    started: list[Place] = []
    deadline_s = time.monotonic() + timeout_ms / 1000
    while waiting:
        for broker in sorted({place.broker for place in waiting}):
            here = {place: path for place, path in waiting.items() if place.broker == broker}
            for place, code in _ask_log_dirs(cluster, broker, here).items():
                if code == ErrorCode.REPLICA_NOT_AVAILABLE:
                    continue
                refuse_errors(f"cannot move replica {place.key}-{broker} to {waiting[place]}", code, None)
                started.append(place)
                del waiting[place]
        if not waiting or time.monotonic() >= deadline_s:
            break
        time.sleep(_AGAIN_S)
    return sorted(started), sorted(waiting)


def _limit_brokers(
    cluster: Direct, state: ClusterState, moving: Mapping[TopicPartition, Movement], bytes_per_s: int
) -> tuple[int, ...]:
    brokers = brokers_of(moving)
    alive = [broker for broker in brokers if broker in state.brokers]
    set_rates(cluster, state, alive, {LEADER_RATE: bytes_per_s, FOLLOWER_RATE: bytes_per_s})
    return tuple(broker for broker in brokers if broker not in state.brokers)


def _undo(cluster: Direct, state: ClusterState, moving: Mapping[TopicPartition, Movement], earlier: Throttles) -> None:
    """After a start that failed, put back the limits of before, unless the moves have begun nevertheless."""
    try:
        now = read_cluster(cluster, {key.topic for key in moving})
        has_begun = any(now.running.get(key) != state.running.get(key) for key in moving)
        put_back(cluster, now, moving, movements(now.running, [], now.replicas()) if has_begun else {}, earlier)
    except LocalClusterError as error:
        print(
            f"syncline: the throttle cannot be removed completely ({error}). `syncline throttle show` lists "
            "what is left.",
            file=sys.stderr,
        )


def _request(
    cluster: Direct,
    wanted: Mapping[TopicPartition, tuple[int, ...] | None],
    throttle: Throttle | None,
    *,
    move_id: str = "",
    name: str = "",
    allow_factor: bool = True,
) -> Outcome:
    topics: dict[str, list[dict[str, Any]]] = {}
    for key, replicas in wanted.items():
        topics.setdefault(key.topic, []).append({"partition_index": key.partition, "replicas": replicas})
    fields: dict[str, Any] = {
        "timeout": _TIMEOUT_MS,
        "allow_replication_factor_change": allow_factor,
        "topics": [{"name": topic, "partitions": rows} for topic, rows in topics.items()],
    }
    if throttle is not None:
        fields |= {
            "throttle": throttle.bytes_per_s,
            "control": throttle.control,
            "deadline_ms": throttle.deadline_ms,
            "impact_percent": throttle.impact_percent,
            "move_id": move_id,
            "name": name,
        }
    answer = cluster.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, fields)
    codes = {
        TopicPartition(str(topic.name), int(each.partition_index)): (int(each.error_code), each.error_message)
        for topic in answer.responses
        for each in topic.partitions
        if int(each.error_code)
    }
    # Of a move, partitions that are not refused are not attempted if another one is: that is no reason of theirs.
    refused = {key: error_text(*each) for key, each in codes.items() if each[0] != ErrorCode.OPERATION_NOT_ATTEMPTED}
    if not refused:
        refuse_errors("the controller refused", int(answer.error_code), answer.error_message)
    return Outcome(refused, str(getattr(answer, "move_id", "")))


def _ask_log_dirs(cluster: Direct, broker: int, wished: Mapping[Place, str]) -> dict[Place, int]:
    paths: dict[str, dict[str, list[int]]] = {}
    for place, path in wished.items():
        paths.setdefault(path, {}).setdefault(place.key.topic, []).append(place.key.partition)
    fields = {
        "dirs": [
            {"path": path, "topics": [{"name": topic, "partitions": rows} for topic, rows in topics.items()]}
            for path, topics in paths.items()
        ]
    }
    answer = cluster.ask_broker(broker, ApiKey.ALTER_REPLICA_LOG_DIRS, fields)
    codes = {
        Place(TopicPartition(str(topic.topic_name), int(each.partition_index)), broker): int(each.error_code)
        for topic in answer.results
        for each in topic.partitions
    }
    if codes.keys() != wished.keys():
        raise LocalClusterError(f"broker {broker} answered about other replicas than those it was asked about.")
    return codes
