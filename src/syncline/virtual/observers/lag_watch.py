"""Whether brokers tell the truth about lag: where an offset lies and when it came, against what the disks saw.

One hard idea: the first disk in the world that takes a batch is its leader's, and that moment, by the clock of that
host, is when the batch was appended, whichever hosts store it later or crash meanwhile. So the watch need not know
which broker leads. Every `SWEEP_NS` one replica after the other is asked for the place of an offset at random:

    H12  its append time is at most `STEP_MS` from the truth, unless the broker says that it is estimated
    H13  its bytes are those from its batch to the end of the log, as the bare files have them

A restarted broker and a follower are asked as a leader is, so replicas agree. Append times never fall, whatever clocks
do: what comes after a clock was set back, came when the batch before it did, until the clock is there again.

Asking changes nothing: the disk answers without a fault, a random number or a trace (`SimDisk.inspected`), and opens
nothing that would stay open. So a run that is watched is the same run.

Units: ms of host clocks, bytes.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from random import Random
from typing import Final

from syncline.core.lag.append_time import STEP_MS
from syncline.model.ids import Offset, TopicPartition
from syncline.model.lag import UNKNOWN, OffsetPlace
from syncline.node.partitions.partition import Partition
from syncline.storage.errors import StorageError
from syncline.storage.lag.places import PlaceSearch
from syncline.virtual.disk.medium import Inode
from syncline.virtual.host import Host
from syncline.virtual.observers.raw_log import StoredBatch, parse, segments
from syncline.virtual.time.durations import MS

SWEEP_NS: Final = 500 * MS
# A run that is wrong is wrong in many places.
FAILURES_MAX: Final = 10
PLACES: Final = "lag places"
ESTIMATED: Final = "lag places estimated"


class LagWatch:
    """The appends of one run, and the questions about them."""

    def __init__(
        self,
        hosts: Mapping[int, Host],
        log_directory: str,
        rng: Random,
        failures: list[str],
        counts: dict[str, int],
    ) -> None:
        self._hosts = hosts
        self._log_directory = log_directory
        self._rng = rng
        self._failures = failures
        self._counts = counts
        self._failed = 0
        # By directory, so that an append finds its log without parsing a name; None: not watched.
        self._keys: dict[str, TopicPartition | None] = {}
        # When the first disk took a batch, by the clock of its host; and the latest of these.
        self._appended_ms: dict[TopicPartition, dict[StoredBatch, int]] = {}
        self._latest_ms: dict[TopicPartition, int] = {}
        self._turns = self._take_turns()
        # When the next sweep is due.
        self.due_ns = SWEEP_NS

    def appended(self, host: Host, path: str, data: bytes) -> None:
        """Record a write to a file of a host."""
        directory, _, name = path.rpartition("/")
        if not name.endswith(".log"):
            return
        key = self._keys.get(directory)
        if key is None:
            if directory in self._keys:
                return
            key = self._keys[directory] = self._key_of(directory)
            if key is None:
                return
        appended_ms = self._appended_ms.setdefault(key, {})
        for _, _, batch in parse(data, 0):
            if batch not in appended_ms:
                now_ms = max(host.clock.wall_ms(), self._latest_ms.get(key, UNKNOWN))
                appended_ms[batch] = self._latest_ms[key] = now_ms

    def _key_of(self, directory: str) -> TopicPartition | None:
        parent, _, name = directory.rpartition("/")
        topic, _, index = name.rpartition("-")
        # The topics of clients; those of the cluster itself are written at any moment of a start, and in parts.
        is_watched = parent == self._log_directory and index.isdecimal() and not topic.startswith("_")
        return TopicPartition(topic, int(index)) if is_watched else None

    def sweep(self, now_ns: int) -> None:
        """Ask one replica of one partition for two places."""
        self.due_ns = now_ns + SWEEP_NS
        if not self._appended_ms or self._failed >= FAILURES_MAX:
            return
        host, key = next(self._turns)
        partition = host.partition(key)
        if host.disk is None or partition is None:
            return
        log = partition.log
        if log.log_start < log.log_end:
            for _ in range(2):
                # A log that is closed, offline or half cut tells nothing.
                with suppress(StorageError):
                    self._ask(host, key, partition, Offset(self._rng.randrange(log.log_start, log.log_end)))

    def _take_turns(self) -> Iterator[tuple[Host, TopicPartition]]:
        """Yield every replica again and again: all hosts of a partition one after the other."""
        while True:
            for key in list(self._appended_ms):
                for host in self._hosts.values():
                    yield host, key

    def _ask(self, host: Host, key: TopicPartition, partition: Partition, offset: Offset) -> None:
        place = _place(host, partition, offset)
        found = self._find(host, key, offset)
        if found is None:
            self._fail(f"H13 {key}: broker {host.broker_id} has no batch of {offset} in its files")
            return
        batch, behind_bytes = found
        self._counts[PLACES] = self._counts.get(PLACES, 0) + 1
        _, end_bytes = partition.log.byte_bounds()
        if end_bytes - place.coordinate_bytes != behind_bytes:
            self._fail(
                f"H13 {key}: broker {host.broker_id} is asked for {offset} and says"
                f" {end_bytes - place.coordinate_bytes} bytes, its files have {behind_bytes}"
            )
        if place.is_estimated:
            self._counts[ESTIMATED] = self._counts.get(ESTIMATED, 0) + 1
            return
        appended_ms = self._appended_ms[key][batch]
        if place.append_ms == UNKNOWN or abs(place.append_ms - appended_ms) > STEP_MS:
            self._fail(
                f"H12 {key}: broker {host.broker_id} says {place.append_ms} ms of {offset}, which was"
                f" appended at {appended_ms} ms"
            )

    def _find(self, host: Host, key: TopicPartition, offset: int) -> tuple[StoredBatch, int] | None:
        """Return the batch that holds an offset, and the bytes from it to the end of the files."""
        files = segments(host.medium, self._log_directory, key)
        bases = [int(name.removesuffix(".log")) for name, _ in files]
        at = max((number for number, base in enumerate(bases) if base <= offset), default=None)
        if at is None:
            return None
        file: Inode = files[at][1]
        for position, _, batch in parse(file.data, 0):
            if batch.next_offset > offset:
                return batch, sum(len(later.data) for _, later in files[at:]) - position
        return None

    def _fail(self, text: str) -> None:
        self._failed += 1
        self._failures.append(text)


def _place(host: Host, partition: Partition, offset: Offset) -> OffsetPlace:
    """Return what a broker says of an offset; what needs a worker is looked up at once."""
    assert host.disk is not None, f"{host.name} has no disk to ask"
    with host.disk.inspected(may_open=False):
        place = partition.log.place(offset, is_exact=True)
    if isinstance(place, PlaceSearch):
        with host.disk.inspected(may_open=True):
            place = place.run()
    return place
