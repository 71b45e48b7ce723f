"""ListConfigResources (key 74), versions 0-1.

What has configurations, by kind: topics, brokers and brokers' loggers. Version 0 (KIP-714) asks for client metrics
alone, version 1 for the kinds that it names, or for all (KIP-1142). Syncline has no configurations of client metrics
and of groups, so it lists none.
"""

from typing import TYPE_CHECKING, Any, Final

from syncline.model.errors import ErrorCode
from syncline.model.metadata import MetadataImage, ResourceType
from syncline.wire.api import ApiKey
from syncline.wire.rows import Rows

if TYPE_CHECKING:
    from syncline.node.serving.request import Request, Steps
    from syncline.node.views.values import HasImage

KEY = ApiKey.LIST_CONFIG_RESOURCES

_ALL: Final = tuple(sorted(ResourceType))


def handle(broker: "HasImage", request: "Request") -> "Steps":
    """List the resources of the kinds that are asked for."""
    asked = yield from request.decode_in_steps()
    kinds = {ResourceType.CLIENT_METRICS} if request.version == 0 else set(map(int, asked.resource_types)) or set(_ALL)
    code, found = ErrorCode.NONE, []
    if not kinds.issubset(_ALL):
        code, kinds = ErrorCode.UNSUPPORTED_VERSION, set()
    for kind in sorted(kinds):
        for name in _names(broker.image, kind):
            found.append((kind, name))
            yield
    resources = Rows(found, _row)
    request.answer({"throttle_time": 0, "error_code": code, "config_resources": resources})


def _names(image: MetadataImage, kind: int) -> list[str]:
    if kind == ResourceType.TOPIC:
        return list(image.topics)
    if kind in {ResourceType.BROKER, ResourceType.BROKER_LOGGER}:
        return [str(broker_id) for broker_id in image.brokers]
    return []


def _row(resource: tuple[int, str]) -> dict[str, Any]:
    kind, name = resource
    return {"resource_name": name, "resource_type": kind}
