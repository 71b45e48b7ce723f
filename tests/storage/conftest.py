"""Disks and logs for the tests of storage."""

from collections.abc import Iterator

import pytest

from syncline.storage.log import PartitionLog
from syncline.storage.log_directory import LogDirectory
from syncline.storage.machine.real_disk import RealDisk
from syncline.storage.settings import LogSettings
from tests.storage.batches import KEY, TOPIC_ID, open_directory
from tests.storage.loop_of_one import LoopOfOne
from tests.storage.recording_disk import RecordingDisk

# Four batches of one record each fit into a segment.
SMALL = LogSettings(segment_bytes=340, index_interval_bytes=100, file_delete_delay_ms=1000)


@pytest.fixture
def disk() -> RecordingDisk:
    """Return an empty disk in memory."""
    return RecordingDisk()


@pytest.fixture
def settings() -> LogSettings:
    """Return small segments."""
    return SMALL


@pytest.fixture
def directory(disk: RecordingDisk, settings: LogSettings) -> LogDirectory:
    """Return an empty data directory."""
    return open_directory(disk, settings)


@pytest.fixture
def log(directory: LogDirectory, settings: LogSettings) -> PartitionLog:
    """Return an empty log."""
    return directory.create(KEY, TOPIC_ID, settings)


@pytest.fixture
def loop() -> LoopOfOne:
    """Return a loop."""
    return LoopOfOne()


@pytest.fixture
def real_disk(loop: LoopOfOne) -> Iterator[RealDisk]:
    """Return a disk whose threads end with the test."""
    disk = RealDisk(loop.call_soon_threadsafe, workers=2)
    yield disk
    disk.close()
