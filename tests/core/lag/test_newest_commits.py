"""What a scrape reads of a slab: the newest commit of every partition, some at a time."""

import pytest

from syncline.core.lag.commit_slab import CommitSlab, KeptPlace
from syncline.model.ids import Offset, TopicPartition
from syncline.model.lag import OffsetPlace

PLACE = OffsetPlace(Offset(7), 700, 70, 71, -1, -1, 900, is_estimated=False)


@pytest.mark.parametrize("intervals", [1, 10, 15])
def test_newest_commits_are_those_that_single_slots_tell(intervals: int) -> None:
    """Also behind a window that is full, with a place, dropped, and with an offset that is none."""
    slab = CommitSlab(intervals)
    for partition in range(5):
        for offset in range(20 * partition, 20 * partition + 12):
            slab.add(slab.slot("t", partition), offset, 1_000 + offset, None)
    slab.add(slab.slot("u", 2), 7, 1_000, None)
    slab.set_place(slab.slot("u", 2), PLACE, 3)
    slab.add(slab.slot("u", 4), -1, 1_000, None)
    slab.drop("t", 3)
    found = [newest for batch in slab.batches(2) for newest in batch]

    assert [(each.key, each.offset) for each in found] == [
        *((TopicPartition("t", partition), 20 * partition + 11) for partition in (0, 1, 2, 4)),
        (TopicPartition("u", 2), 7),
    ]
    assert [each.place for each in found] == [None, None, None, None, KeptPlace(700, 70, 71, 3)]
    assert all(slab.find(*each.key) == each.slot for each in found)
    offsets = slab.offsets()
    assert all(offsets[each.slot] == each.offset for each in found)
    assert offsets[slab.slot("u", 4)] == -1
    assert slab.commit_count == 5 * 12 + 2


def test_batches_bear_changes_between_them() -> None:
    """The loop is freed between two batches, and groups commit then."""
    slab = CommitSlab()
    for partition in range(6):
        slab.add(slab.slot("t", partition), partition, 1_000, None)
    batches = slab.batches(2)
    first = next(batches)
    for partition in range(6):
        slab.drop("t", partition)
    slab.add(slab.slot("u", 0), 1, 2_000, None)

    assert [each.offset for each in first] == [0, 1]
    assert [each for batch in batches for each in batch] == []
