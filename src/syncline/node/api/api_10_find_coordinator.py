"""FindCoordinator (key 10), versions 0-6.

v1 key type and error text, v3 flexible, v4 several keys (KIP-699), v5 no new
fields (KIP-890), v6 share groups (KIP-932). The coordinator of a group is the
leader of its partition of the offsets topic; asking for one creates that topic.

Only groups (key type 0) have coordinators here. For transactions the answer is
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, the one error that every client takes as
final: librdkafka asks again for ever after any other. Share groups are refused
with INVALID_REQUEST.
"""

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE, OFFSETS_TOPIC
from syncline.wire.api import ApiKey
from syncline.wire.rows import Rows

if TYPE_CHECKING:
    from syncline.node.serving.request import Request, Steps
    from syncline.node.views.parts import HasGroups
    from syncline.node.views.values import HasImage

    class Host(HasGroups, HasImage, Protocol):
        """What this handler uses of its broker."""


KEY = ApiKey.FIND_COORDINATOR
BATCH_VERSION: Final = 4
GROUP_KEY_TYPE: Final = 0
TRANSACTION_KEY_TYPE: Final = 1
SHARE_KEY_TYPE: Final = 2
SHARE_VERSION: Final = 6

_NOT_AVAILABLE: Final = "The coordinator is not available."
_NO_TRANSACTIONS: Final = (
    "This cluster has no transaction coordinator: it offers no transactions. Produce without a transactional.id."
)
_MALFORMED: Final = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an"
    " incompatible broker. See the broker logs for more details."
)


class _Node(NamedTuple):
    """Where a coordinator is; by default, nowhere."""

    error: ErrorCode = ErrorCode.NONE
    node_id: int = NONE
    host: str = ""
    port: int = NONE
    text: str = ""


def handle(broker: "Host", request: "Request") -> "Steps":
    """Answer from this broker's image."""
    asked = yield from request.decode_in_steps()
    key_type = int(getattr(asked, "key_type", GROUP_KEY_TYPE))
    if request.version >= BATCH_VERSION:
        rows = Rows(asked.coordinator_keys, lambda key: _row(broker, key_type, key, request.version))
        fields: dict[str, Any] = {"coordinators": rows}
    else:
        node = _find(broker, key_type, asked.key)
        # Versions 1-3 contain the error's name, even "NONE"; later ones contain a text only where it adds something.
        text = "NONE" if not node.error else node.text or _NOT_AVAILABLE
        fields = _fields(node) | {"error_message": text}
    request.answer({"throttle_time": 0, **fields})


def _row(broker: "Host", key_type: int, key: str, version: int) -> dict[str, Any]:
    if key_type == SHARE_KEY_TYPE and version < SHARE_VERSION:
        return {"key": key, **_fields(_Node(ErrorCode.INVALID_REQUEST))}
    return {"key": key, **_fields(_find(broker, key_type, key))}


def _fields(node: _Node) -> dict[str, Any]:
    return {
        "error_code": node.error,
        "error_message": node.text,
        "node_id": node.node_id,
        "host": node.host,
        "port": node.port,
    }


def _find(broker: "Host", key_type: int, key: str) -> _Node:
    if key_type != GROUP_KEY_TYPE:
        if key_type == TRANSACTION_KEY_TYPE:
            return _Node(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, text=_NO_TRANSACTIONS)
        return _Node(ErrorCode.INVALID_REQUEST, text=_MALFORMED)
    if OFFSETS_TOPIC not in broker.image.topics:
        broker.groups.create_topic()
        return _Node(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    partition = broker.image.partition(OFFSETS_TOPIC, broker.groups.partition_of(key))
    leader = broker.image.brokers.get(partition.leader) if partition is not None else None
    if leader is None or leader.fenced:
        return _Node(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return _Node(node_id=leader.broker_id, host=leader.host, port=leader.port)
