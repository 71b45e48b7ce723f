"""How large partitions are: the request DescribeLogDirs 2, which every broker from Apache Kafka 2.8 to 4.x serves.

Units: bytes on disk, of record batches as producers compressed them.
"""

import logging
from collections.abc import Iterable
from itertools import groupby
from typing import Final

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.client.messages import Api, decoded, encoded
from syncline.pipeline.client.refusals import RetriableError, is_fine, name_of
from syncline.pipeline.client.settings import Address
from syncline.pipeline.errors import BrokerError

log = logging.getLogger(__name__)

DESCRIBE_LOG_DIRS: Final = Api(35, 2, is_flexible=True)


def log_sizes(cluster: Cluster, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return how many bytes each partition has at its leader; those that a leader does not report are left out."""
    wanted = sorted(places)
    return cluster.persist("ask for the sizes of partitions", lambda: _ask(cluster, wanted))


def log_sizes_if_told(cluster: Cluster, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the same, from one attempt; nothing if that fails, or the user may not know."""
    try:
        return _ask(cluster, sorted(places))
    except (OSError, RetriableError, BrokerError) as error:
        log.info("partition sizes are unknown, so offsets are used as weights: %s", error)
        return {}


def _ask(cluster: Cluster, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    by_leader: dict[Address, list[TopicPartition]] = {}
    for place in wanted:
        by_leader.setdefault(cluster.leader(place), []).append(place)
    found: dict[TopicPartition, int] = {}
    for address, asked in by_leader.items():
        code, sizes = answer(cluster.ask(address, DESCRIBE_LOG_DIRS, request(asked)))
        if not is_fine(code, "sizes of partitions"):
            raise RetriableError(f"sizes of partitions: {name_of(code)}")
        found |= {place: sizes[place] for place in asked if place in sizes}
    return found


def request(places: Iterable[TopicPartition]) -> bytes:
    """Return the question to one broker after the sizes of its replicas."""
    from kio.schema.describe_log_dirs.v2 import request as v2
    from kio.schema.types import TopicName
    from kio.static.primitive import i32

    return encoded(
        v2.DescribeLogDirsRequest(
            topics=tuple(
                v2.DescribableLogDirTopic(
                    topic=TopicName(topic), partitions=tuple(i32(place.partition) for place in group)
                )
                for topic, group in groupby(sorted(places), key=lambda place: place.topic)
            )
        )
    )


def answer(view: memoryview) -> tuple[int, dict[TopicPartition, int]]:
    """Return an error code and the size of each replica; raise `RetriableError` if the answer cannot be read.

    A broker that refuses answers with no directory at all; one directory that failed has an error code of its own.
    """
    from kio.schema.describe_log_dirs.v2 import response as v2

    results = decoded(v2.DescribeLogDirsResponse, view).results
    sizes = {
        TopicPartition(topic.name, int(partition.partition_index)): int(partition.partition_size)
        for result in results
        for topic in result.topics
        for partition in topic.partitions
        if not partition.is_future_key
    }
    return next((int(result.error_code) for result in results if result.error_code), 0), sizes
