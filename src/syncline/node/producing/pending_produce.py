"""A produce request that waits until its records are committed (acks=all).

One object per request, whatever the number of its partitions: each undecided
partition refers to it in a queue ordered by required offset. When the last one
is decided, or the time-out passes, the answer is sent.
Source: `DelayedProduce` of Apache Kafka; KIP-679 for acks=all as default.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from syncline.core.refused_heads import RefusedHeads
from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.node.clock import Clock
from syncline.node.counting.counters import Counters
from syncline.node.loop.deadlines import Deadlines
from syncline.node.metadata.cluster_view import ClusterView
from syncline.node.partitions.partition import Partition
from syncline.node.producing.opening import Opening
from syncline.node.producing.unanswered_refusals import UnansweredRefusals
from syncline.wire.endpoints import NodeEndpoint
from syncline.wire.produce import ProducedPartition, encode_produce_response

if TYPE_CHECKING:
    from syncline.node.serving.request import Request


class Producing(NamedTuple):
    """What produce requests use of a broker; all requests share one."""

    clock: Clock
    cluster: ClusterView
    partitions: Mapping[TopicPartition, Partition]
    counters: Counters
    deadlines: Deadlines
    unanswered: UnansweredRefusals
    opening: Opening
    refused_heads: RefusedHeads


class PendingProduce:
    """A produce request without an answer."""

    __slots__ = ("_bucket", "_endpoints", "_parked_ms", "_producing", "_request", "_rows", "_size_bytes", "_undecided")

    def __init__(self, producing: Producing, request: "Request", size_bytes: int) -> None:
        self._producing = producing
        self._request = request
        self._rows: list[tuple[str, list[ProducedPartition]]] = []
        self._endpoints: dict[int, NodeEndpoint] = {}
        self._undecided: dict[tuple[int, int], None] = {}
        self._size_bytes = size_bytes
        self._bucket = -1
        self._parked_ms = 0

    def add_topic(self, topic: str) -> list[ProducedPartition]:
        """Return the (growing) rows of one topic of the answer."""
        rows: list[ProducedPartition] = []
        self._rows.append((topic, rows))
        return rows

    def point_to_leader(self, endpoint: NodeEndpoint) -> None:
        """Add a broker to the answer: the leader that the client should have asked (KIP-951)."""
        self._endpoints[endpoint.node_id] = endpoint

    def wait_for(self, topic_index: int, row_index: int) -> None:
        """Wait for a row, which already holds a success, to be decided."""
        assert topic_index < len(self._rows), f"topic {topic_index} of {len(self._rows)}"
        self._undecided[(topic_index, row_index)] = None

    def replace(self, topic_index: int, row_index: int, row: ProducedPartition) -> None:
        """Put the row of a batch that had to be opened in its place."""
        rows = self._rows[topic_index][1]
        assert rows[row_index].partition == row.partition, f"{row} is put in the place of {rows[row_index]}"
        rows[row_index] = row

    @property
    def undecided_count(self) -> int:
        """How many partitions the answer waits for."""
        return len(self._undecided)

    def park(self, timeout_ms: int) -> None:
        """Answer now if everything is decided; else wait, at most `timeout_ms`."""
        if not self._undecided:
            self._answer()
        elif timeout_ms <= 0:
            self.expired(0)
        else:
            self._request.connection.hold(self._size_bytes)
            now_ms = self._parked_ms = self._producing.clock.mono_ms()
            self._bucket = self._producing.deadlines.park(self, now_ms + timeout_ms, timeout_ms)

    def decided(self, topic_index: int, row_index: int, code: ErrorCode) -> None:
        """Take the verdict on one row."""
        if self._undecided.pop((topic_index, row_index), False) is False:
            return
        if code:
            rows = self._rows[topic_index][1]
            leader, endpoint = self._producing.cluster.leader_hint(
                self._rows[topic_index][0], rows[row_index].partition, code
            )
            rows[row_index] = rows[row_index]._replace(error_code=code, current_leader=leader)
            if endpoint is not None:
                self.point_to_leader(endpoint)
        if not self._undecided and self._bucket >= 0:
            self._producing.deadlines.forget(self, self._bucket)
            self._waited()
            self._answer()

    def expired(self, now_ms: int) -> None:
        """Answer REQUEST_TIMED_OUT for what is undecided; its records stay and may still be committed."""
        if not self._undecided:
            return
        for topic_index, row_index in self._undecided:
            topic, rows = self._rows[topic_index]
            rows[row_index] = rows[row_index]._replace(error_code=ErrorCode.REQUEST_TIMED_OUT)
            self._producing.counters.produce_expired(TopicPartition(topic, rows[row_index].partition))
        self._undecided.clear()
        if self._bucket >= 0:
            self._waited()
        self._answer()

    def _waited(self) -> None:
        """Count the wait that ends, of clients only: brokers write the journal, in which it is shown."""
        connection, producing = self._request.connection, self._producing
        connection.release(self._size_bytes)
        if connection.listener == "client":
            producing.counters.acknowledgement_waits.note(producing.clock.mono_ms() - self._parked_ms)

    def _answer(self) -> None:
        request = self._request
        if not request.is_done:
            request.reply_parts(
                (encode_produce_response(request.version, self._rows, 0, tuple(self._endpoints.values())),)
            )
