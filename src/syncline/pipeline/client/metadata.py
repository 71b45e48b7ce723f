"""Where partitions are and which topic a name stands for: the request Metadata 10, or 9 of brokers without topic ids.

Every broker from Apache Kafka 2.8 on serves version 10, the first with topic ids (KIP-516). An id belongs to one topic
for ever: a topic that is deleted and created again under the same name has another one. Ids are written as Kafka's own
tools write them, 22 characters of URL-safe base64; an empty text stands for a broker that sent none.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from syncline.model.ids import uuid_text
from syncline.pipeline.client.messages import Api, decoded, encoded
from syncline.pipeline.client.settings import Address

METADATA: Final = Api(3, 10, is_flexible=True)
METADATA_WITHOUT_IDS: Final = Api(3, 9, is_flexible=True)


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic: an error code, or its id and the broker that leads each partition (-1 for none)."""

    code: int
    leaders: Mapping[int, int]
    id: str = ""
    is_internal: bool = False


@dataclass(frozen=True, slots=True)
class Metadata:
    """What one broker says of all brokers, by id, and of topics, by name."""

    brokers: Mapping[int, Address]
    topics: Mapping[str, Topic]


def request(topics: Sequence[str] | None, api: Api = METADATA) -> bytes:
    """Return the question after topics, after all of them for `None`."""
    from kio.schema.types import TopicName

    if api == METADATA:
        from kio.schema.metadata.v10 import request as v10

        return encoded(
            v10.MetadataRequest(
                topics=None
                if topics is None
                else tuple(v10.MetadataRequestTopic(topic_id=None, name=TopicName(topic)) for topic in topics),
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=False,
                include_topic_authorized_operations=False,
            )
        )
    from kio.schema.metadata.v9 import request as v9

    return encoded(
        v9.MetadataRequest(
            topics=None
            if topics is None
            else tuple(v9.MetadataRequestTopic(name=TopicName(topic)) for topic in topics),
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
    )


def answer(view: memoryview, api: Api = METADATA) -> Metadata:
    """Return the content of an answer; raise `RetriableError` if it cannot be read."""
    if api == METADATA:
        from kio.schema.metadata.v10 import response as v10

        message = decoded(v10.MetadataResponse, view)
    else:
        from kio.schema.metadata.v9 import response as v9

        message = decoded(v9.MetadataResponse, view)
    return Metadata(
        brokers={int(broker.node_id): (broker.host, int(broker.port)) for broker in message.brokers},
        topics={
            topic.name: Topic(
                int(topic.error_code),
                {int(partition.partition_index): int(partition.leader_id) for partition in topic.partitions},
                _text(topic.topic_id) if api == METADATA else "",
                topic.is_internal,
            )
            for topic in message.topics
        },
    )


def _text(topic_id: uuid.UUID | None) -> str:
    return "" if topic_id is None else uuid_text(topic_id)
