"""Checking a log's own bytes, as its followers do before they store them.

One hard idea: a follower that refuses records proves nothing about the leader's
log. They may have been damaged on the way, or the follower may be wrong. So the
leader reads the same place again and applies the same checks.

A gap between two batches is no damage: compacted logs that Kafka wrote have
gaps. Runs in a worker: reads and checksums may take long.

Units: offsets count records.
"""

from syncline.model.ids import LeaderEpoch, Offset, TopicPartition
from syncline.records.batch import HEADER_BYTES, BatchHeader
from syncline.storage.errors import CorruptRecordsError, DamagedLogError, UnexpectedOffsetError
from syncline.storage.segments import incoming
from syncline.storage.segments.batch_walk import NotABatch
from syncline.storage.segments.reading import Search, Slice


def damage_at(plan: Slice | Search, topic_partition: TopicPartition) -> str | None:
    """Return what is wrong with the batches of a planned read, None if they are sound; waits for the disk.

    Raises OSError if they cannot be read, which says nothing about them.
    """
    try:
        view = memoryview(plan.read())
        if len(view) < HEADER_BYTES:
            return f"{topic_partition}: {len(view)} bytes are left where a batch should be"
        first = BatchHeader.parse(view, 0)
        incoming.checked(view, Offset(first.base_offset), LeaderEpoch(first.leader_epoch), topic_partition)
    except NotABatch as error:
        return f"{topic_partition}: {error}"
    except (CorruptRecordsError, DamagedLogError, UnexpectedOffsetError) as error:
        return str(error)
    return None
