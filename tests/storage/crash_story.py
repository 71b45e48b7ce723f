"""What a log does in a test of power cuts, and what may be found afterwards.

A story uses a log on a recording disk and keeps its own account of it: the
batches in order, and what storage has promised by returning from a call. From
the start of an operation the account allows its outcome; after the operation it
requires the outcome. Each state of the account is a mark in the stream of
operations.
"""

from collections import deque
from dataclasses import dataclass, replace

from syncline.core.producer_state import ProducerState, ProducerTable
from syncline.core.replication.leader_epochs import EpochCache
from syncline.records.batch import BatchHeader, crc_matches
from syncline.storage.arrivals.append_time_search import AppendTimeSearch
from syncline.storage.errors import StorageError
from syncline.storage.log import PartitionLog
from syncline.storage.segments.segment import INDEX_SUFFIX
from syncline.storage.settings import LogSettings
from tests.storage.batches import KEY, TOPIC_ID, append, batch, contents, open_directory, read, truncate_to
from tests.storage.recording_disk import Image, RecordingDisk

SETTINGS = LogSettings(
    segment_bytes=420, index_interval_bytes=100, file_delete_delay_ms=10, retention_ms=-1, retention_bytes=-1
)
Batches = tuple[tuple[int, bytes], ...]


def appended_ms(leader_epoch: int, offset: int) -> int:
    """Return when the batch at `offset` came in a story: there is one every 260 ms, and terms follow each other."""
    return leader_epoch * 1_000_000 + offset * 130


@dataclass(frozen=True)
class Account:
    """What a power cut at this moment may leave (`possible`) and must leave (the rest)."""

    # Contents of which the log must be a stretch, from the very first offset on.
    possible: tuple[Batches, ...] = ((),)
    # Of the newest contents, everything from `log_start` to here must be there.
    flushed_end: int = 0
    # The log may begin anywhere up to here.
    log_start: int = 0
    watermarks: tuple[int, ...] = (0,)
    may_be_absent: bool = True
    must_be_absent: bool = False
    # An emptied log that goes on here.
    must_be_empty_at: int | None = None


class Story:
    """One partition's log on a recording disk, and the account of it."""

    def __init__(self, settings: LogSettings = SETTINGS) -> None:
        self.disk = RecordingDisk()
        self.directory = open_directory(self.disk, settings)
        self.settings = settings
        self.account = Account()
        self.log = self._create()
        self._sequence = 0
        self.epoch = 0

    def _create(self) -> PartitionLog:
        log = self.directory.create(KEY, TOPIC_ID, self.settings)
        self._mark()
        return log

    def _mark(self, **changes: object) -> None:
        self.directory.check_invariants()
        self.account = replace(self.account, **changes)  # type: ignore[arg-type]
        self.disk.mark("account", self.account)

    @property
    def batches(self) -> Batches:
        """The newest contents."""
        return self.account.possible[-1]

    def append(self, count: int = 1, *, with_producer: bool = False, size: int = 20) -> None:
        """Append `count` batches, one after the other."""
        for _ in range(count):
            producer = (7, 0, self._sequence) if with_producer else None
            self._sequence += 2 if with_producer else 0
            fields = {"count": 2, "value": b"v" * size, "producer": producer, "timestamp_ms": 1000 + self.log.log_end}
            data = bytes(batch(self.log.log_end, leader_epoch=self.epoch, **fields))  # type: ignore[arg-type]
            self._mark(possible=((*self.batches, (self.log.log_end, data)),), must_be_empty_at=None)
            append(self.log, self.epoch, append_ms=appended_ms(self.epoch, self.log.log_end), **fields)
            if self.log.log_end % 8 == 0:
                self.log.append_times.save()

    def flush(self) -> None:
        """Flush, and from then on require what was flushed."""
        self.log.flush()
        self._mark(flushed_end=self.log.log_end, may_be_absent=False)

    def flush_later(self) -> None:
        """Flush in a worker."""
        end = self.log.log_end
        self.log.flush_later(lambda error: None if error else self._mark(flushed_end=end, may_be_absent=False))
        self.disk.pump()

    def pump(self) -> None:
        """Run pending background work; the recovery point that it reaches is a promise."""
        self.disk.pump()
        if self.log.recovery_point > self.account.flushed_end:
            self._mark(flushed_end=self.log.recovery_point)

    def lead(self) -> None:
        """Begin a new leader epoch."""
        self.epoch += 1
        self.log.assign_leader_epoch(self.epoch)  # type: ignore[arg-type]

    def truncate(self, offset: int) -> None:
        """Cut the end off."""
        kept = tuple(each for each in self.batches if BatchHeader.parse(each[1]).next_offset <= offset)
        end = BatchHeader.parse(kept[-1][1]).next_offset if kept else 0
        flushed_end = min(self.account.flushed_end, end)
        self._mark(possible=(self.batches, kept), flushed_end=flushed_end)
        truncate_to(self.log, offset)  # type: ignore[arg-type]
        self._mark(possible=(kept,))

    def restart(self, offset: int) -> None:
        """Drop everything and go on at `offset`."""
        self._mark(flushed_end=0, log_start=max(offset, self.log.log_end))
        self.log.restart_at(offset)  # type: ignore[arg-type]
        self._mark(possible=((),), log_start=offset, must_be_empty_at=offset, flushed_end=0)

    def raise_log_start(self, offset: int) -> None:
        """Delete records logically."""
        self.log.high_watermark = self.log.log_end
        self._mark(log_start=offset)
        self.log.raise_log_start(offset)  # type: ignore[arg-type]

    def retain(self, **settings: int) -> None:
        """Run retention under other settings, then sweep."""
        self.log.high_watermark = self.log.log_end
        self.log.settings = replace(self.settings, **settings)
        self._mark(log_start=self.log.log_end)
        self.log.retention(1_000_000)
        self._mark(log_start=self.log.log_start)
        self.log.sweep(1_000_020)
        self.log.settings = self.settings

    def checkpoint(self, high_watermark: int) -> None:
        """Write all checkpoints."""
        self.log.high_watermark = high_watermark  # type: ignore[assignment]
        self._mark(watermarks=(*self.account.watermarks, high_watermark))
        self.directory.checkpoint_high_watermarks(later=False)
        self._mark(watermarks=(high_watermark,))
        self.directory.checkpoint_recovery_points(later=False)
        self.directory.checkpoint_log_starts(later=False)

    def delete(self) -> None:
        """Delete the partition."""
        self._mark(may_be_absent=True)
        self.directory.delete(KEY, 0)
        self._mark(must_be_absent=True)
        deque(self.directory.sweep(100), maxlen=0)

    def recreate(self) -> None:
        """Create it again under its old name."""
        self._mark(**vars(Account(watermarks=(0, *self.account.watermarks))))
        self.log = self._create()

    def stop(self) -> None:
        """Stop cleanly."""
        watermark = min(self.log.high_watermark, self.log.log_end)
        self._mark(watermarks=(*self.account.watermarks, watermark))
        self.directory.close(1)
        self._mark(flushed_end=self.log.log_end, watermarks=(watermark,), may_be_absent=self.account.may_be_absent)

    def start(self) -> None:
        """Start again on what is there."""
        self.directory = open_directory(self.disk, self.settings)
        if KEY in self.directory.damaged:
            raise StorageError(self.directory.damaged[KEY])
        self.log = self.directory.logs[KEY]


def check(image: Image, account: Account, *, deeply: bool = True, boot: str = "boot-2") -> None:
    """Recover the log from `image` and assert R1-R3 against the account."""
    disk = RecordingDisk(image.copy(), boot=boot)
    directory = open_directory(disk, SETTINGS)
    assert not directory.damaged, f"refused: {directory.damaged}"
    log = directory.logs.get(KEY)
    if log is None:
        assert account.may_be_absent or account.must_be_absent, "the partition is gone"
        return
    assert not account.must_be_absent, "a deleted partition is back"
    directory.check_invariants()
    found = contents(log)
    whole = _check_contents(log, found, account)
    _check_watermark(log, account)
    _check_epochs(log, whole)
    _check_producers(log, whole)
    if deeply:
        _check_reads(log, found)
        _check_append_times(log, found)
        _check_indexes(disk, log)
        _check_again(disk, log, found)


def _check_contents(log: PartitionLog, found: list[tuple[int, bytes]], account: Account) -> Batches:
    """Assert R1 and the first half of R2; return the contents that the log is a stretch of, up to its end."""
    assert log.log_start <= max(account.log_start, 0), f"{log!r} begins behind {account.log_start}"
    if account.must_be_empty_at is not None:
        assert (log.log_start, log.log_end) == (account.must_be_empty_at,) * 2, f"{log!r} should be empty"
        return ()
    for _, data in found:
        assert crc_matches(data, 0, BatchHeader.parse(data)), "a batch with a bad checksum"
    matching = None
    for possible in account.possible:
        stretch = [each for each in possible if each[0] + 1 < log.log_end and _end(each) > log.log_start]
        if stretch == found and (not found or _end(found[-1]) == log.log_end):
            matching = possible
    assert matching is not None, f"{log!r} holds what was never so: {[offset for offset, _ in found]}"
    must_have = [
        each for each in account.possible[-1] if account.log_start <= each[0] and _end(each) <= account.flushed_end
    ]
    missing = [offset for offset, data in must_have if (offset, data) not in found]
    assert not missing, f"{log!r} lost what was flushed: {missing}"
    return tuple(each for each in matching if _end(each) <= log.log_end)


def _end(each: tuple[int, bytes]) -> int:
    return BatchHeader.parse(each[1]).next_offset


def _check_watermark(log: PartitionLog, account: Account) -> None:
    expected = [min(max(mark, log.log_start), log.log_end) for mark in account.watermarks]
    assert log.high_watermark in expected, f"high watermark {log.high_watermark} of {log!r}, expected one of {expected}"


def _check_epochs(log: PartitionLog, whole: Batches) -> None:
    """Assert S11: the cache is a function of the log."""
    expected = EpochCache()
    for base_offset, data in whole:
        expected.assign(BatchHeader.parse(data).leader_epoch, base_offset)  # type: ignore[arg-type]
    expected.truncate_from_start(log.log_start)
    # An epoch without a record, at the log end, may be known or not.
    known = [entry for entry in log.epochs.entries if entry.start_offset < log.log_end]
    expected.truncate_from_end(log.log_end)
    assert known == list(expected.entries), f"{log.epochs!r}, the batches say {expected!r}"


def _check_producers(log: PartitionLog, whole: Batches) -> None:
    """Assert S16: producer state is a replay of the log; of deleted records it may know less."""
    expected = ProducerTable()
    for _, data in whole:
        expected.record(BatchHeader.parse(data))
    assert log.producers.entries.keys() <= expected.entries.keys(), "a producer that never wrote this"
    for producer_id, state in expected.entries.items():
        kept = [each for each in state.batches if each.base_offset >= log.first_base_offset]
        known = log.producers.entries.get(producer_id, ProducerState(0)).batches
        assert list(known)[-len(kept) :] == kept if kept else True, f"producer {producer_id}: {known}, not {kept}"
        assert set(known) <= set(state.batches), f"producer {producer_id} knows too much: {known}"


def _check_reads(log: PartitionLog, found: list[tuple[int, bytes]]) -> None:
    for base_offset, data in found:
        for offset in (base_offset, base_offset + 1):
            if offset >= log.log_start:
                assert read(log, offset, max_bytes=1) == data, f"a read at {offset} got another batch"


def _check_append_times(log: PartitionLog, found: list[tuple[int, bytes]]) -> None:
    """Assert that whatever is known is true of the batch that is there now."""
    epochs = {base_offset: BatchHeader.parse(data).leader_epoch for base_offset, data in found}
    for base_offset in epochs:
        known = log.append_times.find(base_offset)  # type: ignore[arg-type]
        known = known.run() if isinstance(known, AppendTimeSearch) else known
        if known is None or known.entry.offset < log.log_start:
            continue
        offset, append_ms = known.entry.offset, known.entry.append_ms
        assert offset in epochs, f"{log!r} knows when {offset} came, where no batch begins"
        if known.entry.is_gap:
            continue
        assert append_ms == appended_ms(epochs[offset], offset), f"{log!r} says that {offset} came at {append_ms} ms"


def _check_indexes(disk: RecordingDisk, log: PartitionLog) -> None:
    """Assert that what is on the disk as an index leads to batches."""
    for segment in log.segments[:-1]:
        before = (segment.max_timestamp_ms, segment.end_offset)
        assert (
            segment.load_indexes()
            or not segment.size_bytes
            or not disk.exists(segment.path(INDEX_SUFFIX))
            or (not disk.read_file(segment.path(INDEX_SUFFIX)))
        ), f"the index of {segment!r} is wrong"
        assert (segment.max_timestamp_ms, segment.end_offset) == before, f"the index of {segment!r} disagrees"


def _check_again(disk: RecordingDisk, log: PartitionLog, found: list[tuple[int, bytes]]) -> None:
    """Assert that the log goes on, that a flush holds, and that recovering again gives the same (R3)."""
    state = (log.log_start, log.log_end, log.epochs.entries, log.producers)
    again = open_directory(RecordingDisk(disk.image.copy(), boot="boot-3"), SETTINGS).logs[KEY]
    assert (again.log_start, again.log_end, again.epochs.entries, again.producers) == state, (
        "recovery is not repeatable"
    )

    more = append(log, max(log.epochs.latest_epoch, 0) + 1)
    log.flush()
    cut = RecordingDisk(disk.image.copy(), boot="boot-4")
    later = open_directory(cut, SETTINGS).logs[KEY]
    assert contents(later) == [*found, (state[1], more)], "what was appended after recovery is not there"
