"""BrokerHeartbeat (key 63), versions 0-1, between brokers only.

A broker reports that it is alive, how far it has applied the metadata, whether it
wants to stop, and (v1) which logs it cannot serve or should not lead: each replica's
directory counts as a log directory of its own (KIP-858; `model.impairments`). The answer reports whether the broker is
fenced and whether it may stop (KIP-631).
"""

from typing import TYPE_CHECKING, Any

from syncline.core.cluster.broker_lifecycle import HeartbeatAnswer, heartbeat
from syncline.core.cluster.decision import Decision
from syncline.model.errors import ErrorCode
from syncline.model.ids import BrokerId
from syncline.model.impairments import report_of
from syncline.model.metadata import MetadataImage
from syncline.wire.api import ApiKey
from syncline.wire.codec import response_type
from syncline.wire.entities import build

if TYPE_CHECKING:
    from syncline.node.controller.active import ActiveController
    from syncline.node.serving.request import Request
    from syncline.node.views.parts import MayBeController

KEY = ApiKey.BROKER_HEARTBEAT


def handle(broker: "MayBeController", request: "Request") -> None:
    """Record the heartbeat; answer when the change that it causes is committed."""
    active = broker.controller.active
    asked = request.decode()

    def answered(answer: HeartbeatAnswer | None) -> None:
        result = answer or HeartbeatAnswer(ErrorCode.NOT_CONTROLLER)
        fields = {
            "throttle_time": 0,
            "error_code": result.error,
            "is_caught_up": result.is_caught_up,
            "is_fenced": result.is_fenced,
            "should_shut_down": result.should_shut_down,
        }
        request.reply(build(response_type(KEY, request.version), fields))

    if active is None or not _is_current(active, asked, request):
        answered(None)
        return

    def decide(image: MetadataImage, version: int) -> Decision[HeartbeatAnswer]:
        return heartbeat(
            image,
            active.sessions,
            BrokerId(int(asked.broker_id)),
            int(asked.broker_epoch),
            active.config,
            metadata_version=int(asked.current_metadata_offset),
            want_fence=asked.want_fence,
            want_shut_down=asked.want_shut_down,
            version=version,
            now_ms=active.clock.mono_ms(),
            logs=report_of(each for each in getattr(asked, "offline_log_dirs", ()) if each is not None),
            is_starting=active.is_starting,
        )

    active.decide(decide, answered)


def _is_current(active: "ActiveController", asked: Any, request: "Request") -> bool:
    """Return whether a heartbeat came over the broker's current connection, not late over an older one.

    A late one could put a broker back into service that was fenced because all brokers stop. A heartbeat with
    another broker epoch passes: its answer reports the stale epoch.
    """
    broker_id = BrokerId(int(asked.broker_id))
    known = active.image.brokers.get(broker_id)
    is_known = known is not None and known.broker_epoch == int(asked.broker_epoch)
    return not is_known or active.registrations.is_current(broker_id, request.connection)
