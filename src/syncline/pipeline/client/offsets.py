"""Which offsets partitions hold: the request ListOffsets 6, which every broker from Apache Kafka 2.8 to 4.x serves.

Units: offsets count records; times are Unix milliseconds. `EARLIEST` and `LATEST` stand in place of a time.
"""

from collections.abc import Mapping
from itertools import groupby
from typing import Final, NamedTuple

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.messages import Api, decoded, encoded

LIST_OFFSETS: Final = Api(2, 6, is_flexible=True)

EARLIEST: Final = -2
LATEST: Final = -1


class Found(NamedTuple):
    """The answer for one partition: an error code, and the offset, -1 if no record is that new."""

    code: int
    offset: int


def request(wanted: Mapping[TopicPartition, int], *, read_committed: bool) -> bytes:
    """Return the question to one broker after the offsets for times of partitions that it leads."""
    from kio.schema.list_offsets.v6 import request as v6
    from kio.schema.types import BrokerId, TopicName
    from kio.static.primitive import i8, i32, i64

    return encoded(
        v6.ListOffsetsRequest(
            replica_id=BrokerId(-1),
            isolation_level=i8(int(read_committed)),
            topics=tuple(
                v6.ListOffsetsTopic(
                    name=TopicName(topic),
                    partitions=tuple(
                        v6.ListOffsetsPartition(partition_index=i32(place.partition), timestamp=i64(wanted[place]))
                        for place in places
                    ),
                )
                for topic, places in groupby(sorted(wanted), key=lambda place: place.topic)
            ),
        )
    )


def answer(view: memoryview) -> dict[TopicPartition, Found]:
    """Return the content of an answer; raise `RetriableError` if it cannot be read."""
    from kio.schema.list_offsets.v6 import response as v6

    message = decoded(v6.ListOffsetsResponse, view)
    return {
        TopicPartition(topic.name, int(partition.partition_index)): Found(
            int(partition.error_code), int(partition.offset)
        )
        for topic in message.topics
        for partition in topic.partitions
    }
