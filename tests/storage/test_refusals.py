"""A refusal is never damage: a process without descriptors, or a disk without room, is asked again, and then goes on.

Stories are told on a disk that refuses for a while, at each place in turn. Whoever uses the log repeats what was
refused. No log goes offline, nothing promised is lost, and what a power cut leaves is what the story allows.
"""

import errno
import random
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from syncline.model.ids import Offset
from syncline.storage.disk import BrokenFileError
from syncline.storage.errors import NoDescriptorError, StorageError, is_refusal, refusal_of, storage_error
from syncline.storage.log import PartitionLog
from syncline.storage.log_directory import LogDirectory
from syncline.storage.removal.cutting import CutPlan, CutSearch
from syncline.storage.settings import LogSettings
from tests.storage.batches import KEY, TOPIC_ID, append, contents, open_directory
from tests.storage.crash_images import one_image
from tests.storage.crash_story import Account, Story, check
from tests.storage.recording_disk import Image, RecordingDisk
from tests.storage.recovery.test_crash_images import (
    Tell,
    cut_the_beginning,
    cut_the_end,
    cut_what_was_flushed,
    cuts,
    delete_and_create,
    grow_and_roll,
)

# How many operations are refused, one after the other.
LENGTHS = (1, 4)
TRIES_MAX = 20


class ScarceDisk(RecordingDisk):
    """A disk for a process that has no descriptors at times: what opens a file or a directory fails then."""

    def __init__(self, image: Image | None = None, *, boot: str = "boot-1") -> None:
        super().__init__(image, boot=boot)
        self.asked_count = 0
        self.refuses_from = 1 << 30
        self.refuses_count = 0

    def take(self) -> None:
        """Have no descriptors until `give_back`."""
        self.refuses_from, self.refuses_count = 0, 1 << 30

    def give_back(self) -> None:
        """Have descriptors again."""
        self.refuses_count = 0

    def need(self, path: str) -> None:
        """Use a descriptor."""
        self.asked_count += 1
        if 0 <= self.asked_count - self.refuses_from < self.refuses_count:
            raise OSError(errno.EMFILE, "Too many open files", path)

    def open(self, path: str, *, create: bool = False) -> Any:
        """Open a file."""
        self.need(path)
        return super().open(path, create=create)

    def read_file(self, path: str) -> bytes:
        """Read a file."""
        self.need(path)
        return super().read_file(path)

    def list(self, path: str) -> list[str]:
        """List a directory."""
        self.need(path)
        return super().list(path)

    def sync_directory(self, path: str) -> None:
        """Sync a directory."""
        self.need(path)
        super().sync_directory(path)


class Again:
    """Repeats each call of a log or a directory that was refused; raises anything else."""

    def __init__(self, target: Any) -> None:
        vars(self)["target"] = target

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.target, name)
        return (lambda *args, **named: again(lambda: value(*args, **named))) if callable(value) else value

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.target, name, value)


class AgainLog(Again):
    """Plans a cut again when it was refused."""

    @property
    def append_times(self) -> Any:
        """The append times, saved again when that was refused."""
        return Again(self.target.append_times)

    def plan_cut(self, offset: Offset) -> CutPlan:
        """Return a plan, waiting for the disk."""
        for _ in range(TRIES_MAX):
            plan = again(lambda: self.target.plan_cut(offset))
            if isinstance(plan, CutPlan):
                return plan
            assert isinstance(plan, CutSearch)
            try:
                return plan.run()
            except OSError as error:
                self.target.search_failed(plan, error)
        raise AssertionError("no plan can be made")

    def cut(self, plan: CutPlan) -> bool:
        """Cut."""
        for _ in range(TRIES_MAX):
            try:
                return bool(self.target.cut(plan))
            except StorageError as error:
                if not is_refusal(error):
                    raise
                self.target.check_invariants()
                plan = self.plan_cut(plan.offset)
        raise AssertionError("it cannot be cut")


def again(call: Callable[[], Any]) -> Any:
    """Return what `call` returns when it is not refused any more."""
    for _ in range(TRIES_MAX):
        try:
            return call()
        except (StorageError, OSError) as error:
            if not is_refusal(error):
                raise
    raise AssertionError("refused for ever")


class PatientStory(Story):
    """A story whose log is used by someone who repeats what was refused."""

    def _create(self) -> PartitionLog:
        log: Any = AgainLog(super()._create())
        return log  # type: ignore[no-any-return]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(
    "tell", [grow_and_roll, cut_the_end, cut_the_beginning, cut_what_was_flushed, delete_and_create]
)
def test_log_outlives_any_lack_of_descriptors(tell: Tell, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards: a cut, a restart or retention without descriptors took the log offline, and so ended the broker."""
    monkeypatch.setattr("tests.storage.crash_story.RecordingDisk", ScarceDisk)
    rng = random.Random(length)
    place = 0
    while True:
        place += length
        story = PatientStory()
        disk = story.disk
        assert isinstance(disk, ScarceDisk)
        directory: Any = Again(story.directory)
        story.directory = directory
        disk.refuses_from, disk.refuses_count = disk.asked_count + place, length
        tell(story)
        if disk.asked_count < disk.refuses_from:
            break
        disk.give_back()
        assert not story.log.is_offline
        story.append(1)
        story.flush()
        moments = list(cuts(story))
        for size, account in [*rng.sample(moments, 3), moments[-1]]:
            check(one_image(Image(), disk.ops[:size], rng, rng), account, deeply=size % 5 == 0)
    assert place > 5


@pytest.fixture
def disk() -> ScarceDisk:
    """Return an empty disk."""
    return ScarceDisk()


def grown(directory: LogDirectory, settings: LogSettings) -> PartitionLog:
    """Return a log of three segments."""
    log = directory.create(KEY, TOPIC_ID, settings)
    for _ in range(10):
        append(log)
    return log


def test_start_without_descriptors_finds_no_damage(disk: ScarceDisk, settings: LogSettings) -> None:
    """Guards: a start with too low a limit of open files took all logs for damaged, and they were fetched again."""
    directory = open_directory(disk, settings)
    before = contents(grown(directory, settings))
    directory.abandon()
    found = []
    place = 0
    while True:
        place += 1
        disk.refuses_from, disk.refuses_count = disk.asked_count + place, 1 << 20
        try:
            directory = open_directory(disk, settings)
        except (StorageError, OSError) as error:
            found.append(error)
            continue
        assert not directory.damaged
        if disk.asked_count < disk.refuses_from:
            break
    disk.give_back()

    assert len(found) > 5
    assert all(map(is_refusal, found))
    assert contents(directory.logs[KEY]) == before


def test_deletion_without_descriptors_is_done(disk: ScarceDisk, settings: LogSettings) -> None:
    """Guards: deleting a topic while the process had no descriptors took its log for failed, and ended the broker."""
    directory = open_directory(disk, settings)
    grown(directory, settings)
    disk.take()
    directory.delete(KEY, 0)
    deque(directory.sweep(10_000), maxlen=0)
    disk.pump()
    not_yet = [name for name in disk.image.tree()["data"] if name.endswith("-delete")]
    disk.give_back()
    deque(directory.sweep(20_000), maxlen=0)
    disk.pump()

    assert KEY not in directory.logs
    assert len(not_yet) == 1
    assert [name for name in disk.image.tree()["data"] if str(KEY) in name] == []


def test_refused_rename_leaves_the_log_in_use(
    disk: ScarceDisk, settings: LogSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards: after a refused deletion, a new log of that name appended to the files of the old one."""
    directory = open_directory(disk, settings)
    log = grown(directory, settings)
    before = contents(log)

    def no_room(_source: str, target: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", target)

    with monkeypatch.context() as patch:
        patch.setattr(disk, "rename", no_room)
        with pytest.raises(StorageError) as refused:
            directory.delete(KEY, 0)

    assert is_refusal(refused.value)
    assert directory.logs[KEY] is log
    assert contents(log) == before
    directory.delete(KEY, 0)
    assert contents(directory.create(KEY, TOPIC_ID, settings)) == []


def test_setting_aside_is_refused_before_anything_is_moved(disk: ScarceDisk, settings: LogSettings) -> None:
    """Guards: a damaged log was moved and then could not be read; the next try found no log, and ended the broker."""
    directory = open_directory(disk, settings)
    grown(directory, settings)
    directory.found_damaged(KEY, "a bit has flipped", Offset(-1))
    refused: list[Exception] = []
    left: list[bool] = []
    place = 0
    while directory.damaged:
        place += 1
        disk.refuses_from, disk.refuses_count = disk.asked_count + place, 1
        try:
            directory.set_aside(KEY)
        except (StorageError, OSError) as error:
            refused.append(error)
            left.append(str(KEY) in disk.image.tree()["data"])
    disk.give_back()

    assert len(refused) > 3
    assert all(map(is_refusal, refused))
    assert all(left)
    assert [each.key for each in directory.aside] == [KEY]


def test_failed_sync_is_no_refusal_whatever_its_number() -> None:
    """A sync that failed for want of room may have lost what it was to save."""
    assert is_refusal(OSError(errno.ENOSPC, "no room"))
    assert not is_refusal(BrokenFileError(errno.ENOSPC, "the sync failed"))
    assert not is_refusal(OSError(errno.EIO, "broken"))
    assert isinstance(storage_error(OSError(errno.ENFILE, "none left"), "Cannot open"), NoDescriptorError)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EDQUOT])
def test_refusal_tells_the_error_that_showed_it_however_it_is_raised(number: int) -> None:
    """In compiled modules `raise ... from` does not set the cause."""
    refused = OSError(number, "refused")

    found = refusal_of(storage_error(refused, "Cannot append to"))

    assert found is not None
    assert found.error is refused


def test_account_of_an_untold_story_allows_nothing_on_the_disk() -> None:
    """The check itself: it accepts an empty disk before anything was promised."""
    check(Image(), Account())


class StickyDisk(RecordingDisk):
    """A disk that refuses to remove files at times: some file systems need room for that."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses_count = 0

    def remove(self, path: str) -> None:
        """Remove a file."""
        if self.refuses_count:
            self.refuses_count -= 1
            raise OSError(errno.ENOSPC, "No space left on device", path)
        super().remove(path)


@pytest.mark.parametrize("refuses_count", [1, 3])
def test_restart_that_could_not_remove_a_file_leaves_none(settings: LogSettings, refuses_count: int) -> None:
    """Guards: files that were renamed before the refusal took room until the broker's next start."""
    disk = StickyDisk()
    log = grown(open_directory(disk, settings), settings)
    assert log.segment_count > 1
    disk.refuses_count = refuses_count
    AgainLog(log).restart_at(Offset(100))
    names = disk.list(log.directory)

    assert (log.log_start, log.log_end) == (100, 100)
    assert [name for name in names if name.endswith(".deleted")] == []
