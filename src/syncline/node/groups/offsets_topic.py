"""The offsets topic: which of its partitions holds a group, and creating it when the first client needs it."""

import logging

from syncline.core.groups.placement import partition_of
from syncline.model.errors import RequestError
from syncline.model.ids import OFFSETS_TOPIC
from syncline.node.groups.port import GroupsHost

log = logging.getLogger("syncline.groups")


class OffsetsTopic:
    """The offsets topic, as one broker's coordinator uses it."""

    def __init__(self, host: GroupsHost) -> None:
        self._host = host
        self._is_being_created = False

    def partition_of(self, group_id: str) -> int:
        """Return the partition that holds a group."""
        topic = self._host.image.topics.get(OFFSETS_TOPIC)
        count = len(topic.partitions) if topic is not None else self._host.config.offsets_topic_num_partitions
        return partition_of(group_id, count)

    def create(self) -> None:
        """Ask the controller to create the topic; the metadata shows it a moment later."""
        if not self._is_being_created:
            self._is_being_created = True
            self._host.spawn(self._create())

    async def _create(self) -> None:
        try:
            await self._host.create_internal_topic(OFFSETS_TOPIC)
        except RequestError as error:
            # The client retries, and the coordinator then asks the controller again.
            log.warning("cannot create %s: %s", OFFSETS_TOPIC, error)
        finally:
            self._is_being_created = False
