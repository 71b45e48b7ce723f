"""Consumer groups as their coordinators report them, and the name of a coordinator that is silent.

Each group is known to one broker, its coordinator. The client library says only that time is over, so groups are
listed without it, and after the library gave up, any broker says who coordinates the group.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, NamedTuple

from syncline.cli.direct import Direct, error_text
from syncline.cli.ends import Place
from syncline.cli.target import CONNECT_STEP_S, SILENT_S, counted, guarded, no_answer, refuse
from syncline.local.layout import LocalClusterError
from syncline.model.ids import OFFSETS_TOPIC
from syncline.reassign.amounts import quoted
from syncline.wire.api import ApiKey

# Kafka's names of states whose words the client library changes; `--json` has the library's.
_STATES: Final = {
    "PreparingRebalance": "preparing_rebalancing",
    "CompletingRebalance": "completing_rebalancing",
    "": "unknown",
}
_GROUP: Final = 0
# Groups of consumers, and those of clients that only commit. Share groups, for instance, commit no offsets.
_CONSUMERS: Final = frozenset({"consumer", ""})
_ALL: Final = {"states_filter": (), "types_filter": ()}


class Listed(NamedTuple):
    """All groups with their states, and which brokers gave none."""

    states: dict[str, str]
    silent: frozenset[int]
    # A sentence for each broker that gave no groups, and for groups that no broker coordinates.
    missing: list[str]


class Described(NamedTuple):
    """A group, and what it has committed."""

    group: Any
    committed: dict[Place, int]


def list_groups(servers: str) -> Listed:
    """Return the consumer groups of all brokers that answer. Raises LocalClusterError if none does."""
    with Direct(servers, SILENT_S) as cluster:
        brokers = cluster.learn_brokers()
        answers = cluster.ask_brokers(brokers, ApiKey.LIST_GROUPS, _ALL)
        leaderless = _leaderless(cluster)
    missing = {broker: no_answer(broker) for broker in brokers if broker not in answers}
    silent = frozenset(missing)
    states = {}
    for broker, answer in answers.items():
        if int(answer.error_code):
            missing[broker] = f"broker {broker} gives none: {error_text(int(answer.error_code), None)}"
        for each in answer.groups:
            if each.protocol_type not in _CONSUMERS:
                continue
            state = getattr(each, "group_state", "")
            states[str(each.group_id)] = _STATES.get(state, state.lower())
    sentences = [f"Some groups may be missing: {why}." for _, why in sorted(missing.items())]
    if leaderless:
        sentences.append(
            f"Some groups may be missing: {OFFSETS_TOPIC} has {counted(leaderless, 'partition')} without a leader."
        )
    return Listed(dict(sorted(states.items())), silent, sentences)


def _leaderless(cluster: Direct) -> int:
    """Return how many partitions of the groups' topic have no leader: no broker coordinates their groups."""
    fields = {
        "topics": [{"topic_id": None, "name": OFFSETS_TOPIC}],
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": False,
    }
    answer = cluster.ask(ApiKey.METADATA, fields)
    return sum(int(each.leader_id) < 0 for topic in answer.topics for each in topic.partitions)


def describe_groups(
    servers: str, admin: Any, names: Sequence[str], *, patience_s: float = SILENT_S
) -> tuple[dict[str, Described], dict[str, str]]:
    """Return groups with their commits, and a sentence for each of which its coordinator tells nothing.

    Each coordinator is asked for both at once. A group that does not exist is dead.
    """
    from confluent_kafka import ConsumerGroupTopicPartitions

    describe = partial(admin.describe_consumer_groups, list(names), request_timeout=patience_s)
    groups = guarded("cannot describe groups", describe)
    commits: dict[str, Any] = {}
    for name in names:
        asked = [ConsumerGroupTopicPartitions(name)]
        ask = partial(admin.list_consumer_group_offsets, asked, request_timeout=patience_s)
        commits |= guarded(_what(name), ask)
    told: dict[str, Described] = {}
    refused: dict[str, str] = {}
    late = []
    for name in names:
        try:
            group = _told(groups[name], name, patience_s)
            parts = _told(commits[name], name, patience_s).topic_partitions
        except TimeoutError:
            late.append(name)
        except LocalClusterError as error:
            refused[name] = str(error)
        else:
            told[name] = Described(
                group, {(part.topic, part.partition): part.offset for part in parts if part.offset >= 0}
            )
    return told, refused | _silent_coordinators(servers, late, patience_s)


def describe_group(servers: str, admin: Any, name: str, *, patience_s: float = SILENT_S) -> Described:
    """Return one group with its commits; raises `LocalClusterError` if its coordinator does not report them."""
    told, refused = describe_groups(servers, admin, [name], patience_s=patience_s)
    if refused:
        raise LocalClusterError(refused[name])
    return told[name]


def _what(name: str) -> str:
    return f"cannot describe group {quoted(name)}"


def _told(future: "Future[Any]", name: str, patience_s: float) -> Any:
    """Return a result. Raises TimeoutError if none came in time, LocalClusterError for a refusal."""
    from confluent_kafka import KafkaError, KafkaException

    try:
        # The library ends the request in time; it may only be late to say so.
        return future.result(patience_s + CONNECT_STEP_S)
    except KafkaException as error:
        # Its public name.
        if error.args[0].code() == KafkaError._TIMED_OUT:  # noqa: SLF001
            raise TimeoutError from None
        refuse(_what(name), error.args[0])


def _silent_coordinators(servers: str, names: Sequence[str], patience_s: float) -> dict[str, str]:
    """Return a sentence for each group that was not described in time: which coordinator is silent.

    While the library waited for one coordinator, the cluster may have made another broker the coordinator, which is not
    silent. So each is asked whether it answers.
    """
    if not names:
        return {}
    sentences = {}
    coordinators: dict[str, int] = {}
    with Direct(servers, CONNECT_STEP_S) as cluster:
        places: dict[int, tuple[str, int]] = {}
        for name in names:
            try:
                answer = cluster.ask(ApiKey.FIND_COORDINATOR, {"key": name, "key_type": _GROUP})
            except LocalClusterError as error:
                sentences[name] = f"{_what(name)}: its coordinator does not answer within {patience_s:g} s, and {error}"
                continue
            if int(answer.error_code):
                why = error_text(int(answer.error_code), answer.error_message)
                sentences[name] = f"{_what(name)}: it has no coordinator now: {why}."
            else:
                coordinators[name] = int(answer.node_id)
                places[coordinators[name]] = str(answer.host), int(answer.port)
        cluster.learn(places)
        answering = cluster.ask_brokers(places, ApiKey.LIST_GROUPS, _ALL)
    for name, broker in coordinators.items():
        if broker in answering:
            sentences[name] = (
                f"{_what(name)}: its coordinator did not answer within {patience_s:g} s. Broker {broker}, which "
                "coordinates the group now, answers: try again."
            )
        else:
            sentences[name] = (
                f"{_what(name)}: {no_answer(broker, patience_s)}, and only that broker, its coordinator, knows the "
                "group. If it stays silent, another broker takes over in some seconds: try again then."
            )
    return sentences
