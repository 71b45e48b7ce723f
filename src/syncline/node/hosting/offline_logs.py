"""Logs that this broker cannot serve: the disk failed them, or they are damaged.

A failed log stays offline until the broker restarts, because it is unknown what a failed sync has lost. A damaged log
is kept unchanged as long as it may hold the only copy of a record. When another broker leads, it is set aside and an
empty one takes its place; `aside.py` deletes it when the new copy has replaced it. It goes when its topic is gone.

Damage found while a log is served (`damaged`) takes the log offline only if another replica can serve: what is sound in
the only one stays readable.

Each heartbeat reports these replicas to the controller, by directory id, and the controller elects other leaders.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final
from uuid import UUID

from syncline.model.ids import BrokerId, Offset, TopicPartition
from syncline.model.impairments import damaged_id
from syncline.model.metadata import PartitionRecord, directory_id
from syncline.node.clock import Clock
from syncline.node.counting.episodes import Episodes
from syncline.node.hosting.aside import AsideCopies
from syncline.node.metadata.cluster_view import ClusterView
from syncline.storage.errors import StorageError
from syncline.storage.log_directory import LogDirectory

log = logging.getLogger("syncline.node")

# A broker whose disk failed tells the controller and the journal why, before its process ends.
LAST_WORDS_S: Final = 0.5


class OfflineLogs:
    """The failed and the damaged logs of one broker."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        cluster: ClusterView,
        logs: LogDirectory,
        aside: AsideCopies,
        clock: Clock,
        episodes: Episodes,
        heartbeat_now: Callable[[], None],
        on_unfit: Callable[[str], object],
    ) -> None:
        self._broker_id = broker_id
        self._cluster = cluster
        self._logs = logs
        self.aside = aside
        self._clock = clock
        self._episodes = episodes
        self._heartbeat_now = heartbeat_now
        self._on_unfit = on_unfit
        # Partitions whose logs failed since the start. Damaged ones are not among them.
        self._failed: dict[TopicPartition, None] = {}
        # Damaged logs that are served because no other replica can, and what is wrong with them.
        self._served: dict[TopicPartition, str] = {}
        # Damaged logs that are being mended: they stay where they are.
        self.mending: set[TopicPartition] = set()
        # Ends the hosting of a partition whose log is kept; returns from where on nothing was committed, -1 if unknown.
        self.let_go: Callable[[TopicPartition], Offset] | None = None
        # Makes a partition match the image again.
        self.assign_again: Callable[[Iterable[TopicPartition]], None] | None = None

    def assigned(self) -> list[TopicPartition]:
        """Return the partitions assigned to this broker whose logs it cannot serve."""
        return [key for key in (*self._logs.damaged, *self._failed) if self._is_assigned(key)]

    def directory_ids(self) -> list[UUID]:
        """Return what heartbeats report: ids of these replicas, and marked ids of damaged ones, served or not."""
        damaged = [key for key in (*self._logs.damaged, *self.served()) if self._is_assigned(key)]
        ids = map(self._directory_id, damaged)
        return [*map(self._directory_id, self.assigned()), *map(damaged_id, ids)]

    def _directory_id(self, key: TopicPartition) -> UUID:
        return directory_id(self._cluster.image.topics[key.topic].topic_id, key.partition)

    def _is_assigned(self, key: TopicPartition) -> bool:
        record = self._cluster.image.partition(*key)
        return record is not None and self._broker_id in record.replicas

    def fail(self, key: TopicPartition, error: BaseException) -> None:
        """Record that a log failed, and report it so that the controller elects another leader."""
        log.error("%s: the disk failed; this replica is offline until the broker restarts: %s", key, error)
        self._logs.forget_registration()
        self._failed[key] = None
        self._episodes.hold(
            ("failed", key), "log-failed", self._broker_id, self._clock.mono_ms(), lambda: {"error": str(error)}, key
        )
        self._heartbeat_now()
        self._on_unfit(f"the disk failed {key}: {error}")

    def forget(self, key: TopicPartition) -> None:
        """Forget a failed log: this broker no longer hosts its partition."""
        self._failed.pop(key, None)

    def is_damaged(self, key: TopicPartition) -> bool:
        """Return whether a log was found damaged, at the start or since."""
        return key in self._logs.damaged

    def damaged(self, key: TopicPartition, reason: str) -> bool:
        """Take a log offline that was found damaged while it was served; return whether it is offline now.

        It is not if no other replica could serve the partition: a consumer can still read what is sound.
        """
        if self.is_damaged(key):
            return True
        record = self._cluster.image.partition(*key)
        if record is None or key not in self._logs.logs:
            return False
        self._episodes.hold(
            ("damaged", key), "log-damaged", self._broker_id, self._clock.mono_ms(), lambda: {"reason": reason}, key
        )
        if not self._has_successor(key, record):
            self._serve_damaged(key, reason)
            return False
        self._served.pop(key, None)
        assert self.let_go is not None, "the replicas are put together before any is found damaged"
        assert self.assign_again is not None, "the replicas are put together before any is found damaged"
        log.error("%s is damaged; another replica takes its place: %s", key, reason)
        try:
            self._logs.found_damaged(key, reason, self.let_go(key))
        except OSError as error:
            log.error(
                "%s: the damage could not be noted, so the next start of this broker may not know of it: %s", key, error
            )
        self._logs.forget_registration()
        self._heartbeat_now()
        if self._broker_id not in record.isr:
            # Nothing changes for the controller; a member of the in-sync set waits until it has left.
            self.assign_again([key])
        return True

    def _serve_damaged(self, key: TopicPartition, reason: str) -> None:
        if key in self._served:
            return
        log.error("%s is damaged but still served, because no other replica can take its place: %s", key, reason)
        self._served[key] = reason
        self._heartbeat_now()

    def served(self) -> list[TopicPartition]:
        """Return the damaged logs that are served because no other replica can take their place."""
        return [key for key in self._served if key in self._logs.logs]

    def hand_over_damaged(self) -> None:
        """Take damaged logs offline that another replica can serve by now; called after changes of partitions."""
        for key in list(self._served):
            if key not in self._logs.logs:
                del self._served[key]
                self._episodes.end(("damaged", key))
            else:
                self.damaged(key, self._served[key])

    def without_leader(self) -> list[TopicPartition]:
        """Return the damaged logs of partitions that no replica leads; a log whose directory is missing has nothing."""
        image = self._cluster.image
        records = {key: image.partition(*key) for key in self._logs.damaged if key not in self._logs.missing}
        return [key for key, record in records.items() if self._is_assigned(key) and record and not record.has_leader]

    def mended(self, key: TopicPartition) -> None:
        """Report that a damaged log is whole again."""
        self._served.pop(key, None)
        self._episodes.end(("damaged", key))
        self._heartbeat_now()

    def _has_successor(self, key: TopicPartition, record: PartitionRecord) -> bool:
        """Return whether another replica leads, or could lead at once."""
        image = self._cluster.image
        if record.has_leader and record.leader != self._broker_id:
            return True
        topic_id = image.topics[key.topic].topic_id
        return any(each != self._broker_id and image.may_lead(each, topic_id, key.partition) for each in record.isr)

    def replace_damaged(self, key: TopicPartition, record: PartitionRecord, now_ms: int) -> bool:
        """Set a damaged log aside if another broker leads and has the records; return whether a new one may begin.

        A log whose topic was deleted and created again while this broker was down is discarded, too.
        """
        reason = self._logs.damaged[key]
        if key in self.mending:
            return False
        if self._logs.topic_of_damaged(key) not in (None, self._cluster.image.topics[key.topic].topic_id):
            self.discard(key, now_ms)
            return True
        if not record.has_leader or record.leader == self._broker_id or self._broker_id in record.isr:
            log.error(
                "%s is not served: its log is damaged, and possibly no other broker has the records: %s", key, reason
            )
            return False
        aside = self._logs.set_aside(key)
        self._episodes.end(("damaged", key))
        kept = "nothing is left of it" if aside is None else f"it is kept as {aside.path} until the new copy is in sync"
        log.error(
            "%s is fetched again from broker %s, because its log is damaged; %s: %s", key, record.leader, kept, reason
        )
        self._heartbeat_now()
        return True

    def discard_topic(self, topic: str, now_ms: int) -> None:
        """Delete the damaged logs of a deleted topic, and those set aside."""
        self.aside.discard_topic(topic)
        self._discard_all([key for key in self._logs.damaged if key.topic == topic], now_ms)

    def discard_strays(self, now_ms: int) -> None:
        """Delete the damaged logs that are no longer assigned to this broker, and those set aside of deleted topics."""
        self.aside.discard_strays()
        self._discard_all([key for key in self._logs.damaged if not self._is_assigned(key)], now_ms)

    def _discard_all(self, keys: Iterable[TopicPartition], now_ms: int) -> None:
        for key in keys:
            self.discard(key, now_ms)

    def discard(self, key: TopicPartition, now_ms: int) -> None:
        """Delete a damaged log that no broker needs any more."""
        log.warning("%s is no longer assigned to this broker; its damaged log is deleted", key)
        try:
            self._logs.discard_damaged(key, now_ms)
        except (StorageError, OSError) as error:
            log.error("%s: its damaged log cannot be deleted: %s", key, error)
