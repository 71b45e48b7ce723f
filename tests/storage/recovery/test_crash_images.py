"""Every picture that a power cut may leave is recovered, and nothing that was promised is missing (R1-R3).

The second half plants the faults that this check exists for (M49-M53 and more) and asserts that it finds them.
CRASH_IMAGES_SHARE=1 in the environment checks all images instead of a sample.
"""

import os
import random
from collections.abc import Callable, Iterator

import pytest

from syncline.model.ids import Offset
from syncline.storage.checkpoints.last_life import CLEAN_MARK_FILE
from syncline.storage.errors import StorageError
from syncline.storage.log_directory import LogDirectory
from syncline.storage.recovery import scan
from syncline.storage.writing.flusher import Flusher
from tests.storage.crash_images import images, one_image
from tests.storage.crash_story import Account, Story, check
from tests.storage.recording_disk import Image, Mark, RecordingDisk, RecordingFile

SHARE = float(os.environ.get("CRASH_IMAGES_SHARE", "0.12"))


def grow_and_roll(story: Story) -> None:
    """Appends over several segments, flushed at times, some by a producer."""
    story.append(3, with_producer=True)
    story.flush()
    story.append(5)
    story.flush()
    story.pump()
    story.checkpoint(8)
    story.append(4, with_producer=True)
    story.pump()
    story.append(1)
    story.flush_later()
    story.lead()
    story.append(3)
    story.checkpoint(20)


def cut_the_end(story: Story) -> None:
    """A follower's life: appends, truncations into older segments, other records in their place."""
    story.append(8, with_producer=True)
    story.flush()
    story.checkpoint(10)
    story.append(2)
    story.truncate(13)
    story.lead()
    story.append(4, size=30)
    story.pump()
    story.flush()
    story.truncate(2)
    story.lead()
    story.append(6, with_producer=True)
    story.checkpoint(6)


def cut_the_beginning(story: Story) -> None:
    """Retention by size, deleted records, a log that expires wholly, one that starts elsewhere."""
    story.append(12, with_producer=True)
    story.pump()
    story.flush()
    story.checkpoint(20)
    story.retain(retention_bytes=900)
    story.lead()
    story.append(2)
    story.raise_log_start(22)
    story.flush()
    story.checkpoint(24)
    story.retain(retention_ms=1)
    story.append(2)
    story.flush()
    story.restart(100)


def stop_and_start(story: Story) -> None:
    """Clean stops, starts, and what happens between them."""
    story.append(7, with_producer=True)
    story.stop()
    story.start()
    story.append(3)
    story.flush()
    story.stop()
    story.start()
    story.truncate(9)
    story.lead()
    story.append(2)


def delete_and_create(story: Story) -> None:
    """A partition goes and another comes under its name."""
    story.append(6, with_producer=True)
    story.pump()
    story.flush()
    story.checkpoint(8)
    story.delete()
    story.recreate()
    story.append(2)


def stop_once(story: Story) -> None:
    """A clean stop, and a start that writes."""
    story.append(3)
    story.stop()
    story.start()
    story.append(2)


def cut_what_was_flushed(story: Story) -> None:
    """A truncation below the recovery point of the checkpoint."""
    story.append(4)
    story.flush()
    story.checkpoint(4)
    story.truncate(4)


STORIES = [grow_and_roll, cut_the_end, cut_the_beginning, stop_and_start, delete_and_create]
Tell = Callable[[Story], None]


def cuts(story: Story) -> Iterator[tuple[int, Account]]:
    """Yield each moment of a story with the account of it."""
    account = Account()
    for length, op in enumerate(story.disk.ops, 1):
        if isinstance(op, Mark):
            account = op.value
        yield length, account


def run(tell: Tell, *, is_kind: bool = False, share: float = SHARE, deeply_every: int = 4) -> int:
    """Tell a story, then check images of every moment of it; return how many differed and were checked."""
    story = Story()
    tell(story)
    rng, choice = random.Random(20), random.Random(21)
    seen: set[tuple[str, Account]] = set()
    for length, account in cuts(story):
        ops = story.disk.ops[:length]
        for image in images(Image(), ops, rng, is_kind=is_kind, wants=lambda: choice.random() < share):
            key = (repr(image.tree()), account)
            if key not in seen:
                seen.add(key)
                check(image, account, deeply=len(seen) % deeply_every == 0)
    return len(seen)


@pytest.mark.parametrize("tell", STORIES)
def test_recovery_keeps_every_promise_when_only_synced_names_survive(tell: Tell) -> None:
    """R1-R3 hold on the images of the story under the strict directory model."""
    assert run(tell) > 100


@pytest.mark.parametrize("tell", [grow_and_roll, cut_the_beginning])
def test_recovery_keeps_every_promise_when_a_sync_persists_the_name_too(tell: Tell) -> None:
    """R1-R3 hold under the kind directory model."""
    assert run(tell, is_kind=True, share=SHARE / 2) > 50


@pytest.mark.parametrize("tell", [grow_and_roll, cut_the_end])
def test_recovery_ends_the_same_when_it_is_killed_on_the_way(tell: Tell) -> None:
    """R3: a power cut at any operation of the recovery itself leaves what recovers to the same log."""
    story = Story()
    tell(story)
    rng, choice = random.Random(22), random.Random(23)
    moments = [each for each in cuts(story) if choice.random() < SHARE / 2]
    checked = 0
    for length, account in moments:
        first = one_image(Image(), story.disk.ops[:length], rng, choice)
        disk = RecordingDisk(first.copy(), boot="boot-2")
        LogDirectory.open(disk, "/data", **_opening(story)).abandon()
        for inner in range(len(disk.ops) + 1):
            second = one_image(first, disk.ops[:inner], rng, choice)
            check(second, account, deeply=False, boot="boot-3")
            checked += 1

    assert checked > 10


def _opening(story: Story) -> dict[str, object]:
    return {
        "node_id": 1,
        "cluster_id": "cluster",
        "directory_id": "directory",
        "settings": lambda _topic: story.settings,
    }


@pytest.mark.parametrize("tell", STORIES)
def test_recovery_loses_nothing_when_only_the_process_died(tell: Tell) -> None:
    """Without a power cut everything that was written is there again, flushed or not."""
    story = Story()
    tell(story)
    ops = story.disk.ops
    for length, account in cuts(story):
        if isinstance(ops[length - 1], Mark) and len(account.possible) == 1:
            image = Image()
            for op in ops[:length]:
                image.apply(op)
            check(image, account, deeply=False, boot="boot-1")


def _no_effect(*_: object, **__: object) -> None:
    """Stand for a safeguard that was forgotten."""


def without_checksum(patch: pytest.MonkeyPatch) -> None:
    """M49: recovery believes sizes."""
    patch.setattr(scan, "crc_matches", lambda *_: True)


def without_checkpoint_sync(patch: pytest.MonkeyPatch) -> None:
    """M50: a checkpoint gets its name before its bytes are safe."""
    patch.setattr(RecordingDisk, "sync_file_of_checkpoint", _no_effect)


def without_older_segments(patch: pytest.MonkeyPatch) -> None:
    """M51: a flush vouches for older segments that it has not synced."""
    patch.setattr(Flusher, "unsynced", lambda self: [self._segments.active] if self._segments.active.size_bytes else [])


def without_directory_sync(patch: pytest.MonkeyPatch) -> None:
    """M52: names are never synced."""
    patch.setattr(RecordingDisk, "sync_directory", _no_effect)


def without_removing_the_mark(patch: pytest.MonkeyPatch) -> None:
    """M53: the mark of a clean stop outlives the start."""
    remove = RecordingDisk.remove

    def all_but_the_mark(self: RecordingDisk, path: str) -> None:
        if not path.endswith(CLEAN_MARK_FILE):
            remove(self, path)

    patch.setattr(RecordingDisk, "remove", all_but_the_mark)


def without_lowering_the_recovery_point(patch: pytest.MonkeyPatch) -> None:
    """M54: the checkpoint still claims as flushed what a truncation has cut."""
    lower = Flusher.lower

    def only_in_memory(self: Flusher, offset: Offset) -> None:
        self.on_lowered = lambda: None
        lower(self, offset)

    patch.setattr(Flusher, "lower", only_in_memory)


def without_sync_after_a_write(patch: pytest.MonkeyPatch) -> None:
    """A flush that syncs nothing at all."""
    patch.setattr(RecordingFile, "sync", _no_effect)


@pytest.mark.parametrize(
    ("mutate", "tell"),
    [
        pytest.param(without_checksum, grow_and_roll, id="M49"),
        pytest.param(without_checkpoint_sync, grow_and_roll, id="M50"),
        pytest.param(without_older_segments, grow_and_roll, id="M51"),
        pytest.param(without_directory_sync, grow_and_roll, id="M52"),
        pytest.param(without_removing_the_mark, stop_once, id="M53"),
        pytest.param(without_lowering_the_recovery_point, cut_what_was_flushed, id="M54"),
        pytest.param(without_sync_after_a_write, grow_and_roll, id="no-sync"),
    ],
)
@pytest.mark.interpreted
def test_check_finds_the_fault_when_a_safeguard_is_missing(
    mutate: Callable[[pytest.MonkeyPatch], None], tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check is worth its time: each safeguard that it protects is missed at once."""
    mutate(monkeypatch)

    with pytest.raises((AssertionError, OSError, StorageError)):
        run(tell, share=1.0, deeply_every=8)
