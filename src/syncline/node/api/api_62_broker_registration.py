"""BrokerRegistration (key 62), versions 0-4, between brokers only.

A broker process joins the cluster (KIP-631); v3 adds the previous broker epoch,
the proof of a clean stop (KIP-966). Its listeners are named CLIENT and INTERNAL.
"""

from typing import TYPE_CHECKING, Any

from syncline.core.cluster.broker_lifecycle import Registration, RegistrationAnswer
from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE, BrokerEpoch, BrokerId
from syncline.model.metadata import NO_TOPIC_ID
from syncline.wire.api import ApiKey
from syncline.wire.codec import response_type
from syncline.wire.entities import build

if TYPE_CHECKING:
    from syncline.node.serving.request import Request
    from syncline.node.views.parts import MayBeController

KEY = ApiKey.BROKER_REGISTRATION


def handle(broker: "MayBeController", request: "Request") -> None:
    """Register, and answer when the registration is committed."""
    active = broker.controller.active
    asked = request.decode()

    def answered(answer: RegistrationAnswer | None) -> None:
        result = answer or RegistrationAnswer(ErrorCode.NOT_CONTROLLER, BrokerEpoch(NONE))
        if active is not None and result.error is ErrorCode.NONE:
            active.registrations.registered_over(BrokerId(int(asked.broker_id)), request.connection)
        fields = {"throttle_time": 0, "error_code": result.error, "broker_epoch": result.broker_epoch}
        request.reply(build(response_type(KEY, request.version), fields))

    if active is None:
        answered(None)
        return
    active.register(_registration(asked), answered)


def _registration(asked: Any) -> Registration:
    listeners = {listener.name: (listener.host, int(listener.port)) for listener in asked.listeners}
    host, port = listeners.get("CLIENT", ("", NONE))
    internal_host, internal_port = listeners.get("INTERNAL", (host, port))
    return Registration(
        broker_id=BrokerId(int(asked.broker_id)),
        incarnation_id=(asked.incarnation_id or NO_TOPIC_ID).hex,
        host=host,
        port=port,
        internal_host=internal_host,
        internal_port=internal_port,
        rack=asked.rack,
        cluster_id=asked.cluster_id,
        previous_broker_epoch=int(getattr(asked, "previous_broker_epoch", NONE)),
    )
