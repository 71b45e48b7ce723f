"""What followers were sent unread, before a log was cut: they store none of the records that come behind the cut.

`sendfile` over a Unix domain socket gives the receiver the pages of the page cache. If the log is cut and written anew
before it reads them, it finds other records in the same bytes, undamaged.
"""

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from syncline.model.ids import LeaderEpoch, Offset, TopicPartition
from syncline.records.batch import BatchHeader, iterate
from syncline.records.buffers import FileRange
from syncline.records.errors import DecodeError
from syncline.records.unread import Unread, mark_of, sum_of
from syncline.storage.errors import ChangedRecordsError, StorageError, UnexpectedOffsetError
from syncline.storage.log import PartitionLog
from syncline.storage.log_directory import LogDirectory
from syncline.storage.machine.real_disk import RealDisk
from syncline.storage.segments import incoming
from syncline.storage.segments.reading import Slice
from syncline.storage.settings import LogSettings
from tests.storage.batches import KEY, TOPIC_ID, append, batch, open_directory, truncate_to

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sends with Linux's sendfile")

COUNT = 64
VALUE_BYTES = 900
LARGE = LogSettings(segment_bytes=1 << 20, index_interval_bytes=4096)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection with room for all that is sent."""
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    with ours, theirs:
        yield ours, theirs


def log_on(disk: RealDisk, directory: Path) -> PartitionLog:
    """Return an empty log on this machine's files."""
    opened: LogDirectory = open_directory(disk, LARGE, str(directory))
    return opened.create(KEY, TOPIC_ID, LARGE)


def value(epoch: int) -> bytes:
    """Return what records of an epoch hold: another one in each, of the same size."""
    return bytes([epoch]) * VALUE_BYTES


def copies(first: int, epoch: int, last: int = COUNT) -> bytes:
    """Return what a follower got: batches of one record, of the same size in every epoch."""
    return b"".join(bytes(batch(number, leader_epoch=epoch, value=value(epoch))) for number in range(first, last))


def sent(log: PartitionLog, offset: int, max_bytes: int) -> tuple[FileRange, Unread]:
    """Return what a leader sends unread from an offset on, and what it says of that."""
    plan = log.read_plan(Offset(offset), max_bytes, log.log_end)
    assert isinstance(plan, Slice)
    found = log.unread(Offset(offset), plan)
    assert found is not None
    return found


def headers(data: bytes) -> list[BatchHeader]:
    """Return the headers of batches."""
    return [header for _, header in iterate(memoryview(data), 0, len(data))]


def epochs_in(data: bytes) -> set[int]:
    """Return the leader epochs of the batches in some bytes, up to the first that cannot be read."""
    found: set[int] = set()
    try:
        for _, header in iterate(memoryview(data), 0, len(data)):
            found.add(header.leader_epoch)
    except DecodeError:
        return found
    return found


@pytest.mark.parametrize("is_one_write", [False, True])
@pytest.mark.parametrize(("next_epoch", "cut_at"), [(6, 1), (6, 5), (6, 33), (4, 5), (4, 33)])
def test_follower_that_reads_late_stores_nothing_from_behind_a_cut(
    real_disk: RealDisk,
    tmp_path: Path,
    ends: tuple[socket.socket, socket.socket],
    next_epoch: int,
    cut_at: int,
    *,
    is_one_write: bool,
) -> None:
    """The next leader may bring records of earlier epochs, too: those of a leader that came before this one."""
    leader, follower = log_on(real_disk, tmp_path / "leader"), log_on(real_disk, tmp_path / "follower")
    if is_one_write:
        leader.append_as_follower(copies(0, 5))
    else:
        for _ in range(COUNT):
            append(leader, leader_epoch=5, value=value(5))
    follower.append_as_follower(copies(0, 5, 20))
    ours, theirs = ends
    found, unread = sent(leader, 20, 1 << 20)
    original = bytes(found.read())
    assert found.send(ours.fileno(), 0) == len(original)

    truncate_to(leader, Offset(cut_at))
    leader.append_as_follower(copies(cut_at, next_epoch))
    arrived = theirs.recv(1 << 20, socket.MSG_WAITALL | socket.MSG_DONTWAIT)
    assert len(arrived) == len(original)
    try:
        follower.append_as_follower(arrived, unread=unread)
    except StorageError:
        assert arrived != original
        assert follower.log_end == 20
    else:
        assert arrived == original


def test_pages_that_were_sent_do_change(
    real_disk: RealDisk, tmp_path: Path, ends: tuple[socket.socket, socket.socket]
) -> None:
    """Otherwise the test above shows nothing: here the whole answer has become another one, without damage."""
    leader, follower = log_on(real_disk, tmp_path / "leader"), log_on(real_disk, tmp_path / "follower")
    leader.append_as_follower(copies(0, 5))
    follower.append_as_follower(copies(0, 5, 20))
    ours, theirs = ends
    found, unread = sent(leader, 20, 8_000)
    found.send(ours.fileno(), 0)
    truncate_to(leader, Offset(19))
    leader.append_as_follower(copies(19, 4))
    arrived = theirs.recv(1 << 20)

    if epochs_in(arrived) != {4}:
        pytest.skip("this kernel keeps the pages of what was cut off")
    with pytest.raises(ChangedRecordsError, match="the batch at 20 has leader epoch 4, and the leader says 5"):
        follower.append_as_follower(arrived, unread=unread)
    assert follower.log_end == 20
    assert unread == Unread(5, total(copies(20, 5, 28)))
    assert follower.append_as_follower(copies(20, 5, 28), unread=unread).log_end == 28


def total(batches: bytes) -> int:
    """Return what a leader says of batches, over which no follower disagrees."""
    return sum_of(sum(mark_of(header.crc, header.next_offset) for header in headers(batches)))


@pytest.mark.parametrize("is_new_first", [False, True])
def test_no_mixture_of_two_contents_is_stored(*, is_new_first: bool) -> None:
    """A receiver may stop at any byte, and the kernel may keep any page; checksums do not cover epochs and offsets.

    Guards: a header of one epoch with the checksum and the records of another one was stored.
    """
    old, unread = copies(0, 5, 3), Unread(5, total(copies(0, 5, 3)))
    new = copies(0, 5, 1) + copies(1, 6, 3)
    assert len(new) == len(old)
    for place in range(len(old) + 1):
        arrived = new[:place] + old[place:] if is_new_first else old[:place] + new[place:]
        try:
            incoming.checked(memoryview(arrived), Offset(0), LeaderEpoch(5), TopicPartition("t", 0), unread)
        except StorageError:
            assert arrived != old, f"the right records are refused at {place}"
        else:
            assert arrived == old, f"a mixture is stored at {place}"


def test_batches_in_another_order_are_not_stored() -> None:
    """The next leader may get the retries of two producers in the other order; here each header begins as it was."""
    old = [bytes(batch(number, leader_epoch=5, value=value(number))) for number in (20, 21)]
    new = [bytes(batch(number, leader_epoch=6, value=value(41 - number))) for number in (20, 21)]
    arrived = b"".join(before[:16] + after[16:] for before, after in zip(old, new, strict=True))
    assert epochs_in(arrived) == {5}
    assert sorted(each.crc for each in headers(arrived)) == sorted(each.crc for each in headers(b"".join(old)))

    with pytest.raises(ChangedRecordsError, match="2 batches from 20 on add up to"):
        incoming.checked(
            memoryview(arrived), Offset(20), LeaderEpoch(5), TopicPartition("t", 0), Unread(5, total(b"".join(old)))
        )


def test_batches_at_lower_offsets_are_no_reason_to_give_up() -> None:
    """If the leader has read them, they are: then its log is another one."""
    unread = Unread(5, total(copies(20, 5, 22)))
    for refusal, said in ((ChangedRecordsError, unread), (UnexpectedOffsetError, None)):
        with pytest.raises(refusal, match="got offset 19 where 20 or more is due"):
            incoming.checked(memoryview(copies(19, 5, 21)), Offset(20), LeaderEpoch(5), TopicPartition("t", 0), said)


def test_batches_within_a_value_are_not_stored() -> None:
    """The next leader's record may hold what looks like later batches of the epoch, and lie where the answer begins."""
    unread = Unread(5, total(copies(20, 5, 22)))
    within = copies(25, 5, 27)

    with pytest.raises(ChangedRecordsError, match="2 batches from 20 on add up to"):
        incoming.checked(memoryview(within), Offset(20), LeaderEpoch(5), TopicPartition("t", 0), unread)


def test_only_what_was_written_last_in_the_newest_epoch_is_sent_unread(real_disk: RealDisk, tmp_path: Path) -> None:
    """Of other batches, the leader could not say what they are without reading them."""
    leader = log_on(real_disk, tmp_path / "leader")
    leader.append_as_follower(copies(0, 4, 30) + copies(30, 5))

    def is_unread(offset: int, max_bytes: int = 1 << 20) -> bool:
        plan = leader.read_plan(Offset(offset), max_bytes, leader.log_end)
        assert isinstance(plan, Slice)
        return leader.unread(Offset(offset), plan) is not None

    assert [is_unread(offset) for offset in (0, 29, 30, COUNT - 1)] == [False, False, True, True]
    leader.roll()
    assert not is_unread(30)
    leader.append_as_follower(copies(COUNT, 5, COUNT + 2))
    assert not is_unread(COUNT - 1)
    assert is_unread(COUNT)
