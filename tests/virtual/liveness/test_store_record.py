"""The record of the store: in-sync sets and holders of the lease at any instant."""

from uuid import UUID

from syncline.model.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicPartition
from syncline.model.metadata import MetadataImage, PartitionRecord, Topic
from syncline.virtual.liveness.store_record import StoreRecord

KEY = TopicPartition("orders", 0)
REPLICAS = (BrokerId(1), BrokerId(2), BrokerId(3))


class Recorded:
    """A record and the clock that it reads."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.record = StoreRecord(lambda: self.now_ns)


def image(*isr: int) -> MetadataImage:
    """Return an image with one partition."""
    partition = PartitionRecord(
        0, BrokerId(isr[0]), LeaderEpoch(0), PartitionEpoch(0), REPLICAS, tuple(BrokerId(each) for each in isr)
    )
    return MetadataImage(topics={"orders": Topic(KEY.topic, UUID(int=1), (partition,))})


def test_in_sync_set_before_an_instant_is_that_of_the_last_earlier_commit() -> None:
    """A commit at the instant of a fault may already be its consequence, so it does not count."""
    recorded = Recorded()
    commits = [MetadataImage(), image(1, 2, 3), image(1, 2, 3), image(1, 3)]
    for recorded.now_ns, before, after in zip((10, 20, 30), commits, commits[1:], strict=False):
        recorded.record.committed(before, after)

    record = recorded.record
    assert [record.isr_before(KEY, now_ns) for now_ns in (10, 11, 30, 31)] == [(), (1, 2, 3), (1, 2, 3), (1, 3)]


def test_holders_include_the_one_at_the_begin_and_leave_out_times_without() -> None:
    """Broker 2 held the lease when the window began; between 5 and 6 nobody did."""
    recorded = Recorded()
    for recorded.now_ns, holder in ((1, 1), (2, 2), (5, None), (6, 3), (9, 1)):
        recorded.record.lease_moved(holder)

    assert recorded.record.holders(4, 8) == [2, 3]
    assert recorded.record.holders(6, 6) == [3]
    assert recorded.record.holders(10, 12) == [1]
