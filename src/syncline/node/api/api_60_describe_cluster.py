"""DescribeCluster (key 60), versions 0-2.

v1 the requested kind of endpoint (KIP-919): this is a broker, so a request for
controllers is refused; v2 fenced brokers, if the client asks for them (KIP-1073).
The broker answers from its own image. It names the active
controller; Kafka names a random live broker, since clients cannot connect to its
controller.
"""

from typing import TYPE_CHECKING, Any, Final

from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE
from syncline.wire.api import ApiKey
from syncline.wire.codec import response_type
from syncline.wire.entities import build

if TYPE_CHECKING:
    from syncline.node.serving.request import Request
    from syncline.node.views.values import HasImage

KEY = ApiKey.DESCRIBE_CLUSTER

_BROKERS: Final = 1
_CONTROLLERS: Final = 2
# Without an authorizer every client may do everything to a cluster.
_ALL_OPERATIONS: Final = 8096
_NOT_ASKED: Final = -(2**31)


def handle(broker: "HasImage", request: "Request") -> None:
    """Describe the live brokers, and those that are fenced if the request includes them."""
    asked = request.decode()
    endpoint_type = int(getattr(asked, "endpoint_type", _BROKERS))
    fields = _refusal(endpoint_type) if endpoint_type != _BROKERS else _description(broker, asked)
    request.reply(build(response_type(KEY, request.version), fields))


def _description(broker: "HasImage", asked: Any) -> dict[str, Any]:
    image = broker.image
    live = [record for record in image.brokers.values() if not record.fenced]
    shown = image.brokers.values() if getattr(asked, "include_fenced_brokers", False) else live
    known = image.controller_id in {record.broker_id for record in live}
    return {
        "throttle_time": 0,
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "endpoint_type": _BROKERS,
        "cluster_id": image.cluster_id,
        "controller_id": image.controller_id if known else min((record.broker_id for record in live), default=NONE),
        "brokers": [
            {
                "broker_id": record.broker_id,
                "host": record.host,
                "port": record.port,
                "rack": record.rack,
                "is_fenced": record.fenced,
            }
            for record in sorted(shown)
        ],
        "cluster_authorized_operations": (
            _ALL_OPERATIONS if asked.include_cluster_authorized_operations else _NOT_ASKED
        ),
    }


def _refusal(endpoint_type: int) -> dict[str, Any]:
    if endpoint_type == _CONTROLLERS:
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        message = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
    else:
        code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        message = f"Unsupported endpoint type {endpoint_type}"
    return {
        "throttle_time": 0,
        "error_code": code,
        "error_message": message,
        "endpoint_type": _BROKERS,
        "cluster_id": "",
        "controller_id": NONE,
        "brokers": (),
        "cluster_authorized_operations": _NOT_ASKED,
    }
