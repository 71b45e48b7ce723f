"""What a follower's fetch proves: that it has all records below the offset that it asks for."""

from syncline.core.fetching.session import SessionPartition
from syncline.core.replication.slow_leader.waits import PendingEntry
from syncline.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset
from syncline.node.fetching.serving import FetchServing
from syncline.node.partitions.partition import Partition
from syncline.wire.fetch import FetchRequest


def report_progress(
    serving: FetchServing,
    fetch: FetchRequest,
    taken_up_ms: int,
    entry: SessionPartition,
    partition: Partition,
    log_end: Offset,
    leader_epoch: LeaderEpoch,
    pending: PendingEntry | None = None,
) -> None:
    """Report one partition's progress to its leader, if this broker still leads it.

    `log_end` and `leader_epoch` are from before the read; `taken_up_ms` is when the fetch came, `pending` what was
    registered of a slow read (KIP-501).
    """
    entry.is_unproved = False
    leader = partition.leader
    if leader is None:
        return
    effects = leader.follower_fetched(
        BrokerId(fetch.replica_id),
        entry.fetch_offset,
        entry.log_start,
        log_end,
        BrokerEpoch(fetch.replica_epoch),
        leader_epoch,
        taken_up_ms,
        stamp=entry,
        entry=pending,
    )
    if effects:
        partition.perform(effects)
    serving.low_watermarks.moved(partition)
