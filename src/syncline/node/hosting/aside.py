"""Damaged logs set aside: when their new copies have replaced them, and they may be deleted.

One hard idea: being in sync is not enough. The leader from which the new copy was made may lack records that this
broker had (it may be the damaged one itself, or one elected uncleanly). So a log set aside is deleted when two things
hold: the controller has committed an in-sync set with this broker's new copy, and the new copy holds the last sound
record that the old one had, which proves that it holds all before it. What retention would have deleted by now does not
count, nor what was never committed, if that is known.

A topic that is deleted takes its logs with it, also those set aside. Otherwise they stay, and `look` says so once.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial

from syncline.model.ids import BrokerId, TopicPartition
from syncline.node.clock import Clock
from syncline.node.metadata.cluster_view import ClusterView
from syncline.node.partitions.partition import Partition
from syncline.storage.disk import Disk
from syncline.storage.errors import StorageError
from syncline.storage.log_directory import LogDirectory
from syncline.storage.recovery.aside import AsideLog
from syncline.storage.recovery.salvage import Tail, tail_of

log = logging.getLogger("syncline.node")


class AsideCopies:
    """The logs that one broker has set aside."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        clock: Clock,
        cluster: ClusterView,
        disk: Disk,
        logs: LogDirectory,
        partitions: Mapping[TopicPartition, Partition],
    ) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._cluster = cluster
        self._disk = disk
        self._logs = logs
        self._partitions = partitions
        # Those that a worker reads at present, and those that were reported to be needed still.
        self._surveyed: set[str] = set()
        self._reported: set[str] = set()

    def look(self) -> None:
        """Delete what has been replaced; called after each change of the metadata, and from time to time."""
        for aside in self._logs.aside:
            self._judge(aside)

    def _judge(self, aside: AsideLog) -> None:
        topic = self._cluster.image.topics.get(aside.key.topic)
        record = self._cluster.image.partition(*aside.key)
        if topic is None or record is None:
            # Deletions are named by the metadata (`discard_topic`) or by the first image (`discard_strays`).
            return
        if aside.topic_id not in (None, topic.topic_id) or self._broker_id not in record.replicas:
            self._discard(aside, "it is no longer assigned to this broker")
            return
        copy = self._partitions.get(aside.key)
        if copy is None or copy.is_offline or self._broker_id not in record.isr or not record.has_leader:
            return
        if not aside.is_surveyed:
            self._survey(aside)
        elif self._is_replaced(aside.tail, copy):
            self._discard(aside, "the new copy is in sync and holds its records")
        elif aside.path not in self._reported:
            self._reported.add(aside.path)
            assert aside.tail is not None, "a log without a sound record is replaced by any"
            log.warning(
                "%s is kept, although the new copy of %s is in sync: it holds records up to offset %s, of "
                "leader epoch %s, that the new copy (%s..%s) does not hold. Delete the directory if you do "
                "not need these records.",
                aside.path,
                aside.key,
                aside.tail.end_offset,
                aside.tail.leader_epoch,
                copy.log.log_start,
                copy.log.log_end,
            )

    def _is_replaced(self, tail: Tail | None, copy: Partition) -> bool:
        if tail is None or tail.end_offset <= copy.log.log_start:
            return True
        return copy.log.epochs.holds(tail.leader_epoch, tail.end_offset, copy.log.log_end)

    def _survey(self, aside: AsideLog) -> None:
        """Have a worker find the last sound record that may have been committed."""
        if aside.path in self._surveyed:
            return
        self._surveyed.add(aside.path)
        below = None if aside.note.uncommitted_from < 0 else aside.note.uncommitted_from
        self._disk.run_later(partial(tail_of, self._disk, aside.path, below), self._surveyed_by(aside))

    def _surveyed_by(self, aside: AsideLog) -> Callable[[Tail | Exception | None], None]:
        def done(outcome: Tail | Exception | None) -> None:
            self._surveyed.discard(aside.path)
            if isinstance(outcome, Exception):
                log.warning("%s cannot be read and is kept: %s", aside.path, outcome)
                return
            aside.tail, aside.is_surveyed = outcome, True
            if aside in self._logs.aside:
                self._judge(aside)

        return done

    def discard_topic(self, name: str) -> None:
        """Delete what was set aside of a deleted topic."""
        for aside in self._logs.aside:
            if aside.key.topic == name:
                self._discard(aside, "its topic was deleted")

    def discard_strays(self) -> None:
        """Delete what was set aside of topics that were deleted while this broker was down."""
        for aside in self._logs.aside:
            if self._cluster.image.partition(*aside.key) is None:
                self._discard(aside, "its topic was deleted")

    def _discard(self, aside: AsideLog, reason: str) -> None:
        log.info("%s is deleted: %s", aside.path, reason)
        try:
            self._logs.discard_aside(aside, self._clock.mono_ms())
        except (StorageError, OSError) as error:
            log.error("%s cannot be deleted: %s", aside.path, error)
