"""Batches and logs for the tests of storage."""

from collections.abc import Callable
from uuid import UUID

from syncline.model.ids import Offset, TopicPartition
from syncline.records.batch import BatchHeader, stamp
from syncline.records.builder import BatchBuilder
from syncline.storage.log import PartitionLog
from syncline.storage.log_directory import LogDirectory
from syncline.storage.removal.cutting import CutSearch
from syncline.storage.segments.batch_walk import NotABatch
from syncline.storage.settings import LogSettings
from tests.storage.recording_disk import RecordingFile

KEY = TopicPartition("topic", 0)
TOPIC_ID = UUID(int=0x5EED)
ROOT = "/data"


def batch(
    base_offset: int = 0,
    *,
    count: int = 1,
    leader_epoch: int = 0,
    timestamp_ms: int = 1000,
    value: bytes = b"value",
    producer: tuple[int, int, int] | None = None,
) -> bytearray:
    """Return a stamped batch of `count` records; `producer` is (id, epoch, base sequence)."""
    producer_id, producer_epoch, base_sequence = producer or (-1, -1, -1)
    builder = BatchBuilder(producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence)
    for number in range(count):
        builder.append(timestamp_ms + number, b"key", value)
    data = builder.build()
    stamp(data, 0, base_offset, leader_epoch)
    return data


def append(log: PartitionLog, leader_epoch: int = 0, *, append_ms: int = -1, **fields: object) -> bytes:
    """Append one batch as the leader would, at this time by its wall clock; return its bytes."""
    data = batch(log.log_end, leader_epoch=leader_epoch, **fields)  # type: ignore[arg-type]
    log.append_as_leader(memoryview(data), BatchHeader.parse(data), append_ms)
    return bytes(data)


def truncate_to(log: PartitionLog, offset: Offset) -> Offset:
    """Cut a log at `offset`, waiting for the disk; return the new log end."""
    plan = log.plan_cut(offset)
    if isinstance(plan, CutSearch):
        try:
            plan = plan.run()
        except (OSError, NotABatch) as error:
            log.search_failed(plan, error)
            raise
    assert log.cut(plan), f"{log!r} has changed since its cut was planned"
    return log.log_end


def contents(log: PartitionLog) -> list[tuple[int, bytes]]:
    """Return (base offset, bytes) of every batch that a reader of the whole log gets."""
    found: list[tuple[int, bytes]] = []
    offset = log.log_start
    while offset < log.log_end:
        data = read(log, offset)
        assert data, f"nothing at {offset} of {log!r}"
        position = 0
        while position < len(data):
            header = BatchHeader.parse(data, position)
            found.append((header.base_offset, data[position : position + header.size_bytes]))
            position += header.size_bytes
            offset = header.next_offset
    return found


def read(
    log: PartitionLog, offset: int, max_bytes: int = 2**31, upper: int = 2**62, at_least_one: bool = True
) -> bytes:
    """Return the bytes of a read, whether they are in memory or not."""
    plan = log.read_plan(offset, max_bytes, upper, at_least_one)
    data = plan.read_resident()
    if data is None:
        data = plan.file.read(plan.position_bytes, plan.size_bytes) if hasattr(plan, "size_bytes") else plan.read()
    return bytes(data)


def open_directory(
    disk: object, settings: LogSettings | Callable[[str], LogSettings], root: str = ROOT
) -> LogDirectory:
    """Open the data directory of node 1."""
    by_topic = settings if callable(settings) else lambda _topic: settings
    return LogDirectory.open(
        disk,
        root,
        node_id=1,
        cluster_id="cluster",
        directory_id="directory",
        settings=by_topic,  # type: ignore[arg-type]
    )


def file_of(log: PartitionLog) -> RecordingFile:
    """Return the file that the log writes to."""
    file = log.segments[-1].file
    assert isinstance(file, RecordingFile)
    return file
