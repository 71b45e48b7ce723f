"""KIP-73's configurations of a cluster: reading, setting and removing rates and lists.

A broker's configurations are asked of that broker, and given to it, as Apache Kafka demands. Syncline takes rates at
any broker, so that a broker that is down, or has just died, has them at its start.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from syncline.cli.cluster_configs import BROKER, DELETE, SET
from syncline.cli.direct import BrokerSilentError, Direct, refuse_errors
from syncline.local.layout import LocalClusterError
from syncline.model.errors import ErrorCode
from syncline.reassign.cluster_state import ClusterState
from syncline.reassign.throttle_state import LISTS, QUOTA_MODE, RATES, Rate, Throttles
from syncline.wire.api import ApiKey

TOPIC: Final = 2
_FROM_TOPIC: Final = 1
_FROM_BROKER: Final = 2
_FROM_CLUSTER: Final = 3
_SOURCES: Final = {_FROM_BROKER: "broker", _FROM_CLUSTER: "cluster", 4: "static"}


def read_throttles(cluster: Direct, state: ClusterState, topics: Collection[str] | None = None) -> Throttles:
    """Return the throttle configurations of all brokers, and of these topics (None: of all).

    Those of a broker that is down or silent are known to the others in Syncline, which may refuse to tell them; then
    they are `unread`, as always in Apache Kafka. Raises LocalClusterError.
    """
    rates: dict[int, dict[str, Rate]] = {}
    modes = {}
    unread = []
    questions = {broker: _question([(BROKER, str(broker))], [*RATES, QUOTA_MODE]) for broker in state.brokers}
    answers = cluster.ask_each(ApiKey.DESCRIBE_CONFIGS, questions)
    for broker in state.known_brokers():
        try:
            entries = _read(answers[broker])[str(broker)] if broker in answers else _entries(cluster, state, broker)
        except BrokerSilentError:
            unread.append(broker)
            continue
        rates[broker] = {
            str(each.name): Rate(int(each.value), _SOURCES.get(int(each.config_source), "?"))
            for each in entries
            if each.name in RATES and each.value is not None and int(each.config_source) in _SOURCES
        }
        mode = next((str(each.value) for each in entries if each.name == QUOTA_MODE and each.value), None)
        if mode is not None:
            modes[broker] = mode
    wanted = sorted({key.topic for key in state.partitions} if topics is None else topics)
    lists: dict[str, dict[str, str]] = {}
    if wanted:
        described = _described(cluster, [(TOPIC, topic) for topic in wanted], [*LISTS])
        lists = {
            topic: {
                str(each.name): str(each.value)
                for each in entries
                if each.name in LISTS and each.value and int(each.config_source) == _FROM_TOPIC
            }
            for topic, entries in described.items()
        }
    return Throttles(
        {broker: each for broker, each in rates.items() if each},
        {topic: each for topic, each in lists.items() if each},
        modes,
        tuple(unread),
    )


def set_lists(cluster: Direct, lists: Mapping[str, Mapping[str, str | None]], *, only_checks: bool = False) -> None:
    """Set, or with None remove, lists of topics: name and value by topic. Raises LocalClusterError."""
    _alter(cluster, [(TOPIC, topic, values) for topic, values in lists.items()], None, only_checks=only_checks)


def set_rates(
    cluster: Direct,
    state: ClusterState,
    brokers: Iterable[int],
    rates: Mapping[str, int | None],
    *,
    only_checks: bool = False,
) -> None:
    """Set, or with None remove, these rates at each of the brokers. Raises LocalClusterError after all were tried."""
    values = {name: None if rate is None else str(rate) for name, rate in rates.items()}
    silent = []
    for broker in brokers:
        try:
            where = None if state.owns_throttles else broker
            _alter(cluster, [(BROKER, str(broker), values)], where, only_checks=only_checks)
        except BrokerSilentError:
            silent.append(f"broker {broker} is down, and in Apache Kafka only that broker can change its rates.")
    if silent:
        raise LocalClusterError(" ".join(silent))


def check_limits(
    cluster: Direct,
    state: ClusterState,
    lists: Mapping[str, Mapping[str, str | None]],
    brokers: Iterable[int],
    rates: Mapping[str, int | None],
) -> None:
    """Raise `LocalClusterError` for lists and rates that would be refused; nothing is changed."""
    for broker in brokers:
        try:
            set_rates(cluster, state, [broker], rates, only_checks=True)
        except LocalClusterError as error:
            if state.owns_throttles and broker not in state.known_brokers():
                known = ",".join(map(str, state.known_brokers()))
                raise LocalClusterError(f"there is no broker {broker}; the cluster has {known}. ({error})") from None
            raise
    set_lists(cluster, lists, only_checks=True)


def clear(cluster: Direct, state: ClusterState, brokers: Iterable[int], topics: Iterable[str]) -> list[str]:
    """Remove all rates at the brokers and both lists of the topics; return a sentence for each broker that is down."""
    missed = []
    for broker in brokers:
        if broker in state.brokers or state.owns_throttles:
            set_rates(cluster, state, [broker], dict.fromkeys(RATES))
        else:
            missed.append(f"broker {broker} is down, so its throttle stays: run `verify` again when the broker is up.")
    known = {key.topic for key in state.partitions}
    set_lists(cluster, {topic: dict.fromkeys(LISTS) for topic in topics if topic in known})
    return missed


def _entries(cluster: Direct, state: ClusterState, broker: int) -> Any:
    """Return what is set at a broker that does not say so itself. Raises BrokerSilentError if nobody tells."""
    if not state.owns_throttles:
        raise BrokerSilentError(f"in Apache Kafka only broker {broker} reports its rates")
    try:
        return _described(cluster, [(BROKER, str(broker))], [*RATES])[str(broker)]
    except LocalClusterError as error:
        raise BrokerSilentError(str(error)) from None


def _described(cluster: Direct, resources: Collection[tuple[int, str]], names: list[str]) -> dict[str, Any]:
    return _read(cluster.ask(ApiKey.DESCRIBE_CONFIGS, _question(resources, names)))


def _question(resources: Collection[tuple[int, str]], names: list[str]) -> dict[str, Any]:
    return {
        "resources": [
            {"resource_type": kind, "resource_name": name, "configuration_keys": names} for kind, name in resources
        ],
        "include_synonyms": False,
        "include_documentation": False,
    }


def _read(answer: Any) -> dict[str, Any]:
    # A topic may be deleted after the cluster was read: then it has none.
    results = [each for each in answer.results if int(each.error_code) != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    for result in results:
        refuse_errors(
            f"cannot read the configurations of {result.resource_name!r}", int(result.error_code), result.error_message
        )
    return {str(result.resource_name): result.configs for result in results}


def _alter(
    cluster: Direct,
    changes: Collection[tuple[int, str, Mapping[str, str | None]]],
    broker: int | None,
    *,
    only_checks: bool = False,
) -> None:
    if not changes:
        return
    fields = {
        "resources": [
            {
                "resource_type": kind,
                "resource_name": name,
                "configs": [
                    {"name": key, "config_operation": DELETE if value is None else SET, "value": value}
                    for key, value in values.items()
                ],
            }
            for kind, name, values in changes
        ],
        "validate_only": only_checks,
    }
    if broker is None:
        answer = cluster.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, fields)
    else:
        answer = cluster.ask_broker(broker, ApiKey.INCREMENTAL_ALTER_CONFIGS, fields)
    for result in answer.responses:
        kind = "topic" if int(result.resource_type) == TOPIC else "broker"
        refuse_errors(f"cannot alter {kind} {result.resource_name}", int(result.error_code), result.error_message)
