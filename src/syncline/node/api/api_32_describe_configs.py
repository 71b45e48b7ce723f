"""DescribeConfigs (key 32), versions 1-4.

v1 synonyms and sources (KIP-226), v3 types and documentation (KIP-569).
The broker answers from its own image: about topics, about itself and its loggers,
and about what is set for all brokers. Client metrics and groups of the newer
kinds are described by Kafka's defaults: Syncline has neither.
"""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Final, Protocol

from syncline.core.cluster.config_description import (
    BrokerLayers,
    ConfigEntry,
    ConfigSource,
    describe_broker,
    describe_client_metrics,
    describe_cluster_defaults,
    describe_group,
    describe_loggers,
    describe_topic,
)
from syncline.core.cluster.topic_names import what_is_wrong
from syncline.model.errors import ErrorCode, RequestError
from syncline.model.ids import named_broker
from syncline.model.kept_configs import THROTTLE_RATES
from syncline.model.metadata import ResourceType
from syncline.node.log_levels import log_levels
from syncline.wire.api import ApiKey
from syncline.wire.rows import SharedRows

if TYPE_CHECKING:
    from syncline.node.metadata.live_configs import LiveConfigs
    from syncline.node.serving.request import Request, Steps
    from syncline.node.views.values import HasBrokerId, HasImage

    class Host(HasBrokerId, HasImage, Protocol):
        """What this handler uses of its broker."""

        @property
        def configs(self) -> LiveConfigs:
            """Return the configurations, including those that this broker was started with."""


KEY = ApiKey.DESCRIBE_CONFIGS
# In one answer: six thousand topics, or a broker with its documentation three hundred times.
DESCRIBED_BYTES_MAX: Final = 16 << 20
_KINDS: Final = frozenset(map(int, ResourceType))
_TOO_MUCH: Final = f"The descriptions exceed {DESCRIBED_BYTES_MAX} bytes. Describe fewer resources per request."


def handle(broker: "Host", request: "Request") -> "Steps":
    """Describe each requested resource."""
    asked = yield from request.decode_in_steps()
    described: dict[Hashable, tuple[SharedRows, int]] = {}
    described_bytes = 0
    results = []
    # Kafka's brokers refuse the whole request for one resource of a kind that they do not know.
    unknown = next((each.resource_type for each in asked.resources if each.resource_type not in _KINDS), None)
    for resource in asked.resources:
        row: dict[str, Any] = {
            "error_code": ErrorCode.NONE,
            "error_message": "",
            "resource_type": resource.resource_type,
            "resource_name": resource.resource_name,
            "configs": (),
        }
        results.append(row)
        subject = _subject(broker, resource)
        try:
            if unknown is not None:
                raise RequestError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {unknown}")
            if subject not in described:
                rows = [_row(entry, asked) for entry in _describe(broker, resource)]
                described[subject] = SharedRows(rows), sum(map(_size_bytes, rows))
            rows_once, size_bytes = described[subject]
            described_bytes += size_bytes
            if described_bytes > DESCRIBED_BYTES_MAX:
                raise RequestError(ErrorCode.INVALID_REQUEST, _TOO_MUCH)
        except RequestError as refusal:
            row["error_code"], row["error_message"] = refusal.code, refusal.message or ""
        else:
            row["configs"] = rows_once
        yield
    request.answer({"throttle_time": 0, "results": results})


def _subject(broker: "Host", resource: Any) -> Hashable:
    """Return the same for resources with the same description, which is made once.

    These are a repeated resource, the broker under another spelling of its number, and topics with the same overrides.
    """
    name: str = resource.resource_name
    kind, keys = int(resource.resource_type), tuple(resource.configuration_keys or ())
    if kind == ResourceType.TOPIC and name in broker.image.topics:
        return kind, tuple(broker.image.topic_configs(name).items()), keys
    number = named_broker(name) if kind in {ResourceType.BROKER, ResourceType.BROKER_LOGGER} else None
    return kind, name if number is None else number, keys


def _size_bytes(row: dict[str, Any]) -> int:
    """Return about how many bytes one configuration takes in the answer."""
    texts = (row["name"], row["value"], row["documentation"])
    own = sum(len(text) for text in texts if text is not None)
    return 16 + own + sum(8 + len(each["name"]) + len(each["value"] or "") for each in row["synonyms"])


def _describe(broker: "Host", resource: Any) -> tuple[ConfigEntry, ...]:
    image = broker.image
    kind, name = int(resource.resource_type), resource.resource_name
    names = None if not resource.configuration_keys else frozenset(resource.configuration_keys)
    layers = BrokerLayers(image.broker_configs(broker.broker_id), image.cluster_configs(), broker.configs.static)
    if kind == ResourceType.TOPIC:
        problem = what_is_wrong(name)
        if problem is not None:
            raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
        if name not in image.topics:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return describe_topic(image.topic_configs(name), layers, names)
    if kind == ResourceType.BROKER:
        if not name:
            return describe_cluster_defaults(image.cluster_configs(), names)
        number = named_broker(name)
        is_for_any = names is not None and names <= THROTTLE_RATES.keys()
        if is_for_any and number is not None and number != broker.broker_id and number in image.brokers:
            # Any broker may alter the rates of any other, also of one that is down: so it can be seen what they are.
            return describe_broker(BrokerLayers(image.broker_configs(number), image.cluster_configs()), names)
        _validate_receiver(broker, name)
        return describe_broker(layers, names)
    if kind == ResourceType.BROKER_LOGGER:
        if not name:
            raise RequestError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
        _validate_receiver(broker, name, also_empty=False)
        return describe_loggers(log_levels(), names)
    if kind == ResourceType.CLIENT_METRICS:
        if not name:
            raise RequestError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
        return describe_client_metrics(names)
    if kind == ResourceType.GROUP:
        if not name:
            raise RequestError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return describe_group(names)
    raise AssertionError(f"a resource of the unknown kind {kind} is described")


def _validate_receiver(broker: "Host", name: str, *, also_empty: bool = True) -> None:
    number = named_broker(name)
    if number is None:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if number != broker.broker_id:
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {broker.broker_id}{' or empty string,' if also_empty else ''}"
            f" but received {name}",
        )


def _row(entry: ConfigEntry, asked: Any) -> dict[str, Any]:
    synonyms = entry.synonyms if getattr(asked, "include_synonyms", False) else ()
    is_documented = getattr(asked, "include_documentation", False)
    return {
        "name": entry.name,
        "value": entry.value,
        "read_only": entry.read_only,
        "config_source": int(entry.source),
        "is_sensitive": entry.is_sensitive,
        "synonyms": [{"name": each.name, "value": each.value, "source": int(each.source)} for each in synonyms],
        "config_type": entry.kind,
        # Loggers have none; Kafka says so even where nobody asks for it.
        "documentation": entry.documentation if is_documented or entry.source is ConfigSource.LOGGER else None,
    }
