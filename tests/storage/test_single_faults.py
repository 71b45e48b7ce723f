"""One disk error at any place of a log's life: it is named, nothing promised is lost, nothing goes on that must not.

Each operation that a story does on the disk fails once, alone, with each kind of
error. The story ends there, as a node would end the log's service; what the
disk then holds is opened by the next process.
"""

import contextlib
import errno
from collections.abc import Callable

import pytest

from syncline.storage.errors import StorageError
from tests.storage.crash_story import Account, Story, check
from tests.storage.recording_disk import Image, Mark, Op, RecordingDisk
from tests.storage.recovery.test_crash_images import STORIES, Tell

ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "EROFS": errno.EROFS, "EMFILE": errno.EMFILE}


class FaultyDisk(RecordingDisk):
    """A disk on which one operation fails."""

    fails_at: int = -1
    error: int = 0
    done_count: int = 0

    def _do(self, op: Op) -> None:
        self.done_count += 1
        if self.done_count == self.fails_at:
            raise OSError(self.error, errno.errorcode[self.error])
        super()._do(op)


def story_with_fault(
    tell: Tell, fails_at: int, error: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[Story | None, bool]:
    """Tell a story on a disk that fails at one operation; return it, and whether the fault struck."""
    monkeypatch.setattr("tests.storage.crash_story.RecordingDisk", FaultyDisk)
    monkeypatch.setattr(FaultyDisk, "fails_at", fails_at)
    monkeypatch.setattr(FaultyDisk, "error", error)
    try:
        story = Story()
    except (OSError, StorageError):
        return None, True
    with contextlib.suppress(OSError, StorageError):
        tell(story)
    disk = story.disk
    assert isinstance(disk, FaultyDisk)
    return story, disk.done_count >= fails_at


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS.keys())
@pytest.mark.parametrize("tell", STORIES)
def test_single_fault_loses_nothing(tell: Tell, error: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever fails, the next process finds all that was promised, and a log that is whole."""
    fails_at = 0
    struck = True
    while struck:
        fails_at += 1
        with monkeypatch.context() as patch:
            story, struck = story_with_fault(tell, fails_at, error, patch)
        if story is not None:
            check(story.disk.image, account_of(story), deeply=fails_at % 5 == 0, boot="boot-1")
    assert fails_at > 20


def account_of(story: Story) -> Account:
    """Return the last account that the story gave."""
    return next((op.value for op in reversed(story.disk.ops) if isinstance(op, Mark)), Account())


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda story: story.append(4), id="append and roll"),
        pytest.param(lambda story: story.flush(), id="flush"),
        pytest.param(lambda story: story.truncate(3), id="truncate"),
        pytest.param(lambda story: story.retain(retention_bytes=400), id="retention"),
        pytest.param(lambda story: story.restart(50), id="restart"),
    ],
)
def test_log_calls_raise_nothing_but_storage_errors(
    act: Callable[[Story], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler needs one `except`; after EIO the log says that it is offline."""

    def prepare(story: Story) -> None:
        story.append(7)

    monkeypatch.setattr("tests.storage.crash_story.RecordingDisk", FaultyDisk)
    fails_in = 0
    while True:
        fails_in += 1
        story = Story()
        prepare(story)
        disk = story.disk
        assert isinstance(disk, FaultyDisk)
        disk.fails_at, disk.error = disk.done_count + fails_in, errno.EIO
        try:
            act(story)
        except StorageError:
            assert story.log.is_offline
        if disk.done_count < disk.fails_at:
            break
    assert fails_in > 1


def test_image_is_what_the_next_process_finds() -> None:
    """The check itself: an empty disk has no partition, which is fine before anything was promised."""
    check(Image(), Account())
