"""What followers were sent unread, before a log was cut: they store none of the records that come behind the cut.

`sendfile` over a Unix domain socket gives the receiver the pages of the page cache. If the log is cut and written anew
before it reads them, it finds other records in the same bytes, undamaged.
"""

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from syncline.model.ids import Offset
from syncline.records.batch import iterate
from syncline.records.errors import DecodeError
from syncline.storage.errors import ChangedRecordsError, StorageError
from syncline.storage.log import PartitionLog
from syncline.storage.log_directory import LogDirectory
from syncline.storage.reading import Slice
from syncline.storage.real_disk import RealDisk
from syncline.storage.settings import LogSettings
from tests.storage.batches import KEY, TOPIC_ID, append, batch, open_directory, truncate_to

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sends with Linux's sendfile")

COUNT = 64
VALUE = bytes(900)
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


def copies(first: int, epoch: int, last: int = COUNT) -> bytes:
    """Return what a follower got: batches of one record, of the same size in every epoch."""
    return b"".join(bytes(batch(number, leader_epoch=epoch, value=VALUE)) for number in range(first, last))


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
            append(leader, leader_epoch=5, value=VALUE)
    follower.append_as_follower(copies(0, 5, 20))
    ours, theirs = ends
    plan = leader.read_plan(Offset(20), 1 << 20, leader.log_end)
    assert isinstance(plan, Slice)
    found = plan.hot_range()
    assert found is not None
    original = bytes(found.read())
    assert found.send(ours.fileno(), 0) == len(original)

    truncate_to(leader, Offset(cut_at))
    leader.append_as_follower(copies(cut_at, next_epoch))
    arrived = theirs.recv(1 << 20, socket.MSG_WAITALL | socket.MSG_DONTWAIT)
    assert len(arrived) == len(original)
    try:
        follower.append_as_follower(arrived, records_epoch=5)
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
    plan = leader.read_plan(Offset(20), 8_000, leader.log_end)
    assert isinstance(plan, Slice)
    found = plan.hot_range()
    assert found is not None
    found.send(ours.fileno(), 0)
    truncate_to(leader, Offset(19))
    leader.append_as_follower(copies(19, 4))
    arrived = theirs.recv(1 << 20)

    if epochs_in(arrived) != {4}:
        pytest.skip("this kernel keeps the pages of what was cut off")
    with pytest.raises(ChangedRecordsError, match="the batch at 20 has leader epoch 4, and the leader says 5"):
        follower.append_as_follower(arrived, records_epoch=5)
    assert follower.log_end == 20
    assert follower.append_as_follower(copies(20, 5, 22), records_epoch=5).log_end == 22
