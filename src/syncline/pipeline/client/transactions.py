"""Producer ids and transactions, as a producer of Apache Kafka 2.8 to 4.x asks for them.

InitProducerId 4, AddPartitionsToTxn 3, AddOffsetsToTxn 3, TxnOffsetCommit 3 and EndTxn 3: all of these brokers serve
them, and with them partitions are added by request, whatever the cluster's `transaction.version`.

Beginning a transaction fences all earlier producers of its id, and ends what they left open: the broker refuses their
requests from then on. What a transaction wrote, and the mark that was committed with it, count together or not at all.

Units: milliseconds. Source: KIP-98, KIP-360 (epochs that run out), KIP-447 (stable offsets), KIP-890.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import groupby
from typing import Final, NamedTuple

from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.client.coordinators import Coordinator, check
from syncline.pipeline.client.marks import Mark
from syncline.pipeline.client.messages import Api, decoded, encoded
from syncline.pipeline.client.producing import FencedError
from syncline.pipeline.errors import BrokerError

INIT_PRODUCER_ID: Final = Api(22, 4, is_flexible=True)
ADD_PARTITIONS_TO_TXN: Final = Api(24, 3, is_flexible=True)
ADD_OFFSETS_TO_TXN: Final = Api(25, 3, is_flexible=True)
END_TXN: Final = Api(26, 3, is_flexible=True)
TXN_OFFSET_COMMIT: Final = Api(28, 3, is_flexible=True)

_FENCED: Final = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)


class Identity(NamedTuple):
    """A producer id with its epoch."""

    producer_id: int
    producer_epoch: int


def new_producer(cluster: Cluster) -> Identity:
    """Return an unused producer id, for writing without transactions."""
    return cluster.persist(
        "ask for a producer id",
        lambda: _read_identity(cluster.ask_any(INIT_PRODUCER_ID, _init(None, 0)), "producer id"),
    )


def _init(transactional_id: str | None, timeout_ms: int) -> bytes:
    from kio.schema.init_producer_id.v4 import request as q
    from kio.schema.types import TransactionalId
    from kio.static.primitive import i32Timedelta

    return encoded(
        q.InitProducerIdRequest(
            transactional_id=None if transactional_id is None else TransactionalId(transactional_id),
            transaction_timeout=i32Timedelta.parse(timedelta(milliseconds=timeout_ms)),
        )
    )


def _read_identity(view: memoryview, subject: str) -> Identity:
    from kio.schema.init_producer_id.v4 import response as a

    told = decoded(a.InitProducerIdResponse, view)
    code = int(told.error_code)
    if code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
        raise BrokerError(
            "kafka.transaction.timeout.ms is longer than the brokers allow: "
            "lower it to their transaction.max.timeout.ms, or raise that"
        )
    if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        raise BrokerError("the user may not write idempotently: allow IDEMPOTENT_WRITE on the cluster")
    _check(code, subject)
    return Identity(int(told.producer_id), int(told.producer_epoch))


def _check(code: int, subject: str) -> None:
    if code in _FENCED:
        raise FencedError(
            f"another attempt at the same task has taken over {subject}, or it took longer than "
            "kafka.transaction.timeout.ms: if Spark started another attempt, do nothing; otherwise stop "
            "the second query with this checkpoint, or raise that option"
        )
    check(code, subject)


@dataclass(slots=True)
class Transaction:
    """One transaction of a transactional id."""

    cluster: Cluster
    transactional_id: str
    identity: Identity
    _coordinator: Coordinator
    _partitions: set[TopicPartition] = field(default_factory=set)

    @classmethod
    def begin(cls, cluster: Cluster, transactional_id: str, timeout_ms: int) -> "Transaction":
        """Fence all others of this id, wait until their last transaction has ended, and return a new one."""
        coordinator = Coordinator(cluster, "transaction", transactional_id)
        subject = f"transactional id {transactional_id}"
        identity = coordinator.ask(
            f"begin a transaction of {transactional_id}",
            INIT_PRODUCER_ID,
            _init(transactional_id, timeout_ms),
            lambda view: _read_identity(view, subject),
        )
        return cls(cluster, transactional_id, identity, coordinator)

    def add(self, places: Iterable[TopicPartition]) -> None:
        """Make partitions part of the transaction; needed before the first batch for each."""
        from kio.schema.add_partitions_to_txn.v3 import request as q
        from kio.schema.add_partitions_to_txn.v3 import response as a
        from kio.schema.types import ProducerId, TopicName, TransactionalId
        from kio.static.primitive import i16, i32

        new = sorted(set(places) - self._partitions)
        if not new:
            return
        question = q.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TransactionalId(self.transactional_id),
            v3_and_below_producer_id=ProducerId(self.identity.producer_id),
            v3_and_below_producer_epoch=i16(self.identity.producer_epoch),
            v3_and_below_topics=tuple(
                q.AddPartitionsToTxnTopic(name=TopicName(topic), partitions=tuple(i32(each.partition) for each in some))
                for topic, some in groupby(new, key=lambda place: place.topic)
            ),
        )

        def read(view: memoryview) -> None:
            for topic in decoded(a.AddPartitionsToTxnResponse, view).results_by_topic_v3_and_below:
                for each in topic.results_by_partition:
                    code = int(each.partition_error_code)
                    # The others of a request that holds a refused partition; that one's code says why.
                    if code != ErrorCode.OPERATION_NOT_ATTEMPTED:
                        _check(code, f"{topic.name}:{each.partition_index} within a transaction")

        self._coordinator.ask("add partitions to a transaction", ADD_PARTITIONS_TO_TXN, encoded(question), read)
        self._partitions.update(new)

    def mark(self, group: str, place: TopicPartition, mark: Mark) -> None:
        """Make a mark of a group part of the transaction."""
        from kio.schema.add_offsets_to_txn.v3 import request as q
        from kio.schema.add_offsets_to_txn.v3 import response as a
        from kio.schema.types import GroupId, ProducerId, TransactionalId
        from kio.static.primitive import i16

        question = q.AddOffsetsToTxnRequest(
            transactional_id=TransactionalId(self.transactional_id),
            producer_id=ProducerId(self.identity.producer_id),
            producer_epoch=i16(self.identity.producer_epoch),
            group_id=GroupId(group),
        )
        self._coordinator.ask(
            f"add group {group} to a transaction",
            ADD_OFFSETS_TO_TXN,
            encoded(question),
            lambda view: _check(int(decoded(a.AddOffsetsToTxnResponse, view).error_code), f"group {group}"),
        )
        self._commit_offset(group, place, mark)

    def _commit_offset(self, group: str, place: TopicPartition, mark: Mark) -> None:
        from kio.schema.txn_offset_commit.v3 import request as q
        from kio.schema.txn_offset_commit.v3 import response as a
        from kio.schema.types import GroupId, ProducerId, TopicName, TransactionalId
        from kio.static.primitive import i16, i32, i64

        question = q.TxnOffsetCommitRequest(
            transactional_id=TransactionalId(self.transactional_id),
            group_id=GroupId(group),
            producer_id=ProducerId(self.identity.producer_id),
            producer_epoch=i16(self.identity.producer_epoch),
            topics=(
                q.TxnOffsetCommitRequestTopic(
                    name=TopicName(place.topic),
                    partitions=(
                        q.TxnOffsetCommitRequestPartition(
                            partition_index=i32(place.partition),
                            committed_offset=i64(mark.offset),
                            committed_metadata=mark.text,
                        ),
                    ),
                ),
            ),
        )

        def read(view: memoryview) -> None:
            for topic in decoded(a.TxnOffsetCommitResponse, view).topics:
                for each in topic.partitions:
                    _check(int(each.error_code), f"mark of {group}")

        Coordinator(self.cluster, "group", group).ask(
            f"write the mark of {group}", TXN_OFFSET_COMMIT, encoded(question), read
        )

    def end(self, *, commit: bool) -> None:
        """Commit or abort; a commit holds when this returns, and readers see it a moment later."""
        from kio.schema.end_txn.v3 import request as q
        from kio.schema.end_txn.v3 import response as a
        from kio.schema.types import ProducerId, TransactionalId
        from kio.static.primitive import i16

        question = q.EndTxnRequest(
            transactional_id=TransactionalId(self.transactional_id),
            producer_id=ProducerId(self.identity.producer_id),
            producer_epoch=i16(self.identity.producer_epoch),
            committed=commit,
        )
        self._coordinator.ask(
            f"{'commit' if commit else 'abort'} a transaction",
            END_TXN,
            encoded(question),
            lambda view: _check(
                int(decoded(a.EndTxnResponse, view).error_code), f"end of a transaction of {self.transactional_id}"
            ),
        )
