"""An observer of the cluster that the cluster cannot see.

The brokers' probes report events to the ghost (a replica leads, a high watermark
moves, an acknowledgement is sent), and the store reports every commit of the
controller. The ghost keeps C, the committed log of each partition: the longest
prefix that any leader has put below its high watermark. With these it checks the
invariants of replication as soon as an event is reported, and records each
violation as a sentence.

Names of invariants: I1, I4, I6 of the replication rules; S1 (a new leader has
all of C), S2 (C never changes), S7 (one leader per epoch), S9 (an
acknowledged record is on every member of the in-sync set).
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from syncline.model.ids import NONE, OFFSETS_TOPIC, TopicPartition
from syncline.model.metadata import MetadataImage, PartitionRecord
from syncline.virtual.host import Host
from syncline.virtual.observers.raw_log import RawLog, StoredBatch

# The injector lets one replica at a time lose unsynced data, so a commit needs this many copies.
PROMISED_MIN_ISR: Final = 2


class Committed(NamedTuple):
    """A batch of C, and the leader epoch in which it was committed."""

    batch: StoredBatch
    epoch: int


class Ghost:
    """What the checks record of one run."""

    def __init__(
        self, hosts: dict[int, Host], log_directory: str, now_ns: Callable[[], int], record: Callable[..., None]
    ) -> None:
        self._hosts = hosts
        self._log_directory = log_directory
        self._now_ns = now_ns
        self._record = record
        self._raw: dict[tuple[int, TopicPartition], RawLog] = {}
        self._committed: dict[TopicPartition, list[Committed]] = {}
        self._leaders: dict[tuple[TopicPartition, int], int] = {}
        self._elected: dict[tuple[TopicPartition, int], int] = {}
        self._marks: dict[tuple[int, int, TopicPartition], tuple[int, int]] = {}
        # Acknowledgements of the current instant, not checked yet.
        self.acknowledged: list[tuple[int, TopicPartition, int]] = []
        self.violations: list[str] = []
        self.counts: dict[str, int] = {}

    def committed_end(self, key: TopicPartition) -> int:
        """Return the offset below which everything is committed."""
        committed = self._committed.get(key)
        return committed[-1].batch.next_offset if committed else 0

    def raw(self, broker_id: int, key: TopicPartition) -> RawLog:
        """Return a reader of one replica's files."""
        reader = self._raw.get((broker_id, key))
        if reader is None:
            reader = self._raw[broker_id, key] = RawLog(self._hosts[broker_id].medium, self._log_directory, key)
        return reader

    def probe_of(self, host: Host, incarnation: int) -> Callable[[str, TopicPartition, int, int], None]:
        """Return the probe of one broker process."""

        def probe(kind: str, key: TopicPartition, leader_epoch: int, offset: int) -> None:
            self.counts[kind] = self.counts.get(kind, 0) + 1
            self._record(self._now_ns(), kind, host.broker_id, str(key), leader_epoch, offset)
            if not _is_promised(host, key):
                return
            if kind == "high-watermark":
                self._mark_moved(host, incarnation, key, leader_epoch, offset)
            elif kind == "acknowledge":
                self.acknowledged.append((host.broker_id, key, offset))
            elif kind == "lead":
                self._leads(host, key, leader_epoch)

        return probe

    def committed_metadata(self, before: MetadataImage, after: MetadataImage) -> None:
        """Check one commit of the controller."""
        for name, topic in after.topics.items():
            old = before.topics.get(name)
            if old is topic:
                continue
            is_same = old is not None and old.topic_id == topic.topic_id
            known = old.partitions if old is not None and is_same else ()
            for record in topic.partitions:
                was = known[record.partition] if record.partition < len(known) else None
                if was is not record:
                    self._partition_changed(TopicPartition(name, record.partition), was, record)

    def _violated(self, text: str) -> None:
        self.violations.append(f"{self._now_ns() / 1e9:.3f} s: {text}")

    def _partition_changed(self, key: TopicPartition, was: PartitionRecord | None, record: PartitionRecord) -> None:
        self.counts["metadata"] = self.counts.get("metadata", 0) + 1
        if not set(record.isr) <= set(record.replicas):
            self._violated(f"I4 {key}: in-sync set {record.isr} is not part of the replicas {record.replicas}")
        if record.leader != NONE and record.leader not in record.isr:
            self._violated(f"I4 {key}: leader {record.leader} is not in the in-sync set {record.isr}")
        if record.leader != NONE:
            elected = self._elected.setdefault((key, record.leader_epoch), record.leader)
            if elected != record.leader:
                self._violated(
                    f"I6 {key}: brokers {elected} and {record.leader} both elected for epoch {record.leader_epoch}"
                )
        if was is None:
            return
        if record.leader_epoch < was.leader_epoch or record.partition_epoch < was.partition_epoch:
            self._violated(f"I4 {key}: epochs went back from {was} to {record}")
        if record.leader not in {NONE, was.leader}:
            self.counts["elections"] = self.counts.get("elections", 0) + 1
            # The member that completes a reassignment by joining may lead in the same change.
            completes = was.is_reassigned and not record.is_reassigned and was.has_leader
            if record.leader not in {*was.isr, *was.elr, *(record.isr if completes else ())}:
                # Allowed as a last resort, when both sets are empty; S1 checks the outcome.
                self.counts["last resort elections"] = self.counts.get("last resort elections", 0) + 1
                if was.isr or was.elr:
                    self._violated(f"S4 {key}: elected {record.leader}, which was not in {was.isr} or {was.elr}")
        if set(record.isr) != set(was.isr):
            self.counts["isr changes"] = self.counts.get("isr changes", 0) + 1

    def _leads(self, host: Host, key: TopicPartition, epoch: int) -> None:
        leader = self._leaders.setdefault((key, epoch), host.broker_id)
        if leader != host.broker_id:
            self._violated(f"S7 {key}: brokers {leader} and {host.broker_id} both lead in epoch {epoch}")
        partition = host.partition(key)
        # Coordinators let the oldest records of groups go (`node/groups/log_renewal.py`); no others may be gone.
        start = partition.log.log_start if partition is not None and key.topic == OFFSETS_TOPIC else 0
        committed = self._committed.get(key, ())
        expected = [each.batch for each in committed if each.epoch < epoch and each.batch.base_offset >= start]
        for batch, stored in _pairs(expected, list(self.raw(host.broker_id, key).batches())):
            if batch != stored:
                self._violated(
                    f"S1 {key}: broker {host.broker_id} leads epoch {epoch}; committed {batch}, it has {stored}"
                )
                return

    def _mark_moved(self, host: Host, incarnation: int, key: TopicPartition, epoch: int, mark: int) -> None:
        partition = host.partition(key)
        if partition is None or partition.leader is None:
            return
        before = self._marks.get((host.broker_id, incarnation, key))
        if before is not None and before[0] == epoch and mark < before[1]:
            self._violated(
                f"I1 {key}: the mark of broker {host.broker_id} went from {before[1]} to {mark} in epoch {epoch}"
            )
        self._marks[host.broker_id, incarnation, key] = (epoch, mark)
        committed = self._committed.setdefault(key, [])
        end = self.committed_end(key)
        if mark <= end:
            return
        if committed and epoch < committed[-1].epoch:
            self._violated(
                f"S2 {key}: broker {host.broker_id} commits in epoch {epoch}, after {committed[-1].epoch} did"
            )
        for batch in self.raw(host.broker_id, key).batches(end):
            if batch.next_offset > mark:
                break
            committed.append(Committed(batch, epoch))
        self._check_in_sync(key, partition.leader.isr, mark)

    def _check_in_sync(self, key: TopicPartition, isr: tuple[int, ...], mark: int) -> None:
        """S9: every in-sync member that has not lost its disk's cache has everything below the mark."""
        for broker_id in isr:
            host = self._hosts[broker_id]
            partition = host.partition(key)
            if partition is not None and not host.is_dirty and partition.log.log_end < mark:
                self._violated(f"S9 {key}: the mark is {mark}, but broker {broker_id} has {partition.log.log_end} only")

    def instant_is_over(self) -> None:
        """Check the acknowledgements of the past instant; the order of events within an instant does not matter."""
        for broker_id, key, offset in self.acknowledged:
            end = self.committed_end(key)
            if offset > end:
                self._violated(f"S9 {key}: broker {broker_id} acknowledged {offset}, committed is {end} only")
        self.acknowledged.clear()


def _is_promised(host: Host, key: TopicPartition) -> bool:
    """Return whether the loss of one replica's data does no harm: false if one copy counts as committed."""
    partition = host.partition(key)
    return partition is not None and partition.config.min_insync_replicas >= PROMISED_MIN_ISR


def _pairs(expected: list[StoredBatch], stored: list[StoredBatch]) -> Iterator[tuple[StoredBatch, StoredBatch | None]]:
    """Yield each expected batch with the batch stored at its offset."""
    by_offset = {batch.base_offset: batch for batch in stored}
    for batch in expected:
        yield batch, by_offset.get(batch.base_offset)
