"""Fetches of followers that already have all records, as most do: a follower asks right after it has stored the last.

Such a fetch proves progress and waits. There is nothing to read, limit or judge, so it needs no row. The conditions
are those under which `PartitionReader.read` finds neither records nor an error; that method handles all other fetches.
"""

from collections.abc import Collection, Mapping

from syncline.core.fetching.session import SessionPartition
from syncline.model.ids import BrokerEpoch, BrokerId, TopicPartition
from syncline.node.partitions.partition import Partition
from syncline.wire.fetch import FetchRequest


def caught_up(
    entries: Collection[SessionPartition], fetch: FetchRequest, partitions: Mapping[TopicPartition, Partition]
) -> list[Partition] | None:
    """Return the partitions of `entries`, in their order; None unless their follower is at the end of each."""
    found: list[Partition] = []
    for entry in entries:
        partition = entry.target
        if not isinstance(partition, Partition) or partitions.get(partition.key) is not partition:
            return None
        log, leader = partition.log, partition.leader
        if (
            leader is None
            or log.is_offline
            # A consumer's session proves nothing, even if a later request in it claims to be a follower's.
            or not entry.is_follower
            or entry.fetch_offset != log.log_end
            or entry.last_fetched_epoch != log.epochs.latest_epoch
            or entry.current_leader_epoch != partition.leader_epoch
            or leader.check_fetch(
                BrokerId(fetch.replica_id), entry.current_leader_epoch, BrokerEpoch(fetch.replica_epoch)
            )
        ):
            return None
        found.append(partition)
    return found
