"""Mending: what another copy has goes back to where it was, and nothing else does."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.model.ids import LeaderEpoch, Offset
from syncline.records.batch import stamp
from syncline.storage.checkpoints.formats import CheckpointError
from syncline.storage.errors import DamagedLogError
from syncline.storage.log import PartitionLog
from syncline.storage.recovery.mending import copies, first_hole, fitting, patch
from syncline.storage.settings import LogSettings
from tests.storage.batches import KEY, TOPIC_ID, append, batch, contents, open_directory
from tests.storage.conftest import SMALL
from tests.storage.recording_disk import RecordingDisk

BATCH_BYTES: Final = 76
RECORDS: Final = 12
ALL_BYTES: Final = 1 << 20


def filled(settings: LogSettings = SMALL, *, is_flushed: bool = True) -> tuple[RecordingDisk, PartitionLog]:
    """Return a log of twelve records in three segments, written in terms 0 to 3."""
    disk = RecordingDisk()
    log = open_directory(disk, settings).create(KEY, TOPIC_ID, settings)
    for number in range(RECORDS):
        append(log, leader_epoch=number // 3)
    if is_flushed:
        log.flush()
    disk.pump()
    if not is_flushed and disk.exists(f"{log.directory}/leader-epoch-checkpoint"):
        disk.remove(f"{log.directory}/leader-epoch-checkpoint")
    return disk, log


def file_of(disk: RecordingDisk, log: PartitionLog, number: int) -> bytearray:
    """Return the bytes of a segment, to be damaged."""
    inode = disk.inode(log.segments[number].path())
    assert inode is not None
    return disk.image.contents[inode]


def mend(
    disk: RecordingDisk, log: PartitionLog, sources: list[tuple[RecordingDisk, str]], flushed_to: int = RECORDS
) -> bool:
    """Fill one hole after the other; return whether none is left."""
    while (hole := first_hole(disk, log.directory, Offset(flushed_to))) is not None:
        for source, directory in sources:
            offered = copies(source, directory, hole.offset, hole.leader_epoch, ALL_BYTES)
            made = patch(disk, log.directory, hole, offered)
            if made is not None:
                made.apply(disk)
                break
        else:
            return False
    return True


def logs_of(disk: RecordingDisk, log: PartitionLog) -> list[bytes]:
    """Return the bytes of all segment files."""
    names = [name for name in disk.list(log.directory) if name.endswith(".log")]
    return [disk.read_file(f"{log.directory}/{name}") for name in names]


spots = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4 * BATCH_BYTES - 1)), max_size=3)


@given(mine=spots, theirs=spots)
def test_two_damaged_copies_make_a_whole_one(mine: list[tuple[int, int]], theirs: list[tuple[int, int]]) -> None:
    """If each record is sound in one of them; else what neither has is named, and the rest stays as it is."""
    whole, log = filled()
    disk, other = RecordingDisk(whole.image.copy()), RecordingDisk(whole.image.copy())
    for target, flips in ((disk, mine), (other, theirs)):
        for number, position in flips:
            file_of(target, log, number)[position] ^= 4
    lost = damaged(whole, disk, log) & damaged(whole, other, log)

    is_whole = mend(disk, log, [(other, log.directory)])

    assert is_whole == (not lost)
    if is_whole:
        assert logs_of(disk, log) == logs_of(whole, log)
    else:
        hole = first_hole(disk, log.directory, Offset(RECORDS))
        assert hole is not None
        assert hole.offset == min(lost)


# Nothing shows that the epoch of an unflushed batch was damaged, unless the next one undoes it.
unlike_epochs = spots.map(lambda flips: [each for each in flips if not 12 <= each[1] % BATCH_BYTES < 16])


@given(mine=unlike_epochs)
def test_unflushed_log_becomes_what_it_was_or_stays_damaged(mine: list[tuple[int, int]]) -> None:
    """Nothing but the batches themselves says which leader wrote what; a whole copy is there."""
    whole, log = filled(is_flushed=False)
    disk = RecordingDisk(whole.image.copy())
    for number, position in mine:
        file_of(disk, log, number)[position] ^= 4

    try:
        is_whole = mend(disk, log, [(whole, log.directory)], flushed_to=0)
    except DamagedLogError:
        is_whole = False

    assert is_whole == (logs_of(disk, log) == logs_of(whole, log))
    # Only what no checksum covers can be beyond knowing: in a batch where another leader may have begun.
    is_covered = all(position % BATCH_BYTES >= 16 for _, position in mine)
    assert is_whole or not is_covered or len(mine) > 1


@pytest.mark.parametrize("number", range(3))
def test_epoch_that_the_next_batch_undoes_is_a_hole(number: int) -> None:
    """Terms only rise; the log is not flushed, so that no file says it."""
    whole, log = filled(is_flushed=False)
    disk = RecordingDisk(whole.image.copy())
    file_of(disk, log, 1)[number * BATCH_BYTES + 12] ^= 4

    assert mend(disk, log, [(whole, log.directory)], flushed_to=0)
    assert logs_of(disk, log) == logs_of(whole, log)


@pytest.mark.parametrize(("position", "is_mended"), [(70, True), (17, True), (8, True), (16, True), (3, False)])
def test_end_of_an_unflushed_log_is_put_back_if_something_says_what_it_was(position: int, is_mended: bool) -> None:
    """The last batch is damaged: what is left of it names its offset and its term, or has its checksum."""
    whole, log = filled(is_flushed=False)
    disk = RecordingDisk(whole.image.copy())
    file_of(disk, log, 2)[3 * BATCH_BYTES + position] ^= 4
    if position == 3:
        file_of(disk, log, 2)[3 * BATCH_BYTES + 17] ^= 4

    assert mend(disk, log, [(whole, log.directory)], flushed_to=0) == is_mended
    assert (logs_of(disk, log) == logs_of(whole, log)) == is_mended


def damaged(whole: RecordingDisk, disk: RecordingDisk, log: PartitionLog) -> set[int]:
    """Return the offsets whose batches differ from what was written."""
    rows = zip(logs_of(whole, log), logs_of(disk, log), strict=True)
    return {
        4 * number + index
        for number, (sound, now) in enumerate(rows)
        for index in range(4)
        if sound[index * BATCH_BYTES : (index + 1) * BATCH_BYTES]
        != now[index * BATCH_BYTES : (index + 1) * BATCH_BYTES]
    }


@pytest.mark.parametrize("number", [1, 2], ids=["middle", "last"])
def test_missing_end_of_a_segment_is_put_back(number: int) -> None:
    """The file is shorter than it was; of the last segment, what was flushed is missing at least."""
    whole, log = filled()
    disk = RecordingDisk(whole.image.copy())
    del file_of(disk, log, number)[BATCH_BYTES + 7 :]

    assert mend(disk, log, [(whole, log.directory)])
    assert logs_of(disk, log) == logs_of(whole, log)


def test_missing_segment_is_put_back_into_the_one_before() -> None:
    """The next start finds a whole log."""
    whole, log = filled()
    disk = RecordingDisk(whole.image.copy())
    disk.remove(log.segments[1].path())

    assert mend(disk, log, [(whole, log.directory)])
    again = open_directory(RecordingDisk(disk.image.copy(), boot="boot-2"), SMALL)
    assert contents(again.logs[KEY]) == contents(log)


def test_records_of_another_term_are_not_taken() -> None:
    """Another copy has a record at that offset, which was never committed: its leader was another."""
    whole, log = filled()
    disk, other = RecordingDisk(whole.image.copy()), RecordingDisk(whole.image.copy())
    file_of(disk, log, 1)[70] ^= 4
    forged = batch(4, leader_epoch=2, value=b"other")
    file_of(other, log, 1)[:BATCH_BYTES] = forged

    hole = first_hole(disk, log.directory, Offset(RECORDS))

    assert hole is not None
    assert (hole.offset, hole.leader_epoch) == (4, 1)
    assert copies(other, log.directory, hole.offset, hole.leader_epoch, ALL_BYTES) == b""
    assert fitting(hole, forged)[1] == 4
    assert patch(disk, log.directory, hole, forged) is None


@pytest.mark.parametrize("offered", ["damaged", "next", "garbage", "short"])
def test_nothing_that_is_offered_is_believed(offered: str) -> None:
    """Whoever answers may be damaged itself, or mistaken."""
    whole, log = filled()
    disk = RecordingDisk(whole.image.copy())
    file_of(disk, log, 1)[70] ^= 4
    sound = bytes(file_of(whole, log, 1)[:BATCH_BYTES])
    hole = first_hole(disk, log.directory, Offset(RECORDS))
    assert hole is not None
    data = {
        "damaged": sound[:-1] + b"\xff",
        "next": bytes(file_of(whole, log, 1)[BATCH_BYTES : 2 * BATCH_BYTES]),
        "garbage": bytes(200),
        "short": sound[:-1],
    }[offered]

    assert patch(disk, log.directory, hole, data) is None
    assert not disk.exists(f"{log.segments[1].path()}.mended")


@pytest.mark.parametrize(("offset", "leader_epoch"), [(9, 1), (5, 3)], ids=["offset", "epoch"])
def test_batch_whose_offset_or_epoch_was_damaged_is_a_hole(offset: int, leader_epoch: int) -> None:
    """No checksum covers them; the log's own history does."""
    whole, log = filled()
    disk = RecordingDisk(whole.image.copy())
    stamp(file_of(disk, log, 1), BATCH_BYTES, offset, leader_epoch)

    hole = first_hole(disk, log.directory, Offset(RECORDS))

    assert hole is not None
    assert (hole.base_offset, hole.position, hole.offset) == (4, BATCH_BYTES, 5)
    assert mend(disk, log, [(whole, log.directory)])
    assert logs_of(disk, log) == logs_of(whole, log)


def test_log_without_its_history_is_not_mended() -> None:
    """Nothing says which term wrote what is missing."""
    whole, log = filled()
    disk = RecordingDisk(whole.image.copy())
    file_of(disk, log, 1)[70] ^= 4
    disk.remove(f"{log.directory}/leader-epoch-checkpoint")

    with pytest.raises(CheckpointError, match="nothing says which leader wrote"):
        first_hole(disk, log.directory, Offset(RECORDS))


def test_copies_are_of_one_term_and_of_a_bounded_size() -> None:
    """At least one batch, though it is larger than what was asked for."""
    disk, log = filled()

    found = [
        len(copies(disk, log.directory, Offset(offset), LeaderEpoch(epoch), max_bytes)) // BATCH_BYTES
        for offset, epoch, max_bytes in ((4, 1, 10_000), (4, 1, 1), (4, 2, 10_000), (6, 2, 10_000), (99, 3, 10_000))
    ]

    assert found == [2, 1, 0, 2, 0]
