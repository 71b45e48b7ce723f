"""Disks and logs for the tests of storage."""

import pytest

from syncline.storage.log import PartitionLog
from syncline.storage.log_directory import LogDirectory
from syncline.storage.settings import LogSettings
from tests.storage.batches import KEY, TOPIC_ID, open_directory
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
