"""InitProducerId (key 22), versions 0-5.

v2 flexible, v3 previous producer id and epoch (KIP-360). Idempotent producers
only: each request without a transactional id gets a new id with epoch 0. There is
no transaction coordinator, so a producer with a transactional id is refused, with
an error that it does not retry.
"""

from typing import TYPE_CHECKING, Protocol

from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE
from syncline.wire.api import ApiKey
from syncline.wire.codec import response_type
from syncline.wire.entities import build

if TYPE_CHECKING:
    from syncline.node.serving.request import Request
    from syncline.node.views.parts import RunsTasks
    from syncline.node.views.values import HasConfig

    class ProducerIds(Protocol):
        """Where producer ids come from."""

        async def producer_id(self) -> int | None:
            """Return an unused producer id; None when no controller answered in time."""

    class Host(HasConfig, RunsTasks, Protocol):
        """What this handler uses of its broker."""

        @property
        def controller(self) -> ProducerIds:
            """Return where producer ids come from."""


KEY = ApiKey.INIT_PRODUCER_ID


def handle(broker: "Host", request: "Request") -> None:
    """Answer with an id from the broker's block, at once unless a new block is needed."""
    asked = request.decode()
    producer_id = int(getattr(asked, "producer_id", NONE))
    producer_epoch = int(getattr(asked, "producer_epoch", NONE))
    timeout_ms = asked.transaction_timeout.total_seconds() * 1_000
    if (producer_id == NONE) != (producer_epoch == NONE) or asked.transactional_id == "":
        _reply(request, ErrorCode.INVALID_REQUEST)
    elif asked.transactional_id is None:
        broker.spawn(_give(broker, request))
    elif not 0 < timeout_ms <= broker.config.transaction_max_timeout_ms:
        _reply(request, ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    else:
        _reply(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


async def _give(broker: "Host", request: "Request") -> None:
    producer_id = await broker.controller.producer_id()
    if producer_id is None:
        _reply(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    else:
        _reply(request, ErrorCode.NONE, producer_id)


def _reply(request: "Request", error: ErrorCode, producer_id: int = NONE) -> None:
    fields = {
        "throttle_time": 0,
        "error_code": error,
        "producer_id": producer_id,
        "producer_epoch": NONE if error is not ErrorCode.NONE else 0,
    }
    request.reply(build(response_type(KEY, request.version), fields))
