"""Changing configurations: which requests are valid, and what they change.

Each resource of a request is independent: one bad key leaves the whole resource unchanged, and does not affect the
others. Errors are Kafka's, including two oddities that tools expect: a bad value is INVALID_CONFIG for a topic but
INVALID_REQUEST for a broker, and unknown names are accepted for brokers, up to a limit, and refused for topics.

A change of the minimum in-sync size also ends the eligibility of replicas that it makes unnecessary
(`standing.after_min_isr_change`).
Source: KIP-339 (incremental), KIP-226 (dynamic broker configurations), KIP-966.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from syncline.core.cluster.config_description import BrokerLayers
from syncline.core.cluster.decision import Decision, Why
from syncline.core.cluster.standing import after_min_isr_change
from syncline.core.cluster.topic_names import what_is_wrong
from syncline.model.broker_config import BROKER_CONFIGS, PROTECTION_CAP, BrokerConfig, check_protection_cap
from syncline.model.config_types import ConfigDefinition, ConfigError, ConfigType, UpdateMode, Value, show
from syncline.model.errors import ErrorCode, RequestError
from syncline.model.ids import BrokerId, named_broker
from syncline.model.immutable import Immutable
from syncline.model.kept_configs import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS, THROTTLE_RATES
from syncline.model.metadata import (
    Change,
    ConfigResource,
    ConfigsChanged,
    MetadataImage,
    ResourceType,
)
from syncline.model.reasons import Reason
from syncline.model.topic_config import (
    FOLLOWER_THROTTLED,
    LEADER_THROTTLED,
    TOPIC_CONFIGS,
    check_length,
    stored_topic_config,
    validate_topic_configs,
)

# A broker keeps names that it does not know, which plugins may read in Kafka. Every broker holds them and every
# description shows them, so one resource has room for as many as a person would write.
UNKNOWN_NAMES_MAX: Final = 200
UNKNOWN_BYTES_MAX: Final = 64 << 10
# A resource is decided on in one go. There are fewer configurations than these.
KEYS_MAX: Final = 1_000
_MIN_ISR: Final = "min.insync.replicas"
# These change by at most a factor of two at a time, so that a slip does not starve a broker.
_THREAD_COUNTS: Final = frozenset(
    (
        "background.threads",
        "log.cleaner.threads",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
        "remote.log.manager.copier.thread.pool.size",
        "remote.log.manager.expiration.thread.pool.size",
        "remote.log.manager.follower.thread.pool.size",
        "remote.log.reader.threads",
    )
)
# A broker may be started without clients; while it runs, zero would shut out the client that could reset it.
_NEVER_ZERO: Final = frozenset(("max.connection.creation.rate", "max.connections"))
# While a broker runs, each listener has its own (`listener.name.NAME.ssl...`).
_OF_LISTENERS: Final = frozenset(
    f"ssl.{name}"
    for name in (
        "key.password",
        "keystore.certificate.chain",
        "keystore.key",
        "keystore.location",
        "keystore.password",
        "keystore.type",
        "truststore.certificates",
        "truststore.location",
        "truststore.password",
        "truststore.type",
    )
)


class Operation(IntEnum):
    """What a request does to one key, with the protocol's numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class KeyChange(Immutable):
    """One key of a resource; `operation` is any number that a client sent."""

    name: str
    operation: int
    value: str | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ResourceChange(Immutable):
    """The requested changes of one resource; `kind` is any number that a client sent."""

    kind: int
    name: str
    keys: tuple[KeyChange, ...]

    @property
    def subject(self) -> Hashable:
        """What is changed: the same for every spelling of a broker's number."""
        number = named_broker(self.name) if self.kind in {ResourceType.BROKER, ResourceType.BROKER_LOGGER} else None
        return self.kind, self.name if number is None else number


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ResourceResult(Immutable):
    """The result for one resource."""

    kind: int
    name: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def alter_configs(
    image: MetadataImage,
    resources: Sequence[ResourceChange],
    settings: BrokerConfig,
    *,
    receiver: BrokerId,
    replace: bool = False,
) -> Decision[tuple[ResourceResult, ...]]:
    """Return what to change, and one result per resource, in the order of the request.

    `receiver` is the broker that received the request; of another broker that the cluster knows it changes throttle
    rates only, as that one may be down (KAFKA-13392). `replace`: keys that the request does not name lose their
    values (AlterConfigs).
    """
    given = Counter(resource.subject for resource in resources)
    changes: list[Change] = []
    results = []
    for resource in resources:
        try:
            if given[resource.subject] > 1:
                raise _invalid_request("Each resource must appear at most once.")
            change = _changed(image, resource, settings, receiver=receiver, replace=replace)
        except RequestError as refusal:
            results.append(ResourceResult(resource.kind, resource.name, refusal.code, refusal.message))
            continue
        if change.values:
            changes.append(change)
        results.append(ResourceResult(resource.kind, resource.name))
    if any(isinstance(change, ConfigsChanged) and _MIN_ISR in change.values for change in changes):
        changes.extend(after_min_isr_change(image.apply(changes, image.version), settings))
    return Decision(tuple(changes), tuple(results), Why(Reason.CONFIGS_ALTERED))


def _changed(
    image: MetadataImage, resource: ResourceChange, settings: BrokerConfig, *, receiver: BrokerId, replace: bool
) -> ConfigsChanged:
    _validate_keys(resource)
    if resource.kind == ResourceType.TOPIC:
        return _changed_topic(image, resource, settings, replace=replace)
    if resource.kind == ResourceType.BROKER:
        return _changed_broker(image, resource, settings, receiver=receiver, replace=replace)
    if resource.kind == ResourceType.BROKER_LOGGER and not replace:
        _validate_broker_name(resource.name, receiver)
        for key in resource.keys:
            raise RequestError(ErrorCode.INVALID_CONFIG, f"Logger {key.name} does not exist!")
        return ConfigsChanged(ConfigResource(ResourceType.BROKER_LOGGER, resource.name), {})
    if resource.kind == ResourceType.GROUP:
        if not resource.name:
            raise _invalid_request("Default group resources are not allowed.")
        for key in resource.keys:
            if key.name in GROUP_CONFIGS:
                text = f"{key.name} cannot be set: it is for kinds of groups that this cluster does not have."
                raise RequestError(ErrorCode.INVALID_CONFIG, text)
            raise RequestError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {key.name}")
        return ConfigsChanged(ConfigResource(ResourceType.GROUP, resource.name), {})
    if resource.kind == ResourceType.CLIENT_METRICS:
        for key in resource.keys:
            if key.name in CLIENT_METRICS_CONFIGS:
                raise _invalid_request(f"{key.name} cannot be set: this cluster does not collect metrics of clients.")
            raise _invalid_request(f"Unknown client metrics configuration: {key.name}")
        return ConfigsChanged(ConfigResource(ResourceType.CLIENT_METRICS, resource.name), {})
    raise _invalid_request(f"Unknown resource type {resource.kind}")


def _validate_keys(resource: ResourceChange) -> None:
    if len(resource.keys) > KEYS_MAX:
        raise RequestError(
            ErrorCode.POLICY_VIOLATION,
            f"The request names {len(resource.keys)} configurations of one resource, and may name {KEYS_MAX}:"
            " change the others by another request.",
        )
    names = [key.name for key in resource.keys]
    if len(set(names)) != len(names):
        raise _invalid_request("Error due to duplicate config keys")
    nulls = [key.name for key in resource.keys if key.value is None and key.operation != Operation.DELETE]
    if nulls:
        raise _invalid_request(f"Null value not supported for : {', '.join(nulls)}")


def _changed_topic(
    image: MetadataImage, resource: ResourceChange, settings: BrokerConfig, *, replace: bool
) -> ConfigsChanged:
    name = resource.name
    present = image.topic_configs(name)
    wanted = _wanted(present, resource, TOPIC_CONFIGS, settings, replace=replace)
    if not name:
        raise _invalid_request("Default topic resources are not allowed.")
    problem = what_is_wrong(name)
    if problem is not None:
        raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
    try:
        validate_topic_configs(wanted)
    except ConfigError as error:
        raise RequestError(ErrorCode.INVALID_CONFIG, str(error)) from error
    # Kafka looks at the values first, whether the topic exists or not.
    if name not in image.topics:
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return ConfigsChanged(ConfigResource(ResourceType.TOPIC, name), _steps(present, wanted))


def _changed_broker(
    image: MetadataImage, resource: ResourceChange, settings: BrokerConfig, *, receiver: BrokerId, replace: bool
) -> ConfigsChanged:
    name = resource.name
    if name:
        number = named_broker(name)
        is_for_any = not replace and _are_rates(resource)
        if is_for_any and number is not None and number != receiver and number not in image.brokers:
            raise _invalid_request(
                f"There is no broker {number}: rates can be set for brokers that have been registered"
            )
        if not is_for_any or number is None or number not in image.brokers:
            _validate_broker_name(name, receiver)
            number = receiver
        # Under another spelling the change would have no effect, and there are many.
        name = str(number)
    present = image.configs.get(ConfigResource(ResourceType.BROKER, name), {})
    wanted = _wanted(present, resource, {**BROKER_CONFIGS, **THROTTLE_RATES}, settings, replace=replace)
    steps = _steps(present, wanted)
    touched = {key.name for key in resource.keys}
    _validate_dynamic([each for each in wanted if each in touched])
    try:
        for each, text in wanted.items():
            if each in touched:
                _validate_broker_value(each, text, settings)
        if not name:
            _validate_cluster_wide([each for each in wanted if each in touched])
        if any(text is not None for text in steps.values()) or _is_usable(image, settings, receiver):
            _validate_together(image, name, wanted, settings, receiver)
        # Else an older Syncline took some values that are refused now: each can be taken back without the others.
    except ConfigError as error:
        raise _invalid_request(str(error)) from error
    # In Kafka, the broker has judged the request before the controller sees it.
    is_min_isr_named = _MIN_ISR in touched or _MIN_ISR in steps
    if settings.eligible_leader_replicas_enable and (is_min_isr_named or (replace and not name)):
        _validate_min_isr(name, wanted, touched=is_min_isr_named)
    _validate_unknown(wanted, steps)
    return ConfigsChanged(ConfigResource(ResourceType.BROKER, name), steps)


def _are_rates(resource: ResourceChange) -> bool:
    return all(key.name in THROTTLE_RATES for key in resource.keys)


def _wanted(
    present: Mapping[str, str],
    resource: ResourceChange,
    definitions: Mapping[str, ConfigDefinition],
    settings: BrokerConfig,
    *,
    replace: bool,
) -> dict[str, str]:
    """Return all values that the resource has after the request."""
    wanted = {} if replace else dict(present)
    for key in resource.keys:
        if key.operation == Operation.SET:
            assert key.value is not None, f"{key.name} is set to nothing: `_validate_keys` lets no null pass"
            _check_length(key)
            is_of_topic = resource.kind == ResourceType.TOPIC
            wanted[key.name] = stored_topic_config(key.name, key.value) if is_of_topic else key.value
        elif key.operation == Operation.DELETE:
            wanted.pop(key.name, None)
        elif key.operation in {Operation.APPEND, Operation.SUBTRACT}:
            _check_length(key)
            definition = definitions.get(key.name)
            if definition is None or definition.kind is not ConfigType.LIST:
                raise RequestError(ErrorCode.INVALID_CONFIG, _no_list(resource.kind, key, definition))
            wanted[key.name] = _edited_list(present.get(key.name), key, definition, settings)
        else:
            raise RequestError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Unknown operation type {key.operation}")
    return wanted


def _check_length(key: KeyChange) -> None:
    """Raise `RequestError` for a list of throttled replicas that is too long even to be looked at."""
    try:
        check_length(key.name, key.value or "")
    except ConfigError as error:
        raise RequestError(ErrorCode.INVALID_CONFIG, str(error)) from error


def _no_list(kind: int, key: KeyChange, definition: ConfigDefinition | None) -> str:
    """Return why nothing can be appended or subtracted; for brokers, Kafka has other words than for topics."""
    operation = Operation(key.operation).name
    if kind == ResourceType.TOPIC or key.name in THROTTLE_RATES:
        return f"Can't {operation} to key {key.name} because its type is not LIST."
    if definition is None:
        return f"Unknown config name: {key.name}"
    return f"Config value {operation.lower()} is not allowed for config key: {key.name}"


def _edited_list(present: str | None, key: KeyChange, definition: ConfigDefinition, settings: BrokerConfig) -> str:
    if present is None:
        # A topic's list starts from the value that the topic takes from its broker.
        given = [settings.static[name] for name in (key.name, *definition.synonyms) if name in settings.static]
        present = given[0] if given else (show(definition.default_value()) or "")
    # Kafka reads the present list without its empty items, and ignores those at the end of the given one.
    items = [item for each in present.split(",") if (item := each.strip())]
    assert key.value is not None, f"{key.name} is set to nothing: `_validate_keys` lets no null pass"
    given_items = [each.strip() for each in (key.value.rstrip(" ,") if key.value.strip() else "").split(",")]
    if key.name in {FOLLOWER_THROTTLED, LEADER_THROTTLED}:
        given_items = [item for item in given_items if item]
    if key.operation == Operation.APPEND:
        known = set(items)
        return ",".join([*items, *dict.fromkeys(item for item in given_items if item not in known)])
    # Of what is named so often, the first ones go.
    unwanted = Counter(given_items)
    kept = []
    for item in items:
        if unwanted[item]:
            unwanted[item] -= 1
        else:
            kept.append(item)
    return ",".join(kept)


def _steps(present: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str | None]:
    steps: dict[str, str | None] = {name: text for name, text in wanted.items() if present.get(name) != text}
    steps.update((name, None) for name in present if name not in wanted)
    after = {name: text for name, text in {**present, **steps}.items() if text is not None}
    assert after == wanted, f"{steps} lead from {present} to {after}, not to {wanted}"
    return steps


def _validate_broker_name(name: str, receiver: BrokerId) -> None:
    number = named_broker(name)
    if number is None:
        raise _invalid_request(f"Node id must be an integer, but it is: {name}")
    if number != receiver:
        raise _invalid_request(f"Unexpected broker id, expected {receiver}, but received {name}")


def _validate_min_isr(name: str, wanted: Mapping[str, str], *, touched: bool) -> None:
    if name:
        if touched:
            raise RequestError(
                ErrorCode.INVALID_CONFIG, "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
            )
    elif _MIN_ISR not in wanted:
        raise RequestError(
            ErrorCode.INVALID_CONFIG, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
        )


def _validate_unknown(wanted: Mapping[str, str], steps: Mapping[str, str | None]) -> None:
    """Refuse more unknown names than a resource may have; fewer are fine, even if it has too many."""
    if all(text is None or _is_known(name) for name, text in steps.items()):
        return
    unknown = {name: text for name, text in wanted.items() if not _is_known(name)}
    size_bytes = sum(len(name.encode()) + len(text.encode()) for name, text in unknown.items())
    if len(unknown) > UNKNOWN_NAMES_MAX or size_bytes > UNKNOWN_BYTES_MAX:
        raise RequestError(
            ErrorCode.POLICY_VIOLATION,
            f"The resource would have {len(unknown)} configurations that this broker does not know, of {size_bytes}"
            f" bytes; {UNKNOWN_NAMES_MAX} of {UNKNOWN_BYTES_MAX} bytes are allowed. Delete those that nobody needs.",
        )


def _is_known(name: str) -> bool:
    return name in BROKER_CONFIGS or name in THROTTLE_RATES


def _validate_dynamic(names: Sequence[str]) -> None:
    fixed = _of_mode(names, UpdateMode.READ_ONLY)
    if fixed:
        raise _invalid_request(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    of_listeners = [name for name in names if name in _OF_LISTENERS]
    if of_listeners:
        raise _invalid_request(
            "These security configs can be dynamically updated only per-listener using the listener prefix:"
            f" [{', '.join(of_listeners)}]"
        )


def _validate_cluster_wide(names: Sequence[str]) -> None:
    individual = _of_mode(names, UpdateMode.PER_BROKER)
    if individual:
        raise _invalid_request(
            "Cannot update these configs at default cluster level, broker id must be specified:"
            f" [{', '.join(individual)}]"
        )


def _of_mode(names: Sequence[str], mode: UpdateMode) -> list[str]:
    return [name for name in names if name in BROKER_CONFIGS and BROKER_CONFIGS[name].update_mode is mode]


def _validate_broker_value(name: str, text: str, settings: BrokerConfig) -> None:
    """Refuse a value that the broker cannot take."""
    definition = BROKER_CONFIGS.get(name) or THROTTLE_RATES.get(name)
    if definition is None:
        return
    value = definition.parse(text)
    if name == PROTECTION_CAP:
        assert isinstance(value, int), "a time"
        check_protection_cap(value, settings.replica_lag_time_max_ms)
    if name in _NEVER_ZERO and not value:
        raise ConfigError(f"Invalid {name} {value}")


def _validate_together(
    image: MetadataImage, name: str, wanted: Mapping[str, str], settings: BrokerConfig, receiver: BrokerId
) -> None:
    """Raise `ConfigError` for values with which the receiver's configurations would contradict each other.

    Another broker may have been started with other values: it judges for itself, and keeps what it has.
    """
    if name not in {"", str(receiver)}:
        return
    cluster, own = image.cluster_configs(), image.broker_configs(receiver)
    layers = (cluster, wanted) if name else (wanted, own)
    BrokerConfig.resolve(settings.static, *layers)
    before, after = BrokerLayers(own, cluster, settings.static), BrokerLayers(layers[1], layers[0], settings.static)
    for each in sorted(_THREAD_COUNTS):
        definition = BROKER_CONFIGS[each]
        _validate_thread_count(each, before.value_of(definition), after.value_of(definition))


def _is_usable(image: MetadataImage, settings: BrokerConfig, receiver: BrokerId) -> bool:
    try:
        BrokerConfig.resolve(settings.static, image.cluster_configs(), image.broker_configs(receiver))
    except ConfigError:
        return False
    return True


def _validate_thread_count(name: str, now: Value, wanted: Value) -> None:
    """Raise `ConfigError` if a number of threads changes by too much, be it set or reset."""
    assert isinstance(now, int), "a number of threads"
    assert isinstance(wanted, int), "a number of threads"
    failed = f"Dynamic thread count update validation failed for {name}={wanted}"
    if wanted == now:
        return
    if wanted < max(1, now // 2):
        raise ConfigError(f"{failed}, value should be at least half the current value {now}")
    if wanted > now * 2:
        raise ConfigError(f"{failed}, value should not be greater than double the current value {now}")


def _invalid_request(message: str) -> RequestError:
    return RequestError(ErrorCode.INVALID_REQUEST, message)
