"""Requests of a broker to the controller for itself: topics that it needs, and producer ids.

Producer ids are allocated in blocks, so that most new producers cost no round trip. Invariant: no id is used twice.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from syncline.model.broker_config import BrokerConfig
from syncline.model.errors import ErrorCode
from syncline.node.channel.forwards import Forwards
from syncline.node.channel.link import ControllerLink
from syncline.wire.api import ApiKey
from syncline.wire.codec import request_type
from syncline.wire.entities import build

_CREATE_TOPICS_VERSION: Final = 7


class OwnRequests:
    """The requests of one broker for itself."""

    def __init__(self, forwards: Forwards, link: ControllerLink, *, config: Callable[[], BrokerConfig]) -> None:
        self._forwards = forwards
        self._link = link
        self._config = config
        self._producer_ids = range(0)

    async def create_topics(
        self, names: Sequence[str], partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> list[tuple[str, ErrorCode, str | None]]:
        """Create topics that differ in their names alone; return the result of each."""
        entity = build(
            request_type(ApiKey.CREATE_TOPICS, _CREATE_TOPICS_VERSION),
            {
                "topics": [
                    {
                        "name": name,
                        "num_partitions": partitions,
                        "replication_factor": replication_factor,
                        "assignments": (),
                        "configs": [{"name": each, "value": value} for each, value in configs.items()],
                    }
                    for name in names
                ],
                "timeout": self._config().request_timeout_ms,
                "validate_only": False,
            },
        )
        reply = await self._forwards.ask(ApiKey.CREATE_TOPICS, _CREATE_TOPICS_VERSION, entity)
        if reply is None:
            return [(name, ErrorCode.REQUEST_TIMED_OUT, None) for name in names]
        return [(result.name, ErrorCode(int(result.error_code)), result.error_message) for result in reply.topics]

    async def producer_id(self) -> int | None:
        """Return an unused producer id; None when no controller answered in time."""
        while not self._producer_ids:
            entity = build(
                request_type(ApiKey.ALLOCATE_PRODUCER_IDS, 0),
                {"broker_id": self._link.broker_id, "broker_epoch": self._link.broker_epoch},
            )
            reply = await self._forwards.ask(ApiKey.ALLOCATE_PRODUCER_IDS, 0, entity)
            if reply is None or int(reply.error_code):
                return None
            first = int(reply.producer_id_start)
            self._producer_ids = range(first, first + int(reply.producer_id_len))
        taken = self._producer_ids[0]
        self._producer_ids = self._producer_ids[1:]
        return taken
