"""AppendTimes (private key 20008), version 0, between brokers only.

A follower that lost append times in a crash asks its leader for them
(`replication.append_time_gaps` has the format). What is not in memory, a worker
reads.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from syncline.model.ids import Offset, TopicPartition
from syncline.node.replication.append_time_gaps import AskedRow, decode_request, encode_answer
from syncline.wire.api import ApiKey

if TYPE_CHECKING:
    from syncline.node.metadata.cluster_view import ClusterView
    from syncline.node.partitions.partition import Partition
    from syncline.node.serving.request import Request
    from syncline.storage.arrivals.append_time_search import AppendTimesBetween
    from syncline.storage.arrivals.append_times import CopiedTime

    class Host(Protocol):
        """What this handler uses of its broker."""

        @property
        def cluster(self) -> ClusterView:
            """Return what this broker knows of the cluster."""

        @property
        def partitions(self) -> Mapping[TopicPartition, Partition]:
            """Return the hosted partitions."""

    # One part of a row: entries, or where a worker finds them.
    Part = list[CopiedTime] | AppendTimesBetween

KEY = ApiKey.APPEND_TIMES


def handle(broker: "Host", request: "Request") -> None:
    """Answer with the entries of the stretches that a follower asks for."""
    rows = [_parts(broker, row) for row in decode_request(request.body, request.position)]
    searches = [part for part in chain.from_iterable(rows) if not isinstance(part, list)]

    def done(found: "list[list[CopiedTime]] | Exception") -> None:
        if not request.is_done:
            by_search = iter([[]] * len(searches) if isinstance(found, Exception) else found)
            request.reply_parts((encode_answer([_joined(row, by_search) for row in rows]),))

    if searches:
        searches[0].disk.run_later(partial(_run, searches), done)
    else:
        done([])


def _parts(broker: "Host", row: AskedRow) -> "list[Part]":
    """Return what this broker knows of a stretch; nothing if it does not lead the partition in that epoch."""
    topic = broker.cluster.image.topic_names.get(UUID(bytes=row.topic_id))
    partition = None if topic is None else broker.partitions.get(TopicPartition(topic, row.partition))
    if partition is None or not partition.is_leader or partition.leader_epoch != row.leader_epoch:
        return []
    return partition.log.append_times.known_between(Offset(row.start), Offset(row.end))


def _run(searches: "list[AppendTimesBetween]") -> "list[list[CopiedTime]]":
    return [search.run() for search in searches]


def _joined(parts: "list[Part]", by_search: "Iterator[list[CopiedTime]]") -> "list[CopiedTime]":
    found = [part if isinstance(part, list) else next(by_search) for part in parts]
    # Each segment of a leader begins with an entry: without one, its times are not known.
    return list(chain.from_iterable(found)) if all(found[1:]) else []
