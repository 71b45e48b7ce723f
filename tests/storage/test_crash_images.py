"""Every picture that a power cut may leave is recovered, and nothing that was promised is missing (R1-R3).

The second half plants the faults that this check exists for (M49-M52, M54) and asserts that it finds them.
"""

import random
from collections.abc import Callable, Iterator

import pytest

from syncline.storage import recovery
from syncline.storage.log import PartitionLog
from tests.storage.crash_images import images
from tests.storage.crash_story import Account, Story, check
from tests.storage.recording_disk import Image, Mark, RecordingDisk, RecordingFile


def grow_and_roll(story: Story) -> None:
    """Appends over several segments, flushed at times, some by a producer."""
    story.append(3, with_producer=True)
    story.flush()
    story.append(5)
    story.pump()
    story.checkpoint(8)
    story.append(4, with_producer=True)
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


STORIES = [grow_and_roll, cut_the_end, cut_the_beginning, stop_and_start, delete_and_create]


def cuts(story: Story) -> Iterator[tuple[int, Account]]:
    """Yield each moment of a story with the account of it."""
    account = Account()
    for length, op in enumerate(story.disk.ops, 1):
        if isinstance(op, Mark):
            account = op.value
        yield length, account


def run(
    tell: Callable[[Story], None], *, is_kind: bool = False, deeply_every: int = 8, most: int | None = None
) -> tuple[int, int]:
    """Tell a story, then check the images of every moment of it; return how many there were and how many differed."""
    story = Story()
    tell(story)
    rng = random.Random(20)
    seen: set[tuple[str, Account]] = set()
    count = 0
    for length, account in cuts(story):
        for image in images(Image(), story.disk.ops[:length], rng, is_kind=is_kind):
            count += 1
            key = (repr(image.tree()), account)
            if key in seen:
                continue
            seen.add(key)
            check(image, account, deeply=len(seen) % deeply_every == 0)
            if most is not None and len(seen) >= most:
                return count, len(seen)
    return count, len(seen)


@pytest.mark.parametrize("tell", STORIES)
def test_recovery_keeps_every_promise_on_every_image_when_only_synced_names_survive(
    tell: Callable[[Story], None],
) -> None:
    """R1-R3 hold on all images of the story under the strict directory model."""
    count, distinct = run(tell)

    assert count > 1000, f"only {count} images, {distinct} distinct"
